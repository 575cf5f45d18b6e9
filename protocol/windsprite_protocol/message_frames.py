"""The frames of a batch, one for each message (spec 04, 2.2 to 2.4).

    frame = header (48 bytes) | payload | user headers

Nothing here makes an object per message. Frames of one size are recognised and read with strided
slices, without a walk. Whoever checks a batch of very many messages can do so in pieces, and do
something else in between.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Generator, Iterable, Sequence
from functools import lru_cache
from itertools import chain, pairwise, starmap
from math import gcd
from typing import Final, Literal, NamedTuple

import construct as c
from xxhash import xxh3_64_digest, xxh3_64_intdigest

from windsprite_protocol.errors import DecodeError, ErrorCode
from windsprite_protocol.layout import struct_twin
from windsprite_protocol.model.messages import Buffer

FRAME_HEADER_LAYOUT: Final = c.Struct(
    "checksum" / c.Int64ul,
    "id" / c.Bytes(16),
    "offset_delta" / c.Int32ul,
    "timestamp_delta" / c.Int32ul,
    "user_headers_length" / c.Int32ul,
    "payload_length" / c.Int32ul,
    "reserved" / c.Int64ul,
)
"""The header of a frame (spec 04, 2.2)."""

FRAME_HEADER: Final = struct_twin(FRAME_HEADER_LAYOUT)

FRAMES_AT_ONCE: Final = 4096
"""Frames in one piece of a check, and from one mark to the next."""

_CHECKSUM: Final = struct.Struct("<Q")
_LENGTHS: Final = struct.Struct("<IIQ")
_LENGTHS_OFFSET: Final = 32
_OFFSET_DELTA_OFFSET: Final = 24
_OFFSET_DELTA_BYTES: Final = 4
_SMALL_FRAME: Final = 4096
"""Bytes up to which copying a frame to hash it costs less than making a view of it."""
_FEW_FRAMES: Final = 4
"""Below this a walk costs less than proving that all frames have one size."""
_ITEM_FORMATS: Final[dict[int, Literal["B", "H", "I", "Q"]]] = {1: "B", 2: "H", 4: "I", 8: "Q"}
_DELTAS: Final = struct.pack(f"<{FRAMES_AT_ONCE}I", *range(FRAMES_AT_ONCE))


class CheckedFrames(NamedTuple):
    """What a check of frames found out.

    Attributes:
        checksums: Their checksum fields one after the other, 8 bytes each.
        in_order: Whether their offset deltas are 0, 1, 2, ...
        marks: Where every `FRAMES_AT_ONCE`th frame starts, the first one left out.
    """

    checksums: bytes
    in_order: bool
    marks: tuple[int, ...]


def check_few_frames(frames: memoryview, count: int) -> CheckedFrames | None:
    """Checks that frames have the checksums they say, and tile the buffer.

    Args:
        frames: All frames of a batch.
        count: How many there should be.

    Returns:
        `None` if there are more than `FRAMES_AT_ONCE`; the others are not looked at.

    Raises:
        DecodeError: The checksum of a frame is wrong (4027), or they do not tile the buffer (3).
    """
    if count == 1 and (lone := _check_lone_frame(frames)) is not None:
        return lone
    end, checksums, deltas = _check_piece(frames, 0, _common_size(frames, count))
    if end < len(frames):
        return None
    if len(checksums) != count * _CHECKSUM.size:
        raise _not_tiled()
    return CheckedFrames(checksums, deltas == _DELTAS[: len(deltas)], ())


def check_frames(frames: memoryview, count: int) -> Generator[None, None, CheckedFrames]:
    """Checks frames as `check_few_frames`, however many; pauses after every `FRAMES_AT_ONCE`."""
    size = _common_size(frames, count)
    parts: list[bytes] = []
    marks: list[int] = []
    in_order = True
    checked = end = 0
    while end < len(frames):
        if checked:
            yield
            marks.append(end)
        end, checksums, deltas = _check_piece(frames, end, size)
        following = checked + len(checksums) // _CHECKSUM.size
        in_order = in_order and deltas == _pack_deltas(range(checked, following))
        parts.append(checksums)
        checked = following
    if checked != count:
        raise _not_tiled()
    return CheckedFrames(b"".join(parts), in_order, tuple(marks))


def locate_frames(
    frames: memoryview, count: int, first: int, stop: int, marks: Sequence[int] = ()
) -> tuple[int, int, bytes]:
    """Where the frames from `first` up to `stop` start and end, and their checksums.

    Args:
        frames: All frames of a batch.
        count: How many there are.
        first: The first one wanted.
        stop: The one to stop before.
        marks: `CheckedFrames.marks`, or the first ones of them, to begin nearer.

    Raises:
        DecodeError: They are malformed.
    """
    origin, passed = nearest_mark(first, marks)
    frames = frames[origin:]
    count, first, stop = count - passed, first - passed, stop - passed
    size = _common_size(frames, count)
    if size and stop >= _FEW_FRAMES and _are_of_size(frames[: stop * size], size):
        start, end = first * size, stop * size
        checksums = _column(frames[start:end], 0, _CHECKSUM.size, size)
    else:
        bounds, numbers, _ = _walk(frames, stop)
        if len(numbers) < stop:
            raise _not_tiled()
        start, end, checksums = bounds[first], bounds[stop], pack_checksums(numbers[first:])
    return origin + start, origin + end, checksums


def common_frame_size(frames: memoryview, count: int) -> int:
    """The size of all frames, if they are well-formed and it is the same; 0 if not, or too few."""
    size = _common_size(frames, count)
    return size if size and _are_of_size(frames, size) else 0


def cut_evenly(buffer: Buffer, count: int, layout: str) -> tuple[bytes, ...]:
    """The bytes that a layout of `struct` takes from each of `count` pieces, in one step for all.

    Args:
        buffer: The pieces, one after the other and nothing else.
        count: How many they are.
        layout: One `s` and any number of `x`, each with its count before it.
    """
    if count <= FRAMES_AT_ONCE:
        return _layout_of_all(layout, count).unpack(buffer)
    # What is remembered for each layout must not grow with the batches that somebody sends.
    many = _layout_of_all(layout, FRAMES_AT_ONCE)
    runs, rest = divmod(count, FRAMES_AT_ONCE)
    end = runs * many.size
    view = memoryview(buffer)
    last = _layout_of_all(layout, rest).unpack(view[end:])
    return (*chain.from_iterable(many.iter_unpack(view[:end])), *last)


@lru_cache(maxsize=16)
def _layout_of_all(layout: str, count: int) -> struct.Struct:
    return struct.Struct(layout * count)


def nearest_mark(index: int, marks: Sequence[int]) -> tuple[int, int]:
    """Where to begin to walk towards a frame, and how many frames are before that place."""
    passed = min(index // FRAMES_AT_ONCE, len(marks))
    return (marks[passed - 1], passed * FRAMES_AT_ONCE) if passed else (0, 0)


def pack_checksums(checksums: Sequence[int]) -> bytes:
    """Checksums as they stand in frames, one after the other."""
    return struct.pack(f"<{len(checksums)}Q", *checksums)


def _check_lone_frame(frames: memoryview) -> CheckedFrames | None:
    """The only frame, if it is sound; what is wrong is not told."""
    if len(frames) < FRAME_HEADER.size:
        return None
    checksum, _, delta, _, headers_length, payload_length, reserved = FRAME_HEADER.unpack_from(
        frames
    )
    if (
        reserved
        or FRAME_HEADER.size + headers_length + payload_length != len(frames)
        or xxh3_64_intdigest(frames[_CHECKSUM.size :]) != checksum
    ):
        return None
    return CheckedFrames(frames[: _CHECKSUM.size].tobytes(), delta == 0, ())


def _check_piece(frames: memoryview, start: int, size: int) -> tuple[int, bytes, bytes]:
    """Checks the next frames, `FRAMES_AT_ONCE` of them, or all that are left.

    Args:
        frames: All frames.
        start: Where the next one starts.
        size: That of every frame, if all may have the same; else 0.

    Returns:
        Where those checked end, their checksums and their offset deltas.
    """
    if size:
        piece = frames[start : start + FRAMES_AT_ONCE * size]
        if len(piece) % size == 0 and _are_of_size(piece, size):
            return start + len(piece), *_check_equal_frames(piece, size)
    rest = frames[start:]
    bounds, checksums, deltas = _walk(rest, FRAMES_AT_ONCE)
    digests = [
        xxh3_64_intdigest(rest[begin + _CHECKSUM.size : end]) for begin, end in pairwise(bounds)
    ]
    if digests != checksums:
        raise _wrong_checksum()
    if len(checksums) < FRAMES_AT_ONCE and bounds[-1] != len(rest):
        raise _not_tiled()
    return start + bounds[-1], pack_checksums(checksums), _pack_deltas(deltas)


def _check_equal_frames(frames: memoryview, size: int) -> tuple[bytes, bytes]:
    """Checksums and offset deltas of frames that are known to have all this size."""
    digests: Iterable[bytes]
    if size <= _SMALL_FRAME:
        hashed = f"{_CHECKSUM.size}x{size - _CHECKSUM.size}s"
        digests = starmap(xxh3_64_digest, struct.iter_unpack(hashed, frames))
    else:
        starts = range(_CHECKSUM.size, len(frames), size)
        ends = range(size, len(frames) + 1, size)
        digests = [
            xxh3_64_digest(frames[start:end]) for start, end in zip(starts, ends, strict=True)
        ]
    checksums = _column(frames, 0, _CHECKSUM.size, size)
    # Digests come as big-endian bytes; turning all of them at once beats a number for each.
    expected = array("Q", checksums)
    expected.byteswap()
    if expected.tobytes() != b"".join(digests):
        raise _wrong_checksum()
    return checksums, _column(frames, _OFFSET_DELTA_OFFSET, _OFFSET_DELTA_BYTES, size)


def _walk(frames: memoryview, stop: int) -> tuple[list[int], list[int], list[int]]:
    """Bounds, checksums and offset deltas of up to `stop` frames; ends before a malformed one."""
    unpack, header_size, length = FRAME_HEADER.unpack_from, FRAME_HEADER.size, len(frames)
    bounds = [0]
    checksums: list[int] = []
    deltas: list[int] = []
    end = 0
    while length - end >= header_size and len(checksums) < stop:
        checksum, _, delta, _, headers_length, payload_length, reserved = unpack(frames, end)
        end += header_size + headers_length + payload_length
        if reserved or end > length:
            break
        bounds.append(end)
        checksums.append(checksum)
        deltas.append(delta)
    return bounds, checksums, deltas


def _common_size(frames: memoryview, count: int) -> int:
    """The size that all frames have if it is the same; 0 if it is not, or not worth proving."""
    if count < _FEW_FRAMES:
        return 0
    size, rest = divmod(len(frames), count)
    return size if not rest and size >= FRAME_HEADER.size else 0


def _are_of_size(frames: memoryview, size: int) -> bool:
    """Whether all frames have this size, and reserved fields of zero.

    The first frame ends where the second begins if it has this size, and so on.
    """
    headers_length, payload_length, reserved = _LENGTHS.unpack_from(frames, _LENGTHS_OFFSET)
    if reserved or FRAME_HEADER.size + headers_length + payload_length != size:
        return False
    lengths = bytes(frames[_LENGTHS_OFFSET : _LENGTHS_OFFSET + _LENGTHS.size])
    columns = _column(frames, _LENGTHS_OFFSET, _LENGTHS.size, size)
    return columns == lengths * (len(frames) // size)


def _column(frames: memoryview, offset: int, width: int, size: int) -> bytes:
    """The `width` bytes at `offset` of each of the frames, which all have this size.

    Strided slices step over items, and the wider the items, the fewer slices.
    """
    item = gcd(offset, width, size, 8)
    items = frames.cast(_ITEM_FORMATS[item])
    step = size // item
    if item == width:
        return items[offset // item :: step].tobytes()
    column = bytearray(len(frames) // size * width)
    target = memoryview(column).cast(_ITEM_FORMATS[item])
    for index in range(width // item):
        target[index :: width // item] = items[offset // item + index :: step]
    return bytes(column)


def _pack_deltas(deltas: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(deltas)}I", *deltas)


def _wrong_checksum() -> DecodeError:
    return DecodeError("the checksum of a frame is wrong", ErrorCode.INVALID_MESSAGE_CHECKSUM)


def _not_tiled() -> DecodeError:
    return DecodeError("the frames of a batch do not fill it")
