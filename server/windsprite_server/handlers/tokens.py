"""Personal access tokens of the user who asks (spec 06, 5)."""

from __future__ import annotations

import base64
from collections.abc import Coroutine
from typing import Any, Final

from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.tokens import (
    CreateToken,
    DeleteToken,
    GetTokens,
    RawToken,
    TokenInfo,
)
from windsprite_server.handlers.access import user_of
from windsprite_server.handlers.answers import refused
from windsprite_server.handlers.metadata import commit
from windsprite_server.handlers.services import Services
from windsprite_server.metadata import commands
from windsprite_server.metadata.queries import hash_token
from windsprite_server.metadata.state import User
from windsprite_server.metadata.views import token_infos
from windsprite_server.session import Connection

_SECRET_BYTES: Final = 50


def get_tokens(services: Services, connection: Connection, _: GetTokens) -> tuple[TokenInfo, ...]:
    """Tell about the own tokens, without their secrets."""
    return token_infos(_owner(services, connection))


def create_token(
    services: Services, connection: Connection, request: CreateToken
) -> Coroutine[Any, Any, RawToken]:
    """Make a token. Its secret is in this reply, and nowhere else ever."""
    limit = services.max_tokens_per_user
    now = services.clock.now_us()
    tokens = _owner(services, connection).tokens.values()
    # A full number is told before the name is looked at, and without being executed. That no
    # other request takes the last place meanwhile is checked when the command is applied.
    if sum(not token.has_expired(now) for token in tokens) >= limit:
        raise refused(ErrorCode.PERSONAL_ACCESS_TOKENS_LIMIT_REACHED)
    return _create_token(services, connection, request)


async def _create_token(
    services: Services, connection: Connection, request: CreateToken
) -> RawToken:
    limit = services.max_tokens_per_user
    secret = base64.b64encode(services.ids.token(_SECRET_BYTES)).decode()
    command = commands.CreateToken(request.name, hash_token(secret), request.expiry, limit)
    await commit(services, connection, command)
    return RawToken(secret)


def delete_token(
    services: Services, connection: Connection, request: DeleteToken
) -> Coroutine[Any, Any, None]:
    """Delete a token; sessions that it opened go on."""
    return commit(services, connection, commands.DeleteToken(request.name))


def _owner(services: Services, connection: Connection) -> User:
    user = services.state.users.get(user_of(connection))
    if user is None:
        raise refused(ErrorCode.UNAUTHENTICATED)
    return user
