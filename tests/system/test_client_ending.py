"""Clients that are closed in a hurry: nothing of their producers and consumers is left."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

import windsprite
from support.producer_setting import SILENCE, Seeded, has_partitions
from support.scripted_partition import ScriptedPartition
from support.scripted_server import ScriptedCluster
from support.virtual_time import in_virtual_time
from windsprite.address import Address
from windsprite_protocol.model.groups import LeaveConsumerGroup
from windsprite_protocol.model.messages import SendMessages

WHERE = ("s", "t")


@asynccontextmanager
async def busy_client() -> AsyncIterator[tuple[windsprite.Client, list[windsprite.Delivery]]]:
    """A client with producers and consumers that the server keeps from ending.

    And with the deliveries of messages that are on their way, or not even that.
    """
    async with await ScriptedCluster().start() as cluster:
        ScriptedPartition(cluster, 3)
        (node,) = cluster.nodes
        has_partitions(node, 1)
        node.always(SendMessages, SILENCE)
        client = await windsprite.connect(cluster.url(), environment=Seeded())
        producers = [client.producer(*WHERE, linger=linger) for linger in (0.0, 0.0, 60.0)]
        # With room for no more than they have, they would rest for ever.
        consumers = [client.consumer(*WHERE, group="g", prefetch_bytes=1) for _ in range(3)]
        for one in (*producers, *consumers):
            await one.start()
        await asyncio.sleep(1)
        deliveries = [await producer.send(b"x") for producer in producers]
        await asyncio.sleep(1)
        yield client, deliveries


@pytest.mark.parametrize("seconds", [0, 2])
@in_virtual_time
async def test_what_is_not_finished_in_time_is_given_up(seconds: float) -> None:
    before = asyncio.all_tasks()
    async with busy_client() as (client, deliveries):
        began = asyncio.get_running_loop().time()
        await client.close(timeout=seconds)
        assert asyncio.get_running_loop().time() - began < seconds + 1
        assert all(delivery.done() for delivery in deliveries)
        results = await asyncio.gather(*deliveries, return_exceptions=True)
        assert {type(result) for result in results} <= {
            windsprite.OutcomeUnknown,
            windsprite.ProducerClosed,
        }
        names = {task.get_name() for task in asyncio.all_tasks() - before}
        assert not any(name.startswith("windsprite") for name in names)


@pytest.mark.parametrize("seconds", [0.0, 0.5, 25.0])
@in_virtual_time
async def test_a_close_that_is_cancelled_gives_up_the_rest(seconds: float) -> None:
    before = asyncio.all_tasks()
    async with busy_client() as (client, deliveries):
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await client.close()
        assert all(delivery.done() for delivery in deliveries)
        await asyncio.gather(*deliveries, return_exceptions=True)
        names = {task.get_name() for task in asyncio.all_tasks() - before}
        assert not any(name.startswith("windsprite") for name in names)


@in_virtual_time
async def test_a_consumer_is_closed_as_soon_as_one_of_those_who_close_it_wants() -> None:
    async with await ScriptedCluster().start() as cluster:
        ScriptedPartition(cluster, 3)
        cluster.nodes[0].always(LeaveConsumerGroup, SILENCE)
        connecting = windsprite.connect(cluster.url(), environment=Seeded())
        async with connecting as client:
            consumer = client.consumer(*WHERE, group="g")
            await consumer.start()
            began = asyncio.get_running_loop().time()
            closing = [asyncio.create_task(consumer.close(seconds)) for seconds in (5.0, 1.0, 3.0)]
            for task in closing:
                with pytest.raises(windsprite.RequestTimedOut):
                    await task
            assert asyncio.get_running_loop().time() - began == pytest.approx(1.0, abs=0.1)


@in_virtual_time
async def test_a_client_may_be_closed_the_moment_it_begins_to_look_for_a_server() -> None:
    client = windsprite.Client(Address.parse("127.0.0.1:1"), environment=Seeded())
    connecting = asyncio.create_task(client.connect())
    await asyncio.create_task(client.close())  # begins before what `connect` has begun
    with pytest.raises(windsprite.ClientClosed):
        await connecting
