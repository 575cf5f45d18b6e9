"""The official client and our own on one server: each understands what the other did."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import xxhash
from apache_iggy import (
    HeaderKey,
    HeaderValue,
    IggyClient,
    Partitioning,
    PollingStrategy,
    SendMessage,
)

import windsprite
from support.official_client import figures, messages, offsets, payloads, poll, stored_size
from windsprite import ConsumerOffset, From, Message, TypedValue, ValueKind

pytestmark = pytest.mark.covers("both clients")

# Each kind as the official client and as ours call it, with a value.
KINDS: list[tuple[str, ValueKind, Any]] = [
    ("Raw", ValueKind.RAW, b"\x00\xff"),
    ("String", ValueKind.STRING, "ключ"),
    ("Bool", ValueKind.BOOL, True),
    ("Int8", ValueKind.INT8, -128),
    ("Int16", ValueKind.INT16, -129),
    ("Int32", ValueKind.INT32, -(2**31)),
    ("Int64", ValueKind.INT64, -(2**63)),
    ("Int128", ValueKind.INT128, -(2**127)),
    ("UnsignedInt8", ValueKind.UINT8, 255),
    ("UnsignedInt16", ValueKind.UINT16, 256),
    ("UnsignedInt32", ValueKind.UINT32, 2**32 - 1),
    ("UnsignedInt64", ValueKind.UINT64, 2**64 - 1),
    ("UnsignedInt128", ValueKind.UINT128, 2**128 - 1),
    ("Float32", ValueKind.FLOAT32, 0.5),
    ("Float64", ValueKind.FLOAT64, 0.1),
]
THEIRS = {
    getattr(HeaderKey, kind)(value): getattr(HeaderValue, kind)(value) for kind, _, value in KINDS
}
OURS = {TypedValue.of(value, kind): TypedValue.of(value, kind) for _, kind, value in KINDS}
KEYS = ["user-42", "order-1", "a", "confirmation-key", "ключ", "x" * 255]


@pytest.fixture
async def ours(address: str) -> AsyncIterator[windsprite.Client]:
    async with windsprite.connect(f"iggy://iggy:iggy@{address}") as client:
        yield client


async def test_messages_of_the_official_client(
    client: IggyClient, ours: windsprite.Client, stream: str, topic: str
) -> None:
    batch = [SendMessage("text", THEIRS, 7), SendMessage(b"\x00\xff"), SendMessage("x", {"n": -1})]
    await client.send_messages(stream, topic, 1, batch)
    theirs = await poll(client, stream, topic, partition=1)
    found = await ours.poll(stream, topic, partition=1, start=From.first())
    assert [message.payload for message in found] == [b"text", b"\x00\xff", b"x"]
    assert found[0].id == 7
    assert found[0].user_headers == OURS
    assert [message.headers for message in found[1:]] == [{}, {"n": -1}]
    for message, other in zip(found, theirs, strict=True):
        assert (message.offset, message.id) == (other.offset(), other.id())
        assert (message.timestamp, message.origin_timestamp) == (
            other.timestamp(),
            other.origin_timestamp(),
        )
        assert (message.checksum, message.partition_id) == (other.checksum(), 1)


async def test_messages_of_our_client(
    client: IggyClient, ours: windsprite.Client, stream: str, topic: str
) -> None:
    batch = [
        Message("text", OURS, 7, 1_700_000_000_000_000),
        Message(b"\x00\xff", origin_timestamp=1_700_000_000_000_250),
        Message("x", {"n": -1, "s": "ü"}, origin_timestamp=1_700_000_000_000_001),
    ]
    confirmation = await ours.send(stream, topic, batch, partition=2)
    assert confirmation is not None
    assert (confirmation.partition_id, confirmation.base_offset) == (2, 0)
    found = await poll(client, stream, topic, partition=2)
    assert payloads(found) == [b"text", b"\x00\xff", b"x"]
    assert found[0].id() == 7
    assert found[0].user_headers() == THEIRS
    assert found[1].user_headers() is None
    assert found[2].user_headers().to_scalar_dict() == {"n": -1, "s": "ü"}
    assert [message.origin_timestamp() for message in found] == [
        1_700_000_000_000_000,
        1_700_000_000_000_250,
        1_700_000_000_000_001,
    ]


async def test_a_message_that_the_official_client_could_not_send(
    client: IggyClient, ours: windsprite.Client, stream: str, topic: str
) -> None:
    await ours.send(stream, topic, [b"", b"x", b""], partition=0)
    assert payloads(await poll(client, stream, topic)) == [b"", b"x", b""]
    assert figures(await client.get_topic(stream, topic)) == (3, stored_size([0, 1, 0]))


@pytest.mark.parametrize("key", KEYS)
async def test_a_key_is_one_partition_for_everybody(
    client: IggyClient, ours: windsprite.Client, stream: str, key: str
) -> None:
    await client.create_topic(stream, "t", 7)
    theirs = await client.send_messages(
        stream, "t", Partitioning.messages_key(key), messages("theirs")
    )
    mine = await ours.send(stream, "t", ["ours"], key=key)
    assert mine is not None
    expected = xxhash.xxh32_intdigest(key.encode()) % 7
    assert theirs.confirmations[0].partition_id == mine.partition_id == expected
    assert payloads(await poll(client, stream, "t", partition=expected)) == [b"theirs", b"ours"]


@pytest.mark.parametrize("consumer", ["me", "billing", 0, 7, 2**32 - 1])
async def test_a_consumer_is_the_same_for_everybody(
    client: IggyClient, ours: windsprite.Client, stream: str, topic: str, consumer: str | int
) -> None:
    await client.send_messages(stream, topic, 0, messages(*"abcdef"))
    start = PollingStrategy.Next()
    theirs = await poll(client, stream, topic, start, 2, consumer=consumer, commit=True)
    mine = await ours.poll(stream, topic, count=2, consumer=consumer, auto_commit=True)
    rest = await poll(client, stream, topic, start, 1, consumer=consumer, commit=True)
    assert (offsets(theirs), [message.offset for message in mine], offsets(rest)) == (
        [0, 1],
        [2, 3],
        [4],
    )
    stored = await ours.get_consumer_offset(stream, topic, consumer=consumer)
    assert stored == ConsumerOffset(0, 5, 4)
    await ours.store_consumer_offset(stream, topic, 1, consumer=consumer)
    again = await poll(client, stream, topic, start, 10, consumer=consumer)
    assert offsets(again) == [2, 3, 4, 5]
    await ours.delete_consumer_offset(stream, topic, consumer=consumer)
    assert len(await poll(client, stream, topic, start, 10, consumer=consumer)) == 6


async def test_what_one_makes_the_other_sees(
    client: IggyClient, ours: windsprite.Client, stream: str
) -> None:
    await ours.create_topic(
        stream,
        "ours",
        2,
        compression="gzip",
        segment_size="128 MiB",
        message_expiry="10m",
        durability="persisted",
    )
    theirs = await client.get_topic(stream, "ours")
    assert (theirs.partitions_count, theirs.compression_algorithm) == (2, "gzip")
    assert theirs.message_expiry.duration.total_seconds() == 600
    assert theirs.options.to_scalar_dict() == {
        "compression_algorithm": "gzip",
        "durability": "persisted",
        "message_expiry": 600_000_000,
        "segment_size": 134_217_728,
    }
    await client.send_messages(stream, "ours", 1, messages("a"))
    mine = await ours.get_topic(stream, "ours")
    assert mine is not None
    assert (mine.topic.id, mine.topic.created_at) == (theirs.id, theirs.created_at)
    assert (mine.topic.messages_count, mine.topic.size_bytes) == (1, stored_size([1]))
    await client.create_topic(stream, "theirs", 1)
    assert [topic.name for topic in await ours.get_topics(stream)] == ["ours", "theirs"]
    with pytest.raises(windsprite.AlreadyExists):
        await ours.create_topic(stream, "theirs")
    await client.delete_stream(stream)
    assert await ours.get_stream(stream) is None
    with pytest.raises(windsprite.NotFound):
        await ours.send(stream, "ours", ["x"])
