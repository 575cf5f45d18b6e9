"""Reading batches from segment files."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from windsprite_protocol.batches import BatchHeader, BatchInfo, StoredRun, pass_lone_batches
from windsprite_protocol.model.messages import Buffer
from windsprite_server.log.descriptors import OpenFile
from windsprite_server.log.files import Files
from windsprite_server.log.frames import cut_batch
from windsprite_server.log.index import Entry, SegmentIndex
from windsprite_server.log.large import LargeBatches
from windsprite_server.log.results import Damage, ReadResult, damage_of
from windsprite_server.log.scan import (
    Found,
    Gap,
    Place,
    Unsound,
    Window,
    after,
    gap_at,
    load_batch,
    plausible_header,
    scan,
)
from windsprite_server.log.segment import GAPS_MAX, Segment

Read = Callable[[int, int, int], Buffer]
"""Descriptor, length and position to bytes."""

_ENTRIES_TRIED: Final = 4
_MUCH: Final = 256 * 1024
"""Bytes read at once, from which on somebody is taken to read on."""
_AHEAD: Final = 8
"""How many times as much is fetched while the first of it is checked and sent."""
_AHEAD_MAX: Final = 8 * 1024 * 1024
_REBUILD_CHUNK: Final = 4 * 1024 * 1024


class ColdError(Exception):
    """Something is not in memory; a thread has to wait for the disk."""


class Part(NamedTuple):
    """A segment to read from, as it was when the read began.

    Attributes:
        segment: The segment; of it only what never changes is used in a thread.
        file: Its file, pinned.
        size: Bytes that readers may see.
        next_offset: The offset after the last message readers may see.
        is_sealed: Whether nothing is appended to it any more.
    """

    segment: Segment
    file: OpenFile
    size: int
    next_offset: int
    is_sealed: bool


class Source(NamedTuple):
    """How to read.

    Attributes:
        partition_id: Whose batches to expect.
        incarnation: Of which life of the partition.
        interval: Bytes between index entries.
        files: The way to the file system.
        large: Batches of very many messages, kept in memory.
        read: Reads from a descriptor; may raise `ColdError`.
        may_wait: Whether to load or rebuild an index that is not in memory.
    """

    partition_id: int
    incarnation: int
    interval: int
    files: Files
    large: LargeBatches
    read: Read
    may_wait: bool


def cached_only(files: Files, limit: int) -> Read:
    """Read what is in memory, at most `limit` bytes at once.

    `ColdError` is raised where a thread has to do it.
    """

    def read(descriptor: int, length: int, position: int) -> Buffer:
        if length <= limit:
            data = files.read_cached(descriptor, length, position)
            if data is not None:
                return data
        raise ColdError

    return read


def read_messages(
    source: Source, parts: Sequence[Part], start: int, end: int, room: int
) -> ReadResult:
    """Messages from `start` up to `end`, in at most `room` bytes but at least one message.

    Stops before the first damage at or after `start`, and names it.

    Args:
        source: How to read.
        parts: The segments that hold these messages, in order and without gaps.
        start: The first offset wanted.
        end: The offset to stop before.
        room: Bytes of all records together.

    Raises:
        OSError: The disk failed.
        ColdError: `source` may not wait, and would have to.
    """
    gatherer = _Gatherer(start, end, room)
    for part in parts:
        if not _read_part(source, part, gatherer):
            break
    return gatherer.result()


def find_time(source: Source, part: Part, timestamp: int, sound_end: int) -> int:
    """Base offset of the first batch of a segment that was appended at `timestamp` or later.

    The offset after the last if there is none; the first damaged offset if damage is in the way.

    Args:
        source: How to read.
        part: The segment; all that can be read before it is older.
        timestamp: Microseconds since the epoch.
        sound_end: The first offset of damage right before the segment; its base offset if there is
            none.

    Raises:
        OSError: The disk failed.
        ColdError: `source` may not wait, and would have to.
    """
    index = _index_of(source, part)
    reader = _PartReader(source, part, source.interval)
    place = reader.place_of(index.before_time(timestamp))
    if place is None:
        place = Place(0, part.segment.base_offset, 0)
    with contextlib.suppress(Unsound):
        while place.position < part.size:
            header = reader.header(place)
            if header.base_timestamp == timestamp:
                return place.offset
            if header.base_timestamp > timestamp:
                break
            place = after(Found(place.position, header))
    # What was lost before the segment may be as old as that.
    return place.offset if place.position else sound_end


class _Gatherer:
    """Collects records until there are enough."""

    def __init__(self, start: int, end: int, room: int) -> None:
        self.next = start
        self.end = end
        self.room = room
        self.damage: Damage | None = None
        self._records: list[Buffer] = []
        self._count = 0
        self._size = 0
        # A run of whole batches that stand side by side in one buffer.
        self._buffer: memoryview | None = None
        self._run_start = 0
        self._run_end = 0

    @property
    def is_done(self) -> bool:
        return self.next >= self.end

    @property
    def size(self) -> int:
        """Bytes of what was taken so far."""
        return self._size

    @property
    def room_left(self) -> int:
        return self.room - self._size

    def has_room(self, length: int) -> bool:
        """Whether another batch may be taken; the first one always may, as it can be cut."""
        return not self._count or self._size + length <= self.room

    def add(self, loaded: memoryview, start: int, info: BatchInfo) -> bool:
        """Take what is wanted of a sound batch; tell whether that was all of its end.

        Args:
            loaded: Memory that will not change.
            start: Where in it the batch begins.
            info: What a check of the batch has found.
        """
        header = info.header
        batch = loaded[start : start + header.batch_length]
        first = max(0, self.next - header.base_offset)
        stop = min(header.message_count, self.end - header.base_offset)
        if first == 0 and stop == header.message_count and len(batch) <= self.room:
            self._extend_run(loaded, start, len(batch))
            count, size = stop, len(batch)
        else:
            self._end_run()
            pieces, count, size = cut_batch(
                batch, header.message_count, first, stop, self.room, marks=info.marks
            )
            self._records.extend(pieces)
        self._count += count
        self._size += size
        self.next = header.base_offset + first + count
        return first + count == header.message_count

    def add_run(self, window: Window, start: int, run: StoredRun) -> None:
        """Take batches of one message each, all of which are wanted; `start` is in the window."""
        self._extend_run(window.loaded, start, run.end - start)
        self._count += run.next_offset - self.next
        self._size += run.end - start
        self.next = run.next_offset

    def result(self) -> ReadResult:
        self._end_run()
        last = self.next - 1 if self._count else -1
        return ReadResult(tuple(self._records), self._count, self._size, last, self.damage)

    def _extend_run(self, loaded: memoryview, start: int, length: int) -> None:
        if self._buffer is not loaded or start != self._run_end:
            self._end_run()
            self._buffer = loaded
            self._run_start = start
        self._run_end = start + length

    def _end_run(self) -> None:
        if self._buffer is not None:
            self._records.append(self._buffer[self._run_start : self._run_end])
            self._buffer = None


def _read_part(source: Source, part: Part, gatherer: _Gatherer) -> bool:
    """Gathers from one segment; tells whether to go on with the next."""
    index = _index_of(source, part)
    if not _read_large(source, part, index, gatherer) or gatherer.is_done:
        return False
    if gatherer.next == part.next_offset:
        return True
    entry = index.at_or_before(gatherer.next)
    stop = index.position_at_or_after(gatherer.end)
    ahead = (part.size if stop is None else stop) - (0 if entry is None else entry.position)
    reader = _PartReader(source, part, min(ahead, gatherer.room + source.interval))
    place = reader.seek(reader.begin(index, gatherer.next), gatherer.next)
    if isinstance(place, Gap):
        gatherer.damage = damage_of(part.segment.path, place)
    else:
        reader.gather(place, gatherer)
        if source.may_wait and gatherer.size >= _MUCH:
            length = min(_AHEAD_MAX, _AHEAD * gatherer.size)
            source.files.read_ahead(part.file.descriptor, length, reader.end)
    return gatherer.next == part.next_offset and gatherer.damage is None and not gatherer.is_done


def _read_large(source: Source, part: Part, index: SegmentIndex, gatherer: _Gatherer) -> bool:
    """Takes what is wanted of a batch that is kept, if it is one; tells whether to go on."""
    entry = index.at_or_before(gatherer.next)
    found = None if entry is None else source.large.get(part.segment.path, entry.position)
    if entry is None or found is None or entry.position + len(found.batch) > part.size:
        return True
    header = found.info.header
    if not header.base_offset <= gatherer.next < header.base_offset + header.message_count:
        return True
    return gatherer.has_room(len(found.batch)) and gatherer.add(found.batch, 0, found.info)


class _PartReader:
    """Walks over the batches of one segment."""

    def __init__(self, source: Source, part: Part, chunk: int) -> None:
        self._part = part
        self._partition_id = source.partition_id
        self._large = source.large
        self._window = _window(source, part, chunk)

    @property
    def end(self) -> int:
        """How far the segment was read."""
        return self._window.start + len(self._window.loaded)

    def begin(self, index: SegmentIndex, offset: int) -> Place:
        """Where to begin looking for an offset: the nearest index entry before it that is true."""
        for _ in range(_ENTRIES_TRIED):
            entry = index.at_or_before(offset)
            place = self.place_of(entry)
            if place is not None:
                return place
            if entry is None:
                break
            offset = entry.offset - 1
        return Place(0, self._part.segment.base_offset, 0)

    def place_of(self, entry: Entry | None) -> Place | None:
        """Where the batch of an index entry begins, if the segment agrees."""
        if entry is None:
            return None
        place = Place(entry.position, entry.offset, entry.timestamp - 1)
        try:
            header = plausible_header(self._window, place, self._partition_id)
        except Unsound:
            return None
        if (header.base_offset, header.base_timestamp) != (entry.offset, entry.timestamp):
            return None
        return place

    def header(self, place: Place) -> BatchHeader:
        """The header that should be at a place; checksums are not looked at.

        Raises:
            Unsound: It is not there.
        """
        if place.position >= self._part.size:
            raise Unsound("the segment ends too early")
        gap = self._known_gap(place)
        if gap is not None:
            raise Unsound(gap.reason)
        header = plausible_header(self._window, place, self._partition_id)
        if header.base_offset > place.offset:
            raise Unsound("offsets are missing")
        if place.position + header.batch_length > self._part.size:
            raise Unsound("a batch runs past the end of the segment")
        return header

    def seek(self, begin: Place, offset: int) -> Place | Gap:
        """The place of the batch that holds an offset, or the gap that does.

        Batches before it are passed by what their headers say. Where that leads astray, the way is
        gone again from its beginning and all checksums are looked at.
        """
        try:
            place = begin
            while True:
                following = after(Found(place.position, self.header(place)))
                if offset < following.offset:
                    return place
                place = following
        except Unsound:
            return self._seek_thoroughly(begin, offset)

    def gather(self, place: Place, gatherer: _Gatherer) -> None:
        """Hand over sound batches, from a place on, until it is enough or something is wrong."""
        while True:
            place = self._pass_lone_batches(place, gatherer)
            if gatherer.is_done or place.offset >= self._part.next_offset:
                return
            try:
                header = self.header(place)
                if not gatherer.has_room(header.batch_length):
                    return
                batch, info = load_batch(self._window, place.position, header)
            except Unsound:
                # A damaged header may have promised more messages than there were.
                found = self._seek_thoroughly(place, gatherer.next)
                if isinstance(found, Gap):
                    gatherer.damage = damage_of(self._part.segment.path, found)
                    return
                place = found
                continue
            window = self._window
            if not gatherer.add(window.loaded, place.position - window.start, info):
                if info.marks:  # somebody will come back for the rest
                    self._large.keep(self._part.segment.path, place.position, batch, info)
                return
            place = after(Found(place.position, header))

    def _pass_lone_batches(self, place: Place, gatherer: _Gatherer) -> Place:
        """Hand over the batches of one message that stand here in memory; often there is none."""
        window = self._window
        start = place.position - window.start
        end = min(len(window.loaded), start + gatherer.room_left)
        if place.offset != gatherer.next or not 0 <= start < end:
            return place
        run = pass_lone_batches(
            window.loaded[:end],
            start,
            partition_id=self._partition_id,
            offset=place.offset,
            stop_offset=min(gatherer.end, self._part.next_offset),
            timestamp=place.timestamp,
        )
        if run.end == start:
            return place
        gatherer.add_run(window, start, run)
        return Place(window.start + run.end, run.next_offset, run.timestamp)

    def _seek_thoroughly(self, place: Place, offset: int) -> Place | Gap:
        while True:
            try:
                header = self.header(place)
                load_batch(self._window, place.position, header)
            except Unsound as verdict:
                gap = self._gap(place, str(verdict))
                if offset < gap.next_offset:
                    return gap
                place = Place(gap.position + gap.length, gap.next_offset, place.timestamp)
                continue
            following = after(Found(place.position, header))
            if offset < following.offset:
                return place
            place = following

    def _known_gap(self, place: Place) -> Gap | None:
        gap = self._part.segment.gaps.get(place.position)
        # After a gap without bytes the place is the same, and the gap is behind us.
        return gap if gap is not None and gap.next_offset > place.offset else None

    def _gap(self, place: Place, reason: str) -> Gap:
        """The gap at a place, remembered for the next reader who comes there."""
        gap = self._known_gap(place)
        if gap is None:
            end = self._part.next_offset
            gap = gap_at(self._window, place, self._partition_id, end, reason)
            if len(self._part.segment.gaps) < GAPS_MAX:
                self._part.segment.gaps[place.position] = gap
        return gap


def _window(source: Source, part: Part, chunk: int) -> Window:
    descriptor = part.file.descriptor

    def fetch(position: int, length: int) -> Buffer:
        return source.read(descriptor, length, position)

    return Window(fetch, part.size, chunk)


def _index_of(source: Source, part: Part) -> SegmentIndex:
    segment = part.segment
    if segment.index is not None:
        return segment.index
    if not source.may_wait:
        raise ColdError
    index = _load_index(source, segment)
    if index is None or not len(index):
        index = SegmentIndex(source.interval)
        window = _window(source, part, _REBUILD_CHUNK)
        begin = Place(0, segment.base_offset, 0)
        for item in scan(window, begin, source.partition_id, lambda _: True):
            if isinstance(item, Found):
                index.add(item.header.base_offset, item.header.base_timestamp, item.position)
    segment.index = index
    return index


def _load_index(source: Source, segment: Segment) -> SegmentIndex | None:
    """The index in the file of a segment; `None` if it is of no use."""
    try:
        data = source.files.read_whole(segment.index_path)
    except FileNotFoundError:
        return None
    decoded = SegmentIndex.decode(
        data,
        base_offset=segment.base_offset,
        incarnation=source.incarnation,
        interval=source.interval,
    )
    return None if decoded is None else decoded[0]
