"""Consumer groups, answer by answer: polls, offsets and rebalancing (spec 05, 6 to 11)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import CoroutineType
from typing import Any

import pytest

from support.clock import ManualClock
from support.group_members import (
    FENCED,
    GROUP,
    STREAM,
    TOPIC,
    Member,
    fill,
    members,
    owned,
)
from support.real_server import RealServer, real_server
from support.wire_client import WireClient, result, status, success
from windsprite_protocol.model.groups import (
    CreateConsumerGroup,
    DeleteConsumerGroup,
    GetConsumerGroup,
    GetConsumerGroups,
    JoinConsumerGroup,
    SyncConsumerGroup,
)
from windsprite_protocol.model.identifiers import Consumer, ConsumerKind, PollingStrategy
from windsprite_protocol.model.messages import PollMessages
from windsprite_protocol.model.offsets import (
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from windsprite_protocol.model.streams import CreateStream, DeleteStream, PurgeStream, UpdateStream
from windsprite_protocol.model.system import (
    GetMe,
)
from windsprite_protocol.model.topics import (
    CreatePartitions,
    CreateTopic,
    DeletePartitions,
    DeleteTopic,
    PurgeTopic,
    UpdateTopic,
)
from windsprite_protocol.model.users import CreateUser
from windsprite_server.handlers.services import Services
from windsprite_server.handlers.table import HANDLERS
from windsprite_server.session import Connection

MISSING_STREAM = ("missing", TOPIC)
MISSING_TOPIC = (STREAM, "missing")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def server(tmp_path: Path, clock: ManualClock) -> AsyncIterator[RealServer]:
    settings = {"consumer_group": {"rebalancing_timeout": "3 s"}}
    async with real_server(tmp_path, clock=clock, settings=settings) as server:
        yield server


@pytest.fixture
async def root(server: RealServer) -> AsyncIterator[WireClient]:
    """Root, and a stream `orders` with a topic of three partitions and no group."""
    async with server.client("iggy", "iggy") as client:
        await client.call(CreateStream(STREAM))
        await client.call(CreateTopic(STREAM, 3, "events"))
        yield client


@pytest.fixture
async def billing(root: WireClient) -> WireClient:
    """Root again, and the group `billing`."""
    await root.call(CreateConsumerGroup(STREAM, TOPIC, GROUP))
    return root


@pytest.fixture
async def three(server: RealServer, billing: WireClient) -> AsyncIterator[list[Member]]:
    """Three connections that have not joined; each partition holds ten messages."""
    await fill(billing, [0, 1, 2])
    async with members(server, 3) as found:
        yield found


# --- Polling and storing offsets as a member -----------------------------------------------------


async def test_the_order_of_checks_of_a_poll(server: RealServer, three: list[Member]) -> None:
    member, stranger, root = three
    await member.join()
    assert await stranger.poll(0) is None
    for partition in (3, 99, 0xFFFF_FFFF):
        assert await member.poll(partition) is None
    assert await member.wire.told(member.poll_request(None)) == status(6)
    assert await stranger.wire.told(member.poll_request(None)) == status(6)
    assert await Member(member.wire, "missing").poll(0) is None
    assert await Member(member.wire, 99).poll(0) is None
    for place in (MISSING_STREAM, MISSING_TOPIC):
        for partition, told in ((0, FENCED), (None, status(6))):
            request = PollMessages(
                member.consumer, *place, partition, PollingStrategy.next(), 1, auto_commit=False
            )
            if partition is None:
                assert await member.wire.told(request) == told
            else:
                assert await member.wire.call(request) == told
    await root.wire.call(CreateUser("alice", "secret"))
    async with server.client("alice", "secret") as alice:
        assert await alice.told(member.poll_request(None)) == status(41)
        assert await alice.told(member.poll_request(0)) == status(41)
    for partition in (0, 1, 2):
        assert await member.poll(partition) == [0]


async def test_nothing_new_is_not_fenced(billing: WireClient) -> None:
    member = Member(billing)
    await member.join()
    polled = await billing.call(member.poll_request(1, 10))
    assert (polled.partition_id, polled.current_offset, polled.messages_count) == (1, 0, 0)
    await fill(billing, [1])
    assert await member.poll(1, 10, commit=True) == list(range(10))
    polled = await billing.call(member.poll_request(1, 10, commit=True))
    assert (polled.partition_id, polled.current_offset, polled.messages_count) == (1, 9, 0)
    assert await member.poll(1, 0, PollingStrategy.first()) == []


async def test_all_strategies(three: list[Member]) -> None:
    member = three[0]
    await member.join()
    assert await member.poll(0, 3, PollingStrategy.first()) == [0, 1, 2]
    assert await member.poll(0, 3, PollingStrategy.last()) == [7, 8, 9]
    assert await member.poll(0, 3, PollingStrategy.offset(5)) == [5, 6, 7]
    assert await member.poll(0, 3, PollingStrategy.offset(10)) == []
    assert await member.poll(0, 3, PollingStrategy.timestamp(0)) == [0, 1, 2]
    assert await member.poll(0, 3, PollingStrategy.timestamp(2**63)) == []
    assert await member.poll(0, 3) == [0, 1, 2]


async def test_what_is_committed_by_polling_belongs_to_the_group(three: list[Member]) -> None:
    one, two, _ = three
    await one.join()
    assert await one.poll(2, 4, commit=True) == [0, 1, 2, 3]
    await two.join()
    assert await two.sync() == (2, [2])
    assert await two.poll(2, 4, commit=True) == [4, 5, 6, 7]
    assert await two.poll(2, 4, PollingStrategy.first(), commit=True) == [0, 1, 2, 3]
    assert await one.stored(2) == 7
    assert await Member(one.wire, 0).stored(2) == 7
    assert await two.poll(2, 4) == [8, 9]


async def test_offsets_of_a_group_and_of_a_single_consumer_are_different(
    three: list[Member],
) -> None:
    member, other, _ = three
    await member.join()
    await member.poll(0, 5, commit=True)
    for identifier in (0, GROUP):
        single = Consumer(ConsumerKind.SINGLE, identifier)
        assert await other.wire.call(GetConsumerOffset(single, STREAM, TOPIC, 0)) is None
        request = PollMessages(
            single, STREAM, TOPIC, 0, PollingStrategy.next(), 3, auto_commit=True
        )
        assert (await other.wire.call(request)).messages_count == 3
    assert await member.stored(0) == 4


async def test_offsets_are_stored_and_deleted_by_the_owner(three: list[Member]) -> None:
    one, two, stranger = three
    await one.join()
    await two.join()
    assert await one.store(0, 5) == success()
    assert await one.stored(0) == 5
    assert await stranger.stored(0) == 5
    assert await stranger.stored(None) == 5
    assert await one.store(0, 4) == success()
    assert await one.poll(0, 2) == [5, 6]
    assert await one.forget(0) == success()
    assert await one.stored(0) is None
    assert await one.forget(0) == status(3021)
    assert await one.poll(0, 2) == [0, 1]


async def test_the_order_of_checks_of_offsets(server: RealServer, three: list[Member]) -> None:
    one, two, stranger = three
    await one.join()
    await two.join()

    async def told(member: Member, *place: object) -> list[object]:
        """What storing and deleting are answered."""
        store = StoreConsumerOffset(member.consumer, *place, 0)
        delete = DeleteConsumerOffset(member.consumer, *place)
        return [await member.wire.told(store), await member.wire.told(delete)]

    assert await told(one, STREAM, TOPIC, None) == [status(6)] * 2
    assert await told(one, "missing", TOPIC, None) == [status(6)] * 2
    assert await told(one, "missing", TOPIC, 0) == [status(20)] * 2
    assert await told(one, STREAM, "missing", 0) == [status(20)] * 2
    assert await told(Member(one.wire, "missing"), STREAM, TOPIC, 0) == [status(5003)] * 2
    assert await told(Member(one.wire, 99), STREAM, TOPIC, 0) == [status(5000)] * 2
    for partition in (2, 3, 99):
        assert await told(one, STREAM, TOPIC, partition) == [status(5009)] * 2
    assert await told(stranger, STREAM, TOPIC, 0) == [status(5009)] * 2
    assert await one.store(0, 10) == status(4100)
    assert await one.store(0, 2**64 - 1) == status(4100)
    assert await one.store(0, 9) == success()
    await stranger.wire.call(CreateUser("alice", "secret"))
    async with server.client("alice", "secret") as alice:
        assert await told(Member(alice), STREAM, TOPIC, 0) == [status(5009)] * 2
        assert await alice.told(GetConsumerOffset(one.consumer, STREAM, TOPIC, 0)) == status(41)
    group = one.consumer
    root = stranger.wire
    assert await root.told(GetConsumerOffset(group, *MISSING_STREAM, 0)) == status(1009)
    assert await root.told(GetConsumerOffset(group, *MISSING_TOPIC, 0)) == status(2010)
    assert await root.told(GetConsumerOffset(group, STREAM, TOPIC, 3)) == status(3007)
    missing = Consumer(ConsumerKind.GROUP, "missing")
    assert await root.told(GetConsumerOffset(missing, STREAM, TOPIC, 0)) == success()
    assert await root.told(GetConsumerOffset(missing, STREAM, TOPIC, 3)) == status(3007)


async def test_nothing_is_stored_for_an_empty_partition(billing: WireClient) -> None:
    member = Member(billing)
    await member.join()
    assert await member.store(0, 0) == status(4100)
    await fill(billing, [0])
    assert await member.store(0, 0) == success()
    await billing.call(PurgeTopic(STREAM, TOPIC))
    assert await member.store(0, 0) == status(4100)


async def test_groups_that_store_offsets_are_counted(tmp_path: Path) -> None:
    settings = {"limits": {"max_consumer_offsets": 2}}
    async with (
        real_server(tmp_path, settings=settings) as server,
        server.client("iggy", "iggy") as wire,
    ):
        await wire.call(CreateStream(STREAM))
        await wire.call(CreateTopic(STREAM, 1, "events"))
        await fill(wire, [0])
        groups = [Member(wire, name) for name in "abc"]
        for member in groups:
            await wire.call(CreateConsumerGroup(*member.place))
            await member.join()
        single = Consumer(ConsumerKind.SINGLE, 1)
        assert await wire.told(StoreConsumerOffset(single, STREAM, TOPIC, 0, 1)) == success()
        assert [await member.store(0, 1) for member in groups[:2]] == [success()] * 2
        assert await groups[2].store(0, 1) == status(3024)
        assert await wire.told(groups[2].poll_request(0, 1, commit=True)) == status(3024)
        assert await groups[2].poll(0, 1) == [0]
        assert await groups[0].store(0, 2) == success()
        await wire.call(DeleteConsumerGroup(*groups[0].place))
        assert await groups[2].poll(0, 1, commit=True) == [0]


# --- Rebalancing ---------------------------------------------------------------------------------


async def test_each_join_is_visible_at_once(three: list[Member]) -> None:
    root = three[0].wire
    await three[0].join()
    assert await owned(root) == {0: [0, 1, 2]}
    await three[1].join()
    assert await owned(root) == {0: [0, 1], 1: [2]}
    await three[2].join()
    assert await owned(root) == {0: [0], 1: [2], 2: [1]}


@pytest.mark.parametrize(
    ("partitions", "count", "sizes"),
    [
        (16, 16, [1] * 16),
        (12, 4, [3] * 4),
        (10, 4, [3, 3, 2, 2]),
        (16, 8, [2] * 8),
        (24, 8, [3] * 8),
    ],
)
async def test_shares_are_equal(
    server: RealServer, root: WireClient, partitions: int, count: int, sizes: list[int]
) -> None:
    await root.call(CreateTopic(STREAM, partitions, "wide"))
    await root.call(CreateConsumerGroup(STREAM, "wide", "g"))
    join = JoinConsumerGroup(STREAM, "wide", "g")
    async with members(server, count) as found:
        for member in found:
            await member.wire.send(*member.wire.encode(join))
        for member in found:
            assert (await member.wire.receive()).told == success()
        details = await root.call(GetConsumerGroup(STREAM, "wide", "g"))
        lists = [member.partitions for member in details.members]
        assert sorted(map(len, lists), reverse=True) == sizes
        assert sorted(number for numbers in lists for number in numbers) == list(range(partitions))


async def test_what_is_in_flight_waits_for_its_commit(three: list[Member]) -> None:
    one, two, other = three
    root = other.wire
    await one.join()
    for partition in (0, 1, 2):
        assert await one.poll(partition) == [0]
    await two.join()
    assert await owned(root) == {0: [0, 1, 2], 1: []}
    assert await one.sync() == (2, [0, 1])
    assert await two.sync() == (2, [])
    assert await one.poll(2) is None
    assert await two.poll(2) is None
    assert await two.store(2, 0) == status(5009)
    assert await two.forget(2) == status(5009)
    assert await one.store(2, 0) == success()
    assert await owned(root) == {0: [0, 1], 1: [2]}
    assert await one.store(2, 0) == status(5009)
    assert await two.poll(2) == [1]


async def test_what_is_committed_by_polling_moves_at_once(three: list[Member]) -> None:
    one, two, _ = three
    await one.join()
    for partition in (0, 1, 2):
        await one.poll(partition, commit=True)
    await two.join()
    assert await two.sync() == (2, [2])
    assert await two.poll(2) == [1]


async def test_who_never_commits_loses_the_partition_in_time(
    clock: ManualClock, three: list[Member]
) -> None:
    one, two, third = three
    await one.join()
    for partition in (0, 1, 2):
        await one.poll(partition)
    await two.join()
    await clock.advance(2)
    await third.join()
    await clock.advance(0.9)
    assert await one.sync() == (3, [0])
    assert await two.sync() == (3, [])
    await clock.advance(0.1)
    assert await two.sync() == (4, [2])
    assert await two.poll(2) == [0]
    assert await one.store(2, 0) == status(5009)
    assert await third.sync() == (4, [])
    await clock.advance(2)
    assert await third.sync() == (5, [1])
    assert await owned(one.wire) == {0: [0], 1: [2], 2: [1]}


async def test_handoffs_end_in_time_whatever_was_before(
    clock: ManualClock, three: list[Member]
) -> None:
    one, two, _ = three
    generation = 0
    for _ in range(3):
        await one.join()
        await one.forget(2)
        await one.poll(2, start=PollingStrategy.first())
        await two.join()
        await clock.advance(1)
        assert await one.store(2, 0) == success()
        await two.leave()
        await one.poll(2, start=PollingStrategy.last())
        await two.join()
        await clock.advance(2.9)
        generation += 5
        assert await two.sync() == (generation, [])
        await clock.advance(0.1)
        generation += 1
        assert await two.sync() == (generation, [2])
        await clock.advance(5)
        await two.leave()
        await one.leave()
        generation += 2


@pytest.mark.parametrize("leaver", [0, 1])
async def test_a_member_that_leaves_ends_handoffs(three: list[Member], leaver: int) -> None:
    one, two, third = three
    await one.join()
    for partition in (0, 1, 2):
        await one.poll(partition)
    await two.join()
    await third.join()
    assert await third.sync() == (3, [])
    await three[leaver].leave()
    stayed = [member for member in three if member is not three[leaver]]
    assert [await member.sync() for member in stayed] == [(4, [0, 2]), (4, [1])]
    assert await stayed[0].poll(2) == [0]


async def test_partitions_are_added_and_removed(three: list[Member]) -> None:
    one, two, _ = three
    root = three[2].wire
    await one.join()
    for partition in (0, 1, 2):
        await one.poll(partition)
    await two.join()
    await root.call(CreatePartitions(STREAM, TOPIC, 3))
    assert await owned(root) == {0: [0, 2, 4], 1: [1, 3, 5]}
    assert await one.sync() == (3, [0, 2, 4])
    assert await two.poll(5) == []
    await root.call(DeletePartitions(STREAM, TOPIC, 3))
    assert await one.sync() == (4, [0, 2])
    assert await two.poll(5) is None
    assert await two.store(5, 0) == status(5009)
    await root.call(DeletePartitions(STREAM, TOPIC, 3))
    assert await one.sync() == (5, [])
    details = await root.call(GetConsumerGroup(STREAM, TOPIC, GROUP))
    assert details.group.partitions_count == 0


@pytest.mark.parametrize("purge", [PurgeTopic(STREAM, TOPIC), PurgeStream(STREAM)])
async def test_a_purge_ends_handoffs_and_forgets_offsets(
    three: list[Member], purge: object
) -> None:
    one, two, other = three
    await one.join()
    for partition in (0, 1, 2):
        await one.poll(partition, 3, commit=partition == 0)
    await two.join()
    assert await two.sync() == (2, [])
    await other.wire.call(purge)
    assert await one.stored(0) is None
    assert await two.sync() == (3, [2])
    assert await one.sync() == (3, [0, 1])
    await fill(other.wire, [0, 2])
    assert await one.poll(0) == [0]
    assert await two.poll(2) == [0]


@pytest.mark.parametrize("delete", [DeleteTopic(STREAM, TOPIC), DeleteStream(STREAM)])
@pytest.mark.parametrize("partitions", [3, 0])
async def test_a_deleted_topic_leaves_nothing_of_its_groups(
    three: list[Member], delete: object, partitions: int
) -> None:
    one, two, other = three
    root = other.wire
    if not partitions:
        await root.call(DeletePartitions(STREAM, TOPIC, 3))
    await one.join()
    await two.join()
    await root.call(delete)
    gone = 1009 if isinstance(delete, DeleteStream) else 2010
    for member in (one, two):
        assert (await member.wire.call(GetMe())).memberships == ()
        assert await member.poll(0) is None
        assert await member.sync() is None
        assert await member.join() == result(gone)
        assert await member.leave() == result(gone)
        assert await member.store(0, 0) == status(20)
    assert await root.told(GetConsumerGroup(STREAM, TOPIC, GROUP)) == status(gone)
    if isinstance(delete, DeleteStream):
        await root.call(CreateStream(STREAM))
    await root.call(CreateTopic(STREAM, 3, "events"))
    assert (await root.call(CreateConsumerGroup(STREAM, TOPIC, GROUP))).group.id == 0
    assert await owned(root) == {}
    assert await one.sync() is None


async def test_new_names_do_not_touch_groups(three: list[Member]) -> None:
    member, root = three[0], three[2].wire
    await member.join()
    await root.call(UpdateStream(STREAM, "renamed"))
    assert await member.sync() is None
    assert await member.poll(0) is None
    assert await member.join() == result(1009)
    await root.call(UpdateTopic("renamed", TOPIC, "also"))
    assignment = await member.wire.call(SyncConsumerGroup("renamed", "also", GROUP))
    assert (assignment.generation, assignment.partitions) == (1, (0, 1, 2))


# --- Polls that have to wait for the disk --------------------------------------------------------


class SlowPolls:
    """Polls that read from the disk are answered when a test lets them."""

    def __init__(self) -> None:
        self.waiting = asyncio.Event()
        self.may_go_on = asyncio.Event()

    def poll(self, services: Services, connection: Connection, request: PollMessages) -> Any:
        answer = HANDLERS[PollMessages](services, connection, request)
        return self._hold(answer) if isinstance(answer, CoroutineType) else answer

    async def _hold(self, answer: Awaitable[Any]) -> Any:
        self.waiting.set()
        await self.may_go_on.wait()
        return await answer


async def let_it_move(one: Member, two: Member) -> None:
    await two.join()
    assert await two.sync() == (2, [2])


async def purge_it(_: Member, two: Member) -> None:
    await two.wire.call(PurgeTopic(STREAM, TOPIC))


async def delete_it(_: Member, two: Member) -> None:
    await two.wire.call(DeleteTopic(STREAM, TOPIC))


async def leave_it_alone(_: Member, two: Member) -> None:
    await two.wire.call(GetMe())


@pytest.mark.parametrize("happens", [let_it_move, purge_it, delete_it, leave_it_alone])
async def test_what_happens_while_a_poll_waits_for_the_disk(
    tmp_path: Path, happens: Callable[[Member, Member], Awaitable[None]]
) -> None:
    polls = SlowPolls()
    async with (
        real_server(
            tmp_path,
            settings={"storage": {"tail_memory": 0}},
            handlers={**HANDLERS, PollMessages: polls.poll},
        ) as server,
        members(server, 2) as (one, two),
    ):
        await one.wire.call(CreateStream(STREAM))
        await one.wire.call(CreateTopic(STREAM, 3, "events"))
        await one.wire.call(CreateConsumerGroup(STREAM, TOPIC, GROUP))
        for _ in range(3):
            await fill(one.wire, [2], 1, bytes(1 << 20))
        await one.join()
        await one.wire.send(*one.wire.encode(one.poll_request(2, 3, commit=True)))
        async with asyncio.timeout(5):
            await polls.waiting.wait()
        await happens(one, two)
        polls.may_go_on.set()
        answer = await one.wire.receive()
        assert answer.header.status == 0
        if happens is leave_it_alone:
            assert answer.body[:16] == bytes.fromhex("02000000 0200000000000000 03000000")
            assert await one.stored(2) == 2
        else:
            assert answer.body == bytes.fromhex("ffffffff 0000000000000000 00000000")
        if happens is let_it_move:
            assert await two.stored(2) is None
            assert await two.poll(2, 3) == [0, 1, 2]
        if happens is purge_it:
            assert await one.stored(2) is None
            assert await one.sync() == (1, [0, 1, 2])


# --- Restarts ------------------------------------------------------------------------------------


async def test_a_restart_keeps_groups_and_offsets_but_no_members(tmp_path: Path) -> None:
    async with real_server(tmp_path) as server, server.client("iggy", "iggy") as wire:
        await wire.call(CreateStream(STREAM))
        await wire.call(CreateTopic(STREAM, 3, "events"))
        await fill(wire, [0, 1, 2])
        for name in (GROUP, "b", "c", "d"):
            await wire.call(CreateConsumerGroup(STREAM, TOPIC, name))
        for name in ("b", "d"):
            await wire.call(DeleteConsumerGroup(STREAM, TOPIC, name))
        member = Member(wire)
        await member.join()
        assert await member.poll(0, 4, commit=True) == [0, 1, 2, 3]
        assert await member.poll(1, 4) == [0, 1, 2, 3]
    async with real_server(tmp_path) as server, server.client("iggy", "iggy") as wire:
        groups = await wire.call(GetConsumerGroups(STREAM, TOPIC))
        assert [(group.id, group.name) for group in groups] == [(0, GROUP), (2, "c")]
        assert await owned(wire) == {}
        member = Member(wire)
        assert await member.sync() is None
        await member.join()
        assert await member.poll(0) == [4]
        assert await member.poll(1) == [0]
        details = await wire.call(CreateConsumerGroup(STREAM, TOPIC, "b"))
        assert details.group.id == 4
