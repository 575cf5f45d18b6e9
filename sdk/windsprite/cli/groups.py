"""group list, get, create, delete.

There is no join and no leave: a membership ends with its connection, which is that of the command.
`windsprite poll --group` is a member as long as it runs.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from cyclopts import App

from windsprite import Client, ConsumerGroupDetails, Identifier, NotFound
from windsprite.cli.parameters import CommandContext, NewName, StreamName, TopicName, identifier
from windsprite.cli.views import show_group, show_groups

application = App(name="group")

GroupName: TypeAlias = Annotated[
    Identifier,
    identifier("Its name, or its number, in the topic.", name="GROUP"),
]


@application.command(name="list", sort_key=0)
async def list_groups(stream: StreamName, topic: TopicName, /, *, context: CommandContext) -> None:
    """List the groups of a topic."""
    async with context.client() as client:
        groups = await client.get_consumer_groups(stream, topic)
    context.show(show_groups(groups))


@application.command(name="get", sort_key=1)
async def get_group(
    stream: StreamName, topic: TopicName, group: GroupName, /, *, context: CommandContext
) -> None:
    """Show a group, its members and the partitions that they have."""
    async with context.client() as client:
        details = await find_group(client, stream, topic, group)
    context.show(show_group(details))


@application.command(name="create", sort_key=2)
async def create_group(
    stream: StreamName, topic: TopicName, name: NewName, /, *, context: CommandContext
) -> None:
    """Make a group; `poll --group` does so as well, when it has to."""
    async with context.client() as client:
        details = await client.create_consumer_group(stream, topic, name)
    context.show(show_group(details))


@application.command(name="delete", sort_key=3)
async def delete_group(
    stream: StreamName, topic: TopicName, group: GroupName, /, *, context: CommandContext
) -> None:
    """Delete a group with its stored offsets; its members can poll no more."""
    async with context.client() as client:
        await client.delete_consumer_group(stream, topic, group)
    context.confirm(f"group {group!r} is deleted")


async def find_group(
    client: Client, stream: Identifier, topic: Identifier, group: Identifier
) -> ConsumerGroupDetails:
    """A group that is there.

    Raises:
        NotFound: It is not, or its topic is not.
    """
    details = await client.get_consumer_group(stream, topic, group)
    if details is None:
        raise NotFound(
            f"there is no group {group!r} in the topic {topic!r}",
            hint=f"`windsprite group list {stream} {topic}` shows those that there are",
        )
    return details
