"""Messages on their way to a server, and the batches that come back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast, overload

from windsprite.environment import Environment
from windsprite.errors import InvalidRequest, ProtocolViolation
from windsprite_protocol import messages as protocol_messages
from windsprite_protocol import user_headers
from windsprite_protocol.batches import NewMessage, build_batch
from windsprite_protocol.errors import DecodeError, EncodeError, ErrorCode
from windsprite_protocol.model.identifiers import (
    Balanced,
    ByKey,
    Consumer,
    ConsumerKind,
    Identifier,
    Partitioning,
    PollingStrategy,
    ToPartition,
)
from windsprite_protocol.model.messages import (
    NO_PARTITION,
    Buffer,
    PolledMessages,
    SendMessages,
)
from windsprite_protocol.model.typed_values import PythonValue, TypedValue
from windsprite_protocol.payload_batches import build_payload_batch

ReceivedMessage = protocol_messages.Message

From = PollingStrategy
"""Where a poll begins: `From.first()`, `.last()`, `.next()`, `.offset(n)`, `.timestamp(us)`."""

Headers: TypeAlias = Mapping[Any, TypedValue | PythonValue]
"""User headers by their keys, which are `TypedValue` or `PythonValue`, too.

The type of the keys is `Any` since mappings are invariant in it: a plain `dict[str, str]` would
not do otherwise.
"""

_MAX_MESSAGE_ID: Final = (1 << 128) - 1


@dataclass(frozen=True, slots=True)
class Message:
    """A message to be sent.

    Attributes:
        payload: At most 64,000,000 bytes; text is sent as UTF-8. May be empty, but official
            clients cannot send such messages and may not expect them.
        headers: Keys and values of type `str`, `bytes`, `bool`, `int` or `float`, or
            `TypedValue` for a kind of one's own choice; at most 100,000 bytes.
        id: 1 to 2^128-1; None: a random one.
        origin_timestamp: When the message came into being, in microseconds since the epoch;
            None: now.
    """

    payload: bytes | str
    headers: Headers | None = None
    id: int | None = None
    origin_timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Batch(Sequence[ReceivedMessage]):
    """What a poll returned; a sequence of its messages in ascending order of their offsets.

    Each message is made when it is asked for, so a batch holds the memory of all of them. Who only
    wants the payloads gets them several times as fast as `payloads`.

    Attributes:
        messages: The messages.
        partition: The partition that was read; -1 if there was none to be read, as may happen to a
            member of a consumer group.
        current_offset: The offset of the newest message of the partition; 0 also while there is
            none.
    """

    messages: Sequence[ReceivedMessage]
    partition: int
    current_offset: int

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        return iter(self.messages)

    @overload
    def __getitem__(self, index: int) -> ReceivedMessage: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[ReceivedMessage, ...]: ...

    def __getitem__(self, index: int | slice) -> ReceivedMessage | tuple[ReceivedMessage, ...]:
        if isinstance(index, slice):
            return tuple(self.messages[index])
        return self.messages[index]

    @property
    def payloads(self) -> list[bytes]:
        """The payloads of the messages in their order; made anew each time."""
        if isinstance(self.messages, protocol_messages.Messages):
            return self.messages.payloads()
        return [message.payload for message in self.messages]

    @property
    def next_offset(self) -> int | None:
        """Where to go on reading; None if there was no message."""
        return self.messages[-1].offset + 1 if self.messages else None


def build_send(
    stream: Identifier,
    topic: Identifier,
    messages: Sequence[bytes | str | Message],
    *,
    key: bytes | str | None,
    partition: int | None,
    headers: Headers | None,
    environment: Environment,
) -> SendMessages:
    """The request that sends these messages; ids and times are fixed here, once and for all.

    Raises:
        InvalidRequest: The protocol cannot carry it.
    """
    if isinstance(messages, bytes | str | Message):
        raise InvalidRequest(
            "send: the messages have to be a list", hint="write [message] to send only one"
        )
    try:
        default_headers = encode_headers(headers)
        now = environment.wall_clock_us()
        ids = environment.random_bytes(16 * len(messages))
        if set(map(type, messages)) == {bytes}:
            payloads = cast("Sequence[bytes]", messages)
            batch: Buffer = build_payload_batch(payloads, ids, now, default_headers)
        else:
            new_messages = [
                new_message(message, now, ids[16 * index : 16 * index + 16], default_headers)
                for index, message in enumerate(messages)
            ]
            batch = build_batch(new_messages)
    except EncodeError as error:
        raise InvalidRequest(f"send: {error}", code=error.code) from error
    return SendMessages(stream, topic, _partitioning(key, partition), len(messages), batch)


def new_message(
    message: bytes | str | Message, now: int, random_id: bytes, default_headers: bytes
) -> NewMessage:
    """A message with all that it is sent with.

    Raises:
        InvalidRequest: It has an id or a payload that cannot be.
        EncodeError: It has headers that cannot be.
    """
    if not isinstance(message, Message):
        return NewMessage(_payload(message), random_id, now, default_headers)
    id_ = random_id
    if message.id is not None:
        if not 0 < message.id <= _MAX_MESSAGE_ID:
            raise InvalidRequest("send: a message id is a number from 1 to 2^128-1")
        id_ = message.id.to_bytes(16, "little")
    return NewMessage(
        _payload(message.payload),
        id_,
        now if message.origin_timestamp is None else message.origin_timestamp,
        default_headers if message.headers is None else encode_headers(message.headers),
    )


def _payload(payload: bytes | str) -> bytes:
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, str):
        return _utf8(payload)
    message = f"send: a message is bytes, str or Message, not {type(payload).__name__}"
    raise InvalidRequest(message)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest("send: a text with lone surrogates has no UTF-8 form") from None


def encode_headers(headers: Headers | None) -> bytes:
    """The bytes of user headers; none for none.

    Raises:
        EncodeError: The protocol cannot carry them.
    """
    if not headers:
        return b""
    return user_headers.encode(user_headers.from_python(dict(headers)))


def _partitioning(key: bytes | str | None, partition: int | None) -> Partitioning:
    if key is not None and partition is not None:
        raise InvalidRequest("send: either a key or a partition, not both")
    if partition is not None:
        return ToPartition(partition)
    return Balanced() if key is None else ByKey(key_bytes(key))


def key_bytes(key: bytes | str) -> bytes:
    """A key as it is hashed.

    Raises:
        InvalidRequest: It is empty or longer than 255 bytes.
    """
    data = _utf8(key) if isinstance(key, str) else key
    if not 1 <= len(data) <= 255:
        raise InvalidRequest(
            "send: a key has 1 to 255 bytes", code=ErrorCode.INVALID_KEY_VALUE_LENGTH
        )
    return data


def reader_of(consumer: Identifier | Consumer | None, group: Identifier | None) -> Consumer:
    """Who reads: a consumer by its number or name or as it is, or a group; else consumer 0.

    Raises:
        InvalidRequest: It is both.
    """
    if group is not None:
        if consumer is not None:
            raise InvalidRequest("either a consumer or a group, not both")
        return Consumer(ConsumerKind.GROUP, group)
    if isinstance(consumer, Consumer):
        return consumer
    return Consumer(ConsumerKind.SINGLE, 0 if consumer is None else consumer)


def read_batch(polled: PolledMessages) -> Batch:
    """The messages of a poll.

    Raises:
        ProtocolViolation: The server sent something else.
    """
    try:
        messages = protocol_messages.Messages(polled.records)
    except DecodeError as error:
        raise ProtocolViolation(f"poll: {error}", code=error.code) from error
    partition = -1 if polled.partition_id == NO_PARTITION else polled.partition_id
    return Batch(messages, partition, polled.current_offset)
