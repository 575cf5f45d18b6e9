"""Sending and polling (spec 04, 4 to 6).

Both directions of both commands run for every batch: they use `struct`, and batches pass through
them without a copy. Their construct layouts say the same.

Clients send and poll at the same few places over and over. What the bytes of a place mean is
remembered, since to look that up costs a quarter of reading it again.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

import construct as c

from windsprite_protocol.body import StructCodec
from windsprite_protocol.errors import DecodeError, ErrorCode
from windsprite_protocol.layout import FLAG, U8, U32, U64, Counted, Enumerated, Record, struct_twin
from windsprite_protocol.model.identifiers import (
    Consumer,
    Identifier,
    Partitioning,
    PollingKind,
    PollingStrategy,
)
from windsprite_protocol.model.messages import (
    Buffer,
    Confirmation,
    Confirmations,
    FlushUnsavedBuffer,
    GetPollRouting,
    PolledMessages,
    PollMessages,
    PollPrimary,
    SendMessages,
)
from windsprite_protocol.v0_11.layouts.cursor import (
    read_consumer,
    read_identifier,
    read_optional_partition,
    read_partitioning,
    write_consumer,
    write_identifier,
    write_optional_partition,
    write_partitioning,
)
from windsprite_protocol.v0_11.layouts.primitives import (
    CONSUMER,
    OPTIONAL_PARTITION,
    PARTITIONING,
    STREAM,
    TOPIC,
)

SEND_MESSAGES: Final = c.Struct(
    "metadata"
    / c.Prefixed(
        U32,
        c.Struct(
            STREAM, TOPIC, "partitioning" / PARTITIONING, "messages_count" / U32, c.Terminated
        ),
    ),
    "batch" / c.GreedyBytes,
)

CONFIRMATION: Final = Record(
    Confirmation,
    "stream_id" / U32,
    "topic_id" / U32,
    "partition_id" / U32,
    "base_offset" / U64,
)
CONFIRMATIONS: Final = Record(Confirmations, "items" / Counted[Confirmation](U32, CONFIRMATION))

POLL_MESSAGES: Final = Record(
    PollMessages,
    "consumer" / CONSUMER,
    STREAM,
    TOPIC,
    "partition_id" / OPTIONAL_PARTITION,
    "strategy"
    / Record(
        PollingStrategy,
        "kind" / Enumerated(U8, PollingKind),
        "value" / U64,
    ),
    "count" / U32,
    "auto_commit" / FLAG,
)

POLLED_HEAD: Final = c.Struct("partition_id" / U32, "current_offset" / U64, "messages_count" / U32)
POLLED_MESSAGES: Final = c.Struct("head" / POLLED_HEAD, "records" / c.GreedyBytes)

POLL_PRIMARY: Final = Record(PollPrimary, "poll" / POLL_MESSAGES)
GET_POLL_ROUTING: Final = Record(
    GetPollRouting,
    # Only polls that commit need the primary of a partition (spec 01, 8.4).
    "poll" / c.ExprValidator(POLL_MESSAGES, lambda poll, _: poll.auto_commit),
)

FLUSH_UNSAVED_BUFFER: Final = Record(
    FlushUnsavedBuffer,
    STREAM,
    TOPIC,
    "partition_id" / U32,
    "fsync" / FLAG,
)

_PLACES_REMEMBERED: Final = 2048
_MAX_PLACE_BYTES: Final = 1024
"""More than any place has: three tagged values of 257 bytes, and a partition."""

_COUNT: Final = struct.Struct("<L")
_LONE_CONFIRMATION: Final = struct.Struct("<LLLLQ")  # behind a count of 1
_POLL_TAIL: Final = struct.Struct("<BQL?")
_POLLED_HEAD: Final = struct_twin(POLLED_HEAD)
_CONFIRMATION: Final = struct_twin(CONFIRMATION)
_POLLING_KINDS: Final = {kind.value: kind for kind in PollingKind}


class SendMessagesCodec(StructCodec[SendMessages]):
    """A send: its batch stays a part of its own, and a view into the body (spec 04, 4.1)."""

    cls = SendMessages
    layout = SEND_MESSAGES

    def _write(self, value: SendMessages) -> tuple[bytes, Buffer]:
        metadata = b"".join(
            (
                write_identifier(value.stream),
                write_identifier(value.topic),
                write_partitioning(value.partitioning),
                _COUNT.pack(value.messages_count),
            )
        )
        return _COUNT.pack(len(metadata)) + metadata, value.batch

    def _read(self, body: memoryview) -> SendMessages:
        end = _COUNT.unpack_from(body)[0] + _COUNT.size
        count_at = end - _COUNT.size
        if count_at > _MAX_PLACE_BYTES:
            message = f"metadata of {count_at} bytes"
            raise DecodeError(message)
        stream, topic, partitioning = _read_send_place(body[_COUNT.size : count_at].tobytes())
        count = _COUNT.unpack_from(body, count_at)[0]
        return SendMessages(stream, topic, partitioning, count, body[end:])


@lru_cache(_PLACES_REMEMBERED)
def _read_send_place(data: bytes) -> tuple[Identifier, Identifier, Partitioning]:
    """Where a send goes: all of its metadata but the count of messages.

    Raises:
        DecodeError: It is something else, or bytes are left over.
    """
    stream, at = read_identifier(data, 0)
    topic, at = read_identifier(data, at)
    partitioning, at = read_partitioning(data, at)
    if at != len(data):
        message = f"{len(data) - at} bytes of the metadata left over"
        raise DecodeError(message)
    return stream, topic, partitioning


class ConfirmationsCodec(StructCodec[Confirmations]):
    """Where batches went; an empty body confirms without offsets (spec 04, 4.4)."""

    cls = Confirmations
    layout = CONFIRMATIONS

    def _write(self, value: Confirmations) -> tuple[bytes]:
        items = value.items
        if len(items) == 1:  # as in the answer to nearly every send
            row = items[0]
            packed = _LONE_CONFIRMATION.pack(
                1, row.stream_id, row.topic_id, row.partition_id, row.base_offset
            )
            return (packed,)
        rows = [
            _CONFIRMATION.pack(row.stream_id, row.topic_id, row.partition_id, row.base_offset)
            for row in items
        ]
        return (b"".join((_COUNT.pack(len(rows)), *rows)),)

    def _read(self, body: memoryview) -> Confirmations:
        if not body:
            return Confirmations(())
        count = _COUNT.unpack_from(body)[0]
        if len(body) != _COUNT.size + count * _CONFIRMATION.size:
            message = f"{count} confirmations do not make {len(body)} bytes"
            raise DecodeError(message)
        rows = _CONFIRMATION.iter_unpack(body[_COUNT.size :])
        return Confirmations(tuple([Confirmation(*row) for row in rows]))


class PollMessagesCodec(StructCodec[PollMessages]):
    """A poll (spec 04, 5.1)."""

    cls = PollMessages
    layout = POLL_MESSAGES

    def _write(self, value: PollMessages) -> tuple[bytes]:
        strategy = value.strategy
        return (
            b"".join(
                (
                    write_consumer(value.consumer),
                    write_identifier(value.stream),
                    write_identifier(value.topic),
                    write_optional_partition(value.partition_id),
                    _POLL_TAIL.pack(strategy.kind, strategy.value, value.count, value.auto_commit),
                )
            ),
        )

    def _read(self, body: memoryview) -> PollMessages:
        # What follows a poll is ignored, so its tail may begin earlier than it seems.
        size = min(len(body) - _POLL_TAIL.size, _MAX_PLACE_BYTES)
        consumer, stream, topic, partition_id, at = _read_poll_place(body[: max(0, size)].tobytes())
        number, start, count, auto_commit = _POLL_TAIL.unpack_from(body, at)
        kind = _POLLING_KINDS.get(number)
        if kind is None:
            message = f"{number} is no kind of polling strategy"
            raise DecodeError(message)
        strategy = PollingStrategy(kind, start)
        return PollMessages(consumer, stream, topic, partition_id, strategy, count, auto_commit)


@lru_cache(_PLACES_REMEMBERED)
def _read_poll_place(data: bytes) -> tuple[Consumer, Identifier, Identifier, int | None, int]:
    """For whom and where to poll, and where that ends; bytes may be left over.

    Raises:
        DecodeError: It is something else.
    """
    consumer, at = read_consumer(data, 0)
    stream, at = read_identifier(data, at)
    topic, at = read_identifier(data, at)
    partition_id, at = read_optional_partition(data, at)
    return consumer, stream, topic, partition_id, at


class PolledMessagesCodec(StructCodec[PolledMessages]):
    """What a poll found: the records stay parts of their own, and views (spec 04, 5.4)."""

    cls = PolledMessages
    layout = POLLED_MESSAGES

    def _write(self, value: PolledMessages) -> tuple[Buffer, ...]:
        head = _POLLED_HEAD.pack(value.partition_id, value.current_offset, value.messages_count)
        return (head, *value.records)

    def _read(self, body: memoryview) -> PolledMessages:
        if len(body) < _POLLED_HEAD.size:
            message = f"a poll is answered with {_POLLED_HEAD.size} bytes or more, not {len(body)}"
            raise DecodeError(message, ErrorCode.INVALID_NUMBER_ENCODING)
        records = body[_POLLED_HEAD.size :]
        partition_id, current_offset, count = _POLLED_HEAD.unpack_from(body)
        return PolledMessages(partition_id, current_offset, count, (records,) if records else ())
