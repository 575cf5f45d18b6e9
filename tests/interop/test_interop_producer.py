"""The producer of the official client (spec 07, 9 and 11.2)."""

import asyncio
import datetime as dt
from collections.abc import AsyncIterator

import pytest
from apache_iggy import (
    BackgroundProducerConfig,
    BackpressureMode,
    DirectProducerConfig,
    IggyClient,
    IggyExpiry,
    MaxTopicSize,
    Partitioning,
    ProducerSendError,
    ProducerSharding,
    SendMessage,
    SendMessagesResponse,
)

from support.official_client import figures, messages, offsets, payloads, poll, stored_size

covers = pytest.mark.covers

MESSAGES = 10_000


def numbered(count: int, first: int = 0) -> list[SendMessage]:
    return messages(*(f"{number}" for number in range(first, first + count)))


def placed(response: SendMessagesResponse) -> list[tuple[int, int]]:
    """Partitions and offsets of what was confirmed."""
    return [(item.partition_id, item.base_offset) for item in response.confirmations]


@pytest.fixture
async def target(client: IggyClient, stream: str) -> AsyncIterator[str]:
    """A stream with a topic `t` of three partitions."""
    await client.create_topic(stream, "t", 3)
    yield stream
    await client.delete_stream(stream)


@covers("producer", "IggyProducer.send")
async def test_stream_and_topic_are_made(client: IggyClient) -> None:
    day = dt.timedelta(days=1)
    producer = await client.producer(
        "made by a producer",
        "t",
        topic_partitions_count=4,
        topic_message_expiry=IggyExpiry.ExpireDuration(day),
        topic_max_size=MaxTopicSize.Custom(2_000_000_000),
    )
    topic = await client.get_topic("made by a producer", "t")
    assert topic.partitions_count == 4
    assert topic.message_expiry.duration == day
    assert topic.max_topic_size.bytes == 2_000_000_000
    assert placed(await producer.send(numbered(3))) == [(0, 0)]
    again = await client.producer("made by a producer", "t", topic_partitions_count=9)
    assert (await client.get_topic("made by a producer", "t")).partitions_count == 4
    await producer.shutdown()
    await again.shutdown()
    await client.delete_stream("made by a producer")


@covers("producer")
async def test_stream_and_topic_are_not_made(client: IggyClient, stream: str) -> None:
    with pytest.raises(RuntimeError, match="Stream with name: nothing was not found"):
        await client.producer("nothing", "t", create_stream_if_not_exists=False)
    with pytest.raises(RuntimeError, match="Topic with name: t for stream with ID"):
        await client.producer(stream, "t", create_topic_if_not_exists=False)
    assert await client.get_stream("nothing") is None
    assert await client.get_topics(stream) == []


@pytest.mark.parametrize("batch_length", [1000, 333, 0])
@covers("IggyProducer.send")
async def test_ten_thousand_messages_directly(
    client: IggyClient, target: str, batch_length: int
) -> None:
    producer = await client.producer(
        target,
        "t",
        partitioning=Partitioning.partition_id(1),
        mode=DirectProducerConfig(batch_length=batch_length),
    )
    response = await producer.send(numbered(MESSAGES))
    step = batch_length or MESSAGES
    assert placed(response) == [(1, first) for first in range(0, MESSAGES, step)]
    await producer.shutdown()
    assert (await client.get_topic(target, "t")).messages_count == MESSAGES
    polled = await poll(client, target, "t", count=2 * MESSAGES, partition=1)
    assert payloads(polled) == [f"{number}".encode() for number in range(MESSAGES)]
    assert offsets(polled) == list(range(MESSAGES))


@pytest.mark.parametrize("sharding", [ProducerSharding.ORDERED, ProducerSharding.BALANCED])
@covers("IggyProducer.send", "IggyProducer.shutdown")
async def test_ten_thousand_messages_in_the_background(
    client: IggyClient, target: str, sharding: ProducerSharding
) -> None:
    producer = await client.producer(
        target,
        "t",
        partitioning=Partitioning.partition_id(2),
        mode=BackgroundProducerConfig(
            num_shards=3,
            batch_length=7,
            linger_time=dt.timedelta(milliseconds=5),
            failure_mode=BackpressureMode.block(),
            sharding=sharding,
        ),
    )
    for first in range(0, MESSAGES, 100):
        assert placed(await producer.send(numbered(100, first))) == []
    await producer.shutdown()
    assert (await client.get_topic(target, "t")).messages_count == MESSAGES
    polled = payloads(await poll(client, target, "t", count=2 * MESSAGES, partition=2))
    expected = [f"{number}".encode() for number in range(MESSAGES)]
    assert (polled if sharding == ProducerSharding.ORDERED else sorted(polled, key=int)) == expected


@covers("IggyProducer.send")
async def test_a_background_producer_sends_by_itself(client: IggyClient, target: str) -> None:
    producer = await client.producer(target, "t", mode=BackgroundProducerConfig())
    await producer.send(messages("a", "b"))
    async with asyncio.timeout(10):
        while (await client.get_topic(target, "t")).messages_count < 2:
            await asyncio.sleep(0.01)
    await producer.shutdown()


@covers("IggyProducer.send", "IggyProducer.send_one")
async def test_balanced_by_default(client: IggyClient, target: str) -> None:
    async with await client.producer(
        target, "t", mode=DirectProducerConfig(batch_length=2)
    ) as producer:
        assert placed(await producer.send(numbered(7))) == [(0, 0), (1, 0), (2, 0), (0, 2)]
        assert placed(await producer.send_one(SendMessage("one"))) == [(1, 2)]
        assert placed(await producer.send([])) == []


@covers("IggyProducer.send_with_partitioning", "IggyProducer.send_one")
async def test_a_partitioning_of_the_call_comes_first(client: IggyClient, target: str) -> None:
    key = Partitioning.messages_key("a")  # partition 0 of 3
    async with await client.producer(target, "t", partitioning=key) as producer:
        assert placed(await producer.send_one(SendMessage("x"))) == [(0, 0)]
        second = Partitioning.partition_id(2)
        assert placed(await producer.send_with_partitioning(messages("y"), second)) == [(2, 0)]
        assert placed(await producer.send_with_partitioning(messages("z"))) == [(0, 1)]
    details = await client.get_topic(target, "t")
    assert figures(details) == (3, 3 * stored_size([1]))


@covers("IggyProducer.send_to")
async def test_sending_elsewhere(client: IggyClient, target: str) -> None:
    await client.create_topic(target, "other", 2)
    async with await client.producer(target, "t") as producer:
        first = Partitioning.partition_id(1)
        sent = await producer.send_to(target, "other", messages("a", "b"), first)
        assert placed(sent) == [(1, 0)]
        assert sent.confirmations[0].topic_id == 1
    assert (await client.get_topic(target, "t")).messages_count == 0
    assert payloads(await poll(client, target, "other", partition=1)) == [b"a", b"b"]


@covers("IggyProducer.send_to", "IggyProducer.send_with_partitioning")
async def test_a_failed_send_tells_what_was_sent(client: IggyClient, target: str) -> None:
    async with await client.producer(target, "t", send_retries=0) as producer:
        lost = messages("lost")
        with pytest.raises(ProducerSendError) as failure:
            await producer.send_with_partitioning(lost, Partitioning.partition_id(3))
        assert failure.value.cause == "Resource with key:  was not found."
        assert len(failure.value.failed) == 1
        assert failure.value.committed == []
        with pytest.raises(ProducerSendError):
            await producer.send_to("nothing", "t", messages("lost"))
        assert placed(await producer.send_with_partitioning(messages("x"))) == [(0, 0)]
    assert (await client.get_topic(target, "t")).messages_count == 1


@covers("IggyProducer.shutdown")
async def test_nothing_is_sent_after_the_end(client: IggyClient, target: str) -> None:
    for mode in (None, BackgroundProducerConfig()):
        producer = await client.producer(target, "t", mode=mode)
        await producer.send_one(SendMessage("x"))
        await producer.shutdown()
        await producer.shutdown()
        with pytest.raises(RuntimeError, match="producer has been shut down"):
            await producer.send(messages("y"))
    assert (await client.get_topic(target, "t")).messages_count == 2


@covers("IggyProducer.send")
async def test_producers_at_once(client: IggyClient, target: str) -> None:
    async def produce(partition: int) -> None:
        where = Partitioning.partition_id(partition)
        async with await client.producer(target, "t", partitioning=where) as producer:
            for first in range(0, 1000, 100):
                await producer.send(numbered(100, first))

    await asyncio.gather(*(produce(partition) for partition in range(3)))
    for partition in range(3):
        polled = await poll(client, target, "t", count=2000, partition=partition)
        assert payloads(polled) == [f"{number}".encode() for number in range(1000)]
