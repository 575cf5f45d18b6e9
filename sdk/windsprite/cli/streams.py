"""stream list, get, create, rename, purge, delete."""

from __future__ import annotations

from cyclopts import App

from windsprite import Identifier, NotFound, StreamDetails
from windsprite.cli.parameters import CommandContext, NewName, StreamName
from windsprite.cli.views import show_stream, show_streams

application = App(name="stream")


@application.command(name="list", sort_key=0)
async def list_streams(*, context: CommandContext) -> None:
    """List all streams."""
    async with context.client() as client:
        streams = await client.get_streams()
    context.show(show_streams(streams))


@application.command(name="get", sort_key=1)
async def get_stream(stream: StreamName, /, *, context: CommandContext) -> None:
    """Show a stream and its topics."""
    async with context.client() as client:
        details = await client.get_stream(stream)
    context.show(show_stream(found_stream(details, stream)))


@application.command(name="create", sort_key=2)
async def create_stream(name: NewName, /, *, context: CommandContext) -> None:
    """Make a stream."""
    async with context.client() as client:
        details = await client.create_stream(name)
    context.show(show_stream(details))


@application.command(name="rename", sort_key=3)
async def rename_stream(
    stream: StreamName, new_name: NewName, /, *, context: CommandContext
) -> None:
    """Give a stream another name."""
    async with context.client() as client:
        await client.update_stream(stream, new_name)
    context.confirm(f"stream {stream!r} is now {new_name!r}")


@application.command(name="purge", sort_key=4)
async def purge_stream(stream: StreamName, /, *, context: CommandContext) -> None:
    """Delete all messages and stored offsets of a stream's topics, at once and for good."""
    async with context.client() as client:
        await client.purge_stream(stream)
    context.confirm(f"stream {stream!r} is empty")


@application.command(name="delete", sort_key=5)
async def delete_stream(stream: StreamName, /, *, context: CommandContext) -> None:
    """Delete a stream with all it holds, at once and for good."""
    async with context.client() as client:
        await client.delete_stream(stream)
    context.confirm(f"stream {stream!r} is deleted")


def found_stream(details: StreamDetails | None, stream: Identifier) -> StreamDetails:
    """What a server told of a stream.

    Raises:
        NotFound: It knows no such stream.
    """
    if details is None:
        message = f"there is no stream {stream!r}"
        raise NotFound(message, hint="`windsprite stream list` shows those that there are")
    return details
