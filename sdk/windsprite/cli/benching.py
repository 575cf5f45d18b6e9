"""Sending and reading as fast as it goes, or at a rate, and taking note of how long it takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, NamedTuple

from windsprite import Client, From, Identifier
from windsprite.cli.context import Context
from windsprite.cli.errors import CommandError
from windsprite.cli.latencies import Histogram
from windsprite.cli.output import Facts, Size, View
from windsprite.cli.pacing import Pacing
from windsprite.cli.places import create_missing
from windsprite.cli.progress import Meter
from windsprite.cli.topics import find_topic
from windsprite.environment import Environment

_IN_FLIGHT: Final = 32
"""Requests of a connection that may be on their way at a fixed rate."""

_PERCENTILES: Final = (50, 90, 99, 99.9)


class Place(NamedTuple):
    """Where messages go to or come from.

    Attributes:
        stream: The stream.
        topic: The topic.
        partitions: The numbers of its partitions.
    """

    stream: Identifier
    topic: Identifier
    partitions: Sequence[int]


class Bench:
    """Counts what is done, and how long it takes.

    Attributes:
        latencies: Of the requests.
        meter: Messages and bytes.
    """

    def __init__(self, verb: str, environment: Environment, total: int | None) -> None:
        self.latencies = Histogram()
        self.meter = Meter(verb, environment, total=total, note=self._note)
        self._environment = environment

    async def produce(
        self,
        clients: Sequence[Client],
        place: Place,
        pacing: Pacing,
        payload: bytes,
        *,
        paced: bool,
    ) -> None:
        """Send messages; each connection has one request on its way, more with `paced`.

        The connections take the partitions by turns.
        """
        workers = _IN_FLIGHT if paced else 1
        await _all(
            self._send(
                client, place, place.partitions[number % len(place.partitions)], pacing, payload
            )
            for number, client in enumerate(clients)
            for _ in range(workers)
        )

    async def consume(
        self,
        clients: Sequence[Client],
        place: Place,
        *,
        batch: int,
        messages: int | None,
        duration: float | None,
    ) -> None:
        """Read messages from the oldest on; the connections share out the partitions.

        Requests that are on their way when there are enough messages are waited for.
        """
        end = None if duration is None else self._environment.monotonic() + duration

        def wanted() -> int:
            if end is not None and self._environment.monotonic() >= end:
                return 0
            return batch if messages is None else max(0, min(batch, messages - self.meter.messages))

        await _all(
            self._read(client, place, place.partitions[number :: len(clients)], wanted)
            for number, client in enumerate(clients)
        )

    async def _send(
        self, client: Client, place: Place, partition: int, pacing: Pacing, payload: bytes
    ) -> None:
        clock = self._environment
        while (turn := pacing.next(clock.monotonic())) is not None:
            began = clock.monotonic()
            if turn.due is not None:
                if turn.due > began:
                    await clock.sleep(turn.due - began)
                began = turn.due
            await client.send(
                place.stream, place.topic, [payload] * turn.messages, partition=partition
            )
            self._took(clock.monotonic() - began, turn.messages, turn.messages * len(payload))

    async def _read(
        self,
        client: Client,
        place: Place,
        partitions: Sequence[int],
        wanted: Callable[[], int],
    ) -> None:
        for partition in partitions:
            start = From.first()
            while count := wanted():
                began = self._environment.monotonic()
                batch = await client.poll(
                    place.stream, place.topic, partition=partition, start=start, count=count
                )
                if not batch:
                    break
                took = self._environment.monotonic() - began
                self._took(took, len(batch), sum(len(message.payload) for message in batch))
                start = From.offset(batch[-1].offset + 1)

    def _took(self, seconds: float, messages: int, payload_bytes: int) -> None:
        self.latencies.record(seconds)
        self.meter.count(messages, payload_bytes, done=messages)

    def _note(self) -> str:
        return f"p50 {self._ms(50)} ms, p99 {self._ms(99)} ms"

    def _ms(self, percent: float) -> str:
        return f"{self.latencies.percentile(percent) / 1000:.3g}"

    def view(self, **settings: int | float | None) -> View:
        """What came of it, for people and for programs."""
        meter, latencies = self.meter, self.latencies
        seconds = meter.seconds
        messages_per_second = round(meter.messages / seconds, 1)
        bytes_per_second = round(meter.payload_bytes / seconds)
        micros = {f"p{percent:g}": latencies.percentile(percent) for percent in _PERCENTILES}
        micros["max"] = latencies.largest
        facts = Facts(
            [
                ("messages", meter.messages),
                ("payload", Size(meter.payload_bytes)),
                ("requests", latencies.count),
                ("seconds", f"{seconds:.3f}"),
                ("messages/s", f"{messages_per_second:,.0f}"),
                ("payload/s", Size(bytes_per_second)),
                *((f"latency {name}", f"{value / 1000:.3f} ms") for name, value in micros.items()),
            ]
        )
        data: dict[str, Any] = {
            **settings,
            "messages": meter.messages,
            "payload_bytes": meter.payload_bytes,
            "requests": latencies.count,
            "seconds": round(seconds, 6),
            "messages_per_second": messages_per_second,
            "payload_bytes_per_second": bytes_per_second,
            "latency_us": micros,
        }
        return View([facts], data)


@asynccontextmanager
async def connected(context: Context, connections: int) -> AsyncIterator[list[Client]]:
    """So many clients."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(context.client()) for _ in range(connections)]


@asynccontextmanager
async def place_for(
    client: Client,
    environment: Environment,
    stream: Identifier | None,
    topic: Identifier | None,
    *,
    create: bool,
    partitions: int,
) -> AsyncIterator[Place]:
    """The topic that was named, or one of our own that is removed afterwards."""
    own = stream is None or topic is None
    if stream is None or topic is None:
        stream, topic = f"windsprite-bench-{environment.random_bytes(6).hex()}", "bench"
        await client.create_stream(stream)
    try:
        if create or own:
            await create_missing(client, stream, topic, partitions)
        details = await find_topic(client, stream, topic)
        if not details.partitions:
            raise CommandError(f"the topic {topic!r} has no partitions")
        yield Place(stream, topic, [partition.id for partition in details.partitions])
    finally:
        if own:
            await client.delete_stream(stream)


async def _all(coroutines: Iterable[Awaitable[None]]) -> None:
    """Wait for all of them; if one fails, the others are given up."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
