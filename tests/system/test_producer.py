"""Producers on a real server."""

import asyncio
import base64
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import windsprite
from support.real_server import RealServer, real_server
from windsprite import Client, Delivered, From, NewTopic
from windsprite_protocol.hashing import partition_index

WHERE = ("orders", "events")


def address_of(server: RealServer, user: str = "iggy:iggy") -> str:
    return f"iggy://{user}@{server.address}"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RealServer]:
    async with real_server(tmp_path) as server:
        yield server


@pytest.fixture
async def client(server: RealServer) -> AsyncIterator[Client]:
    async with windsprite.connect(address_of(server)) as client:
        yield client


async def all_messages(client: Client, partitions: int) -> dict[int, list[Any]]:
    return {
        partition: list(
            await client.poll(*WHERE, partition=partition, start=From.first(), count=1_000_000)
        )
        for partition in range(partitions)
    }


async def test_many_senders_keep_their_order_and_learn_their_places(client: Client) -> None:
    senders, count = 40, 100
    placed: dict[bytes, Delivered] = {}
    options: dict[str, Any] = {
        "create": NewTopic(partitions=5),
        "batch_messages": 37,
        "linger": 0.001,
        "buffer_bytes": 100_000,
    }
    async with client.producer(*WHERE, **options) as producer:

        async def send(sender: int) -> None:
            deliveries = {}
            for number in range(count):
                payload = f"{sender} {number}".encode()
                where: dict[str, Any] = {0: {"key": f"key {sender}"}, 1: {"partition": 2}}.get(
                    sender % 3, {}
                )
                deliveries[payload] = await producer.send(payload, **where)
                if number % 10 == 0:
                    await asyncio.sleep(0)
            for payload, delivery in deliveries.items():
                placed[payload] = await delivery

        await asyncio.gather(*map(send, range(senders)))
    polled = await all_messages(client, 5)
    found = {
        message.payload: Delivered(partition, message.offset)
        for partition, messages in polled.items()
        for message in messages
    }
    assert found == placed
    assert len(found) == senders * count == sum(map(len, polled.values()))
    for messages in polled.values():
        numbers = defaultdict(list)
        for message in messages:
            sender, number = map(int, message.payload.split())
            numbers[sender].append(number)
        assert all(seen == sorted(seen) for seen in numbers.values())
    for payload, place in placed.items():
        sender = int(payload.split()[0])
        if sender % 3 == 0:
            assert place.partition == partition_index(f"key {sender}".encode(), 5)
        elif sender % 3 == 1:
            assert place.partition == 2


async def test_a_hundred_thousand_messages(client: Client) -> None:
    count = 100_000
    async with client.producer(*WHERE, create=NewTopic(partitions=4)) as producer:
        for number in range(count):
            await producer.send(b"%d" % number)
        await producer.flush()
        assert producer.buffered_messages == producer.buffered_bytes == 0
        topic = await client.get_topic(*WHERE)
    assert topic is not None
    # Batches are full, and take turns.
    assert [partition.messages_count for partition in topic.partitions] == [count // 4] * 4


async def test_what_is_missing_is_made_by_whoever_comes_first(
    server: RealServer, client: Client
) -> None:
    new_topic = NewTopic(partitions=3, durability="persisted", message_expiry="7 days")
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(windsprite.connect(address_of(server)))
            for _ in range(3)
        ]
        producers = [
            client.producer(*WHERE, create=new_topic) for client in clients for _ in range(4)
        ]
        await asyncio.gather(*(producer.start() for producer in producers))
        assert [producer.partitions for producer in producers] == [3] * 12
        for producer in producers:
            assert (await producer.send_and_wait(b"x", partition=1)).partition == 1
    async with client.producer(*WHERE, create=NewTopic(partitions=9)) as late:
        assert late.partitions == 3
    async with client.producer("orders", "simple") as simple:
        assert simple.partitions == 1
    details = await client.get_topic(*WHERE)
    assert details is not None
    assert details.topic.message_expiry == 7 * 24 * 3600 * 1_000_000
    options = {option.key: option.value.to_python() for option in details.topic.options}
    assert options["durability"] == "persisted"


async def test_what_is_missing_is_not_made(client: Client) -> None:
    with pytest.raises(windsprite.NotFound, match="no topic 'events'"):
        await client.producer(*WHERE, create=False).start()
    assert await client.get_streams() == ()
    await client.create_stream("orders")
    for where in (("orders", 0), (7, 0)):
        with pytest.raises(windsprite.NotFound):
            await client.producer(*where).start()
    with pytest.raises(windsprite.NotFound):
        await client.producer(7, "events").start()
    with pytest.raises(windsprite.InvalidRequest):
        await client.producer(*WHERE, create=NewTopic(partitions=1001)).start()
    assert await client.get_topics("orders") == ()
    await client.create_topic(*WHERE)
    async with client.producer(0, 0, create=False) as producer:
        assert await producer.send_and_wait(b"x") == Delivered(0, 0)


async def test_a_user_that_may_only_send(server: RealServer, client: Client) -> None:
    await client.create_stream("orders")
    await client.create_topic(*WHERE, partitions=7)
    sender = windsprite.StreamPermissions(0, send_messages=True)
    permissions = windsprite.Permissions(streams=(sender,))
    await client.create_user("shop", "a good secret", permissions=permissions)
    async with (
        windsprite.connect(address_of(server, "shop:a%20good%20secret")) as shop,
        shop.producer(*WHERE) as producer,
    ):
        assert producer.partitions is None
        for key in ("a", "user-42", "ключ"):
            placed = await producer.send_and_wait(b"x", key=key)
            assert placed.partition == partition_index(key.encode(), 7)
        turns = {(await producer.send_and_wait(b"x")).partition for _ in range(7)}
        assert turns == set(range(7))
        with pytest.raises(windsprite.PermissionDenied):
            await shop.producer("orders", "other").start()


async def test_new_partitions_are_used(client: Client) -> None:
    options: dict[str, Any] = {"refresh_interval": 0.05, "linger": 0}
    async with client.producer(*WHERE, **options) as producer:
        assert await producer.send_and_wait(b"x", key="a") == Delivered(0, 0)
        await client.create_partitions(*WHERE, 3)
        async with asyncio.timeout(30):
            while producer.partitions != 4:
                await asyncio.sleep(0.01)
        assert (await producer.send_and_wait(b"x", key="a")).partition == 2
        turns = [(await producer.send_and_wait(b"x")).partition for _ in range(4)]
        assert sorted(partition or 0 for partition in turns) == [0, 1, 2, 3]


async def test_what_is_sent_arrives_with_its_headers(client: Client) -> None:
    async with client.producer(*WHERE, headers={"source": "shop", "version": 2}) as producer:
        await producer.send("text")
        await producer.send(b"bytes", headers={"ratio": 0.5})
        await producer.send(windsprite.Message(b"own", {"ok": True}, id=5), headers={"not": 1})
        await producer.send(windsprite.Message(b"", origin_timestamp=1_700_000_000_000_000))
        await producer.send(windsprite.Message("given"), headers={"given": 1})
        await producer.send(windsprite.Message(b"none", {}))
    text, data, own, empty, given, none = await client.poll(*WHERE, start=From.first())
    assert (text.payload, text.headers) == (b"text", {"source": "shop", "version": 2})
    assert (data.payload, data.headers) == (b"bytes", {"ratio": 0.5})
    assert (own.payload, own.headers, own.id) == (b"own", {"ok": True}, 5)
    assert (empty.payload, empty.headers) == (b"", {"source": "shop", "version": 2})
    assert empty.origin_timestamp == 1_700_000_000_000_000
    assert (given.payload, given.headers) == (b"given", {"given": 1})
    assert (none.payload, none.raw_user_headers) == (b"none", b"")


async def test_nobody_else_can_read_encrypted_messages(client: Client) -> None:
    encryptor = windsprite.Encryptor.from_base64(base64.b64encode(bytes(range(32))))
    async with client.producer(*WHERE, encryption=encryptor, headers={"card": "1234"}) as producer:
        await producer.send_many(["the secret", "the secret"])
        await producer.send(windsprite.Message(b"bare", {}))
    polled = await client.poll(*WHERE, start=From.first())
    one, two, bare = polled
    for message in polled:
        assert b"secret" not in message.payload
        assert b"card" not in message.raw_user_headers
        assert message.headers == {}
    assert one.payload != two.payload
    assert bare.raw_user_headers == b""
    opened = [encryptor.decrypt_message(message) for message in polled]
    assert [message.payload for message in opened] == [b"the secret", b"the secret", b"bare"]
    assert [message.headers for message in opened] == [{"card": "1234"}] * 2 + [{}]
    with pytest.raises(windsprite.DecryptionFailed):
        windsprite.Encryptor(bytes(32)).decrypt_message(one)


async def test_a_topic_that_is_deleted_meanwhile(client: Client) -> None:
    async with client.producer(*WHERE) as producer:
        await producer.send_and_wait(b"x")
        await client.delete_topic(*WHERE)
        with pytest.raises(windsprite.NotFound):
            await producer.send_and_wait(b"x")
        assert await client.get_topics("orders") == ()


async def test_large_and_small_messages(client: Client) -> None:
    sizes = [0, 1, 5_000_000, 10, 1 << 20, (1 << 20) - 256 - 48, 3]
    async with client.producer(*WHERE) as producer:
        deliveries = await producer.send_many([bytes(size) for size in sizes])
        placed = [await delivery for delivery in deliveries]
    assert placed == [Delivered(0, number) for number in range(len(sizes))]
    polled = await client.poll(*WHERE, start=From.first())
    assert [len(message.payload) for message in polled] == sizes
