"""Batches of very many messages that were read from disk, kept while somebody reads them in parts.

To check such a batch takes long, and whoever reads a few messages at a time would have all of it
read and checked for each few.
"""

from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

from windsprite_protocol.batches import BatchInfo


class LargeBatch(NamedTuple):
    """A checked batch."""

    batch: memoryview
    info: BatchInfo


class LargeBatches:
    """The batches used last, by the path of their segment and their position in it.

    May be used in any thread.

    Args:
        limit: Bytes of all together.
    """

    __slots__ = ("_batches", "_limit", "_lock", "size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = Lock()
        self._batches: OrderedDict[tuple[str, int], LargeBatch] = OrderedDict()
        self.size = 0

    def get(self, path: str, position: int) -> LargeBatch | None:
        """The batch at a place, if it is kept."""
        with self._lock:
            found = self._batches.get((path, position))
            if found is not None:
                self._batches.move_to_end((path, position))
            return found

    def keep(self, path: str, position: int, batch: memoryview, info: BatchInfo) -> None:
        """Keep a checked batch, and let go of those not used for longest."""
        kept = LargeBatch(memoryview(bytes(batch)), info)
        with self._lock:
            before = self._batches.pop((path, position), None)
            self.size += len(batch) - (0 if before is None else len(before.batch))
            self._batches[path, position] = kept
            while self.size > self._limit:
                self.size -= len(self._batches.popitem(last=False)[1].batch)
