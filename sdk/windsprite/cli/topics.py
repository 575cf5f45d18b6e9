"""topic list, get, create, update, trim, purge, delete."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from cyclopts import App, Parameter
from cyclopts.validators import Number

from windsprite import Client, CompressionName, Durability, Identifier, NotFound, TopicDetails
from windsprite.cli.arguments import parse_segment_size
from windsprite.cli.conversion import checked
from windsprite.cli.errors import UsageError
from windsprite.cli.parameters import CommandContext, NewName, StreamName, TopicName
from windsprite.cli.streams import found_stream
from windsprite.cli.views import show_topic, show_topics
from windsprite_protocol.text_forms import parse_expiry, parse_max_topic_size, parse_size
from windsprite_protocol.topic_options import MAX_PARTITIONS_PER_REQUEST

application = App(name="topic")

Partitions: TypeAlias = Annotated[
    int,
    Parameter(
        validator=Number(gte=0, lte=MAX_PARTITIONS_PER_REQUEST),
        help=f"How many partitions, 0 to {MAX_PARTITIONS_PER_REQUEST}.",
    ),
]
Compression: TypeAlias = Annotated[
    CompressionName | None,
    Parameter(help="How producers say they compress; the server itself compresses nothing."),
]
Expiry: TypeAlias = Annotated[
    str | None,
    Parameter(
        converter=checked(parse_expiry),
        metavar="DURATION",
        help="How long messages are kept: 7d, '12h 30m', never_expire.",
    ),
]
MaxTopicSize: TypeAlias = Annotated[
    str | None,
    Parameter(
        converter=checked(parse_max_topic_size),
        metavar="SIZE",
        help="Above this size the oldest messages go: '10 GiB', unlimited.",
    ),
]


@application.command(name="list", sort_key=0)
async def list_topics(stream: StreamName, /, *, context: CommandContext) -> None:
    """List the topics of a stream."""
    async with context.client() as client:
        details = await client.get_stream(stream)
    context.show(show_topics(found_stream(details, stream).topics))


@application.command(name="get", sort_key=1)
async def get_topic(stream: StreamName, topic: TopicName, /, *, context: CommandContext) -> None:
    """Show a topic, its options and its partitions."""
    async with context.client() as client:
        details = await find_topic(client, stream, topic)
    context.show(show_topic(details))


@application.command(name="create", sort_key=2)
async def create_topic(
    stream: StreamName,
    name: NewName,
    /,
    *,
    partitions: Partitions = 1,
    compression: Compression = None,
    message_expiry: Expiry = None,
    max_topic_size: MaxTopicSize = None,
    segment_size: Annotated[
        str | None,
        Parameter(
            converter=checked(parse_segment_size),
            metavar="SIZE",
            help="Size of the files that messages are kept in, '1 MiB' to '1 GiB'.",
        ),
    ] = None,
    durability: Annotated[
        Durability | None,
        Parameter(
            help="When a send is acknowledged: once it outlives the server's process "
            "(replicated), or once it is on stable storage (persisted)."
        ),
    ] = None,
    consumer_offset_durability: Annotated[
        Durability | None, Parameter(help="The same for stored offsets of consumers.")
    ] = None,
    messages_required_to_save: Annotated[
        int | None,
        Parameter(
            validator=Number(gte=1),
            help="Messages that may wait in memory before they are written.",
        ),
    ] = None,
    size_of_messages_required_to_save: Annotated[
        str | None,
        Parameter(
            converter=checked(parse_size),
            metavar="SIZE",
            help="Bytes that may wait in memory before they are written.",
        ),
    ] = None,
    preallocate_segments: Annotated[
        bool | None, Parameter(help="Reserve the disk space of a segment when it begins.")
    ] = None,
    context: CommandContext,
) -> None:
    """Make a topic; what is not said is left to the server.

    windsprite topic create orders events --partitions 3 --message-expiry 7d
    """
    async with context.client() as client:
        details = await client.create_topic(
            stream,
            name,
            partitions,
            compression=compression,
            message_expiry=message_expiry,
            max_topic_size=max_topic_size,
            segment_size=segment_size,
            durability=durability,
            consumer_offset_durability=consumer_offset_durability,
            messages_required_to_save=messages_required_to_save,
            size_of_messages_required_to_save=size_of_messages_required_to_save,
            preallocate_segments=preallocate_segments,
        )
    context.show(show_topic(details))


@application.command(name="update", sort_key=3)
async def update_topic(
    stream: StreamName,
    topic: TopicName,
    /,
    *,
    name: Annotated[str | None, Parameter(help="Another name.")] = None,
    compression: Compression = None,
    message_expiry: Expiry = None,
    max_topic_size: MaxTopicSize = None,
    context: CommandContext,
) -> None:
    """Change the name or some options of a topic; what is not said stays as it is."""
    if name is None and compression is None and message_expiry is None and max_topic_size is None:
        raise UsageError("topic update: nothing to change", "say at least one option")
    async with context.client() as client:
        if name is None:
            name = (await find_topic(client, stream, topic)).topic.name
        await client.update_topic(
            stream,
            topic,
            name,
            compression=compression,
            message_expiry=message_expiry,
            max_topic_size=max_topic_size,
        )
    context.confirm(f"topic {topic!r} is changed")


@application.command(name="trim", sort_key=4)
async def trim_topic(
    stream: StreamName,
    topic: TopicName,
    /,
    *,
    partition: Annotated[int, Parameter(validator=Number(gte=0), help="Of this partition.")],
    segments: Annotated[
        int, Parameter(validator=Number(gte=1, lte=2**32 - 1), help="So many, if there are.")
    ],
    context: CommandContext,
) -> None:
    """Delete the oldest full segments of a partition, for good.

    What a consumer still has to read is deleted once it has moved on. The
    segment that is being written stays.
    """
    async with context.client() as client:
        await client.delete_segments(stream, topic, partition, segments)
    context.confirm(f"old segments of partition {partition} are deleted")


@application.command(name="purge", sort_key=4)
async def purge_topic(stream: StreamName, topic: TopicName, /, *, context: CommandContext) -> None:
    """Delete all messages and stored offsets of a topic, at once and for good."""
    async with context.client() as client:
        await client.purge_topic(stream, topic)
    context.confirm(f"topic {topic!r} is empty")


@application.command(name="delete", sort_key=5)
async def delete_topic(stream: StreamName, topic: TopicName, /, *, context: CommandContext) -> None:
    """Delete a topic with all it holds, at once and for good."""
    async with context.client() as client:
        await client.delete_topic(stream, topic)
    context.confirm(f"topic {topic!r} is deleted")


async def find_topic(client: Client, stream: Identifier, topic: Identifier) -> TopicDetails:
    """A topic that is there.

    Raises:
        NotFound: It is not, or its stream is not.
    """
    details = await client.get_topic(stream, topic)
    if details is None:
        found_stream(await client.get_stream(stream), stream)
        message = f"there is no topic {topic!r} in the stream {stream!r}"
        raise NotFound(message, hint=f"`windsprite topic list {stream}` shows those that there are")
    return details
