"""Users (spec 06, 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import construct as c

from windsprite_protocol.layout import (
    NAME8,
    STR8,
    U8,
    U32,
    U64,
    Layout,
    Present,
    Record,
    Sized,
    UntilEnd,
)
from windsprite_protocol.model.permissions import Permissions
from windsprite_protocol.model.users import (
    ChangePassword,
    CreateUser,
    DeleteUser,
    GetUser,
    UpdatePermissions,
    UpdateUser,
    User,
    UserDetails,
)
from windsprite_protocol.v0_11.layouts.permissions import MAX_PERMISSIONS_BYTES, PERMISSIONS
from windsprite_protocol.v0_11.layouts.primitives import (
    IDENTIFIER,
    OPTION_BLOCK,
    REPORTED_OPTIONS,
)

if TYPE_CHECKING:
    from construct.core import Context, PathType, StreamType

USER: Final = Record(
    User,
    "id" / U32,
    "created_at" / U64,
    "status" / U8,
    "username" / NAME8,
    "options" / REPORTED_OPTIONS,
)

PERMISSIONS_IF_ANY: Final = Present(Sized(U32, PERMISSIONS, maximum=MAX_PERMISSIONS_BYTES))


class ReportedPermissions(Layout[Permissions | None]):
    """The end of a user in a reply: as in requests, but nothing granted is four zero bytes."""

    _PADDING = c.Bytes(3)

    def _parse(self, stream: StreamType, context: Context, path: PathType) -> Permissions | None:
        permissions: Permissions | None
        permissions = PERMISSIONS_IF_ANY._parsereport(stream, context, path)
        if permissions is None:
            self._PADDING._parsereport(stream, context, path)
        return permissions

    def _write(
        self, obj: Permissions | None, stream: StreamType, context: Context, path: PathType
    ) -> None:
        PERMISSIONS_IF_ANY._build(obj, stream, context, path)
        if obj is None:
            self._PADDING._build(bytes(3), stream, context, path)


USER_DETAILS: Final = Record(
    UserDetails,
    "user" / USER,
    "permissions" / ReportedPermissions(),
)

USERS: Final = UntilEnd[User](USER)

GET_USER: Final = Record(GetUser, "user" / IDENTIFIER)
CREATE_USER: Final = Record(
    CreateUser,
    "username" / NAME8,
    "password" / STR8,
    "status" / U8,
    "permissions" / PERMISSIONS_IF_ANY,
    "options" / OPTION_BLOCK,
)
DELETE_USER: Final = Record(DeleteUser, "user" / IDENTIFIER)
UPDATE_USER: Final = Record(
    UpdateUser,
    "user" / IDENTIFIER,
    "username" / Present(NAME8),
    "status" / Present(U8),
    "options" / OPTION_BLOCK,
)
UPDATE_PERMISSIONS: Final = Record(
    UpdatePermissions,
    "user" / IDENTIFIER,
    "permissions" / PERMISSIONS_IF_ANY,
)
CHANGE_PASSWORD: Final = Record(
    ChangePassword,
    "user" / IDENTIFIER,
    "current_password" / STR8,
    "new_password" / STR8,
)
