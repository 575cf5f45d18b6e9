"""Login (spec 01, 5.2 and 5.4; spec 06, 2.3)."""

from __future__ import annotations

from typing import Final, TypeVar

from windsprite_protocol.body import ConstructCodec
from windsprite_protocol.errors import DecodeError
from windsprite_protocol.layout import NAME8, STR8, STR32, U32, U64, Record
from windsprite_protocol.model.sessions import ClientVersion, LoggedIn, Login, LoginWithToken

T = TypeVar("T")

CLIENT_VERSION: Final = Record(
    ClientVersion,
    "protocol_version" / U32,
    "sdk_name" / NAME8,
    "sdk_version" / NAME8,
)

LOGIN: Final = Record(
    Login,
    "client" / CLIENT_VERSION,
    "username" / NAME8,
    "password" / STR8,
    "context" / STR32,
)

LOGIN_WITH_TOKEN: Final = Record(
    LoginWithToken,
    "client" / CLIENT_VERSION,
    "token" / STR8,
    "context" / STR32,
)

LOGGED_IN: Final = Record(
    LoggedIn,
    "user_id" / U32,
    "session" / U64,
    "server_protocol_version" / U32,
    "server_version" / NAME8,
)

_CLIENT_VERSION_CODEC: Final = ConstructCodec(CLIENT_VERSION)
_LOGIN_CODEC: Final = ConstructCodec(LOGIN)
_LOGIN_WITH_TOKEN_CODEC: Final = ConstructCodec(LOGIN_WITH_TOKEN)


def decode_login_shapes(
    body: memoryview,
) -> tuple[ClientVersion, Login | None, LoginWithToken | None]:
    """What the body of a Register can mean: nothing in it names the shape (spec 01, 5.2).

    Returns:
        Who asks, and the body as a login with a password and as one with a token; `None` where
        it has not that shape. Rarely both are there, or none.

    Raises:
        DecodeError: Not even the client version can be read.
    """
    client = _CLIENT_VERSION_CODEC.decode(body)
    return client, _if_decodable(_LOGIN_CODEC, body), _if_decodable(_LOGIN_WITH_TOKEN_CODEC, body)


def _if_decodable(codec: ConstructCodec[T], body: memoryview) -> T | None:
    try:
        return codec.decode(body)
    except DecodeError:
        return None
