"""Our consumer beside the official one: in one group, and one after the other."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest
from apache_iggy import (
    AutoCommit,
    AutoCommitWhen,
    IggyClient,
    PollingStrategy,
)

import windsprite
from support.official_client import logged_in, messages
from support.waiting import until

covers = pytest.mark.covers

Place = tuple[int, int]
EACH = AutoCommit.When(AutoCommitWhen.ConsumingEachMessage())
SOON = timedelta(milliseconds=20)


async def fill(client: IggyClient, stream: str, topic: str, size: int) -> set[Place]:
    for partition in range(3):
        for start in range(0, size, 500):
            texts = [str(number) for number in range(start, min(start + 500, size))]
            await client.send_messages(stream, topic, partition, messages(*texts))
    return {(partition, offset) for partition in range(3) for offset in range(size)}


@covers("consumer_group", "IggyConsumer.iter_messages")
async def test_members_of_both_kinds_share_a_group(
    address: str, client: IggyClient, stream: str, topic: str
) -> None:
    everything = await fill(client, stream, topic, 300)
    ours: list[Place] = []
    theirs: list[Place] = []
    other = await logged_in(address)

    async def read_as_we_do() -> None:
        async for message in consumer:
            ours.append((message.partition_id, message.offset))
            await asyncio.sleep(0.001)

    async def read_as_they_do() -> None:
        official = await other.consumer_group(
            "g",
            stream,
            topic,
            batch_length=10,
            auto_commit=EACH,
            polling_retry_interval=SOON,
            poll_interval=timedelta(milliseconds=2),
        )
        async for message in official.iter_messages():
            theirs.append((message.partition_id(), message.offset()))  # noqa: PERF401 - others look

    async with (
        windsprite.connect(f"iggy://iggy:iggy@{address}") as mine,
        mine.consumer(
            stream,
            topic,
            group="g",
            batch_messages=10,
            commit=windsprite.Commit.after_handling(every=5),
        ) as consumer,
    ):
        we = asyncio.create_task(read_as_we_do())
        await until(lambda: len(ours) > 30)
        they = asyncio.create_task(read_as_they_do())
        await until(lambda: {*ours, *theirs} == everything)
        they.cancel()
        await asyncio.wait({they})
        consumer.stop()
        await we
    assert ours
    assert theirs
    assert max(Counter(ours).values()) == max(Counter(theirs).values()) == 1
    # Whoever joins gets a partition when what was polled of it is handled and stored.
    assert {*ours} & {*theirs} == set()


@covers("consumer_group", "IggyConsumer.iter_messages")
async def test_one_goes_on_where_the_other_has_stored(
    address: str, client: IggyClient, stream: str, topic: str
) -> None:
    everything = await fill(client, stream, topic, 20)
    found: list[Place] = []
    async with windsprite.connect(f"iggy://iggy:iggy@{address}") as mine:
        async with mine.consumer(stream, topic, group="g", batch_messages=5) as consumer:
            for _ in range(32):
                message = await consumer.get()
                found.append((message.partition_id, message.offset))
                consumer.handled(message)
        other = await logged_in(address)
        official = await other.consumer_group(
            "g", stream, topic, auto_commit=EACH, polling_strategy=PollingStrategy.Next()
        )
        async with asyncio.timeout(30):
            async for theirs in official.iter_messages():
                found.append((theirs.partition_id(), theirs.offset()))
                if len(found) == 60:
                    break
    assert sorted(found) == sorted(everything)
