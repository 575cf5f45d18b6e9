"""Walking over the bytes of a segment: what is sound, what is damaged, what was never finished.

A batch is sound at a position if it belongs to this partition, continues the offsets, is younger
than the one before, and all its checksums are right. Where that fails there are three cases:

- A torn tail: the rest of the file is the beginning of one batch, or the segment was prolonged
  but not filled. The write was never acknowledged as it did not end.
- Damage: a sound batch follows somewhere. What is between can't be read, and nothing may pretend
  that it was never there.
- No sound batch follows, but the rest isn't the beginning of a batch either. It may be a write torn
  by a loss of power, or damage to the last batches; the scan ends there and says so.

What looks like a batch inside of a message must not be taken for one. So the search for the next
sound batch begins after all that is vouched for by frame checksums, and accepts no offset that the
bytes in between have no room for.
"""

import re
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final, NamedTuple

from xxhash import xxh3_64_intdigest

from windsprite_protocol.batches import BATCH_HEADER, BatchHeader, BatchInfo, check_stored
from windsprite_protocol.errors import DecodeError
from windsprite_protocol.message_frames import FRAME_HEADER
from windsprite_protocol.model.messages import Buffer

_CHUNK: Final = 4 * 1024 * 1024
_LOADED_MAX: Final = 64 * 1024 * 1024
"""Bytes of a batch that are loaded whatever its frames say: the largest request by default."""
_RESERVED_START: Final = 52
_ZEROS: Final = bytes(BATCH_HEADER.size - _RESERVED_START)
_NOT_ZERO: Final = re.compile(rb"[^\0]")
_SMALLEST_BATCH: Final = BATCH_HEADER.size + FRAME_HEADER.size
"""The smallest batch: one message with an empty payload."""

Fetch = Callable[[int, int], Buffer]
"""Reads: position and length to bytes; fewer than asked for only at the end."""


class Window:
    """A view that slides over the bytes of a file.

    Attributes:
        size: Nothing at or after this position is looked at.
        start: Where in the file the loaded bytes begin.
        loaded: The loaded bytes; never changed, only replaced.
    """

    __slots__ = ("_chunk", "_fetch", "loaded", "size", "start")

    def __init__(self, fetch: Fetch, size: int, chunk: int = _CHUNK) -> None:
        """Set up an empty window.

        Args:
            fetch: Reads from the file.
            size: Nothing at or after this position is looked at.
            chunk: Bytes to read at once; more if more are asked for.
        """
        self._fetch = fetch
        self.size = size
        self._chunk = chunk
        self.start = 0
        self.loaded = memoryview(b"")

    def view(self, position: int, length: int) -> memoryview:
        """The bytes at a position; fewer than asked for at the end."""
        at = position - self.start
        if at >= 0 and at + length <= len(self.loaded):
            return self.loaded[at : at + length]
        length = max(0, min(length, self.size - position))
        if at < 0 or at + length > len(self.loaded):
            wanted = min(max(length, self._chunk), self.size - position)
            self.loaded = memoryview(self._fetch(position, wanted))
            self.start = position
            at = 0
        return self.loaded[at : at + length]


class Place(NamedTuple):
    """A place between two batches.

    Attributes:
        position: Where the next batch begins.
        offset: The offset of its first message.
        timestamp: The append time of the batch before; 0 if there is none.
    """

    position: int
    offset: int
    timestamp: int


class Found(NamedTuple):
    """A sound batch."""

    position: int
    header: BatchHeader


class Gap(NamedTuple):
    """Bytes or offsets that are not there as they were written.

    Attributes:
        position: Where they begin.
        length: Bytes up to the next sound batch; 0: only offsets are missing.
        offset: The first offset that can't be read.
        next_offset: The first sound offset after it.
        reason: What is wrong with the first bad byte's batch.
    """

    position: int
    length: int
    offset: int
    next_offset: int
    reason: str


class Ending(Enum):
    """What follows the last sound batch."""

    CLEAN = "nothing"
    UNUSED = "space that was reserved but not used"
    TORN = "the beginning of a batch"
    UNSOUND = "bytes that are no batch"


class End(NamedTuple):
    """Where the sound part ends, and what follows it."""

    place: Place
    ending: Ending
    reason: str


class Unsound(Exception):  # noqa: N818 - a verdict, not an error
    """No sound batch begins here; the text says why."""


def read_sound(window: Window, place: Place, partition_id: int) -> Found:
    """Check the batch at a place.

    Its offset may be greater than expected: then offsets are missing before it.

    Raises:
        Unsound: There is none.
    """
    header = plausible_header(window, place, partition_id)
    if place.position + header.batch_length > window.size:
        raise Unsound("a batch runs past the end of the segment")
    load_batch(window, place.position, header)
    return Found(place.position, header)


def plausible_header(window: Window, place: Place, partition_id: int) -> BatchHeader:
    """The header at a place, if it may follow what is before; checksums are not looked at.

    Raises:
        Unsound: It may not.
    """
    view = window.view(place.position, BATCH_HEADER.size)
    if len(view) < BATCH_HEADER.size:
        raise Unsound("a batch header is cut short")
    fields = BATCH_HEADER.unpack(view)
    header = BatchHeader._make(fields[:-1])
    if fields[-1] != _ZEROS or header.batch_length < _SMALLEST_BATCH:
        raise Unsound("there is no batch header")
    if header.partition_id != partition_id:
        raise Unsound(f"a batch of partition {header.partition_id} stands here")
    if header.base_offset < place.offset:
        raise Unsound(f"offset {header.base_offset} stands here, {place.offset} should")
    if header.base_timestamp <= place.timestamp:
        raise Unsound("a batch is not younger than the one before it")
    if not 0 < header.message_count <= header.batch_length // FRAME_HEADER.size:
        raise Unsound(f"a batch of {header.batch_length} bytes announces too many messages or none")
    return header


def load_batch(window: Window, position: int, header: BatchHeader) -> tuple[memoryview, BatchInfo]:
    """Load a batch and check all checksums.

    Args:
        window: The segment, which holds as many bytes as the header says.
        position: Where the batch begins.
        header: Its header, found plausible.

    Raises:
        Unsound: A checksum is wrong.
    """
    if header.batch_length > _LOADED_MAX and not _do_frames_fill(window, position, header):
        # One bit of a length may make a batch of a few bytes as long as all of its segment.
        raise Unsound("the frames of a batch do not fill it")
    batch = window.view(position, header.batch_length)
    try:
        return batch, check_stored(batch, header)
    except DecodeError as error:
        raise Unsound(str(error)) from error


def _do_frames_fill(window: Window, position: int, header: BatchHeader) -> bool:
    """Whether the lengths in the frames of a batch add up to its own; not loaded all at once."""
    start, end = position + BATCH_HEADER.size, position + header.batch_length
    for _ in range(header.message_count):
        view = window.view(start, FRAME_HEADER.size)
        if start >= end or len(view) < FRAME_HEADER.size:
            return False
        *_, headers_length, payload_length, _ = FRAME_HEADER.unpack(view)
        start += FRAME_HEADER.size + headers_length + payload_length
    return start == end


def scan(
    window: Window, place: Place, partition_id: int, has_data: Callable[[int], bool]
) -> Iterator[Found | Gap | End]:
    """Walk from a place to the end.

    Yields:
        Each sound batch and each gap in their order; at last the end.
    """
    while place.position < window.size:
        try:
            found = read_sound(window, place, partition_id)
        except Unsound as verdict:
            ending, search_from = _judge(window, place, partition_id, has_data)
            following = None
            if ending is Ending.UNSOUND:
                following = _find_sound(window, place, search_from, partition_id)
            if following is None:
                yield End(place, ending, str(verdict))
                return
            found = following
            yield _gap(place, found, str(verdict))
        else:
            if found.header.base_offset > place.offset:
                yield _gap(place, found, "offsets are missing")
        yield found
        place = after(found)
    yield End(place, Ending.CLEAN, "")


def gap_at(window: Window, place: Place, partition_id: int, end_offset: int, reason: str) -> Gap:
    """The extent of damage that a reader ran into.

    Args:
        window: The segment.
        place: Where no sound batch stands.
        partition_id: Whose batches to look for.
        end_offset: The offset after the segment's last, if no sound batch follows.
        reason: What is wrong there.
    """
    _, search_from = _judge(window, place, partition_id, lambda _: True)
    following = _find_sound(window, place, search_from, partition_id)
    if following is None:
        length = window.size - place.position
        return Gap(place.position, length, place.offset, end_offset, reason)
    return _gap(place, following, reason)


def _gap(place: Place, following: Found, reason: str) -> Gap:
    length = following.position - place.position
    return Gap(place.position, length, place.offset, following.header.base_offset, reason)


def after(found: Found) -> Place:
    """The place after a batch."""
    header = found.header
    return Place(
        found.position + header.batch_length,
        header.base_offset + header.message_count,
        header.base_timestamp,
    )


def _find_sound(window: Window, place: Place, search_from: int, partition_id: int) -> Found | None:
    """The first sound batch after damage that begins at `place`; not before `search_from`."""
    for position in _candidates(window, search_from):
        candidate = Place(position, place.offset, place.timestamp)
        try:
            header = plausible_header(window, candidate, partition_id)
            lost_at_most = (position - place.position) // FRAME_HEADER.size
            if header.base_offset - place.offset <= lost_at_most:
                return read_sound(window, candidate, partition_id)
        except Unsound:
            continue
    return None


def _candidates(window: Window, position: int) -> Iterator[int]:
    """Where a batch header could begin: its 204 reserved zeros follow a count that is not zero."""
    reach = _CHUNK
    while position + _SMALLEST_BATCH <= window.size:
        view = window.view(position, reach)
        data = bytes(view)
        at = 0
        while (zeros := data.find(_ZEROS, at)) >= 0:
            # The highest bytes of the count may be zero as well.
            for start in range(zeros - _RESERVED_START, zeros - _RESERVED_START + 4):
                if start >= 0:
                    yield position + start
            following = _NOT_ZERO.search(data, zeros + len(_ZEROS))
            at = following.start() if following else len(data)
        # A file that was cut short while it was read has less than is known of it.
        if position + len(data) >= window.size or len(data) < reach:
            return
        # The next part begins so early that no header is cut in two.
        position += len(data) - BATCH_HEADER.size


def _judge(
    window: Window, place: Place, partition_id: int, has_data: Callable[[int], bool]
) -> tuple[Ending, int]:
    """What an unsound place is, if no sound batch follows, and where to begin to look for one."""
    rest = window.size - place.position
    if _is_unused(window, place.position, has_data):
        return Ending.UNUSED, window.size
    if rest < _SMALLEST_BATCH:
        return Ending.TORN, window.size
    try:
        header = plausible_header(window, place, partition_id)
    except Unsound:
        return Ending.UNSOUND, place.position + 1
    end = place.position + header.batch_length
    vouched, is_begun_frame = _walk_frames(window, place.position, header)
    if end > window.size and header.base_offset == place.offset and is_begun_frame:
        return Ending.TORN, window.size
    return Ending.UNSOUND, max(vouched, place.position + 1)


def _walk_frames(window: Window, position: int, header: BatchHeader) -> tuple[int, bool]:
    """How far sound frames go, and whether the file ends in the next one as its header says."""
    end = position + header.batch_length
    start = position + BATCH_HEADER.size
    for delta in range(header.message_count):
        view = window.view(start, FRAME_HEADER.size)
        if len(view) < FRAME_HEADER.size:
            return start, True
        checksum, _, frame_delta, _, headers_length, payload_length, reserved = FRAME_HEADER.unpack(
            view
        )
        size = FRAME_HEADER.size + headers_length + payload_length
        following = header.message_count - delta - 1
        fits = start + size + following * FRAME_HEADER.size <= end
        if reserved or frame_delta != delta or not fits or (not following and start + size != end):
            return start, False
        if start + size > window.size:
            return start, True
        if xxh3_64_intdigest(window.view(start, size)[8:]) != checksum:
            return start, False
        start += size
    return start, False


def _is_unused(window: Window, position: int, has_data: Callable[[int], bool]) -> bool:
    """Whether only zeros follow."""
    if any(window.view(position, BATCH_HEADER.size)):
        return False
    if not has_data(position):
        return True
    while position < window.size:
        view = window.view(position, _CHUNK)
        if _NOT_ZERO.search(view):
            return False
        if not view:
            break  # the file was cut short while it was read
        position += len(view)
    return True
