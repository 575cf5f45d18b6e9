"""client list, get."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from windsprite import NotFound
from windsprite.cli.parameters import CommandContext
from windsprite.cli.views import show_client, show_clients

application = App(name="client")


@application.command(name="list", sort_key=0)
async def list_clients(*, context: CommandContext) -> None:
    """List the connections of the server, this one included."""
    async with context.client() as client:
        clients = await client.get_clients()
    context.show(show_clients(clients))


@application.command(name="get", sort_key=1)
async def get_client(
    number: Annotated[
        int, Parameter(name="CLIENT", validator=Number(gte=0, lte=2**32 - 1), help="Its number.")
    ],
    /,
    *,
    context: CommandContext,
) -> None:
    """Show a connection and the consumer groups that it belongs to."""
    async with context.client() as client:
        details = await client.get_client(number)
    if details is None:
        raise NotFound(
            f"there is no client {number}", hint="`windsprite client list` shows those that are"
        )
    context.show(show_client(details))
