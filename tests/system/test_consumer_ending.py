"""Consumers that are stopped or closed at any moment: whoever waits for a message is told."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

import windsprite
import windsprite.sync
from support.server_process import server_process
from windsprite.environment import SystemEnvironment

WHERE = ("orders", "events")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server_process(tmp_path_factory.mktemp("ending")) as server:
        yield f"iggy://iggy:iggy@{server.wait_ready()['tcp']}"
        assert server.stop() == 0


class Yielding(SystemEnvironment):
    """Whoever lets others run meets somebody here."""

    def __init__(self) -> None:
        super().__init__()
        self.meets: Callable[[], Awaitable[None]] | None = None

    async def sleep(self, seconds: float) -> None:
        if seconds == 0 and self.meets is not None:
            meets, self.meets = self.meets, None
            await meets()
        await super().sleep(seconds)


@pytest.fixture
def environment() -> Yielding:
    return Yielding()


@pytest.fixture
async def client(url: str, environment: Yielding) -> AsyncIterator[windsprite.Client]:
    async with windsprite.connect(url, environment=environment) as client:
        await client.create_stream("orders")
        await client.create_topic(*WHERE, partitions=1)
        await client.send(*WHERE, [b"0"])
        yield client
        await client.delete_stream("orders")


async def stop(consumer: windsprite.TopicConsumer) -> None:
    consumer.stop()


async def close(consumer: windsprite.TopicConsumer) -> None:
    await consumer.close()


@pytest.mark.parametrize("end", [stop, close])
@pytest.mark.parametrize("others", [0, 2])
async def test_whoever_looks_for_a_message_meanwhile_is_told_as_well(
    client: windsprite.Client, environment: Yielding, end, others: int
) -> None:
    consumer = client.consumer(*WHERE, group="g", batch_messages=1)
    # The buffer is empty after this message: the next call lets the one who polls run.
    consumer.handled(await consumer.get())
    waiting = [asyncio.create_task(consumer.get()) for _ in range(others)]

    async def meets() -> None:
        await asyncio.sleep(0)
        await end(consumer)

    environment.meets = meets
    async with asyncio.timeout(20):
        for get in (consumer.get(), *waiting):
            with pytest.raises(windsprite.ClientClosed):
                await get


@pytest.mark.parametrize("end", [stop, close])
async def test_a_loop_ends_that_is_looking_for_a_message(
    client: windsprite.Client, environment: Yielding, end
) -> None:
    consumer = client.consumer(*WHERE, group="g", batch_messages=1)
    environment.meets = lambda: end(consumer)
    async with asyncio.timeout(20):
        assert [message.offset async for message in consumer] == [0]


# --- Handlers --------------------------------------------------------------------------------


async def waits_for_what_is_cancelled(*_: object) -> None:
    task = asyncio.create_task(asyncio.sleep(60))
    task.cancel()
    await task


def is_cancelled(*_: object) -> None:
    raise asyncio.CancelledError


async def fails(_: windsprite.ReceivedMessage) -> None:
    raise ValueError("always")


@pytest.mark.parametrize("cancelled", [waits_for_what_is_cancelled, is_cancelled])
@pytest.mark.parametrize("concurrency", [1, 3])
async def test_a_handler_that_is_cancelled_from_inside_has_failed(
    client: windsprite.Client, cancelled, concurrency: int
) -> None:
    seen = []

    def aside(message: windsprite.ReceivedMessage, error: Exception) -> None:
        seen.append((message.offset, str(error)))
        consumer.stop()

    async with asyncio.timeout(30):
        for options in ({}, {"on_failure": cancelled}):
            handler = fails if options else cancelled
            with pytest.raises(RuntimeError, match="cancelled"):
                await client.consumer(*WHERE, group="g").run(
                    handler, concurrency=concurrency, attempts=1, **options
                )
        consumer = client.consumer(*WHERE, group="g")
        await consumer.run(cancelled, concurrency=concurrency, attempts=2, on_failure=aside)
    assert seen == [(0, "run: what a handler waited for was cancelled")]


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_a_run_that_is_cancelled_ends_as_such(
    client: windsprite.Client, concurrency: int
) -> None:
    started = asyncio.Event()

    async def handle(_: windsprite.ReceivedMessage) -> None:
        started.set()
        await asyncio.sleep(60)

    run = asyncio.create_task(
        client.consumer(*WHERE, group="g").run(handle, concurrency=concurrency)
    )
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


@pytest.mark.parametrize("wrong", [{"concurrency": 0}, {"attempts": 0}])
async def test_numbers_of_handlers_that_make_no_sense(
    client: windsprite.Client, url: str, wrong
) -> None:
    with pytest.raises(windsprite.InvalidRequest, match="at least 1"):
        await client.consumer(*WHERE, group="g").run(print, **wrong)

    def run() -> None:
        with windsprite.sync.connect(url) as blocking:
            blocking.consumer(*WHERE, group="g").run(print, **wrong)

    with pytest.raises(windsprite.InvalidRequest, match="at least 1"):
        await asyncio.to_thread(run)
