"""Login and logout (spec 01, 5; spec 06, 2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum


@dataclass(frozen=True, slots=True)
class ClientVersion:
    """Which client speaks: its protocol version (packed, spec 01 5.1) and its own name."""

    protocol_version: int
    sdk_name: str
    sdk_version: str


@dataclass(frozen=True, slots=True)
class Login:
    """Log in with a user name and a password, and open a session."""

    client: ClientVersion
    username: str
    password: str = field(repr=False)
    context: str = ""


@dataclass(frozen=True, slots=True)
class LoginWithToken:
    """Log in with a personal access token, and open a session."""

    client: ClientVersion
    token: str = field(repr=False)
    context: str = ""


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """What a login can be read as, where the wire does not say which kind was meant.

    With an empty password both readings are possible; with neither the login is malformed
    (spec 01, 5.2).

    Attributes:
        client: Who speaks. Whether its version is served is asked first.
        password: The reading as a login with a password, tried before the other.
        token: The reading as a login with a token.
    """

    client: ClientVersion
    password: Login | None
    token: LoginWithToken | None


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """The session a login opened."""

    user_id: int
    session: int
    server_protocol_version: int
    server_version: str


@dataclass(frozen=True, slots=True)
class Logout:
    """End the session; the connection stays usable for another login."""


class EvictionReason(IntEnum):
    """Why a session ended or a login was refused (spec 01, 4.2)."""

    RESERVED = 0
    NO_SESSION = 1
    CLIENT_RELEASE_TOO_LOW = 2
    CLIENT_RELEASE_TOO_HIGH = 3
    INVALID_REQUEST_OPERATION = 4
    INVALID_REQUEST_BODY = 5
    INVALID_REQUEST_BODY_SIZE = 6
    SESSION_TOO_LOW = 7
    SESSION_RELEASE_MISMATCH = 8
    INVALID_CREDENTIALS = 9
    INVALID_TOKEN = 10
    USER_INACTIVE = 11
    SESSION_ERROR = 12
    STALE_CLIENT = 13
    INCOMPATIBLE_PROTOCOL = 14
    MALFORMED_LOGIN = 15
