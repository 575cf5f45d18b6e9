"""Logins tell nothing, hold up nobody, and leave no secret behind."""

import base64
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from support.password_gate import PasswordGate
from support.real_server import RealServer, real_server
from support.wire_client import VERSION, Told, WireClient, evicted, result, status, success
from windsprite_protocol.model.sessions import Login, LoginWithToken
from windsprite_protocol.model.system import Ping
from windsprite_protocol.model.tokens import CreateToken, DeleteToken, GetTokens
from windsprite_protocol.model.users import (
    ChangePassword,
    CreateUser,
    DeleteUser,
    GetUser,
    GetUsers,
    UpdateUser,
)

INVALID_CREDENTIALS = 9
INVALID_TOKEN = 10


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> PasswordGate:
    return PasswordGate(monkeypatch)


@pytest.fixture
async def server(tmp_path: Path, gate: PasswordGate) -> AsyncIterator[RealServer]:
    limits = {"login_threads": 1, "max_waiting_logins": 1}
    async with real_server(tmp_path, settings={"limits": limits}) as server:
        yield server
        gate.open()


@pytest.fixture
async def root(server: RealServer) -> AsyncIterator[WireClient]:
    async with server.client("iggy", "iggy") as client:
        yield client


def login(client: WireClient, username: str, password: str) -> Login:
    """A login under a new client id."""
    client.client, client.session, client.next_request = uuid4().bytes, 0, 1
    return Login(VERSION, username, password)


async def begun(gate: PasswordGate, client: WireClient, count: int) -> None:
    """Wait until so many passwords are being worked on, and see that others are served."""
    while gate.count < count:
        assert await client.told(Ping()) == success()


# Nobody learns who exists


async def test_known_and_unknown_users_cost_the_same(
    server: RealServer, root: WireClient, gate: PasswordGate
) -> None:
    await root.call(CreateUser("sleepy", "secret", 2))
    costs: dict[tuple[str, str], tuple[Told, int]] = {}
    async with server.client() as client:
        for username, password in (
            ("iggy", "wrong"),
            ("nobody", "wrong"),
            ("sleepy", "secret"),
            ("sleepy", "wrong"),
            ("x" * 50, "y" * 100),
        ):
            gate.verified.clear()
            told = await client.told(login(client, username, password))
            costs[username, password] = told, len(gate.verified)
    assert set(costs.values()) == {(evicted(INVALID_CREDENTIALS), 1)}


async def test_what_nobody_can_have_is_not_verified_at_all(
    server: RealServer, gate: PasswordGate
) -> None:
    async with server.client() as client:
        for username, password in (
            ("ig", "secret"),
            ("i" * 51, "secret"),
            ("あ" * 17, "secret"),
            ("iggy", "xy"),
            ("iggy", "x" * 101),
            ("iggy", "é" * 51),
        ):
            told = await client.told(login(client, username, password))
            assert told == evicted(INVALID_CREDENTIALS)
        # An empty password can be read as a token, too.
        assert await client.told(login(client, "iggy", "")) == evicted(INVALID_TOKEN)
    assert gate.verified == []


async def test_the_hash_is_spared_whoever_may_not_change_anything(
    server: RealServer, root: WireClient, gate: PasswordGate
) -> None:
    await root.call(CreateUser("alice", "secret"))
    async with server.client("alice", "secret") as alice:
        before = gate.count
        assert await alice.told(CreateUser("bob", "secret")) == result(41)
        assert await alice.told(ChangePassword("iggy", "iggy", "secret")) == result(41)
        assert await root.told(ChangePassword("nobody", "secret", "secret")) == result(20)
        assert gate.count == before
        assert await alice.told(ChangePassword("alice", "wrong", "secret")) == result(42)
        assert gate.count == before + 1


async def test_a_repeated_request_costs_no_hash(root: WireClient, gate: PasswordGate) -> None:
    for request, answer in (
        (CreateUser("alice", "secret"), "success"),
        (CreateUser("alice", "secret"), "result"),
        (ChangePassword("alice", "secret", "another"), "success"),
        (ChangePassword("alice", "secret", "another"), "result"),
    ):
        frame = root.encode(request)
        await root.send(*frame)
        first = await root.receive()
        assert first.told.channel == answer
        before = gate.count
        await root.send(*frame)
        assert (await root.receive()).data == first.data
        assert gate.count == before


# Nobody is held up


async def test_a_storm_of_logins_is_told_to_come_again_and_others_are_served(
    server: RealServer, root: WireClient, gate: PasswordGate
) -> None:
    begun_before = gate.count
    gate.close()
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(server.client()) for _ in range(5)]
        for client in clients:
            await client.send(*client.encode(login(client, "iggy", "iggy")))
        # One is worked on, one waits; the others are turned away at once.
        turned_away = [await client.receive() for client in clients[2:]]
        assert [answer.told for answer in turned_away] == [result(58)] * 3
        assert {answer.header.operation for answer in turned_away} == {1}
        await begun(gate, root, begun_before + 1)
        assert await root.told(CreateUser("alice", "secret")) == result(58)
        assert await root.told(ChangePassword("iggy", "iggy", "secret")) == result(58)
        assert [user.username for user in await root.call(GetUsers())] == ["iggy"]
        gate.open()
        for client in clients[:2]:
            assert (await client.receive()).told.channel == "success"
        for client in clients[2:]:
            # The very same login, on the same connection, is fine now.
            assert (await client.told(Login(VERSION, "iggy", "iggy"))).channel == "success"
    await root.call(CreateUser("alice", "secret"))


async def test_who_is_deleted_while_a_password_is_hashed_changes_nothing(
    server: RealServer, root: WireClient, gate: PasswordGate
) -> None:
    await root.call(CreateUser("alice", "secret"))
    async with server.client("alice", "secret") as alice, server.client() as late:
        begun_before = gate.count
        gate.close()
        await alice.send(*alice.encode(ChangePassword(1, "secret", "other")))
        await begun(gate, root, begun_before + 1)
        await late.send(*late.encode(login(late, "alice", "secret")))
        await root.call(DeleteUser("alice"))
        gate.open()
        assert (await alice.receive()).told == evicted(1)
        assert (await late.receive()).told == evicted(INVALID_CREDENTIALS)
        assert await alice.told(GetUser(1)) == status(40)
        await root.call(CreateUser("alice", "secret"))
        assert (await alice.told(login(alice, "alice", "other"))) == evicted(INVALID_CREDENTIALS)
        assert (await alice.told(login(alice, "alice", "secret"))).channel == "success"


async def test_who_becomes_inactive_during_a_login_is_not_let_in(
    server: RealServer, root: WireClient, gate: PasswordGate
) -> None:
    await root.call(CreateUser("alice", "secret"))
    async with server.client() as client:
        begun_before = gate.count
        gate.close()
        await client.send(*client.encode(login(client, "alice", "secret")))
        await begun(gate, root, begun_before + 1)
        await root.call(UpdateUser("alice", status=2))
        gate.open()
        assert (await client.receive()).told == evicted(INVALID_CREDENTIALS)


# Nothing secret is left behind


async def test_no_secret_is_logged_or_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    marker = "MARKER"
    caplog.set_level(logging.DEBUG)
    secrets = [f"{marker}-{number}" for number in range(8)]
    root_password = secrets[7]
    options = {"root": {"username": "iggy", "password": root_password}}
    async with (
        real_server(tmp_path, settings=options) as server,
        server.client("iggy", root_password) as root,
        server.client() as other,
    ):
        await root.call(CreateUser("alice", secrets[0]))
        assert await root.told(CreateUser("alice", secrets[1])) == result(46)
        assert await root.told(CreateUser("bob", marker * 20)) == status(44)
        await root.call(ChangePassword("alice", secrets[0], secrets[2]))
        assert await root.told(ChangePassword("alice", secrets[3], secrets[4])) == result(42)
        await root.call(ChangePassword(0, root_password, secrets[5]))
        for username, password in (("alice", secrets[0]), ("nobody", secrets[6]), (marker, "x")):
            assert await other.told(login(other, username, password)) == evicted(9)
        await other.login("alice", secrets[2])
        token = (await other.call(CreateToken("t", 0))).token
        wrong_token = f"{marker}-token"
        async with server.client() as third:
            assert await third.told(LoginWithToken(VERSION, wrong_token)) == evicted(INVALID_TOKEN)
            assert (await third.told(LoginWithToken(VERSION, token))).channel == "success"
            await third.call(GetTokens())
        # Bodies that cannot be read, and failures that nobody foresaw.
        cut_short = b"\x06" + marker.encode() + b"\xff" + secrets[0].encode()
        assert (await other.ask_code(33, cut_short)).told == status(3)
        assert (await other.ask_code(37, b"\x02" + cut_short)).told == status(3)
        assert (await other.ask_code(40, marker.encode() * 20)).told.channel == "eviction"

        def fail(*_: object) -> bytes:
            raise RuntimeError("no luck")

        with monkeypatch.context() as broken:
            broken.setattr("argon2.PasswordHasher.hash", fail)
            broken.setattr("argon2.PasswordHasher.verify", fail)
            assert await root.told(CreateUser("carol", secrets[1])) == status(1)
            assert await root.told(ChangePassword("alice", secrets[2], secrets[1])) == status(1)
            await other.told(login(other, "alice", secrets[2]))
        await other.told(DeleteToken("t"))
        output = server.output
    assert "no luck" in output
    forbidden = [marker, base64.b64encode(marker.encode()).decode(), marker.encode().hex()]
    forbidden += [token, base64.b64decode(token).hex()]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"journal.db"} <= {path.name for path in files}
    for text in forbidden:
        assert text not in output
        assert text not in caplog.text
        for path in files:
            assert text.encode() not in path.read_bytes(), path
