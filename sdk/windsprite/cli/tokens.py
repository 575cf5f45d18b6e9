"""token list, create, delete."""

from __future__ import annotations

import sys
from typing import Annotated, TypeAlias

from cyclopts import App, Parameter

from windsprite.cli.conversion import checked, flag
from windsprite.cli.parameters import CommandContext
from windsprite.cli.views import show_new_token, show_tokens
from windsprite_protocol.text_forms import parse_expiry

application = App(name="token")

TokenName: TypeAlias = Annotated[str, Parameter(name="NAME", help="1 to 255 bytes, as it is.")]


@application.command(name="list", sort_key=0)
async def list_tokens(*, context: CommandContext) -> None:
    """List your tokens and when they expire; nothing shows their secrets again."""
    async with context.client() as client:
        tokens = await client.get_tokens()
    context.show(show_tokens(tokens))


@application.command(name="create", sort_key=1)
async def create_token(
    name: TokenName,
    /,
    *,
    expiry: Annotated[
        str | None,
        Parameter(
            converter=checked(parse_expiry),
            metavar="DURATION",
            help="How long one can log in with it: 30d, '12h 30m'. Without it: for ever.",
        ),
    ] = None,
    raw: Annotated[bool, flag("Write the secret and a newline, nothing else.")] = False,
    context: CommandContext,
) -> None:
    """Make a token and show its secret, once and never again.

    windsprite token create ci --expiry 30d --raw > ci.token
    """
    async with context.client() as client:
        token = await client.create_token(name, expiry=expiry)
    if raw:
        sys.stdout.write(f"{token.token}\n")
    else:
        context.show(show_new_token(name, token))


@application.command(name="delete", sort_key=2)
async def delete_token(name: TokenName, /, *, context: CommandContext) -> None:
    """Delete a token; who is logged in with it stays so."""
    async with context.client() as client:
        await client.delete_token(name)
    context.confirm(f"token {name!r} is deleted")
