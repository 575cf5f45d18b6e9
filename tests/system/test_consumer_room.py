"""Partitions that hand out nothing for a while: the others go on, however little may be kept."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

import windsprite
from support.server_process import server_process
from windsprite import Commit

WHERE = ("orders", "events")
COMMITS = {"handled": Commit.after_handling(), "polled": Commit.on_poll()}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server_process(tmp_path_factory.mktemp("room")) as server:
        yield f"iggy://iggy:iggy@{server.wait_ready()['tcp']}"
        assert server.stop() == 0


@pytest.fixture
async def client(url: str) -> AsyncIterator[windsprite.Client]:
    async with windsprite.connect(url) as client:
        await client.create_stream("orders")
        await client.create_topic(*WHERE, partitions=2)
        await client.send(*WHERE, [b"x"] * 50, partition=0)
        yield client
        await client.delete_stream("orders")


async def read(consumer: windsprite.TopicConsumer, partition: int, count: int) -> list[int]:
    """Handle so many messages, all of one partition."""
    offsets = []
    async with asyncio.timeout(30):
        for _ in range(count):
            message = await consumer.get()
            assert message.partition_id == partition
            offsets.append(message.offset)
            consumer.handled(message)
    return offsets


@pytest.mark.parametrize("reader", [{"group": "g"}, {"name": "c"}])
@pytest.mark.parametrize("commit", COMMITS)
async def test_a_paused_partition_keeps_no_room_from_others(
    client: windsprite.Client, reader: dict[str, str], commit: str
) -> None:
    options = {"prefetch_bytes": 1, "batch_messages": 8, "commit": COMMITS[commit]}
    async with client.consumer(*WHERE, **reader, **options) as consumer:
        assert await read(consumer, 0, 3) == [0, 1, 2]
        consumer.pause(0)
        await client.send(*WHERE, [b"x"] * 20, partition=1)
        assert await read(consumer, 1, 20) == list(range(20))
        consumer.resume(0)
        assert await read(consumer, 0, 47) == list(range(3, 50))


async def test_a_partition_that_waits_for_a_handler_keeps_no_room_from_others(
    client: windsprite.Client,
) -> None:
    options = {"prefetch_bytes": 1, "batch_messages": 8, "max_unhandled": 2}
    async with client.consumer(*WHERE, group="g", **options) as consumer:
        held = [await consumer.get(), await consumer.get()]
        await client.send(*WHERE, [b"x"] * 20, partition=1)
        assert await read(consumer, 1, 20) == list(range(20))
        for message in held:
            consumer.handled(message)
        assert await read(consumer, 0, 48) == list(range(2, 50))
