"""The limit on what clients may send is none on what they are told: no answer is lost to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.log import batch_of
from support.real_server import real_server
from support.wire_client import WireClient
from windsprite_protocol.messages import Messages
from windsprite_protocol.model.identifiers import (
    Consumer,
    ConsumerKind,
    PollingKind,
    PollingStrategy,
    ToPartition,
)
from windsprite_protocol.model.messages import PollMessages, SendMessages
from windsprite_protocol.model.streams import CreateStream, GetStream, GetStreams
from windsprite_protocol.model.topics import CreateTopic, GetTopic, GetTopics

KIB = 1024
SMALL = {"limits": {"max_frame_size": "8 KiB", "max_frame_size_before_login": "8 KiB"}}
LARGE = b"l" * (200 * KIB)


@asynccontextmanager
async def running(
    folder: Path, settings: dict[str, Any] | None = None
) -> AsyncIterator[WireClient]:
    """A root user on a server that runs on a data directory for a while."""
    async with (
        real_server(folder, settings=settings) as server,
        server.client("iggy", "iggy") as root,
    ):
        yield root
        assert server.events("failed") == []


async def send(client: WireClient, *payloads: bytes) -> None:
    batch, _ = batch_of(payloads)
    await client.call(SendMessages("s", "t", ToPartition(0), len(payloads), batch))


async def poll(client: WireClient, offset: int) -> list[bytes]:
    consumer = Consumer(ConsumerKind.SINGLE, 1)
    strategy = PollingStrategy(PollingKind.OFFSET, offset)
    found = await client.call(PollMessages(consumer, "s", "t", 0, strategy, 10, auto_commit=False))
    return Messages(found.records).payloads()


async def test_a_message_that_was_sent_under_a_larger_limit_is_still_read(tmp_path: Path) -> None:
    async with running(tmp_path) as root:
        await root.call(CreateStream("s"))
        await root.call(CreateTopic("s", 1, "t"))
        await send(root, b"one", LARGE, b"two")
        await send(root, b"three")
    async with running(tmp_path, SMALL) as root:
        assert await poll(root, 0) == [b"one"]
        assert await poll(root, 1) == [LARGE]  # alone, since it is more than is gathered
        assert await poll(root, 2) == [b"two", b"three"]


async def test_polls_gather_no_more_than_clients_take_however_much_they_may_send(
    tmp_path: Path,
) -> None:
    payload = b"l" * (33 * KIB * KIB)
    async with running(tmp_path, {"limits": {"max_frame_size": "68 MiB"}}) as root:
        await root.call(CreateStream("s"))
        await root.call(CreateTopic("s", 1, "t"))
        await send(root, payload)
        await send(root, payload)
        assert await poll(root, 0) == [payload]
        assert await poll(root, 1) == [payload]


async def test_what_there_is_is_told_however_much_it_is(tmp_path: Path) -> None:
    names = [f"{number:03}".rjust(255, "n") for number in range(40)]
    async with running(tmp_path, SMALL) as root:
        for name in names:
            await root.call(CreateStream(name))
            await root.call(CreateTopic(names[0], 0, name))
        listed = await root.call(GetStreams())
        assert [stream.name for stream in listed] == names
        for topics in (
            (await root.call(GetStream(names[0]))).topics,
            await root.call(GetTopics(names[0])),
        ):
            assert [topic.name for topic in topics] == names
        created = await root.call(CreateTopic(names[1], 400, "t"))
        assert len(created.partitions) == 400
        assert (await root.call(GetTopic(names[1], "t"))).partitions[399].id == 399
