"""Identifiers and randomness as an argument: whoever needs them is given `Ids`."""

import secrets
import uuid
from typing import Protocol


class Ids(Protocol):
    """A source of values that nobody else has and nobody can guess."""

    def uuid(self) -> uuid.UUID:
        """A random (version 4) UUID."""
        ...

    def token(self, size: int) -> bytes:
        """`size` random bytes, fit for secrets."""
        ...


class SystemIds:
    """Identifiers from the random numbers of the operating system."""

    __slots__ = ()

    def uuid(self) -> uuid.UUID:
        """A random (version 4) UUID."""
        return uuid.uuid4()

    def token(self, size: int) -> bytes:
        """`size` random bytes, fit for secrets."""
        return secrets.token_bytes(size)
