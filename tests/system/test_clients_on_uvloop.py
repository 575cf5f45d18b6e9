"""Clients in programs that run uvloop, which tells no time of a timer that is due at once."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

import windsprite
import windsprite_server

ROUNDS = 20  # a millisecond that ends meanwhile hides what is looked for


def on_uvloop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run an async test on uvloop; its callbacks must not fail."""

    async def checked() -> None:
        failures: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: failures.append(context)
        )
        await test()
        assert failures == []

    @functools.wraps(test)
    def run() -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(checked())

    return run


@on_uvloop
async def test_a_call_beside_one_whose_time_is_all_but_over() -> None:
    async with (
        windsprite_server.embedded() as server,
        windsprite.connect(server.connection_string) as client,
    ):
        for _ in range(ROUNDS):
            short, long = await asyncio.gather(
                client.ping(timeout=0.0003), client.ping(), return_exceptions=True
            )
            assert short is None or isinstance(short, windsprite.RequestTimedOut)
            assert long is None


@on_uvloop
async def test_messages_that_come_just_before_others_have_lingered() -> None:
    topic = windsprite.NewTopic(partitions=2)
    async with (
        windsprite_server.embedded() as server,
        windsprite.connect(server.connection_string) as client,
        client.producer("s", "t", create=topic, linger=0.0004) as producer,
    ):
        for number in range(ROUNDS):
            first = await producer.send(b"0", partition=0)
            await asyncio.sleep(0)
            second = await producer.send(b"1", partition=1)
            placed = await asyncio.gather(first, second)
            assert placed == [(0, number), (1, number)]
