"""Message batches: one layout for requests, the disk and poll replies (spec 04, 2).

    batch = header (256 bytes) | frame | frame | ...
    frame = header (48 bytes) | payload | user headers

All functions work on buffers and make no object per message. Buffers are `bytes`, `bytearray` or
contiguous views of bytes. The frames of a batch are hardly ever touched: what a server adds stands
in the batch header, and frames of one size are recognised and read with strided slices, without a
walk.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, starmap
from math import gcd
from typing import Final, Literal, NamedTuple

import construct as c
from xxhash import xxh3_64_digest, xxh3_64_intdigest

from windsprite_protocol.errors import DecodeError, EncodeError, ErrorCode
from windsprite_protocol.layout import struct_twin
from windsprite_protocol.model.messages import Buffer

BATCH_HEADER_LAYOUT: Final = c.Struct(
    "partition_id" / c.Int64ul,
    "base_offset" / c.Int64ul,
    "base_timestamp" / c.Int64ul,
    "origin_timestamp" / c.Int64ul,
    "batch_length" / c.Int64ul,
    "batch_checksum" / c.Int64ul,
    "message_count" / c.Int32ul,
    "reserved" / c.Bytes(204),
)
"""The header of a batch (spec 04, 2.1)."""

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

BATCH_HEADER: Final = struct_twin(BATCH_HEADER_LAYOUT)
FRAME_HEADER: Final = struct_twin(FRAME_HEADER_LAYOUT)

MESSAGE_ID_BYTES: Final = 16
MAX_PAYLOAD_BYTES: Final = 64_000_000
MAX_USER_HEADERS_BYTES: Final = 100_000
MAX_TIMESTAMP_SPREAD: Final = 0xFFFF_FFFF
"""How far apart, in microseconds, the origin timestamps of one batch may lie."""
MAX_BATCH_BYTES: Final = 0xFFFF_FFFF

_U64_MAX: Final = 0xFFFF_FFFF_FFFF_FFFF
_RESERVED: Final = bytes(204)
_CHECKSUM: Final = struct.Struct("<Q")
_STAMP: Final = struct.Struct("<QQQ")
_LENGTHS: Final = struct.Struct("<IIQ")
_LENGTHS_OFFSET: Final = 32
_OFFSET_DELTA_OFFSET: Final = 24
_OFFSET_DELTA_BYTES: Final = 4
_CHECKSUM_OFFSET: Final = 40
_COUNT_OFFSET: Final = 48
_COUNT_END: Final = 52
_CHECKSUM_INPUT: Final = struct.Struct("<QQQQQI")
_SMALL_FRAME: Final = 4096
"""Bytes up to which copying a frame to hash it costs less than making a view of it."""
_FEW_FRAMES: Final = 4
"""Below this a walk costs less than proving that all frames have one size."""
_ITEM_FORMATS: Final[dict[int, Literal["B", "H", "I", "Q"]]] = {1: "B", 2: "H", 4: "I", 8: "Q"}
_DELTAS: Final = struct.pack("<4096I", *range(4096))


class BatchHeader(NamedTuple):
    """The header of a batch; times in microseconds since the epoch, length in bytes."""

    partition_id: int
    base_offset: int
    base_timestamp: int
    origin_timestamp: int
    batch_length: int
    batch_checksum: int
    message_count: int


class BatchInfo(NamedTuple):
    """What a full check of a batch found out.

    Attributes:
        header: The header, as it stood in the buffer.
        checksums: The checksum fields of all frames one after the other, 8 bytes each.
    """

    header: BatchHeader
    checksums: bytes


class NewMessage(NamedTuple):
    """A message on its way into a batch.

    Attributes:
        payload: 0 to 64,000,000 bytes; official client libraries refuse empty ones.
        id: 16 bytes, the little-endian form of the number that readers see.
        origin_timestamp: When the producer made it, in microseconds since the epoch.
        user_headers: The encoded user headers, at most 100,000 bytes.
    """

    payload: Buffer
    id: bytes
    origin_timestamp: int
    user_headers: Buffer = b""


def build_batch(messages: Sequence[NewMessage]) -> bytearray:
    """The batch that a producer sends for these messages.

    Raises:
        EncodeError: There is no message (4009), a payload (4022) or user headers (4017) are too
            big, the origin timestamps lie too far apart (4038), the batch would be too long
            (4036), or an id or timestamp does not fit its field.
    """
    origin, length = _measure(messages)
    batch = bytearray(length)
    view = memoryview(batch)
    pack_header, header_size = FRAME_HEADER.pack_into, FRAME_HEADER.size
    pack_checksum, checksum_size = _CHECKSUM.pack_into, _CHECKSUM.size
    checksums: list[int] = []
    start = BATCH_HEADER.size
    for delta, (payload, id_, timestamp, user_headers) in enumerate(messages):
        payload_start = start + header_size
        payload_end = payload_start + len(payload)
        end = payload_end + len(user_headers)
        age = timestamp - origin
        pack_header(
            batch, start, 0, id_, delta, age, end - payload_end, payload_end - payload_start, 0
        )
        view[payload_start:payload_end] = payload
        if user_headers:
            view[payload_end:end] = user_headers
        checksum = xxh3_64_intdigest(view[start + checksum_size : end])
        pack_checksum(batch, start, checksum)
        checksums.append(checksum)
        start = end
    header = BatchHeader(0, 0, 0, origin, length, 0, len(checksums))
    batch[: BATCH_HEADER.size] = _build_header(header, _pack_checksums(checksums))
    return batch


def _measure(messages: Sequence[NewMessage]) -> tuple[int, int]:
    """The smallest origin timestamp and the length of the batch, within the limits of 2.7."""
    if not messages:
        raise EncodeError("there is no message to send", ErrorCode.INVALID_MESSAGES_COUNT)
    length = BATCH_HEADER.size
    for payload, id_, _, user_headers in messages:
        if len(payload) > MAX_PAYLOAD_BYTES:
            message = f"a payload has {len(payload):,} bytes, at most {MAX_PAYLOAD_BYTES:,} go"
            raise EncodeError(message, ErrorCode.TOO_BIG_MESSAGE_PAYLOAD)
        if len(user_headers) > MAX_USER_HEADERS_BYTES:
            message = (
                f"user headers take {len(user_headers):,} bytes, "
                f"at most {MAX_USER_HEADERS_BYTES:,} go"
            )
            raise EncodeError(message, ErrorCode.TOO_BIG_USER_HEADERS)
        if len(id_) != MESSAGE_ID_BYTES:
            message = f"a message id has {MESSAGE_ID_BYTES} bytes, not {len(id_)}"
            raise EncodeError(message)
        length += FRAME_HEADER.size + len(payload) + len(user_headers)
    if length > MAX_BATCH_BYTES:
        message = f"a batch of {length:,} bytes is too long"
        raise EncodeError(message, ErrorCode.INVALID_MESSAGES_SIZE)
    timestamps = [message.origin_timestamp for message in messages]
    origin, newest = min(timestamps), max(timestamps)
    if origin < 0 or newest > _U64_MAX:
        raise EncodeError("an origin timestamp does not fit 64 bits")
    if newest - origin > MAX_TIMESTAMP_SPREAD:
        message = f"origin timestamps lie more than {MAX_TIMESTAMP_SPREAD:,} us apart"
        raise EncodeError(message, ErrorCode.INVALID_MESSAGE_TIMESTAMP_DELTA)
    return origin, length


def read_header(buffer: Buffer, offset: int = 0) -> BatchHeader:
    """The header of the batch at this offset; how much of the batch follows is not checked.

    Raises:
        DecodeError: Fewer than 256 bytes follow, a reserved byte is not zero, or the length is
            less than that of the header.
    """
    if len(buffer) - offset < BATCH_HEADER.size:
        message = f"a batch header has {BATCH_HEADER.size} bytes, {len(buffer) - offset} are left"
        raise DecodeError(message)
    fields = BATCH_HEADER.unpack_from(buffer, offset)
    header = BatchHeader._make(fields[:-1])
    if header.batch_length < BATCH_HEADER.size:
        message = f"a batch of {header.batch_length} bytes is shorter than its header"
        raise DecodeError(message)
    if fields[-1] != _RESERVED:
        raise DecodeError("a reserved byte of a batch header is not zero")
    return header


def iter_batches(buffer: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Header and bytes of each of the batches that stand back to back in the buffer.

    Frames and checksums are not looked at.

    Raises:
        DecodeError: A header is invalid, or the buffer ends inside a batch.
    """
    view = memoryview(buffer)
    start = 0
    while start < len(view):
        header = read_header(view, start)
        end = start + header.batch_length
        if end > len(view):
            message = f"a batch of {header.batch_length:,} bytes ends after {len(view) - start:,}"
            raise DecodeError(message)
        yield header, view[start:end]
        start = end


def verify_batch(buffer: Buffer, expected_count: int) -> BatchInfo:
    """Admits a producer's batch, which must fill the buffer (spec 04, 2.5, in its order).

    Args:
        buffer: All that follows the metadata of the request.
        expected_count: How many messages the metadata of the request announced.

    Raises:
        DecodeError: The batch is malformed (3), or the checksum of a frame (4027) or of the
            batch (4039) is wrong.
    """
    header = read_header(buffer)
    info, deltas_in_order = _check_batch(memoryview(buffer), header)
    if header.message_count == 0:
        raise DecodeError("the batch has no messages")
    if header.message_count != expected_count:
        message = f"the batch has {header.message_count} messages, {expected_count} are announced"
        raise DecodeError(message)
    if header.batch_length != len(buffer):
        message = f"{len(buffer) - header.batch_length:,} bytes follow the batch"
        raise DecodeError(message)
    if not deltas_in_order:
        raise DecodeError("the offset deltas of the frames are not 0, 1, 2, ...")
    return info


def check_stored(buffer: Buffer, header: BatchHeader | None = None) -> BatchInfo:
    """Checks all checksums of the stored or polled batch, possibly cut, that fills the buffer.

    Args:
        buffer: The batch and nothing else.
        header: What `read_header` says of it, if somebody knows already.

    Raises:
        DecodeError: The batch is malformed (3), or the checksum of a frame (4027) or of the
            batch (4039) is wrong.
    """
    if header is None:
        header = read_header(buffer)
    info, _ = _check_batch(memoryview(buffer), header)
    if header.batch_length != len(buffer):
        message = f"{len(buffer) - header.batch_length:,} bytes follow the batch"
        raise DecodeError(message)
    return info


class StoredRun(NamedTuple):
    """How far stored batches were passed over.

    Attributes:
        end: Where the next batch begins.
        next_offset: The offset it should have.
        timestamp: The append time of the batch before it.
    """

    end: int
    next_offset: int
    timestamp: int


def pass_lone_batches(
    view: memoryview,
    start: int,
    *,
    partition_id: int,
    offset: int,
    stop_offset: int,
    timestamp: int,
) -> StoredRun:
    """Passes over sound stored batches of one message each that stand back to back.

    They are checked as `check_stored` does it, and that they follow one another; in a third of the
    time, which counts where small batches are read from the disk. The first batch that is anything
    else is left for somebody who can say what it is.

    Args:
        view: Batches; nothing after its end is looked at.
        start: Where in it to begin.
        partition_id: The partition they have to belong to.
        offset: The offset that the first of them has to have.
        stop_offset: The offset to stop before.
        timestamp: All have to be younger.
    """
    unpack, unpack_frame = BATCH_HEADER.unpack_from, FRAME_HEADER.unpack_from
    digest = xxh3_64_intdigest
    overhead = BATCH_HEADER.size + FRAME_HEADER.size
    end = len(view)
    while offset < stop_offset and end - start >= overhead:
        place, base, time, _, length, checksum, count, reserved = unpack(view, start)
        if count != 1 or base != offset or place != partition_id or time <= timestamp:
            break
        following = start + length
        if reserved != _RESERVED or following > end or length < overhead:
            break
        frame = start + BATCH_HEADER.size
        own_checksum, _, _, _, headers_length, payload_length, reserved = unpack_frame(view, frame)
        if reserved or overhead + headers_length + payload_length != length:
            break
        hashed = frame + _CHECKSUM.size
        if digest(view[hashed:following]) != own_checksum:
            break
        covered = (
            view[start : start + _CHECKSUM_OFFSET],
            view[start + _COUNT_OFFSET : start + _COUNT_END],
            view[frame:hashed],
        )
        if digest(b"".join(covered)) != checksum:
            break
        start, offset, timestamp = following, base + 1, time
    return StoredRun(start, offset, timestamp)


def stamp_batch(
    buffer: bytearray | memoryview,
    *,
    partition_id: int,
    base_offset: int,
    base_timestamp: int,
    checksums: bytes | None = None,
) -> None:
    """Writes into the header of a verified batch where and when it is appended (spec 04, 2.6).

    Args:
        buffer: The whole batch; only its header changes.
        partition_id: The partition it is appended to.
        base_offset: The offset of its first message.
        base_timestamp: The time of the append, in microseconds since the epoch.
        checksums: `BatchInfo.checksums`; without it they are gathered from the frames.

    Raises:
        DecodeError: The batch is malformed.
    """
    view = memoryview(buffer)
    if checksums is None:
        header = read_header(view)
        frames = _frames(view, header)
        _, _, checksums = _locate(frames, header.message_count, 0, header.message_count)
    _STAMP.pack_into(view, 0, partition_id, base_offset, base_timestamp)
    # What the checksum covers stands in the header as it is hashed, around the checksum itself.
    covered = (view[:_CHECKSUM_OFFSET], view[_COUNT_OFFSET:_COUNT_END], checksums)
    _CHECKSUM.pack_into(view, _CHECKSUM_OFFSET, xxh3_64_intdigest(b"".join(covered)))


def slice_batch(buffer: Buffer, first: int, count: int) -> tuple[bytes, memoryview]:
    """A run of the frames of a batch under a header of their own (spec 04, 5.5).

    Args:
        buffer: The batch, possibly cut before; what follows it is not looked at.
        first: The first frame of the run; 0 is the first one in the buffer.
        count: The frames of the run, at least 1.

    Returns:
        The new header, and the frames as they stand in the buffer.

    Raises:
        DecodeError: The batch is malformed.
        ValueError: The batch has no such run.
    """
    header = read_header(buffer)
    if first < 0 or count < 1 or first + count > header.message_count:
        message = f"{count} frames from {first} on: the batch has {header.message_count}"
        raise ValueError(message)
    frames = _frames(memoryview(buffer), header)
    start, end, checksums = _locate(frames, header.message_count, first, first + count)
    sliced = header._replace(
        batch_length=BATCH_HEADER.size + end - start,
        message_count=count,
    )
    return _build_header(sliced, checksums), frames[start:end]


def _build_header(header: BatchHeader, checksums: Buffer) -> bytes:
    """The bytes of a header, with its checksum computed."""
    fields = header._replace(batch_checksum=_batch_checksum(header, checksums))
    return BATCH_HEADER.pack(*fields, _RESERVED)


def _batch_checksum(header: BatchHeader, checksums: Buffer) -> int:
    """The checksum over the fields of a header and the checksums of the frames (spec 04, 2.4)."""
    fields = _CHECKSUM_INPUT.pack(
        header.partition_id,
        header.base_offset,
        header.base_timestamp,
        header.origin_timestamp,
        header.batch_length,
        header.message_count,
    )
    return xxh3_64_intdigest(fields + checksums)


def _frames(view: memoryview, header: BatchHeader) -> memoryview:
    """All frames of a batch."""
    if header.batch_length > len(view):
        message = f"a batch of {header.batch_length:,} bytes ends after {len(view):,}"
        raise DecodeError(message)
    return view[BATCH_HEADER.size : header.batch_length]


def _check_batch(view: memoryview, header: BatchHeader) -> tuple[BatchInfo, bool]:
    """Checks frames and checksums; also tells whether the offset deltas are 0, 1, 2, ..."""
    frames = _frames(view, header)
    count = header.message_count
    if count == 1 and (lone := _check_lone_frame(frames)) is not None:
        checksums, deltas = lone
    elif size := _frame_size(frames, count, count):
        checksums, deltas = _check_equal_frames(frames, size)
    else:
        checksums, deltas = _check_frames(frames, count)
    if _batch_checksum(header, checksums) != header.batch_checksum:
        raise DecodeError("the checksum of a batch is wrong", ErrorCode.INVALID_BATCH_CHECKSUM)
    return BatchInfo(header, checksums), deltas == _first_deltas(count)


def _check_lone_frame(frames: memoryview) -> tuple[bytes, bytes] | None:
    """Checksum and offset delta of the only frame, if it is sound; what is wrong is not told."""
    if len(frames) < FRAME_HEADER.size:
        return None
    checksum, _, _, _, headers_length, payload_length, reserved = FRAME_HEADER.unpack_from(frames)
    if (
        reserved
        or FRAME_HEADER.size + headers_length + payload_length != len(frames)
        or xxh3_64_intdigest(frames[_CHECKSUM.size :]) != checksum
    ):
        return None
    start, end = _OFFSET_DELTA_OFFSET, _OFFSET_DELTA_OFFSET + _OFFSET_DELTA_BYTES
    return frames[: _CHECKSUM.size].tobytes(), frames[start:end].tobytes()


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
        raise _wrong_frame_checksum()
    return checksums, _column(frames, _OFFSET_DELTA_OFFSET, _OFFSET_DELTA_BYTES, size)


def _check_frames(frames: memoryview, message_count: int) -> tuple[bytes, bytes]:
    """Checksums and offset deltas of frames of any size."""
    bounds, checksums, deltas = _walk(frames, len(frames))
    digests = [
        xxh3_64_intdigest(frames[start + _CHECKSUM.size : end]) for start, end in pairwise(bounds)
    ]
    if digests != checksums:
        raise _wrong_frame_checksum()
    if bounds[-1] != len(frames) or len(checksums) != message_count:
        raise _not_tiled()
    return _pack_checksums(checksums), struct.pack(f"<{message_count}I", *deltas)


def _locate(
    frames: memoryview, message_count: int, first: int, stop: int
) -> tuple[int, int, bytes]:
    """Where the frames from `first` up to `stop` start and end, and their checksums."""
    size = _frame_size(frames, message_count, stop)
    if size:
        start, end = first * size, stop * size
        return start, end, _column(frames[start:end], 0, _CHECKSUM.size, size)
    bounds, checksums, _ = _walk(frames, stop)
    if len(checksums) < stop:
        raise _not_tiled()
    return bounds[first], bounds[stop], _pack_checksums(checksums[first:])


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


def _pack_checksums(checksums: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(checksums)}Q", *checksums)


def _wrong_frame_checksum() -> DecodeError:
    return DecodeError("the checksum of a frame is wrong", ErrorCode.INVALID_MESSAGE_CHECKSUM)


def _not_tiled() -> DecodeError:
    return DecodeError("the frames of a batch do not fill it")


def _frame_size(frames: memoryview, message_count: int, proven: int) -> int:
    """The size that all frames have; 0 if they don't, or if a walk over them costs less.

    Equal sizes are proven for the first `proven` frames, reserved fields included: the first
    frame ends where the second begins if it has this size, and so on.
    """
    if proven < _FEW_FRAMES or len(frames) % message_count:
        return 0
    size = len(frames) // message_count
    if size < FRAME_HEADER.size:
        return 0
    headers_length, payload_length, reserved = _LENGTHS.unpack_from(frames, _LENGTHS_OFFSET)
    if reserved or FRAME_HEADER.size + headers_length + payload_length != size:
        return 0
    lengths = bytes(frames[_LENGTHS_OFFSET : _LENGTHS_OFFSET + _LENGTHS.size])
    columns = _column(frames[: proven * size], _LENGTHS_OFFSET, _LENGTHS.size, size)
    return size if columns == lengths * proven else 0


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


def _first_deltas(count: int) -> bytes:
    """The offset deltas of `count` frames in a row."""
    if 4 * count <= len(_DELTAS):
        return _DELTAS[: 4 * count]
    return struct.pack(f"<{count}I", *range(count))
