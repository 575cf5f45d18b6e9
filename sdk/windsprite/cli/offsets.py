"""offset get, set, delete."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Annotated, TypeAlias

from cyclopts import App, Parameter
from cyclopts.validators import Number

from windsprite import Client, Identifier, NotFound, PermissionDenied
from windsprite.cli.arguments import parse_offset
from windsprite.cli.conversion import converter
from windsprite.cli.errors import CommandError, UsageError
from windsprite.cli.groups import find_group
from windsprite.cli.parameters import CommandContext, StreamName, TopicName, identifier
from windsprite.cli.topics import find_topic
from windsprite.cli.views import OffsetRow, show_offsets

application = App(name="offset")

ConsumerName: TypeAlias = Annotated[
    Identifier | None,
    identifier("Whose offset: that of this consumer,", name="--consumer", metavar="NAME"),
]
OwnerGroup: TypeAlias = Annotated[
    Identifier | None,
    identifier("or that of this consumer group.", name="--group", metavar="NAME"),
]
AnyPartition: TypeAlias = Annotated[
    int | None,
    Parameter(validator=Number(gte=0), help="On this partition only. Without it: on all."),
]


@application.command(name="get", sort_key=0)
async def get_offsets(
    stream: StreamName,
    topic: TopicName,
    /,
    *,
    consumer: ConsumerName = None,
    group: OwnerGroup = None,
    partition: AnyPartition = None,
    context: CommandContext,
) -> None:
    """Show how far a consumer or a group is: its stored offsets, and what lies ahead of them.

    windsprite offset get orders events --group billing
    """
    _check_owner("get", consumer, group)
    async with context.client() as client:
        rows = await _rows(
            client, stream, topic, partition=partition, consumer=consumer, group=group
        )
        if group is not None and all(row.stored is None for row in rows):
            # The server does not tell a group without offsets from one that is not there.
            with suppress(PermissionDenied):
                await find_group(client, stream, topic, group)
    context.show(show_offsets(rows))


@application.command(name="set", sort_key=1)
async def set_offset(
    stream: StreamName,
    topic: TopicName,
    offset: Annotated[
        int,
        Parameter(
            name="OFFSET",
            converter=converter(parse_offset),
            n_tokens=1,
            help="That of the last message to count as read.",
        ),
    ],
    /,
    *,
    partition: Annotated[int, Parameter(validator=Number(gte=0), help="On this partition.")],
    consumer: ConsumerName = None,
    group: OwnerGroup = None,
    context: CommandContext,
) -> None:
    """Let a consumer or a group go on behind another message, also behind an earlier one.

    The offsets of a group can be changed while it has no members.

    windsprite offset set orders events 99 --partition 0 --consumer reader
    """
    _check_owner("set", consumer, group)
    async with (
        context.client() as client,
        _allowed_to_change(client, stream, topic, group),
    ):
        await client.store_consumer_offset(
            stream, topic, offset, partition=partition, consumer=consumer, group=group
        )
    context.confirm(f"the offset on partition {partition} is {offset}")


@application.command(name="delete", sort_key=2)
async def delete_offsets(
    stream: StreamName,
    topic: TopicName,
    /,
    *,
    consumer: ConsumerName = None,
    group: OwnerGroup = None,
    partition: AnyPartition = None,
    context: CommandContext,
) -> None:
    """Forget how far a consumer or a group is: it begins again with the oldest message.

    The offsets of a group can be changed while it has no members.
    """
    _check_owner("delete", consumer, group)
    async with (
        context.client() as client,
        _allowed_to_change(client, stream, topic, group),
    ):
        rows = await _rows(
            client, stream, topic, partition=partition, consumer=consumer, group=group
        )
        stored = [row.partition for row in rows if row.stored is not None]
        if not stored:
            raise NotFound("no offset is stored")
        for number in stored:
            await client.delete_consumer_offset(
                stream, topic, partition=number, consumer=consumer, group=group
            )
    context.confirm(f"the offsets on {len(stored)} partitions are deleted")


def _check_owner(command: str, consumer: Identifier | None, group: Identifier | None) -> None:
    if (consumer is None) == (group is None):
        raise UsageError(f"offset {command}: either --consumer or --group")


async def _rows(
    client: Client,
    stream: Identifier,
    topic: Identifier,
    *,
    partition: int | None,
    consumer: Identifier | None,
    group: Identifier | None,
) -> list[OffsetRow]:
    """How far a consumer or a group is on one partition, or on each."""
    if partition is not None:
        rows = [OffsetRow(partition)]
    else:
        details = await find_topic(client, stream, topic)
        rows = [
            OffsetRow(each.id, each.current_offset if each.messages_count else None)
            for each in details.partitions
        ]
    for row in rows:
        found = await client.get_consumer_offset(
            stream, topic, partition=row.partition, consumer=consumer, group=group
        )
        if found is not None:
            row.newest, row.stored = found.current_offset, found.stored_offset
    return rows


@asynccontextmanager
async def _allowed_to_change(
    client: Client, stream: Identifier, topic: Identifier, group: Identifier | None
) -> AsyncIterator[None]:
    """Be the only member of a group, as whom alone its offsets can be changed on all partitions.

    Raises:
        NotFound: There is no such group.
        CommandError: It has members.
    """
    if group is None:
        yield
        return
    details = await find_group(client, stream, topic, group)
    if details.members:
        raise CommandError(
            f"the group {group!r} has members, and nobody else can change its offsets",
            "stop them first",
        )
    await client.join_consumer_group(stream, topic, group)
    try:
        yield
    finally:
        await client.leave_consumer_group(stream, topic, group)
