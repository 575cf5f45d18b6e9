"""Consumer groups, answer by answer: commands and membership (spec 05, 3 to 5 and 15)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.clock import ManualClock
from support.group_members import (
    GROUP,
    STREAM,
    TOPIC,
    Member,
    fill,
    login_as,
    members,
    owned,
    until_connections,
    until_members,
)
from support.real_server import RealServer, real_server
from support.wire_client import VERSION, Answer, WireClient, evicted, result, status, success
from windsprite_protocol.model.groups import (
    ConsumerGroup,
    ConsumerGroupDetails,
    CreateConsumerGroup,
    DeleteConsumerGroup,
    GetConsumerGroup,
    GetConsumerGroups,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    SyncConsumerGroup,
)
from windsprite_protocol.model.permissions import (
    GlobalPermissions,
    Permissions,
)
from windsprite_protocol.model.sessions import Login, Logout
from windsprite_protocol.model.streams import CreateStream
from windsprite_protocol.model.system import (
    GetClient,
    GetClients,
    GetMe,
    GetStats,
    GroupMembership,
)
from windsprite_protocol.model.topics import (
    CreateTopic,
    DeletePartitions,
    DeleteTopic,
)
from windsprite_protocol.model.users import CreateUser, DeleteUser, UpdatePermissions

GET, LIST, CREATE, DELETE, JOIN, LEAVE, SYNC = range(600, 607)
POLL, STORE_OFFSET = 100, 121
GROUP_COMMANDS = [GET, LIST, CREATE, DELETE, JOIN, LEAVE, SYNC]
CHANGES = [CREATE, DELETE, JOIN, LEAVE]

TARGET = bytes.fromhex("02066f7264657273 010400000000")
BILLING = bytes.fromhex("020762696c6c696e67")
BILLING_NAME = bytes.fromhex("0762696c6c696e67")

CLIENT_OF_THE_EXAMPLES = bytes(range(16))

EVERYTHING = Permissions(GlobalPermissions(read_streams=True))
MISSING_STREAM = ("missing", TOPIC)
MISSING_TOPIC = (STREAM, "missing")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def server(tmp_path: Path, clock: ManualClock) -> AsyncIterator[RealServer]:
    async with real_server(tmp_path, clock=clock) as server:
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


def without_our_own_fields(answer: Answer) -> bytes:
    """A frame without the cluster id and the time of the commit, where the examples have zeros."""
    data = answer.data
    return data[:0x20] + bytes(16) + data[0x30:0xC0] + bytes(8) + data[0xC8:]


# --- Byte for byte (spec 05, 15) -----------------------------------------------------------------


async def test_the_bytes_of_a_creation(root: WireClient) -> None:
    body = TARGET + BILLING_NAME
    assert len(body) == 22
    answer = await root.ask_code(CREATE, body)
    assert answer.body == bytes.fromhex("00000000 00000000 03000000 00000000") + BILLING_NAME
    assert answer.header.operation == 139
    again = await root.ask_code(CREATE, body)
    assert again.body == bytes.fromhex("01000000 00000000 8c130000")
    assert (again.header.operation, again.header.status) == (139, 0)
    assert again.header.commit > answer.header.commit


async def test_the_bytes_of_a_join(server: RealServer, billing: WireClient) -> None:
    async with server.client() as wire:
        await login_as(wire, CLIENT_OF_THE_EXAMPLES)
        checksum = bytes.fromhex("d079ba2c9e63d6f3 0000000000000000")
        await wire.send(*wire.frame(148, TARGET + BILLING, request=3, request_checksum=checksum))
        answer = await wire.receive()
    expected = bytearray(260)
    expected[0x30:0x40] = bytes.fromhex("0401000000000000 0000000008000000")
    expected[0x80:0x90] = checksum
    expected[0xA0:0xB0] = CLIENT_OF_THE_EXAMPLES
    expected[0xB0:0xC0] = answer.header.commit.to_bytes(8, "little") * 2
    expected[0xC8] = 3
    expected[0xD0] = 148
    assert without_our_own_fields(answer) == expected
    assert answer.header.commit == (await billing.answer_to(GetMe())).header.commit


async def test_the_bytes_of_failures(billing: WireClient) -> None:
    missing = bytes.fromhex("0204 6e6f6e65")
    for code, operation in ((JOIN, 148), (LEAVE, 149), (DELETE, 140)):
        answer = await billing.ask_code(code, TARGET + missing)
        assert answer.body == bytes.fromhex("01000000 00000000 88130000")
        assert (answer.header.size, answer.header.operation) == (268, operation)
    answer = await billing.ask_code(LEAVE, TARGET + BILLING)
    assert answer.body == bytes.fromhex("01000000 00000000 8e130000")


async def test_the_bytes_of_a_sync(server: RealServer, billing: WireClient) -> None:
    async with members(server, 2) as (other, third), server.client() as wire:
        await login_as(wire, CLIENT_OF_THE_EXAMPLES)
        member = Member(wire)
        await member.join()
        await other.join()
        await third.join()
        await third.leave()
        await third.join()
        await third.leave()
        await wire.send(*wire.frame(2, TARGET + BILLING, code=SYNC, request=4))
        answer = await wire.receive()
    expected = bytearray(276)
    expected[0x30:0x40] = bytes.fromhex("1401000000000000 0000000008000000")
    expected[0xA0:0xB0] = CLIENT_OF_THE_EXAMPLES
    expected[0xB0:0xC0] = answer.header.commit.to_bytes(8, "little") * 2
    expected[0xC8] = 4
    expected[0xD0] = 2
    # Two members share three partitions: by turns, since others left.
    expected[0x100:] = bytes.fromhex("0600000000000000 02000000 00000000 02000000")
    assert without_our_own_fields(answer) == expected


async def test_the_bytes_of_other_syncs(three: list[Member]) -> None:
    one, two, other = three
    await one.join()
    answer = await one.wire.ask_code(SYNC, TARGET + BILLING)
    assert answer.body == bytes.fromhex("0100000000000000 03000000 00000000 01000000 02000000")
    await two.wire.call(DeletePartitions(STREAM, TOPIC, 2))
    await two.join()
    answer = await two.wire.ask_code(SYNC, TARGET + BILLING)
    assert answer.body == bytes.fromhex("0300000000000000 00000000")
    answer = await other.wire.ask_code(SYNC, TARGET + BILLING)
    assert (answer.body, answer.header.size) == (b"", 256)


async def test_the_bytes_of_a_group_with_members(three: list[Member]) -> None:
    for member in three[:2]:
        await member.join()
    answer = await three[2].wire.ask_code(GET, TARGET + BILLING)
    assert answer.body == bytes.fromhex(
        "00000000 03000000 02000000 0762696c6c696e67"
        "00000000 02000000 00000000 01000000"
        "01000000 01000000 02000000"
    )


async def test_the_bytes_of_a_list(three: list[Member]) -> None:
    root = three[2].wire
    for name in ("other", "audit"):
        await root.call(CreateConsumerGroup(STREAM, TOPIC, name))
    await root.call(DeleteConsumerGroup(STREAM, TOPIC, "other"))
    for member in three[:2]:
        await member.join()
    answer = await root.ask_code(LIST, TARGET)
    assert answer.body == bytes.fromhex(
        "00000000 03000000 02000000 0762696c6c696e67 02000000 03000000 00000000 056175646974"
    )


async def test_the_bytes_of_a_poll_that_is_fenced(billing: WireClient) -> None:
    body = bytes.fromhex("02") + BILLING + TARGET
    body += bytes.fromhex("01 02000000 05 0000000000000000 0a000000 01")
    assert len(body) == 43
    answer = await billing.ask_code(POLL, body)
    assert answer.body == bytes.fromhex("ffffffff 0000000000000000 00000000")
    assert answer.header.status == 0


async def test_the_bytes_of_an_offset_that_is_not_owned(billing: WireClient) -> None:
    body = bytes.fromhex("02") + BILLING + TARGET
    body += bytes.fromhex("01 02000000 2900000000000000 01")
    assert len(body) == 38
    answer = await billing.ask_code(STORE_OFFSET, body)
    assert answer.body == b""
    assert answer.data[0xD0:0xE0] == bytes.fromhex("a100000000000000 9113000000000000")


async def test_an_exchange_of_three_clients(server: RealServer, three: list[Member]) -> None:
    root = three[0].wire
    async with members(server, 1) as (a,):
        _, b, c = three
        assert await a.join() == success()
        assert await a.sync() == (1, [0, 1, 2])
        assert await a.poll(0) == [0]
        assert await b.join() == success()
        assert await owned(root) == {0: [0, 1], 1: [2]}
        assert await a.poll(1) == [0]
        assert await a.poll(2) is None
        assert await a.sync() == (2, [0, 1])
        assert await c.join() == success()
        assert await owned(root) == {0: [0, 1], 1: [2], 2: []}
        assert await c.sync() == (3, [])
        assert await a.poll(1) is None
        assert await a.store(1, 0) == success()
        assert await owned(root) == {0: [0], 1: [2], 2: [1]}
        assert await c.sync() == (4, [1])
        assert await a.store(1, 0) == status(5009)
    await until_members(root, 2)
    assert await owned(root) == {1: [0, 2], 2: [1]}
    assert await b.sync() == (5, [0, 2])
    assert await b.poll(0) == [0]


# --- Creating, deleting, telling -----------------------------------------------------------------


async def test_ids_are_not_given_twice(root: WireClient) -> None:
    async def make(name: str) -> int:
        details = await root.call(CreateConsumerGroup(STREAM, TOPIC, name))
        assert details == ConsumerGroupDetails(ConsumerGroup(details.group.id, 3, 0, name), ())
        return details.group.id

    assert [await make(name) for name in "abc"] == [0, 1, 2]
    await root.call(DeleteConsumerGroup(STREAM, TOPIC, "b"))
    groups = await root.call(GetConsumerGroups(STREAM, TOPIC))
    assert [(group.id, group.name) for group in groups] == [(0, "a"), (2, "c")]
    assert await make("b") == 3
    await root.call(DeleteTopic(STREAM, TOPIC))
    await root.call(CreateTopic(STREAM, 3, "events"))
    assert await root.call(GetConsumerGroups(STREAM, TOPIC)) == ()
    assert await make("b") == 0


async def test_names_and_numbers_are_different(root: WireClient) -> None:
    for name in ("7", "0", "x" * 255, "Ä", "ä", " a ", "a"):
        assert (await root.told(CreateConsumerGroup(STREAM, TOPIC, name))).channel == "success"
    for asked, group_id in (("7", 0), (0, 0), ("0", 1), (1, 1), ("ä", 4), (" a ", 5), ("a", 6)):
        details = await root.call(GetConsumerGroup(STREAM, TOPIC, asked))
        assert details.group.id == group_id
    assert await root.call(GetConsumerGroup(STREAM, TOPIC, 7)) is None
    assert await root.call(GetConsumerGroup(STREAM, "events", "1")) is None


async def test_a_group_that_exists_is_left_alone(billing: WireClient, three: list[Member]) -> None:
    await three[0].join()
    before = await three[0].sync()
    assert await billing.told(CreateConsumerGroup(STREAM, TOPIC, GROUP)) == result(5004)
    assert await three[0].sync() == before


async def test_groups_of_two_topics_are_not_related(billing: WireClient) -> None:
    await billing.call(CreateTopic(STREAM, 2, "other"))
    assert await billing.call(GetConsumerGroup(STREAM, "other", GROUP)) is None
    await billing.call(CreateConsumerGroup(STREAM, "other", GROUP))
    await billing.call(JoinConsumerGroup(STREAM, "other", GROUP))
    assert await owned(billing) == {}


async def test_a_deleted_group_takes_its_members_with_it(three: list[Member]) -> None:
    root = three[2].wire
    for member in three:
        await member.join()
    assert await three[0].poll(0, commit=True) == [0]
    assert await root.told(DeleteConsumerGroup(STREAM, TOPIC, 0)) == success()
    assert await root.told(DeleteConsumerGroup(STREAM, TOPIC, 0)) == result(5000)
    for member in three:
        assert await member.poll(0) is None
        assert await member.sync() is None
        assert await member.join() == result(5000)
        assert await member.store(0, 0) == status(5003)
        assert (await member.wire.call(GetMe())).memberships == ()
    assert await three[0].stored(0) is None
    await root.call(CreateConsumerGroup(STREAM, TOPIC, GROUP))
    assert await three[0].stored(0) is None
    assert await three[0].sync() is None
    await three[0].join()
    assert await three[0].sync() == (1, [0, 1, 2])
    assert await three[0].poll(0) == [0]


# --- Who is told what ----------------------------------------------------------------------------

REQUESTS_OF_GROUPS = [GetConsumerGroup, JoinConsumerGroup, LeaveConsumerGroup, DeleteConsumerGroup]


@pytest.mark.parametrize("request_type", REQUESTS_OF_GROUPS)
async def test_what_is_missing(billing: WireClient, request_type: type) -> None:
    told = status if request_type is GetConsumerGroup else result
    no_group = success() if request_type is GetConsumerGroup else result(5000)
    assert await billing.told(request_type("missing", TOPIC, GROUP)) == told(1009)
    assert await billing.told(request_type(99, "missing", GROUP)) == told(1009)
    assert await billing.told(request_type(STREAM, "missing", GROUP)) == told(2010)
    assert await billing.told(request_type(STREAM, 99, GROUP)) == told(2010)
    assert await billing.told(request_type(STREAM, TOPIC, "missing")) == no_group
    assert await billing.told(request_type(STREAM, TOPIC, 99)) == no_group


async def test_what_is_missing_for_lists_and_creations(root: WireClient) -> None:
    assert await root.told(GetConsumerGroups(*MISSING_STREAM)) == status(1009)
    assert await root.told(GetConsumerGroups(*MISSING_TOPIC)) == status(2010)
    assert await root.told(GetConsumerGroups(STREAM, TOPIC)) == success()
    assert await root.told(CreateConsumerGroup(*MISSING_STREAM, "g")) == result(1009)
    assert await root.told(CreateConsumerGroup(*MISSING_TOPIC, "g")) == result(2010)


async def test_a_sync_says_nothing_else(billing: WireClient) -> None:
    for place in (MISSING_STREAM, MISSING_TOPIC, (STREAM, TOPIC)):
        for group in (GROUP, 0, "missing", 99):
            assert await billing.told(SyncConsumerGroup(*place, group)) == success()


@pytest.mark.parametrize("body", [b"", TARGET, TARGET + b"\x03\x01a", TARGET + b"\x01\x03abc"])
@pytest.mark.parametrize("code", GROUP_COMMANDS)
async def test_bodies_that_cannot_be_read(billing: WireClient, code: int, body: bytes) -> None:
    if code == LIST and body:
        body = body[:10]
    if code == CREATE and body:
        body = TARGET + b"\x00"
    before = await billing.call(GetConsumerGroups(STREAM, TOPIC))
    answer = await billing.ask_code(code, body)
    assert answer.told == (success() if code == SYNC else status(3))
    assert await billing.call(GetConsumerGroups(STREAM, TOPIC)) == before


@pytest.mark.parametrize("code", [GET, JOIN, LEAVE, SYNC, LIST])
async def test_bytes_behind_the_last_field_are_ignored(three: list[Member], code: int) -> None:
    await three[0].join()
    wire = three[0].wire
    body = TARGET if code == LIST else TARGET + BILLING
    assert (await wire.ask_code(code, body + b"more")).told.channel == "success"


@pytest.mark.parametrize("code", CHANGES)
async def test_changes_have_operations_of_their_own(billing: WireClient, code: int) -> None:
    body = TARGET + (BILLING_NAME if code == CREATE else BILLING)
    assert (await billing.ask(2, body, code=code)).told == status(5)
    assert await owned(billing) == {}


@pytest.mark.parametrize("code", GROUP_COMMANDS)
async def test_nobody_is_logged_in(server: RealServer, billing: WireClient, code: int) -> None:
    body = TARGET + (BILLING_NAME if code == CREATE else BILLING)
    async with server.client() as wire:
        wire.session = 9
        answer = await wire.ask_code(code, body)
    assert answer.told == (evicted(1) if code in CHANGES else status(40))


async def test_existence_comes_before_permission_but_not_that_of_groups(
    server: RealServer, billing: WireClient
) -> None:
    await billing.call(CreateUser("alice", "secret"))
    async with server.client("alice", "secret") as alice:
        for group in (GROUP, "missing"):
            assert await alice.told(GetConsumerGroup(STREAM, TOPIC, group)) == status(41)
            for request in (JoinConsumerGroup, LeaveConsumerGroup, DeleteConsumerGroup):
                assert await alice.told(request(STREAM, TOPIC, group)) == result(41)
            assert await alice.told(SyncConsumerGroup(STREAM, TOPIC, group)) == success()
        assert await alice.told(GetConsumerGroups(STREAM, TOPIC)) == status(41)
        for name in (GROUP, "new"):
            assert await alice.told(CreateConsumerGroup(STREAM, TOPIC, name)) == result(41)
        for request in REQUESTS_OF_GROUPS:
            told = status if request is GetConsumerGroup else result
            assert await alice.told(request(*MISSING_STREAM, GROUP)) == told(1009)
            assert await alice.told(request(*MISSING_TOPIC, GROUP)) == told(2010)


# --- Membership ----------------------------------------------------------------------------------


async def test_joining_and_leaving_twice(three: list[Member]) -> None:
    member, root = three[0], three[2].wire
    assert await member.join() == success()
    assert await member.join() == success()
    assert await Member(member.wire, 0).join() == success()
    assert await member.sync() == (1, [0, 1, 2])
    assert await owned(root) == {0: [0, 1, 2]}
    assert await member.leave() == success()
    assert await member.leave() == result(5006)
    assert await member.sync() is None
    assert await owned(root) == {}


async def test_who_is_a_member_of_what_is_told(server: RealServer, three: list[Member]) -> None:
    root, member = three[2].wire, three[0]
    await root.call(CreateTopic(STREAM, 1, "other"))
    await root.call(CreateConsumerGroup(STREAM, "other", "g"))
    await root.call(CreateConsumerGroup(STREAM, TOPIC, "more"))
    await member.wire.call(JoinConsumerGroup(STREAM, "other", "g"))
    await member.wire.call(JoinConsumerGroup(STREAM, TOPIC, "more"))
    await member.join()
    me = await member.wire.call(GetMe())
    assert me.memberships == tuple(GroupMembership(0, *ids) for ids in ((0, 0), (0, 1), (1, 0)))
    assert me.info.consumer_groups_count == 3
    assert await root.call(GetClient(me.info.client_id)) == me
    clients = {client.client_id: client for client in await root.call(GetClients())}
    assert clients[me.info.client_id] == me.info
    assert sorted(client.consumer_groups_count for client in clients.values()) == [0, 0, 0, 3]
    assert (await root.call(GetStats())).consumer_groups_count == 3
    async with server.client() as stranger:
        await stranger.answer_to(GetMe())
        counts = [client.consumer_groups_count for client in await root.call(GetClients())]
        assert sorted(counts) == [0, 0, 0, 0, 3]


async def test_a_logout_ends_all_memberships(three: list[Member]) -> None:
    one, two, other = three
    root = other.wire
    await root.call(CreateConsumerGroup(STREAM, TOPIC, "more"))
    for group in (GROUP, "more"):
        for member in (one, two):
            await member.wire.call(JoinConsumerGroup(STREAM, TOPIC, group))
    assert await one.wire.told(Logout()) == success()
    assert await owned(root) == {1: [0, 1, 2]}
    assert await owned(root, "more") == {1: [0, 1, 2]}
    assert await one.wire.told(SyncConsumerGroup(*one.place)) == status(40)
    assert await one.wire.told(one.poll_request(0)) == status(40)
    await one.wire.login()
    assert await one.sync() is None


async def test_a_closed_connection_ends_all_memberships(
    server: RealServer, three: list[Member]
) -> None:
    root = three[2].wire
    await three[0].join()
    async with members(server, 1) as (short,):
        await short.join()
        assert await owned(root) == {0: [0, 1], 1: [2]}
    await until_members(root, 1)
    assert await owned(root) == {0: [0, 1, 2]}


async def test_another_login_on_the_same_connection_changes_nothing(three: list[Member]) -> None:
    member = three[0]
    await member.join()
    session = member.wire.session
    again = await member.wire.call(Login(VERSION, "iggy", "iggy"))
    assert again.session == session
    assert await member.sync() == (1, [0, 1, 2])


async def test_a_session_that_moves_keeps_its_memberships(
    server: RealServer, three: list[Member]
) -> None:
    root = three[2].wire
    async with server.client() as new:
        async with members(server, 1) as (old,):
            await old.join()
            await login_as(new, old.wire.client)
            assert new.session > old.wire.session
            assert await Member(new).sync() == (1, [0, 1, 2])
            assert await old.wire.told(SyncConsumerGroup(*old.place)) == status(40)
        await until_connections(root, 5)
        assert await Member(new).sync() == (1, [0, 1, 2])
        assert await Member(new).poll(1) == [0]
    await until_members(root, 0)


async def test_a_session_of_somebody_else_is_not_taken_over(
    server: RealServer, three: list[Member]
) -> None:
    await three[0].join()
    await three[2].wire.call(CreateUser("alice", "secret"))
    async with server.client() as thief:
        thief.client = three[0].wire.client
        assert await thief.told(Login(VERSION, "alice", "secret")) == evicted(12)
    assert await three[0].sync() == (1, [0, 1, 2])


async def test_the_client_in_the_header_does_not_say_who_polls(three: list[Member]) -> None:
    member, other, _ = three
    await member.join()
    other.wire.client = member.wire.client
    assert await other.sync() is None
    assert await other.poll(0) is None


async def test_a_deleted_user_is_no_member_any_more(
    server: RealServer, billing: WireClient
) -> None:
    await billing.call(CreateUser("alice", "secret", permissions=EVERYTHING))
    async with server.client("alice", "secret") as wire:
        assert await Member(wire).join() == success()
        assert await owned(billing) == {0: [0, 1, 2]}
        await billing.call(DeleteUser("alice"))
        assert await owned(billing) == {}


async def test_a_right_that_is_taken_away_and_given_back(
    server: RealServer, billing: WireClient
) -> None:
    await fill(billing, [0])
    await billing.call(CreateUser("alice", "secret", permissions=EVERYTHING))
    async with server.client("alice", "secret") as wire:
        member = Member(wire)
        await member.join()
        await billing.call(UpdatePermissions("alice", None))
        assert await owned(billing) == {0: [0, 1, 2]}
        assert await member.wire.told(member.poll_request(0)) == status(41)
        assert await member.store(0, 0) == status(41)
        assert await member.join() == result(41)
        assert await member.leave() == result(41)
        assert await member.sync() == (1, [0, 1, 2])
        await billing.call(UpdatePermissions("alice", EVERYTHING))
        assert await member.join() == success()
        assert await member.poll(0) == [0]
