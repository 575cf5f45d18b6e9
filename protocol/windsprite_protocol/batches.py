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
from collections.abc import Generator, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

import construct as c
from xxhash import xxh3_64_intdigest

from windsprite_protocol.errors import DecodeError, EncodeError, ErrorCode
from windsprite_protocol.layout import struct_twin
from windsprite_protocol.message_frames import (
    FRAME_HEADER,
    CheckedFrames,
    check_few_frames,
    check_frames,
    locate_frames,
    pack_checksums,
)
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

BATCH_HEADER: Final = struct_twin(BATCH_HEADER_LAYOUT)

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
_CHECKSUM_OFFSET: Final = 40
_COUNT_OFFSET: Final = 48
_COUNT_END: Final = 52
_CHECKSUM_INPUT: Final = struct.Struct("<QQQQQI")
_LONE_OVERHEAD: Final = BATCH_HEADER.size + FRAME_HEADER.size
_LONE_HASHED: Final = BATCH_HEADER.size + _CHECKSUM.size

T = TypeVar("T")


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
        marks: Where frames stand in a batch of very many, so that some of them are soon found.
    """

    header: BatchHeader
    checksums: bytes
    marks: tuple[int, ...]


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
    batch[: BATCH_HEADER.size] = _build_header(header, pack_checksums(checksums))
    return batch


def build_header(origin_timestamp: int, length: int, count: int, checksums: Buffer) -> bytes:
    """The header of a producer's batch whose frames are made elsewhere.

    Args:
        origin_timestamp: The smallest one of its messages.
        length: Bytes of the batch, with this header.
        count: Its messages.
        checksums: Those of its frames, 8 bytes each.

    Raises:
        EncodeError: The batch is too long, or the timestamp does not fit its field.
    """
    _check_length(length)
    if not 0 <= origin_timestamp <= _U64_MAX:
        raise EncodeError("an origin timestamp does not fit 64 bits")
    return _build_header(BatchHeader(0, 0, 0, origin_timestamp, length, 0, count), checksums)


def check_sizes(payload: Buffer, user_headers: Buffer) -> None:
    """See that a message is not too big to be sent (spec 04, 2.7).

    Raises:
        EncodeError: Its payload (4022) or its user headers (4017) are.
    """
    if len(payload) > MAX_PAYLOAD_BYTES:
        message = f"a payload has {len(payload):,} bytes, at most {MAX_PAYLOAD_BYTES:,} go"
        raise EncodeError(message, ErrorCode.TOO_BIG_MESSAGE_PAYLOAD)
    if len(user_headers) > MAX_USER_HEADERS_BYTES:
        message = (
            f"user headers take {len(user_headers):,} bytes, at most {MAX_USER_HEADERS_BYTES:,} go"
        )
        raise EncodeError(message, ErrorCode.TOO_BIG_USER_HEADERS)


def _check_length(length: int) -> None:
    if length > MAX_BATCH_BYTES:
        message = f"a batch of {length:,} bytes is too long"
        raise EncodeError(message, ErrorCode.INVALID_MESSAGES_SIZE)


def _measure(messages: Sequence[NewMessage]) -> tuple[int, int]:
    """The smallest origin timestamp and the length of the batch, within the limits of 2.7."""
    if not messages:
        raise EncodeError("there is no message to send", ErrorCode.INVALID_MESSAGES_COUNT)
    length = BATCH_HEADER.size
    for payload, id_, _, user_headers in messages:
        check_sizes(payload, user_headers)
        if len(id_) != MESSAGE_ID_BYTES:
            message = f"a message id has {MESSAGE_ID_BYTES} bytes, not {len(id_)}"
            raise EncodeError(message)
        length += FRAME_HEADER.size + len(payload) + len(user_headers)
    _check_length(length)
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
    found = begin_to_verify(buffer, expected_count)
    return found if isinstance(found, BatchInfo) else _finish(found)


def begin_to_verify(
    buffer: Buffer, expected_count: int
) -> BatchInfo | Generator[None, None, BatchInfo]:
    """Admits a producer's batch as `verify_batch`, without keeping others waiting.

    Returns:
        What was found; for a batch of very many messages a generator of it, which pauses after
        every few thousand of them and raises what `verify_batch` raises.
    """
    view = memoryview(buffer)
    if expected_count == 1 and (lone := _admit_lone_batch(view)) is not None:
        return lone
    header = read_header(buffer)
    frames = _frames(view, header)
    checked = check_few_frames(frames, header.message_count)
    if checked is None:
        return _verify_in_pieces(header, frames, len(buffer), expected_count)
    return _admit(header, checked, len(buffer), expected_count)


def _admit_lone_batch(view: memoryview) -> BatchInfo | None:
    """The batch of one message, if it is sound; what is wrong is not told.

    All that is done for larger ones, in half the time: many producers send messages one by one.
    """
    length = len(view)
    if length < _LONE_OVERHEAD:
        return None
    fields = BATCH_HEADER.unpack_from(view)
    place, base, time, origin, batch_length, batch_checksum, count, reserved = fields
    checksum, _, delta, _, headers_length, payload_length, frame_reserved = (
        FRAME_HEADER.unpack_from(view, BATCH_HEADER.size)
    )
    if (
        count != 1
        or batch_length != length
        or _LONE_OVERHEAD + headers_length + payload_length != length
        or delta
        or frame_reserved
        or reserved != _RESERVED
        or xxh3_64_intdigest(view[_LONE_HASHED:]) != checksum
    ):
        return None
    checksums = view[BATCH_HEADER.size : _LONE_HASHED].tobytes()
    covered = _CHECKSUM_INPUT.pack(place, base, time, origin, length, 1) + checksums
    if xxh3_64_intdigest(covered) != batch_checksum:
        return None
    return BatchInfo._make((BatchHeader._make(fields[:-1]), checksums, ()))


def _verify_in_pieces(
    header: BatchHeader, frames: memoryview, length: int, expected_count: int
) -> Generator[None, None, BatchInfo]:
    checked = yield from check_frames(frames, header.message_count)
    return _admit(header, checked, length, expected_count)


def _admit(
    header: BatchHeader, checked: CheckedFrames, length: int, expected_count: int
) -> BatchInfo:
    info = _check_header(header, checked)
    if header.message_count == 0:
        raise DecodeError("the batch has no messages")
    if header.message_count != expected_count:
        message = f"the batch has {header.message_count} messages, {expected_count} are announced"
        raise DecodeError(message)
    if header.batch_length != length:
        raise DecodeError(f"{length - header.batch_length:,} bytes follow the batch")
    if not checked.in_order:
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
    frames = _frames(memoryview(buffer), header)
    checked = check_few_frames(frames, header.message_count)
    if checked is None:
        checked = _finish(check_frames(frames, header.message_count))
    info = _check_header(header, checked)
    if header.batch_length != len(buffer):
        message = f"{len(buffer) - header.batch_length:,} bytes follow the batch"
        raise DecodeError(message)
    return info


def _check_header(header: BatchHeader, checked: CheckedFrames) -> BatchInfo:
    if _batch_checksum(header, checked.checksums) != header.batch_checksum:
        raise DecodeError("the checksum of a batch is wrong", ErrorCode.INVALID_BATCH_CHECKSUM)
    return BatchInfo(header, checked.checksums, checked.marks)


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
        count = header.message_count
        _, _, checksums = locate_frames(frames, count, 0, count)
    _STAMP.pack_into(view, 0, partition_id, base_offset, base_timestamp)
    # What the checksum covers stands in the header as it is hashed, around the checksum itself.
    covered = (view[:_CHECKSUM_OFFSET], view[_COUNT_OFFSET:_COUNT_END], checksums)
    _CHECKSUM.pack_into(view, _CHECKSUM_OFFSET, xxh3_64_intdigest(b"".join(covered)))


def slice_batch(
    buffer: Buffer, first: int, count: int, marks: Sequence[int] = ()
) -> tuple[bytes, memoryview]:
    """A run of the frames of a batch under a header of their own (spec 04, 5.5).

    Args:
        buffer: The batch, possibly cut before; what follows it is not looked at.
        first: The first frame of the run; 0 is the first one in the buffer.
        count: The frames of the run, at least 1.
        marks: `BatchInfo.marks`, if they are known.

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
    start, end, checksums = locate_frames(frames, header.message_count, first, first + count, marks)
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


def _finish(checking: Generator[None, None, T]) -> T:
    """What a check finds, all pieces in one go."""
    while True:
        try:
            next(checking)
        except StopIteration as end:
            found: T = end.value
            return found
