"""user list, get, create, rename, status, password, permissions, delete."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from cyclopts import App, Parameter

from windsprite import Identifier, NotFound, UserDetails, UserStatus
from windsprite.cli.context import Context
from windsprite.cli.conversion import each, flag
from windsprite.cli.errors import UsageError
from windsprite.cli.grants import Grant, parse_grant, permissions_of
from windsprite.cli.parameters import CommandContext, file_option, identifier
from windsprite.cli.passwords import read_password
from windsprite.cli.views import show_user, show_users

application = App(name="user")

UserName: TypeAlias = Annotated[
    Identifier,
    identifier("Its name, or its number; name:7 for a name of digits.", name="USER"),
]
NewUserName: TypeAlias = Annotated[str, Parameter(name="NAME", help="3 to 50 bytes, as it is.")]
StatusName: TypeAlias = Literal["active", "inactive"]
Grants: TypeAlias = Annotated[
    list[Grant] | None,
    Parameter(
        name="--grant",
        converter=each(parse_grant),
        negative="",
        metavar="GRANT",
        help="What the user may do; may be given several times: read_streams, on everything; "
        "orders:poll_messages,send_messages, on a stream; orders/events:all, on a topic.",
    ),
]


def _file_of(whose: str) -> Parameter:
    """An option for a file that holds a password."""
    return file_option(
        f"The file whose first line is {whose}; - is the standard input. Without it the password "
        "is asked for on a terminal, or else read from the standard input."
    )


@application.command(name="list", sort_key=0)
async def list_users(*, context: CommandContext) -> None:
    """List all users."""
    async with context.client() as client:
        users = await client.get_users()
    context.show(show_users(users))


@application.command(name="get", sort_key=1)
async def get_user(user: UserName, /, *, context: CommandContext) -> None:
    """Show a user and what it may do."""
    async with context.client() as client:
        details = await client.get_user(user)
    context.show(show_user(_found(details, user)))


@application.command(name="create", sort_key=2)
def create_user(
    name: NewUserName,
    /,
    *,
    password_file: Annotated[Path | None, _file_of("the password")] = None,
    status: Annotated[StatusName, Parameter(help="Whether the user may log in.")] = "active",
    grant: Grants = None,
    context: CommandContext,
) -> Coroutine[Any, Any, None]:
    """Make a user.

    Without --grant it may do nothing but log in, look at itself, change its
    password and make tokens.

    Try these:

    windsprite user create shop --password-file shop.txt
    windsprite user create ada --grant orders/events:send_messages
    """
    password = read_password(password_file, f"password of {name!r}", is_new=True)
    return _create(context, name, password, _status(status), grant or ())


@application.command(name="rename", sort_key=3)
async def rename_user(user: UserName, new_name: NewUserName, /, *, context: CommandContext) -> None:
    """Give a user another name."""
    async with context.client() as client:
        await client.update_user(user, username=new_name)
    context.confirm(f"user {user!r} is now {new_name!r}")


@application.command(name="status", sort_key=4)
async def set_status(
    user: UserName,
    status: Annotated[StatusName, Parameter(name="STATUS")],
    /,
    *,
    context: CommandContext,
) -> None:
    """Let a user log in, or not any more; who is logged in already stays so."""
    async with context.client() as client:
        await client.update_user(user, status=_status(status))
    context.confirm(f"user {user!r} is {status}")


@application.command(name="password", sort_key=5)
def change_password(
    user: UserName,
    /,
    *,
    current_password_file: Annotated[Path | None, _file_of("the current password")] = None,
    new_password_file: Annotated[Path | None, _file_of("the new password")] = None,
    context: CommandContext,
) -> Coroutine[Any, Any, None]:
    """Change the password of a user; the current one has to be known.

    From the standard input come two lines: the current password and the new
    one.
    """
    current = read_password(current_password_file, "current password")
    new = read_password(new_password_file, "new password", is_new=True)
    return _change_password(context, user, current, new)


@application.command(name="permissions", sort_key=6)
async def set_permissions(
    user: UserName,
    /,
    *,
    grant: Grants = None,
    none: Annotated[bool, flag("The user may do nothing any more.", name="--none")] = False,
    context: CommandContext,
) -> None:
    """Replace all that a user may do, at once, for open sessions, too.

    windsprite user permissions ada --grant read_streams --grant orders:all
    """
    if bool(grant) == none:
        raise UsageError(
            "user permissions: either --grant or --none", "what is not said is taken away"
        )
    async with context.client() as client:
        permissions = await permissions_of(client, grant) if grant else None
        await client.update_permissions(user, permissions)
    context.confirm(f"user {user!r} has its new permissions")


@application.command(name="delete", sort_key=7)
async def delete_user(user: UserName, /, *, context: CommandContext) -> None:
    """Delete a user with its tokens, and end its sessions."""
    async with context.client() as client:
        await client.delete_user(user)
    context.confirm(f"user {user!r} is deleted")


async def _create(
    context: Context, name: str, password: str, status: UserStatus, grants: Sequence[Grant]
) -> None:
    async with context.client() as client:
        permissions = await permissions_of(client, grants) if grants else None
        details = await client.create_user(name, password, status=status, permissions=permissions)
    context.show(show_user(details))


async def _change_password(context: Context, user: Identifier, current: str, new: str) -> None:
    async with context.client() as client:
        await client.change_password(user, current, new)
    context.confirm(f"user {user!r} has its new password")


def _status(name: StatusName) -> UserStatus:
    return UserStatus.ACTIVE if name == "active" else UserStatus.INACTIVE


def _found(details: UserDetails | None, user: Identifier) -> UserDetails:
    if details is None:
        message = f"there is no user {user!r}"
        raise NotFound(message, hint="`windsprite user list` shows those that there are")
    return details
