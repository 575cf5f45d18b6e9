"""The newest batches in memory, within one byte budget over all partitions."""

from bisect import bisect_left, bisect_right
from collections import deque
from typing import Final

from windsprite_protocol.model.messages import Buffer
from windsprite_server.log.frames import Cut, cut_batch
from windsprite_server.log.results import ReadResult

OVERHEAD: Final = 512
"""What a cached batch costs beside its bytes: a view, numbers, places in lists."""
_SMALL: Final = 8 * 1024
_FEW: Final = 8
_TRIM: Final = 256
_OWNERS: Final = (bytes, bytearray)


class TailBudget:
    """The memory all tails share; when it is used up the oldest batch of all goes.

    Attributes:
        used: Bytes in use, with what each batch costs beside its bytes.
    """

    __slots__ = ("_limit", "_queue", "_stale", "used")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._queue: deque[tuple[Tail, int]] = deque()
        self._stale = 0
        self.used = 0

    def __len__(self) -> int:
        """Batches it keeps account of."""
        return len(self._queue)

    def charge(self, tail: "Tail", cost: int) -> None:
        """Count a batch just added to a tail, and make room for it."""
        self._queue.append((tail, cost))
        self.used += cost
        while self.used > self._limit:
            oldest, freed = self._queue.popleft()
            if oldest.drop_oldest(freed):
                self.used -= freed
            else:
                self._stale -= 1

    def refund(self, cost: int, batches: int) -> None:
        """Take back all that a closed tail was charged."""
        self.used -= cost
        # Its batches leave the queue when their turn comes, or when they are most of it.
        self._stale += batches
        if self._stale > _TRIM and 2 * self._stale > len(self._queue):
            self._queue = deque(entry for entry in self._queue if not entry[0].is_closed)
            self._stale = 0


class Tail:
    """The newest batches of one partition, without gaps up to the end of its log.

    Attributes:
        is_closed: Whether it is of no use any more.
    """

    __slots__ = (
        "_bases", "_batches", "_budget", "_cost", "_head", "_marks", "_next", "_starts",
        "_times", "is_closed",
    )  # fmt: skip

    def __init__(self, budget: TailBudget) -> None:
        self._budget = budget
        # Parallel lists; what stands before `_head` is forgotten already.
        self._bases: list[int] = []
        self._times: list[int] = []
        self._batches: list[Buffer | None] = []
        # Of batches with very many messages.
        self._marks: dict[int, tuple[int, ...]] = {}
        # Bytes before each batch, and at last before the next: sizes of runs by subtraction.
        self._starts: list[int] = [0]
        self._head = 0
        self._next = 0
        self._cost = 0
        self.is_closed = False

    def add(
        self,
        base_offset: int,
        count: int,
        timestamp: int,
        batch: memoryview,
        marks: tuple[int, ...] = (),
    ) -> None:
        """Keep the batch that was just appended; `marks` are those of its `BatchInfo`."""
        size = len(batch)
        whole = batch.obj
        held = len(whole) if isinstance(whole, _OWNERS) else size
        # A view keeps all of what it is a view of. A small batch in a large receive buffer is
        # cheaper as a copy.
        kept: Buffer = batch
        if held > 2 * size + OVERHEAD:
            kept, held = bytes(batch), size
        self._bases.append(base_offset)
        self._times.append(timestamp)
        self._batches.append(kept)
        self._starts.append(self._starts[-1] + size)
        self._next = base_offset + count
        if marks:
            self._marks[base_offset] = marks
        cost = held + OVERHEAD
        self._cost += cost
        self._budget.charge(self, cost)

    def drop_oldest(self, cost: int) -> bool:
        """Forget the oldest batch; tell whether there was one."""
        head = self._head
        if head == len(self._bases):
            return False
        self._batches[head] = None
        self._marks.pop(self._bases[head], None)
        self._head = head = head + 1
        self._cost -= cost
        if head >= _TRIM and 2 * head > len(self._bases):
            del self._bases[:head], self._times[:head], self._batches[:head], self._starts[:head]
            self._head = 0
        return True

    def close(self) -> None:
        """Forget everything, for good."""
        self.is_closed = True
        self._budget.refund(self._cost, len(self._bases) - self._head)
        self._bases, self._times, self._batches, self._starts = [], [], [], [0]
        self._marks = {}
        self._head = self._cost = 0

    def covers(self, offset: int) -> bool:
        """Whether the batch with this offset, and all after it, are here."""
        return self._head < len(self._bases) and offset >= self._bases[self._head]

    def at_or_after(self, timestamp: int) -> int | None:
        """Base offset of the first batch appended at `timestamp` or later.

        The offset after the end if all are older; `None` if older batches than those here would
        have to be asked.
        """
        head, times = self._head, self._times
        if head == len(times) or timestamp <= times[head]:
            return None
        found = bisect_left(times, timestamp, head)
        return self._bases[found] if found < len(times) else self._next

    def read(self, start: int, end: int, room: int) -> ReadResult:
        """Messages from `start` up to `end`, in at most `room` bytes but at least one message.

        Args:
            start: An offset that is covered.
            end: More than `start`; nothing at or after it is returned.
            room: Bytes of all records together.
        """
        bases, starts = self._bases, self._starts
        first = bisect_right(bases, start, self._head) - 1
        stop = bisect_left(bases, end, first + 1)
        # The batches that fit, the first one counted as if it were whole.
        stop = min(stop, bisect_right(starts, starts[first] + room, first + 1, stop + 1) - 1)
        if stop <= first + 1:
            cut = self._cut(first, start, end, room)
            count = cut.messages_count
            return ReadResult(cut.pieces, count, cut.size, start + count - 1)
        end = min(end, self._end_of(stop - 1))
        size = starts[stop] - starts[first]
        records: list[Buffer] = []
        ending: tuple[Buffer, ...] = ()
        if start > bases[first]:
            cut = self._cut(first, start, end, room)
            last = start + cut.messages_count - 1
            if last + 1 < bases[first + 1]:
                return ReadResult(cut.pieces, cut.messages_count, cut.size, last)
            size += cut.size - (starts[first + 1] - starts[first])
            records.extend(cut.pieces)
            first += 1
        if end < self._end_of(stop - 1):
            stop -= 1
            cut = self._cut(stop, start, end, room)
            end = bases[stop] + cut.messages_count
            size += cut.size - (starts[stop + 1] - starts[stop])
            ending = cut.pieces
        records.extend(self._joined(first, stop))
        records.extend(ending)
        return ReadResult(tuple(records), end - start, size, end - 1)

    def _end_of(self, at: int) -> int:
        """The offset after a batch."""
        return self._bases[at + 1] if at + 1 < len(self._bases) else self._next

    def _cut(self, at: int, start: int, end: int, room: int) -> Cut:
        """The messages of one batch that are between `start` and `end`."""
        base, following = self._bases[at], self._end_of(at)
        batch = self._batches[at]
        assert batch is not None  # noqa: S101 - what is before the head is never asked for
        first, stop = max(start, base) - base, min(end, following) - base
        marks = self._marks.get(base, ())
        return cut_batch(batch, following - base, first, stop, room, marks=marks)

    def _joined(self, first: int, stop: int) -> list[Buffer]:
        """Whole batches; many small ones as one buffer, which costs less than to send each."""
        batches = [batch for batch in self._batches[first:stop] if batch is not None]
        if len(batches) <= _FEW or self._starts[stop] - self._starts[first] > _SMALL * len(batches):
            return batches
        return [b"".join(batches)]
