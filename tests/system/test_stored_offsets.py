"""Stored offsets on a real server: which go, and where a consumer goes on (spec 04, 5.3 and 7)."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.log import batch_of
from support.preloaded_server import PreloadedServer
from support.topic_option_choices import option
from support.wire_client import WireClient, status, success, wire_client
from windsprite_protocol.messages import Messages
from windsprite_protocol.model.identifiers import (
    Consumer,
    ConsumerKind,
    PollingKind,
    PollingStrategy,
    ToPartition,
)
from windsprite_protocol.model.messages import PolledMessages, PollMessages, SendMessages
from windsprite_protocol.model.offsets import GetConsumerOffset, StoreConsumerOffset
from windsprite_protocol.model.streams import CreateStream
from windsprite_protocol.model.topics import CreateTopic, DeleteSegments
from windsprite_protocol.model.typed_values import ValueKind

INVALID_OFFSET = 4100
NEXT = PollingStrategy(PollingKind.NEXT)
READER = Consumer(ConsumerKind.SINGLE, "reader")


@pytest.fixture(params=["replicated", "persisted"])
def durability(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PreloadedServer]:
    with PreloadedServer(tmp_path, {}) as server:
        yield server


@asynccontextmanager
async def client(server: PreloadedServer) -> AsyncIterator[WireClient]:
    async with wire_client(server.wait_ready()["tcp"]) as root:
        await root.login()
        yield root


async def prepare(root: WireClient, durability: str) -> None:
    await root.call(CreateStream("s"))
    options = (
        option("segment_size", 1 << 20, ValueKind.UINT64),
        option("durability", durability),
        option("consumer_offset_durability", durability),
    )
    await root.call(CreateTopic("s", 1, "t", options))


async def send(root: WireClient, *payloads: bytes) -> None:
    batch, _ = batch_of(payloads)
    await root.call(SendMessages("s", "t", ToPartition(0), len(payloads), batch))


async def poll(root: WireClient, count: int = 100, *, commit: bool = True) -> list[bytes]:
    found: PolledMessages = await root.call(PollMessages(READER, "s", "t", 0, NEXT, count, commit))
    return [message.payload for message in Messages(found.records)]


async def store(root: WireClient, offset: int) -> object:
    return await root.told(StoreConsumerOffset(READER, "s", "t", 0, offset))


async def stored(root: WireClient) -> int | None:
    found = await root.call(GetConsumerOffset(READER, "s", "t", 0))
    return None if found is None else found.stored_offset


async def test_bug_15_no_offset_beyond_the_end_is_stored(
    server: PreloadedServer, durability: str
) -> None:
    server.start()
    async with client(server) as root:
        await prepare(root, durability)
        beyond = (1, 2, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
        for offset in (0, *beyond):
            assert await store(root, offset) == status(INVALID_OFFSET)
        assert await stored(root) is None
        for end in range(1, 4):
            await send(root, b"%d" % end)
            for offset in (end, *(one + end for one in beyond[:-1]), beyond[-1]):
                assert await store(root, offset) == status(INVALID_OFFSET)
            assert await store(root, end - 1) == success()
            assert await stored(root) == end - 1
    server.kill()
    server.start()
    async with client(server) as root:
        assert await store(root, 3) == status(INVALID_OFFSET)
        assert await stored(root) == 2


async def test_bug_15_removed_messages_have_offsets_and_no_others(
    server: PreloadedServer, durability: str
) -> None:
    server.start()
    async with client(server) as root:
        await prepare(root, durability)
        await send(root, bytes(1 << 20))
        await root.call(DeleteSegments("s", "t", 0, 1))
        assert await store(root, 1) == status(INVALID_OFFSET)
        assert await store(root, 0) == success()
        await send(root, b"next")
        assert await poll(root) == [b"next"]


async def test_bug_17_zero_is_stored_like_any_other_offset(
    server: PreloadedServer, durability: str
) -> None:
    server.start()
    async with client(server) as root:
        await prepare(root, durability)
        await send(root, b"only")
        assert await poll(root) == [b"only"]
        assert await stored(root) == 0
        assert await poll(root) == []
    server.kill()
    server.start()
    async with client(server) as root:
        assert await stored(root) == 0
        assert await poll(root) == []


@pytest.mark.parametrize("end", [None, signal.SIGTERM, signal.SIGKILL])
async def test_bug_18_who_waits_at_the_end_gets_the_next_message_and_no_other(
    server: PreloadedServer, durability: str, end: signal.Signals | None
) -> None:
    """The connection, or the server, goes before there was anything to get."""
    server.start()
    async with client(server) as root:
        await prepare(root, durability)
        await send(root, b"old", b"older")
        assert await store(root, 1) == success()
        for commit in (True, False):
            assert await poll(root, commit=commit) == []
    if end is not None:
        server.kill(end)
        server.start()
    async with client(server) as root:
        assert await poll(root) == []
        await send(root, b"new")
        assert await poll(root, commit=False) == [b"new"]
        assert await poll(root) == [b"new"]
        assert await poll(root) == []


async def test_bug_16_after_a_kill_offsets_are_where_they_were_left(
    server: PreloadedServer, durability: str
) -> None:
    """Nothing is delivered again, and nothing is left out."""
    server.start()
    taken: list[bytes] = []
    for life in range(4):
        async with client(server) as root:
            if life == 0:
                await prepare(root, durability)
            await send(root, *(b"%d %d" % (life, number) for number in range(10)))
            for count in (3, 1, 4):
                taken += await poll(root, count)
            assert await stored(root) == len(taken) - 1
        server.kill()
        server.start()
    async with client(server) as root:
        taken += await poll(root)
    assert taken == [b"%d %d" % (life, number) for life in range(4) for number in range(10)]
