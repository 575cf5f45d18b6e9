"""Adding and removing partitions with the official client (spec 03, 4.13 and 4.14)."""

import pytest
from apache_iggy import IggyClient, Partitioning, TopicDetails

from support.official_client import fails_with, figures, messages, offsets, poll, stored_size

covers = pytest.mark.covers


def ids(topic: TopicDetails) -> list[int]:
    return [partition.id for partition in topic.partitions]


@covers("create_partitions")
async def test_new_partitions_come_after_the_others(
    client: IggyClient, stream: str, topic: str
) -> None:
    await client.send_messages(stream, topic, 0, messages("a", "b"))
    before = await client.get_topic(stream, topic)
    await client.create_partitions(stream, topic, 2)
    after = await client.get_topic(stream, topic)
    assert after.partitions_count == 5
    assert ids(after) == [0, 1, 2, 3, 4]
    assert (after.id, after.created_at) == (before.id, before.created_at)
    assert figures(after) == (2, stored_size([1, 1]))
    for partition in after.partitions[3:]:
        assert partition.created_at > before.created_at
        assert (partition.segments_count, partition.current_offset) == (1, 0)
        assert figures(partition) == (0, 0)
    sent = await client.send_messages(stream, topic, 4, messages("new"))
    assert sent.confirmations[0].partition_id == 4
    assert sent.confirmations[0].base_offset == 0
    assert offsets(await poll(client, stream, topic, partition=4)) == [0]
    assert await poll(client, stream, topic, partition=3) == []


@covers("create_partitions")
async def test_the_first_partitions_of_a_topic(client: IggyClient, stream: str) -> None:
    await client.create_topic(stream, "t", 0)
    await client.create_partitions(stream, "t", 1)
    await client.create_partitions(stream, "t", 2)
    assert ids(await client.get_topic(stream, "t")) == [0, 1, 2]
    await client.send_messages(stream, "t", Partitioning.balanced(), messages("a"))


@covers("delete_partitions")
async def test_the_last_partitions_go(client: IggyClient, stream: str) -> None:
    await client.create_topic(stream, "t", 4)
    for partition in range(4):
        await client.send_messages(stream, "t", partition, messages("x" * (partition + 1)))
    await client.delete_partitions(stream, "t", 2)
    topic = await client.get_topic(stream, "t")
    assert topic.partitions_count == 2
    assert ids(topic) == [0, 1]
    assert figures(topic) == (2, stored_size([1], [2]))
    assert figures(await client.get_stream(stream)) == figures(topic)
    with fails_with(3007):
        await poll(client, stream, "t", partition=2)
    with fails_with(20):
        await client.send_messages(stream, "t", 3, messages("a"))
    assert offsets(await poll(client, stream, "t", partition=1)) == [0]


@covers("create_partitions", "delete_partitions")
async def test_a_partition_made_again_is_a_new_one(client: IggyClient, stream: str) -> None:
    await client.create_topic(stream, "t", 2)
    await client.send_messages(stream, "t", 1, messages("old", "older"))
    await poll(client, stream, "t", partition=1, consumer="me", commit=True)
    old = (await client.get_topic(stream, "t")).partitions[1]
    await client.delete_partitions(stream, "t", 1)
    await client.create_partitions(stream, "t", 1)
    new = (await client.get_topic(stream, "t")).partitions[1]
    assert new.id == old.id == 1
    assert new.created_at > old.created_at
    assert (new.segments_count, new.current_offset, *figures(new)) == (1, 0, 0, 0)
    assert await poll(client, stream, "t", partition=1) == []
    sent = await client.send_messages(stream, "t", 1, messages("new"))
    assert sent.confirmations[0].base_offset == 0
    assert offsets(await poll(client, stream, "t", partition=1, consumer="me")) == [0]


@covers("delete_partitions")
async def test_all_partitions_may_go(client: IggyClient, stream: str, topic: str) -> None:
    await client.send_messages(stream, topic, 0, messages("a"))
    await client.delete_partitions(stream, topic, 3)
    details = await client.get_topic(stream, topic)
    assert (details.partitions_count, details.partitions) == (0, [])
    assert figures(details) == (0, 0)
    with fails_with(2019):
        await client.delete_partitions(stream, topic, 1)
    await client.create_partitions(stream, topic, 1)
    assert ids(await client.get_topic(stream, topic)) == [0]


@covers("delete_partitions")
async def test_no_more_than_there_are(client: IggyClient, stream: str, topic: str) -> None:
    for count in (4, 1000):
        with fails_with(2019):
            await client.delete_partitions(stream, topic, count)
    assert ids(await client.get_topic(stream, topic)) == [0, 1, 2]


@pytest.mark.parametrize("count", [0, 1001, 2**32 - 1])
@covers("create_partitions", "delete_partitions")
async def test_how_many_at_once(client: IggyClient, stream: str, topic: str, count: int) -> None:
    for target in (stream, "no such stream"):
        with fails_with(2015):
            await client.create_partitions(target, topic, count)
        with fails_with(2015):
            await client.delete_partitions(target, topic, count)
    assert ids(await client.get_topic(stream, topic)) == [0, 1, 2]


@covers("create_partitions", "delete_partitions")
async def test_a_thousand_at_once(client: IggyClient, stream: str, topic: str) -> None:
    await client.create_partitions(stream, topic, 1000)
    assert (await client.get_topic(stream, topic)).partitions_count == 1003
    await client.send_messages(stream, topic, 1002, messages("a"))
    await client.delete_partitions(stream, topic, 1000)
    assert ids(await client.get_topic(stream, topic)) == [0, 1, 2]


@covers("create_partitions", "delete_partitions")
async def test_what_is_missing(client: IggyClient, stream: str, topic: str) -> None:
    for missing in ("missing", 999_999):
        with fails_with(1009):
            await client.create_partitions(missing, topic, 1)
        with fails_with(1009):
            await client.delete_partitions(missing, topic, 1)
        with fails_with(2010):
            await client.create_partitions(stream, missing, 1)
        with fails_with(2010):
            await client.delete_partitions(stream, missing, 1)
