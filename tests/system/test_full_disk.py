"""A real server on a real disk that is full, to the reserve or to the last byte, or refuses writes.

Writers are told to try again, nothing of what was refused is ever seen, everything else goes on as
far as it can, and writes go on by themselves.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.log import batch_of
from support.preloaded_server import PreloadedServer
from support.server_process import server_process
from support.small_disk import MIB, SmallDisk, small_disk
from support.topic_option_choices import option
from support.wire_client import Told, WireClient, result, status, success, wire_client
from windsprite_protocol.messages import Messages
from windsprite_protocol.model.groups import (
    CreateConsumerGroup,
    JoinConsumerGroup,
    SyncConsumerGroup,
)
from windsprite_protocol.model.identifiers import (
    Consumer,
    ConsumerKind,
    PollingStrategy,
    ToPartition,
)
from windsprite_protocol.model.messages import PolledMessages, PollMessages, SendMessages
from windsprite_protocol.model.offsets import GetConsumerOffset, StoreConsumerOffset
from windsprite_protocol.model.streams import CreateStream, GetStreams
from windsprite_protocol.model.topics import CreateTopic, DeleteSegments, DeleteTopic, PurgeTopic
from windsprite_protocol.model.typed_values import ValueKind

TRY_AGAIN = 58
RESERVE = 4 * MIB
SETTINGS = {"WINDSPRITE_STORAGE__MIN_FREE": "4 MiB", "WINDSPRITE_STORAGE__TAIL_MEMORY": "0"}
READER = Consumer(ConsumerKind.SINGLE, 1)
TEAM = Consumer(ConsumerKind.GROUP, "team")
LARGE, SMALL = bytes(200_000), b"small"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as disk:
        yield disk


@pytest.fixture
def server(tmp_path: Path, disk: SmallDisk) -> Iterator[PreloadedServer]:
    environment = {**SETTINGS, "WINDSPRITE_DATA_DIR": str(disk.path / "data")}
    with PreloadedServer(tmp_path, environment) as server:
        yield server


@asynccontextmanager
async def running(server: PreloadedServer) -> AsyncIterator[WireClient]:
    """A started server with its data on the disk, and root logged in."""
    server.start()
    async with wire_client(server.wait_ready()["tcp"]) as root:
        await root.login()
        yield root


async def prepare(root: WireClient, **options: str) -> None:
    """Topics t and u with a few messages, and a group that this client is a member of."""
    await root.call(CreateStream("s"))
    chosen = [option("segment_size", MIB, ValueKind.UINT64)]
    chosen += [option(key, text) for key, text in options.items()]
    for topic in ("t", "u"):
        await root.call(CreateTopic("s", 1, topic, tuple(chosen)))
        assert await send(root, SMALL, topic=topic) == success_of(0, topic)
    await root.call(CreateConsumerGroup("s", "t", "team"))
    await root.call(JoinConsumerGroup("s", "t", "team"))
    async with asyncio.timeout(10):
        while not (await root.call(SyncConsumerGroup("s", "t", "team"))).partitions:
            await asyncio.sleep(0.01)


def success_of(offset: int, topic: str = "t") -> Told:
    numbers = [(1, 4), (0, 4), ("tu".index(topic), 4), (0, 4), (offset, 8)]
    return success(b"".join(number.to_bytes(size, "little") for number, size in numbers))


async def send(root: WireClient, payload: bytes, topic: str = "t") -> Told:
    batch, _ = batch_of([payload])
    return await root.told(SendMessages("s", topic, ToPartition(0), 1, batch))


async def send_until_refused(root: WireClient, payload: bytes = LARGE) -> list[bytes]:
    """What was taken, until the first refusal."""
    taken: list[bytes] = []
    while (told := await send(root, payload)) != status(TRY_AGAIN):
        assert told.channel == "success"
        taken.append(payload)
    return taken


async def stored(root: WireClient, topic: str = "t") -> list[bytes]:
    payloads: list[bytes] = []
    start = 0
    while True:
        found: PolledMessages = await root.call(
            PollMessages(READER, "s", topic, 0, PollingStrategy.offset(start), 1000, False)
        )
        messages = Messages(found.records)
        if not messages:
            return payloads
        payloads += [message.payload for message in messages]
        start = messages[-1].offset + 1


async def offset_of(root: WireClient, consumer: Consumer) -> int | None:
    found = await root.call(GetConsumerOffset(consumer, "s", "t", 0))
    return None if found is None else found.stored_offset


async def store(root: WireClient, consumer: Consumer, offset: int) -> Told:
    return await root.told(StoreConsumerOffset(consumer, "s", "t", 0, offset))


@pytest.mark.parametrize("durability", ["replicated", "persisted"])
async def test_bug_09_messages_leave_room_for_all_else(
    server: PreloadedServer, disk: SmallDisk, durability: str
) -> None:
    async with running(server) as root:
        await prepare(root, durability=durability, consumer_offset_durability=durability)
        messages = [SMALL, *await send_until_refused(root)]
        assert RESERVE - MIB < disk.free < RESERVE + 2 * len(LARGE)
        for _ in range(3):
            assert await send(root, LARGE) == status(TRY_AGAIN)
        assert await stored(root) == messages
        last = len(messages) - 1
        assert await store(root, READER, last) == success()
        assert await store(root, TEAM, last) == success()
        assert (await root.told(CreateStream("another"))).channel == "success"
        assert (await root.told(PurgeTopic("s", "u"))).channel == "success"
        assert (await root.told(DeleteTopic("s", "u"))).channel == "success"
        before = disk.free
        assert (await root.told(DeleteSegments("s", "t", 0, 5))).channel == "success"
        assert disk.free > before + 5 * MIB
        assert await send(root, LARGE) == success_of(last + 1)
        refusals = [event["event"] for event in server.events if "log_writes" in event["event"]]
        assert refusals == ["log_writes_refused", "log_writes_go_on"]


async def test_bug_09_not_a_byte_is_left(server: PreloadedServer, disk: SmallDisk) -> None:
    async with running(server) as root:
        await prepare(root)
        messages = [SMALL, *await send_until_refused(root)]
        assert await store(root, READER, 1) == success()
        assert await store(root, TEAM, 1) == success()
        disk.fill()
        for payload in (LARGE, SMALL):
            assert await send(root, payload) == status(TRY_AGAIN)
            assert await send(root, payload, topic="u") == status(TRY_AGAIN)
        assert await stored(root) == messages
        # Offsets of known consumers stand in their place already; new ones find room or are told.
        last = len(messages) - 1
        assert await store(root, READER, last) == success()
        assert await store(root, TEAM, last) == success()
        for number in range(2, 200):
            told = await store(root, Consumer(ConsumerKind.SINGLE, number), last)
            assert told in {success(), status(TRY_AGAIN)}
        assert told == status(TRY_AGAIN)
        assert await offset_of(root, Consumer(ConsumerKind.SINGLE, number)) is None
        created = [await root.told(CreateStream(f"x{number}")) for number in range(200)]
        assert created[-1] == result(TRY_AGAIN)
        # What can be removed at once is, and that makes room.
        assert (await root.told(DeleteSegments("s", "t", 0, 8))).channel == "success"
        assert await send(root, LARGE) == success_of(last + 1)
        disk.make_room()
        assert (await root.told(CreateStream("x"))).channel == "success"
        assert [await offset_of(root, who) for who in (READER, TEAM)] == [last, last]


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
async def test_bug_09_a_start_with_no_room_at_all(
    server: PreloadedServer, disk: SmallDisk, end: signal.Signals
) -> None:
    async with running(server) as root:
        await prepare(root)
        messages = [SMALL, *await send_until_refused(root)]
        await store(root, READER, 3)
        await store(root, TEAM, 2)
        disk.fill()
        assert await send(root, SMALL) == status(TRY_AGAIN)
    server.kill(end)
    for _ in range(2):
        disk.fill()
        async with running(server) as root:
            assert disk.free == 0
            assert len(await root.call(GetStreams())) == 1
            assert await stored(root) == messages
            assert [await offset_of(root, who) for who in (READER, TEAM)] == [3, 2]
            assert await send(root, SMALL) == status(TRY_AGAIN)
        server.kill(end)
    async with running(server) as root:
        assert await send(root, SMALL) == status(TRY_AGAIN)
        disk.make_room()
        assert await send(root, SMALL) == success_of(len(messages))
        assert await stored(root) == [*messages, SMALL]


async def test_bug_09_nothing_partial_after_a_kill_in_the_middle_of_refusals(
    server: PreloadedServer, disk: SmallDisk
) -> None:
    """Room comes and goes while many write; what was acknowledged is there, and nothing else."""
    async with running(server) as root:
        await prepare(root)
        disk.fill(leave=RESERVE + MIB)
        taken = [SMALL]
        for round_ in range(6):
            payload = bytes([65 + round_]) * 70_000
            taken += await send_until_refused(root, payload)
            disk.fill()
            assert await send(root, b"never") == status(TRY_AGAIN)
            disk.make_room()
            disk.fill(leave=RESERVE + MIB)
        server.kill()
    disk.make_room()
    async with running(server) as root:
        assert await stored(root) == taken


async def test_writes_that_fail_are_tried_again_and_go_on(tmp_path: Path) -> None:
    """The system refuses to let files grow, which is an error like any other of a disk."""
    with PreloadedServer(tmp_path, SETTINGS) as server:
        async with running(server) as root:
            await prepare(root)
            pid = server.wait_ready()["pid"]
            limits = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (8 * 1024, limits[1]))
            for _ in range(3):
                assert await send(root, LARGE) == status(TRY_AGAIN)
            assert await send(root, SMALL) == success_of(1)
            assert await stored(root) == [SMALL, SMALL]
            for number in range(1, 200):
                told = await store(root, Consumer(ConsumerKind.SINGLE, number), 1)
                if told != success():
                    break
            assert told == status(TRY_AGAIN)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
            assert await send(root, LARGE) == success_of(2)
            assert await store(root, Consumer(ConsumerKind.SINGLE, number), 1) == success()
        server.kill()
        async with running(server) as root:
            assert await stored(root) == [SMALL, SMALL, LARGE]
            assert await offset_of(root, Consumer(ConsumerKind.SINGLE, number)) == 1


async def test_a_disk_that_cannot_be_written_to_is_named(
    server: PreloadedServer, tmp_path: Path, disk: SmallDisk
) -> None:
    async with running(server) as root:
        await prepare(root)
    assert server.kill(signal.SIGTERM) == 0
    subprocess.run(["mount", "-o", "remount,ro", disk.path], check=True)
    environment = {**SETTINGS, "WINDSPRITE_DATA_DIR": str(disk.path / "data")}
    with server_process(tmp_path, environment=environment) as process:
        assert process.wait_end() == 3
        assert "cannot use data directory" in process.output
        assert os.strerror(errno.EROFS) in process.output
