"""A batch stays one buffer from socket to disk to reader, and costs no object for each message.

Bytes go through everything there is, from the buffer that the event loop would fill to the buffers
it would be given to send; only the loop's transport is a stand-in. What is allocated, called and
passed on is counted, so that nothing here depends on how fast the machine is.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.clock import ManualClock
from support.frames import LOGIN, request
from support.real_server import real_server
from windsprite_protocol.batches import NewMessage, build_batch
from windsprite_protocol.message_frames import FRAMES_AT_ONCE
from windsprite_protocol.model.identifiers import (
    Consumer,
    ConsumerKind,
    PollingStrategy,
    ToPartition,
)
from windsprite_protocol.model.messages import Buffer, PollMessages, SendMessages
from windsprite_protocol.model.streams import CreateStream
from windsprite_protocol.model.topics import CreateTopic
from windsprite_server import app
from windsprite_server.log.files import Files
from windsprite_server.transport.tcp import TcpListener

KIB, MIB = 1 << 10, 1 << 20


class Transport:
    """What an event loop gives a connection to write to; keeps what is written."""

    def __init__(self) -> None:
        self.written: list[Buffer] = []

    def writelines(self, buffers: Iterable[Buffer]) -> None:
        self.written += buffers

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return "127.0.0.1", len(name)

    def is_closing(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Line:
    """A connection to a real server without a socket in between.

    Attributes:
        transport: What the server writes to.
        stored: Buffers that were handed to the operating system to be written to segments.
    """

    def __init__(self, listener: TcpListener, stored: list[Buffer]) -> None:
        self.transport = Transport()
        self.stored = stored
        self._protocol: Any = listener._new_connection()
        self._protocol.connection_made(self.transport)

    def receive(self, data: Buffer) -> None:
        """Do what the event loop does when bytes arrive."""
        rest = memoryview(data)
        while rest:
            target = self._protocol.get_buffer(-1)
            count = min(len(rest), len(target))
            target[:count] = rest[:count]
            del target
            self._protocol.buffer_updated(count)
            rest = rest[count:]

    async def log_in(self) -> None:
        self.receive(request(LOGIN))
        async with asyncio.timeout(10):
            while not self.answer():
                await asyncio.sleep(0.001)

    def answer(self) -> list[Buffer]:
        written, self.transport.written = self.transport.written, []
        return written

    def close(self) -> None:
        self._protocol.connection_lost(None)


@pytest.fixture
async def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Line]:
    listeners: list[TcpListener] = []
    stored: list[Buffer] = []

    class Noted(TcpListener):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            listeners.append(self)

    def write(files: Files, descriptor: int, buffer: Buffer, position: int) -> int:
        stored.append(buffer)
        return original(files, descriptor, buffer, position)

    original = Files.write
    monkeypatch.setattr(app, "TcpListener", Noted)
    monkeypatch.setattr(Files, "write", write)
    settings = {"storage": {"index_interval": 16 * MIB}}
    async with (
        real_server(tmp_path, clock=ManualClock(), settings=settings) as server,
        server.client("iggy", "iggy") as root,
    ):
        await root.call(CreateStream("s"))
        await root.call(CreateTopic("s", 1, "t"))
        line = Line(listeners[0], stored)
        await line.log_in()
        yield line
        line.close()


def send_of(count: int, size: Callable[[int], int], number: int) -> bytes:
    messages = [NewMessage(bytes(size(index)), bytes(16), 1) for index in range(count)]
    batch = build_batch(messages)
    return request(SendMessages("s", "t", ToPartition(0), count, batch), number)


def poll_of(start: int, count: int, number: int) -> bytes:
    consumer = Consumer(ConsumerKind.SINGLE, 1)
    strategy = PollingStrategy.offset(start)
    return request(PollMessages(consumer, "s", "t", 0, strategy, count, False), number)


def memory_of(buffer: Buffer) -> object:
    """The object that owns the bytes of a buffer."""
    return buffer.obj if isinstance(buffer, memoryview) else buffer


def peak(does: Callable[[], object]) -> int:
    """The most bytes allocated at once while something is done, in addition to those before."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        does()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def calls(does: Callable[[], object]) -> int:
    """How many calls are made of Python code while something is done."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        does()
    finally:
        sys.setprofile(None)
    return count


async def test_the_bytes_that_arrived_are_those_stored_and_those_sent(line: Line) -> None:
    line.receive(send_of(1000, lambda _: 1000, 1))
    line.answer()
    stored = [one for one in line.stored if len(one) > 1000 * 1000]
    received = memory_of(stored[0])
    assert len(stored) == 1
    assert type(received) is bytearray
    line.receive(poll_of(0, 1000, 2))
    sent = [part for part in line.answer() if len(part) > KIB]
    assert len(sent) == 1
    assert len(sent[0]) == len(stored[0])
    assert memory_of(sent[0]) is received
    # Of a part of it only the header is new.
    line.receive(poll_of(100, 500, 3))
    written = line.answer()
    frames = max(written, key=len)
    assert len(frames) == 500 * 1048
    assert memory_of(frames) is received
    assert sum(map(len, written)) - len(frames) <= 2 * 256 + 16


@pytest.mark.parametrize("count", [1000, 4000, 16_000])
async def test_a_send_takes_the_memory_of_its_bytes_and_little_more(line: Line, count: int) -> None:
    line.receive(send_of(10, lambda _: 1000, 1))
    data = send_of(count, lambda _: 1000, 2)
    taken = peak(lambda: line.receive(data))
    # The digests of one piece of the check, and the checksums of all; and what is there of a large
    # frame before its memory takes its last size (`FrameDecoder`).
    beside = 100 * min(count, FRAMES_AT_ONCE) + 16 * count + 256 * KIB
    growing = 2 * MIB if len(data) > 2 * MIB else 0
    assert len(data) <= taken <= len(data) + beside + growing


async def test_a_poll_takes_no_memory_whatever_it_finds(line: Line) -> None:
    for number in range(1, 6):
        line.receive(send_of(1000, lambda _: 1000, number))
    line.answer()
    line.receive(poll_of(0, 10, 6))
    taken = peak(lambda: line.receive(poll_of(0, 5000, 7)))
    assert taken <= 16 * KIB
    assert sum(map(len, line.answer())) > 5 * MIB


async def test_what_is_called_does_not_depend_on_the_messages_of_a_batch(line: Line) -> None:
    line.receive(send_of(100, lambda _: 100, 1))
    counted = []
    for number, (count, size) in enumerate([(16, 3000), (48, 1000), (480, 100)], start=2):
        data = send_of(count, lambda _, size=size: size - 48, number)
        counted.append(calls(partial(line.receive, data)))
    assert max(counted) - min(counted) <= 5, counted


async def test_what_is_called_by_a_poll_does_not_depend_on_messages_at_all(line: Line) -> None:
    counted = []
    start = 0
    for number, count in enumerate((1, 10, 1000)):
        # Frames of all sizes, so that nothing is to be gained from their being equal.
        line.receive(send_of(count, lambda index: index % 50, 2 * number + 1))
        line.receive(poll_of(start, count, 100))
        poll = poll_of(start, count, 100)
        line.answer()
        counted.append(calls(partial(line.receive, poll)))
        assert sum(map(len, line.answer())) > count * 48
        start += count
    assert max(counted) - min(counted) <= 5, counted


async def test_what_is_kept_of_a_batch_does_not_depend_on_its_messages(line: Line) -> None:
    """Objects that are there afterwards, and were not before."""
    kept = []
    for number, count in enumerate((10, 1000), start=1):
        sends = [send_of(count, lambda _: 100, 100 * number + n) for n in range(50)]
        line.receive(sends[0])
        line.answer()
        gc.collect()
        tracemalloc.start()
        for data in sends[1:]:
            line.receive(data)
        line.answer()
        gc.collect()
        statistics = tracemalloc.take_snapshot().statistics("filename")
        tracemalloc.stop()
        kept.append(sum(one.count for one in statistics) / 49)
        await asyncio.sleep(0)
    assert kept[1] <= kept[0] + 5
    assert max(kept) <= 60
