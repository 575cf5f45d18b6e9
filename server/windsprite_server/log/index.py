"""The sparse index of a segment: where to begin looking for an offset or a time.

In memory three flat arrays; on disk beside its segment as `BASE_OFFSET.index`, derived and
disposable.

    header  magic u64 | base offset u64 | incarnation u64
    entry   offset u64 | timestamp u64 | position u64

An entry tells where the batch with this base offset and append time begins. Whoever uses it sees in
the segment whether that is true. Two rows whose position has the highest bit set are an end mark:

    mark    next offset u64 | newest timestamp u64 | size u64 + 2^63
            checksum u64    | 0 u64                | 2^63

The segment was synced when it had this size, and these were its next offset and newest append time.
The segment can't tell whether that is true, so the mark has a checksum: XXH3 over its first row and
the base offset, seeded with the incarnation. All numbers are little-endian.
"""

import operator
import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from xxhash import xxh3_64_intdigest

ENTRY: Final = struct.Struct("<QQQ")
HEADER_SIZE: Final = ENTRY.size
DEFAULT_INTERVAL: Final = 64 * 1024
"""Bytes of a segment between two entries."""
END_MARK_SIZE: Final = 2 * ENTRY.size
# The last character is the version of this format.
_MAGIC: Final = int.from_bytes(b"wsindex1", "little")
_END_MARK: Final = 1 << 63
_OBJECT_BYTES: Final = 512


class EndMark(NamedTuple):
    """What a segment held when it was last synced as a whole.

    Attributes:
        next_offset: The offset after its last message.
        last_timestamp: Append time of its newest batch; 0 if there is none.
        size: Bytes of the segment.
    """

    next_offset: int
    last_timestamp: int
    size: int


class Entry(NamedTuple):
    """Where a batch begins."""

    offset: int
    timestamp: int
    position: int


class SegmentIndex:
    """Entries in ascending order; the first is always that of the first batch."""

    __slots__ = ("_interval", "_offsets", "_positions", "_timestamps")

    def __init__(self, interval: int) -> None:
        self._interval = interval
        self._offsets = array("Q")
        self._timestamps = array("Q")
        self._positions = array("Q")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def memory(self) -> int:
        """Bytes it takes in memory."""
        return _OBJECT_BYTES + ENTRY.size * len(self._offsets)

    @property
    def last(self) -> Entry | None:
        """The newest entry."""
        if not self._offsets:
            return None
        return Entry(self._offsets[-1], self._timestamps[-1], self._positions[-1])

    @property
    def next_position(self) -> int:
        """Where the next batch begins, or later, that is worth an entry."""
        return self._positions[-1] + self._interval if self._positions else 0

    def add(self, offset: int, timestamp: int, position: int) -> bool:
        """Note a batch if it is far enough from the last one noted; tell whether it was."""
        positions = self._positions
        if positions and position - positions[-1] < self._interval:
            return False
        self._offsets.append(offset)
        self._timestamps.append(timestamp)
        positions.append(position)
        return True

    def drop_last(self) -> None:
        """Forget the newest entry."""
        del self._offsets[-1], self._timestamps[-1], self._positions[-1]

    def drop_from(self, position: int) -> None:
        """Forget entries at or after a position."""
        keep = bisect_left(self._positions, position)
        del self._offsets[keep:], self._timestamps[keep:], self._positions[keep:]

    def at_or_before(self, offset: int) -> Entry | None:
        """The last entry whose batch begins at `offset` or before."""
        return self._entry(bisect_right(self._offsets, offset) - 1)

    def before_time(self, timestamp: int) -> Entry | None:
        """The last entry with an earlier append time."""
        return self._entry(bisect_left(self._timestamps, timestamp) - 1)

    def position_at_or_after(self, offset: int) -> int | None:
        """Where the first noted batch begins that starts at `offset` or later."""
        found = bisect_left(self._offsets, offset)
        return self._positions[found] if found < len(self._positions) else None

    def _entry(self, at: int) -> Entry | None:
        if at < 0:
            return None
        return Entry(self._offsets[at], self._timestamps[at], self._positions[at])

    def encode(self) -> bytes:
        """All entries as they stand in the file, after its header."""
        mixed = array("Q", bytes(3 * 8 * len(self._offsets)))
        mixed[0::3], mixed[1::3], mixed[2::3] = self._offsets, self._timestamps, self._positions
        if sys.byteorder == "big":
            mixed.byteswap()
        return mixed.tobytes()

    @classmethod
    def decode(
        cls, data: bytes, *, base_offset: int, incarnation: int, interval: int
    ) -> "tuple[SegmentIndex, EndMark | None] | None":
        """Read an index file.

        Returns:
            The index, and the end mark if it is the last thing in the file. `None` if this is not
            an index of that segment, or its entries are not in ascending order.
        """
        if data[:HEADER_SIZE] != encode_header(base_offset, incarnation):
            return None
        whole = (len(data) - HEADER_SIZE) // ENTRY.size * ENTRY.size
        mixed = array("Q", data[HEADER_SIZE : HEADER_SIZE + whole])
        if sys.byteorder == "big":
            mixed.byteswap()
        rows = data[HEADER_SIZE : HEADER_SIZE + whole]
        end = _decode_end_mark(rows[-END_MARK_SIZE:], base_offset, incarnation)
        index = cls(interval)
        index._offsets, index._timestamps, index._positions = mixed[0::3], mixed[1::3], mixed[2::3]
        if any(position & _END_MARK for position in index._positions):
            index._drop_end_marks()
        if not index._is_ascending(base_offset):
            return None
        return index, end

    def _drop_end_marks(self) -> None:
        keep = [at for at, position in enumerate(self._positions) if not position & _END_MARK]
        self._offsets = array("Q", [self._offsets[at] for at in keep])
        self._timestamps = array("Q", [self._timestamps[at] for at in keep])
        self._positions = array("Q", [self._positions[at] for at in keep])

    def _is_ascending(self, base_offset: int) -> bool:
        columns = self._offsets, self._timestamps, self._positions
        return all(all(map(operator.lt, column, column[1:])) for column in columns) and (
            not self._positions or (self._offsets[0], self._positions[0]) == (base_offset, 0)
        )


def encode_header(base_offset: int, incarnation: int) -> bytes:
    """The first bytes of an index file."""
    return ENTRY.pack(_MAGIC, base_offset, incarnation)


def encode_end_mark(mark: EndMark, base_offset: int, incarnation: int) -> bytes:
    """The rows that say how far a segment was synced."""
    row = ENTRY.pack(mark.next_offset, mark.last_timestamp, mark.size | _END_MARK)
    return row + ENTRY.pack(_checksum(row, base_offset, incarnation), 0, _END_MARK)


def decode_last_rows(
    rows: bytes, base_offset: int, incarnation: int
) -> tuple[Entry, EndMark] | None:
    """The last entry and the end mark behind it; `None` if that is not what the rows are."""
    mark = _decode_end_mark(rows[-END_MARK_SIZE:], base_offset, incarnation)
    if mark is None or len(rows) != ENTRY.size + END_MARK_SIZE:
        return None
    entry = Entry(*ENTRY.unpack_from(rows))
    return None if entry.position & _END_MARK else (entry, mark)


def _decode_end_mark(rows: bytes, base_offset: int, incarnation: int) -> EndMark | None:
    if len(rows) != END_MARK_SIZE:
        return None
    row = rows[: ENTRY.size]
    next_offset, last_timestamp, size = ENTRY.unpack(row)
    mark = EndMark(next_offset, last_timestamp, size & ~_END_MARK)
    return mark if rows == encode_end_mark(mark, base_offset, incarnation) else None


def _checksum(row: bytes, base_offset: int, incarnation: int) -> int:
    return xxh3_64_intdigest(row + base_offset.to_bytes(8, "little"), incarnation)
