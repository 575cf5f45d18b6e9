"""Opening the log of a partition at start: what is sound is taken over, the rest is told."""

import os
import re
from pathlib import Path
from typing import Final

from windsprite_protocol.topic_options import Durability
from windsprite_server.log.context import Context
from windsprite_server.log.errors import LogFailedError
from windsprite_server.log.examine import SEGMENT_SUFFIX, Examined, Expected, examine, recall
from windsprite_server.log.index import SegmentIndex
from windsprite_server.log.keys import PartitionKey, PartitionOptions
from windsprite_server.log.offsets import OffsetFile
from windsprite_server.log.partition import PartitionLog
from windsprite_server.log.results import Damage, PartitionRecovery, TornTail, damage_of
from windsprite_server.log.scan import Ending, Gap
from windsprite_server.log.segment import GAPS_MAX, Segment

_SEGMENT_NAME: Final = re.compile(r"(\d{20})\.log", re.ASCII)
_COPY_CHUNK: Final = 4 * 1024 * 1024


def segment_bases(names: list[str]) -> list[int]:
    """Base offsets of the segments among the names of a directory, ascending."""
    matches = (_SEGMENT_NAME.fullmatch(name) for name in names)
    return sorted(int(match[1]) for match in matches if match is not None)


def closing_gap(found: Examined, next_base: int) -> Gap | None:
    """What is wrong at the end of a sealed segment, if anything is.

    Args:
        found: What it holds.
        next_base: The first offset of the segment after it.
    """
    end, ending = found.end, found.ending
    length = 0 if ending in {Ending.CLEAN, Ending.UNUSED} else found.file_size - end.position
    if end.offset > next_base:
        reason = "the next segment begins with an offset that stands here as well"
        return Gap(end.position, length, next_base, end.offset, reason)
    if not length and end.offset == next_base:
        return None
    reason = found.reason if length else "offsets are missing"
    return Gap(end.position, length, end.offset, next_base, reason)


def recover_partition(
    context: Context, store_directory: str, key: PartitionKey, options: PartitionOptions
) -> tuple[PartitionLog, PartitionRecovery]:
    """Open a partition that metadata says exists; a missing directory is made.

    Cuts off what an interrupted write left at the end, lowers consumer offsets that are beyond it,
    and rewrites what an index lacks. Where the disk refuses to be written to the log can still be
    read, and the rest is done with the first write it takes.

    Raises:
        OSError: The disk can't be read.
    """
    recovery = _Recovery(context, f"{store_directory}/{key.directory_name}", key, options)
    names, created = recovery.list_directory()
    bases = segment_bases(names)
    for base, next_base in zip(bases, [*bases[1:], None], strict=False):
        recovery.take_over(base, next_base)
    return recovery.finish(store_directory, created=created)


class _Recovery:
    """What was found so far in one partition."""

    def __init__(
        self, context: Context, directory: str, key: PartitionKey, options: PartitionOptions
    ) -> None:
        self._context = context
        self._directory = directory
        self._key = key
        self._options = options
        self._segments: list[Segment] = []
        self._damages: list[Damage] = []
        self._torn: TornTail | None = None
        self._scanned = 0
        self._last_timestamp = 0
        self._is_marked = True
        # Readers will see all there is, so under this policy it must not get lost any more.
        self._must_sync = options.durability is Durability.PERSISTED
        self._unsynced: list[Segment] = []
        self._failure: LogFailedError | None = None

    def list_directory(self) -> tuple[list[str], bool]:
        """Names in the directory, and whether it had to be made."""
        files = self._context.files
        try:
            return files.list_directory(self._directory), False
        except FileNotFoundError:
            pass
        try:
            files.make_directory(self._directory)
        except OSError as error:
            # The first write tries again.
            self._context.logger.warning(
                "log_directory_not_made", directory=self._directory, reason=error.strerror
            )
        return [], True

    def take_over(self, base: int, next_base: int | None) -> None:
        """Look at the next segment and take it over; without `next_base` it is the active one."""
        key, segment = self._key, self._segment(base)
        files, stem = self._context.files, segment.path.removesuffix(SEGMENT_SUFFIX)
        expected = Expected(
            key.partition_id, key.incarnation, base, next_base, self._last_timestamp
        )
        found = None if next_base is None else recall(files, stem, expected)
        if found is None:
            found = examine(files, stem, expected, self._context.limits.index_interval)
        self._scanned += found.scanned
        segment.size, segment.next_offset, segment.last_timestamp = found.end
        self._last_timestamp = segment.last_timestamp
        for gap in found.gaps:
            self._note_gap(segment, gap)
        self._segments.append(segment)
        if next_base is None:
            self._take_over_active(segment, found)
        else:
            self._take_over_sealed(segment, found, next_base)

    def finish(
        self, store_directory: str, *, created: bool
    ) -> tuple[PartitionLog, PartitionRecovery]:
        """Build the log of the segments taken over."""
        context, key, options = self._context, self._key, self._options
        if not self._segments:
            segment = self._segment(0)
            segment.index = SegmentIndex(context.limits.index_interval)
            self._segments.append(segment)
        next_offset = self._segments[-1].next_offset
        offsets = OffsetFile(
            context, self._directory, key.incarnation, options.consumer_offset_durability
        )
        loaded = offsets.load(next_offset)
        if loaded.failure is not None:
            self._failure = LogFailedError(
                "stored offsets beyond the end can't be lowered for good "
                f"({loaded.failure}), so the log takes no writes"
            )
            self._failure.__cause__ = loaded.failure
        log = PartitionLog(
            context,
            store_directory,
            key,
            options,
            segments=self._segments,
            offsets=offsets,
            is_marked=self._is_marked,
        )
        if self._failure is not None:
            log.refuse_writes(self._failure)
        recovery = PartitionRecovery(
            key=key,
            first_offset=log.first_offset,
            next_offset=next_offset,
            scanned_bytes=self._scanned,
            created=created,
            torn=self._torn,
            damages=tuple(self._damages),
            clamped=loaded.clamped,
            lost_offsets=loaded.lost,
        )
        return log, recovery

    def _segment(self, base: int) -> Segment:
        context = self._context
        return Segment(
            context.files, context.descriptors, self._directory, base, self._key.incarnation
        )

    def _take_over_sealed(self, segment: Segment, found: Examined, next_base: int) -> None:
        gap = closing_gap(found, next_base)
        if gap is not None:
            self._note_gap(segment, gap)
        segment.next_offset = next_base
        segment.take_over(found.sparse_index, found.index_size, found.mark)
        if gap is None and not found.is_marked and not self._must_sync:
            # The log does it with its next sync: a start need not wait for the disk.
            segment.is_unsynced = True
            self._is_marked = False
            self._unsynced.append(segment)
            return
        # The log looks for what to sync from its end on, and not beyond what needs none.
        for earlier in self._unsynced:
            self._sync(earlier, with_mark=True)
        self._unsynced.clear()
        if not found.is_marked:
            self._sync(segment, with_mark=gap is None)

    def _take_over_active(self, segment: Segment, found: Examined) -> None:
        if found.ending is not Ending.CLEAN:
            self._cut(segment, found)
        segment.take_over(found.sparse_index, found.index_size, found.mark)
        if not found.is_marked:
            self._is_marked = False
            segment.is_unsynced = True
            if self._must_sync:
                is_full = segment.size >= self._options.segment_size
                self._sync(segment, with_mark=is_full)

    def _cut(self, segment: Segment, found: Examined) -> None:
        length = found.file_size - segment.size
        saved_as = None
        if found.ending is Ending.UNSOUND:
            saved_as = segment.path.removesuffix(SEGMENT_SUFFIX) + f".{segment.size}.torn"
            try:
                self._save(segment, found.file_size, saved_as)
            except OSError as error:
                self._failure = LogFailedError(
                    f"the unreadable end of {segment.path} can't be put aside "
                    f"({error.strerror}), so the log takes no writes"
                )
                self._failure.__cause__ = error
                return
        segment.cut()
        if found.ending is not Ending.UNUSED:
            self._torn = TornTail(
                Path(segment.path), segment.size, length, Path(saved_as) if saved_as else None
            )

    def _save(self, segment: Segment, end: int, path: str) -> None:
        files = self._context.files
        source = files.open(segment.path, os.O_RDONLY)
        try:
            target = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                for start in range(segment.size, end, _COPY_CHUNK):
                    rest = memoryview(files.read(source, min(_COPY_CHUNK, end - start), start))
                    at = start - segment.size
                    while rest:
                        written = files.write(target, rest, at)
                        rest, at = rest[written:], at + written
                files.sync(target)
            finally:
                files.close(target)
        finally:
            files.close(source)
        files.sync_directory(self._directory)

    def _sync(self, segment: Segment, *, with_mark: bool) -> None:
        try:
            task = segment.prepare_sync(with_mark=with_mark)
        except OSError:
            # Read-only: nothing can be synced, and nothing was written since it could be.
            return
        try:
            segment.run_sync(task)
            self._context.files.sync_directory(self._directory)
        except OSError as error:
            self._failure = LogFailedError(f"a sync failed, so the log takes no writes: {error}")
            self._failure.__cause__ = error
        finally:
            segment.end_sync(task)

    def _note_gap(self, segment: Segment, gap: Gap) -> None:
        self._damages.append(damage_of(segment.path, gap))
        if len(segment.gaps) < GAPS_MAX:
            segment.gaps[gap.position] = gap
