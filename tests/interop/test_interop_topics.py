"""Topics with the official client (spec 03, 4.7 to 4.12 and 8)."""

import datetime as dt
import time

import pytest
from apache_iggy import IggyClient, IggyExpiry, MaxTopicSize, TopicDetails

from support.names import NAMES, TOO_LONG
from support.official_client import (
    SENTENCES,
    fails_with,
    figures,
    messages,
    offsets,
    poll,
    stored_size,
    told,
)
from support.wire_client import WireClient
from windsprite_protocol.model.topics import GetTopic

covers = pytest.mark.covers

DEFAULT_SEGMENT_SIZE = 1 << 30


def expiry_of(topic: TopicDetails) -> dt.timedelta | None:
    """The age at which messages go; `None` for never."""
    match topic.message_expiry:
        case IggyExpiry.ExpireDuration(duration):
            assert isinstance(duration, dt.timedelta)
            return duration
        case IggyExpiry.NeverExpire():
            return None
    pytest.fail(f"a topic that expires at {topic.message_expiry}")


def limit_of(topic: TopicDetails) -> int | None:
    """The size of a topic; `None` for no limit."""
    match topic.max_topic_size:
        case MaxTopicSize.Custom(size):
            assert isinstance(size, int)
            return size
        case MaxTopicSize.Unlimited():
            return None
    pytest.fail(f"a topic that holds {topic.max_topic_size}")


@covers("create_topic", "get_topic")
async def test_a_new_topic(client: IggyClient, stream: str) -> None:
    before = time.time_ns() // 1000
    await client.create_topic(stream, "new", 3)
    after = time.time_ns() // 1000
    topic = await client.get_topic(stream, "new")
    assert (topic.id, topic.name) == (0, "new")
    assert before <= topic.created_at <= after
    assert figures(topic) == (0, 0)
    assert topic.partitions_count == 3
    assert expiry_of(topic) is None
    assert limit_of(topic) is None
    assert topic.compression_algorithm == "none"
    assert [
        (
            partition.id,
            partition.created_at,
            partition.segments_count,
            partition.current_offset,
            *figures(partition),
        )
        for partition in topic.partitions
    ] == [(number, topic.created_at, 1, 0, 0, 0) for number in range(3)]


@covers("create_topic", "get_topic", "get_topics", "update_topic", "delete_topic")
async def test_streams_and_topics_by_number(client: IggyClient, stream: str) -> None:
    stream_id = (await client.get_stream(stream)).id
    await client.create_topic(stream_id, "a", 1)
    await client.create_topic(stream_id, "b", 1)
    assert (await client.get_topic(stream_id, 1)).name == "b"
    assert (await client.get_topic(stream, 0)).name == "a"
    await client.send_messages(stream_id, 1, 0, messages("x"))
    assert len(await poll(client, stream_id, 1)) == 1
    await client.update_topic(stream_id, 1, "c")
    await client.create_partitions(stream_id, 1, 1)
    await client.delete_partitions(stream_id, 1, 1)
    await client.purge_topic(stream_id, 1)
    await client.delete_topic(stream_id, 0)
    assert [topic.name for topic in await client.get_topics(stream_id)] == ["c"]


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@covers("create_topic", "get_topic", "update_topic", "delete_topic")
async def test_names_come_back_as_they_are(client: IggyClient, stream: str, name: str) -> None:
    assert await client.get_topic(stream, name) is None
    await client.create_topic(stream, name, 1)
    assert (await client.get_topic(stream, name)).name == name
    assert [topic.name for topic in await client.get_topics(stream)] == [name]
    with fails_with(2013):
        await client.create_topic(stream, name, 1)
    await client.update_topic(stream, name, "other")
    await client.update_topic(stream, "other", name)
    assert (await client.get_topic(stream, 0)).name == name
    await client.delete_topic(stream, name)
    assert await client.get_topic(stream, name) is None


@pytest.mark.parametrize("name", ["", *TOO_LONG.values()], ids=["empty", *TOO_LONG])
@covers("create_topic", "update_topic")
async def test_names_that_no_topic_can_have(
    client: IggyClient, stream: str, topic: str, name: str
) -> None:
    with pytest.raises(RuntimeError):
        await client.create_topic(stream, name, 1)
    with pytest.raises(RuntimeError):
        await client.update_topic(stream, topic, name)
    assert [entry.name for entry in await client.get_topics(stream)] == [topic]


@covers("get_topic")
async def test_a_name_of_digits_is_a_name(
    client: IggyClient, wire: WireClient, stream: str
) -> None:
    await client.create_topic(stream, "7", 1)
    assert await client.get_topic(stream, "7") is None  # the client asks for the number
    assert (await wire.call(GetTopic(stream, "7"))).topic.id == 0
    assert await wire.call(GetTopic(stream, 7)) is None


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
@covers("create_topic")
async def test_how_many_partitions_a_topic_can_begin_with(
    client: IggyClient, stream: str, count: int
) -> None:
    await client.create_topic(stream, "t", count)
    topic = await client.get_topic(stream, "t")
    assert topic.partitions_count == count
    assert [partition.id for partition in topic.partitions] == list(range(count))
    assert {partition.segments_count for partition in topic.partitions} <= {1}
    if count:
        sent = await client.send_messages(stream, "t", count - 1, messages("last"))
        assert sent.confirmations[0].partition_id == count - 1
    await client.delete_topic(stream, "t")


@pytest.mark.parametrize("count", [1001, 10_000, 2**32 - 1])
@covers("create_topic")
async def test_too_many_partitions(client: IggyClient, stream: str, count: int) -> None:
    with fails_with(2015):
        await client.create_topic(stream, "t", count)
    assert await client.get_topics(stream) == []


@covers("send_messages", "poll_messages")
async def test_a_topic_without_partitions_takes_nothing(client: IggyClient, stream: str) -> None:
    await client.create_topic(stream, "t", 0)
    with fails_with(20):
        await client.send_messages(stream, "t", 0, messages("a"))
    with fails_with(3007):
        await poll(client, stream, "t")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("gzip", "gzip"),
        ("Gzip", "gzip"),
        ("GZIP", "gzip"),
        ("none", "none"),
        ("None", "none"),
        (None, "none"),
    ],
)
@covers("create_topic", "update_topic")
async def test_compression(client: IggyClient, stream: str, given: str | None, told: str) -> None:
    await client.create_topic(stream, "t", 1, compression_algorithm=given)
    assert (await client.get_topic(stream, "t")).compression_algorithm == told
    await client.create_topic(stream, "u", 1, compression_algorithm="gzip")
    await client.update_topic(stream, "u", "u", compression_algorithm=given)
    expected = told if given else "gzip"
    assert (await client.get_topic(stream, "u")).compression_algorithm == expected


@covers("create_topic")
async def test_a_compression_that_nobody_knows(client: IggyClient, stream: str) -> None:
    with pytest.raises(RuntimeError, match="Unknown compression type"):
        await client.create_topic(stream, "t", 1, compression_algorithm="lz4")


@pytest.mark.parametrize(
    "age",
    [
        dt.timedelta(microseconds=1),
        dt.timedelta(seconds=1),
        dt.timedelta(minutes=10),
        dt.timedelta(days=3, seconds=7, microseconds=11),
        dt.timedelta(days=30_000),
    ],
    ids=str,
)
@covers("create_topic", "update_topic")
async def test_message_expiry(client: IggyClient, stream: str, age: dt.timedelta) -> None:
    await client.create_topic(stream, "t", 1, message_expiry=IggyExpiry.ExpireDuration(age))
    assert expiry_of(await client.get_topic(stream, "t")) == age
    await client.create_topic(stream, "u", 1)
    await client.update_topic(stream, "u", "u", message_expiry=IggyExpiry.ExpireDuration(age))
    assert expiry_of(await client.get_topic(stream, "u")) == age
    assert [expiry_of(topic) for topic in await client.get_topics(stream)] == [age, age]
    await client.update_topic(stream, "u", "u", message_expiry=IggyExpiry.NeverExpire())
    assert expiry_of(await client.get_topic(stream, "u")) is None


@pytest.mark.parametrize(
    "never", [None, IggyExpiry.ServerDefault(), IggyExpiry.NeverExpire()], ids=told
)
@covers("create_topic")
async def test_messages_that_never_expire(
    client: IggyClient, stream: str, never: IggyExpiry | None
) -> None:
    await client.create_topic(stream, "t", 1, message_expiry=never)
    assert expiry_of(await client.get_topic(stream, "t")) is None


@pytest.mark.parametrize("size", [DEFAULT_SEGMENT_SIZE, 2_000_000_000, 2**64 - 2])
@covers("create_topic", "update_topic")
async def test_max_topic_size(client: IggyClient, stream: str, size: int) -> None:
    await client.create_topic(stream, "t", 1, max_topic_size=MaxTopicSize.Custom(size))
    assert limit_of(await client.get_topic(stream, "t")) == size
    await client.create_topic(stream, "u", 1)
    await client.update_topic(stream, "u", "u", max_topic_size=MaxTopicSize.Custom(size))
    assert limit_of(await client.get_topic(stream, "u")) == size
    assert [limit_of(topic) for topic in await client.get_topics(stream)] == [size, size]
    await client.update_topic(stream, "u", "u", max_topic_size=MaxTopicSize.Unlimited())
    assert limit_of(await client.get_topic(stream, "u")) is None


@pytest.mark.parametrize(
    "unlimited", [None, MaxTopicSize.ServerDefault(), MaxTopicSize.Unlimited()], ids=told
)
@covers("create_topic")
async def test_a_topic_without_limit(
    client: IggyClient, stream: str, unlimited: MaxTopicSize | None
) -> None:
    await client.create_topic(stream, "t", 1, max_topic_size=unlimited)
    assert limit_of(await client.get_topic(stream, "t")) is None


@covers("create_topic", "update_topic")
async def test_a_limit_below_the_size_of_a_segment(client: IggyClient, stream: str) -> None:
    small = MaxTopicSize.Custom(4563)
    too_small = "Max topic size cannot be lower than segment size"
    with pytest.raises(RuntimeError, match=too_small):
        await client.create_topic(stream, "t", 1, max_topic_size=small)
    with pytest.raises(RuntimeError, match=too_small):
        await client.create_topic("no such stream", "t", 1, max_topic_size=small)
    assert await client.get_topics(stream) == []
    mebibyte = MaxTopicSize.Custom(1 << 20)
    await client.create_topic(stream, "t", 1, segment_size=1 << 20, max_topic_size=mebibyte)
    with pytest.raises(RuntimeError, match=too_small):
        await client.update_topic(stream, "t", "new", max_topic_size=small)
    topic = await client.get_topic(stream, "t")
    assert limit_of(topic) == 1 << 20
    await client.update_topic(stream, "t", "t", max_topic_size=MaxTopicSize.Custom((1 << 20) + 1))
    assert limit_of(await client.get_topic(stream, "t")) == (1 << 20) + 1
    with pytest.raises(RuntimeError, match=too_small):  # as if its segments had 1 GiB
        await client.update_topic(stream, "no such topic", "n", max_topic_size=mebibyte)


@covers("create_topic")
async def test_a_topic_in_a_missing_stream(client: IggyClient) -> None:
    with fails_with(1009):
        await client.create_topic("no such stream", "t", 1)
    with fails_with(1009):
        await client.create_topic(999_999, "t", 1)


@covers("create_topic")
async def test_a_name_that_is_taken(client: IggyClient, stream: str, topic: str) -> None:
    with fails_with(2013):
        await client.create_topic(stream, topic, 1)
    assert "already exists" in SENTENCES[2013]
    assert (await client.get_topic(stream, topic)).partitions_count == 3


@covers("create_topic", "delete_topic")
async def test_one_name_in_two_streams(client: IggyClient, stream: str) -> None:
    other = f"{stream} other"
    await client.create_stream(other)
    for name in (stream, other):
        await client.create_topic(name, "same", 1)
    await client.send_messages(stream, "same", 0, messages("a", "b"))
    await client.send_messages(other, "same", 0, messages("c"))
    assert len(await poll(client, stream, "same")) == 2
    assert len(await poll(client, other, "same")) == 1
    await client.delete_topic(stream, "same")
    assert (await client.get_topic(other, "same")).messages_count == 1


@covers("get_topic", "get_topics")
async def test_what_is_missing(client: IggyClient, stream: str, topic: str) -> None:
    for missing in ("no such topic", 999_999, 2**32 - 1):
        assert await client.get_topic(stream, missing) is None
        assert await client.get_topic(missing, topic) is None
        assert await client.get_topics(missing) == []
        with fails_with(2010):
            await client.update_topic(stream, missing, "new")
        with fails_with(1009):
            await client.update_topic(missing, topic, "new")
        with fails_with(2010):
            await client.delete_topic(stream, missing)
        with fails_with(1009):
            await client.delete_topic(missing, topic)
        with fails_with(2010):
            await client.purge_topic(stream, missing)
        with fails_with(1009):
            await client.purge_topic(missing, topic)


@covers("get_topics")
async def test_the_list_says_what_the_details_say(client: IggyClient, stream: str) -> None:
    names = [f"topic {number}" for number in range(12, 0, -1)]
    for number, name in enumerate(names):
        await client.create_topic(
            stream, name, number, message_expiry=IggyExpiry.ExpireDuration(dt.timedelta(hours=1))
        )
        if number:
            await client.send_messages(stream, name, number - 1, messages("x" * number))
    listed = await client.get_topics(stream)
    assert [topic.name for topic in listed] == names
    assert [topic.id for topic in listed] == list(range(12))
    assert [topic.name for topic in await client.get_topics(stream)] == names
    assert [topic.name for topic in (await client.get_stream(stream)).topics] == names
    for topic in listed:
        details = await client.get_topic(stream, topic.id)
        assert figures(topic) == figures(details)
        assert topic.created_at == details.created_at
        assert topic.partitions_count == details.partitions_count == topic.id
        assert expiry_of(topic) == expiry_of(details) == dt.timedelta(hours=1)
        assert topic.options == details.options
        assert topic.derived_options == details.derived_options


@covers("update_topic")
async def test_an_update_changes_what_it_names(client: IggyClient, stream: str) -> None:
    hour = dt.timedelta(hours=1)
    await client.create_topic(
        stream,
        "t",
        2,
        compression_algorithm="gzip",
        message_expiry=IggyExpiry.ExpireDuration(hour),
        max_topic_size=MaxTopicSize.Custom(3_000_000_000),
    )
    await client.send_messages(stream, "t", 1, messages("a"))
    before = await client.get_topic(stream, "t")
    await client.update_topic(stream, "t", "renamed")
    assert await client.get_topic(stream, "t") is None
    after = await client.get_topic(stream, "renamed")
    assert (after.id, after.created_at) == (before.id, before.created_at)
    assert figures(after) == figures(before) == (1, stored_size([1]))
    assert after.partitions_count == 2
    assert after.compression_algorithm == "gzip"
    assert expiry_of(after) == hour
    assert limit_of(after) == 3_000_000_000
    assert after.options == before.options
    assert after.derived_options == before.derived_options
    await client.update_topic(stream, "renamed", "renamed", compression_algorithm="none")
    after = await client.get_topic(stream, "renamed")
    assert after.compression_algorithm == "none"
    assert expiry_of(after) == hour
    assert limit_of(after) == 3_000_000_000
    assert offsets(await poll(client, stream, "renamed", partition=1)) == [0]


@covers("update_topic")
async def test_an_update_to_the_default_of_the_server_changes_nothing(
    client: IggyClient, stream: str
) -> None:
    hour = dt.timedelta(hours=1)
    await client.create_topic(
        stream,
        "t",
        1,
        message_expiry=IggyExpiry.ExpireDuration(hour),
        max_topic_size=MaxTopicSize.Custom(2_000_000_000),
    )
    await client.update_topic(
        stream,
        "t",
        "t",
        message_expiry=IggyExpiry.ServerDefault(),
        max_topic_size=MaxTopicSize.ServerDefault(),
    )
    topic = await client.get_topic(stream, "t")
    assert expiry_of(topic) == hour
    assert limit_of(topic) == 2_000_000_000


@covers("update_topic")
async def test_a_refused_update_changes_nothing(
    client: IggyClient, stream: str, topic: str
) -> None:
    await client.create_topic(stream, "taken", 1)
    with fails_with(2013):
        await client.update_topic(stream, topic, "taken", compression_algorithm="gzip")
    details = await client.get_topic(stream, topic)
    assert (details.name, details.compression_algorithm) == (topic, "none")
    await client.update_topic(stream, topic, topic)
    await client.update_topic(stream, topic, topic)


@covers("delete_topic")
async def test_deleting(client: IggyClient, stream: str, topic: str) -> None:
    await client.create_topic(stream, "other", 1)
    await client.send_messages(stream, topic, 2, messages("aaa"))
    await client.send_messages(stream, "other", 0, messages("b"))
    await client.delete_topic(stream, topic)
    assert await client.get_topic(stream, topic) is None
    assert [entry.name for entry in await client.get_topics(stream)] == ["other"]
    details = await client.get_stream(stream)
    assert details.topics_count == 1
    assert figures(details) == (1, stored_size([1]))
    with fails_with(2010):
        await client.delete_topic(stream, topic)
    with fails_with(2010):
        await client.delete_topic(stream, 0)
    with fails_with(2010):
        await poll(client, stream, topic)
    assert offsets(await poll(client, stream, "other")) == [0]


@covers("create_topic", "delete_topic")
async def test_the_lowest_free_id_is_next(client: IggyClient, stream: str) -> None:
    for name in ("zero", "one", "two"):
        await client.create_topic(stream, name, 1)
    await client.send_messages(stream, "one", 0, messages("old"))
    await poll(client, stream, "one", consumer="me", commit=True)
    await client.delete_topic(stream, 1)
    await client.create_topic(stream, "new one", 1)
    await client.create_topic(stream, "three", 1)
    listed = await client.get_topics(stream)
    assert [(topic.id, topic.name) for topic in listed] == [
        (0, "zero"),
        (1, "new one"),
        (2, "two"),
        (3, "three"),
    ]
    assert figures(listed[1]) == (0, 0)
    assert await poll(client, stream, 1) == []
    sent = await client.send_messages(stream, 1, 0, messages("new"))
    assert sent.confirmations[0].base_offset == 0


@covers("purge_topic")
async def test_purging(client: IggyClient, stream: str, topic: str) -> None:
    await client.create_topic(stream, "other", 1)
    await client.send_messages(stream, "other", 0, messages("stays"))
    for payload in ("a", "bb", "ccc", "dddd", "eeeee"):
        await client.send_messages(stream, topic, 1, messages(payload))
    await poll(client, stream, topic, partition=1, consumer="me", commit=True)
    before = await client.get_topic(stream, topic)
    purged = stored_size([1], [2], [3], [4], [5])
    assert figures(before) == (5, purged)
    assert figures(await client.get_stream(stream)) == (6, purged + stored_size([5]))
    for _ in range(2):
        await client.purge_topic(stream, topic)
        after = await client.get_topic(stream, topic)
        assert figures(after) == (0, 0)
        assert (after.id, after.name, after.created_at) == (before.id, topic, before.created_at)
        assert (after.partitions_count, after.compression_algorithm) == (3, "none")
        assert (expiry_of(after), limit_of(after)) == (None, None)
        assert [
            (
                partition.id,
                partition.created_at,
                partition.segments_count,
                partition.current_offset,
                *figures(partition),
            )
            for partition in after.partitions
        ] == [(number, before.created_at, 1, 0, 0, 0) for number in range(3)]
        assert figures(await client.get_stream(stream)) == (1, stored_size([5]))
    assert await poll(client, stream, topic, partition=1) == []
    sent = await client.send_messages(stream, topic, 1, messages("first again"))
    assert sent.confirmations[0].base_offset == 0
    again = await poll(client, stream, topic, partition=1, consumer="me")
    assert offsets(again) == [0]
    assert figures(await client.get_topic(stream, topic)) == (1, stored_size([11]))


@covers("purge_topic")
async def test_purging_a_topic_without_partitions(client: IggyClient, stream: str) -> None:
    await client.create_topic(stream, "t", 0)
    await client.purge_topic(stream, "t")
    assert figures(await client.get_topic(stream, "t")) == (0, 0)
