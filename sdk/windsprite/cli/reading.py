"""Reading partitions of a topic, and writing what is in them to the standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from windsprite import (
    Client,
    From,
    Identifier,
    InvalidRequest,
    PermissionDenied,
    ReceivedMessage,
)
from windsprite.cli import message_formats
from windsprite.cli.arguments import Start
from windsprite.cli.context import Context
from windsprite.cli.cursors import Cursor
from windsprite.cli.progress import Meter
from windsprite.cli.topics import find_topic
from windsprite.environment import Environment
from windsprite_protocol.errors import ErrorCode

_SHORTEST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 0.5


class Pauses:
    """Waits between rounds that found nothing, longer and longer.

    Args:
        environment: The clock.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._next = _SHORTEST_PAUSE

    async def after(self, found: int) -> None:
        """Wait, unless a round has found so many messages."""
        if found:
            self._next = _SHORTEST_PAUSE
            return
        await self._environment.sleep(self._next)
        self._next = min(2 * self._next, _LONGEST_PAUSE)


@dataclass(frozen=True, slots=True)
class Place:
    """What is read.

    Attributes:
        stream: The stream.
        topic: The topic.
        newest: The partitions, each with the offset of the newest message at the beginning; None:
            there was no message.
    """

    stream: Identifier
    topic: Identifier
    newest: Mapping[int, int | None]


@dataclass(frozen=True, slots=True)
class Span:
    """From where to where it is read.

    Attributes:
        start: Where to begin in each partition.
        count: Messages wanted; None: as many as there are.
        is_endless: Whether to go on behind the newest message.
    """

    start: Start
    count: int | None
    is_endless: bool


async def find_place(
    client: Client, stream: Identifier, topic: Identifier, partition: int | None
) -> Place:
    """All partitions that a topic has now, or one of them.

    Raises:
        NotFound: There is no such topic or partition.
        PermissionDenied: The user may not look at it.
    """
    partitions = [partition] if partition is not None else []
    if partition is None:
        try:
            details = await find_topic(client, stream, topic)
        except PermissionDenied as error:
            hint = "with --partition nobody has to be asked which partitions there are"
            raise PermissionDenied(error.sentence, code=error.code, hint=hint) from error
        partitions = [each.id for each in details.partitions]
    newest: dict[int, int | None] = {}
    for number in partitions:
        batch = await client.poll(stream, topic, partition=number, start=From.last(), count=1)
        newest[number] = batch.current_offset if batch else None
    return Place(stream, topic, newest)


@contextmanager
def unless_purged() -> Iterator[None]:
    """Store an offset, unless its message was purged since it was read.

    There is nothing to store then, and the next poll shows it.
    """
    try:
        yield
    except InvalidRequest as error:
        if error.code is not ErrorCode.INVALID_OFFSET:
            raise


def show_progress(environment: Environment) -> Meter:
    """A meter of messages that are read; its bar is for people who do not see the messages."""
    return Meter("read", environment, total=None, visible=not sys.stdout.isatty())


class Sink:
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


class Reading:
    """Reads partitions of a topic, and writes what it finds to a sink.

    Args:
        client: Who reads.
        place: What is read.
        span: From where to where.
        sink: Where messages go.
        environment: The clock.
        consumer: On whose behalf; None: nobody's, and no offset is stored.
    """

    def __init__(
        self,
        client: Client,
        place: Place,
        span: Span,
        sink: Sink,
        environment: Environment,
        *,
        consumer: Identifier | None,
    ) -> None:
        self._client = client
        self._place = place
        self._consumer = consumer
        self._span = span
        self._sink = sink
        self._environment = environment

    async def run(self) -> None:
        """Read all of it."""
        span = self._span
        cursors = [
            Cursor(
                number,
                span.start,
                newest=newest,
                count=span.count,
                follow=span.is_endless,
                again=From.first() if self._consumer is None else From.next(),
            )
            for number, newest in self._place.newest.items()
        ]
        await (self._follow(cursors) if span.is_endless else self._drain(cursors))

    async def _drain(self, cursors: Sequence[Cursor]) -> None:
        """Read one partition after the other, each to its end."""
        with show_progress(self._environment) as meter:
            for cursor in cursors:
                while not cursor.is_done:
                    messages = await self._step(cursor)
                    meter.count(len(messages), 0, done=len(messages))

    async def _follow(self, cursors: Sequence[Cursor]) -> None:
        """Read all partitions by turns for ever; in quiet times, ask less and less often."""
        pauses = Pauses(self._environment)
        while True:
            found = 0
            for cursor in cursors:
                found += len(await self._step(cursor))
            await pauses.after(found)

    async def _step(self, cursor: Cursor) -> Sequence[ReceivedMessage]:
        """Poll once, and write what comes of it."""
        batch = await self._client.poll(
            self._place.stream,
            self._place.topic,
            partition=cursor.partition,
            start=cursor.start,
            count=cursor.count,
            consumer=self._consumer,
        )
        messages = cursor.take(batch)
        if not messages:
            return messages
        self._sink.write(messages)
        if self._consumer is not None:
            with unless_purged():
                await self._client.store_consumer_offset(
                    self._place.stream,
                    self._place.topic,
                    messages[-1].offset,
                    partition=cursor.partition,
                    consumer=self._consumer,
                )
        return messages
