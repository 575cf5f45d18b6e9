"""Messages as a reader gets them: the records of a poll reply, taken apart (spec 04, 5.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windsprite_protocol import user_headers
from windsprite_protocol.batches import BATCH_HEADER, BatchHeader, iter_batches
from windsprite_protocol.errors import DecodeError, ErrorCode
from windsprite_protocol.message_frames import FRAME_HEADER
from windsprite_protocol.model.messages import Buffer
from windsprite_protocol.model.typed_values import PythonValue, UserHeaders


@dataclass(slots=True, eq=False, repr=False)
class Message:
    """A message that was polled; not frozen only because that would triple the time to make one.

    Attributes:
        partition_id: The partition it was read from.
        offset: Its place in the partition.
        timestamp: When the server appended it, in microseconds since the epoch; the same for all
            messages of a batch.
        origin_timestamp: When the producer made it, in microseconds since the epoch.
        raw_id: The bytes of `id`.
        checksum: The XXH3 of its frame as the producer computed it; it is not checked here.
        payload: What the producer sent.
        raw_user_headers: The encoded user headers, possibly encrypted by the producer.
    """

    partition_id: int
    offset: int
    timestamp: int
    origin_timestamp: int
    raw_id: bytes
    checksum: int
    payload: bytes
    raw_user_headers: bytes = b""

    def __repr__(self) -> str:
        return (
            f"<Message partition={self.partition_id} offset={self.offset} "
            f"payload={len(self.payload)} bytes>"
        )

    @property
    def id(self) -> int:
        """The id that the producer gave it, a number of 128 bits."""
        return int.from_bytes(self.raw_id, "little")

    @property
    def user_headers(self) -> UserHeaders:
        """The user headers with their kinds; empty if there are none or they are malformed."""
        try:
            return user_headers.decode(self.raw_user_headers)
        except DecodeError:
            return {}

    @property
    def headers(self) -> dict[PythonValue, PythonValue]:
        """The user headers as plain values; empty if there are none or they are malformed.

        Raises:
            DecodeError: A well-formed header has no plain value, or two keys are equal as plain
                values; `user_headers` has them all.
        """
        return user_headers.to_python(self.user_headers)


def read_messages(records: Sequence[Buffer]) -> list[Message]:
    """The messages of the records of a poll, in their order; checksums are not checked.

    Args:
        records: As in `PolledMessages.records`. The messages keep copies, not these buffers.

    Raises:
        DecodeError: A record is malformed (4025); then nothing of the poll can be trusted.
    """
    buffer = records[0] if len(records) == 1 else b"".join(records)
    messages: list[Message] = []
    try:
        for header, batch in iter_batches(buffer):
            _read_batch(header, batch, messages)
    except DecodeError as error:
        raise DecodeError(str(error), ErrorCode.INVALID_MESSAGE_PAYLOAD_LENGTH) from error
    return messages


def _read_batch(header: BatchHeader, batch: memoryview, messages: list[Message]) -> None:
    unpack, header_size = FRAME_HEADER.unpack_from, FRAME_HEADER.size
    partition_id, base_offset, timestamp, origin, length, _, count = header
    before = len(messages)
    end = BATCH_HEADER.size
    while end < length:
        payload_start = end + header_size
        if payload_start > length:
            raise DecodeError("a record ends inside the header of a frame")
        checksum, id_, delta, age, headers_length, payload_length, reserved = unpack(batch, end)
        payload_end = payload_start + payload_length
        end = payload_end + headers_length
        if reserved:
            raise DecodeError("the reserved field of a frame is not zero")
        if end > length:
            raise DecodeError("a frame runs past its record")
        messages.append(
            Message(
                partition_id,
                base_offset + delta,
                timestamp,
                origin + age,
                id_,
                checksum,
                bytes(batch[payload_start:payload_end]),
                bytes(batch[payload_end:end]) if headers_length else b"",
            )
        )
    if len(messages) - before != count:
        message = f"a record of {count} messages holds {len(messages) - before}"
        raise DecodeError(message)
