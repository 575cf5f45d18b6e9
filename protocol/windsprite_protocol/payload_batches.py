"""Batches of plain payloads: all that a producer sends without a wish of its own for each message.

They are the same as those of `build_batch`, several times as fast: whatever has to be done for each
message is done by functions written in C that are mapped over all of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import repeat
from operator import add, sub
from typing import Final

from xxhash import xxh3_64_digest

from windsprite_protocol.batches import (
    BATCH_HEADER,
    MAX_PAYLOAD_BYTES,
    MAX_TIMESTAMP_SPREAD,
    MAX_USER_HEADERS_BYTES,
    NewMessage,
    build_batch,
    build_header,
)
from windsprite_protocol.message_frames import FRAME_HEADER, cut_evenly
from windsprite_protocol.model.messages import Buffer

_FEW: Final = 4
"""Below this the general way costs no more."""
_HASHED_HEADER: Final = FRAME_HEADER.size - 8
"""The header of a frame without its checksum: 16 bytes of id, 4 numbers of 4, 8 reserved bytes."""


def build_payload_batch(
    payloads: Sequence[Buffer],
    ids: Buffer,
    timestamps: int | Sequence[int],
    user_headers: Buffer = b"",
) -> bytes | bytearray:
    """The batch that a producer sends for messages that have the same user headers.

    Args:
        payloads: As in `NewMessage`.
        ids: 16 bytes for each of them.
        timestamps: The origin timestamp of all, or one for each of them.
        user_headers: Those of all.

    Raises:
        EncodeError: As `build_batch`.
    """
    count = len(payloads)
    ages: Sequence[int] = ()
    if isinstance(timestamps, int):
        origin = newest = timestamps
    else:
        origin, newest = min(timestamps, default=0), max(timestamps, default=0)
        if origin < newest:
            ages = list(map(sub, timestamps, repeat(origin)))
    if (
        count < _FEW
        or newest - origin > MAX_TIMESTAMP_SPREAD
        or max(map(len, payloads)) > MAX_PAYLOAD_BYTES
        or len(user_headers) > MAX_USER_HEADERS_BYTES
    ):
        pieces = cut_evenly(ids, count, "16s")
        times = repeat(timestamps, count) if isinstance(timestamps, int) else timestamps
        return build_batch(
            [
                NewMessage(payload, id_, timestamp, user_headers)
                for payload, id_, timestamp in zip(payloads, pieces, times, strict=True)
            ]
        )
    headers = _headers(array("I", map(len, payloads)), ids, ages, len(user_headers))
    hashed: Iterator[bytes] | list[bytes] = map(
        add, cut_evenly(headers, count, f"{_HASHED_HEADER}s"), payloads
    )
    if user_headers:
        hashed = map(add, hashed, repeat(user_headers))
    hashed = list(hashed)
    # Digests come as big-endian bytes.
    checksums = array("Q", b"".join(map(xxh3_64_digest, hashed)))
    checksums.byteswap()
    packed = checksums.tobytes()
    parts: list[bytes] = [b""] * (2 * count + 1)
    parts[1::2] = cut_evenly(packed, count, "8s")
    parts[2::2] = hashed
    length = BATCH_HEADER.size + sum(map(len, hashed)) + len(packed)
    parts[0] = build_header(origin, length, count, packed)
    return b"".join(parts)


def _headers(
    lengths: array[int], ids: Buffer, ages: Sequence[int], headers_length: int
) -> bytearray:
    """The headers of all frames without their checksums, a column at a time."""
    count = len(lengths)
    block = bytearray(_HASHED_HEADER * count)
    wide, narrow = memoryview(block).cast("Q"), memoryview(block).cast("I")
    halves = memoryview(ids).cast("Q")
    wide[0::5], wide[1::5] = halves[0::2], halves[1::2]
    narrow[4::10] = memoryview(array("I", range(count)))
    if ages:
        narrow[5::10] = memoryview(array("I", ages))
    if headers_length:
        narrow[6::10] = memoryview(array("I", [headers_length]) * count)
    narrow[7::10] = memoryview(lengths)
    return block
