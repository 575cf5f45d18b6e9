"""Users, permissions and passwords, answer by answer (spec 06, 3 and 9; spec 02, 3.1)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.clock import ManualClock
from support.real_server import RealServer, real_server
from support.wire_client import WireClient, evicted, result, status, success
from windsprite_protocol.model.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from windsprite_protocol.model.streams import CreateStream, DeleteStream, GetStream, GetStreams
from windsprite_protocol.model.tokens import CreateToken, DeleteToken, GetTokens
from windsprite_protocol.model.topics import CreateTopic, DeleteTopic, GetTopic
from windsprite_protocol.model.typed_values import Option, TypedValue, ValueKind
from windsprite_protocol.model.users import (
    ChangePassword,
    CreateUser,
    DeleteUser,
    GetUser,
    GetUsers,
    UpdatePermissions,
    UpdateUser,
    User,
    UserDetails,
    UserStatus,
)
from windsprite_protocol.v0_11.calling import EvictedError

SECOND = 1_000_000
NEW_YEAR_US = 1_767_225_600_000_000
INVALID_CREDENTIALS = 9

MANAGER = Permissions(GlobalPermissions(manage_users=True))
OPTION = (Option("colour", TypedValue(ValueKind.STRING, b"red")),)
UNREADABLE = b"\xff"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RealServer]:
    async with real_server(tmp_path) as server:
        yield server


@pytest.fixture
async def root(server: RealServer) -> AsyncIterator[WireClient]:
    async with server.client("iggy", "iggy") as client:
        yield client


@pytest.fixture
async def alice(server: RealServer, root: WireClient) -> AsyncIterator[WireClient]:
    """A user with the id 1 who may do nothing."""
    await root.call(CreateUser("alice", "secret-a"))
    async with server.client("alice", "secret-a") as client:
        yield client


async def can_log_in(server: RealServer, username: str, password: str) -> bool:
    try:
        async with server.client(username, password):
            return True
    except EvictedError as error:
        if error.reason != INVALID_CREDENTIALS:
            raise
        return False


def journal_size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("journal.db*"))


# Byte for byte, as the specification has them


async def test_the_worked_examples(tmp_path: Path) -> None:
    clock = ManualClock(NEW_YEAR_US - SECOND)
    async with real_server(tmp_path, clock=clock) as server, server.client("iggy", "iggy") as root:
        await clock.advance(1)
        answer = await root.ask_code(
            33,
            bytes.fromhex(
                "05616c696365097333637265742d707701013500000000000000000100000000"
                "0103000000000100000100010700000000000001010900000000010100000105"
                "0000000100000000000000"
            ),
        )
        assert answer.header.operation == 141
        assert answer.body.hex() == (
            "000000000100000000402046484706000105616c696365000000000135000000"
            "0000000000010000000001030000000001000001000107000000000000010109"
            "000000000101000001050000000100000000000000"
        )
        await clock.advance(1)
        bob = await root.ask_code(33, bytes.fromhex("03626f620768756e746572320200"))
        assert bob.told == success(
            bytes.fromhex("0200000040822f46484706000203626f620000000000000000")
        )

        async def reply(code: int, request: str = "") -> str:
            answer = await root.ask_code(code, bytes.fromhex(request))
            assert answer.header.status == 0
            return answer.body.hex()

        assert await reply(31, "0205616c696365") == (
            "0100000000402046484706000105616c69636500000000013500000000000000"
            "0001000000000103000000000100000100010700000000000001010900000000"
            "0101000001050000000100000000000000"
        )
        assert await reply(31, "010400000000") == (
            "00000000010000000000000001046967677900000000010b0000000101010101010101010100"
        )
        assert await reply(31, "0203626f62") == (
            "0200000040822f46484706000203626f620000000000000000"
        )
        assert await reply(32) == (
            "0000000001000000000000000104696767790000000001000000004020464847"
            "06000105616c696365000000000200000040822f46484706000203626f620000"
            "0000"
        )
        nothing_to_say = "00000000"
        assert await reply(35, "0104010000000106616c696365320102") == nothing_to_say
        assert await reply(35, "0104010000000000") == nothing_to_say
        assert await reply(36, "0203626f6200") == nothing_to_say
        assert await reply(36, "0203626f62010b0000000001000000000000000000") == nothing_to_say
        change = "010401000000097333637265742d70770a6e33772d736563726574"
        assert await reply(37, change) == nothing_to_say
        assert await reply(34, "0203626f62") == nothing_to_say
        assert await reply(34, "0203626f62") == "010000000000000014000000"
        taken = bytes.fromhex("06616c69636532036162630100")
        assert (await root.ask_code(33, taken)).body.hex() == "01000000000000002e000000"
        alice = await root.call(GetUser("alice2"))
        assert alice.user == User(1, NEW_YEAR_US, UserStatus.INACTIVE, "alice2")


# What is refused, in which order, and on which channel


async def test_what_cannot_be_read_is_refused(root: WireClient, alice: WireClient) -> None:
    for client in (root, alice):
        for code, operation in ((33, 141), (34, 143), (35, 142), (36, 145), (37, 144)):
            answer = await client.ask_code(code, UNREADABLE)
            assert answer.told == status(3)
            assert answer.header.operation == operation
            wrong_sum = b"\x01" * 16
            answer = await client.ask(operation, UNREADABLE, request_checksum=wrong_sum)
            assert answer.told == status(4)
        assert (await client.ask_code(31, UNREADABLE)).told == status(3)


async def test_nobody_does_anything_before_a_login(server: RealServer) -> None:
    async with server.client() as client:
        client.session = 1
        for read in (GetUsers(), GetUser(0), GetTokens()):
            assert await client.told(read) == status(40)
        for change in (
            CreateUser("bob", "secret"),
            UpdateUser(0, "bob"),
            DeleteUser("nobody"),
            UpdatePermissions(0, None),
            ChangePassword(0, "iggy", "iggy"),
            CreateToken("t", 0),
            DeleteToken("t"),
        ):
            assert await client.told(change) == evicted(1)
        await client.login()
        assert [user.username for user in await client.call(GetUsers())] == ["iggy"]


async def test_what_users_without_permissions_are_told(alice: WireClient, root: WireClient) -> None:
    before = await root.call(GetUsers())
    for request, answer in (
        (CreateUser("alice", "pw", options=OPTION), status(4041)),
        (CreateUser("xy", "pw"), status(44)),
        (CreateUser("carol", "x" * 101), status(44)),
        (CreateUser("xy", "secret"), result(41)),
        (CreateUser("alice", "secret"), result(41)),
        (UpdateUser("nobody", "xy", options=OPTION), status(4041)),
        (UpdateUser("nobody"), result(41)),
        (UpdateUser("alice", status=2), result(41)),
        (DeleteUser("nobody"), result(41)),
        (DeleteUser("iggy"), result(41)),
        (UpdatePermissions(99, MANAGER), result(41)),
        (UpdatePermissions("alice", MANAGER), result(41)),
        (UpdatePermissions(0, None), result(41)),
        (ChangePassword("iggy", "iggy", "x"), status(44)),
        (ChangePassword("iggy", "iggy", "secret"), result(41)),
        (ChangePassword("nobody", "iggy", "secret"), result(20)),
        (ChangePassword("alice", "wrong", "secret"), result(42)),
        (GetUser("iggy"), status(41)),
        (GetUser("nobody"), success()),
        (GetUsers(), status(41)),
    ):
        assert (request, await alice.told(request)) == (request, answer)
    assert await root.call(GetUsers()) == before


@pytest.mark.parametrize("manager", ["iggy", "manager"])
async def test_what_managers_are_told(
    server: RealServer, root: WireClient, alice: WireClient, manager: str
) -> None:
    await root.call(CreateUser("manager", "secret-m", 1, MANAGER))
    before = await root.call(GetUsers())
    cases = (
        (CreateUser("xy", "secret"), result(43)),
        (CreateUser("x" * 51, "secret"), result(43)),
        (CreateUser("あ" * 17, "secret"), result(43)),
        (CreateUser("alice", "secret"), result(46)),
        (CreateUser("iggy", "secret", 2, MANAGER), result(46)),
        (CreateUser("carol", "xy"), status(44)),
        (UpdateUser("nobody", "xy"), result(20)),
        (UpdateUser(99, "alice"), result(20)),
        (UpdateUser("alice", "xy", 2), result(43)),
        (UpdateUser("alice", "あ" * 17, 2), result(43)),
        (UpdateUser("alice", "iggy", 2), result(46)),
        (DeleteUser(99), result(20)),
        (DeleteUser(0), result(48)),
        (DeleteUser("iggy"), result(48)),
        (UpdatePermissions("nobody", None), result(20)),
        (UpdatePermissions(0, MANAGER), result(49)),
        (UpdatePermissions("iggy", None), result(49)),
        (ChangePassword("nobody", "secret", "secret"), result(20)),
        (ChangePassword("alice", "wrong", "secret"), result(42)),
        (ChangePassword("alice", "", "secret"), result(42)),
        (ChangePassword("alice", "secret-a", "x" * 101), status(44)),
    )
    async with server.client(manager, {"iggy": "iggy"}.get(manager, "secret-m")) as client:
        for request, answer in cases:
            assert (request, await client.told(request)) == (request, answer)
        assert await client.call(GetUsers()) == before
    assert (await alice.call(GetUser("alice"))).user.username == "alice"
    assert await can_log_in(server, "alice", "secret-a")


# What is done


async def test_a_user_is_shown_as_it_was_sent_and_kept_in_order(root: WireClient) -> None:
    sent = Permissions(
        GlobalPermissions(poll_messages=True),
        (
            StreamPermissions(9, read_stream=True),
            StreamPermissions(3, topics=(TopicPermissions(2), TopicPermissions(1, True))),
            StreamPermissions(9, send_messages=True),
        ),
    )
    created = await root.call(CreateUser("alice", "secret", 7, sent))
    assert created == UserDetails(User(1, created.user.created_at, 7, "alice"), sent)
    stored = await root.call(GetUser(1))
    assert stored.user.status == UserStatus.ACTIVE
    assert stored.permissions == Permissions(
        GlobalPermissions(poll_messages=True),
        (
            StreamPermissions(3, topics=(TopicPermissions(1, True), TopicPermissions(2))),
            StreamPermissions(9, send_messages=True),
        ),
    )


@pytest.mark.parametrize(
    ("username", "password"),
    [("abc", "xyz"), ("u" * 50, "p" * 100), ("あ" * 16, "é" * 50), (" A\0b ", "\0\n\U0001f415")],
)
async def test_any_name_and_password_of_the_right_length_can_be_used(
    server: RealServer, root: WireClient, username: str, password: str
) -> None:
    await root.call(CreateUser(username, password))
    assert await can_log_in(server, username, password)
    assert not await can_log_in(server, username.swapcase() + "!", password)
    assert not await can_log_in(server, username, password + " ")


async def test_an_update_keeps_what_it_does_not_name(server: RealServer, root: WireClient) -> None:
    created = await root.call(CreateUser("alice", "secret", 1, MANAGER))
    born = created.user.created_at
    for update, after in (
        (UpdateUser("alice"), User(1, born, 1, "alice")),
        (UpdateUser("alice", "alice"), User(1, born, 1, "alice")),
        (UpdateUser("alice", status=9), User(1, born, 1, "alice")),
        (UpdateUser("alice", "alicia"), User(1, born, 1, "alicia")),
        (UpdateUser(1, status=2), User(1, born, 2, "alicia")),
        (UpdateUser(1, status=2), User(1, born, 2, "alicia")),
        (UpdateUser("alicia", "alice", 1), User(1, born, 1, "alice")),
    ):
        assert await root.told(update) == success()
        assert await root.call(GetUser(1)) == UserDetails(after, MANAGER)
    assert await can_log_in(server, "alice", "secret")


async def test_a_name_and_an_id_are_free_after_a_deletion(
    server: RealServer, root: WireClient
) -> None:
    await root.call(CreateUser("alice", "secret-1"))
    await root.call(CreateUser("bob", "secret-2"))
    await root.call(DeleteUser("alice"))
    assert await root.call(GetUser(1)) is None
    assert not await can_log_in(server, "alice", "secret-1")
    assert (await root.call(CreateUser("alice", "secret-3"))).user.id == 1
    assert not await can_log_in(server, "alice", "secret-1")
    assert await can_log_in(server, "alice", "secret-3")
    assert [user.id for user in await root.call(GetUsers())] == [0, 1, 2]


async def test_everybody_changes_the_own_password(
    server: RealServer, root: WireClient, alice: WireClient
) -> None:
    token = await alice.call(CreateToken("t", 0))
    assert await alice.told(ChangePassword("alice", "secret-a", "secret-b")) == success()
    assert not await can_log_in(server, "alice", "secret-a")
    assert await can_log_in(server, "alice", "secret-b")
    assert await alice.told(ChangePassword(1, "secret-b", "secret-b")) == success()
    assert await root.told(ChangePassword(1, "secret-b", "secret-c")) == success()
    # The session and the tokens stay what they were.
    assert await alice.told(DeleteToken("t")) == success()
    assert token.token
    assert await can_log_in(server, "alice", "secret-c")


async def test_of_two_changes_of_a_password_at_once_one_wins(
    server: RealServer, alice: WireClient
) -> None:
    async with server.client("alice", "secret-a") as other:
        await alice.send(*alice.encode(ChangePassword(1, "secret-a", "secret-b")))
        await other.send(*other.encode(ChangePassword(1, "secret-a", "secret-c")))
        answers = [(await alice.receive()).told, (await other.receive()).told]
    assert sorted(answers, key=str) == [result(42), success()]
    winner = ("secret-b", "secret-c")[answers.index(success())]
    assert await can_log_in(server, "alice", winner)


# Sessions that are open


async def test_permissions_count_at_once_in_open_sessions(
    root: WireClient, alice: WireClient
) -> None:
    assert await alice.told(GetStreams()) == status(41)
    reader = Permissions(GlobalPermissions(read_streams=True))
    await root.call(UpdatePermissions("alice", reader))
    assert await alice.told(GetStreams()) == success()
    assert await alice.told(CreateStream("s")) == result(41)
    await root.call(UpdatePermissions("alice", Permissions(GlobalPermissions(manage_streams=True))))
    await alice.call(CreateStream("s"))
    await root.call(UpdatePermissions("alice", None))
    assert await alice.told(GetStreams()) == status(41)
    assert (await alice.call(GetUser("alice"))).permissions is None


async def test_a_manager_may_change_its_own_permissions(
    root: WireClient, alice: WireClient
) -> None:
    await root.call(UpdatePermissions("alice", MANAGER))
    more = Permissions(GlobalPermissions(manage_users=True, manage_streams=True))
    await alice.call(UpdatePermissions("alice", more))
    await alice.call(CreateStream("s"))
    await alice.call(UpdatePermissions("alice", None))
    assert await alice.told(UpdatePermissions("alice", more)) == result(41)


async def test_what_is_not_permitted_is_not_journaled_however_large_it_is(
    tmp_path: Path, root: WireClient, alice: WireClient
) -> None:
    """Else whoever can log in could fill the disk."""
    granted = Permissions(streams=tuple(StreamPermissions(number) for number in range(10_000)))
    before = journal_size(tmp_path)
    for request in (
        UpdatePermissions("alice", granted),
        UpdatePermissions("iggy", granted),
        UpdatePermissions("nobody", granted),
        CreateUser("carol", "secret-c", permissions=granted),
    ):
        assert await alice.told(request) == result(41)
    assert journal_size(tmp_path) < before + 100_000
    await root.call(UpdatePermissions("alice", granted))
    assert (await alice.call(GetUser("alice"))).permissions == granted
    assert journal_size(tmp_path) > before + 400_000


async def test_sessions_of_a_deleted_user_are_over(
    server: RealServer, root: WireClient, alice: WireClient
) -> None:
    await root.call(UpdatePermissions("alice", MANAGER))
    async with server.client("alice", "secret-a") as second, server.client("iggy", "iggy") as other:
        assert await alice.told(DeleteUser("alice")) == success()
        for client in (alice, second):
            assert await client.told(GetUsers()) == status(40)
            assert await client.told(CreateUser("eve", "secret-e")) == evicted(1)
        # Somebody else gets the id, and the old sessions get nothing of it.
        everything = Permissions(GlobalPermissions(*(True,) * 10))
        assert (await root.call(CreateUser("bob", "secret-b", 1, everything))).user.id == 1
        assert await second.told(GetUsers()) == status(40)
        assert await second.told(CreateStream("s")) == evicted(1)
        assert (await other.call(GetUsers()))[1].username == "bob"
        # The connection is as good as a new one.
        await alice.login("bob", "secret-b")
        await alice.call(CreateStream("s"))


async def test_an_inactive_user_works_on_but_logs_in_no_more(
    server: RealServer, root: WireClient, alice: WireClient
) -> None:
    await root.call(UpdatePermissions("alice", MANAGER))
    await root.call(UpdateUser("alice", status=2))
    assert (await alice.call(GetUser(1))).user.status == UserStatus.INACTIVE
    assert not await can_log_in(server, "alice", "secret-a")
    assert not await can_log_in(server, "alice", "wrong-one")
    await alice.call(UpdateUser(1, status=1))
    assert await can_log_in(server, "alice", "secret-a")


async def test_grants_die_with_what_they_are_for(root: WireClient, alice: WireClient) -> None:
    for name in ("s", "other"):
        await root.call(CreateStream(name))
        for topic in ("t", "u"):
            await root.call(CreateTopic(name, 1, topic))
    on_topics = (TopicPermissions(0, read_topic=True), TopicPermissions(1, read_topic=True))
    streams = tuple(
        StreamPermissions(stream, read_stream=stream == 0, topics=on_topics) for stream in (0, 1)
    )
    await root.call(UpdatePermissions("alice", Permissions(streams=streams)))
    assert (await alice.call(GetTopic("other", 0))).topic.name == "t"

    await root.call(DeleteTopic("other", "t"))
    await root.call(CreateTopic("other", 1, "new"))
    assert (await root.call(GetTopic("other", "new"))).topic.id == 0
    assert await alice.told(GetTopic("other", "new")) == status(41)
    assert (await alice.call(GetTopic("other", "u"))).topic.id == 1

    await root.call(DeleteStream("s"))
    await root.call(CreateStream("new"))
    assert (await root.call(GetStream("new"))).stream.id == 0
    assert await alice.told(GetStream("new")) == status(41)
    kept = StreamPermissions(1, topics=(TopicPermissions(1, read_topic=True),))
    assert (await alice.call(GetUser(1))).permissions == Permissions(streams=(kept,))


# Root


async def test_root_can_be_renamed_and_locked_out_for_good(tmp_path: Path) -> None:
    async with real_server(tmp_path) as server, server.client("iggy", "iggy") as root:
        assert await root.told(ChangePassword("iggy", "iggy", "secret-r")) == success()
        assert await root.told(UpdateUser(0, "boss")) == success()
        assert not await can_log_in(server, "iggy", "iggy")
        assert not await can_log_in(server, "boss", "iggy")
        assert await can_log_in(server, "boss", "secret-r")
        for request in (DeleteUser("boss"), DeleteUser(0)):
            assert await root.told(request) == result(48)
        details = await root.call(GetUser("boss"))
        assert details.user == User(0, 1, UserStatus.ACTIVE, "boss")
        assert details.permissions == Permissions(GlobalPermissions(*(True,) * 10))
        assert await root.told(UpdateUser(0, status=2)) == success()
        await root.call(CreateStream("still served"))
        assert not await can_log_in(server, "boss", "secret-r")
    # What is stored counts, and not what a first start would make.
    async with real_server(tmp_path) as server:
        assert not await can_log_in(server, "iggy", "iggy")
        assert not await can_log_in(server, "boss", "secret-r")


async def test_users_and_tokens_are_there_after_a_restart(tmp_path: Path) -> None:
    async with real_server(tmp_path) as server, server.client("iggy", "iggy") as root:
        await root.call(CreateUser("alice", "secret-a", 1, MANAGER))
        await root.call(CreateToken("t", 0))
        before = await root.call(GetUsers())
    async with real_server(tmp_path) as server, server.client("alice", "secret-a") as alice:
        assert await alice.call(GetUsers()) == before
        assert (await alice.call(GetUser(1))).permissions == MANAGER
        async with server.client("iggy", "iggy") as root:
            assert [token.name for token in await root.call(GetTokens())] == ["t"]
