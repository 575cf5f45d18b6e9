"""Users, permissions and tokens through the client, on a real server."""

import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import windsprite
from support.real_server import RealServer, real_server
from windsprite import (
    ErrorCode,
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
    UserStatus,
)

HOUR_US = 3_600_000_000


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RealServer]:
    async with real_server(tmp_path) as server:
        yield server


@pytest.fixture
async def root(server: RealServer) -> AsyncIterator[windsprite.Client]:
    async with windsprite.connect(f"iggy://iggy:iggy@{server.address}") as client:
        yield client


def as_user(server: RealServer, username: str, password: str, **options: Any) -> Any:
    return windsprite.connect(server.address, username=username, password=password, **options)


async def test_users_come_and_go(server: RealServer, root: windsprite.Client) -> None:
    permissions = Permissions(
        GlobalPermissions(read_servers=True),
        (
            StreamPermissions(
                3, read_stream=True, topics=(TopicPermissions(7, send_messages=True),)
            ),
        ),
    )
    created = await root.create_user("alice", "secret", permissions=permissions)
    assert (created.user.id, created.user.username) == (1, "alice")
    assert created.user.status == UserStatus.ACTIVE
    assert created.permissions == permissions
    assert await root.get_user("alice") == await root.get_user(1) == created
    await root.create_user("bob", "secret", status=UserStatus.INACTIVE)
    assert [(user.id, user.username, user.status) for user in await root.get_users()] == [
        (0, "iggy", UserStatus.ACTIVE),
        (1, "alice", UserStatus.ACTIVE),
        (2, "bob", UserStatus.INACTIVE),
    ]
    with pytest.raises(windsprite.AuthenticationError):
        await as_user(server, "bob", "secret")
    await root.update_user("bob", username="robert", status=UserStatus.ACTIVE)
    async with as_user(server, "robert", "secret") as robert:
        with pytest.raises(windsprite.PermissionDenied):
            await robert.stats()
        await root.update_permissions("robert", permissions)
        await robert.stats()
        await root.update_permissions(2, None)
        with pytest.raises(windsprite.PermissionDenied):
            await robert.get_user("alice")
        found = await robert.get_user("robert")
        assert found is not None
        assert found.permissions is None
    await root.delete_user("robert")
    assert await root.get_user("robert") is None
    with pytest.raises(windsprite.NotFound):
        await root.delete_user("robert")


async def test_who_is_deleted_is_told_so(server: RealServer, root: windsprite.Client) -> None:
    await root.create_user("alice", "secret")
    async with as_user(server, "alice", "secret", reestablish_after=0) as alice:
        await root.delete_user("alice")
        with pytest.raises(windsprite.AuthenticationError):
            await alice.get_user("alice")


async def test_passwords(server: RealServer, root: windsprite.Client) -> None:
    await root.create_user("alice", "secret")
    async with as_user(server, "alice", "secret") as alice:
        with pytest.raises(windsprite.AuthenticationError) as wrong:
            await alice.change_password("alice", "wrong", "other")
        assert wrong.value.code == ErrorCode.INVALID_CREDENTIALS
        await alice.change_password("alice", "secret", "other")
        await alice.login("alice", "other")
        with pytest.raises(windsprite.PermissionDenied):
            await alice.change_password("iggy", "iggy", "other")
    await root.change_password(1, "other", "third")
    async with as_user(server, "alice", "third"):
        pass
    with pytest.raises(windsprite.AuthenticationError):
        await as_user(server, "alice", "secret")


async def test_mistakes_are_told_apart(root: windsprite.Client) -> None:
    await root.create_user("alice", "secret")
    for call, family, code in (
        (root.create_user("alice", "secret"), windsprite.AlreadyExists, 46),
        (root.create_user("xy", "secret"), windsprite.InvalidRequest, 43),
        (root.create_user("bob", "xy"), windsprite.InvalidRequest, 44),
        (root.create_user("bob", "é" * 51), windsprite.InvalidRequest, 44),
        (root.change_password("alice", "secret", "xy"), windsprite.InvalidRequest, 44),
        (root.change_password("bob", "secret", "other"), windsprite.NotFound, 20),
        (root.update_user("alice", username="iggy"), windsprite.AlreadyExists, 46),
        (root.update_user(7, username="carol"), windsprite.NotFound, 20),
        (root.update_permissions("bob", None), windsprite.NotFound, 20),
        (root.update_permissions("iggy", None), windsprite.InvalidRequest, 49),
        (root.delete_user(0), windsprite.InvalidRequest, 48),
        (root.delete_token("t"), windsprite.NotFound, 20),
        (root.create_token("t", expiry="soon"), windsprite.InvalidRequest, 56),
        (root.create_token("t", expiry="0"), windsprite.InvalidRequest, 56),
        (root.create_token("t", expiry="0 s"), windsprite.InvalidRequest, 56),
        (root.create_token("t", expiry=timedelta(0)), windsprite.InvalidRequest, 56),
        (root.create_token("t", expiry=timedelta(seconds=-1)), windsprite.InvalidRequest, 56),
        (root.create_token(""), windsprite.InvalidRequest, None),
        (root.create_token("x" * 256), windsprite.InvalidRequest, None),
    ):
        with pytest.raises(family) as raised:
            await call
        if code is not None:
            assert raised.value.code == code
        assert "secret" not in str(raised.value)
    assert await root.get_tokens() == ()
    assert len(await root.get_users()) == 2


async def test_tokens(server: RealServer, root: windsprite.Client) -> None:
    await root.create_user("alice", "secret")
    async with as_user(server, "alice", "secret") as alice:
        token = await alice.create_token("for ever")
        assert token.token not in repr(token)
        await alice.create_token("an hour", expiry=timedelta(hours=1))
        await alice.create_token("brief", expiry="1 ms")
        with pytest.raises(windsprite.AlreadyExists):
            await alice.create_token("for ever")
        listed = {info.name: info.expiry for info in await alice.get_tokens()}
    assert list(listed) == ["an hour", "brief", "for ever"]
    assert listed["for ever"] == 0
    assert HOUR_US - 10_000_000 < listed["an hour"] - listed["brief"] < HOUR_US
    async with windsprite.connect(server.address, token=token.token) as client:
        found = await client.get_user("alice")
        assert found is not None
        assert found.user.id == 1
        await client.delete_token("for ever")
        assert [info.name for info in await client.get_tokens()] == ["an hour", "brief"]
        await client.login("iggy", "iggy")
        assert await client.get_tokens() == ()
        with pytest.raises(windsprite.AuthenticationError):
            await client.login_with_token(token.token)


async def test_bug_41_any_character_of_a_credential_can_stand_in_a_connection_string(
    server: RealServer, root: windsprite.Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for number, character in enumerate(":@/?#[]%&=+ é\0*"):
        username, password = f"user {number}{character}", f"hidden{character}word{character}"
        await root.create_user(username, password)
        place = f"{quote(username, safe='')}:{quote(password, safe='')}@{server.address}"
        async with windsprite.connect(f"iggy://{place}") as client:
            assert (await client.me()).info.user_id == number + 1
            await client.change_password(username, password, "another")
        with pytest.raises(windsprite.AuthenticationError) as refused:
            await windsprite.connect(f"iggy://{place}")
        for told in (str(refused.value), repr(refused.value), caplog.text, server.output):
            assert "hidden" not in told
    for number in range(20):
        token = await root.create_token(f"t{number}")
        async with windsprite.connect(f"iggy://{quote(token.token, safe='')}@{server.address}"):
            pass


async def test_a_full_number_of_tokens(tmp_path: Path) -> None:
    limit = {"personal_access_token": {"max_tokens_per_user": 1}}
    async with (
        real_server(tmp_path, settings=limit) as server,
        windsprite.connect(f"iggy://iggy:iggy@{server.address}") as client,
    ):
        await client.create_token("one")
        with pytest.raises(windsprite.LimitReached):
            await client.create_token("two")
