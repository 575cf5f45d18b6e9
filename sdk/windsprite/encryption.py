"""End-to-end encryption of messages, exactly as official clients do it (spec 07, 8.3).

    cipher text = nonce (12 bytes, random) | what was encrypted by AES-256-GCM | tag (16 bytes)

The payload of a message and its encoded user headers are encrypted separately, with no associated
data. A server stores and returns them like any other bytes; offsets, times, ids and sizes remain
for everybody to see.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import replace
from typing import Final, Self

from windsprite.environment import Environment, SystemEnvironment
from windsprite.errors import DecryptionFailed, InvalidRequest
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.messages import Message
from windsprite_protocol.model.messages import Buffer

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16

OVERHEAD_BYTES: Final = NONCE_BYTES + TAG_BYTES
"""By how much a cipher text is longer than what was encrypted."""


class Encryptor:
    """Encrypts and decrypts with one key; give it to producers and consumers.

        encryptor = windsprite.Encryptor.from_base64(os.environ["MESSAGES_KEY"])

    Nonces are random, so one key is good for some 2^32 encryptions (two for each message with
    headers); take a new key before that. Needs the extra `windsprite[encryption]`.

    Args:
        key: 32 bytes that nobody can guess, such as `os.urandom(32)`.
        environment: Where nonces come from.

    Raises:
        InvalidRequest: The key has another length.
        ModuleNotFoundError: The package `cryptography` is not installed.
    """

    def __init__(self, key: bytes, *, environment: Environment | None = None) -> None:
        if len(key) != KEY_BYTES:
            raise _invalid_key(f"a key of {KEY_BYTES} bytes is needed")
        try:
            from cryptography.exceptions import InvalidTag  # noqa: PLC0415
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "encryption needs the package cryptography: pip install 'windsprite[encryption]'",
                name=error.name,
            ) from error
        self._cipher = AESGCM(key)
        self._invalid_tag = InvalidTag
        self._environment = environment or SystemEnvironment()

    @classmethod
    def from_base64(cls, key: str | bytes, *, environment: Environment | None = None) -> Self:
        """With the key in base64 (RFC 4648, with padding), as official clients are configured.

        Raises:
            InvalidRequest: It is no base64, or not that of 32 bytes.
            ModuleNotFoundError: The package `cryptography` is not installed.
        """
        try:
            decoded = base64.b64decode(key, validate=True)
        except (binascii.Error, ValueError):
            # The cause would show the key.
            raise _invalid_key(f"the base64 of {KEY_BYTES} bytes is needed") from None
        return cls(decoded, environment=environment)

    def __repr__(self) -> str:
        return "<windsprite.Encryptor>"

    def encrypt(self, data: Buffer) -> bytes:
        """The cipher text of these bytes, 28 bytes longer than they are."""
        nonce = self._environment.random_bytes(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, data, None)

    def decrypt(self, data: Buffer) -> bytes:
        """What was encrypted.

        Raises:
            DecryptionFailed: It was encrypted with another key or not at all, or has changed.
        """
        if len(data) < OVERHEAD_BYTES:
            raise _failed(f"{len(data)} bytes are too few for a cipher text")
        try:
            return self._cipher.decrypt(bytes(data[:NONCE_BYTES]), data[NONCE_BYTES:], None)
        except self._invalid_tag:
            raise _failed("the data has changed, or the key is another one") from None

    def decrypt_message(self, message: Message) -> Message:
        """A copy of a polled message with its payload and user headers decrypted.

        Raises:
            DecryptionFailed: As `decrypt`.
        """
        headers = message.raw_user_headers
        return replace(
            message,
            payload=self.decrypt(message.payload),
            raw_user_headers=self.decrypt(headers) if headers else b"",
        )


def _invalid_key(sentence: str) -> InvalidRequest:
    return InvalidRequest(f"encryption: {sentence}", code=ErrorCode.INVALID_ENCRYPTION_KEY)


def _failed(sentence: str) -> DecryptionFailed:
    return DecryptionFailed(f"cannot decrypt: {sentence}", code=ErrorCode.CANNOT_DECRYPT_DATA)
