"""Consumers whose server is killed, and whose connection is cut or stands still."""

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

import windsprite
from support.server_process import RestartableServer, server_process
from support.waiting import until
from windsprite import Commit

STREAM, TOPIC = WHERE = ("orders", "events")
READERS = [{"group": "g"}, {"name": "c"}]


class Wire:
    """What goes from the clients to a server and back; a test can cut it or make it stand still.

    Attributes:
        url: Where clients connect to.
        connections: How many there have been.
    """

    def __init__(self, server: str) -> None:
        self.url = ""
        self.connections = 0
        self._server = server
        self._flows = asyncio.Event()
        self._flows.set()
        self._cut_after: int | None = None
        self._resets = False
        self._sockets: list[asyncio.StreamWriter] = []

    def cut(self, after: int | None = None, *, resets: bool = False) -> None:
        """Cut the connection, at once or after so many further bytes of an answer."""
        self._resets = resets
        if after is None:
            self._break()
        else:
            self._cut_after = after

    @property
    def is_whole(self) -> bool:
        """Whether no cut is due any more."""
        return self._cut_after is None

    def stall(self) -> None:
        self._flows.clear()

    def resume(self) -> None:
        self._flows.set()

    def refuse(self) -> None:
        """Let nobody connect any more."""
        self._server = "127.0.0.1:1"
        self._break()

    def _break(self) -> None:
        self._cut_after = None
        for writer in self._sockets:
            if self._resets:
                option = struct.pack("ii", 1, 0)  # linger for no time: the kernel sends RST
                writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, option
                )
                writer.transport.abort()
            else:
                writer.close()
        self._sockets.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._sockets.append(writer)
        host, _, port = self._server.rpartition(":")
        try:
            there, to_server = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self._copy(reader, to_server, answers=False))
            group.create_task(self._copy(there, writer, answers=True))

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._flows.wait()
                if answers and self._cut_after is not None:
                    if len(data) >= self._cut_after:
                        writer.write(data[: self._cut_after])
                        await asyncio.sleep(0)
                        self._break()
                        break
                    self._cut_after -= len(data)
                writer.write(data)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def wire_to(server: str) -> AsyncIterator[Wire]:
    wire = Wire(server)
    listener = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    wire.url = f"iggy://iggy:iggy@127.0.0.1:{port}"
    async with listener:
        yield wire


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    # The client goes where the server says it is: that is to be the wire.
    settings = {"WINDSPRITE_STORAGE__TAIL_MEMORY": "1 MiB"}
    with server_process(tmp_path_factory.mktemp("faults"), environment=settings) as server:
        yield server.wait_ready()["tcp"]
        assert server.stop() == 0


@pytest.fixture
async def client(address: str) -> AsyncIterator[windsprite.Client]:
    """A client that nothing happens to."""
    async with windsprite.connect(f"iggy://iggy:iggy@{address}") as client:
        await client.create_stream(STREAM)
        yield client
        await client.delete_stream(STREAM)


@pytest.fixture
async def wire(address: str) -> AsyncIterator[Wire]:
    async with wire_to(address) as wire:
        yield wire


def connect(wire: Wire) -> windsprite.Connecting:
    return windsprite.connect(
        wire.url,
        reconnection_interval=0.01,
        reconnection_max_interval=0.05,
        reestablish_after=0.0,
        request_timeout=1.0,
    )


async def fill(client: windsprite.Client, *sizes: int) -> None:
    await client.create_topic(*WHERE, partitions=len(sizes))
    for partition, size in enumerate(sizes):
        if size:
            await client.send(*WHERE, [b"x" * 100] * size, partition=partition)


class Reading:
    """Handles messages in the background and counts how often each is seen."""

    def __init__(self, consumer: windsprite.TopicConsumer) -> None:
        self.seen: Counter[tuple[int, int]] = Counter()
        self.consumer = consumer
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self.consumer:
            await asyncio.sleep(0)
            self.seen[message.partition_id, message.offset] += 1

    async def end(self) -> None:
        self.consumer.stop()
        await self._task


@asynccontextmanager
async def reading(client: windsprite.Client, **options) -> AsyncIterator[Reading]:
    async with client.consumer(*WHERE, batch_messages=20, **options) as consumer:
        started = Reading(consumer)
        yield started
        await started.end()


# --- The connection --------------------------------------------------------------------------

CUTS = {
    "at once": {},
    "before the header": {"after": 0},
    "in the header": {"after": 100},
    "between header and body": {"after": 256},
    "in the body": {"after": 300},
    "later": {"after": 20_000},
    "reset in the header": {"after": 100, "resets": True},
    "reset in the body": {"after": 300, "resets": True},
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("cut", CUTS)
async def test_nothing_is_missed_or_repeated_when_the_connection_is_cut(
    client: windsprite.Client, wire: Wire, reader: dict[str, str], cut: str
) -> None:
    await fill(client, 300, 300)
    async with connect(wire) as cut_client, reading(cut_client, **reader) as handled:
        await until(lambda: len(handled.seen) > 50)
        wire.cut(**CUTS[cut])
        await client.send(*WHERE, [b"x"] * 10, partition=0)
        await until(lambda: len(handled.seen) == 610 and wire.is_whole)
        await client.send(*WHERE, [b"x"], partition=1)
        await until(lambda: len(handled.seen) == 611)
        assert wire.connections >= 2
        # Nobody else has had the partitions: the consumer knows what it has handled.
        assert set(handled.seen.values()) == {1}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("start", ["new", None, windsprite.From.last()])
@pytest.mark.parametrize("there", [0, 5])
async def test_bug_18_who_waits_at_the_end_goes_on_there(
    client: windsprite.Client, wire: Wire, reader: dict[str, str], start, there: int
) -> None:
    await fill(client, there)
    before = 0 if start == "new" else there
    async with (
        connect(wire) as cut_client,
        reading(cut_client, **reader, start=start, poll_interval=0.02) as handled,
    ):
        await until(lambda: handled.consumer.lag(0) == 0 and len(handled.seen) == before)
        wire.cut()
        await until(lambda: wire.connections >= 2)
        await client.send(*WHERE, [b"x"])
        await until(lambda: len(handled.seen) == before + 1)
        wire.cut()
        await client.send(*WHERE, [b"x"])
        await until(lambda: len(handled.seen) == before + 2)
        assert set(handled.seen.values()) == {1}
        assert min(handled.seen) == (0, there - before)


@pytest.mark.parametrize("reader", READERS)
async def test_a_connection_that_stands_still_for_a_while(
    client: windsprite.Client, wire: Wire, reader: dict[str, str]
) -> None:
    await fill(client, 300)
    async with connect(wire) as cut_client, reading(cut_client, **reader) as handled:
        await until(lambda: len(handled.seen) > 20)
        wire.stall()
        await asyncio.sleep(0.2)
        wire.resume()
        await until(lambda: len(handled.seen) == 300)
        assert set(handled.seen.values()) == {1}


async def test_closing_does_not_wait_for_a_server_that_is_silent(
    client: windsprite.Client, wire: Wire
) -> None:
    await fill(client, 10)
    async with connect(wire) as cut_client:
        consumer = cut_client.consumer(*WHERE, group="g", close_timeout=0.2)
        consumer.handled(await consumer.get())
        wire.stall()
        with pytest.raises(windsprite.RequestTimedOut):
            await consumer.close()
        wire.resume()
        with pytest.raises(windsprite.ClientClosed):
            await consumer.get()


async def test_patience_ends(address: str, client: windsprite.Client) -> None:
    await fill(client, 1)
    async with wire_to(address) as wire, connect(wire) as cut_client:
        consumer = cut_client.consumer(*WHERE, name="c", patience=0.1, close_timeout=0.1)
        await consumer.commit(await consumer.get())
        wire.refuse()
        with pytest.raises(windsprite.Unavailable):
            await consumer.get()
        await consumer.close()


# --- The server ------------------------------------------------------------------------------


@pytest.mark.parametrize("reader", READERS)
async def test_a_server_that_is_killed_and_started_again(
    tmp_path: Path, reader: dict[str, str]
) -> None:
    server = RestartableServer(tmp_path)
    url = f"iggy://iggy:iggy@{server.address}"
    options = {"reconnection_interval": 0.01, "reestablish_after": 0.0}
    try:
        async with windsprite.connect(url, **options) as sender:
            await sender.create_stream(STREAM)
            await fill(sender, 400, 400)
        async with windsprite.connect(url, **options) as client:
            commit = Commit.after_handling(every=10)
            async with reading(client, **reader, commit=commit) as handled:
                await until(lambda: len(handled.seen) > 100)
                await asyncio.to_thread(server.restart)
                async with windsprite.connect(url, **options) as sender:
                    await sender.send(*WHERE, [b"x"] * 10, partition=0)
                await until(lambda: len(handled.seen) == 810)
                assert set(handled.seen.values()) == {1}
            stored = [
                await client.get_consumer_offset(
                    *WHERE, partition=n, consumer=reader.get("name"), group=reader.get("group")
                )
                for n in (0, 1)
            ]
            assert [one and one.stored_offset for one in stored] == [409, 399]
    finally:
        server.end()
