"""One connection against a socket that does what the test says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from support.environment import SeededEnvironment
from support.virtual_time import in_virtual_time
from windsprite.address import Endpoint
from windsprite.connection import Broken, Connection, open_connection
from windsprite.errors import (
    ClientClosed,
    ConnectionLost,
    ProtocolViolation,
    RequestTimedOut,
    WindspriteError,
)
from windsprite_protocol.v0_11.frames import (
    EvictionHeader,
    ReplyHeader,
    pack_eviction,
    pack_reply,
)


def reply(number: int, body: bytes = b"") -> bytes:
    return pack_reply(ReplyHeader(size=256 + len(body), request=number, operation=2)) + body


class Peer:
    """The other end of the one connection."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.lost: list[WindspriteError] = []
        self.writer: asyncio.StreamWriter | None = None
        self.eof = asyncio.Event()
        self.client: Connection

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        try:
            while data := await reader.read(65536):
                self.received += data
        except OSError:
            pass
        finally:
            self.eof.set()
            writer.close()

    def send(self, data: bytes) -> None:
        assert self.writer is not None
        self.writer.write(data)


@asynccontextmanager
async def connected(max_reply_size: int = 1 << 20, patience: float = 30) -> AsyncIterator[Peer]:
    peer = Peer()
    server = await asyncio.start_server(peer.accept, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    peer.client = await open_connection(
        Endpoint(host, port),
        SeededEnvironment(),
        time_limit=5,
        patience=patience,
        max_reply_size=max_reply_size,
        on_lost=peer.lost.append,
    )
    while peer.writer is None:
        await asyncio.sleep(0)
    try:
        yield peer
    finally:
        peer.client.close()
        await peer.client.wait_closed(1)
        await peer.eof.wait()
        server.close()
        await asyncio.sleep(0.1)


def ask(peer: Peer, text: bytes, *, within: float = 10) -> "asyncio.Task[bytes]":
    async def exchange() -> bytes:
        deadline = asyncio.get_running_loop().time() + within
        return bytes((await peer.client.exchange([text], deadline)).body)

    return asyncio.create_task(exchange())


async def broken(task: "asyncio.Task[bytes]") -> Broken:
    with pytest.raises(Broken) as failure:
        await task
    return failure.value


@in_virtual_time
async def test_requests_leave_one_at_a_time_and_in_order() -> None:
    async with connected() as peer:
        tasks = [ask(peer, bytes([letter])) for letter in b"abc"]
        await asyncio.sleep(1)
        assert peer.received == b"a"
        peer.send(reply(1, b"A"))
        await asyncio.sleep(1)
        assert peer.received == b"ab"
        peer.send(reply(2, b"B"))
        await asyncio.sleep(1)
        peer.send(reply(3, b"C"))
        assert await asyncio.gather(*tasks) == [b"A", b"B", b"C"]


@pytest.mark.parametrize("size", [1, 7, 100, 255])
@in_virtual_time
async def test_answers_may_come_in_pieces(size: int) -> None:
    async with connected() as peer:
        task = ask(peer, b"x")
        await asyncio.sleep(0.1)
        data = reply(1, bytes(range(100)))
        for start in range(0, len(data), size):
            peer.send(data[start : start + size])
            await asyncio.sleep(0)
        assert await task == bytes(range(100))


@in_virtual_time
async def test_large_answers() -> None:
    async with connected(max_reply_size=5_000_000) as peer:
        body = bytes(range(256)) * 15_000
        task = ask(peer, b"x")
        await asyncio.sleep(0.1)
        peer.send(reply(1, body))
        assert await task == body


@in_virtual_time
async def test_an_answer_that_is_too_large_ends_the_connection() -> None:
    async with connected(max_reply_size=1000) as peer:
        task = ask(peer, b"x")
        await asyncio.sleep(0.1)
        peer.send(reply(1, bytes(745)))
        error = await broken(task)
        assert isinstance(error.reason, ProtocolViolation)
        assert error.sent


@in_virtual_time
async def test_an_answer_nobody_waits_for_ends_the_connection() -> None:
    async with connected() as peer:
        peer.send(reply(1))
        await asyncio.sleep(0.1)
        assert isinstance(peer.lost[0], ProtocolViolation)
        error = await broken(ask(peer, b"x"))
        assert not error.sent
        assert peer.received == b""


@in_virtual_time
async def test_who_gives_up_leaves_a_place_behind() -> None:
    async with connected() as peer:
        first, second = ask(peer, b"a"), ask(peer, b"b")
        await asyncio.sleep(0.1)
        first.cancel()
        await asyncio.sleep(1)
        assert peer.received == b"a"
        assert peer.client.in_flight == 1
        peer.send(reply(1, b"A"))
        await asyncio.sleep(0.1)
        assert peer.received == b"ab"
        peer.send(reply(2, b"B"))
        assert await second == b"B"


@in_virtual_time
async def test_who_gives_up_in_the_queue_sends_nothing() -> None:
    async with connected() as peer:
        first, second, third = ask(peer, b"a"), ask(peer, b"b", within=2), ask(peer, b"c")
        await asyncio.sleep(3)
        error = await broken(second)
        assert isinstance(error.reason, RequestTimedOut)
        assert not error.sent
        peer.send(reply(1, b"A"))
        await asyncio.sleep(0.1)
        peer.send(reply(2, b"C"))
        assert (await first, await third) == (b"A", b"C")
        assert peer.received == b"ac"


@in_virtual_time
async def test_deadlines_of_requests_and_of_the_connection() -> None:
    async with connected(patience=30) as peer:
        began = asyncio.get_running_loop().time()
        error = await broken(ask(peer, b"a", within=2))
        assert isinstance(error.reason, RequestTimedOut)
        assert error.sent
        assert asyncio.get_running_loop().time() - began == pytest.approx(2)
        assert not peer.lost
        error = await broken(ask(peer, b"b", within=100))
        assert isinstance(error.reason, ConnectionLost)
        assert asyncio.get_running_loop().time() - began == pytest.approx(30)
        assert len(peer.lost) == 1


@in_virtual_time
async def test_closing() -> None:
    async with connected() as peer:
        sent, queued = ask(peer, b"a"), ask(peer, b"b")
        await asyncio.sleep(0.1)
        peer.client.close()
        errors = [await broken(sent), await broken(queued)]
        assert [error.sent for error in errors] == [True, False]
        assert all(isinstance(error.reason, ClientClosed) for error in errors)
        peer.client.close()
        assert len(peer.lost) == 1


@in_virtual_time
async def test_the_server_closes() -> None:
    async with connected() as peer:
        sent, queued = ask(peer, b"a"), ask(peer, b"b")
        await asyncio.sleep(0.1)
        assert peer.writer is not None
        peer.writer.close()
        errors = [await broken(sent), await broken(queued)]
        assert [error.sent for error in errors] == [True, False]
        assert all(isinstance(error.reason, ConnectionLost) for error in errors)


@in_virtual_time
async def test_an_eviction_answers_the_oldest_request_and_ends_the_rest() -> None:
    async with connected() as peer:
        first, second = ask(peer, b"a"), ask(peer, b"b")
        await asyncio.sleep(0.1)
        peer.send(pack_eviction(EvictionHeader(client=b"c" * 16, reason=1)))
        assert await first == b""
        error = await broken(second)
        assert not error.sent
        assert isinstance(error.reason, ConnectionLost)


@in_virtual_time
async def test_nobody_listens() -> None:
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await open_connection(
            Endpoint("127.0.0.1", 1),
            SeededEnvironment(),
            time_limit=5,
            patience=30,
            max_reply_size=1000,
        )
