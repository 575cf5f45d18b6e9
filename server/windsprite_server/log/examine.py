"""Finding out what the files of a segment hold, without changing them."""

import os
from collections.abc import Callable
from typing import Final, NamedTuple

from windsprite_protocol.batches import BATCH_HEADER
from windsprite_protocol.model.messages import Buffer
from windsprite_server.log.files import Files
from windsprite_server.log.index import ENTRY, EndMark, SegmentIndex
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
        sparse_index: Its index, complete.
        index_size: Bytes of the index file that are as they should be; 0: it has to be rewritten.
        is_marked: Whether the index says that the segment was synced as it is.
        has_lost_index: Whether an index that should be there was of no use.
        end: The place after the last sound batch.
        ending: What follows there.
        reason: Why it is no batch.
        gaps: Damage before the end.
        file_size: Bytes of the file.
        scanned: Bytes whose checksums were looked at.
    """

    sparse_index: SegmentIndex
    index_size: int
    is_marked: bool
    has_lost_index: bool
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

        data = _read_all(files, path_stem + INDEX_SUFFIX) if trust_index else None
        index, mark, index_size = _decode(data, expected, interval)
        entries = len(index)
        begin = _begin(Window(fetch, size, BATCH_HEADER.size), index, expected)
        # An entry that had to be dropped says that the segment is not what was synced.
        has_dropped = len(index) != entries
        if mark is not None and not has_dropped and _agrees(mark, index, size, expected):
            return Examined(
                sparse_index=index,
                index_size=index_size,
                is_marked=True,
                has_lost_index=False,
                end=Place(mark.size, mark.next_offset, mark.last_timestamp),
                ending=Ending.CLEAN,
                reason="",
                gaps=(),
                file_size=size,
                scanned=0,
            )
        gaps: list[Gap] = []
        reached = begin.position
        ending = End(begin, Ending.CLEAN, "")
        for item in scan(
            Window(fetch, size),
            begin,
            expected.partition_id,
            lambda at: files.has_data(descriptor, at),
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
    is_changed = mark is not None or has_dropped or len(index) != entries
    return Examined(
        sparse_index=index,
        index_size=0 if is_changed else index_size,
        is_marked=size == 0,
        has_lost_index=trust_index and begin.position == 0 and size > interval,
        end=end,
        ending=ending.ending,
        reason=ending.reason,
        gaps=tuple(gaps),
        file_size=size,
        scanned=(end.position if ending.ending is Ending.UNUSED else size) - begin.position,
    )


def _decode(
    data: bytes | None, expected: Expected, interval: int
) -> tuple[SegmentIndex, EndMark | None, int]:
    if data is not None:
        decoded = SegmentIndex.decode(
            data,
            base_offset=expected.base_offset,
            incarnation=expected.incarnation,
            interval=interval,
        )
        if decoded is not None:
            return *decoded, len(data) // ENTRY.size * ENTRY.size
    return SegmentIndex(interval), None, 0


def _begin(window: Window, index: SegmentIndex, expected: Expected) -> Place:
    """Where to begin to scan: at the last index entry that is true; the others are dropped."""
    index.drop_from(window.size)
    for _ in range(_ENTRIES_TRIED):
        entry = index.last
        if entry is None:
            break
        place = Place(entry.position, entry.offset, entry.timestamp - 1)
        try:
            header = plausible_header(window, place, expected.partition_id)
        except Unsound:
            index.drop_last()
            continue
        if (header.base_offset, header.base_timestamp) == (entry.offset, entry.timestamp):
            return place
        index.drop_last()
    index.drop_from(0)
    return Place(0, expected.base_offset, expected.after_timestamp)


def _agrees(mark: EndMark, index: SegmentIndex, size: int, expected: Expected) -> bool:
    return (
        mark.size == size
        and (len(index) > 0 if size else mark.next_offset == expected.base_offset)
        and expected.next_base in {None, mark.next_offset}
    )


def _read_all(files: Files, path: str) -> bytes | None:
    try:
        descriptor = files.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return files.read(descriptor, files.size(descriptor), 0)
    finally:
        files.close(descriptor)
