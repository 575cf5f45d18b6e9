"""Sending messages with the official client (spec 04, 2 to 4 and 9)."""

import asyncio
import time

import pytest
import xxhash
from apache_iggy import IggyClient, Partitioning, PollingStrategy, SendMessage

from support.official_client import (
    fails_with,
    figures,
    messages,
    offsets,
    payloads,
    poll,
    stored_size,
)

covers = pytest.mark.covers

Last, Next = PollingStrategy.Last, PollingStrategy.Next


@covers("send_messages", "poll_messages")
async def test_what_a_message_looks_like(client: IggyClient, stream: str, topic: str) -> None:
    before = time.time_ns() // 1000
    await client.send_messages(stream, topic, 1, messages("hello", b"\x00\xff"))
    after = time.time_ns() // 1000
    one, two = await poll(client, stream, topic, partition=1)
    assert (one.payload(), two.payload()) == (b"hello", b"\x00\xff")
    assert (one.length(), two.length()) == (5, 2)
    assert (one.offset(), two.offset()) == (0, 1)
    assert (one.partition_id(), two.partition_id()) == (1, 1)
    assert one.user_headers() is two.user_headers() is None
    assert one.id() > 0
    assert two.id() not in (0, one.id())
    assert before <= one.timestamp() == two.timestamp() <= after
    assert before <= one.origin_timestamp() <= two.origin_timestamp() <= one.timestamp()
    frame = one.id().to_bytes(16, "little") + bytes(12) + b"\x05" + bytes(11) + b"hello"
    assert one.checksum() == xxhash.xxh3_64_intdigest(frame)


@pytest.mark.parametrize("number", [1, 77, 2**64, 2**127 + 1, 2**128 - 1])
@covers("send_messages")
async def test_ids_are_kept(client: IggyClient, stream: str, topic: str, number: int) -> None:
    twice = [SendMessage("a", id=number), SendMessage("b", id=number)]
    await client.send_messages(stream, topic, 0, twice)
    await client.send_messages(stream, topic, 0, twice[:1])
    polled = await poll(client, stream, topic)
    assert [message.id() for message in polled] == [number] * 3


@covers("send_messages")
async def test_confirmations(client: IggyClient, stream: str, topic: str) -> None:
    stream_id, topic_id = (await client.get_stream(stream)).id, 0
    bases = {0: 0, 1: 0, 2: 0}
    for partition, count in [(0, 1), (2, 5), (0, 2), (0, 3), (2, 1), (1, 1000), (1, 1)]:
        sent = await client.send_messages(stream, topic, partition, messages(*"x" * count))
        (confirmation,) = sent.confirmations
        assert (confirmation.stream_id, confirmation.topic_id) == (stream_id, topic_id)
        assert (confirmation.partition_id, confirmation.base_offset) == (
            partition,
            bases[partition],
        )
        bases[partition] += count
    details = await client.get_topic(stream, topic)
    assert [partition.messages_count for partition in details.partitions] == [6, 1001, 6]
    assert [partition.current_offset for partition in details.partitions] == [5, 1000, 5]


@covers("send_messages")
async def test_a_partition_as_a_number_or_a_partitioning(
    client: IggyClient, stream: str, topic: str
) -> None:
    await client.send_messages(stream, topic, 2, messages("a"))
    await client.send_messages(stream, topic, Partitioning.partition_id(2), messages("b"))
    assert payloads(await poll(client, stream, topic, partition=2)) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("key", "partition"),
    [
        ("user-42", 2),
        ("order-1", 2),
        ("a", 0),
        ("confirmation-key", 2),
        (b"\x01\x00\x00\x00", 2),
        ("ключ", xxhash.xxh32_intdigest("ключ".encode()) % 3),
        (b"\x00" * 255, xxhash.xxh32_intdigest(bytes(255)) % 3),
    ],
)
@covers("send_messages")
async def test_keys_select_partitions(
    client: IggyClient, stream: str, topic: str, key: str | bytes, partition: int
) -> None:
    sent = await client.send_messages(stream, topic, Partitioning.messages_key(key), messages("x"))
    assert sent.confirmations[0].partition_id == partition


@covers("send_messages")
async def test_balanced_sends_take_turns(client: IggyClient, stream: str, topic: str) -> None:
    sent = [
        await client.send_messages(stream, topic, Partitioning.balanced(), messages("x"))
        for _ in range(7)
    ]
    assert [response.confirmations[0].partition_id for response in sent] == [0, 1, 2, 0, 1, 2, 0]


@pytest.mark.parametrize(
    "size", [1, 2, 255, 65_536, 1 << 20, 40_000_000, 64_000_000], ids="{:,}".format
)
@covers("send_messages", "poll_messages")
async def test_payloads_of_any_size(client: IggyClient, stream: str, topic: str, size: int) -> None:
    payload = bytes(range(1, 256)) * (size // 255) + b"x" * (size % 255)
    await client.send_messages(stream, topic, 0, messages(payload))
    await client.send_messages(stream, topic, 0, messages("after"))
    (polled,) = await poll(client, stream, topic, count=1)
    assert polled.payload() == payload
    assert polled.length() == size
    assert figures(await client.get_topic(stream, topic)) == (2, stored_size([size], [5]))
    assert payloads(await poll(client, stream, topic, Last(), 1)) == [b"after"]
    await client.delete_topic(stream, topic)


@covers("send_messages", "poll_messages")
async def test_the_largest_message_with_the_largest_headers(
    client: IggyClient, stream: str, topic: str
) -> None:
    # 377 pairs of 10 + 4 + 251 bytes, and one of 10 + 4 + 81
    headers = {f"h{number:03d}": b"v" * 251 for number in range(377)} | {"last": b"v" * 81}
    size = sum(10 + len(key) + len(value) for key, value in headers.items())
    assert size == 100_000
    payload = b"\xa5" * 64_000_000
    await client.send_messages(stream, topic, 0, [SendMessage(payload, headers)])
    (polled,) = await poll(client, stream, topic)
    assert polled.payload() == payload
    assert polled.user_headers().to_scalar_dict() == headers
    assert figures(await client.get_topic(stream, topic)) == (1, stored_size([64_100_000]))
    await client.delete_topic(stream, topic)


@covers("poll_messages")
async def test_a_poll_that_does_not_fit_one_reply_goes_on_later(
    client: IggyClient, stream: str, topic: str
) -> None:
    for payload in (b"1", b"2", b"3"):
        await client.send_messages(stream, topic, 0, messages(payload * 30_000_000))
    first = await poll(client, stream, topic, Next(), consumer="me", commit=True)
    assert offsets(first) == [0, 1]
    rest = await poll(client, stream, topic, Next(), consumer="me", commit=True)
    assert offsets(rest) == [2]
    assert rest[0].payload() == b"3" * 30_000_000
    await client.delete_topic(stream, topic)


@covers("send_messages")
async def test_what_is_not_sent_at_all(client: IggyClient, stream: str, topic: str) -> None:
    with fails_with(4009):
        await client.send_messages(stream, topic, 0, [])
    with pytest.raises(ValueError, match="Invalid message payload length"):
        SendMessage(b"")
    with pytest.raises(ValueError, match="Too big message payload"):
        SendMessage(b"x" * 64_000_001)
    for key in ("", "k" * 256):
        with pytest.raises(ValueError, match="Invalid"):
            Partitioning.messages_key(key)
    assert figures(await client.get_topic(stream, topic)) == (0, 0)


@covers("send_messages")
async def test_sending_to_what_is_missing(client: IggyClient, stream: str, topic: str) -> None:
    with fails_with(20):
        await client.send_messages("missing", topic, 0, messages("a"))
    with fails_with(20):
        await client.send_messages(stream, "missing", 0, messages("a"))
    with fails_with(20):
        await client.send_messages(999_999, 999_999, 0, messages("a"))
    for partition in (3, 2**32 - 1):
        with fails_with(20):
            await client.send_messages(stream, topic, partition, messages("a"))
    assert figures(await client.get_topic(stream, topic)) == (0, 0)


@covers("send_messages", "poll_messages")
async def test_a_message_is_there_for_everybody_once_it_is_confirmed(
    address: str, client: IggyClient, stream: str, topic: str
) -> None:
    other = IggyClient(address)
    await other.login_user("iggy", "iggy")
    for number in range(100):
        await client.send_messages(stream, topic, 0, messages(str(number)))
        (newest,) = await poll(other, stream, topic, Last(), 1)
        assert (newest.offset(), newest.payload()) == (number, str(number).encode())
        assert (await other.get_topic(stream, topic)).messages_count == number + 1


@covers("send_messages")
async def test_many_senders_at_once(
    address: str, client: IggyClient, stream: str, topic: str
) -> None:
    async def sender(name: str) -> None:
        own = IggyClient(address)
        await own.login_user("iggy", "iggy")
        for number in range(50):
            await own.send_messages(stream, topic, 0, messages(f"{name} {number}", "second"))

    await asyncio.gather(*(sender(name) for name in "abcd"))
    polled = await poll(client, stream, topic)
    assert offsets(polled) == list(range(400))
    assert payloads(polled)[1::2] == [b"second"] * 200  # batches stay together
    for name in "abcd":
        own = [text for text in payloads(polled) if text.startswith(name.encode() + b" ")]
        assert own == [f"{name} {number}".encode() for number in range(50)]
