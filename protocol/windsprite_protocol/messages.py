"""Messages as a reader gets them: the records of a poll reply, taken apart (spec 04, 5.5)."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, repeat
from struct import iter_unpack
from typing import Final, overload

from windsprite_protocol import user_headers
from windsprite_protocol.batches import BATCH_HEADER, BatchHeader, iter_batches
from windsprite_protocol.errors import DecodeError, ErrorCode
from windsprite_protocol.message_frames import FRAME_HEADER, common_frame_size, cut_evenly
from windsprite_protocol.model.messages import Buffer
from windsprite_protocol.model.typed_values import PythonValue, UserHeaders

_PAYLOAD_LENGTH: Final = struct.Struct("<I")
_PAYLOAD_LENGTH_OFFSET: Final = 36


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


class Messages(Sequence[Message]):
    """The messages of the records of a poll, each of them made when it is asked for.

    That the records are whole is checked at once; checksums are not.

    Args:
        records: As in `PolledMessages.records`. They are kept, and must not change; a message that
            was made keeps a copy of what is in it.

    Raises:
        DecodeError: A record is malformed (4025); then nothing of the poll can be trusted.
    """

    __slots__ = ("_ends", "_runs")

    def __init__(self, records: Sequence[Buffer]) -> None:
        buffer = records[0] if len(records) == 1 else b"".join(records)
        try:
            self._runs = [_Run(header, batch) for header, batch in iter_batches(buffer)]
        except DecodeError as error:
            raise DecodeError(str(error), ErrorCode.INVALID_MESSAGE_PAYLOAD_LENGTH) from error
        self._ends = list(accumulate(run.count for run in self._runs))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[Message]:
        return chain.from_iterable(map(_Run.messages, self._runs))

    @overload
    def __getitem__(self, index: int) -> Message: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...

    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(index, slice):
            return tuple(map(self._message, range(*index.indices(len(self)))))
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError("there is no such message")
        return self._message(index)

    def payloads(self) -> list[bytes]:
        """The payloads alone, in a fraction of the time that whole messages take."""
        return list(chain.from_iterable(map(_Run.payloads, self._runs)))

    def _message(self, index: int) -> Message:
        place = bisect_right(self._ends, index)
        return self._runs[place].message(index - (self._ends[place - 1] if place else 0))


class _Run:
    """The messages of one record.

    Attributes:
        count: How many there are.
    """

    __slots__ = ("_bounds", "_frames", "_header", "_lengths", "count")

    def __init__(self, header: BatchHeader, batch: memoryview) -> None:
        self._header = header
        self.count = header.message_count
        self._frames = batch[BATCH_HEADER.size :]
        size = common_frame_size(self._frames, self.count)
        self._bounds: Sequence[int] = (
            range(0, len(self._frames) + 1, size) if size else _bounds(self._frames, self.count)
        )
        # Of the user headers and the payload, if they are those of all messages.
        self._lengths = FRAME_HEADER.unpack_from(self._frames)[4:6] if size else None

    def messages(self) -> Iterator[Message]:
        """All of them."""
        if self._lengths is None:
            return map(self.message, range(self.count))
        headers_length, payload_length = self._lengths
        layout = f"{FRAME_HEADER.format}{payload_length}s{headers_length}s"
        place, base, timestamp, origin, *_ = self._header
        columns = zip(*iter_unpack(layout, self._frames), strict=True)
        checksums, ids, deltas, ages, _, _, _, payloads, headers = columns
        return map(
            Message,
            repeat(place),
            map(base.__add__, deltas),
            repeat(timestamp),
            map(origin.__add__, ages),
            ids,
            checksums,
            payloads,
            headers,
        )

    def message(self, index: int) -> Message:
        """One of them."""
        place, base, timestamp, origin, *_ = self._header
        start = self._bounds[index]
        checksum, id_, delta, age, _, payload_length, _ = FRAME_HEADER.unpack_from(
            self._frames, start
        )
        start += FRAME_HEADER.size
        end = start + payload_length
        return Message(
            place,
            base + delta,
            timestamp,
            origin + age,
            id_,
            checksum,
            bytes(self._frames[start:end]),
            bytes(self._frames[end : self._bounds[index + 1]]),
        )

    def payloads(self) -> Sequence[bytes]:
        """Their payloads."""
        frames, header_size = self._frames, FRAME_HEADER.size
        if self._lengths is not None:
            headers_length, payload_length = self._lengths
            layout = f"{header_size}x{payload_length}s{headers_length}x"
            return cut_evenly(frames, self.count, layout)
        payloads = []
        for start in self._bounds[:-1]:
            (length,) = _PAYLOAD_LENGTH.unpack_from(frames, start + _PAYLOAD_LENGTH_OFFSET)
            begin = start + header_size
            payloads.append(bytes(frames[begin : begin + length]))
        return payloads


def _bounds(frames: memoryview, count: int) -> list[int]:
    """Where the frames of a record begin and end."""
    unpack, header_size, length = FRAME_HEADER.unpack_from, FRAME_HEADER.size, len(frames)
    bounds = [0]
    end = 0
    while end < length:
        if length - end < header_size:
            raise DecodeError("a record ends inside the header of a frame")
        _, _, _, _, headers_length, payload_length, reserved = unpack(frames, end)
        end += header_size + headers_length + payload_length
        if reserved:
            raise DecodeError("the reserved field of a frame is not zero")
        if end > length:
            raise DecodeError("a frame runs past its record")
        bounds.append(end)
    if len(bounds) - 1 != count:
        message = f"a record of {count} messages holds {len(bounds) - 1}"
        raise DecodeError(message)
    return bounds
