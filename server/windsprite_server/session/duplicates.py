"""Which writes to partitions were carried out already (spec 01, 6.6).

A client that repeats a write with the number that it had before must not write twice. So each
partition remembers for each of its writers which of the newest 128 request numbers it has seen.
What the reply was is not remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, TypeAlias

WINDOW: Final = 128
DEFAULT_WRITERS: Final = 4096
DEFAULT_TOTAL: Final = 262_144

_ALL_SEEN: Final = (1 << WINDOW) - 1

Writer: TypeAlias = tuple[bytes, int]
"""The client id of a session and the id of its user."""


class _Window:
    """The numbers of one writer; bit n of `seen` stands for `highest - n`."""

    __slots__ = ("highest", "seen")

    def __init__(self, request: int) -> None:
        self.highest = request
        self.seen = 1


class DuplicateWindows:
    """The writers of all partitions.

    Two bounds hold whatever clients do: on the writers of a partition, and on those of all
    partitions together. Beyond them the writer that has been idle longest is forgotten; of all
    partitions, in the one that has been idle longest. Memory: some 300 bytes for each writer of
    each partition.

    Partitions are known by anything that changes when one is purged or when its id comes again;
    it is hashed with every write, so it should be a tuple of numbers.
    """

    def __init__(self, writers: int = DEFAULT_WRITERS, total: int = DEFAULT_TOTAL) -> None:
        """No writes are known.

        Args:
            writers: As many are remembered of a partition; 0: none, so that nothing is ever taken
                for a repetition.
            total: As many are remembered of all partitions together.
        """
        self._writers = writers
        self._total = total
        self._count = 0
        self._partitions: OrderedDict[Hashable, OrderedDict[Writer, _Window]] = OrderedDict()

    def __len__(self) -> int:
        """Writers of all partitions."""
        return self._count

    def has(self, partition: Hashable, writer: Writer, request: int) -> bool:
        """Whether a write was carried out; one that is too old to be known counts as such."""
        windows = self._partitions.get(partition)
        window = None if windows is None else windows.get(writer)
        if window is None:
            return False
        age = window.highest - request
        return age >= 0 and (age >= WINDOW or bool(window.seen >> age & 1))

    def add(self, partition: Hashable, writer: Writer, request: int) -> None:
        """Note that a write was carried out."""
        windows = self._partitions.get(partition)
        window = None if windows is None else windows.get(writer)
        if windows is None or window is None:
            self._begin(partition, writer, request)
            return
        self._partitions.move_to_end(partition)
        windows.move_to_end(writer)
        ahead = request - window.highest
        if ahead > 0:
            window.seen = (window.seen << ahead & _ALL_SEEN | 1) if ahead < WINDOW else 1
            window.highest = request
        elif ahead > -WINDOW:
            window.seen |= 1 << -ahead

    def forget(self, partition: Hashable) -> None:
        """Forget the writers of a partition that is gone or purged."""
        self._count -= len(self._partitions.pop(partition, ()))

    def _begin(self, partition: Hashable, writer: Writer, request: int) -> None:
        windows = self._partitions.setdefault(partition, OrderedDict())
        windows[writer] = _Window(request)
        self._partitions.move_to_end(partition)
        self._count += 1
        if len(windows) > self._writers:
            self._drop_from(partition)
        elif self._count > self._total:
            self._drop_from(next(iter(self._partitions)))

    def _drop_from(self, partition: Hashable) -> None:
        """Forget the writer of a partition that has been idle longest."""
        windows = self._partitions[partition]
        windows.popitem(last=False)
        self._count -= 1
        if not windows:
            del self._partitions[partition]
