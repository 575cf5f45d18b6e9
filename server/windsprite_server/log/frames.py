"""Cutting batches for readers."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from windsprite_protocol.batches import BATCH_HEADER, slice_batch
from windsprite_protocol.message_frames import FRAME_HEADER, nearest_mark
from windsprite_protocol.model.messages import Buffer

SLICE_MAX: Final = 65_536
"""Frames of a part of a batch: to find and checksum more would keep others waiting."""


class Cut(NamedTuple):
    """A part of a batch, as a record of its own.

    Attributes:
        pieces: The record: the batch itself, or a new header and the frames.
        messages_count: Its messages.
        size: Its bytes.
    """

    pieces: tuple[Buffer, ...]
    messages_count: int
    size: int


def cut_batch(
    batch: Buffer,
    message_count: int,
    first: int,
    stop: int,
    room: int,
    *,
    marks: Sequence[int] = (),
) -> Cut:
    """The frames from `first` up to `stop` that fit into `room` bytes, but at least one.

    At most `SLICE_MAX` of them, unless that is the whole batch.

    Args:
        batch: A batch and nothing else.
        message_count: Its frames.
        first: The first frame wanted.
        stop: The frame to stop before.
        room: Bytes of the record.
        marks: `BatchInfo.marks`, if they are known.

    Raises:
        DecodeError: The batch is malformed.
    """
    if len(batch) > room:
        wanted = min(stop - first, SLICE_MAX)
        stop = first + _frames_that_fit(batch, first, wanted, room, marks)
    if stop - first == message_count:
        return Cut((batch,), message_count, len(batch))
    count = min(stop - first, SLICE_MAX)
    header, frames = slice_batch(batch, first, count, marks)
    return Cut((header, frames), count, len(header) + len(frames))


def _frames_that_fit(batch: Buffer, first: int, count: int, room: int, marks: Sequence[int]) -> int:
    start, passed = nearest_mark(first, marks)
    start += BATCH_HEADER.size
    left = room - BATCH_HEADER.size
    for index in range(passed, first + count):
        *_, headers_length, payload_length, _ = FRAME_HEADER.unpack_from(batch, start)
        size = FRAME_HEADER.size + headers_length + payload_length
        start += size
        if index >= first:
            left -= size
            if left < 0:
                return max(1, index - first)
    return count
