"""Personal access tokens (spec 06, 5)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class GetTokens:
    """Ask for the caller's own tokens."""


@dataclass(frozen=True, slots=True)
class CreateToken:
    """Create a token of the caller; expiry: lifetime in microseconds, 0 or 2^64-1 for never."""

    name: str
    expiry: int


@dataclass(frozen=True, slots=True)
class DeleteToken:
    """Delete a token of the caller."""

    name: str


@dataclass(frozen=True, slots=True)
class RawToken:
    """The secret itself; shown once, when the token is created."""

    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """A token without its secret; expiry: timestamp in microseconds, 0 for never."""

    name: str
    expiry: int
