"""Finding out what the files of a segment hold, without changing them."""

import os
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from windsprite_protocol.batches import BATCH_HEADER
from windsprite_protocol.model.messages import Buffer
from windsprite_server.log.files import Files
from windsprite_server.log.index import (
    END_MARK_SIZE,
    ENTRY,
    HEADER_SIZE,
    EndMark,
    Entry,
    SegmentIndex,
    decode_last_rows,
    encode_header,
)
from windsprite_server.log.scan import (
    End,
    Ending,
    Found,
    Gap,
    Place,
    Unsound,
    Window,
    plausible_header,
    scan,
)

SEGMENT_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
_ENTRIES_TRIED: Final = 8


class Examined(NamedTuple):
    """What a segment holds.

    Attributes:
        sparse_index: Its index, complete; `None`: it was not looked at.
        index_size: Bytes of the index file that are as they should be; 0: it has to be rewritten.
        is_marked: Whether the index says that the segment was synced as it is.
        mark: What the index says was synced, as far as the segment agrees.
        end: The place after the last sound batch.
        ending: What follows there.
        reason: Why it is no batch.
        gaps: Damage before the end.
        file_size: Bytes of the file.
        scanned: Bytes whose checksums were looked at.
    """

    sparse_index: SegmentIndex | None
    index_size: int
    is_marked: bool
    mark: EndMark | None
    end: Place
    ending: Ending
    reason: str
    gaps: tuple[Gap, ...]
    file_size: int
    scanned: int


class Expected(NamedTuple):
    """What a segment should be.

    Attributes:
        partition_id: The partition of its batches.
        incarnation: Of which life of the partition it is.
        base_offset: Its first offset.
        next_base: The first offset of the next segment; `None`: this is the active one.
        after_timestamp: Append time of the newest batch before it; 0 if there is none.
    """

    partition_id: int
    incarnation: int
    base_offset: int
    next_base: int | None
    after_timestamp: int


def recall(files: Files, path_stem: str, expected: Expected) -> Examined | None:
    """What a sealed segment holds according to the last rows of its index.

    However large the segment is, only the end of its index and one header are read.

    Args:
        files: The way to the file system.
        path_stem: The path of its files without `.log` and `.index`.
        expected: What it should be.

    Returns:
        `None` if those rows do not vouch for all of it.

    Raises:
        OSError: The disk failed.
    """
    index_size, rows = _last_rows(files, path_stem + INDEX_SUFFIX, expected)
    last = decode_last_rows(rows, expected.base_offset, expected.incarnation)
    if last is None:
        return None
    entry, mark = last
    if mark.next_offset != expected.next_base:
        return None
    descriptor = files.open(path_stem + SEGMENT_SUFFIX, os.O_RDONLY)
    try:
        size = files.size(descriptor)
        header = Window(lambda at, length: files.read(descriptor, length, at), size, ENTRY.size)
        if mark.size != size or not _is_true(header, entry, expected.partition_id):
            return None
    finally:
        files.close(descriptor)
    return _as_marked(None, index_size, mark)


def _last_rows(files: Files, path: str, expected: Expected) -> tuple[int, bytes]:
    """The size of an index, and its last entry with the end mark behind it; empty if foreign."""
    try:
        descriptor = files.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return 0, b""
    try:
        size = files.size(descriptor)
        header = files.read(descriptor, HEADER_SIZE, 0)
        if size % ENTRY.size or header != encode_header(expected.base_offset, expected.incarnation):
            return 0, b""
        length = min(size - HEADER_SIZE, ENTRY.size + END_MARK_SIZE)
        return size, files.read(descriptor, length, size - length)
    finally:
        files.close(descriptor)


def _as_marked(index: SegmentIndex | None, index_size: int, mark: EndMark) -> Examined:
    """A segment of which all is known by its end mark."""
    return Examined(
        sparse_index=index,
        index_size=index_size,
        is_marked=True,
        mark=mark,
        end=Place(mark.size, mark.next_offset, mark.last_timestamp),
        ending=Ending.CLEAN,
        reason="",
        gaps=(),
        file_size=mark.size,
        scanned=0,
    )


def examine(
    files: Files,
    path_stem: str,
    expected: Expected,
    interval: int,
    *,
    trust_index: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Examined:
    """Look at a segment: at all that no index vouches for, or at everything.

    Args:
        files: The way to the file system.
        path_stem: The path of its files without `.log` and `.index`.
        expected: What it should be.
        interval: Bytes between index entries.
        trust_index: Whether to believe the index where the segment agrees with its last entry.
        progress: Called after each batch with the bytes looked at since the call before.

    Raises:
        OSError: The disk failed.
    """
    descriptor = files.open(path_stem + SEGMENT_SUFFIX, os.O_RDONLY)
    try:
        size = files.size(descriptor)

        def fetch(position: int, length: int) -> Buffer:
            return files.read(descriptor, length, position)

        index, mark, index_size = _load_index(files, path_stem + INDEX_SUFFIX, expected, interval)
        if not trust_index:
            index, index_size = SegmentIndex(interval), 0
        entries = len(index)
        begin = _begin(Window(fetch, size, BATCH_HEADER.size), index, expected)
        # An entry that had to be dropped says that the segment is not what was synced.
        has_dropped = len(index) != entries
        if (
            trust_index
            and mark is not None
            and not has_dropped
            and _agrees(mark, index, size, expected)
        ):
            return _as_marked(index, index_size, mark)
        gaps: list[Gap] = []
        reached = begin.position
        ending = End(begin, Ending.CLEAN, "")
        for item in _walk(
            Window(fetch, size),
            begin,
            expected.partition_id,
            lambda at: files.has_data(descriptor, at),
            mark,
        ):
            if isinstance(item, Found):
                header = item.header
                index.add(header.base_offset, header.base_timestamp, item.position)
                if progress is not None:
                    progress(item.position + header.batch_length - reached)
                    reached = item.position + header.batch_length
            elif isinstance(item, Gap):
                gaps.append(item)
            else:
                ending = item
    finally:
        files.close(descriptor)
    index.drop_from(ending.place.position)
    end = ending.place
    if mark is not None and not end.position:
        # All batches before this segment are gone, but none may be older than they were.
        end = end._replace(timestamp=max(end.timestamp, mark.last_timestamp))
    is_kept = mark is not None and mark.size <= end.position
    is_changed = (mark is not None and not is_kept) or has_dropped or len(index) != entries
    return Examined(
        sparse_index=index,
        index_size=0 if is_changed else index_size,
        is_marked=size == 0,
        mark=mark if is_kept else None,
        end=end,
        ending=ending.ending,
        reason=ending.reason,
        gaps=tuple(gaps),
        file_size=size,
        scanned=(end.position if ending.ending is Ending.UNUSED else size) - begin.position,
    )


def _walk(
    window: Window,
    begin: Place,
    partition_id: int,
    has_data: Callable[[int], bool],
    mark: EndMark | None,
) -> Iterator[Found | Gap | End]:
    """Scans a segment; what its end mark vouches for was synced once, so it is no torn tail."""
    for item in scan(window, begin, partition_id, has_data):
        if isinstance(item, End) and mark is not None:
            position, offset, _ = item.place
            if position < mark.size <= window.size and offset < mark.next_offset:
                length = mark.size - position
                yield Gap(position, length, offset, mark.next_offset, item.reason)
                behind = Place(mark.size, mark.next_offset, mark.last_timestamp)
                yield from scan(window, behind, partition_id, has_data)
                return
        yield item


def _load_index(
    files: Files, path: str, expected: Expected, interval: int
) -> tuple[SegmentIndex, EndMark | None, int]:
    """The index in a file, its end mark, and its bytes; an empty one if the file is of no use."""
    try:
        data = files.read_whole(path)
    except FileNotFoundError:
        return SegmentIndex(interval), None, 0
    decoded = SegmentIndex.decode(
        data,
        base_offset=expected.base_offset,
        incarnation=expected.incarnation,
        interval=interval,
    )
    if decoded is None:
        return SegmentIndex(interval), None, 0
    return *decoded, len(data) // ENTRY.size * ENTRY.size


def _begin(window: Window, index: SegmentIndex, expected: Expected) -> Place:
    """Where to begin to scan: at the last index entry that is true; the others are dropped."""
    index.drop_from(window.size)
    for _ in range(_ENTRIES_TRIED):
        entry = index.last
        if entry is None:
            break
        if _is_true(window, entry, expected.partition_id):
            return _place_before(entry)
        index.drop_last()
    index.drop_from(0)
    return Place(0, expected.base_offset, expected.after_timestamp)


def _is_true(window: Window, entry: Entry, partition_id: int) -> bool:
    """Whether the batch of an index entry begins where it says."""
    try:
        header = plausible_header(window, _place_before(entry), partition_id)
    except Unsound:
        return False
    return (header.base_offset, header.base_timestamp) == (entry.offset, entry.timestamp)


def _place_before(entry: Entry) -> Place:
    return Place(entry.position, entry.offset, entry.timestamp - 1)


def _agrees(mark: EndMark, index: SegmentIndex, size: int, expected: Expected) -> bool:
    return (
        mark.size == size
        and (len(index) > 0 if size else mark.next_offset == expected.base_offset)
        and expected.next_base in {None, mark.next_offset}
    )
