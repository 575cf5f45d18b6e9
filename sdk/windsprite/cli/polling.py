"""poll: messages go to the standard output."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from windsprite import Client, From, Identifier, PermissionDenied, ReceivedMessage
from windsprite.cli import message_formats
from windsprite.cli.arguments import Start, StartKind, parse_identifier, parse_start
from windsprite.cli.context import Context, UsageError
from windsprite.cli.cursors import Cursor
from windsprite.cli.parameters import CommandContext, StreamName, TopicName, converter, flag
from windsprite.cli.progress import Meter
from windsprite.cli.topics import find_topic
from windsprite.environment import Environment

_DEFAULT_COUNT: Final = 100
_NOBODY: Final = 0
_SHORTEST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 0.5


async def poll(
    stream: StreamName,
    topic: TopicName,
    /,
    *,
    start: Annotated[
        Start | None,
        Parameter(
            name="--from",
            converter=converter(parse_start),
            n_tokens=1,
            accepts_keys=False,
            metavar="START",
            help="first, last, next, offset:N or time:T. Without it: next with --consumer, else "
            "first.",
        ),
    ] = None,
    count: Annotated[
        int | None,
        Parameter(
            validator=Number(gte=1),
            help=f"Messages at most, of each partition. Without it: {_DEFAULT_COUNT}.",
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
        Parameter(
            converter=converter(parse_identifier),
            n_tokens=1,
            metavar="NAME",
            help="Read on behalf of this consumer: --from next begins behind its stored offset, "
            "and whatever was written is stored as its offset afterwards.",
        ),
    ] = None,
    raw: Annotated[bool, flag("Write each payload and a newline, nothing else.")] = False,
    context: CommandContext,
) -> None:
    """Read messages and write them to the standard output.

    Without --partition all partitions of the topic are read: one after the
    other, or by turns with --follow.

    --from says where to begin in each partition:

    first      the oldest message
    last       the newest messages, as many as --count says, or one
    next       behind the stored offset of the --consumer; the oldest message
               if none is stored
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
    """
    if (count is not None) + everything + follow > 1:
        raise UsageError("poll: only one of --count, --all and --follow")
    if raw and context.is_json:
        raise UsageError("poll: either --raw or --output json")
    if start is None:
        start = Start(StartKind.FIRST if consumer is None else StartKind.NEXT)
    if count is None and not everything and not follow:
        count = _DEFAULT_COUNT
    async with context.patient_client() as client:
        polling = _Polling(
            client,
            stream,
            topic,
            consumer=consumer,
            sink=_Sink(context, is_raw=raw),
            environment=context.environment,
        )
        partitions = [partition] if partition is not None else await polling.partitions()
        newest = {number: await polling.newest(number) for number in partitions}
        cursors = [
            Cursor(number, start, newest=newest[number], count=count, follow=follow)
            for number in partitions
        ]
        if follow:
            await polling.follow(cursors)
        else:
            await polling.drain(cursors)


class _Sink:
    """Writes messages to the standard output, at once: a reader behind a pipe wants to see them."""

    def __init__(self, context: Context, *, is_raw: bool) -> None:
        self._header = b""
        if is_raw:
            self._format = message_formats.raw
        elif context.is_json:
            self._format = message_formats.json_lines
        elif sys.stdout.isatty():
            self._format = message_formats.aligned_lines
            self._header = message_formats.aligned_header()
        else:
            self._format = message_formats.tabbed_lines
            self._header = message_formats.tabbed_header()

    def write(self, messages: Sequence[ReceivedMessage]) -> None:
        """Write some messages; names stand above the first ones."""
        out = sys.stdout.buffer
        out.write(self._header + self._format(messages))
        out.flush()
        self._header = b""


class _Polling:
    """Reads partitions of a topic, and writes what it finds to a sink."""

    def __init__(
        self,
        client: Client,
        stream: Identifier,
        topic: Identifier,
        *,
        consumer: Identifier | None,
        sink: _Sink,
        environment: Environment,
    ) -> None:
        self._client = client
        self._stream = stream
        self._topic = topic
        self._consumer = consumer
        self._sink = sink
        self._environment = environment

    async def partitions(self) -> list[int]:
        """The partitions that the topic has now."""
        try:
            details = await find_topic(self._client, self._stream, self._topic)
        except PermissionDenied as error:
            hint = "with --partition nobody has to be asked which partitions there are"
            raise PermissionDenied(error.sentence, code=error.code, hint=hint) from error
        return [partition.id for partition in details.partitions]

    async def newest(self, partition: int) -> int | None:
        """The offset of the newest message of a partition; None if it holds no message."""
        batch = await self._client.poll(
            self._stream, self._topic, partition=partition, start=From.last(), count=1
        )
        return batch.current_offset if batch else None

    async def drain(self, cursors: Sequence[Cursor]) -> None:
        """Read one partition after the other, each to its end."""
        is_watched = not sys.stdout.isatty()
        with Meter("read", self._environment, total=None, visible=is_watched) as meter:
            for cursor in cursors:
                while not cursor.is_done:
                    messages = await self._step(cursor)
                    meter.count(len(messages), 0, done=len(messages))

    async def follow(self, cursors: Sequence[Cursor]) -> None:
        """Read all partitions by turns for ever; in quiet times, ask less and less often."""
        pause = _SHORTEST_PAUSE
        while True:
            found = 0
            for cursor in cursors:
                found += len(await self._step(cursor))
            if found:
                pause = _SHORTEST_PAUSE
            else:
                await self._environment.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _step(self, cursor: Cursor) -> Sequence[ReceivedMessage]:
        """Poll once, and write what comes of it."""
        batch = await self._client.poll(
            self._stream,
            self._topic,
            partition=cursor.partition,
            start=cursor.start,
            count=cursor.count,
            consumer=_NOBODY if self._consumer is None else self._consumer,
        )
        messages = cursor.take(batch)
        if not messages:
            return messages
        self._sink.write(messages)
        if self._consumer is not None:
            await self._client.store_consumer_offset(
                self._stream,
                self._topic,
                messages[-1].offset,
                partition=cursor.partition,
                consumer=self._consumer,
            )
        return messages
