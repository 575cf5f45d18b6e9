"""What clients are told about logs that are damaged, and what the operator is told (spec 04, 5.6).

A client gets the messages before the damage, or none, and the real end of the partition; nothing is
ever passed over silently. What is behind the damage is there for whoever asks for it.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

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
from windsprite_protocol.model.topics import CreateTopic, DeleteTopic
from windsprite_protocol.model.typed_values import ValueKind

READER = Consumer(ConsumerKind.SINGLE, "reader")
BATCHES, PER_BATCH, PAYLOAD = 30, 2, 100_000
BATCH = 256 + PER_BATCH * (48 + PAYLOAD)
IN_SEGMENT = 6
"""Batches that fill a segment of 1 MiB."""
END = BATCHES * PER_BATCH
DAMAGED = 8
"""A batch in the middle of the second segment."""


class Damaged:
    """A server whose files a test can change between two of its lives."""

    def __init__(self, server: PreloadedServer) -> None:
        self.server = server

    @asynccontextmanager
    async def running(self, end: signal.Signals = signal.SIGTERM) -> AsyncIterator[WireClient]:
        self.server.start()
        async with wire_client(self.server.wait_ready()["tcp"]) as root:
            await root.login()
            yield root
        self.server.kill(end)

    def files(self, suffix: str = "log") -> list[Path]:
        (directory,) = (self.server.data / "log").glob("*-0-0.*")
        return sorted(directory.glob(f"*.{suffix}"))

    def events(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.server.events if event["event"] == name]

    def change(self, position: int, change: Callable[[int], int]) -> None:
        """Change a byte of the second segment."""
        path = self.files()[1]
        data = bytearray(path.read_bytes())
        data[position] = change(data[position])
        path.write_bytes(data)


@pytest.fixture
async def damaged(tmp_path: Path) -> AsyncIterator[Damaged]:
    settings = {"WINDSPRITE_STORAGE__TAIL_MEMORY": "0"}
    with PreloadedServer(tmp_path, settings) as server:
        one = Damaged(server)
        async with one.running() as root:
            await root.call(CreateStream("s"))
            size = option("segment_size", 1 << 20, ValueKind.UINT64)
            for topic in ("t", "other"):
                await root.call(CreateTopic("s", 1, topic, (size,)))
            for number in range(BATCHES):
                batch, _ = batch_of(payloads(number))
                await root.call(SendMessages("s", "t", ToPartition(0), PER_BATCH, batch))
        yield one


def payloads(number: int) -> list[bytes]:
    return [b"%03d" % (PER_BATCH * number + delta) + bytes(PAYLOAD - 3) for delta in (0, 1)]


async def poll(
    root: WireClient, kind: PollingKind, value: int = 0, *, commit: bool = False
) -> list[int]:
    """Offsets of what a poll for everything finds; the payloads are those of the offsets."""
    strategy = PollingStrategy(kind, value)
    found: PolledMessages = await root.call(
        PollMessages(READER, "s", "t", 0, strategy, 1000, commit)
    )
    assert (found.partition_id, found.current_offset) == (0, END - 1)
    messages = Messages(found.records)
    assert found.messages_count == len(messages)
    assert all(message.payload[:3] == b"%03d" % message.offset for message in messages)
    return [message.offset for message in messages]


async def read_from(root: WireClient, start: int) -> list[int]:
    """Offsets of all that one gets who reads on as long as there is something."""
    offsets: list[int] = []
    while found := await poll(root, PollingKind.OFFSET, start):
        offsets += found
        start = found[-1] + 1
    return offsets


async def stored(root: WireClient) -> int | None:
    found = await root.call(GetConsumerOffset(READER, "s", "t", 0))
    return None if found is None else found.stored_offset


async def check_damage(damaged: Damaged, root: WireClient, first: int, following: int) -> None:
    """Offsets from `first` up to `following` are damaged; all polls say so, and no more."""
    before, behind = list(range(first)), list(range(following, END))
    assert await read_from(root, 0) == before
    for start in range(first, following):
        assert await poll(root, PollingKind.OFFSET, start) == []
    assert await read_from(root, following) == behind
    assert await poll(root, PollingKind.LAST) == before
    while found := await poll(root, PollingKind.NEXT, commit=True):
        assert await stored(root) == found[-1]
    assert await stored(root) == first - 1
    # Somebody decides to go on behind the damage.
    await root.call(StoreConsumerOffset(READER, "s", "t", 0, following - 1))
    taken = []
    while found := await poll(root, PollingKind.NEXT, commit=True):
        taken += found
    assert taken == behind
    events = damaged.events("log_damaged")
    assert {(event["first_offset"], event["next_offset"]) for event in events} == {
        (first, following)
    }
    assert len(events) == 1
    assert events[0]["level"] == "error"
    assert events[0]["file"].endswith(damaged.files()[1].name)
    assert events[0]["reason"]


PLACES = {
    "payload": 256 + 48 + 500,
    "frame header": 256 + 32,
    "batch checksum": 40,
    "base offset": 8,
    "append time": 16 + 7,
    "length": 32,
    "reserved": 200,
    "message count": 48,
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
async def test_bug_05_a_flipped_bit_hides_its_batch_and_nothing_else(
    damaged: Damaged, place: int
) -> None:
    damaged.change((DAMAGED - IN_SEGMENT) * BATCH + place, lambda byte: byte ^ 0x10)
    async with damaged.running() as root:
        first = PER_BATCH * DAMAGED
        await check_damage(damaged, root, first, first + PER_BATCH)
        batch, _ = batch_of([b"more"])
        answer = await root.told(SendMessages("s", "t", ToPartition(0), 1, batch))
        assert answer.channel == "success"


async def test_a_segment_that_lost_its_end_is_named_at_start_and_to_readers(
    damaged: Damaged,
) -> None:
    path = damaged.files()[1]
    path.write_bytes(path.read_bytes()[: 4 * BATCH + 1000])
    async with damaged.running() as root:
        (event,) = damaged.events("partition recovered")
        assert "first_offset=20, next_offset=24" in event["damages"][0]
        await check_damage(damaged, root, 20, 24)


async def test_a_lost_segment_is_named_at_start_and_to_readers(damaged: Damaged) -> None:
    lost = damaged.files()[1]
    lost.unlink()
    async with damaged.running() as root:
        (event,) = damaged.events("partition recovered")
        assert "first_offset=12, next_offset=24" in event["damages"][0]
        assert await read_from(root, 0) == list(range(12))
        for start in (12, 17, 23):
            assert await poll(root, PollingKind.OFFSET, start) == []
        assert await read_from(root, 24) == list(range(24, END))


async def test_a_time_that_leads_into_damage_is_answered_with_nothing(damaged: Damaged) -> None:
    damaged.change((DAMAGED - IN_SEGMENT) * BATCH + 200, lambda byte: byte ^ 1)
    async with damaged.running() as root:
        times = []
        for start in (PER_BATCH * (DAMAGED - 1), PER_BATCH * (DAMAGED + 1)):
            strategy = PollingStrategy.offset(start)
            found = await root.call(PollMessages(READER, "s", "t", 0, strategy, 1, False))
            times.append(Messages(found.records)[0].timestamp)
        before, behind = times
        last = list(range(PER_BATCH * (DAMAGED - 1), PER_BATCH * DAMAGED))
        assert await poll(root, PollingKind.TIMESTAMP, before) == last
        assert await poll(root, PollingKind.TIMESTAMP, before + 1) == []
        assert await poll(root, PollingKind.TIMESTAMP, behind) == []
        assert (await poll(root, PollingKind.OFFSET, PER_BATCH * (DAMAGED + 1)))[-1] == END - 1


async def test_a_disk_that_fails_answers_as_damage_does_and_is_told_once(
    damaged: Damaged,
) -> None:
    async with damaged.running() as root:
        # A directory in the place of a file cannot be read as one.
        path = damaged.files()[1]
        kept = path.with_suffix(".kept")
        path.rename(kept)
        path.mkdir()
        for _ in range(3):
            assert await poll(root, PollingKind.OFFSET, 13) == []
        (event,) = damaged.events("log_unreadable")
        assert event["level"] == "error"
        path.rmdir()
        kept.rename(path)
        assert await read_from(root, 13) == list(range(13, END))


async def test_a_partition_that_cannot_be_opened_does_not_keep_others_from_it(
    damaged: Damaged,
) -> None:
    path = damaged.files("index")[1]
    kept = path.read_bytes()
    path.unlink()
    path.mkdir()
    batch, _ = batch_of([b"x"])
    async with damaged.running(signal.SIGKILL) as root:
        (event,) = damaged.events("partition not opened")
        assert event["level"] == "error"
        request = SendMessages("s", "t", ToPartition(0), 1, batch)
        assert await root.told(request) == status(58)
        strategy = PollingStrategy.first()
        found = await root.call(PollMessages(READER, "s", "t", 0, strategy, 1, False))
        assert found.messages_count == 0
        request = SendMessages("s", "other", ToPartition(0), 1, batch)
        assert (await root.told(request)).channel == "success"
    path.rmdir()
    path.write_bytes(kept)
    async with damaged.running() as root:
        assert await read_from(root, 0) == list(range(END))
        assert await root.told(DeleteTopic("s", "t")) == success()
