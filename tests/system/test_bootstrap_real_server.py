"""The client and a real server: what survives when the server is killed under a producer."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import windsprite
from support.server_process import ServerProcess, server_process

PARTITIONS = 3


async def everything(client: windsprite.Client, partition: int) -> AsyncIterator[bytes]:
    start: int | None = 0
    while start is not None:
        batch = await client.poll(
            "s", "t", partition=partition, start=windsprite.From.offset(start), count=500
        )
        for message in batch:
            yield message.payload
        start = batch.next_offset


@pytest.mark.parametrize("retry", ["at-least-once", "safe"])
async def test_a_producer_goes_on_when_the_server_is_killed(tmp_path: Path, retry: str) -> None:
    acknowledged: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    doubtful: set[int] = set()
    enough = asyncio.Event()

    async def produce(client: windsprite.Client) -> None:
        number = 0
        while not enough.is_set():
            number += 1
            partition = number % PARTITIONS
            payload = str(number).encode()
            try:
                await client.send("s", "t", [payload], partition=partition, retry=retry)
            except windsprite.OutcomeUnknown:
                assert retry == "safe"
                doubtful.add(number)
            else:
                acknowledged[partition].append(number)

    def total() -> int:
        return sum(map(len, acknowledged.values()))

    def kill_and_restart(stack: ExitStack, server: ServerProcess, address: str) -> ServerProcess:
        server.send(signal.SIGKILL)
        assert server.wait_end() == -signal.SIGKILL
        again = stack.enter_context(server_process(tmp_path, "--tcp-address", address))
        again.wait_ready()
        return again

    async with asyncio.timeout(60):
        with ExitStack() as stack:
            server = stack.enter_context(server_process(tmp_path))
            address = (await asyncio.to_thread(server.wait_ready))["tcp"]
            url = f"iggy://iggy:iggy@{address}?reconnection_interval=100ms&reestablish_after=0"
            async with windsprite.connect(url) as client:
                await client.create_stream("s")
                await client.create_topic("s", "t", PARTITIONS)
                producer = asyncio.create_task(produce(client))
                for _ in range(2):
                    before = total()
                    while total() < before + 200:
                        assert not producer.done()
                        await asyncio.sleep(0.01)
                    server = await asyncio.to_thread(kill_and_restart, stack, server, address)
                before = total()
                while total() < before + 200:
                    assert not producer.done()
                    await asyncio.sleep(0.01)
                enough.set()
                await producer

                for partition in range(PARTITIONS):
                    stored = [int(payload) async for payload in everything(client, partition)]
                    first_time = list(dict.fromkeys(stored))
                    assert first_time == sorted(first_time)
                    assert set(acknowledged[partition]) <= set(stored)
                    assert set(stored) <= set(acknowledged[partition]) | doubtful
                    if retry == "safe":
                        assert first_time == stored
    # At most the one request that was on its way at each of the two kills.
    assert len(doubtful) <= 2


async def test_the_first_five_minutes(tmp_path: Path) -> None:
    with server_process(tmp_path) as server:
        address = (await asyncio.to_thread(server.wait_ready))["tcp"]
        async with windsprite.connect(f"iggy://iggy:iggy@127.0.0.1:1,{address}") as client:
            assert client.server == address
            stream = await client.create_stream("orders")
            topic = await client.create_topic("orders", "events", PARTITIONS)
            assert [partition.id for partition in topic.partitions] == [0, 1, 2]

            by_key = await client.send("orders", "events", [b"one", "two", b""], key="user-42")
            assert by_key == windsprite.Confirmation(stream.stream.id, topic.topic.id, 2, 0)
            balanced = [await client.send("orders", 0, [b"x"]) for _ in range(PARTITIONS)]
            assert {c.partition_id for c in balanced if c is not None} == {0, 1, 2}

            batch = await client.poll("orders", "events", partition=2, consumer="reader")
            assert [message.payload for message in batch][:3] == [b"one", b"two", b""]
            await client.store_consumer_offset(
                "orders", "events", 0, partition=2, consumer="reader"
            )
            rest = await client.poll("orders", "events", partition=2, consumer="reader", count=1)
            assert [message.payload for message in rest] == [b"two"]
            await client.delete_consumer_offset("orders", "events", partition=2, consumer="reader")
            offset = await client.get_consumer_offset(
                "orders", "events", partition=2, consumer="reader"
            )
            assert offset is None

            with pytest.raises(windsprite.AlreadyExists):
                await client.create_stream("orders")
            with pytest.raises(windsprite.NotFound):
                await client.send("orders", "nothing", [b"x"])
            assert await client.get_stream("nothing") is None
            assert await client.get_topic("orders", 7) is None

            metadata = await client.get_cluster_metadata()
            assert metadata.leader is not None
            assert metadata.leader_epoch == 1
            assert (await client.me()).info.user_id == 0
            assert (await client.stats()).streams_count == 1

        with pytest.raises(windsprite.AuthenticationError):
            await windsprite.connect(f"iggy://iggy:wrong@{address}")
