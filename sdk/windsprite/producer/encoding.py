"""Messages from what callers give to what is sent; everything is refused here that can be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, repeat
from operator import add
from typing import Final, cast

from windsprite.encryption import Encryptor
from windsprite.environment import Environment
from windsprite.errors import InvalidRequest
from windsprite.messages import Headers, Message, encode_headers, new_message
from windsprite.producer.accumulator import Original, Run
from windsprite_protocol.batches import (
    MAX_PAYLOAD_BYTES,
    MAX_USER_HEADERS_BYTES,
    MESSAGE_ID_BYTES,
    NewMessage,
    check_sizes,
)
from windsprite_protocol.errors import EncodeError
from windsprite_protocol.message_frames import FRAME_HEADER, cut_evenly

_IDS_AT_ONCE: Final = 256
_MAX_TIMESTAMP: Final = (1 << 64) - 1


class Encoder:
    """Makes messages ready; their ids and times are fixed here, once and for all.

    Args:
        environment: The wall clock, and randomness for ids.
        headers: For messages that have none of their own.
        encryption: Encrypts payloads and headers; None: they are sent as they are.

    Raises:
        InvalidRequest: The headers cannot be sent.
    """

    def __init__(
        self, environment: Environment, headers: Headers | None, encryption: Encryptor | None
    ) -> None:
        self._environment = environment
        self._encryption = encryption
        self._ids: Iterator[bytes] = iter(())
        try:
            self._default_headers = encode_headers(headers)
        except EncodeError as error:
            raise _refused(error) from error

    def encode(self, message: Original) -> NewMessage:
        """A message as it is sent.

        Raises:
            InvalidRequest: The protocol cannot carry it.
        """
        now = self._environment.wall_clock_us()
        random_id = next(self._ids, None) or self._new_id()
        if (
            type(message) is bytes
            and self._encryption is None
            and len(message) <= MAX_PAYLOAD_BYTES
        ):
            # What most messages are; nothing else can be wrong with them.
            return NewMessage(message, random_id, now, self._default_headers)
        try:
            frame = new_message(message, now, random_id, self._default_headers)
            if self._encryption is not None:
                frame = self._encrypted(frame, self._encryption)
            check_sizes(frame.payload, frame.user_headers)
        except EncodeError as error:
            raise _refused(error) from error
        if not 0 <= frame.origin_timestamp <= _MAX_TIMESTAMP:
            raise InvalidRequest("send: an origin timestamp is a number from 0 to 2^64-1")
        return frame

    def encode_run(self, messages: Sequence[Original], headers: Headers | None) -> Run | None:
        """Messages as they are sent, if none of them needs to be looked at by itself.

        Args:
            messages: At least one.
            headers: For all of them; None: those of the producer.

        Returns:
            None if `encode` has to see to each of them, and find what is wrong, if anything is.
        """
        payloads = _plain_payloads(messages)
        if payloads is None or self._encryption is not None:
            return None
        user_headers = self._default_headers
        if headers is not None:
            try:
                user_headers = encode_headers(headers)
            except EncodeError:
                return None
            messages = [as_message(message, headers) for message in messages]
        sizes = list(map(len, payloads))
        if max(sizes) > MAX_PAYLOAD_BYTES or len(user_headers) > MAX_USER_HEADERS_BYTES:
            return None
        return Run(
            payloads,
            self._environment.random_bytes(MESSAGE_ID_BYTES * len(payloads)),
            self._environment.wall_clock_us(),
            user_headers,
            messages,
            list(
                accumulate(
                    map(add, sizes, repeat(FRAME_HEADER.size + len(user_headers))), initial=0
                )
            ),
        )

    def _new_id(self) -> bytes:
        """The first one of more ids."""
        ids = self._environment.random_bytes(MESSAGE_ID_BYTES * _IDS_AT_ONCE)
        self._ids = iter(cut_evenly(ids, _IDS_AT_ONCE, f"{MESSAGE_ID_BYTES}s"))
        return next(self._ids)

    @staticmethod
    def _encrypted(frame: NewMessage, encryption: Encryptor) -> NewMessage:
        headers = frame.user_headers
        return frame._replace(
            payload=encryption.encrypt(frame.payload),
            user_headers=encryption.encrypt(headers) if headers else b"",
        )


def _plain_payloads(messages: Sequence[Original]) -> Sequence[bytes] | None:
    """The payloads of messages that are nothing else; None if there are others."""
    if set(map(type, messages)) == {bytes}:
        return cast("Sequence[bytes]", messages)
    payloads: list[bytes] = []
    for message in messages:
        payload: object = message
        if isinstance(message, Message):
            if message != Message(message.payload):
                return None
            payload = message.payload
        if isinstance(payload, str):
            try:
                payload = payload.encode()
            except UnicodeEncodeError:
                return None
        if type(payload) is not bytes:
            return None
        payloads.append(payload)
    return payloads


def as_message(message: Original, headers: Headers | None) -> Message:
    """A message as a `Message`, with these headers if it has none of its own."""
    if not isinstance(message, Message):
        return Message(message, headers)
    if headers is None or message.headers is not None:
        return message
    return replace(message, headers=headers)


def as_sent(frame: NewMessage, original: Original) -> Message:
    """A message as it was given, with the id and the time it was sent with."""
    return replace(
        as_message(original, None),
        id=int.from_bytes(frame.id, "little"),
        origin_timestamp=frame.origin_timestamp,
    )


def _refused(error: EncodeError) -> InvalidRequest:
    return InvalidRequest(f"send: {error}", code=error.code)
