"""Logging in and out (spec 01, 5; spec 06, 2)."""

from __future__ import annotations

from typing import Final

from windsprite_protocol.model.sessions import (
    EvictionReason,
    LoggedIn,
    Login,
    LoginAttempt,
    LoginWithToken,
    Logout,
)
from windsprite_protocol.model.users import PASSWORD_BYTES, USERNAME_BYTES, UserStatus
from windsprite_server.core.passwords import TooManyLoginsError
from windsprite_server.handlers.answers import evicted, not_now
from windsprite_server.handlers.services import Services
from windsprite_server.metadata.queries import find_token, find_user, hash_token
from windsprite_server.metadata.state import User
from windsprite_server.session import Connection, SessionConflictError

# Clients built before the release of this generation of the wire; some of them give one number to
# all their writes (spec 01, 6.6).
_PRE_RELEASE: Final = "-edge."


async def login(
    services: Services,
    connection: Connection,
    client: bytes,
    attempt: LoginAttempt,
    protocol_version: int,
) -> LoggedIn:
    """Verify who logs in and open a session.

    A connection that has a session keeps it, whoever logs in (spec 01, 5.3): clients that want to
    be somebody else log out first.
    """
    user = await _identify(services, attempt)
    session = connection.session
    if session is None:
        if services.sessions.get(connection.number) is not connection:
            raise evicted(EvictionReason.NO_SESSION)  # it went away meanwhile
        try:
            session = services.sessions.bind(
                connection,
                client,
                user.id,
                numbers_writes=_PRE_RELEASE not in attempt.client.sdk_version,
            )
        except SessionConflictError:
            raise evicted(EvictionReason.SESSION_ERROR) from None
    return LoggedIn(user.id, session.number, protocol_version, services.server_version)


def logout(services: Services, connection: Connection, _: Logout) -> None:
    """End the session, if there is one; the connection stays."""
    services.sessions.unbind(connection)


async def _identify(services: Services, attempt: LoginAttempt) -> User:
    """Who the credentials belong to, read as a password first and as a token then."""
    if attempt.password is not None:
        user = await _by_password(services, attempt.password)
        if user is not None:
            return user
    if attempt.token is not None:
        return _by_token(services, attempt.token)
    if attempt.password is not None:
        raise evicted(EvictionReason.INVALID_CREDENTIALS)
    raise evicted(EvictionReason.MALFORMED_LOGIN)


async def _by_password(services: Services, request: Login) -> User | None:
    """The user with this name and password; `None` does not tell what was wrong."""
    if len(request.username.encode()) not in USERNAME_BYTES:
        return None
    if len(request.password.encode()) not in PASSWORD_BYTES:
        return None
    user = find_user(services.state, request.username)
    password_hash = None if user is None else user.password_hash
    try:
        matches = await services.passwords.verify(password_hash, request.password)
    except TooManyLoginsError:
        raise not_now() from None
    # The user may have been changed or deleted while the password was being verified.
    user = find_user(services.state, request.username)
    if not matches or user is None or user.password_hash != password_hash:
        return None
    return user if user.status == UserStatus.ACTIVE else None


def _by_token(services: Services, request: LoginWithToken) -> User:
    found = find_token(services.state, hash_token(request.token))
    if found is None:
        raise evicted(EvictionReason.INVALID_TOKEN)
    user, token = found
    if token.has_expired(services.clock.now_us()):
        raise evicted(EvictionReason.INVALID_TOKEN)
    if user.status != UserStatus.ACTIVE:
        raise evicted(EvictionReason.USER_INACTIVE)
    return user
