"""Personal access tokens, answer by answer (spec 06, 5 and 9.6; spec 02, 3.1)."""

import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from support.clock import ManualClock
from support.ids import SeededIds
from support.real_server import RealServer, real_server
from support.wire_client import VERSION, Told, WireClient, evicted, result, status, success
from windsprite_protocol.model.permissions import GlobalPermissions, Permissions
from windsprite_protocol.model.sessions import LoginWithToken
from windsprite_protocol.model.streams import CreateStream, GetStreams
from windsprite_protocol.model.system import GetMe, Ping
from windsprite_protocol.model.tokens import CreateToken, DeleteToken, GetTokens, TokenInfo
from windsprite_protocol.model.users import CreateUser, DeleteUser, UpdatePermissions, UpdateUser

SECOND = 1_000_000
HOUR = 3600 * SECOND
NEW_YEAR_US = 1_767_225_600_000_000
FOREVER = 2**64 - 1
INVALID_TOKEN = 10
USER_INACTIVE = 11


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def server(tmp_path: Path, clock: ManualClock) -> AsyncIterator[RealServer]:
    tokens = {"max_tokens_per_user": 3}
    async with real_server(
        tmp_path, clock=clock, settings={"personal_access_token": tokens}
    ) as server:
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


async def made(client: WireClient, name: str, expiry: int = 0) -> str:
    """The secret of a new token."""
    secret: str = (await client.call(CreateToken(name, expiry))).token
    return secret


async def names(client: WireClient) -> list[str]:
    return sorted(token.name for token in await client.call(GetTokens()))


async def login(client: WireClient, token: str) -> Told:
    """How a login with a token is answered; afterwards the client has its session."""
    client.client, client.session, client.next_request = uuid4().bytes, 0, 1
    answer = await client.answer_to(LoginWithToken(VERSION, token))
    if answer.told.channel == "success":
        client.session = int.from_bytes(answer.told.payload[4:12], "little")
    return answer.told


async def can_log_in(server: RealServer, token: str) -> bool:
    async with server.client() as client:
        told = await login(client, token)
    assert told.channel == "success" or told == evicted(INVALID_TOKEN)
    return told.channel == "success"


async def test_the_worked_examples(tmp_path: Path) -> None:
    clock = ManualClock(NEW_YEAR_US - SECOND)
    ids = SeededIds(5)
    async with (
        real_server(tmp_path, clock=clock, ids=ids) as server,
        server.client("iggy", "iggy") as root,
    ):
        await clock.advance(1)
        answer = await root.ask_code(42, bytes.fromhex("0863692d746f6b656e00a493d600000000"))
        assert (len(answer.body), answer.header.operation) == (73, 146)
        assert answer.body[:5].hex() == "0000000044"
        secret = answer.body[5:]
        assert (len(secret), secret[-1:]) == (68, b"=")
        assert len(base64.b64decode(secret, validate=True)) == 50
        never = bytes.fromhex("07666f7265766572ffffffffffffffff")
        assert (await root.ask_code(42, never)).body[:5].hex() == "0000000044"
        listed = await root.ask_code(41)
        assert listed.body.hex() == (
            "0863692d746f6b656e00e4b31c4947060007666f72657665720000000000000000"
        )
        deleted = await root.ask_code(43, bytes.fromhex("0863692d746f6b656e"))
        assert (deleted.body.hex(), deleted.header.operation) == ("00000000", 147)
        again = await root.ask_code(43, bytes.fromhex("0863692d746f6b656e"))
        assert again.body.hex() == "010000000000000014000000"


async def test_what_is_refused_and_in_which_order(root: WireClient) -> None:
    for code in (42, 43):
        assert (await root.ask_code(code, b"\xff")).told == status(3)
    await made(root, "a")
    await made(root, "x" * 255)
    assert await root.told(CreateToken("a", FOREVER)) == result(51)
    assert await root.told(CreateToken("b", FOREVER - 1)) == result(56)
    assert await root.told(CreateToken("a", FOREVER - 1)) == result(51)
    assert await root.told(DeleteToken("b")) == result(20)
    await made(root, "c")
    # A full number is told before anything else but what cannot be read.
    assert await root.told(CreateToken("a", 0)) == status(52)
    assert await root.told(CreateToken("d", FOREVER - 1)) == status(52)
    assert (await root.ask_code(42, b"\xff")).told == status(3)
    assert await root.told(DeleteToken("a")) == success()
    await made(root, "d")
    assert await names(root) == ["c", "d", "x" * 255]


async def test_of_many_tokens_at_once_only_as_many_are_made_as_may_be(
    server: RealServer, root: WireClient
) -> None:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(server.client("iggy", "iggy")) for _ in range(8)]
        for number, client in enumerate(clients):
            await client.send(*client.encode(CreateToken(f"t{number}", 0)))
        answers = [(await client.receive()).told for client in clients]
    refusals = [answer for answer in answers if answer.channel != "success"]
    assert len(answers) - len(refusals) == 3
    assert set(refusals) <= {status(52), result(52)}
    assert len(await names(root)) == 3


async def test_a_repeated_request_does_not_tell_the_secret_again(root: WireClient) -> None:
    create = root.encode(CreateToken("t", 0))
    await root.send(*create)
    assert (await root.receive()).told.channel == "success"
    for _ in range(2):
        await root.send(*create)
        assert (await root.receive()).told == result(51)
    delete = root.encode(DeleteToken("t"))
    for _ in range(2):
        await root.send(*delete)
        assert (await root.receive()).told == success()
    # With a full number, the repetition is refused like everything else that makes a token.
    for name in ("a", "b"):
        await made(root, name)
    last = root.encode(CreateToken("c", 0))
    await root.send(*last)
    assert (await root.receive()).told.channel == "success"
    await root.send(*last)
    assert (await root.receive()).told == status(52)
    assert await names(root) == ["a", "b", "c"]


async def test_everybody_has_tokens_of_its_own(
    server: RealServer, root: WireClient, alice: WireClient
) -> None:
    of_root = await made(root, "t")
    of_alice = await made(alice, "t", HOUR)
    await made(alice, "u")
    assert of_root != of_alice
    assert await names(root) == ["t"]
    assert await names(alice) == ["t", "u"]
    async with server.client() as client:
        # User 1, a session, protocol 0.11.0, and how the server calls itself.
        payload = (await login(client, of_alice)).payload
        assert payload[:4] == b"\1\0\0\0"
        assert 0 < client.session < 2**63
        assert payload[12:16].hex() == "002c0000"
        assert len(payload) == 17 + payload[16] > 17
        assert await names(client) == ["t", "u"]
        assert await client.told(DeleteToken("u")) == success()
        # A token has the permissions of its owner, as they are when it is used.
        assert await client.told(GetStreams()) == status(41)
        assert await client.told(CreateStream("s")) == result(41)
        granted = Permissions(GlobalPermissions(manage_streams=True))
        await root.call(UpdatePermissions("alice", granted))
        await client.call(CreateStream("s"))
    assert await names(alice) == ["t"]


async def test_a_session_outlives_its_token(
    server: RealServer, root: WireClient, clock: ManualClock
) -> None:
    brief, deleted = await made(root, "brief", HOUR), await made(root, "deleted")
    async with server.client() as first, server.client() as second:
        assert (await login(first, brief)).channel == "success"
        assert (await login(second, deleted)).channel == "success"
        await clock.advance(2 * 3600)
        await root.call(DeleteToken("deleted"))
        for client, token in ((first, brief), (second, deleted)):
            assert await client.call(GetStreams()) == ()
            assert not await can_log_in(server, token)


async def test_an_expired_token_is_no_token(
    server: RealServer, root: WireClient, clock: ManualClock
) -> None:
    token = await made(root, "t", SECOND)
    (info,) = await root.call(GetTokens())
    await clock.advance((info.expiry - clock.now_us() - 1) / SECOND)
    assert await can_log_in(server, token)
    clock.set_wall_clock(info.expiry)
    assert not await can_log_in(server, token)
    # Until it is deleted it is listed, and its name is taken.
    assert await root.call(GetTokens()) == (info,)
    assert await root.told(CreateToken("t", 0)) == result(51)


async def test_expired_tokens_make_room(root: WireClient, clock: ManualClock) -> None:
    for name in ("a", "b"):
        await made(root, name, SECOND)
    await made(root, "c")
    assert await root.told(CreateToken("d", 0)) == status(52)
    await clock.advance(2)
    await made(root, "a")
    assert await names(root) == ["a", "c"]


async def test_the_cleaner_deletes_what_has_expired(
    server: RealServer, root: WireClient, alice: WireClient, clock: ManualClock
) -> None:
    await made(root, "over", SECOND)
    await made(root, "not yet", HOUR)
    await made(alice, "over", SECOND)
    kept = await made(alice, "for ever")
    await clock.advance(58)
    assert await names(root) == ["not yet", "over"]
    await clock.advance(2)
    await root.told(Ping())
    while await names(alice) != ["for ever"]:
        await root.told(Ping())
    assert await names(root) == ["not yet"]
    assert await can_log_in(server, kept)
    (told,) = server.events("expired tokens were deleted")
    assert told["count"] == 2


async def test_a_cleaner_that_is_off_deletes_nothing(tmp_path: Path) -> None:
    clock = ManualClock()
    off = {"personal_access_token": {"cleaner": {"enabled": False}}}
    async with (
        real_server(tmp_path, clock=clock, settings=off) as server,
        server.client("iggy", "iggy") as root,
    ):
        token = await made(root, "t", SECOND)
        await clock.advance(600)
        assert await names(root) == ["t"]
        assert not await can_log_in(server, token)


async def test_who_is_gone_or_inactive_cannot_log_in(
    server: RealServer, root: WireClient, alice: WireClient
) -> None:
    token = await made(alice, "t")
    async with server.client() as client:
        for unknown in ("", "x", token[:-1], token + " ", token.swapcase(), "x" * 255):
            assert await login(client, unknown) == evicted(INVALID_TOKEN)
        await root.call(UpdateUser("alice", status=2))
        assert await login(client, token) == evicted(USER_INACTIVE)
        await root.call(UpdateUser("alice", status=1))
        assert await can_log_in(server, token)
        await root.call(DeleteUser("alice"))
        assert await login(client, token) == evicted(INVALID_TOKEN)
        # The connection is as good as before.
        await root.call(CreateUser("alice", "secret-b"))
        assert await login(client, token) == evicted(INVALID_TOKEN)
        await client.login("alice", "secret-b")
        assert await client.call(GetTokens()) == ()
        assert (await client.call(GetMe())).info.user_id == 1


async def test_tokens_work_after_a_restart(tmp_path: Path) -> None:
    async with real_server(tmp_path) as server, server.client("iggy", "iggy") as root:
        token = await made(root, "t")
        expiring = await made(root, "u", HOUR)
    async with real_server(tmp_path) as server, server.client() as client:
        assert (await login(client, token)).channel == "success"
        assert await can_log_in(server, expiring)
        listed = await client.call(GetTokens())
        assert listed[0] == TokenInfo("t", 0)
        assert listed[1].name == "u"
        assert listed[1].expiry > 0
