"""Users, their permissions and their passwords."""

# ruff: noqa: ASYNC109 - a timeout covers more than one wait, with repeats and new connections

from __future__ import annotations

from windsprite.commands.base import Commands
from windsprite.errors import InvalidRequest
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.identifiers import Identifier
from windsprite_protocol.model.permissions import Permissions
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
    UserStatus,
)


class UserCommands(Commands):
    """Users, their permissions and their passwords.

    All of it needs the permission to manage users (to read them: `get_user`, `get_users`), but
    for what concerns the own user: everybody may look at it and change its password.
    """

    async def create_user(
        self,
        username: str,
        password: str,
        *,
        status: UserStatus = UserStatus.ACTIVE,
        permissions: Permissions | None = None,
        timeout: float | None = None,
    ) -> UserDetails:
        """Create a user.

        Args:
            username: 3 to 50 bytes of UTF-8.
            password: 3 to 100 bytes of UTF-8. It is sent as it is: use TLS.
            status: Whether the user may log in.
            permissions: What the user may do; None: nothing.
            timeout: Seconds for all of it.

        Raises:
            AlreadyExists: There is a user with this name.
            InvalidRequest: The name or the password is too short or too long.
        """
        _check_password("create_user", password)
        details: UserDetails = await self._caller.call(
            CreateUser(username, password, status, permissions),
            f"create_user {username!r}",
            time_limit=timeout,
        )
        return details

    async def get_user(
        self, user: Identifier, *, timeout: float | None = None
    ) -> UserDetails | None:
        """A user and its permissions; None if there is no such user."""
        details: UserDetails | None = await self._caller.call(
            GetUser(user), f"get_user {user!r}", time_limit=timeout
        )
        return details

    async def get_users(self, *, timeout: float | None = None) -> tuple[User, ...]:
        """All users, by ascending id."""
        users: tuple[User, ...] = await self._caller.call(
            GetUsers(), "get_users", time_limit=timeout
        )
        return users

    async def update_user(
        self,
        user: Identifier,
        *,
        username: str | None = None,
        status: UserStatus | None = None,
        timeout: float | None = None,
    ) -> None:
        """Rename a user, or change whether it may log in. What is None stays as it is.

        Sessions that are open go on, also those of a user that becomes inactive.

        Raises:
            NotFound: There is no such user.
            AlreadyExists: Another user has this name.
            InvalidRequest: The name does not have 3 to 50 bytes.
        """
        await self._caller.call(
            UpdateUser(user, username, status), f"update_user {user!r}", time_limit=timeout
        )

    async def update_permissions(
        self, user: Identifier, permissions: Permissions | None, *, timeout: float | None = None
    ) -> None:
        """Replace all permissions of a user, for open sessions, too; None takes them away.

        Raises:
            NotFound: There is no such user.
            InvalidRequest: It is the root user, whose permissions cannot be changed.
        """
        await self._caller.call(
            UpdatePermissions(user, permissions), f"update_permissions {user!r}", time_limit=timeout
        )

    async def change_password(
        self,
        user: Identifier,
        current_password: str,
        new_password: str,
        *,
        timeout: float | None = None,
    ) -> None:
        """Change a password. Open sessions and tokens stay valid.

        A client that changes the password of its own user should `login` with it afterwards:
        that is what it goes on with after a lost connection.

        Args:
            user: Whose; of others only with the permission to manage users.
            current_password: Has to be known, to those who manage users as well.
            new_password: 3 to 100 bytes of UTF-8.
            timeout: Seconds for all of it.

        Raises:
            NotFound: There is no such user.
            AuthenticationError: The current password is another one.
            InvalidRequest: The new password is too short or too long.
        """
        _check_password("change_password", new_password)
        await self._caller.call(
            ChangePassword(user, current_password, new_password),
            f"change_password {user!r}",
            time_limit=timeout,
        )

    async def delete_user(self, user: Identifier, *, timeout: float | None = None) -> None:
        """Delete a user with its tokens; its name and its id may come again.

        Raises:
            NotFound: There is no such user.
            InvalidRequest: It is the root user, which stays.
        """
        await self._caller.call(DeleteUser(user), f"delete_user {user!r}", time_limit=timeout)


def _check_password(doing: str, password: str) -> None:
    """Refuse what no login would take: not every server does so."""
    if len(password.encode(errors="replace")) not in PASSWORD_BYTES:
        raise InvalidRequest(
            f"{doing}: {ErrorCode.INVALID_PASSWORD.sentence}", code=ErrorCode.INVALID_PASSWORD
        )
