"""Users, their permissions and their passwords (spec 06, 3).

Passwords are hashed and verified before a command is committed, in threads and never too many at
once. Whoever may not have it done is turned down before that; the command is checked once more
when it is applied, since hashing takes its time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.sessions import EvictionReason
from windsprite_protocol.model.users import (
    PASSWORD_BYTES,
    ChangePassword,
    CreateUser,
    DeleteUser,
    GetUser,
    GetUsers,
    UpdatePermissions,
    UpdateUser,
    User,
    UserDetails,
)
from windsprite_server.core.passwords import TooManyLoginsError
from windsprite_server.handlers.access import require, user_of
from windsprite_server.handlers.answers import evicted, not_now, refused, rejected
from windsprite_server.handlers.metadata import commit, refuse_options
from windsprite_server.handlers.services import Services
from windsprite_server.metadata import commands
from windsprite_server.metadata.authorization import Rule
from windsprite_server.metadata.queries import find_user, is_allowed, users_by_id
from windsprite_server.metadata.views import user_details, user_summary
from windsprite_server.session import Connection

T = TypeVar("T")


def get_user(services: Services, connection: Connection, request: GetUser) -> UserDetails | None:
    """Tell about a user; everybody may ask for the own."""
    user = find_user(services.state, request.user)
    if user is None:
        return None
    if user.id != user_of(connection):
        require(services, connection, Rule.READ_USERS)
    return user_details(user)


def get_users(services: Services, connection: Connection, _: GetUsers) -> tuple[User, ...]:
    """Tell about all users."""
    require(services, connection, Rule.READ_USERS)
    return tuple(user_summary(user) for user in users_by_id(services.state))


def create_user(
    services: Services, connection: Connection, request: CreateUser
) -> Coroutine[Any, Any, UserDetails]:
    """Create a user."""
    refuse_options(request.options)
    _require_usable(request.password)
    return _create_user(services, connection, request)


async def _create_user(
    services: Services, connection: Connection, request: CreateUser
) -> UserDetails:
    _require_manager(services, connection)
    password_hash = await _worked_on(connection, services.passwords.hash(request.password))
    command = commands.CreateUser(
        request.username, password_hash, request.status, request.permissions
    )
    details: UserDetails = await commit(services, connection, command)
    return details


def update_user(
    services: Services, connection: Connection, request: UpdateUser
) -> Coroutine[Any, Any, None]:
    """Change the name or the status of a user; sessions go on, also those of inactive users."""
    refuse_options(request.options)
    command = commands.UpdateUser(request.user, request.username, request.status)
    return commit(services, connection, command)


def delete_user(
    services: Services, connection: Connection, request: DeleteUser
) -> Coroutine[Any, Any, None]:
    """Delete a user with its tokens; its sessions end."""
    return commit(services, connection, commands.DeleteUser(request.user))


async def update_permissions(
    services: Services, connection: Connection, request: UpdatePermissions
) -> None:
    """Replace the permissions of a user, for open sessions, too."""
    # They may be large, and what is rejected later is journaled all the same.
    _require_manager(services, connection)
    await commit(
        services, connection, commands.UpdatePermissions(request.user, request.permissions)
    )


def change_password(
    services: Services, connection: Connection, request: ChangePassword
) -> Coroutine[Any, Any, None]:
    """Replace a password by whoever knows it: its user, or a manager of users."""
    _require_usable(request.new_password)
    return _change_password(services, connection, request)


async def _change_password(
    services: Services, connection: Connection, request: ChangePassword
) -> None:
    user = find_user(services.state, request.user)
    if user is None:
        raise rejected(ErrorCode.RESOURCE_NOT_FOUND)
    if user.id != user_of(connection):
        _require_manager(services, connection)
    verified = user.password_hash
    matches = await _worked_on(
        connection, services.passwords.verify(verified, request.current_password)
    )
    if not matches:
        raise rejected(ErrorCode.INVALID_CREDENTIALS)
    password_hash = await _worked_on(connection, services.passwords.hash(request.new_password))
    command = commands.ChangePassword(request.user, verified, password_hash)
    await commit(services, connection, command)


def _require_usable(password: str) -> None:
    """Refuse a password with which nobody could ever log in (spec 06, 3.6)."""
    if len(password.encode()) not in PASSWORD_BYTES:
        raise refused(ErrorCode.INVALID_PASSWORD)


def _require_manager(services: Services, connection: Connection) -> None:
    if not is_allowed(services.state, user_of(connection), Rule.MANAGE_USERS):
        raise rejected(ErrorCode.UNAUTHORIZED)


async def _worked_on(connection: Connection, passwords: Awaitable[T]) -> T:
    """Wait for passwords to be hashed or verified, for the session that asks and no other."""
    session = connection.session
    try:
        result = await passwords
    except TooManyLoginsError:
        raise not_now() from None
    if session is None or connection.session is not session:
        raise evicted(EvictionReason.NO_SESSION)
    return result
