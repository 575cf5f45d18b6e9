"""The methods of `UserCommands`, blocking; written by docs/sync_modules.py."""

from __future__ import annotations

from windsprite.client import Client as Target
from windsprite.sync.base import Blocking
from windsprite_protocol.model.identifiers import Identifier
from windsprite_protocol.model.permissions import Permissions
from windsprite_protocol.model.users import User, UserDetails, UserStatus


class UserCommands(Blocking[Target]):
    """Users, their permissions and their passwords.

    All of it needs the permission to manage users (to read them: `get_user`, `get_users`), but
    for what concerns the own user: everybody may look at it and change its password.
    """

    def create_user(
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
        return self._thread.run(
            self._target.create_user(
                username, password, status=status, permissions=permissions, timeout=timeout
            )
        )

    def get_user(self, user: Identifier, *, timeout: float | None = None) -> UserDetails | None:
        """A user and its permissions; None if there is no such user."""
        return self._thread.run(self._target.get_user(user, timeout=timeout))

    def get_users(self, *, timeout: float | None = None) -> tuple[User, ...]:
        """All users, by ascending id."""
        return self._thread.run(self._target.get_users(timeout=timeout))

    def update_user(
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
        self._thread.run(
            self._target.update_user(user, username=username, status=status, timeout=timeout)
        )

    def update_permissions(
        self, user: Identifier, permissions: Permissions | None, *, timeout: float | None = None
    ) -> None:
        """Replace all permissions of a user, for open sessions, too; None takes them away.

        Raises:
            NotFound: There is no such user.
            InvalidRequest: It is the root user, whose permissions cannot be changed.
        """
        self._thread.run(self._target.update_permissions(user, permissions, timeout=timeout))

    def change_password(
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
        self._thread.run(
            self._target.change_password(user, current_password, new_password, timeout=timeout)
        )

    def delete_user(self, user: Identifier, *, timeout: float | None = None) -> None:
        """Delete a user with its tokens; its name and its id may come again.

        Raises:
            NotFound: There is no such user.
            InvalidRequest: It is the root user, which stays.
        """
        self._thread.run(self._target.delete_user(user, timeout=timeout))
