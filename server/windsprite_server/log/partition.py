"""The log of one partition."""

from collections.abc import Awaitable

from windsprite_server.log.keys import PartitionKey, PartitionOptions
from windsprite_server.log.results import ReadResult


class PartitionLog:
    """An append-only log of batches, and the consumer offsets stored for it.

    Belongs to one event loop; nothing here may be called from another thread. What readers and
    counters show is durable under the partition's policy. Offsets have no gaps.

    Hot path of a handler:

        base = log.append(batch, messages_count, clock.now_us())
        if log.visible_end <= base:  # policy `persisted`: not synced yet
            await log.wait_visible(base + messages_count)

        found = log.read(start, count, max_bytes)
        if not isinstance(found, ReadResult):  # cold: a thread fetches it
            found = await found
    """

    key: PartitionKey
    options: PartitionOptions

    @property
    def first_offset(self) -> int:
        """The oldest offset still stored; equals `visible_end` while there is none."""

    @property
    def next_offset(self) -> int:
        """The offset the next appended message gets."""

    @property
    def visible_end(self) -> int:
        """The first offset readers don't see yet."""

    @property
    def durable_end(self) -> int:
        """The first offset that has not been synced to stable storage."""

    @property
    def is_empty(self) -> bool:
        """Whether it never held a visible message."""

    @property
    def current_offset(self) -> int:
        """Offset of the newest visible message (H of spec 04); 0 while there is none."""

    @property
    def messages_count(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def segments_count(self) -> int:
        """Segments, the active one included."""

    @property
    def last_timestamp(self) -> int:
        """Append time of the newest batch in microseconds; 0 while there is none."""

    def append(self, batch: memoryview, messages_count: int, now_us: int) -> int:
        """Stamp a verified batch in place, write it and return its base offset.

        Synchronous: one write to the page cache. `batch` belongs to the log from here on and must
        never change again.

        Raises:
            LogUnavailableError: The disk refused; nothing was appended, try again later.
            LogFailedError: No more writes until restart.
            LogClosedError: The partition was removed.
        """

    async def wait_visible(self, end: int) -> None:
        """Wait until all offsets below `end` are durable under the policy, and so visible.

        Raises:
            LogFailedError: They never will be.
        """

    async def wait_durable(self, end: int) -> None:
        """Wait until all offsets below `end` are synced, whatever the policy is."""

    def read(
        self, start: int, count: int, max_bytes: int
    ) -> ReadResult | Awaitable[ReadResult]:
        """Read up to `count` messages from offset `start` on (spec 04, 5.3 to 5.5)."""

    def offset_at_or_after(self, timestamp: int) -> int | Awaitable[int]:
        """Base offset of the first visible batch appended at `timestamp` or later.

        `visible_end` if there is none.
        """

    # Consumer offsets (spec 04, 7): `log.consumers` and `log.groups`, each an OffsetTable:
    #   get(number) -> int | None; store(number, offset); store_max(number, offset);
    #   delete(number) -> bool; async wait_durable()

    async def delete_segments(self, count: int) -> None:
        """Drop the `count` oldest sealed segments, subject to the barrier (spec 03, 4.15)."""

    async def enforce_retention(self, now_us: int, expiry_us: int | None, budget: int | None) -> int:
        """Remove what expiry, size budget and watermark allow; return the number of segments."""
