"""Batches of plain payloads: all that a producer sends without a wish of its own for each message.

They are the same as those of `build_batch`, several times as fast: whatever has to be done for each
message is done by functions written in C that are mapped over all of them, and each byte of a
payload is copied once.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from itertools import accumulate, pairwise, repeat
from operator import sub
from typing import Final

from xxhash import xxh3_64_intdigest

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
    lengths = array("I", map(len, payloads))
    step = 3 if user_headers else 2
    parts: list[Buffer] = [user_headers] * (1 + step * count)
    parts[0] = bytes(BATCH_HEADER.size)
    parts[1::step] = cut_evenly(
        _headers(lengths, ids, ages, len(user_headers)), count, f"{FRAME_HEADER.size}s"
    )
    parts[2::step] = payloads
    batch = bytearray().join(parts)
    packed = _stamp(batch, lengths, len(user_headers))
    batch[: BATCH_HEADER.size] = build_header(origin, len(batch), count, packed)
    return batch


def _stamp(batch: bytearray, lengths: array[int], headers_length: int) -> bytes:
    """Put the checksum of each frame in its place; returns all of them (spec 04, 3)."""
    rest = FRAME_HEADER.size + headers_length
    ends = list(
        accumulate(lengths, lambda end, length: end + rest + length, initial=BATCH_HEADER.size)
    )
    view = memoryview(batch)
    frames = [view[start + 8 : end] for start, end in pairwise(ends)]
    checksums = array("Q", map(xxh3_64_intdigest, frames))
    if sys.byteorder == "big":
        checksums.byteswap()
    packed = checksums.tobytes()
    size = rest + lengths[0]
    if size % 8 == 0 and lengths.count(lengths[0]) == len(lengths):
        view.cast("Q")[BATCH_HEADER.size // 8 :: size // 8] = memoryview(checksums)
    else:
        for start, checksum in zip(ends, cut_evenly(packed, len(lengths), "8s"), strict=False):
            batch[start : start + 8] = checksum
    return packed


def _headers(
    lengths: array[int], ids: Buffer, ages: Sequence[int], headers_length: int
) -> bytearray:
    """The headers of all frames, a column at a time; where checksums go are zeros."""
    count = len(lengths)
    block = bytearray(FRAME_HEADER.size * count)
    wide, narrow = memoryview(block).cast("Q"), memoryview(block).cast("I")
    halves = memoryview(ids).cast("Q")
    wide[1::6], wide[2::6] = halves[0::2], halves[1::2]
    narrow[6::12] = memoryview(array("I", range(count)))
    if ages:
        narrow[7::12] = memoryview(array("I", ages))
    if headers_length:
        narrow[8::12] = memoryview(array("I", [headers_length]) * count)
    narrow[9::12] = memoryview(lengths)
    return block
