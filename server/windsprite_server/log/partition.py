"""The log of one partition."""

from bisect import bisect_right
from collections.abc import Awaitable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Final

from windsprite_protocol.batches import BatchInfo, stamp_batch
from windsprite_protocol.topic_options import Durability
from windsprite_server.log import retention
from windsprite_server.log.context import Context
from windsprite_server.log.durability import GroupSync, SyncJob
from windsprite_server.log.errors import (
    DiskFullError,
    LogClosedError,
    LogError,
    LogFailedError,
    unavailable,
)
from windsprite_server.log.fetching import Fetcher
from windsprite_server.log.index import SegmentIndex
from windsprite_server.log.keys import PartitionKey, PartitionOptions
from windsprite_server.log.offsets import OffsetFile
from windsprite_server.log.reading import Part, Source, find_time, read_messages
from windsprite_server.log.removal import Condemned
from windsprite_server.log.results import ReadResult
from windsprite_server.log.retention import SealedSegment
from windsprite_server.log.segment import Segment, SegmentSync
from windsprite_server.log.tail import Tail

NOTHING: Final = ReadResult((), 0, 0, -1)
REMOVALS_MAX: Final = 16
"""Segments removed at once, so that a long removal does not keep a thread (spec 04, 8.3)."""
_WATERMARK: Final = 0
_REPLICATED: Final = Durability.REPLICATED  # members of an enumeration are slow to look up

_base_offset = attrgetter("base_offset")


class PartitionLog:
    """An append-only log of batches, and the consumer offsets stored for it.

    Belongs to one event loop; nothing here may be called from another thread. What readers and
    counters show is durable under the partition's policy. Offsets have no gaps.

    Hot path of a handler:

        base = log.append(batch, info, clock.now_us())
        if log.visible_end <= base:  # policy `persisted`: not synced yet
            await log.wait_visible(log.next_offset)

        found = log.read(start, count, max_bytes)
        if not isinstance(found, ReadResult):  # cold: a thread fetches it
            found = await found

    Attributes:
        key: Which life of which partition this is.
        options: What its topic asks of it.
        first_offset: The oldest offset still stored; `visible_end` while there is none.
        next_offset: The offset that the next appended message gets.
        visible_end: The first offset that readers don't see.
        durable_end: The first offset that no sync has covered.
        size_bytes: Bytes of the visible batches.
        last_timestamp: Append time of the newest batch in microseconds; 0 if there never was one.
        offsets: The stored consumer offsets: `consumers` and `groups`.
    """

    __slots__ = (
        "_active", "_bytes_end", "_bytes_start", "_condemned", "_context", "_directory",
        "_failure", "_fetcher", "_has_new_entries", "_is_closing", "_is_entry_synced",
        "_is_marked", "_segments", "_snapshot", "_sync", "_tail", "_unnoted_request",
        "_visible_bytes_end", "_visible_segment", "_visible_size", "durable_end", "first_offset",
        "key", "last_timestamp", "next_offset", "offsets", "options", "visible_end",
    )  # fmt: skip

    def __init__(
        self,
        context: Context,
        store_directory: str,
        key: PartitionKey,
        options: PartitionOptions,
        *,
        segments: list[Segment],
        offsets: OffsetFile,
        is_marked: bool,
    ) -> None:
        """Take over what was found on disk; `LogStore` does it.

        Args:
            context: What all logs share.
            store_directory: The directory of all logs.
            key: Which life of which partition this is.
            options: What its topic asks of it.
            segments: Oldest first, without gaps in their offsets; at least the active one.
            offsets: The consumer offsets.
            is_marked: Whether all segments end with a mark that says they were synced.
        """
        self._context = context
        self._directory = f"{store_directory}/{key.directory_name}"
        self._segments = segments
        self._active = active = segments[-1]
        self._tail = Tail(context.tail_budget)
        self._failure: LogError | None = None
        self._sync = GroupSync(
            context.sync_turns, self._prepare_sync, self._on_synced, self._on_failed
        )
        self._has_new_entries = True
        self._is_entry_synced = False
        self._is_marked = is_marked
        self._is_closing = False
        self._condemned = Condemned(context, self._directory)
        self._fetcher = Fetcher(context, key)
        # Up to which offset removal was asked for when that could not be noted on the disk.
        self._unnoted_request = -1
        self.key = key
        self.options = options
        self.offsets = offsets
        self.first_offset = segments[0].base_offset
        self.next_offset = self.visible_end = active.next_offset
        unsynced = (segment.base_offset for segment in segments if segment.is_unsynced)
        self.durable_end = next(unsynced, self.next_offset)
        self.last_timestamp = max(segment.last_timestamp for segment in segments)
        # Bytes of all batches up to the end, to the visible end, and of those already removed.
        self._bytes_end = sum(segment.size for segment in segments)
        self._visible_bytes_end = self._bytes_end
        self._bytes_start = 0
        # The segment in which the visible part ends, and where.
        self._visible_segment = active
        self._visible_size = active.size
        self._snapshot = self._bytes_end, active, active.size
        for segment in segments[:-1]:
            if segment.index is not None:
                context.loaded_indexes.touch(segment)
        if active.size >= options.segment_size:
            self._begin_segment()

    @property
    def is_empty(self) -> bool:
        """Whether there never was a visible message in this life of the partition."""
        return self.visible_end == 0

    @property
    def current_offset(self) -> int:
        """Offset of the newest visible message (H in spec 04); 0 while there is none."""
        return self.visible_end - 1 if self.visible_end else 0

    @property
    def messages_count(self) -> int:
        """Visible messages."""
        return self.visible_end - self.first_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of the visible batches."""
        return self._visible_bytes_end - self._bytes_start

    @property
    def segments_count(self) -> int:
        """Segments, the active one included."""
        return len(self._segments)

    def append(self, batch: memoryview, info: BatchInfo, now_us: int) -> int:
        """Stamp a verified batch in place, write it behind the others and return its base offset.

        One write to the page cache. The log keeps `batch`, so it must never change again; under
        the policy `persisted` it becomes visible later (`wait_visible`).

        Args:
            batch: The whole batch, in memory that can be written to.
            info: What `verify_batch` said of it.
            now_us: The time; the batch gets a later one if the clock was set back.

        Raises:
            LogUnavailableError: The disk refused; nothing was appended, try again later.
            LogFailedError: No more writes until restart.
            LogClosedError: The partition was removed.
        """
        if self._failure is not None:
            raise self._failure
        count = info.header.message_count
        base = self.next_offset
        size, options = len(batch), self.options
        timestamp = now_us if now_us > self.last_timestamp else self.last_timestamp + 1
        stamp_batch(
            batch,
            partition_id=self.key.partition_id,
            base_offset=base,
            base_timestamp=timestamp,
            checksums=info.checksums,
        )
        active, space = self._active, self._context.space
        try:
            space.take(size)
            if not active.size:
                self._begin_file(active)
                if options.preallocate_segments and space.has_room(options.segment_size):
                    active.reserve(options.segment_size)
            active.append(batch, count, timestamp)
        except OSError as error:
            space.refused(error)
            raise unavailable("the batch can't be written", error) from error
        if space.is_refusing:
            space.accepted()
        self._tail.add(base, count, timestamp, batch, info.marks)
        self.last_timestamp = timestamp
        self.next_offset = base + count
        self._bytes_end += size
        self._is_marked = False
        is_full = active.size >= options.segment_size
        if is_full:
            self._begin_segment()
        if options.durability is _REPLICATED:
            self.visible_end = self.next_offset
            self._visible_bytes_end = self._bytes_end
            if is_full:
                self._sync.request(self.next_offset)
        else:
            self._sync.request(self.next_offset)
        self._context.changed.add(self)
        return base

    async def wait_visible(self, end: int) -> None:
        """Wait until all offsets below `end` are durable under the policy, and so visible.

        Raises:
            LogFailedError: They never will be.
            LogClosedError: The partition was removed meanwhile.
        """
        if self.visible_end < end:
            await self.wait_durable(end)

    async def wait_durable(self, end: int) -> None:
        """Wait until all offsets below `end` are synced to stable storage, whatever the policy is.

        Raises:
            LogFailedError: They never will be.
            LogClosedError: The partition was removed meanwhile.
        """
        if self.durable_end < end:
            if self._failure is not None:
                raise self._failure
            await self._sync.wait(min(end, self.next_offset))

    def read(self, start: int, count: int, max_bytes: int) -> ReadResult | Awaitable[ReadResult]:
        """Read up to `count` visible messages from offset `start` on (spec 04, 5.3 to 5.5).

        An older `start` than the oldest message counts as that one. At least one message is
        returned if there is one, however large; damage ends the read and is named. While clients
        have not taken what was read for them, fewer bytes than asked for are read. What is in
        memory is returned at once; else something to await, which is being fetched already.

        Raises:
            LogUnavailableError: The disk failed; also from the awaited.
            LogClosedError: The partition was removed.
        """
        start = max(start, self.first_offset)
        end = min(start + count, self.visible_end)
        if start >= end:
            return NOTHING
        if self._tail.covers(start):
            return self._tail.read(start, end, min(max_bytes, self._context.reply_room()))
        return self._read_cold(start, end, max_bytes)

    def _read_cold(
        self, start: int, end: int, max_bytes: int
    ) -> ReadResult | Awaitable[ReadResult]:
        reply_room = self._context.reply_room

        def work(source: Source, parts: Sequence[Part]) -> ReadResult:
            # Asked when its turn has come: others may have been waiting for the disk before.
            return read_messages(source, parts, start, end, min(max_bytes, reply_room()))

        return self._fetcher.fetch(self._parts(start, end, max_bytes), work)

    def offset_at_or_after(self, timestamp: int) -> int | Awaitable[int]:
        """Base offset of the first visible batch appended at `timestamp` or later.

        `visible_end` if there is none. If damage is in the way, its first offset: a read from there
        says so. What is in memory is found at once, as with `read`.

        Raises:
            LogUnavailableError: The disk failed; also from the awaited.
            LogClosedError: The partition was removed.
        """
        found = self._tail.at_or_after(timestamp)
        if found is not None:
            return min(max(found, self.first_offset), self.visible_end)
        if timestamp > self.last_timestamp:
            return self.visible_end
        segments = self._segments
        young = (at for at, one in enumerate(segments) if one.last_timestamp >= timestamp)
        at = next(young, len(segments) - 1)
        segment = segments[at]
        first, end = self.first_offset, self.visible_end
        sound_end = self._sound_end_before(at)

        def work(source: Source, parts: Sequence[Part]) -> int:
            found = find_time(source, parts[0], timestamp, sound_end) if parts else end
            return min(max(found, first), end)

        return self._fetcher.fetch(self._parts(segment.base_offset, segment.next_offset, 0), work)

    @property
    def owes_removals(self) -> bool:
        """Whether consumers or the disk hold back what `enforce_retention` is to remove."""
        return bool(self._condemned) or self._requested(self._sealed()) > 0

    async def request_removal(self, count: int) -> None:
        """Have the `count` oldest sealed segments removed by `enforce_retention` (spec 03, 4.15).

        The request is durable, and in force until consumers have moved on. If the disk is full, it
        is in force nevertheless if all of it can be carried out at once, which makes room.

        Raises:
            LogUnavailableError: The disk refused; nothing will be removed.
            LogFailedError: No more writes until restart.
            LogClosedError: The partition was removed.
        """
        sealed = self._sealed()
        count = min(count, len(sealed))
        if not count:
            return
        end_offset = sealed[count - 1].end_offset
        try:
            self.offsets.watermarks.store_max(_WATERMARK, end_offset)
        except DiskFullError:
            if retention.removable(sealed, count, self.offsets.barrier()) < count:
                raise
            self._unnoted_request = max(self._unnoted_request, end_offset)
        else:
            await self.offsets.wait_durable()

    async def enforce_retention(
        self, now_us: int = 0, expiry_us: int | None = None, budget: int | None = None
    ) -> int:
        """Remove the sealed segments that nobody wants to keep (spec 03, 6.2 and 6.3).

        Args:
            now_us: The time.
            expiry_us: The age at which messages expire; `None`: never.
            budget: Bytes that sealed segments may take (`retention.size_budget`); `None`: any.

        Returns:
            How many segments were removed, at most `REMOVALS_MAX`: if so many, there may be more.

        Raises:
            LogUnavailableError: The disk refused; some may have been removed.
            LogClosedError: The partition was removed.
        """
        if isinstance(self._failure, LogClosedError):
            raise self._failure
        sealed = self._sealed()
        wanted = 0
        if expiry_us is not None:
            wanted = retention.expired(sealed, now_us, expiry_us)
        if budget is not None:
            wanted = max(wanted, retention.oversized(sealed, budget))
        wanted = max(wanted, self._requested(sealed))
        count = retention.removable(sealed, wanted, self.offsets.barrier())
        return await self._remove_oldest(min(count, REMOVALS_MAX))

    async def close(self, error: LogClosedError) -> None:
        """Make all durable, mark the clean end, and refuse everything from now on.

        Args:
            error: What later callers get.
        """
        try:
            await self._sync.drain()
            self._is_closing = True
            if not self._is_marked and self._failure is None:
                await self._sync.wait(self.next_offset)
            await self.offsets.sync()
        except LogError as failure:
            self._context.logger.warning(
                "log_not_closed_cleanly", directory=self._directory, reason=str(failure)
            )
        self.abandon(error)

    def abandon(self, error: LogClosedError) -> None:
        """Refuse everything from now on, and let go of files and memory, synced or not."""
        self._failure = error
        self._sync.fail(error)
        self.offsets.close(error)
        self._tail.close()
        for segment in self._segments:
            self._context.loaded_indexes.forget(segment)
            segment.close_files()

    def refuse_writes(self, error: LogError) -> None:
        """Take no more writes, for this reason; what is visible stays readable."""
        self._failure = error

    async def drain(self) -> None:
        """Wait until no thread works on the files of this log."""
        await self._sync.drain()
        await self.offsets.drain()
        await self._condemned.drain()

    def _requested(self, sealed: list[SealedSegment]) -> int:
        """How many of the oldest segments somebody asked to be removed."""
        noted = self.offsets.watermarks.get(_WATERMARK)
        end_offset = max(self._unnoted_request, -1 if noted is None else noted)
        return retention.up_to(sealed, end_offset)

    def _sealed(self) -> list[SealedSegment]:
        return [
            SealedSegment(segment.next_offset - 1, segment.size, segment.last_timestamp)
            for segment in self._segments[:-1]
            if segment.next_offset <= self.visible_end
        ]

    def _begin_file(self, segment: Segment) -> None:
        if segment.ensure_file():
            self._has_new_entries = True

    def _begin_segment(self) -> None:
        """Seals the active segment; the next one gets its file with its first batch."""
        context = self._context
        context.loaded_indexes.touch(self._active)
        self._active = segment = Segment(
            context.files,
            context.descriptors,
            self._directory,
            self.next_offset,
            self.key.incarnation,
        )
        segment.index = SegmentIndex(context.limits.index_interval)
        self._segments.append(segment)

    def _prepare_sync(self) -> SyncJob:
        context = self._context
        tasks: list[SegmentSync] = []

        def end() -> None:
            for task in tasks:
                task.segment.end_sync(task)

        try:
            for segment in self._to_sync():
                with_mark = self._is_closing or segment is not self._active
                tasks.append(segment.prepare_sync(with_mark=with_mark))
        except OSError:
            end()
            raise
        tasks.reverse()
        directories = [self._directory] if self._has_new_entries else []
        if not self._is_entry_synced:
            directories.append(str(Path(self._directory).parent))
        self._has_new_entries = False
        self._snapshot = self._bytes_end, self._active, self._active.size

        def run() -> None:
            for task in tasks:
                task.segment.run_sync(task)
            for directory in directories:
                context.files.sync_directory(directory)

        return SyncJob(self.next_offset, run, end)

    def _to_sync(self) -> list[Segment]:
        """The segments that need a sync, newest first."""
        found = []
        for segment in reversed(self._segments):
            is_active = segment is self._active
            if segment.is_unsynced or (is_active and self._is_closing and segment.size):
                found.append(segment)
            elif not is_active:
                break
        return found

    def _on_synced(self, point: int) -> None:
        self.durable_end = point
        self._is_entry_synced = True
        if self.options.durability is Durability.PERSISTED:
            self.visible_end = point
            self._visible_bytes_end, self._visible_segment, self._visible_size = self._snapshot
            self._context.changed.add(self)

    def _on_failed(self, error: LogFailedError) -> None:
        if self._failure is None:
            self.refuse_writes(error)
            self._context.logger.error("log_failed", directory=self._directory, reason=str(error))

    def _parts(self, start: int, end: int, room: int) -> list[Part]:
        """The segments with these offsets, enough of them for `room` bytes; their files pinned."""
        if isinstance(self._failure, LogClosedError):
            raise self._failure
        parts: list[Part] = []
        # How much of the first segment comes before `start` is not known here.
        size = 0
        at = max(0, bisect_right(self._segments, start, key=_base_offset) - 1)
        try:
            while at < len(self._segments) and (not parts or size < room):
                segment = self._segments[at]
                visible = self._visible_size_of(segment)
                if segment.base_offset >= end:
                    break
                file = segment.file_for_reading()
                file.pins += 1
                next_offset = min(segment.next_offset, self.visible_end)
                size += visible if parts else 0
                is_sealed = segment is not self._active
                parts.append(Part(segment, file, visible, next_offset, is_sealed))
                at += 1
        except OSError as error:
            self._fetcher.release(parts)
            raise self._fetcher.unreadable(error, parts) from error
        return parts

    def _sound_end_before(self, at: int) -> int:
        """Where a segment begins, or the damage that comes right before it."""
        offset = self._segments[at].base_offset
        for segment in reversed(self._segments[:at]):
            # A reader in a thread may add some meanwhile.
            gaps = list(segment.gaps.values())
            offset = next((gap.offset for gap in gaps if gap.next_offset == offset), offset)
            if offset > segment.base_offset:
                break
        return offset

    def _visible_size_of(self, segment: Segment) -> int:
        if segment.next_offset <= self.visible_end:
            return segment.size
        return self._visible_size if segment is self._visible_segment else 0

    async def _remove_oldest(self, count: int) -> int:
        if count:
            # The name of the active segment's file is what keeps the offsets going.
            active = self._active
            try:
                self._begin_file(active)
            except OSError as error:
                raise unavailable("segments can't be removed", error) from error
            if not active.size:
                active.remember_time(self.last_timestamp)
            removed = self._segments[:count]
            del self._segments[:count]
            self.first_offset = self._segments[0].base_offset
            self._bytes_start += sum(segment.size for segment in removed)
            self._context.changed.add(self)
            self._condemned.add(removed)
        if self._condemned:
            await self._condemned.delete(self._active)
        return count
