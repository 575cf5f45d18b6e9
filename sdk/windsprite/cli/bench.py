"""bench produce, consume."""

from __future__ import annotations

import sys
from typing import Annotated, TypeAlias

from cyclopts import App, Parameter
from cyclopts.validators import Number

from windsprite import Identifier
from windsprite.cli.benching import Bench, connected, place_for
from windsprite.cli.context import Context
from windsprite.cli.conversion import flag
from windsprite.cli.errors import UsageError
from windsprite.cli.output import View, dump_json
from windsprite.cli.pacing import Pacing
from windsprite.cli.parameters import CommandContext, identifier
from windsprite_protocol.batches import MAX_PAYLOAD_BYTES

application = App(name="bench")

_DEFAULT_MESSAGES = 100_000

Messages: TypeAlias = Annotated[
    int | None,
    Parameter(
        validator=Number(gte=1),
        help=f"How many messages in all. Without it and --duration: {_DEFAULT_MESSAGES:,}.",
    ),
]
PayloadSize: TypeAlias = Annotated[
    int,
    Parameter(
        validator=Number(gte=0, lte=MAX_PAYLOAD_BYTES),
        metavar="BYTES",
        help="The payload of a message: random bytes.",
    ),
]
BatchSize: TypeAlias = Annotated[
    int, Parameter(validator=Number(gte=1, lte=100_000), help="Messages of a request at most.")
]
Connections: TypeAlias = Annotated[
    int,
    Parameter(
        validator=Number(gte=1, lte=1000),
        help="How many connections work at the same time; they share out the partitions.",
    ),
]
Duration: TypeAlias = Annotated[
    float | None,
    Parameter(validator=Number(gt=0), metavar="SECONDS", help="Stop after so many seconds."),
]
StreamOption: TypeAlias = Annotated[
    Identifier | None,
    identifier(
        "A stream that is there. Without it: one of its own, which is removed at the end.",
        metavar="NAME",
    ),
]
TopicOption: TypeAlias = Annotated[
    Identifier | None,
    identifier("A topic of it, which is kept as it is afterwards.", metavar="NAME"),
]
PartitionCount: TypeAlias = Annotated[
    int | None,
    Parameter(
        validator=Number(gte=1, lte=1000),
        help="How many partitions a topic gets that is made. Without it: one for each connection.",
    ),
]


@application.command(name="produce", sort_key=0)
async def produce(
    *,
    messages: Messages = None,
    size: PayloadSize = 256,
    batch: BatchSize = 1000,
    connections: Connections = 1,
    rate: Annotated[
        float | None,
        Parameter(
            validator=Number(gt=0),
            help="Messages in a second, all connections together. Without it: as fast as it goes.",
        ),
    ] = None,
    duration: Duration = None,
    stream: StreamOption = None,
    topic: TopicOption = None,
    create: Annotated[bool, flag("Make the stream and the topic if they are missing.")] = False,
    partitions: PartitionCount = None,
    context: CommandContext,
) -> None:
    """Send messages, and say how many a second and how long a request takes.

    Each connection sends its next request when the one before is answered.
    With --rate requests are due at fixed times, whatever became of those
    before, and a latency counts from when the request was due: so a server
    that stalls for a second is seen by all that was due in this second.

    The bar on a terminal shows how it goes meanwhile. The result is a table
    on a terminal and a line of JSON in a pipe, with latencies in
    microseconds. They are those of whole requests, from the client's side.

    Try these:

    windsprite bench produce
    windsprite bench produce --batch 1 --connections 8 --duration 10
    windsprite bench produce --rate 20000 --batch 100 --duration 30
    """
    _check_place(stream, topic, create=create)
    if messages is None and duration is None:
        messages = _DEFAULT_MESSAGES
    bench = Bench("sent", context.environment, messages)
    payload = context.environment.random_bytes(size)
    async with (
        connected(context, connections) as clients,
        place_for(
            clients[0],
            context.environment,
            stream,
            topic,
            create=create,
            partitions=partitions or connections,
        ) as place,
    ):
        pacing = Pacing(
            context.environment.monotonic(),
            messages=messages,
            batch=batch,
            rate=rate,
            duration=duration,
        )
        with bench.meter:
            await bench.produce(clients, place, pacing, payload, paced=rate is not None)
    _show(context, bench.view(size=size, batch=batch, connections=connections, rate=rate))


@application.command(name="consume", sort_key=1)
async def consume(
    *,
    messages: Messages = None,
    size: PayloadSize = 256,
    batch: BatchSize = 1000,
    connections: Connections = 1,
    duration: Duration = None,
    stream: StreamOption = None,
    topic: TopicOption = None,
    partitions: PartitionCount = None,
    context: CommandContext,
) -> None:
    """Read messages, and say how many a second and how long a request takes.

    It reads a topic from its oldest messages on, up to its end or to
    about --messages. Without --stream it makes a stream of its own first and fills
    it with --messages of --size, which takes its time and is not counted.

    Try these:

    windsprite bench consume --messages 1000000 --batch 10000
    windsprite bench consume --stream orders --topic events --connections 4
    """
    _check_place(stream, topic, create=False)
    environment = context.environment
    filled = messages or _DEFAULT_MESSAGES
    bench = Bench("read", environment, messages if stream is not None else filled)
    async with (
        connected(context, connections) as clients,
        place_for(
            clients[0],
            environment,
            stream,
            topic,
            create=False,
            partitions=partitions or connections,
        ) as place,
    ):
        if stream is None:
            filling = Bench("made", environment, filled)
            pacing = Pacing(0.0, messages=filled, batch=1000, rate=None, duration=None)
            with filling.meter:
                payload = environment.random_bytes(size)
                await filling.produce(clients, place, pacing, payload, paced=False)
        with bench.meter:
            await bench.consume(clients, place, batch=batch, messages=messages, duration=duration)
    _show(context, bench.view(batch=batch, connections=connections))


def _check_place(stream: Identifier | None, topic: Identifier | None, *, create: bool) -> None:
    if (stream is None) != (topic is None):
        raise UsageError("bench: --stream and --topic belong together")
    if create and stream is None:
        raise UsageError("bench: --create needs the names, --stream and --topic")


def _show(context: Context, view: View) -> None:
    if sys.stdout.isatty():
        context.show(view)
    else:
        sys.stdout.write(dump_json(view.data))
