"""Segments that go: on request, by age and by size, with the official client (spec 03, 6)."""

import asyncio
import datetime as dt
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache_iggy import IggyClient, IggyExpiry, MaxTopicSize, PollingStrategy

from support.official_client import (
    fails_with,
    figures,
    logged_in,
    messages,
    offsets,
    poll,
    stored_size,
)
from support.server_process import server_process

covers = pytest.mark.covers

MIB = 1 << 20
# A segment of 1 MiB takes three batches of this kind: a batch stays whole in the segment it fills.
BATCH = (200_000, 200_000)
BATCHES_IN_SEGMENT = 3
MESSAGES_IN_SEGMENT = 6
SEGMENT_SIZE = BATCHES_IN_SEGMENT * stored_size(BATCH)


def body(stream: str, topic: str | int, partition: int, count: int) -> bytes:
    """What asks for the deletion of segments (spec 03, 4.15)."""
    name = b"\x02" + bytes([len(stream)]) + stream.encode()
    if isinstance(topic, int):
        name += b"\x01\x04" + struct.pack("<I", topic)
    else:
        name += b"\x02" + bytes([len(topic)]) + topic.encode()
    return name + struct.pack("<II", partition, count)


async def delete_segments(client: IggyClient, stream: str, count: int) -> None:
    assert await client.send_binary_request(503, body(stream, "t", 0, count)) == b""


async def fill(client: IggyClient, stream: str, batches: int) -> None:
    for _ in range(batches):
        await client.send_messages(stream, "t", 0, messages(*("x" * size for size in BATCH)))


async def segments(client: IggyClient, stream: str) -> int:
    (partition,) = (await client.get_topic(stream, "t")).partitions
    return int(partition.segments_count)


async def becomes(client: IggyClient, stream: str, count: int) -> None:
    """Wait until the partition has so many segments."""
    async with asyncio.timeout(10):
        while await segments(client, stream) != count:
            await asyncio.sleep(0.02)


@pytest.fixture
async def filled(client: IggyClient, stream: str) -> str:
    """A stream with a topic `t` whose partition has three full segments and a batch in the last."""
    await client.create_topic(stream, "t", 1, segment_size=MIB)
    await fill(client, stream, 3 * BATCHES_IN_SEGMENT + 1)
    assert await segments(client, stream) == 4
    return stream


@covers("503 by send_binary_request")
async def test_deleting_the_oldest_segments(client: IggyClient, filled: str) -> None:
    total = 3 * MESSAGES_IN_SEGMENT + 2
    await delete_segments(client, filled, 1)
    await becomes(client, filled, 3)
    topic = await client.get_topic(filled, "t")
    left = (total - MESSAGES_IN_SEGMENT, 2 * SEGMENT_SIZE + stored_size(BATCH))
    assert figures(topic) == figures(topic.partitions[0]) == left
    assert figures(await client.get_stream(filled)) == left
    assert topic.partitions[0].current_offset == total - 1
    for start in (PollingStrategy.First(), PollingStrategy.Offset(0), PollingStrategy.Next()):
        polled = await poll(client, filled, "t", start)
        assert offsets(polled) == list(range(MESSAGES_IN_SEGMENT, total))
    sent = await client.send_messages(filled, "t", 0, messages("new"))
    assert sent.confirmations[0].base_offset == total


@pytest.mark.parametrize("count", [3, 4, 2**32 - 1])
@covers("503 by send_binary_request")
async def test_the_last_segment_stays(client: IggyClient, filled: str, count: int) -> None:
    await delete_segments(client, filled, count)
    await becomes(client, filled, 1)
    assert figures(await client.get_topic(filled, "t")) == (2, stored_size(BATCH))
    await delete_segments(client, filled, count)
    assert await segments(client, filled) == 1
    assert len(await poll(client, filled, "t")) == 2


@covers("503 by send_binary_request")
async def test_deleting_nothing(client: IggyClient, filled: str) -> None:
    await delete_segments(client, filled, 0)
    await asyncio.sleep(0.1)
    assert await segments(client, filled) == 4


@covers("503 by send_binary_request")
async def test_a_stored_offset_holds_segments_back(client: IggyClient, filled: str) -> None:
    first_of_second = MESSAGES_IN_SEGMENT
    await poll(client, filled, "t", PollingStrategy.Offset(first_of_second), 1, commit=True)
    await delete_segments(client, filled, 3)
    await becomes(client, filled, 3)
    await asyncio.sleep(0.1)
    assert await segments(client, filled) == 3
    # What was asked for stays in force.
    await poll(client, filled, "t", PollingStrategy.Last(), 1, commit=True)
    await becomes(client, filled, 1)


@covers("503 by send_binary_request")
async def test_what_is_missing(client: IggyClient, filled: str) -> None:
    with fails_with(1009):
        await client.send_binary_request(503, body("missing", "t", 0, 1))
    for topic in ("missing", 999_999):
        with fails_with(2010):
            await client.send_binary_request(503, body(filled, topic, 0, 1))
    with fails_with(3007):
        await client.send_binary_request(503, body(filled, "t", 1, 1))
    with fails_with(3):
        await client.send_binary_request(503, body(filled, "t", 1, 1)[:-1])
    assert await segments(client, filled) == 4


@pytest.fixture(scope="module")
def tidy_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a server listens that looks for old segments all the time, with small frames."""
    settings = {
        "WINDSPRITE_RETENTION__INTERVAL": "50ms",
        "WINDSPRITE_LIMITS__MAX_FRAME_SIZE": "1 MiB",
    }
    folder: Path = tmp_path_factory.mktemp("tidy")
    with server_process(folder, environment=settings) as server:
        yield server.wait_ready()["tcp"]


@covers("create_topic", "update_topic")
async def test_messages_that_expire(tidy_address: str) -> None:
    client = await logged_in(tidy_address)
    await client.create_stream("by age")
    await client.create_topic("by age", "t", 1, segment_size=MIB)
    await fill(client, "by age", 2 * BATCHES_IN_SEGMENT + 1)
    await asyncio.sleep(0.2)
    assert await segments(client, "by age") == 3
    age = IggyExpiry.ExpireDuration(dt.timedelta(milliseconds=100))
    await client.update_topic("by age", "t", "t", message_expiry=age)
    await becomes(client, "by age", 1)
    # The last segment stays, however old it is.
    assert figures(await client.get_topic("by age", "t")) == (2, stored_size(BATCH))
    assert len(await poll(client, "by age", "t")) == 2


@covers("create_topic")
async def test_a_topic_that_is_too_large(tidy_address: str) -> None:
    client = await logged_in(tidy_address)
    await client.create_stream("by size")
    smallest = MaxTopicSize.Custom(MIB)
    await client.create_topic("by size", "t", 1, segment_size=MIB, max_topic_size=smallest)
    await fill(client, "by size", 5 * BATCHES_IN_SEGMENT)
    # Kept are as many full segments as fit one segment and the largest frame, and the last one.
    await becomes(client, "by size", 2 * MIB // SEGMENT_SIZE + 1)
    (first, *_) = await poll(client, "by size", "t")
    assert first.offset() == 4 * MESSAGES_IN_SEGMENT
