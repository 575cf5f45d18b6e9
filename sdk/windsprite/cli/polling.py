"""poll: messages go to the standard output."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from cyclopts import Parameter
from cyclopts.validators import Number

from windsprite import Identifier
from windsprite.cli.arguments import Start, StartKind, parse_start
from windsprite.cli.conversion import converter, flag
from windsprite.cli.errors import UsageError
from windsprite.cli.group_reading import GroupReading
from windsprite.cli.parameters import CommandContext, StreamName, TopicName, identifier
from windsprite.cli.reading import Reading, Sink, Span, find_place

_DEFAULT_COUNT: Final = 100

StartOption: TypeAlias = Annotated[
    Start | None,
    Parameter(
        name="--from",
        converter=converter(parse_start),
        n_tokens=1,
        accepts_keys=False,
        metavar="START",
        help="first, last, next, offset:N or time:T. Without it: next with --consumer or "
        "--group, else first.",
    ),
]


async def poll(
    stream: StreamName,
    topic: TopicName,
    /,
    *,
    start: StartOption = None,
    count: Annotated[
        int | None,
        Parameter(
            validator=Number(gte=1),
            help="Messages at most, of each partition, or altogether with --group. Without it: "
            f"{_DEFAULT_COUNT}.",
        ),
    ] = None,
    everything: Annotated[
        bool, flag("Up to the newest message that there is at the start.", name="--all")
    ] = False,
    follow: Annotated[bool, flag("Go on with what comes, until Ctrl-C.")] = False,
    partition: Annotated[
        int | None,
        Parameter(validator=Number(gte=0), help="Read this partition only. Without it: all."),
    ] = None,
    consumer: Annotated[
        Identifier | None,
        identifier(
            "Read on behalf of this consumer: --from next begins behind its stored offset, "
            "and whatever was written is stored as its offset afterwards.",
            metavar="NAME",
        ),
    ] = None,
    group: Annotated[
        Identifier | None,
        identifier(
            "Read as a member of this consumer group, which is made if it is missing.",
            metavar="NAME",
        ),
    ] = None,
    raw: Annotated[bool, flag("Write each payload and a newline, nothing else.")] = False,
    context: CommandContext,
) -> None:
    """Read messages and write them to the standard output.

    Without --partition all partitions that the topic has at the start are
    read: one after the other, or by turns with --follow.

    With --group the command is a member of the group as long as it runs, and
    reads the partitions that the server gives it. When members come or go,
    partitions change hands; what was written is stored as the offset of the
    group, so that whoever has a partition goes on behind it.

    --from says where to begin in each partition:

    first      the oldest message
    last       the newest messages, as many as --count says; the newest one
               with --all or --follow
    next       behind the stored offset of the --consumer or --group; the
               oldest message if none is stored
    offset:N   this offset
    time:T     what was appended at T or later: ISO 8601, in local time if it
               has no zone; or seconds or microseconds since 1970

    With --output json each message is a line of JSON, with times in
    microseconds since 1970; a payload that is not UTF-8 is an object with
    the key base64.

    Try these:

    windsprite poll orders events --count 10
    windsprite poll orders events --from first --all --raw > events.txt
    windsprite poll orders events --from time:2026-11-29T14:00Z --all
    windsprite poll orders events --from last --follow --output json
    windsprite poll orders events --group billing --follow
    """
    if (count is not None) + everything + follow > 1:
        raise UsageError("poll: only one of --count, --all and --follow")
    if raw and context.is_json:
        raise UsageError("poll: either --raw or --output json")
    if consumer is not None and group is not None:
        raise UsageError("poll: either --consumer or --group")
    if group is not None and partition is not None:
        raise UsageError(
            "poll: either --group or --partition",
            "the server says which partitions a member of a group reads",
        )
    if start is None:
        goes_on = consumer is not None or group is not None
        start = Start(StartKind.NEXT if goes_on else StartKind.FIRST)
    if count is None and not everything and not follow:
        count = _DEFAULT_COUNT
    sink = Sink(context, is_raw=raw)
    async with context.patient_client() as client:
        place = await find_place(client, stream, topic, partition)
        span = Span(start, count, is_endless=follow)
        environment = context.environment
        reading = (
            Reading(client, place, span, sink, environment, consumer=consumer)
            if group is None
            else GroupReading(client, place, span, sink, environment, group=group)
        )
        await reading.run()
