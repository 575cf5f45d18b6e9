"""Users (spec 06, 3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from windsprite_protocol.model.identifiers import Identifier
from windsprite_protocol.model.permissions import Permissions
from windsprite_protocol.model.typed_values import Options

ROOT_USER_ID: Final = 0

USERNAME_BYTES: Final = range(3, 51)
"""How many bytes of UTF-8 the name of a user may have (spec 06, 3.1)."""

PASSWORD_BYTES: Final = range(3, 101)
"""How many bytes of UTF-8 a password may have: no login accepts another one (spec 06, 2.4)."""


class UserStatus(IntEnum):
    """Whether a user may log in."""

    ACTIVE = 1
    INACTIVE = 2


@dataclass(frozen=True, slots=True)
class GetUser:
    """Ask for one user and its permissions."""

    user: Identifier


@dataclass(frozen=True, slots=True)
class GetUsers:
    """Ask for all users."""


@dataclass(frozen=True, slots=True)
class CreateUser:
    """Create a user; `status` is a number, since the wire may carry unknown ones."""

    username: str
    password: str = field(repr=False)
    status: int = UserStatus.ACTIVE
    permissions: Permissions | None = None
    options: Options = ()


@dataclass(frozen=True, slots=True)
class DeleteUser:
    """Delete a user and its tokens."""

    user: Identifier


@dataclass(frozen=True, slots=True)
class UpdateUser:
    """Change the name or the status of a user; `None` leaves it as it is."""

    user: Identifier
    username: str | None = None
    status: int | None = None
    options: Options = ()


@dataclass(frozen=True, slots=True)
class UpdatePermissions:
    """Replace all permissions of a user; `None` takes them away."""

    user: Identifier
    permissions: Permissions | None


@dataclass(frozen=True, slots=True)
class ChangePassword:
    """Change the password of a user; the current one has to be known."""

    user: Identifier
    current_password: str = field(repr=False)
    new_password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class User:
    """A user as lists show it."""

    id: int
    created_at: int
    status: int
    username: str
    options: Options = ()


@dataclass(frozen=True, slots=True)
class UserDetails:
    """A user and its permissions; `None`: nothing granted."""

    user: User
    permissions: Permissions | None
