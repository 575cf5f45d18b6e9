"""Cutting batches for readers."""

from typing import NamedTuple

from windsprite_protocol.batches import BATCH_HEADER, FRAME_HEADER, slice_batch
from windsprite_protocol.model.messages import Buffer


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


def cut_batch(batch: Buffer, message_count: int, first: int, stop: int, room: int) -> Cut:
    """The frames from `first` up to `stop` that fit into `room` bytes, but at least one.

    Raises:
        DecodeError: The batch is malformed.
    """
    if len(batch) > room:
        stop = first + _frames_that_fit(batch, first, stop - first, room)
    if stop - first == message_count:
        return Cut((batch,), message_count, len(batch))
    header, frames = slice_batch(batch, first, stop - first)
    return Cut((header, frames), stop - first, len(header) + len(frames))


def _frames_that_fit(batch: Buffer, first: int, count: int, room: int) -> int:
    start = BATCH_HEADER.size
    left = room - BATCH_HEADER.size
    for index in range(first + count):
        *_, headers_length, payload_length, _ = FRAME_HEADER.unpack_from(batch, start)
        size = FRAME_HEADER.size + headers_length + payload_length
        start += size
        if index >= first:
            left -= size
            if left < 0:
                return max(1, index - first)
    return count
