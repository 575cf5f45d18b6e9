"""Producers whose connection is cut in every state it can be in, and servers that are killed."""

import asyncio
import contextlib
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import windsprite
from support.real_server import real_server
from support.server_process import RestartableServer
from windsprite import Client, Delivered, From, NewTopic

WHERE = ("orders", "events")
HEADER = 256


class Proxy:
    """Stands between a client and a server; ends a connection where it is told to.

    Attributes:
        address: Where clients connect.
    """

    def __init__(self, server_address: str) -> None:
        self._server = server_address.rsplit(":", 1)
        self._cut: tuple[str, int, bool] | None = None
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ""

    def cut(self, direction: str, after: int, *, reset: bool) -> None:
        """Let so many bytes more go to the `server` or the `client`, then cut, once."""
        self._cut = (direction, after, reset)

    @property
    def has_cut(self) -> bool:
        return self._cut is None

    async def __aenter__(self) -> "Proxy":
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = "{}:{}".format(*self._listener.sockets[0].getsockname())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listener is not None
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        far_reader, far_writer = await asyncio.open_connection(*self._server)
        ways = [
            asyncio.ensure_future(self._pump("server", reader, far_writer)),
            asyncio.ensure_future(self._pump("client", far_reader, writer)),
        ]
        try:
            done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            reset = any(way.result() for way in done)
        except asyncio.CancelledError:
            reset = False
        for way in ways:
            way.cancel()
        for end in (writer, far_writer):
            if reset:
                linger = struct.pack("ii", 1, 0)
                end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                end.transport.abort()
            else:
                end.close()

    async def _pump(
        self, direction: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Forward until the end, or the cut; whether it is to be cut hard."""
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                if self._cut is not None and self._cut[0] == direction:
                    _, after, reset = self._cut
                    writer.write(data[:after])
                    await writer.drain()
                    if len(data) >= after:
                        self._cut = None
                        return reset
                    self._cut = (direction, after - len(data), reset)
                    continue
                writer.write(data)
                await writer.drain()
        return False


@pytest.fixture
async def proxy(tmp_path: Path) -> AsyncIterator[Proxy]:
    async with real_server(tmp_path) as server, Proxy(server.address) as proxy:
        yield proxy


async def payloads(client: Client) -> list[bytes]:
    polled = await client.poll(*WHERE, start=From.first(), count=1_000_000)
    return [message.payload for message in polled]


CUTS = [
    pytest.param("server", 0, 0, id="before the request"),
    pytest.param("server", 100, 0, id="in its header"),
    pytest.param("server", HEADER, 0, id="between header and body"),
    pytest.param("server", HEADER + 200, 0, id="in its body"),
    pytest.param("client", 0, 1, id="before the answer"),
    pytest.param("client", 100, 1, id="in the header of the answer"),
    pytest.param("client", HEADER + 10, 1, id="in the body of the answer"),
]


@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
@pytest.mark.parametrize(("direction", "after", "stored"), CUTS)
async def test_cuts(proxy: Proxy, direction: str, after: int, stored: int, *, reset: bool) -> None:
    address = f"iggy://iggy:iggy@{proxy.address}?reestablish_after=0s&reconnection_interval=10ms"
    async with windsprite.connect(address) as client:
        async with client.producer(*WHERE, linger=0) as safe:
            assert await safe.send_and_wait(b"first") == Delivered(0, 0)
            proxy.cut(direction, after, reset=reset)
            doubtful = await safe.send(b"doubtful")
            await safe.flush()
            following = await safe.send(b"following")
            with pytest.raises(windsprite.OutcomeUnknown):
                await doubtful
            assert proxy.has_cut
            assert await following == Delivered(0, 1 + stored)
        async with client.producer(*WHERE, linger=0, retry="at-least-once") as patient:
            proxy.cut(direction, after, reset=reset)
            again = await patient.send(b"again")
            await patient.flush()
            assert proxy.has_cut
            assert await again == Delivered(0, 2 + 2 * stored)
            last = await patient.send_and_wait(b"last")
            assert last == Delivered(0, 3 + 2 * stored)
        assert await payloads(client) == [
            b"first",
            *[b"doubtful"] * stored,
            b"following",
            *[b"again"] * (1 + stored),
            b"last",
        ]


SENDERS, PARTITIONS = 6, 3


class Run:
    """Senders that send until they are told to stop, each to one partition of a topic.

    Attributes:
        sent: What they have sent, and what becomes of it.
    """

    def __init__(self, client: Client, retry: Any) -> None:
        self._client = client
        self._retry = retry
        self._is_over = False
        self.sent: dict[bytes, windsprite.Delivery] = {}

    async def send(self) -> None:
        options: dict[str, Any] = {
            "create": NewTopic(partitions=PARTITIONS),
            "batch_messages": 20,
            "linger": 0.001,
            "retry": self._retry,
            "buffer_bytes": 100_000,
        }
        async with self._client.producer("orders", self._retry, **options) as producer:
            await asyncio.gather(*(self._send(producer, sender) for sender in range(SENDERS)))

    async def _send(self, producer: windsprite.Producer, sender: int) -> None:
        number = 0
        while not self._is_over:
            payload = b"%d %d" % (sender, number)
            self.sent[payload] = await producer.send(payload, partition=sender % PARTITIONS)
            number += 1
            await asyncio.sleep(0)

    def stop(self) -> None:
        self._is_over = True

    async def check(self) -> None:
        results = await asyncio.gather(*self.sent.values(), return_exceptions=True)
        placed = {
            result: payload
            for payload, result in zip(self.sent, results, strict=True)
            if isinstance(result, Delivered)
        }
        errors = {type(result) for result in results if isinstance(result, BaseException)}
        found: dict[Delivered, bytes] = {}
        for partition in range(PARTITIONS):
            for message in await self._client.poll(
                "orders", self._retry, partition=partition, start=From.first(), count=1_000_000
            ):
                found[Delivered(partition, message.offset)] = message.payload
        assert {place: found.get(place) for place in placed} == placed
        times = Counter(found.values())
        if self._retry == "safe":
            assert set(times.values()) == {1}
            assert errors <= {windsprite.OutcomeUnknown}
        else:
            assert errors == set()
            assert set(times) == set(self.sent)
        self._check_order(found)

    @staticmethod
    def _check_order(found: dict[Delivered, bytes]) -> None:
        """What was not there before comes in the order in which it was sent."""
        last = dict.fromkeys(range(SENDERS), -1)
        seen: set[bytes] = set()
        for place in sorted(found):
            if found[place] not in seen:
                seen.add(found[place])
                sender, number = map(int, found[place].split())
                assert number > last[sender]
                last[sender] = number


async def test_a_server_that_is_killed_again_and_again(tmp_path: Path) -> None:
    server = RestartableServer(tmp_path)
    options = "reestablish_after=0s&reconnection_max_interval=50ms"
    address = f"iggy://iggy:iggy@{server.address}?{options}"
    try:
        async with windsprite.connect(address) as client:
            runs = [Run(client, "safe"), Run(client, "at-least-once")]
            sending = [asyncio.create_task(run.send()) for run in runs]
            for _ in range(2):
                before = [len(run.sent) for run in runs]
                async with asyncio.timeout(60):
                    while any(
                        len(run.sent) < already + 1000
                        for run, already in zip(runs, before, strict=True)
                    ):
                        await asyncio.sleep(0.001)
                await asyncio.to_thread(server.restart)
            for run in runs:
                run.stop()
            await asyncio.gather(*sending)
            for run in runs:
                await run.check()
    finally:
        server.end()
