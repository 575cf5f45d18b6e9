"""Consumer groups of the client on a real server."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import windsprite
from support.real_server import RealServer, real_server
from windsprite import Client, ErrorCode, From, NotFound, PartitionNotOwned

WHERE = ("orders", "events")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RealServer]:
    async with real_server(tmp_path) as server:
        yield server


@pytest.fixture
async def client(server: RealServer) -> AsyncIterator[Client]:
    """A client of a server that has a topic with three partitions and a group."""
    async with windsprite.connect(f"iggy://iggy:iggy@{server.address}") as client:
        await client.create_stream("orders")
        await client.create_topic(*WHERE, partitions=3)
        await client.create_consumer_group(*WHERE, "billing")
        yield client


async def fill(client: Client, count: int) -> None:
    """Give each partition so many messages."""
    for partition in range(3):
        payloads = [f"{partition}-{number}" for number in range(count)]
        await client.send(*WHERE, payloads, partition=partition)


async def test_the_life_of_a_group(client: Client) -> None:
    created = await client.create_consumer_group(*WHERE, "audit")
    assert created == windsprite.ConsumerGroupDetails(
        windsprite.ConsumerGroup(1, 3, 0, "audit"), ()
    )
    assert await client.get_consumer_group(*WHERE, "audit") == created
    assert await client.get_consumer_group(*WHERE, 1) == created
    assert [group.name for group in await client.get_consumer_groups(*WHERE)] == [
        "billing",
        "audit",
    ]
    with pytest.raises(windsprite.AlreadyExists):
        await client.create_consumer_group(*WHERE, "audit")
    await client.join_consumer_group(*WHERE, "audit")
    await client.join_consumer_group(*WHERE, "audit")
    details = await client.get_consumer_group(*WHERE, "audit")
    assert details is not None
    assert details.members == (windsprite.GroupMember(0, (0, 1, 2)),)
    assert await client.sync_consumer_group(*WHERE, "audit") == windsprite.GroupAssignment(
        1, (0, 1, 2)
    )
    assert (await client.me()).memberships == (windsprite.GroupMembership(0, 0, 1),)
    await client.leave_consumer_group(*WHERE, "audit")
    assert (await client.me()).memberships == ()
    await client.delete_consumer_group(*WHERE, "audit")
    assert await client.get_consumer_group(*WHERE, "audit") is None


async def test_what_is_not_there(client: Client) -> None:
    for call, code in (
        (client.get_consumer_groups("orders", "none"), ErrorCode.TOPIC_ID_NOT_FOUND),
        (client.get_consumer_group("none", "none", 0), ErrorCode.STREAM_ID_NOT_FOUND),
        (client.create_consumer_group("orders", "none", "g"), ErrorCode.TOPIC_ID_NOT_FOUND),
        (client.join_consumer_group(*WHERE, "none"), ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND),
        (client.leave_consumer_group(*WHERE, 0), ErrorCode.CONSUMER_GROUP_MEMBER_NOT_FOUND),
        (client.delete_consumer_group(*WHERE, 7), ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND),
        (client.poll(*WHERE, group="billing"), ErrorCode.CONSUMER_GROUP_MEMBER_NOT_FOUND),
        (client.poll(*WHERE, group="none"), ErrorCode.CONSUMER_GROUP_MEMBER_NOT_FOUND),
    ):
        with pytest.raises(NotFound) as failure:
            await call
        assert failure.value.code is code
    assert await client.sync_consumer_group("none", "none", "none") is None


async def test_the_offsets_of_a_group(client: Client) -> None:
    await fill(client, 5)
    with pytest.raises(PartitionNotOwned):
        await client.store_consumer_offset(*WHERE, 3, partition=1, group="billing")
    await client.join_consumer_group(*WHERE, "billing")
    await client.store_consumer_offset(*WHERE, 3, partition=1, group="billing")
    stored = await client.get_consumer_offset(*WHERE, partition=1, group="billing")
    assert stored == windsprite.ConsumerOffset(1, 4, 3)
    assert await client.get_consumer_offset(*WHERE, partition=1, consumer="billing") is None
    batch = await client.poll(*WHERE, partition=1, group="billing", auto_commit=True)
    assert [message.payload for message in batch] == [b"1-4"]
    await client.delete_consumer_offset(*WHERE, partition=1, group="billing")
    assert await client.get_consumer_offset(*WHERE, partition=1, group="billing") is None
    with pytest.raises(NotFound):
        await client.delete_consumer_offset(*WHERE, partition=1, group="billing")


async def test_members_share_out_the_partitions(server: RealServer, client: Client) -> None:
    """Members come and go while they read; nothing is left out, and little comes twice."""
    await fill(client, 300)
    seen: Counter[bytes] = Counter()

    async def read(member: Client) -> None:
        idle = 0
        while idle < 6:
            batch = await member.poll(*WHERE, group="billing", count=10)
            if not batch:
                idle += 1
                await asyncio.sleep(0.01)
                continue
            idle = 0
            try:
                await member.store_consumer_offset(
                    *WHERE, batch[-1].offset, partition=batch.partition, group="billing"
                )
            except PartitionNotOwned:
                continue  # whoever has it now reads these messages
            seen.update(message.payload for message in batch)

    async with AsyncExitStack() as stack:
        members = []
        readers = []
        for _ in range(4):
            connecting = windsprite.connect(f"iggy://iggy:iggy@{server.address}")
            member = await stack.enter_async_context(connecting)
            await member.join_consumer_group(*WHERE, "billing")
            members.append(member)
            readers.append(asyncio.create_task(read(member)))
            await asyncio.sleep(0.02)
        await asyncio.gather(*readers)
        details = await client.get_consumer_group(*WHERE, "billing")
        assert details is not None
        assert sorted(len(member.partitions) for member in details.members) == [0, 1, 1, 1]
    assert set(seen) == {f"{partition}-{n}".encode() for partition in range(3) for n in range(300)}
    assert set(seen.values()) == {1}


async def test_a_member_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with real_server(tmp_path) as server:
        address = server.address
        client = await windsprite.connect(
            f"iggy://iggy:iggy@{address}", reconnection_interval=0.05, reestablish_after=0
        )
        await client.create_stream("orders")
        await client.create_topic(*WHERE, partitions=3)
        await client.create_consumer_group(*WHERE, "billing")
        await client.join_consumer_group(*WHERE, "billing")
        await fill(client, 2)
        first = [await client.poll(*WHERE, group="billing", count=1, auto_commit=True)]
    settings = {"tcp": {"address": address}}
    async with real_server(tmp_path, settings=settings) as again, client:
        rest = [await client.poll(*WHERE, group="billing") for _ in range(3)]
        read = [message.payload for batch in first + rest for message in batch]
        assert sorted(read) == [b"0-0", b"0-1", b"1-0", b"1-1", b"2-0", b"2-1"]
        await client.store_consumer_offset(*WHERE, 1, partition=2, group="billing")
        async with windsprite.connect(f"iggy://iggy:iggy@{again.address}") as other:
            details = await other.get_consumer_group(*WHERE, "billing")
            assert details is not None
            assert [member.partitions for member in details.members] == [(0, 1, 2)]


async def test_a_member_may_begin_anywhere(client: Client) -> None:
    await fill(client, 3)
    await client.join_consumer_group(*WHERE, "billing")
    for start, offsets in (
        (From.first(), [0, 1]),
        (From.last(), [1, 2]),
        (From.offset(1), [1, 2]),
        (From.next(), [0, 1]),
    ):
        batch = await client.poll(*WHERE, group="billing", partition=0, start=start, count=2)
        assert [message.offset for message in batch] == offsets
