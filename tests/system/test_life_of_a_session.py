"""How sessions of the client begin, move and end, in ways that nobody planned.

Servers are scripted, on real sockets. Time is virtual: every wait happens, at its time and in its
order, but nobody sits through it.
"""

import asyncio
import contextlib
import itertools
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

import windsprite
from support.environment import SeededEnvironment
from support.scripted_server import Cut, Delay, ScriptedCluster, ScriptedNode, Silence
from support.virtual_time import in_virtual_time
from windsprite.address import Address
from windsprite.client import Client
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.cluster import ClusterMetadata, GetClusterMetadata
from windsprite_protocol.model.groups import JoinConsumerGroup
from windsprite_protocol.model.identifiers import ToPartition
from windsprite_protocol.model.messages import SendMessages
from windsprite_protocol.model.outcomes import NotNow, Success
from windsprite_protocol.model.sessions import EvictionReason, LoginAttempt
from windsprite_protocol.model.streams import CreateStream
from windsprite_protocol.model.system import Ping

NOT_ACCEPTED = NotNow(ErrorCode.TRANSIENT_NOT_ACCEPTED)
NOT_COMMITTED = NotNow(ErrorCode.TRANSIENT_NOT_COMMITTED)


def connect(url: str, **options: Any) -> windsprite.Connecting:
    options = {"reestablish_after": 0.0, **options}
    return windsprite.connect(url, environment=SeededEnvironment(0), **options)


def now() -> float:
    return asyncio.get_running_loop().time()


def cut_all(node: ScriptedNode) -> None:
    for connection in list(node.connections):
        connection.end()


# --- Dialling ------------------------------------------------------------------------------------


@contextlib.contextmanager
def swallowing(address: str, port: int) -> Iterator[None]:
    """A place that answers no attempt to connect: as many as fit wait there already."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.create_server((address, port), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(listening.getsockname())
        yield


@pytest.mark.parametrize("good", range(3))
@in_virtual_time
async def test_every_address_of_a_name_is_tried_in_time(good: int) -> None:
    loop = asyncio.get_running_loop()
    found = ["127.0.0.2", "127.0.0.3"]
    found.insert(good, "127.0.0.1")

    async def resolve(host: str, port: int, **_: Any) -> list[Any]:
        names = found if host == "servers.test" else [host]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (name, port)) for name in names]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "getaddrinfo", resolve)
        async with await ScriptedCluster().start() as cluster:
            port = cluster.nodes[0].port
            with swallowing("127.0.0.2", port), swallowing("127.0.0.3", port):
                began = now()
                async with connect(f"iggy://iggy:iggy@servers.test:{port}", dial_timeout=6):
                    assert now() - began <= 6
                found.remove("127.0.0.1")
                with pytest.raises(windsprite.ConnectionFailed, match="no answer in time"):
                    await connect(
                        f"iggy://iggy:iggy@servers.test:{port}",
                        dial_timeout=6,
                        reconnection_retries=0,
                    )
                assert now() - began <= 12.1


@in_virtual_time
async def test_addresses_that_nobody_reaches_do_not_keep_from_the_one_that_is_reached() -> None:
    async with (
        await ScriptedCluster(leader=4).start(5) as cluster,
        contextlib.AsyncExitStack() as s,
    ):
        front = cluster.nodes[0]  # in its place there might be a balancer
        for number in range(2, 7):
            s.enter_context(swallowing(f"127.0.0.{number}", front.port))

        def advertised() -> ClusterMetadata:
            known = cluster.metadata()
            nodes = (
                replace(node, host=f"127.0.0.{number}", tcp_port=front.port)
                for number, node in enumerate(known.nodes, start=2)
            )
            return replace(known, nodes=tuple(nodes))

        front.tell_metadata = advertised
        client = await s.enter_async_context(connect(cluster.url(0), dial_timeout=1))
        for already_tried in range(5):
            began = now()
            cut_all(front)
            await asyncio.sleep(0.01)
            assert await client.get_streams() == ()
            # One second for each of those not tried before, one to look for the leader.
            assert now() - began < 1 + max(0, 4 - already_tried) + 1.1


# --- Logging in and out --------------------------------------------------------------------------


@in_virtual_time
async def test_a_login_keeps_to_its_time_while_nobody_answers() -> None:
    client = Client(Address.parse("iggy://iggy:iggy@127.0.0.1:1"), environment=SeededEnvironment(0))
    async with client:
        with pytest.raises(windsprite.ConnectionFailed):
            await client.connect(timeout=1)
        began = now()
        with pytest.raises(windsprite.ConnectionFailed):
            await client.login("iggy", "iggy", timeout=2)
        assert now() - began == pytest.approx(2)


@in_virtual_time
async def test_a_login_waits_for_a_server_and_then_is_somebody_else() -> None:
    async with await ScriptedCluster().start() as cluster:
        (node,) = cluster.nodes
        async with connect(cluster.url()) as client:
            await node.stop()
            asyncio.get_running_loop().call_later(5, asyncio.ensure_future, node.start())
            await client.login_with_token(cluster.token)
            (last,) = [request for request in node.requests if isinstance(request, LoginAttempt)][
                -1:
            ]
            assert last.token is not None
            assert await client.get_streams() == ()


@pytest.mark.parametrize("closed", ["before", "meanwhile"])
@in_virtual_time
async def test_a_login_to_a_closed_client_opens_nothing(closed: str) -> None:
    async with await ScriptedCluster().start() as cluster:
        (node,) = cluster.nodes
        client = await connect(cluster.url())
        if closed == "before":
            await client.close()
            login = asyncio.create_task(client.login("iggy", "iggy"))
        else:
            await node.stop()
            await asyncio.sleep(0.01)
            login = asyncio.create_task(client.login("iggy", "iggy"))
            await asyncio.sleep(0.01)
            await node.start()
            await client.close()
        with pytest.raises(windsprite.ClientClosed):
            await login
        connects = len(node.connects)
        await asyncio.sleep(30)
        assert len(node.connects) == connects
        assert not node.connections


@pytest.mark.parametrize("how", ["never logged in", "logged out"])
@in_virtual_time
async def test_who_is_not_logged_in_is_told_so_without_asking_the_server(how: str) -> None:
    async with await ScriptedCluster().start() as cluster, contextlib.AsyncExitStack() as stack:
        (node,) = cluster.nodes
        if how == "logged out":
            client = await stack.enter_async_context(connect(cluster.url()))
            await client.logout()
        else:
            client = await stack.enter_async_context(connect(cluster.servers()))
        for kind in (CreateStream, SendMessages):
            node.always(kind, Silence())  # as official servers do
        calls: list[Callable[[], Any]] = [
            lambda: client.create_stream("orders"),
            lambda: client.send("orders", "events", [b"x"]),
            lambda: client.store_consumer_offset("orders", "events", 1),
            lambda: client.join_consumer_group("orders", "events", "g"),
            lambda: client.send_binary_request(202, b"\x01x"),
            client.logout,
            client.get_streams,
        ]
        began = now()
        for call in calls:
            with pytest.raises(windsprite.AuthenticationError) as raised:
                await call()
            assert raised.value.code is ErrorCode.UNAUTHENTICATED
        await client.ping()
        assert now() == began
        assert len(node.connects) == 1
        await client.login("iggy", "iggy")
        assert await client.get_streams() == ()


@in_virtual_time
async def test_calls_behind_a_logout_do_not_look_for_another_session() -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster.url()) as client:
        (node,) = cluster.nodes
        results = await asyncio.gather(
            client.logout(), client.get_streams(), client.create_stream("x"), return_exceptions=True
        )
        assert [type(result) for result in results] == [
            type(None),
            windsprite.AuthenticationError,
            windsprite.AuthenticationError,
        ]
        assert len(node.connects) == 1


@pytest.mark.parametrize("deaf", [1, 2])
@pytest.mark.parametrize("seed", range(4))
@in_virtual_time
async def test_servers_that_never_answer_a_login_do_not_keep_from_one_that_does(
    deaf: int, seed: int
) -> None:
    async with await ScriptedCluster(leader=2).start(3) as cluster:
        for node in cluster.nodes[:deaf]:
            node.always(LoginAttempt, Silence())
        environment = SeededEnvironment(seed)
        async with windsprite.connect(cluster.url(), environment=environment) as client:
            await client.ping()
        # The one server that there is may take its time.
        (slow,) = cluster.nodes[2:]
        slow.script(LoginAttempt, [Delay(25)])
        async with windsprite.connect(cluster.url(2), environment=environment) as client:
            await client.ping()


# --- Losing a session ----------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["joining", "between"])
@in_virtual_time
async def test_a_session_that_is_lost_as_it_begins_is_replaced_unasked(where: str) -> None:
    events: list[windsprite.ClientEvent] = []
    async with await ScriptedCluster().start() as cluster:
        (node,) = cluster.nodes
        node.always(JoinConsumerGroup, Success(None))
        async with connect(cluster.url(), on_event=events.append) as client:
            await client.join_consumer_group("s", "t", "g")
            if where == "joining":
                node.script(JoinConsumerGroup, [Cut()])
            else:

                def close_soon(_: JoinConsumerGroup) -> Success:
                    asyncio.get_running_loop().call_soon(cut_all, node)
                    return Success(None)

                node.script(JoinConsumerGroup, [close_soon])
            cut_all(node)
            await asyncio.sleep(30)
            assert isinstance(events[-1], windsprite.SignedIn)
            assert client.server is not None
            assert len(node.connections) == 1


@in_virtual_time
async def test_a_session_that_is_lost_while_a_login_is_refused_is_replaced_unasked() -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster.url()) as client:
        (node,) = cluster.nodes
        (first,) = node.connections

        def refuse(_: LoginAttempt) -> Any:
            first.end()
            return Delay(1)

        node.script(LoginAttempt, [refuse])
        with pytest.raises(windsprite.AuthenticationError):
            await client.login("iggy", "wrong")
        await asyncio.sleep(30)
        assert client.server is not None
        assert len(node.connections) == 1


@in_virtual_time
async def test_what_was_not_sent_when_the_session_ended_is_never_sent() -> None:
    async with await ScriptedCluster().start() as cluster:
        (node,) = cluster.nodes
        async with connect(cluster.url()) as client:
            (connection,) = node.connections
            connection.stop_reading()
            sending = asyncio.create_task(client.send("s", "t", [bytes(1 << 20)] * 32))
            await asyncio.sleep(0.1)
            node.evict(EvictionReason.STALE_CLIENT)
            with pytest.raises(windsprite.OutcomeUnknown):
                await sending
            await client.ping()
            await asyncio.sleep(5)
        connection.go_on_reading()
        await asyncio.sleep(1)
        assert not node.connections
        assert not node.count(SendMessages)


# --- Moving --------------------------------------------------------------------------------------


def refuse_as_no_leader(request: SendMessages) -> Any:
    """The answer of a server that leads no more; for partition 2 it takes a while."""
    is_slow = request.partitioning == ToPartition(2)
    return Delay(3, NOT_ACCEPTED) if is_slow else NOT_ACCEPTED


@pytest.mark.parametrize("gives_up", ["time is over", "cancelled", None])
@in_virtual_time
async def test_a_move_cuts_nothing_off_though_its_caller_gives_up(gives_up: str | None) -> None:
    async with await ScriptedCluster().start(2) as cluster, connect(cluster.url(0)) as client:
        old, new = cluster.nodes
        old.always(SendMessages, refuse_as_no_leader)
        new.script(LoginAttempt, [Delay(5)])
        cluster.elect(1)
        time_limit = 4 if gives_up == "time is over" else 30
        moving = asyncio.create_task(
            client.send("s", "t", [b"first"], partition=1, timeout=time_limit)
        )
        await asyncio.sleep(3)
        assert new.connects
        if gives_up == "cancelled":
            moving.cancel()
        # Every send is on its way for 3 seconds, also when the new session is there.
        sending = asyncio.create_task(client.send("s", "t", [b"second"], partition=2))
        await sending
        await asyncio.wait({moving})
        if gives_up is None:
            await moving
            assert sorted(cluster.payloads) == [b"first", b"second"]
        else:
            assert cluster.payloads == [b"second"]
        if gives_up == "time is over":
            assert isinstance(moving.exception(), windsprite.Unavailable)
        assert new.count(SendMessages) == len(cluster.payloads)
        assert not old.connections


@pytest.mark.parametrize("breaks_at", [LoginAttempt, GetClusterMetadata])
@in_virtual_time
async def test_a_leader_that_breaks_is_no_reason_to_cut_anything_off(breaks_at: type[Any]) -> None:
    async with await ScriptedCluster().start(2) as cluster, connect(cluster.url(0)) as client:
        old, new = cluster.nodes
        old.always(SendMessages, refuse_as_no_leader)
        new.script(breaks_at, [Cut(), Cut()])
        cluster.elect(1)
        await asyncio.gather(
            client.send("s", "t", [b"first"], partition=1),
            client.send("s", "t", [b"second"], partition=2),
        )
        assert sorted(cluster.payloads) == [b"first", b"second"]
        assert len(old.connects) == 1
        assert not old.connections


@in_virtual_time
async def test_a_move_is_given_up_while_a_write_is_in_doubt() -> None:
    async with await ScriptedCluster().start(2) as cluster, connect(cluster.url(0)) as client:
        old, new = cluster.nodes

        def refuse(request: SendMessages) -> Any:
            return NOT_COMMITTED if request.partitioning == ToPartition(2) else NOT_ACCEPTED

        old.always(SendMessages, refuse)
        new.script(LoginAttempt, [Delay(1)])
        cluster.elect(1)
        moving = asyncio.create_task(client.send("s", "t", [b"1"], partition=1, timeout=90))
        await asyncio.sleep(2.5)
        doubtful = asyncio.create_task(client.send("s", "t", [b"2"], partition=2, timeout=40))
        with pytest.raises(windsprite.OutcomeUnknown):
            await doubtful
        await moving
        assert cluster.payloads == [b"1"]
        assert client.server == f"127.0.0.1:{new.port}"
        assert not old.connections


@pytest.mark.parametrize("names_itself", [True, False])
@in_virtual_time
async def test_others_go_on_while_the_leader_does_not_answer(names_itself: bool) -> None:
    async with (
        await ScriptedCluster(names_itself=names_itself).start(2) as cluster,
        connect(cluster.url(0)) as client,
    ):
        (_, new) = cluster.nodes
        new.always(LoginAttempt, Silence())
        cluster.elect(1)
        began = now()
        writing = asyncio.create_task(client.send("s", "t", [b"x"], timeout=20))
        waits: list[float] = []
        while not writing.done():
            asked = now()
            await client.poll("s", "t", start=windsprite.From.first())
            waits.append(now() - asked)
            await asyncio.sleep(0.1)
        with pytest.raises(windsprite.Unavailable) as raised:
            await writing
        assert raised.value.code is ErrorCode.TRANSIENT_NOT_ACCEPTED
        assert now() - began == pytest.approx(20, abs=0.2)
        assert max(waits) < 0.1
        assert len(new.connects) <= 2


@pytest.mark.parametrize("leader", ["here", "deaf", "nowhere"])
@in_virtual_time
async def test_however_many_calls_are_refused_the_leader_is_looked_for_at_a_pace(
    leader: str,
) -> None:
    asked: list[float] = []
    async with (
        await ScriptedCluster().start(2) as cluster,
        connect(cluster.url(0), dial_timeout=1, request_timeout=5) as client,
    ):
        here, there = cluster.nodes
        here.always(GetClusterMetadata, lambda _: asked.append(now()))
        here.always(SendMessages, NOT_ACCEPTED)
        if leader == "deaf":
            there.always(LoginAttempt, Silence())
            cluster.elect(1)
        elif leader == "nowhere":
            await there.stop()
            cluster.elect(1)
        sends = (client.send("s", "t", [b"x"], partition=place, timeout=10) for place in range(50))
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {windsprite.Unavailable}
        assert all(after - before >= 0.25 for before, after in itertools.pairwise(asked))
        assert len(asked) >= 2
        assert len(there.connects) <= len(asked)


@pytest.mark.parametrize("interregnum", [0, 3])
@in_virtual_time
async def test_a_new_leader_is_told_whether_or_not_there_was_one_all_the_time(
    interregnum: float,
) -> None:
    events: list[windsprite.ClientEvent] = []
    async with (
        await ScriptedCluster().start(3) as cluster,
        connect(cluster.url(), on_event=events.append) as client,
    ):
        cluster.elect(None if interregnum else 1)
        await cluster.nodes[0].stop()
        asyncio.get_running_loop().call_later(interregnum, setattr, cluster, "leader", 1)
        await client.ping()
        await client.create_stream("orders")
        leader = f"127.0.0.1:{cluster.nodes[1].port}"
        assert client.server == leader
    told = [event for event in events if isinstance(event, windsprite.LeaderChanged)]
    assert told == [windsprite.LeaderChanged(leader)]


@in_virtual_time
async def test_the_heart_beats_during_a_move() -> None:
    async with (
        await ScriptedCluster().start(2) as cluster,
        connect(cluster.url(0), heartbeat_interval=5) as client,
    ):
        old, new = cluster.nodes
        new.always(LoginAttempt, Silence())
        cluster.elect(1)
        with pytest.raises(windsprite.Unavailable):
            await client.create_stream("orders", timeout=3)
        before = old.count(Ping)
        await asyncio.sleep(11)
        assert new.connections, "still trying to log in"
        assert old.count(Ping) - before == 2


# --- The heartbeat -------------------------------------------------------------------------------


@pytest.mark.parametrize("used_at", [1, 19, 20, 39])
@in_virtual_time
async def test_a_connection_is_pinged_as_soon_as_it_was_idle_for_the_interval(used_at: int) -> None:
    async with (
        await ScriptedCluster().start() as cluster,
        connect(cluster.url(), heartbeat_interval=20) as client,
    ):
        (node,) = cluster.nodes
        began = now()
        pings: list[float] = []
        node.always(Ping, lambda _: pings.append(now() - began))
        await asyncio.sleep(used_at)
        await client.get_streams()
        await asyncio.sleep(70)
        assert [at for at in pings if at > used_at] == pytest.approx(
            [used_at + 20 * beat for beat in (1, 2, 3)], abs=0.1
        )
