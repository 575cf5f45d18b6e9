"""The TCP transport over real sockets: order, back-pressure, limits, and every way to end."""

# ruff: noqa: SIM117 - a server and its clients are told apart

import asyncio
import gc
import itertools
import socket
from contextlib import AsyncExitStack, suppress
from math import inf
from typing import Any

import pytest

from support.frames import frame, request
from support.tcp_node import KIB, MIB, TcpNode, bound, ping, snapshot, tcp_node
from support.wire_client import WireClient, reset, status, success
from windsprite_protocol.model.system import (
    GetClient,
    GetSnapshot,
    Ping,
    SnapshotCompression,
    SnapshotKind,
)
from windsprite_server.handlers.dispatcher import Handler
from windsprite_server.transport.tcp_connection import TcpConnection
from windsprite_server.transport.untaken import SMALL

FAILURE = 1
NO_SESSION = 1
SNAPSHOT = GetSnapshot(SnapshotCompression.STORED, (SnapshotKind.TEST,))


class Gate:
    """Handlers wait here, and go on one by one or all at once."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.waiting = 0

    async def wait(self) -> None:
        self.waiting += 1
        try:
            await self.opened.wait()
        finally:
            self.waiting -= 1

    def handler(self) -> Handler:
        async def wait(services: Any, connection: Any, request: Any) -> None:
            await self.wait()

        return wait


def pings(first: int, count: int, body: bytes = b"") -> bytes:
    return b"".join(frame(body, request=number) for number in range(first, first + count))


async def is_well(node: TcpNode) -> bool:
    """Whether somebody else is served."""
    async with node.client() as other:
        await other.send(frame())
        return (await other.receive(5)).told.channel == "success"


# --- Beginning ----------------------------------------------------------------------------------


async def test_who_connects_before_anybody_is_served_waits_for_that() -> None:
    async with tcp_node(accepts=False) as node, node.client() as client:
        await client.send(frame())
        assert await client.is_silent()
        assert node.open_connections == 0
        await node.listener.accept()
        assert (await client.receive()).told.channel == "success"


async def test_who_waits_to_be_served_learns_that_nobody_will_be() -> None:
    async with tcp_node(accepts=False) as node, node.client() as client:
        await node.listener.stop(0)
        assert await client.is_closed()


# --- Order --------------------------------------------------------------------------------------


async def test_replies_come_in_the_order_of_requests_although_one_has_to_wait() -> None:
    gate = Gate()
    async with tcp_node(bound(gate.handler())) as node, node.client() as client:
        await client.send(frame(request=1) + request(GetClient(1), 2) + pings(3, 2))
        assert [reply.number for reply in await client.receive_many(1)] == [1]
        assert await client.is_silent()
        assert node.served[-1] == GetClient(1), "nothing behind it is begun"
        assert await is_well(node)
        gate.opened.set()
        assert [reply.number for reply in await client.receive_many(3)] == [2, 3, 4]


async def test_waiting_requests_of_one_connection_are_served_one_after_the_other() -> None:
    gate = Gate()
    async with tcp_node(bound(gate.handler())) as node, node.client() as client:
        await client.send(frame() + b"".join(request(GetClient(n), n) for n in range(1, 6)))
        await client.receive_many(1)
        await node.until(lambda: gate.waiting == 1)
        await asyncio.sleep(0.01)
        assert gate.waiting == 1
        gate.opened.set()
        assert [reply.number for reply in await client.receive_many(5)] == [1, 2, 3, 4, 5]


async def test_others_get_their_turn_while_many_requests_of_one_connection_wait() -> None:
    served: list[str] = []
    others: list[WireClient] = []
    sending: list[asyncio.Task[None]] = []

    def handler(services: Any, connection: Any, request: Any) -> None:
        ping(services, connection, request)
        if connection.number > 1:
            served.append("other")
            return
        if not served:
            sending.extend(asyncio.create_task(other.send(frame())) for other in others)
        served.append("one")
        node.clock.tick(0.001)

    async with tcp_node({Ping: handler}) as node:
        async with node.client() as client, node.client() as second, node.client() as third:
            await node.until(lambda: node.open_connections == 3)
            others += [second, third]
            await client.send(pings(1, 3000))
            assert [reply.number for reply in await client.receive_many(3000)] == [*range(1, 3001)]
            for other in others:
                assert (await other.receive()).number == 1
            assert max(number for number, who in enumerate(served) if who == "other") < 20
            assert node.listener.memory.used == 0


async def test_a_client_that_leaves_while_its_requests_await_their_turn() -> None:
    def handler(services: Any, connection: Any, request: Any) -> None:
        node.clock.tick(1)
        if len(node.served) == 2:
            asyncio.get_running_loop().call_soon(client.reset)

    async with tcp_node({Ping: handler}) as node, node.client() as client:
        await client.send(pings(1, 15))
        await node.until(lambda: len(node.served) >= 2 and node.open_connections == 0)
        assert len(node.served) < 15
        assert node.listener.memory.used == 0


async def test_a_server_that_stops_while_requests_await_their_turn_answers_them() -> None:
    stopping: list[asyncio.Task[None]] = []

    def stop() -> None:
        stopping.append(asyncio.create_task(node.listener.stop(10)))

    def handler(services: Any, connection: Any, request: Any) -> None:
        node.clock.tick(1)
        if len(node.served) == 2:
            asyncio.get_running_loop().call_soon(stop)

    async with tcp_node({Ping: handler}) as node, node.client() as client:
        await client.send(pings(1, 15))
        replies = await client.receive_many(16)
        assert 2 < len(node.served) <= 15
        assert [reply.number for reply in replies] == [*range(1, len(node.served) + 1)]
        client.sock.close()
        await stopping[0]


async def test_many_requests_in_one_write() -> None:
    async with tcp_node() as node, node.client() as client:
        await client.send(pings(1, 3000))
        assert [reply.number for reply in await client.receive_many(3000)] == [*range(1, 3001)]


async def test_requests_byte_by_byte() -> None:
    async with tcp_node() as node, node.client() as client:
        client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in pings(1, 2, b"body"):
            await client.send(bytes([byte]))
            await asyncio.sleep(0)
        assert [reply.number for reply in await client.receive_many(2)] == [1, 2]


async def test_frames_of_every_size() -> None:
    async with tcp_node() as node, node.client() as client:
        for number, size in enumerate([0, 1, 65_279, 65_280, 65_281, MIB, 3 * MIB + 1], start=1):
            await client.send(frame(bytes(size), request=number))
            (reply,) = await client.receive_many(1)
            assert reply.number == number
        assert node.listener.memory.used == 0


async def test_frames_that_are_not_for_a_server_of_clients_are_dropped() -> None:
    async with tcp_node() as node, node.client() as client:
        others = [kind for kind in range(30) if kind != 5]
        await client.send(b"".join(frame(b"content", kind=kind) for kind in others) + frame())
        assert len(await client.receive_many(1)) == 1
        assert await client.is_silent()
        assert len(node.served) == 1


# --- Clients that do not read -------------------------------------------------------------------


async def fill(node: TcpNode, client: Any) -> int:
    """Ask for snapshots until nothing more is served; returns how many were asked for."""
    await client.send(frame())
    for number in itertools.count(1):
        try:
            async with asyncio.timeout(0.5):
                await client.send(request(SNAPSHOT, number))
                await node.until(lambda wanted=number: len(node.served) > wanted)
        except TimeoutError:
            return number
    raise AssertionError


async def test_a_client_that_does_not_read_is_not_served_and_not_read() -> None:
    async with tcp_node(write_high_water=2 * MIB, write_low_water=MIB) as node:
        async with node.client(receive_buffer=64 * KIB) as client:
            asked = await fill(node, client)
            served = len(node.served)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await client.send(pings(1000, 100_000))
            assert len(node.served) == served
            assert await is_well(node)
            replies = await client.receive_many(asked + 1)
            assert len(replies) == asked + 1
            assert [reply.number for reply in replies[1:]] == [*range(1, asked + 1)]
            assert node.events() == []


async def test_a_client_that_never_reads_is_dropped_after_the_time_out_and_holds_little() -> None:
    high = 2 * MIB
    async with tcp_node(write_high_water=high, write_low_water=MIB, write_timeout=60) as node:
        async with node.client(receive_buffer=64 * KIB) as client:
            await fill(node, client)
            await node.clock.advance(59)
            assert node.open_connections == 1
            await node.clock.advance(2)
            await node.until(lambda: node.open_connections == 0)
            (event,) = node.events()
            assert event["event"] == "connection dropped: it does not read replies"
            assert event["level"] == "warning"
            assert event["peer"] == "{}:{}".format(*client.sock.getsockname())
            assert high < event["unsent"] <= high + MIB + 256
            assert await is_well(node)


async def test_who_reads_slowly_but_steadily_stays_however_much_is_unsent() -> None:
    """It is what the client takes that counts, not whether the pile grows meanwhile."""
    async with tcp_node(write_high_water=64 * MIB, write_timeout=60) as node:
        async with node.client(receive_buffer=64 * KIB) as client:
            loop = asyncio.get_running_loop()
            numbers = itertools.count(1)
            await client.send(frame())
            await client.send(b"".join(request(SNAPSHOT, next(numbers)) for _ in range(16)))
            await node.until(lambda: len(node.served) == 17)
            for _ in range(6):
                await client.send(b"".join(request(SNAPSHOT, next(numbers)) for _ in range(5)))
                taken = 0
                while taken < 4 * MIB:
                    taken += len(await loop.sock_recv(client.sock, 4 * MIB - taken))
                await asyncio.sleep(0.01)
                await node.clock.advance(40)
            assert node.open_connections == 1
            await node.clock.advance(61)
            await node.until(lambda: node.open_connections == 0)


async def test_one_reply_may_be_larger_than_the_high_water_mark() -> None:
    async with tcp_node({Ping: ping, GetSnapshot: snapshot(20 * MIB)}) as node:
        async with node.client() as client:
            await client.send(frame() + request(SNAPSHOT, 1) + request(SNAPSHOT, 2))
            sizes = [len(reply.body) for reply in await client.receive_many(3)]
            assert sizes == [0, 20 * MIB, 20 * MIB]


async def test_many_clients_that_do_not_read_hold_one_reply_each_beyond_the_memory() -> None:
    """Others are served as before."""
    async with tcp_node(send_memory=8 * MIB, write_timeout=60) as node, AsyncExitStack() as stack:
        for _ in range(20):
            client = await stack.enter_async_context(node.client(receive_buffer=64 * KIB))
            await client.send(frame() + b"".join(request(SNAPSHOT, n) for n in range(1, 11)))
        await node.until(lambda: node.replies.is_short)
        async with node.client() as other:
            for number in range(1, 20):
                await other.send(frame() if number == 1 else request(SNAPSHOT, number))
                assert (await other.receive()).told.channel == "success"
        assert 8 * MIB - SMALL <= node.replies.size <= (8 + 4 + 20) * MIB
        await node.clock.advance(2 * 61)  # the system may take more for them in the beginning
        await node.until(lambda: node.open_connections == 0)
        assert node.replies.size == 0
        assert not node.replies.is_short


async def test_who_reads_is_served_to_the_end_while_others_leave_no_memory() -> None:
    async with tcp_node(send_memory=0) as node, node.client() as client:
        assert node.replies.is_short
        await client.send(frame() + b"".join(request(SNAPSHOT, n) for n in range(1, 51)))
        assert len(await client.receive_many(51)) == 51
        # The last of it has left without notice, which the next look at connections makes good.
        await node.clock.advance(1)
        assert node.replies.size == 0


# --- Requests that pile up ----------------------------------------------------------------------


async def test_a_connection_with_many_waiting_requests_is_not_read() -> None:
    gate = Gate()
    async with tcp_node(bound(gate.handler()), max_waiting_frames=10) as node:
        async with node.client() as client:
            await client.send(frame() + request(GetClient(1), 1))
            await node.until(lambda: gate.waiting == 1)
            sending = asyncio.create_task(client.send(pings(2, 60_000)))
            await asyncio.sleep(0.3)
            assert not sending.done(), "15 MB are in no buffer of the server"
            assert node.listener.memory.used < 256 * KIB
            gate.opened.set()
            replies = await client.receive_many(60_002)
            assert [reply.number for reply in replies] == [1, *range(1, 60_002)]
            await sending
            assert node.listener.memory.used == 0


async def test_a_connection_with_large_waiting_requests_is_not_read() -> None:
    gate = Gate()
    async with tcp_node(bound(gate.handler()), max_frame_size=4 * MIB) as node:
        async with node.client() as client:
            await client.send(frame() + request(GetClient(1), 1))
            await node.until(lambda: gate.waiting == 1)
            sending = asyncio.create_task(client.send(pings(2, 40, bytes(MIB))))
            await asyncio.sleep(0.3)
            assert not sending.done()
            assert 4 * MIB <= node.listener.memory.used <= 6 * MIB
            gate.opened.set()
            assert len(await client.receive_many(42)) == 42
            await sending
            assert node.listener.memory.used == 0


# --- Too many connections -----------------------------------------------------------------------


async def test_one_connection_too_many_is_closed_and_the_others_are_not() -> None:
    async with tcp_node(max_connections=2) as node:
        async with node.client() as first, node.client() as second:
            for client in (first, second):
                await client.send(frame())
                assert len(await client.receive_many(1)) == 1
            for _ in range(3):
                async with node.client() as third:
                    assert await third.is_closed()
            await node.clock.advance(1)
            (event,) = node.events()
            assert event["event"] == "connections were refused: there are too many"
            assert (event["count"], event["limit"]) == (3, 2)
            for client in (first, second):
                await client.send(frame())
                assert len(await client.receive_many(1)) == 1
        await node.until(lambda: node.open_connections == 0)
        assert await is_well(node)
        await node.clock.advance(5)
        assert len(node.events()) == 1


async def test_silent_strangers_make_room_when_there_are_too_many() -> None:
    async with tcp_node(max_connections=3, frame_timeout=30) as node:
        async with node.client() as member, node.client() as stranger:
            await member.send(frame())
            await member.receive_many(1)
            await node.until(lambda: node.open_connections == 2)
            await node.clock.advance(1000)
            assert await stranger.is_silent(0.05)
            async with node.client():
                await node.until(lambda: node.open_connections == 3)
                await node.clock.advance(2)
                assert await stranger.is_closed()
                (event,) = node.events("nobody has logged in")
                assert event["level"] == "info"
                await node.until(lambda: node.open_connections == 2)
                async with node.client() as next_one:
                    await next_one.send(frame())
                    assert len(await next_one.receive_many(1)) == 1
                await member.send(frame())
                assert len(await member.receive_many(1)) == 1


# --- Frames that do not end ---------------------------------------------------------------------


@pytest.mark.parametrize("begun", [1, 48, 255, 256, 300, 200_000])
async def test_a_frame_that_is_begun_and_not_finished_ends_its_connection(begun: int) -> None:
    async with tcp_node(frame_timeout=30) as node, node.client() as client:
        await client.send(frame() + frame(bytes(MIB))[:begun])
        await client.receive_many(1)
        await node.clock.advance(29)
        assert await client.is_silent(0.05)
        await node.clock.advance(2)
        assert await client.is_closed()
        (event,) = node.events()
        assert event["event"] == "connection closed: a frame was begun and not finished"
        assert node.listener.memory.used == 0


async def test_each_byte_of_a_frame_gives_it_more_time() -> None:
    async with tcp_node(frame_timeout=30) as node, node.client() as client:
        for byte in frame()[:20]:
            await client.send(bytes([byte]))
            await asyncio.sleep(0.002)
            await node.clock.advance(20)
        await client.send(frame()[20:])
        assert len(await client.receive_many(1)) == 1


async def test_a_connection_between_frames_may_be_silent_for_ever() -> None:
    async with tcp_node() as node, node.client() as client, node.client() as other:
        await other.send(frame())
        await other.receive_many(1)
        await node.clock.advance(1000)
        for one in (client, other):
            await one.send(frame())
            assert len(await one.receive_many(1)) == 1


async def test_time_does_not_count_while_the_server_itself_does_not_read() -> None:
    gate = Gate()
    async with tcp_node(bound(gate.handler()), max_waiting_frames=1) as node:
        async with node.client() as client:
            await client.send(frame() + request(GetClient(1), 1) + frame() + frame()[:100])
            await node.until(lambda: gate.waiting == 1)
            await node.clock.advance(100)
            gate.opened.set()
            assert len(await client.receive_many(3)) == 3
            await client.send(frame()[100:])
            assert len(await client.receive_many(1)) == 1


# --- Memory for requests ------------------------------------------------------------------------


async def test_headers_alone_reserve_little() -> None:
    async with tcp_node(max_connections=500) as node:
        clients = [await node.client().__aenter__() for _ in range(100)]
        for client in clients:
            await client.send(frame(size=64 * MIB))
        await node.until(lambda: node.listener.memory.used > 0)
        await asyncio.sleep(0.05)
        assert node.listener.memory.used <= 100 * 64 * KIB
        for client in clients:
            client.sock.close()
        await node.until(lambda: node.open_connections == 0)
        assert node.listener.memory.used == 0


async def test_large_requests_share_the_memory_and_all_finish() -> None:
    size, limit = 8 * MIB, 12 * MIB
    async with tcp_node(receive_memory=limit, max_frame_size=8 * MIB + 256) as node:
        most = 0

        async def send(number: int) -> int:
            async with node.client() as client:
                await client.send(frame(bytes(size), request=number))
                (reply,) = await client.receive_many(1)
                return reply.number

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, node.listener.memory.used)
                await asyncio.sleep(0.001)

        watching = asyncio.create_task(watch())
        numbers = await asyncio.gather(*[send(number) for number in range(1, 9)])
        watching.cancel()
        assert numbers == [*range(1, 9)]
        assert size <= most <= limit + size
        await node.until(lambda: node.listener.memory.used == 0)


async def test_who_sends_one_large_request_after_the_other_leaves_room_for_others() -> None:
    body = bytes(4 * MIB)
    whole = 16 * MIB

    async def slowly(services: Any, connection: Any, request: Any) -> None:
        await asyncio.sleep(0.005)

    async with tcp_node({Ping: slowly}, receive_memory=whole, max_frame_size=whole) as node:
        async with node.client() as slow, node.client() as greedy, node.client() as other:
            await slow.send(frame(bytes(whole - 256))[: whole // 2])
            await node.until(lambda: node.listener.memory.used > whole // 2)
            numbers = range(1, 41)
            flood = b"".join(frame(body, request=number) for number in numbers)
            sending = asyncio.create_task(greedy.send(flood))
            await node.until(lambda: len(node.served) > 3)
            await other.send(frame(body))
            assert len(await other.receive_many(1)) == 1
            assert len(node.served) < 30
            assert [reply.number for reply in await greedy.receive_many(40)] == [*numbers]
            await sending


async def test_who_stalls_with_the_memory_is_dropped_and_frees_the_others() -> None:
    body = bytes(4 * MIB)
    async with tcp_node(receive_memory=5 * MIB, max_frame_size=4 * MIB + 256) as node:
        async with node.client() as one, node.client() as two, node.client() as other:
            for stalled in (one, two):
                await stalled.send(frame(body)[: 3 * MIB])
            await node.until(lambda: node.listener.memory.used > 5 * MIB)
            await other.send(frame())
            assert len(await other.receive_many(1)) == 1, "small requests need none of it"
            sending = asyncio.create_task(other.send(frame(body)))
            await asyncio.sleep(0.05)
            assert not sending.done()
            assert node.listener.memory.used <= 9 * MIB
            await node.clock.advance(31)
            assert len(await other.receive_many(1)) == 1
            await sending
            await asyncio.sleep(0.05)
            await node.clock.advance(31)  # who had waited, too, has had its time by now
            assert await one.is_closed()
            assert await two.is_closed()
            assert len(node.events("not finished")) == 2
            assert node.listener.memory.used == 0


async def test_who_has_to_wait_for_memory_is_not_called_silent() -> None:
    body = bytes(4 * MIB)
    async with tcp_node(receive_memory=5 * MIB, max_frame_size=4 * MIB + 256) as node:
        async with node.client() as one, node.client() as two, node.client() as other:
            await other.send(frame())
            assert len(await other.receive_many(1)) == 1
            (connection,) = [each for each in node.sessions if each.session is not None]
            for stalled in (one, two):
                await stalled.send(frame(body)[: 3 * MIB])
            await node.until(lambda: node.listener.memory.used > 5 * MIB)
            sending = asyncio.create_task(other.send(frame(body)))
            await node.until(lambda: connection.heard_at == inf)
            await node.clock.advance(20)
            one.reset()
            two.reset()
            assert len(await other.receive_many(1)) == 1
            await sending
            assert connection.heard_at == node.clock.monotonic()
            await node.until(lambda: node.open_connections == 1)
            assert node.listener.memory.used == 0


async def test_requests_of_clients_that_have_left_hold_memory_until_they_are_served() -> None:
    gate = Gate()
    body = bytes(4 * MIB)
    limits = {"receive_memory": 5 * MIB, "max_frame_size": 5 * MIB}
    async with tcp_node({Ping: gate.handler()}, **limits) as node, node.client() as other:
        for number in (1, 2):
            async with node.client() as client:
                await client.send(frame(body) + frame()[:100])
                await node.until(lambda n=number: gate.waiting == n)
                client.reset()
            await node.until(lambda: node.open_connections == 1)
        assert 8 * MIB <= node.listener.memory.used < 9 * MIB
        sending = asyncio.create_task(other.send(frame(body)))
        await asyncio.sleep(0.05)
        assert not sending.done()
        assert gate.waiting == 2
        gate.opened.set()
        assert len(await other.receive_many(1)) == 1
        await sending
        await node.until(lambda: node.listener.memory.used == 0)


async def test_requests_of_clients_that_have_left_hold_nothing_when_they_fail() -> None:
    gate = Gate()
    async with tcp_node({Ping: gate.handler()}) as node:
        async with node.client() as client:
            await client.send(frame(bytes(MIB)))
            await node.until(lambda: gate.waiting == 1)
            client.reset()
        await node.until(lambda: node.open_connections == 0)
        assert node.listener.memory.used > MIB
        await node.listener.stop(0)
        assert node.listener.memory.used == 0


async def trickle(node: TcpNode, clients: list[WireClient], *, size: int, seconds: int) -> None:
    """Let each client send so many bytes again and again while time passes."""
    for _ in range(seconds // 10):
        for client in clients:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(0.05):
                    await client.send(bytes(size))
        await asyncio.sleep(0.02)
        await node.clock.advance(10)


async def test_who_hardly_fills_the_memory_that_others_wait_for_is_dropped() -> None:
    body = bytes(4 * MIB)
    async with tcp_node(receive_memory=5 * MIB, max_frame_size=4 * MIB + 256) as node:
        async with node.client() as one, node.client() as two, node.client() as other:
            for slow in (one, two):
                await slow.send(frame(body)[: 3 * MIB])
            await node.until(lambda: node.listener.memory.used > 5 * MIB)
            await trickle(node, [one, two], size=1, seconds=300)
            assert node.open_connections == 3, "nobody wants what they hold"
            sending = asyncio.create_task(other.send(frame(body)))
            await asyncio.sleep(0.05)
            assert not sending.done()
            await trickle(node, [one, two], size=1, seconds=100)
            assert len(await other.receive_many(1)) == 1
            await sending
            assert 1 <= len(node.events("hardly fills")) <= 2, (
                node.events(),
                len(node.served),
                node.listener.memory.used,
                node.replies.size,
            )
            assert node.open_connections >= 1


async def test_who_fills_its_memory_in_earnest_may_take_its_time() -> None:
    body = bytes(4 * MIB)
    async with tcp_node(receive_memory=5 * MIB, max_frame_size=4 * MIB + 256) as node:
        async with node.client() as slow, node.client() as other:
            await slow.send(frame(body)[: 2 * MIB + 256])
            await node.until(lambda: node.listener.memory.used >= 2 * MIB)
            sending = asyncio.create_task(other.send(frame(body)))
            await trickle(node, [slow], size=128 * KIB, seconds=160)
            assert len(await slow.receive_many(1)) == 1
            assert len(await other.receive_many(1)) == 1
            await sending
            assert node.events() == []


async def test_a_failure_does_not_end_the_looking_at_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = itertools.count()
    check_progress = TcpConnection.check_progress

    def failing_once(connection: TcpConnection, now: float) -> None:
        if not next(looked):
            raise RuntimeError("not now")
        check_progress(connection, now)

    monkeypatch.setattr(TcpConnection, "check_progress", failing_once)
    async with tcp_node(frame_timeout=30) as node, node.client() as client:
        await client.send(b"begun")
        await node.until(lambda: node.open_connections == 1)
        await node.clock.advance(32)
        await node.until(lambda: node.open_connections == 0)
        assert len(node.events("could not be looked at", "error")) == 1


# --- The client ends its side -------------------------------------------------------------------


@pytest.mark.parametrize("more", [3, 500], ids=["being read", "not being read"])
async def test_after_its_last_request_a_client_gets_all_replies_and_then_the_end(
    more: int,
) -> None:
    gate = Gate()
    async with tcp_node(bound(gate.handler())) as node, node.client() as client:
        await client.send(frame() + request(GetClient(1), 1) + pings(2, more) + b"half a frame")
        client.sock.shutdown(socket.SHUT_WR)
        assert len(await client.receive_many(1)) == 1
        assert await client.is_silent(0.05)
        gate.opened.set()
        assert [reply.number for reply in await client.receive_many(more + 1)] == [
            *range(1, more + 2)
        ]
        assert await client.is_closed()
        await node.until(lambda: node.open_connections == 0)
        assert node.events() == []


async def test_replies_that_do_not_fit_the_buffers_still_arrive_after_the_end_of_requests() -> None:
    async with tcp_node({Ping: ping, GetSnapshot: snapshot(MIB)}, write_high_water=MIB) as node:
        async with node.client(receive_buffer=64 * KIB) as client:
            requests = b"".join(request(SNAPSHOT, number) for number in range(1, 31))
            await client.send(frame() + requests)
            client.sock.shutdown(socket.SHUT_WR)
            await asyncio.sleep(0.1)
            replies = await client.receive_many(31)
            assert [len(reply.body) for reply in replies] == [0] + [MIB] * 30
            assert await client.is_closed()


@pytest.mark.parametrize("sent", [b"", b"x", frame()[:-1], frame(bytes(MIB))[:-1]])
async def test_a_client_that_ends_with_nothing_to_answer_is_closed(sent: bytes) -> None:
    async with tcp_node() as node, node.client() as client:
        await client.send(sent)
        client.sock.shutdown(socket.SHUT_WR)
        assert await client.is_closed()
        await node.until(lambda: node.open_connections == 0)
        assert node.listener.memory.used == 0


async def test_a_client_that_ends_and_does_not_read_is_dropped() -> None:
    async with tcp_node() as node, node.client(receive_buffer=64 * KIB) as client:
        await fill(node, client)
        client.sock.shutdown(socket.SHUT_WR)
        await asyncio.sleep(0.05)
        await node.clock.advance(62)
        await node.until(lambda: node.open_connections == 0)
        assert len(node.events("does not read")) == 1


# --- What cannot be understood ------------------------------------------------------------------

BAD_FRAMES = {
    "size 0": frame(size=0),
    "size 255": frame(size=255),
    "too large": frame(size=64 * MIB + 1),
    "2^32-1": frame(size=0xFFFF_FFFF),
    "kind 30": frame(b"body", kind=30),
    "kind 255": frame(kind=255),
}


@pytest.mark.parametrize("bad", BAD_FRAMES.values(), ids=BAD_FRAMES)
async def test_what_precedes_a_bad_frame_is_answered_and_nothing_after(bad: bytes) -> None:
    gate = Gate()
    async with tcp_node(bound(gate.handler())) as node, node.client() as client:
        await client.send(frame() + request(GetClient(1), 1) + frame(request=2) + bad + frame())
        assert len(await client.receive_many(1)) == 1
        gate.opened.set()
        assert [reply.number for reply in await client.receive_many(9)] == [1, 2]
        client.sock.close()
        await node.until(lambda: node.open_connections == 0)
        (event,) = node.events()
        assert event["event"] == "connection closed: bad frame"
        assert event["reason"].startswith("a frame of ")
        assert event["level"] == "info"


async def test_replies_before_a_bad_frame_survive_a_client_that_goes_on_sending() -> None:
    """To close while bytes are unread would make TCP throw the replies away."""
    async with tcp_node({Ping: ping, GetSnapshot: snapshot(3 * MIB)}) as node:
        async with node.client(receive_buffer=64 * KIB) as client:
            garbage = b"\xff" * (16 * MIB)
            sending = asyncio.create_task(client.send(frame() + request(SNAPSHOT, 1) + garbage))
            await asyncio.sleep(0.1)
            replies = await client.receive_many(3)
            assert [len(reply.body) for reply in replies] == [0, 3 * MIB]
            sending.cancel()
            await asyncio.wait([sending])


async def test_garbage_is_not_received_for_ever() -> None:
    async with tcp_node() as node, node.client() as client:
        await client.send(b"\xff" * 256)
        assert await client.is_closed()
        for _ in range(3):
            try:
                await client.send(b"\xff" * KIB)
            except OSError:
                break
            await node.clock.advance(1)
        await node.until(lambda: node.open_connections == 0)
        assert len(node.events()) == 1


# --- Connections that break ---------------------------------------------------------------------


async def states_to_break_in(node: TcpNode, gate: Gate) -> None:
    async with node.client() as client:
        await node.until(lambda: node.open_connections == 1)
        client.reset()
    for sent in (frame()[:100], frame(bytes(MIB))[:300_000], frame() * 50):
        async with node.client() as client:
            await client.send(sent)
            await asyncio.sleep(0.01)
            client.reset()
    async with node.client() as client:
        await client.send(frame() + request(GetClient(1), 1) + pings(2, 5))
        await node.until(lambda: gate.waiting == 1)
        client.reset()
    async with node.client(receive_buffer=64 * KIB) as client:
        await fill(node, client)
        client.reset()
    async with node.client(receive_buffer=64 * KIB) as client:
        await fill(node, client)
        client.sock.shutdown(socket.SHUT_WR)
        await asyncio.sleep(0.01)
        client.reset()
    async with node.client() as client:
        await client.send(frame(size=1))
        await client.receive_many(1)
        client.reset()


async def test_a_reset_in_any_state_leaves_nothing_behind() -> None:
    gate = Gate()
    handlers = {**bound(gate.handler()), GetSnapshot: snapshot(MIB)}
    async with tcp_node(handlers) as node:
        await states_to_break_in(node, gate)
        await node.until(lambda: node.open_connections == 0)
        assert gate.waiting == 1, "what was accepted is carried out"
        gate.opened.set()
        await node.until(lambda: gate.waiting == 0)
        assert node.listener.memory.used == 0
        assert await is_well(node)
        assert [event["event"] for event in node.events()] == ["connection closed: bad frame"]


async def test_closed_connections_are_freed_without_garbage_collection() -> None:
    gate = Gate()
    handlers = {**bound(gate.handler()), GetSnapshot: snapshot(MIB)}
    async with tcp_node(handlers) as node:
        gc.collect()
        gc.disable()
        try:
            await states_to_break_in(node, gate)
            assert await is_well(node)
            gate.opened.set()
            await node.until(lambda: node.open_connections == 0 and gate.waiting == 0)
            await asyncio.sleep(0.01)
            left = [one for one in gc.get_objects() if type(one).__name__ == "TcpConnection"]
            assert left == []
        finally:
            gc.enable()


# --- The server stops ---------------------------------------------------------------------------


async def test_a_stopping_server_finishes_what_it_has_begun_and_takes_nothing_more() -> None:
    gate = Gate()
    async with tcp_node(bound(gate.handler())) as node:
        async with node.client() as busy, node.client() as idle, node.client() as halfway:
            await busy.send(frame() + request(GetClient(1), 1) + frame(request=2))
            assert len(await busy.receive_many(1)) == 1
            await idle.send(frame())
            assert len(await idle.receive_many(1)) == 1
            await halfway.send(frame()[:100])
            await node.until(lambda: gate.waiting == 1)
            stopping = asyncio.create_task(node.listener.stop(5))
            assert await idle.is_closed()
            assert await halfway.is_closed()
            await busy.send(frame(request=3))
            with pytest.raises(ConnectionRefusedError):
                async with node.client():
                    pass
            assert not stopping.done()
            gate.opened.set()
            assert [reply.number for reply in await busy.receive_many(9)] == [1, 2]
            busy.sock.close()
            await stopping
            assert node.events() == []


async def test_who_stays_too_long_is_cut_when_the_server_stops() -> None:
    gate = Gate()
    async with tcp_node(bound(gate.handler())) as node, node.client() as client:
        await client.send(frame() + request(GetClient(1), 1))
        await node.until(lambda: gate.waiting == 1)
        await node.listener.stop(0.05)
        assert gate.waiting == 0, "it was cancelled"
        assert len(await client.receive_many(9)) == 1
        (event,) = node.events()
        assert event["event"] == "connections were cut"
        assert event["count"] == 1


async def test_a_request_whose_client_has_left_does_not_hold_up_the_end() -> None:
    gate = Gate()
    async with tcp_node(bound(gate.handler())) as node:
        async with node.client() as client:
            await client.send(frame() + request(GetClient(1), 1))
            await node.until(lambda: gate.waiting == 1)
        await node.until(lambda: node.open_connections == 0)
        async with asyncio.timeout(20):
            await node.listener.stop(0.05)
        assert gate.waiting == 0
        assert node.events("were cut")[0]["requests_in_flight"] == 1


async def test_a_client_that_does_not_read_does_not_hold_up_the_end() -> None:
    async with tcp_node() as node, node.client(receive_buffer=64 * KIB) as client:
        await fill(node, client)
        async with asyncio.timeout(20):
            await node.listener.stop(0.05)
        assert node.open_connections == 0


async def test_stopping_at_once_awaits_or_closes_every_handler() -> None:
    gate = Gate()
    async with tcp_node(bound(gate.handler())) as node, node.client() as client:
        await client.send(frame() + b"".join(request(GetClient(n), n) for n in range(1, 100)))
        await client.receive_many(1)
        await node.listener.stop(0)
        assert gate.waiting == 0
        gc.collect()  # a coroutine that was never awaited would complain now


# --- Handlers that fail -------------------------------------------------------------------------


def failing(services: Any, connection: Any, request: GetClient) -> Any:
    if request.client_id % 2:
        raise ZeroDivisionError

    async def later() -> None:
        await asyncio.sleep(0)
        raise KeyError("later")

    return later()


async def test_a_handler_that_fails_unexpectedly_costs_one_error_and_a_line_in_the_log() -> None:
    async with tcp_node(bound(failing)) as node, node.client() as client:
        await client.send(frame() + request(GetClient(1), 41) + request(GetClient(2), 42) + frame())
        replies = await client.receive_many(4)
        told = [reply.told for reply in replies]
        assert told == [success(), status(FAILURE), status(FAILURE), success()]
        events = node.events()
        assert [event["event"] for event in events] == ["request failed"] * 2
        for event, number, error in zip(
            events, (41, 42), ("ZeroDivision", "KeyError"), strict=True
        ):
            assert event["level"] == "error"
            assert event["connection"] == 1
            assert event["request"] == "GetClient"
            assert event["request_number"] == number
            assert "Traceback" in event["exception"]
            assert error in event["exception"]


async def test_a_reply_that_cannot_be_sent_is_an_error_and_not_the_end() -> None:
    handlers = {Ping: ping, GetSnapshot: snapshot(2 * MIB), GetClient: lambda *_: "no client"}
    async with tcp_node(handlers, max_frame_size=MIB) as node, node.client() as client:
        await client.send(frame() + request(SNAPSHOT, 1) + request(GetClient(1), 2) + frame())
        told = [reply.told for reply in await client.receive_many(4)]
        assert told == [success(), status(FAILURE), status(FAILURE), success()]
        assert [event["request_number"] for event in node.events("request failed")] == [1, 2]


# --- Addresses ----------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "0.0.0.0", "::"])
async def test_listening_at_addresses_of_all_kinds(host: str) -> None:
    reached: list[tuple[str, int]] = []

    def note(services: Any, connection: Any, request: Any) -> None:
        reached.append((connection.reached_host, connection.reached_port))
        assert connection.peer.rpartition(":")[0].strip("[]") == connection.reached_host

    dialled = {"localhost": ["127.0.0.1"], "0.0.0.0": ["127.0.0.1"], "::": ["::1", "127.0.0.1"]}
    async with tcp_node({Ping: note}, host=host) as node:
        port = node.address.port
        for local in dialled.get(host, [host]):
            async with WireClient(local, port) as client:
                await client.send(frame())
                assert len(await client.receive_many(1)) == 1
                assert reached.pop() == (local, port)


async def test_a_client_that_is_gone_before_it_is_looked_at() -> None:
    async with tcp_node() as node:
        for _ in range(50):
            reset(socket.create_connection((node.address.host, node.address.port)))
        assert await is_well(node)
        await node.until(lambda: node.open_connections == 0)
        assert node.events() == []
