"""A server keeps within the memory that docs/limits.md says it takes, whatever clients do."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest

from support.log import batch_of
from support.preloaded_server import PreloadedServer
from support.real_server import real_server
from support.wire_client import VERSION, WireClient, status, wire_client
from windsprite_protocol.batches import NewMessage, build_batch
from windsprite_protocol.message_frames import FRAMES_AT_ONCE
from windsprite_protocol.model.identifiers import (
    Consumer,
    ConsumerKind,
    PollingStrategy,
    ToPartition,
)
from windsprite_protocol.model.messages import PolledMessages, PollMessages, SendMessages
from windsprite_protocol.model.offsets import StoreConsumerOffset
from windsprite_protocol.model.sessions import LoginWithToken
from windsprite_protocol.model.streams import CreateStream
from windsprite_protocol.model.system import Ping
from windsprite_protocol.model.tokens import CreateToken
from windsprite_protocol.model.topics import CreateTopic
from windsprite_server.core.clock import SystemClock
from windsprite_server.settings.sources import keys

KIB, MIB = 1 << 10, 1 << 20
PROGRAM = 100 * MIB
FRAME = 16 * MIB
SMALL = {
    "WINDSPRITE_LIMITS__MAX_FRAME_SIZE": "16 MiB",
    "WINDSPRITE_LIMITS__RECEIVE_MEMORY": "16 MiB",
    "WINDSPRITE_LIMITS__SEND_MEMORY": "32 MiB",
    "WINDSPRITE_STORAGE__TAIL_MEMORY": "16 MiB",
    "WINDSPRITE_STORAGE__READ_THREADS": "1",
}
READER = Consumer(ConsumerKind.SINGLE, 1)


class Measured:
    """A started server, and how much memory it takes."""

    def __init__(self, ready: Mapping[str, Any]) -> None:
        self.address: str = ready["tcp"]
        self._pid: int = ready["pid"]

    @property
    def memory(self) -> int:
        """Bytes that nobody else uses: what it shares with its helper is the program."""
        used: int = psutil.Process(self._pid).memory_full_info().uss
        return used

    @property
    def highest(self) -> int:
        """The most bytes that were ever in memory, the program included."""
        status = Path(f"/proc/{self._pid}/status").read_text(encoding="ascii")
        (kilobytes,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
        return int(kilobytes) * KIB


@contextmanager
def running(folder: Path, settings: Mapping[str, str]) -> Iterator[Measured]:
    with PreloadedServer(folder, settings) as server:
        server.start()
        yield Measured(server.wait_ready())


@asynccontextmanager
async def logged_in(server: Measured, token: str = "") -> AsyncIterator[WireClient]:
    async with wire_client(server.address) as client:
        if token:
            client.client = uuid4().bytes
            login = await client.call(LoginWithToken(VERSION, token))
            client.session = login.session
        else:
            await client.login()
        yield client


def everything(start: int = 0) -> PollMessages:
    return PollMessages(READER, "s", "t", 0, PollingStrategy.offset(start), 1 << 31, False)


async def push_at_clients_that_never_read(folder: Path, size: int) -> None:
    count, idle = 1000, 12
    batch, _ = batch_of([bytes(1000)] * count)
    with running(folder, SMALL) as server:
        async with AsyncExitStack() as stack:
            root = await stack.enter_async_context(logged_in(server))
            token = (await root.call(CreateToken("all", 0))).token
            await root.call(CreateStream("s"))
            await root.call(CreateTopic("s", 1, "t"))
            for _ in range(32 * MIB // len(batch)):
                await root.call(SendMessages("s", "t", ToPartition(0), count, batch))
            for _ in range(idle):
                client = await stack.enter_async_context(logged_in(server, token))
                for _ in range(20):
                    await client.send(*client.encode(everything()))
            sent = 0
            while sent < size:
                await root.call(SendMessages("s", "t", ToPartition(0), count, batch))
                sent += len(batch)
            # Somebody who reads is served to the end, in small pieces.
            found: PolledMessages = await root.call(everything())
            assert 1 <= found.messages_count <= FRAME // 1000
            await root.call(StoreConsumerOffset(READER, "s", "t", 0, found.current_offset))
            tail, receive, send = 16 * MIB, 16 * MIB + FRAME, 32 * MIB
            reads, connections = 2 * 1 * FRAME, (idle + 1) * (96 + 128) * KIB
            assert server.highest <= PROGRAM + tail + receive + send + reads + connections


async def test_bug_34_a_consumer_that_never_reads_costs_no_more_than_said(tmp_path: Path) -> None:
    await push_at_clients_that_never_read(tmp_path, 128 * MIB)


@pytest.mark.soak
async def test_bug_34_a_gibibyte_pushed_at_consumers_that_never_read(tmp_path: Path) -> None:
    await push_at_clients_that_never_read(tmp_path, 1024 * MIB)


async def use_partitions(folder: Path, topics: int) -> None:
    """Topics of 1,000 partitions, a message and an offset in each."""
    batch, _ = batch_of([b"x"])
    with running(folder, {"WINDSPRITE_STORAGE__OPEN_FILES": "100"}) as server:
        async with logged_in(server) as root:
            await root.call(CreateStream("s"))
            before = server.memory
            for topic in range(topics):
                await root.call(CreateTopic("s", 1000, f"t{topic}"))
                for make in (send_one, store_zero):
                    for partition in range(1000):
                        await root.send(*root.encode(make(f"t{topic}", partition, batch)))
                    for _ in range(1000):
                        assert (await root.receive()).told.channel == "success"
            taken = server.memory - before
            assert taken <= topics * 1000 * (8 * KIB + 1 * KIB + len(batch) + 1024)


def send_one(topic: str, partition: int, batch: memoryview) -> SendMessages:
    return SendMessages("s", topic, ToPartition(partition), 1, batch)


def store_zero(topic: str, partition: int, _: memoryview) -> StoreConsumerOffset:
    return StoreConsumerOffset(READER, "s", topic, partition, 0)


async def test_partitions_cost_no_more_than_said(tmp_path: Path) -> None:
    await use_partitions(tmp_path, 1)


@pytest.mark.soak
async def test_ten_thousand_partitions_cost_no_more_than_said(tmp_path: Path) -> None:
    await use_partitions(tmp_path, 10)


async def test_a_thousand_idle_connections_cost_no_more_than_said(tmp_path: Path) -> None:
    with running(tmp_path, {}) as server:
        async with logged_in(server) as root, AsyncExitStack() as stack:
            token = (await root.call(CreateToken("all", 0))).token
            before = server.memory
            clients = [
                await stack.enter_async_context(wire_client(server.address)) for _ in range(1000)
            ]
            await root.call(Ping())
            assert server.memory - before <= 1000 * 16 * KIB
            for client in clients:
                client.client = uuid4().bytes
                client.session = (await client.call(LoginWithToken(VERSION, token))).session
                await client.call(Ping())
            assert server.memory - before <= 1000 * 96 * KIB


@pytest.mark.parametrize("sizes", [(1,), (0, 1)], ids=["equal", "unequal"])
async def test_very_many_messages_in_one_batch_cost_no_more_than_said(
    tmp_path: Path, sizes: tuple[int, ...]
) -> None:
    count = 300_000
    batch = batch_of_many(count, sizes)
    with running(tmp_path, {}) as server:
        async with logged_in(server) as root:
            await root.call(CreateStream("s"))
            await root.call(CreateTopic("s", 1, "t"))
            before = server.highest
            await root.call(SendMessages("s", "t", ToPartition(0), count, batch))
            # The receive buffer grows into its last size by one copy of a small part.
            assert server.highest - before <= 1.25 * len(batch) + 24 * count + 8 * MIB
            start = count // 2 + 1
            found: PolledMessages = await root.call(
                PollMessages(READER, "s", "t", 0, PollingStrategy.offset(start), 1000, False)
            )
            assert found.messages_count == 1000
            found = await root.call(everything(start))
            assert found.messages_count == 65_536


class CountingClock(SystemClock):
    """Counts how often somebody gives way to others."""

    turns = 0

    async def sleep(self, seconds: float) -> None:
        self.turns += seconds == 0
        await super().sleep(seconds)


@pytest.mark.parametrize("sizes", [(1,), (0, 1)], ids=["equal", "unequal"])
async def test_others_get_their_turn_while_very_many_messages_are_verified(
    tmp_path: Path, sizes: tuple[int, ...]
) -> None:
    count = 50_000
    clock = CountingClock()
    async with real_server(tmp_path, clock=clock) as server, server.client("iggy", "iggy") as root:
        await root.call(CreateStream("s"))
        await root.call(CreateTopic("s", 1, "t"))
        await root.call(SendMessages("s", "t", ToPartition(0), 4000, batch_of_many(4000, sizes)))
        before = clock.turns
        batch = batch_of_many(count, sizes)
        await root.call(SendMessages("s", "t", ToPartition(0), count, batch))
        assert clock.turns - before >= count // FRAMES_AT_ONCE
        batch[-1] ^= 1
        answer = await root.told(SendMessages("s", "t", ToPartition(0), count, batch))
        assert answer == status(4027)
        found = await root.call(everything(count))
        assert found.current_offset == 4000 + count - 1


def batch_of_many(count: int, sizes: tuple[int, ...]) -> bytearray:
    messages = [NewMessage(bytes(sizes[n % len(sizes)]), bytes(16), 1) for n in range(count)]
    return build_batch(messages)


def test_the_page_names_settings_that_there_are() -> None:
    page = Path(__file__).parents[2] / "docs" / "limits.md"
    named = set(re.findall(r"`([a-z]+\.[a-z_]+)`", page.read_text(encoding="utf-8")))
    assert len(named) > 15
    assert named <= set(keys())
