"""Consumer groups and members with the official client (spec 05, 12.6 and 12.7)."""

import asyncio
from pathlib import Path

import pytest
from apache_iggy import Consumer, ConsumerGroupDetails, IggyClient, PollingStrategy

from support.official_client import fails_with, logged_in, messages
from support.server_process import server_process

covers = pytest.mark.covers

GROUP = "billing"


def shares(details: ConsumerGroupDetails | None) -> dict[int, list[int]]:
    """What members own, by their slots."""
    assert details is not None
    assert details.members_count == len(details.members)
    for member in details.members:
        assert member.partitions_count == len(member.partitions)
    return {member.id: member.partitions for member in details.members}


async def owned(client: IggyClient, stream: str, topic: str) -> dict[int, list[int]]:
    return shares(await client.get_consumer_group(stream, topic, GROUP))


async def poll(
    client: IggyClient,
    stream: str,
    topic: str,
    partition: int | None = None,
    count: int = 1,
    *,
    start: PollingStrategy | None = None,
    commit: bool = False,
) -> list[tuple[int, int]]:
    """Poll as a member; partition and offset of each message."""
    polled = await client.poll_messages(
        stream,
        topic,
        consumer=Consumer.Group(GROUP),
        polling_strategy=PollingStrategy.Next() if start is None else start,
        count=count,
        auto_commit=commit,
        partition_id=partition,
    )
    return [(message.partition_id(), message.offset()) for message in polled]


def store_body(stream: str, topic: str, partition: int, offset: int) -> bytes:
    """The body of a request that stores an offset of the group (spec 04, 7.1)."""
    names = b"".join(b"\x02" + bytes([len(name)]) + name.encode() for name in (stream, topic))
    group = b"\x02\x02" + bytes([len(GROUP)]) + GROUP.encode()
    place = b"\x01" + partition.to_bytes(4, "little")
    return group + names + place + offset.to_bytes(8, "little") + b"\x01"


async def store(client: IggyClient, stream: str, topic: str, partition: int, offset: int) -> None:
    await client.send_binary_request(121, store_body(stream, topic, partition, offset))


@pytest.fixture
async def group(client: IggyClient, stream: str, topic: str) -> str:
    """The name of a group of the topic with three partitions, ten messages in each."""
    for partition in range(3):
        await client.send_messages(stream, topic, partition, messages(*"0123456789"))
    await client.create_consumer_group(stream, topic, GROUP)
    return GROUP


# --- Creating, telling, deleting -----------------------------------------------------------------


@covers("create_consumer_group", "get_consumer_group")
async def test_a_new_group(client: IggyClient, stream: str, topic: str) -> None:
    await client.create_consumer_group(stream, topic, GROUP)
    for asked in (GROUP, 0):
        for place in ((stream, topic), (stream, 0)):
            details = await client.get_consumer_group(*place, asked)
            assert details is not None
            assert (details.id, details.name, details.partitions_count) == (0, GROUP, 3)
            assert (details.members_count, details.members) == (0, [])


@covers("create_consumer_group")
async def test_a_name_is_given_once_in_a_topic(client: IggyClient, stream: str, topic: str) -> None:
    await client.create_consumer_group(stream, topic, GROUP)
    with fails_with(5004):
        await client.create_consumer_group(stream, topic, GROUP)
    await client.create_topic(stream, "other", 1)
    await client.create_consumer_group(stream, "other", GROUP)


@covers("get_consumer_group")
@pytest.mark.parametrize("asked", ["missing", "x" * 255, 999_999, 1])
async def test_a_group_that_is_missing(
    client: IggyClient, stream: str, topic: str, group: str, asked: str | int
) -> None:
    assert await client.get_consumer_group(stream, topic, asked) is None


@covers("get_consumer_groups")
async def test_all_groups_in_the_order_of_their_creation(
    client: IggyClient, stream: str, topic: str
) -> None:
    assert await client.get_consumer_groups(stream, topic) == []
    for name in ("z", "a", "m"):
        await client.create_consumer_group(stream, topic, name)
    await client.join_consumer_group(stream, topic, "a")
    for _ in range(2):
        groups = await client.get_consumer_groups(stream, topic)
        assert [(group.id, group.name, group.members_count) for group in groups] == [
            (0, "z", 0),
            (1, "a", 1),
            (2, "m", 0),
        ]
        assert {group.partitions_count for group in groups} == {3}


@covers("delete_consumer_group")
async def test_a_group_is_deleted(client: IggyClient, stream: str, topic: str) -> None:
    for name in "abc":
        await client.create_consumer_group(stream, topic, name)
    await client.delete_consumer_group(stream, topic, "b")
    await client.delete_consumer_group(stream, 0, 0)
    assert [group.id for group in await client.get_consumer_groups(stream, topic)] == [2]
    for gone in ("b", 0, 99):
        with fails_with(5000):
            await client.delete_consumer_group(stream, topic, gone)
    await client.create_consumer_group(stream, topic, "b")
    assert [group.id for group in await client.get_consumer_groups(stream, topic)] == [2, 3]


@covers("delete_consumer_group")
async def test_a_group_is_deleted_with_its_members(
    client: IggyClient, address: str, stream: str, topic: str, group: str
) -> None:
    member = await logged_in(address)
    await member.join_consumer_group(stream, topic, group)
    assert await poll(member, stream, topic) == [(0, 0)]
    await client.delete_consumer_group(stream, topic, group)
    assert await client.get_consumer_group(stream, topic, group) is None
    with pytest.raises(RuntimeError, match="was not found"):
        await poll(member, stream, topic)
    await client.create_consumer_group(stream, topic, group)
    assert await owned(client, stream, topic) == {}


@covers(
    "create_consumer_group",
    "get_consumer_group",
    "get_consumer_groups",
    "delete_consumer_group",
    "join_consumer_group",
    "leave_consumer_group",
)
async def test_what_a_group_belongs_to_is_missing(
    client: IggyClient, stream: str, topic: str
) -> None:
    for place, code in ((("missing", topic), 1009), ((stream, "missing"), 2010)):
        for method in (
            client.create_consumer_group,
            client.get_consumer_group,
            client.delete_consumer_group,
            client.join_consumer_group,
            client.leave_consumer_group,
        ):
            with fails_with(code):
                await method(*place, GROUP)
        with fails_with(code):
            await client.get_consumer_groups(*place)


# --- Members -------------------------------------------------------------------------------------


@covers("join_consumer_group", "leave_consumer_group")
async def test_joining_and_leaving(client: IggyClient, stream: str, topic: str, group: str) -> None:
    for asked in (group, 0):
        await client.join_consumer_group(stream, topic, asked)
        assert await owned(client, stream, topic) == {0: [0, 1, 2]}
    await client.leave_consumer_group(stream, 0, 0)
    assert await owned(client, stream, topic) == {}
    with fails_with(5006):
        await client.leave_consumer_group(stream, topic, group)
    for method in (client.join_consumer_group, client.leave_consumer_group):
        with fails_with(5000):
            await method(stream, topic, "missing")


@covers("join_consumer_group", "get_consumer_group")
async def test_three_clients_join_one_after_the_other(
    address: str, client: IggyClient, stream: str, topic: str, group: str
) -> None:
    members = []
    for expected in ({0: [0, 1, 2]}, {0: [0, 1], 1: [2]}, {0: [0], 1: [2], 2: [1]}):
        members.append(await logged_in(address))
        await members[-1].join_consumer_group(stream, topic, group)
        assert await owned(client, stream, topic) == expected
    assert [await poll(member, stream, topic) for member in members] == [
        [(0, 0)],
        [(2, 0)],
        [(1, 0)],
    ]
    await members[1].leave_consumer_group(stream, topic, group)
    assert await owned(client, stream, topic) == {0: [0, 2], 2: [1]}
    members[1] = await logged_in(address)
    await members[1].join_consumer_group(stream, topic, group)
    assert list(await owned(client, stream, topic)) == [0, 1, 2]


@covers("join_consumer_group")
@pytest.mark.parametrize(
    ("partitions", "count", "sizes"),
    [(12, 4, [3] * 4), (10, 4, [2, 2, 3, 3]), (3, 5, [0, 0, 1, 1, 1])],
)
async def test_members_that_join_at_the_same_time(
    address: str, client: IggyClient, stream: str, partitions: int, count: int, sizes: list[int]
) -> None:
    await client.create_topic(stream, "wide", partitions)
    await client.create_consumer_group(stream, "wide", GROUP)
    members = await asyncio.gather(*(logged_in(address) for _ in range(count)))
    await asyncio.gather(*(member.join_consumer_group(stream, "wide", GROUP) for member in members))
    lists = list((await owned(client, stream, "wide")).values())
    assert sorted(map(len, lists)) == sizes
    assert sorted(number for numbers in lists for number in numbers) == list(range(partitions))
    # Two leave, two come.
    for member in members[:2]:
        await member.leave_consumer_group(stream, "wide", GROUP)
    for _ in range(2):
        members.append(await logged_in(address))
        await members[-1].join_consumer_group(stream, "wide", GROUP)
    lists = list((await owned(client, stream, "wide")).values())
    assert sorted(map(len, lists)) == sizes
    assert sorted(number for numbers in lists for number in numbers) == list(range(partitions))


@covers("logout_user")
async def test_a_logout_ends_a_membership(
    address: str, client: IggyClient, stream: str, topic: str, group: str
) -> None:
    members = [await logged_in(address) for _ in range(2)]
    for member in members:
        await member.join_consumer_group(stream, topic, group)
    await members[1].logout_user()
    assert await owned(client, stream, topic) == {0: [0, 1, 2]}


@covers("join_consumer_group")
async def test_a_client_that_goes_away_is_no_member(
    address: str, client: IggyClient, stream: str, topic: str, group: str
) -> None:
    member = await logged_in(address)
    await member.join_consumer_group(stream, topic, group)
    del member
    async with asyncio.timeout(10):
        while await owned(client, stream, topic):
            await asyncio.sleep(0.01)


@covers("create_partitions", "delete_partitions")
async def test_partitions_are_added_and_deleted(
    address: str, client: IggyClient, stream: str, topic: str, group: str
) -> None:
    members = [await logged_in(address) for _ in range(2)]
    for member in members:
        await member.join_consumer_group(stream, topic, group)
        assert await poll(member, stream, topic) != []
    await client.create_partitions(stream, topic, 3)
    assert await owned(client, stream, topic) == {0: [0, 2, 4], 1: [1, 3, 5]}
    # Both still believe in what they had; what is gone is noticed with the next poll of it.
    found = [await poll(members[1], stream, topic, count=3) for _ in range(3)]
    assert {partition for polled in found for partition, _ in polled} == {1}
    await client.delete_partitions(stream, topic, 3)
    assert await owned(client, stream, topic) == {0: [0, 2], 1: [1]}


@covers("get_stats")
async def test_groups_are_counted(client: IggyClient, stream: str, topic: str) -> None:
    before = (await client.get_stats()).consumer_groups_count
    for name in "ab":
        await client.create_consumer_group(stream, topic, name)
    assert (await client.get_stats()).consumer_groups_count == before + 2
    await client.delete_consumer_group(stream, topic, "a")
    assert (await client.get_stats()).consumer_groups_count == before + 1
    await client.delete_topic(stream, topic)
    assert (await client.get_stats()).consumer_groups_count == before


# --- Polling as a member -------------------------------------------------------------------------


@covers("poll_messages")
async def test_a_member_takes_its_partitions_in_turn(
    client: IggyClient, stream: str, topic: str, group: str
) -> None:
    await client.join_consumer_group(stream, topic, group)
    found = [await poll(client, stream, topic, commit=True) for _ in range(7)]
    assert found == [[(turn % 3, turn // 3)] for turn in range(7)]


@covers("poll_messages")
async def test_a_client_that_did_not_join(
    client: IggyClient, stream: str, topic: str, group: str
) -> None:
    with pytest.raises(RuntimeError, match="was not found"):
        await poll(client, stream, topic)
    assert await poll(client, stream, topic, 1) == []


@covers("poll_messages")
async def test_a_partition_that_is_named(
    client: IggyClient, stream: str, topic: str, group: str
) -> None:
    await client.join_consumer_group(stream, topic, group)
    for partition in (2, 1):
        found = await poll(client, stream, topic, partition, 10)
        assert found == [(partition, offset) for offset in range(10)]
    assert await poll(client, stream, topic, 3) == []


@covers("poll_messages")
async def test_a_member_without_partitions_gets_nothing(
    address: str, client: IggyClient, stream: str, group: str
) -> None:
    await client.create_topic(stream, "narrow", 1)
    await client.send_messages(stream, "narrow", 0, messages("a"))
    await client.create_consumer_group(stream, "narrow", GROUP)
    members = [await logged_in(address) for _ in range(2)]
    for member in members:
        await member.join_consumer_group(stream, "narrow", GROUP)
    assert await poll(members[1], stream, "narrow") == []
    assert await poll(members[0], stream, "narrow") == [(0, 0)]
    await members[0].leave_consumer_group(stream, "narrow", GROUP)
    assert await poll(members[1], stream, "narrow") == [(0, 0)]


@covers("poll_messages")
@pytest.mark.parametrize("commits", [True, False], ids=["commits", "times out"])
async def test_bug_19_no_batch_is_given_to_two_members_at_a_time(
    tmp_path: Path, commits: bool
) -> None:
    settings = {"WINDSPRITE_CONSUMER_GROUP__REBALANCING_TIMEOUT": "1 s"}
    with server_process(tmp_path, environment=settings) as server:
        address = server.wait_ready()["tcp"]
        one, two = [await logged_in(address) for _ in range(2)]
        place = "orders", "events"
        await one.create_stream("orders")
        await one.create_topic(*place, 2)
        for partition in range(2):
            await one.send_messages(*place, partition, messages(*"0123456789"))
        await one.create_consumer_group(*place, GROUP)
        await one.join_consumer_group(*place, GROUP)
        for partition in range(2):
            assert await poll(one, *place, partition, 5) == [(partition, n) for n in range(5)]
        await two.join_consumer_group(*place, GROUP)
        assert await owned(two, *place) == {0: [0, 1], 1: []}
        assert await poll(two, *place, count=10) == []
        assert await poll(two, *place, 1, 10) == []
        assert await poll(one, *place, 1, 10) == []
        if commits:
            await store(one, *place, 1, 4)
            assert await owned(two, *place) == {0: [0], 1: [1]}
            assert await poll(two, *place, count=10) == [(1, n) for n in range(5, 10)]
        else:
            await asyncio.sleep(1.2)
            assert await owned(two, *place) == {0: [0], 1: [1]}
            assert await poll(two, *place, count=10) == [(1, n) for n in range(10)]
        with fails_with(5009):
            await store(one, *place, 1, 4)
        assert server.stop() == 0


@covers("poll_messages")
async def test_bug_21_nothing_is_committed_that_nobody_asked_for(
    address: str, stream: str, topic: str, group: str
) -> None:
    # How far each member gets with what it is given before its work fails and it goes.
    for begins_at, done in ((0, 0), (0, 5), (5, 1), (6, 0), (6, 4)):
        member = await logged_in(address)
        await member.join_consumer_group(stream, topic, group)
        found = await poll(member, stream, topic, 0, 10)
        assert found == [(0, offset) for offset in range(begins_at, 10)]
        for _, offset in found[:done]:
            await store(member, stream, topic, 0, offset)
        await member.leave_consumer_group(stream, topic, group)
    await member.join_consumer_group(stream, topic, group)
    assert await poll(member, stream, topic, 0, 10) == []
