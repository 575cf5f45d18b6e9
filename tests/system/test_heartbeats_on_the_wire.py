"""Silent members of consumer groups on the wire, byte by byte (spec 01, 7.3; spec 05, 15.8)."""

import contextlib
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.by_hand import (
    by_key,
    eviction_frame,
    group,
    group_header,
    ident,
    member,
    name,
    poll,
    polled,
    request_frame,
    u32,
)
from support.exchange import EMPTY, Peer, Stage, eviction, open_stage, status, success
from support.password_gate import PasswordGate
from support.server_process import server_process
from support.wire_client import wire_client
from windsprite_protocol.model.groups import (
    CreateConsumerGroup,
    JoinConsumerGroup,
    SyncConsumerGroup,
)
from windsprite_protocol.model.streams import CreateStream
from windsprite_protocol.model.topics import CreateTopic

S, T, G = ident("s"), ident("t"), ident("g")
INTERVAL = 30
STALE = 13


@asynccontextmanager
async def stage_of(folder: Path, **settings: Any) -> AsyncIterator[Stage]:
    """The stream `s` with the topic `t` of two partitions and the group `g`."""
    async with open_stage(folder, settings or None) as stage:
        await stage.root.ask(202, name("s"))
        await stage.root.ask(302, S + u32(2) + name("t"))
        await stage.root.ask(602, S + T + name("g"))
        yield stage


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with stage_of(tmp_path) as stage:
        yield stage


@asynccontextmanager
async def member_of(stage: Stage) -> AsyncIterator[Peer]:
    async with stage.another("iggy", "iggy") as peer:
        await peer.expect(EMPTY, 604, S + T + G)
        yield peer


def members(*found: bytes) -> Any:
    return success(group_header(0, 2, len(found), "g") + b"".join(found))


async def is_told_that_it_is_over(peer: Peer) -> None:
    received = await peer.wire.receive()
    frame = request_frame(2, client=peer.client, request=1)
    assert received.data == eviction_frame(frame, STALE, cluster=peer.stage.cluster)


async def test_a_silent_member_is_told_and_finds_nobody_logged_in(stage: Stage) -> None:
    async with member_of(stage) as silent, member_of(stage) as alive:
        await stage.root.expect(members(member(0, 0), member(1, 1)), 600, S + T + G)
        await stage.clock.advance(INTERVAL)
        await alive.expect(EMPTY, 1)
        assert await silent.wire.is_silent(0.05)
        await stage.clock.advance(INTERVAL)
        await is_told_that_it_is_over(silent)
        await alive.expect(members(member(1, 0, 1)), 600, S + T + G)
        # Its connection is as good as a new one.
        await silent.expect(status(40), 600, S + T + G)
        await silent.expect(eviction(1), 604, S + T + G)
        await silent.expect(EMPTY, 1)
        await silent.expect(EMPTY, 39)
        await silent.log_in()
        await silent.expect(success(polled(0xFFFFFFFF, 0)), 100, poll(group("g"), "s", "t", 0))
        await silent.expect(EMPTY, 604, S + T + G)
        # A partition that nobody has polled is handed over at once.
        await alive.expect(members(member(0, 1), member(1, 0)), 600, S + T + G)
        event = stage.server.events("silent member")[0]
        assert (event["level"], event["silence"]) == ("info", 60)


@pytest.mark.parametrize(
    "request_of",
    [
        pytest.param(lambda peer: peer.request(1), id="ping"),
        pytest.param(lambda peer: peer.request(200, ident("missing")), id="read"),
        pytest.param(lambda peer: peer.request(202, b"\xff"), id="unreadable"),
        pytest.param(lambda peer: peer.request(9), id="unknown"),
        pytest.param(lambda peer: peer.request(101, by_key(b"x")), id="write"),
        pytest.param(lambda peer: peer.request(202, b"x", operation=64), id="not a client's"),
    ],
)
async def test_every_request_is_a_sign_of_life(stage: Stage, request_of: Any) -> None:
    async with member_of(stage) as peer:
        for _ in range(4):
            await stage.clock.advance(INTERVAL)
            await peer.wire.send(request_of(peer))
            await peer.wire.receive()
        await stage.clock.advance(INTERVAL)
        assert await peer.wire.is_silent(0.05)
        await stage.clock.advance(INTERVAL)
        await is_told_that_it_is_over(peer)


async def test_who_is_in_no_group_may_be_silent(stage: Stage) -> None:
    async with member_of(stage) as left:
        await left.expect(EMPTY, 605, S + T + G)
        await stage.clock.advance(100 * INTERVAL)
        for peer in (left, stage.root, stage.nobody):
            assert await peer.wire.is_silent(0.02)
            await peer.expect(EMPTY, 31, ident("missing"))


async def test_nobody_is_logged_out_where_heartbeats_are_off(tmp_path: Path) -> None:
    async with stage_of(tmp_path, heartbeat={"enabled": False}) as stage, member_of(stage) as peer:
        await stage.clock.advance(100 * INTERVAL)
        await peer.expect(members(member(0, 0, 1)), 600, S + T + G)


async def test_the_interval_is_a_setting(tmp_path: Path) -> None:
    interval = {"interval": "1 s"}
    async with stage_of(tmp_path, heartbeat=interval) as stage, member_of(stage) as peer:
        await stage.clock.advance(1)
        assert await peer.wire.is_silent(0.05)
        await stage.clock.advance(1)
        await is_told_that_it_is_over(peer)


async def test_bug_37_the_wall_clock_makes_nobody_stale_and_times_of_commits_rise(
    stage: Stage,
) -> None:
    """The clock is set back an hour, forward a day, and by a second."""
    async with member_of(stage) as peer:
        times = []
        for number, jump in enumerate((-3600, 86_400, 1, -1)):
            stage.clock.set_wall_clock(stage.clock.now_us() + jump * 1_000_000)
            await stage.clock.advance(INTERVAL)
            done = await peer.ask(202, name(f"stream {number}"))
            times.append(int.from_bytes(done.body[4:12], "little"))
        assert times == sorted(set(times))
        await peer.expect(members(member(0, 0, 1)), 600, S + T + G)
        stage.clock.set_wall_clock(0)
        await stage.clock.advance(2 * INTERVAL)
        await is_told_that_it_is_over(peer)


async def test_a_request_that_waits_is_no_silence(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = PasswordGate(monkeypatch)
    async with member_of(stage) as peer:
        gate.close()
        user = name("slow") + name("secret") + b"\x01\x00"
        request = peer.request(33, user)
        await peer.wire.send(request)
        await stage.root.expect(EMPTY, 1)
        await stage.clock.advance(10 * INTERVAL)
        gate.open()
        answer = await peer.answer(33, request)
        assert answer.answer[216:220] == bytes(4)
        await stage.clock.advance(INTERVAL)
        await peer.expect(members(member(0, 0, 1)), 600, S + T + G)


async def test_a_server_that_stood_still_first_hears_what_was_said(tmp_path: Path) -> None:
    """The process is stopped for longer than members may be silent, and they are not."""
    with server_process(tmp_path, environment={"WINDSPRITE_HEARTBEAT__INTERVAL": "2 s"}) as server:
        ready = server.wait_ready()
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(wire_client(ready["tcp"])) for _ in range(3)]
            for client in clients:
                await client.login()
            await clients[0].call(CreateStream("s"))
            await clients[0].call(CreateTopic("s", 3, "t"))
            await clients[0].call(CreateConsumerGroup("s", "t", "g"))
            for client in clients:
                await client.call(JoinConsumerGroup("s", "t", "g"))
            server.send(signal.SIGSTOP)
            for client in clients:
                await client.send(*client.encode(SyncConsumerGroup("s", "t", "g")))
            time.sleep(3)
            server.send(signal.SIGCONT)
            for client in clients:
                told = (await client.receive()).told
                assert (told.channel, len(told.payload)) == ("success", 16), "a member of one"
        assert "silent" not in server.output
