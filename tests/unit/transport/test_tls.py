"""TLS on the TCP transport: handshakes that fail, every way to end, and new certificates."""

# ruff: noqa: SIM117 - a server and its clients are told apart

import asyncio
import gc
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.certificates import Authority
from support.frames import frame, request
from support.tcp_node import KIB, MIB, bound, ping, snapshot, tcp_node
from support.tls_client import TlsClient
from support.tls_node import AUTHORITY, TlsNode, tls_node
from support.wire_client import WireClient
from windsprite_protocol.model.system import (
    GetClient,
    GetSnapshot,
    Ping,
    SnapshotCompression,
    SnapshotKind,
)
from windsprite_server.handlers.dispatcher import Handler
from windsprite_server.transport.tls import is_client_hello

SNAPSHOT = GetSnapshot(SnapshotCompression.STORED, (SnapshotKind.TEST,))


def hello(context: ssl.SSLContext | None = None) -> bytes:
    """What a client says first."""
    outgoing = ssl.MemoryBIO()
    context = context or ssl.create_default_context()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


async def is_well(node: TlsNode) -> bool:
    """Whether somebody else is served."""
    async with node.tls_client() as other:
        await other.send(frame())
        return (await other.receive(5)).told.channel == "success"


async def everything(client: WireClient) -> bytes:
    """What comes until the end, as it comes."""
    data = b""
    with suppress(ConnectionResetError):
        while more := await asyncio.get_running_loop().sock_recv(client.sock, KIB):
            data += more
    return data


async def reason_of_the_end(node: TlsNode) -> str:
    """The one line of the log, once all connections are closed."""
    await node.until(lambda: node.events() != [])
    (event,) = node.events()
    assert event["event"] == "connection closed: TLS failed"
    assert event["level"] == "info"
    assert event["peer"].startswith("127.0.0.1:")
    reason: str = event["reason"]
    return reason


def waiting(gate: asyncio.Event) -> Handler:
    async def wait(services: Any, connection: Any, request: Any) -> None:
        await gate.wait()

    return wait


# --- Good handshakes ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_both_versions_of_tls(tmp_path: Path, version: ssl.TLSVersion) -> None:
    async with tls_node(tmp_path) as node:
        context = AUTHORITY.client_context()
        context.minimum_version = context.maximum_version = version
        async with node.tls_client(context) as client:
            await client.send(frame(bytes(3 * MIB)) + request(SNAPSHOT, 1))
            assert [len(reply.body) for reply in await client.receive_many(2)] == [0, MIB]
            assert client.tls.version() == version.name.replace("v1_", "v1.")
        await node.until(lambda: node.open_connections == 0)
        assert node.events() == []


async def test_requests_right_behind_the_handshake(tmp_path: Path) -> None:
    """The last words of a handshake and the first request come in one segment."""
    async with tls_node(tmp_path) as node, WireClient(*node.address) as raw:
        client = node.tls_client()
        client.sock = raw.sock
        await client.receive_until_connected()
        client.tls.write(frame(request=7))
        await client.flush()
        (reply,) = await client.receive_many(1)
        assert reply.number == 7


async def test_byte_by_byte(tmp_path: Path) -> None:
    async with tls_node(tmp_path) as node, WireClient(*node.address) as raw:
        raw.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = node.tls_client()
        client.sock = raw.sock
        client.is_slow = True
        await client.shake_hands()
        await client.send(frame(request=7))
        (reply,) = await client.receive_many(1)
        assert reply.number == 7


async def test_small_replies_share_records(tmp_path: Path) -> None:
    async with tls_node(tmp_path) as node, node.tls_client() as client:
        before = client.received
        await client.send(b"".join(frame(request=number) for number in range(1, 201)))
        assert len(await client.receive_many(200)) == 200
        assert client.received - before < 200 * 256 + 2000


# --- Handshakes that fail -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [frame(), frame(bytes(100_000)), b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\xff" * 300],
    ids=["frame", "large frame", "HTTP", "nonsense"],
)
async def test_a_client_without_tls(tmp_path: Path, sent: bytes) -> None:
    async with tls_node(tmp_path) as node, node.tls_client() as other:
        async with node.client() as client:
            await client.send(sent)
            assert len(await everything(client)) <= 7, "an alert and nothing else"
        assert await reason_of_the_end(node) == "the client does not speak TLS"
        assert node.served == []
        await other.send(frame())
        assert len(await other.receive_many(1)) == 1


@pytest.mark.parametrize("short", [False, True], ids=["whole hello", "less than a frame header"])
async def test_a_client_with_tls_where_none_is_spoken(short: bool) -> None:
    said = hello()
    async with tcp_node() as node, node.client() as other:
        async with node.client() as client:
            await client.send(said[:200] if short else said)
            assert await client.is_closed(1)
        (event,) = node.events()
        assert event["event"] == "connection closed: bad frame"
        assert event["reason"] == "a TLS handshake, but this port does not speak TLS"
        await other.send(frame())
        assert len(await other.receive_many(1)) == 1


def test_frames_are_no_hello() -> None:
    assert is_client_hello(hello())
    assert not is_client_hello(frame())
    assert not is_client_hello(hello()[:5])
    assert not is_client_hello(b"")


async def test_a_client_that_trusts_others(tmp_path: Path) -> None:
    async with tls_node(tmp_path) as node:
        with pytest.raises(ssl.SSLCertVerificationError):
            async with node.tls_client(Authority().client_context()):
                pass
        reason = await reason_of_the_end(node)
        assert reason == "the client refuses: unknown ca"
        assert await is_well(node)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
async def test_a_client_that_only_knows_what_is_out_of_date(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    async with tls_node(tmp_path) as node:
        with pytest.raises(ssl.SSLError, match="protocol version"):
            async with node.tls_client(context):
                pass
        assert await reason_of_the_end(node) == "unsupported protocol"


async def test_looking_whether_somebody_listens_is_not_worth_a_line(tmp_path: Path) -> None:
    async with tls_node(tmp_path) as node:
        for _ in range(20):
            async with node.client():
                pass
        async with node.client() as client:
            client.reset()
        assert await is_well(node)
        assert node.events() == []


async def test_a_client_that_leaves_during_the_handshake(tmp_path: Path) -> None:
    async with tls_node(tmp_path) as node:
        async with node.client() as client:
            await client.send(hello()[:100])
        assert await reason_of_the_end(node) == "the client left during the TLS handshake"


async def test_a_hello_that_is_damaged_anywhere(tmp_path: Path) -> None:
    """Each is refused, or answered by a server that then waits: nothing else happens."""
    async with tls_node(tmp_path, max_connections=1000) as node:
        said = hello()
        for place in range(0, len(said), 3):
            async with node.client() as client:
                await client.send(said[:place] + bytes([said[place] ^ 0x55]) + said[place + 1 :])
        await node.until(lambda: node.half_open == 0)
        assert {event["event"] for event in node.events()} == {"connection closed: TLS failed"}
        assert await is_well(node)


@pytest.mark.parametrize("said", [b"", hello()[:100], hello()], ids=["nothing", "half", "hello"])
async def test_a_handshake_that_takes_too_long(tmp_path: Path, said: bytes) -> None:
    async with tls_node(tmp_path, handshake_timeout=10) as node, node.client() as client:
        await client.send(said)
        await node.until(lambda: node.half_open == 1)
        await node.clock.advance(9)
        assert node.half_open == 1
        await node.clock.advance(2)
        await node.until(lambda: node.half_open == 0)
        assert await reason_of_the_end(node) == "the TLS handshake took too long"


async def test_single_bytes_do_not_prolong_a_handshake(tmp_path: Path) -> None:
    async with tls_node(tmp_path, handshake_timeout=10) as node, node.client() as client:
        for byte in hello()[:9]:
            await client.send(bytes([byte]))
            await node.clock.advance(1)
        assert node.half_open == 1
        await node.clock.advance(2)
        await node.until(lambda: node.half_open == 0)


async def test_handshakes_count_as_connections(tmp_path: Path) -> None:
    async with tls_node(tmp_path, max_connections=3) as node, node.tls_client() as other:
        async with node.client() as one, node.client() as two:
            await node.until(lambda: node.half_open == 2)
            async with node.client() as third:
                assert await third.is_closed()
            await other.send(frame())
            assert len(await other.receive_many(1)) == 1
            await node.clock.advance(11)
            assert await one.is_closed()
            assert await two.is_closed()
        assert await is_well(node)
        assert len(node.events("too many")) == 1
        assert len(node.events("TLS failed")) == 2


# --- Connections that end -----------------------------------------------------------------------


async def test_a_client_that_says_goodbye_gets_all_replies_and_then_a_goodbye(
    tmp_path: Path,
) -> None:
    gate = asyncio.Event()
    async with tls_node(tmp_path, bound(waiting(gate))) as node, node.tls_client() as client:
        await client.send(frame() + request(GetClient(1), 1) + frame(request=2))
        await client.say_goodbye()
        await client.send_raw(b"what nobody wants")
        assert len(await client.receive_many(1)) == 1
        assert await client.is_silent(0.05)
        gate.set()
        assert [reply.number for reply in await client.receive_many(9)] == [1, 2]
        assert client.was_told_goodbye
        await node.until(lambda: node.open_connections == 0)
        assert node.events() == []


@pytest.mark.parametrize("says_goodbye", [True, False])
async def test_a_client_that_ends_with_nothing_to_answer(
    tmp_path: Path, says_goodbye: bool
) -> None:
    async with tls_node(tmp_path) as node, node.tls_client() as client:
        await client.send(b"half a frame")
        if says_goodbye:
            await client.say_goodbye()
        else:
            client.sock.shutdown(socket.SHUT_WR)
        assert await client.is_closed()
        await node.until(lambda: node.open_connections == 0)
        assert node.events() == []


async def test_after_a_bad_frame_a_client_is_told_goodbye(tmp_path: Path) -> None:
    async with tls_node(tmp_path) as node, node.tls_client() as client:
        await client.send(frame() + frame(size=1) + frame() * 3)
        assert len(await client.receive_many(9)) == 1
        assert client.was_told_goodbye
        assert len(node.events("bad frame")) == 1
        client.sock.close()
        await node.until(lambda: node.open_connections == 0)
        assert len(node.events()) == 1


async def test_a_record_that_was_changed_on_its_way(tmp_path: Path) -> None:
    async with tls_node(tmp_path) as node, node.tls_client() as client:
        await client.send(frame(request=1))
        assert [reply.number for reply in await client.receive_many(1)] == [1]
        record = bytearray(client.encrypt(frame(request=2)))
        record[-1] ^= 1
        await client.send_raw(record + client.encrypt(frame(request=3)))
        assert await client.is_closed()
        assert not client.was_told_goodbye
        assert await reason_of_the_end(node) in (
            "decryption failed or bad record mac",
            "record layer failure",  # newer versions of OpenSSL say no more
        )
        assert len(node.served) == 1
        await node.until(lambda: node.open_connections == 0)
        assert await is_well(node)


async def test_a_server_that_stops_says_goodbye_and_does_not_wait_for_handshakes(
    tmp_path: Path,
) -> None:
    async with tls_node(tmp_path) as node, node.tls_client() as idle, node.client() as half:
        await half.send(hello()[:100])
        await node.until(lambda: node.half_open == 1)
        await asyncio.sleep(0.01)
        async with asyncio.timeout(20):
            await node.listener.stop(30)
        assert await half.is_closed()
        assert await idle.is_closed()
        assert idle.was_told_goodbye
        assert node.events() == []


async def test_nothing_is_left_of_connections_and_handshakes(tmp_path: Path) -> None:
    async with tls_node(tmp_path) as node:
        gc.collect()
        gc.disable()
        try:
            assert await is_well(node)
            async with node.tls_client(receive_buffer=64 * KIB) as client:
                await client.send(frame() + b"".join(request(SNAPSHOT, n) for n in range(1, 20)))
                await client.receive_many(1)
                client.reset()
            async with node.client() as client:
                await client.send(frame())
                await everything(client)
            await node.until(lambda: node.open_connections == 0 and node.half_open == 0)
            await asyncio.sleep(0.01)
            kinds = ("TlsStream", "TcpConnection")
            assert [one for one in gc.get_objects() if type(one).__name__ in kinds] == []
        finally:
            gc.enable()


# --- Memory and flow ----------------------------------------------------------------------------


async def test_what_was_kept_back_is_served_although_nothing_more_comes(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with tls_node(tmp_path, {Ping: waiting(gate)}, max_waiting_frames=1) as node:
        async with node.tls_client() as client:
            await client.send(frame(request=1))
            await node.until(lambda: len(node.served) == 1)
            # The large one fills its own memory to the last byte, and those behind it stay in TLS.
            await client.send(frame(bytes(100_000), request=2) + frame(request=3) * 3)
            await asyncio.sleep(0.05)
            assert len(node.served) == 1
            gate.set()
            assert [reply.number for reply in await client.receive_many(5)] == [1, 2, 3, 3, 3]


async def test_large_replies_leave_no_memory_behind(tmp_path: Path) -> None:
    import psutil

    handlers = {Ping: ping, GetSnapshot: snapshot(40 * MIB)}
    async with tls_node(tmp_path, handlers) as node:
        clients = [await node.tls_client().__aenter__() for _ in range(6)]
        before = 0
        for client in clients:
            await client.send(frame() + request(SNAPSHOT, 1))
            assert [len(reply.body) for reply in await client.receive_many(2)] == [0, 40 * MIB]
            before = before or psutil.Process().memory_info().rss
        assert psutil.Process().memory_info().rss - before < 60 * MIB
        for client in clients:
            client.sock.close()


# --- New certificates ---------------------------------------------------------------------------


async def test_new_connections_get_the_new_certificate_and_old_ones_stay(tmp_path: Path) -> None:
    async with tls_node(tmp_path) as node, node.tls_client() as old:
        issuer = Authority()
        node.files.put(issuer.issue())
        node.watch.reload()
        async with node.tls_client(issuer.client_context()) as new:
            for client in (old, new):
                await client.send(frame())
                assert len(await client.receive_many(1)) == 1
        with pytest.raises(ssl.SSLCertVerificationError):
            async with node.tls_client():
                pass


async def test_a_handshake_goes_on_with_the_certificate_it_began_with(tmp_path: Path) -> None:
    async with tls_node(tmp_path) as node, WireClient(*node.address) as raw:
        client: TlsClient = node.tls_client()
        client.sock = raw.sock
        await node.until(lambda: node.half_open == 1)
        node.files.put(Authority().issue())
        node.watch.reload()
        await client.shake_hands()
