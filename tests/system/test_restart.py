"""What outlives the process: killed at any moment, asked to stop, or asked twice."""

import asyncio
import json
import random
import re
import signal
import subprocess
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import windsprite
from support.frames import request
from support.names import NAMES
from support.server_process import RestartableServer, ServerProcess, server_process
from support.waiting import until
from support.wire_client import WireClient, wire_client
from windsprite_protocol.batches import NewMessage, build_batch
from windsprite_protocol.model.identifiers import (
    Consumer,
    ConsumerKind,
    PollingStrategy,
    ToPartition,
)
from windsprite_protocol.model.messages import PollMessages, SendMessages
from windsprite_protocol.model.sessions import Logout
from windsprite_protocol.model.streams import CreateStream, GetStreams
from windsprite_protocol.model.topics import CreateTopic

KIB = 1024
PARTITIONS = 3
TOPICS = {"replicated": {}, "persisted": {"durability": "persisted"}}


class Restarting(RestartableServer):
    """A server that can be killed and started again."""

    def client(self) -> WireClient:
        return wire_client(self.address)

    @property
    def url(self) -> str:
        return f"iggy://iggy:iggy@{self.address}?reconnection_interval=50ms&reestablish_after=0"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Restarting]:
    running = Restarting(tmp_path)
    yield running
    running.end()


# --- Killed -------------------------------------------------------------------------------------


@dataclass
class Ledger:
    """What clients were told, and what they have no answer about.

    Attributes:
        messages: What is at an offset of a partition of a topic.
        doubtful: Payloads that may be there or not.
        streams: Those that exist.
        offsets: The offset stored for a consumer; several if the last one is in doubt.
    """

    messages: dict[tuple[str, int], dict[int, bytes]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    doubtful: set[bytes] = field(default_factory=set)
    streams: set[str] = field(default_factory=set)
    offsets: dict[str, set[int]] = field(default_factory=dict)

    def count(self) -> int:
        return sum(map(len, self.messages.values())) + len(self.streams)


async def produce(client: windsprite.Client, topic: str, over: asyncio.Event, told: Ledger) -> None:
    sizes = random.Random(topic)
    number = 0
    while not over.is_set():
        partition = number % PARTITIONS
        payloads = [
            f"{topic} {number + one} ".encode() + b"." * sizes.randrange(300)
            for one in range(sizes.choice([1, 1, 1, 5, 40]))
        ]
        number += len(payloads)
        try:
            placed = await client.send("s", topic, payloads, partition=partition, retry="safe")
        except windsprite.OutcomeUnknown:
            told.doubtful.update(payloads)
            continue
        assert placed is not None
        assert placed.partition_id == partition
        log = told.messages[topic, partition]
        for offset, payload in enumerate(payloads, start=placed.base_offset):
            assert offset not in log, "an acknowledged offset was given away again"
            log[offset] = payload


async def create(client: windsprite.Client, over: asyncio.Event, told: Ledger) -> None:
    number = 0
    while not over.is_set():
        name = f"stream {number}"
        number += 1
        try:
            await client.create_stream(name)
        except (windsprite.OutcomeUnknown, windsprite.AlreadyExists):
            continue
        told.streams.add(name)
        await asyncio.sleep(0.01)


async def consume(client: windsprite.Client, over: asyncio.Event, told: Ledger) -> None:
    while not over.is_set():
        batch = await client.poll("s", "persisted", consumer="reader", count=7)
        if batch:
            offset = batch[-1].offset
            before = told.offsets.get("reader", set())
            told.offsets["reader"] = before | {offset}
            try:
                await client.store_consumer_offset("s", "persisted", offset, consumer="reader")
            except windsprite.OutcomeUnknown:
                continue
            told.offsets["reader"] = {offset}
        await asyncio.sleep(0.005)


async def all_messages(client: windsprite.Client, topic: str, partition: int) -> list[bytes]:
    payloads: list[bytes] = []
    while True:
        batch = await client.poll(
            "s", topic, partition=partition, start=windsprite.From.offset(len(payloads)), count=400
        )
        if not batch:
            return payloads
        for message in batch:
            assert message.offset == len(payloads)
            payloads.append(message.payload)


def number_in(payload: bytes) -> int:
    return int(payload.split()[1])


async def check(client: windsprite.Client, told: Ledger) -> None:
    for topic in TOPICS:
        for partition in range(PARTITIONS):
            stored = await all_messages(client, topic, partition)
            acknowledged = told.messages[topic, partition]
            for offset, payload in acknowledged.items():
                assert stored[offset] == payload
            numbers = [number_in(payload) for payload in stored]
            assert numbers == sorted(set(numbers)), "in order, and each once"
            assert set(stored) <= set(acknowledged.values()) | told.doubtful
    names = {stream.name for stream in await client.get_streams()}
    assert told.streams <= names
    offset = await client.get_consumer_offset("s", "persisted", consumer="reader")
    assert offset is not None
    assert offset.stored_offset in told.offsets["reader"]


async def test_nothing_that_was_acknowledged_is_missing_after_any_number_of_kills(
    server: Restarting,
) -> None:
    moments = random.Random(2)
    told = Ledger()
    over = asyncio.Event()
    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        # A call may go on over all of the kills: what matters is what it tells in the end.
        clients = [await windsprite.connect(server.url, request_timeout=100) for _ in range(4)]
        await clients[0].create_stream("s")
        for topic, options in TOPICS.items():
            await clients[0].create_topic("s", topic, PARTITIONS, **options)
        working = [
            *(
                group.create_task(produce(client, topic, over, told))
                for client, topic in zip(clients, TOPICS, strict=False)
            ),
            group.create_task(consume(clients[2], over, told)),
            group.create_task(create(clients[3], over, told)),
        ]
        for _ in range(5):
            before = told.count()
            while told.count() < before + 30:
                await asyncio.sleep(0.01)
            await asyncio.sleep(moments.uniform(0, 0.3))
            server.kill()
            await asyncio.to_thread(server.start)
        before = told.count()
        while told.count() < before + 200:
            await asyncio.sleep(0.01)
        over.set()
        await asyncio.wait(working)
        server.kill()
        await asyncio.to_thread(server.start)
        await check(clients[0], told)
        for client in clients:
            await client.close()


async def test_what_was_just_acknowledged_survives(server: Restarting) -> None:
    """The kill comes as close after the answer as it can."""
    async with await windsprite.connect(server.url) as client:
        await client.create_stream("s")
        created = await client.create_topic("s", "t", 1)
        server.kill()
        await asyncio.to_thread(server.start)
        placed = await client.send("s", created.topic.id, [b"payload"], partition=0)
        server.kill()
        await asyncio.to_thread(server.start)
        assert placed is not None
        assert placed.base_offset == 0
        batch = await client.poll("s", created.topic.id, start=windsprite.From.first())
        assert [message.payload for message in batch] == [b"payload"]
        await client.store_consumer_offset("s", created.topic.id, 0, consumer=9)
        server.kill()
        await asyncio.to_thread(server.start)
        offset = await client.get_consumer_offset("s", created.topic.id, consumer=9)
        assert offset is not None
        assert offset.stored_offset == 0


async def test_bug_40_no_name_is_taken_for_a_path_or_for_another_name(
    server: Restarting, tmp_path: Path
) -> None:
    """Names of every kind survive a restart and stay apart; no directory is called after one."""
    names = [*NAMES.values(), "..", ".", "/", "CON", "name. "]
    payloads = {name: f"payload {number}".encode() for number, name in enumerate(names)}
    async with await windsprite.connect(server.url) as client:
        for name in names:
            await client.create_stream(name)
            await client.create_topic(name, name, 1)
            await client.send(name, name, [payloads[name]], partition=0)
    server.kill()
    await asyncio.to_thread(server.start)
    async with await windsprite.connect(server.url) as client:
        assert [stream.name for stream in await client.get_streams()] == names
        for name in names:
            batch = await client.poll(name, name, start=windsprite.From.first())
            assert [bytes(message.payload) for message in batch] == [payloads[name]]
    logs = [path.name for path in (tmp_path / "data" / "log").iterdir()]
    assert len(logs) == len(names)
    assert all(re.fullmatch(r"[0-9.-]+", log) for log in logs)


async def test_sessions_and_positions_only_grow(server: Restarting) -> None:
    """Clients compare both with what an earlier life of the server has told them."""
    sessions: list[int] = []
    positions: list[int] = []
    for number in range(4):
        async with server.client() as client:
            for _ in range(2):
                sessions.append((await client.login()).session)
                reply = await client.answer_to(CreateStream(f"{number} {len(sessions)}"))
                assert reply.told.channel == "success"
                positions.append(reply.header.commit)
                async with server.client() as other:
                    sessions.append((await other.login()).session)
                await client.call(Logout())
        if number % 2:
            assert server.process.stop() == 0
        else:
            server.kill()
        server.start()
    assert positions == sorted(set(positions))
    assert sessions == sorted(set(sessions))
    assert len(sessions) == 16
    assert max(sessions) < 1 << 63


# --- Asked to stop ------------------------------------------------------------------------------


async def test_requests_that_were_taken_are_answered_before_the_end(server: Restarting) -> None:
    """As many streams are there afterwards as were answered: no more and no fewer."""
    async with server.client() as client:
        await client.login()
        numbers = range(1, 2001)
        requests = b"".join(request(CreateStream(f"stream {n}"), n) for n in numbers)
        sending = asyncio.create_task(client.send(requests))
        replies = [await client.receive()]
        server.process.send(signal.SIGTERM)
        replies += await client.receive_many(2000)
        sending.cancel()
        await asyncio.wait([sending])
    assert await asyncio.to_thread(server.process.wait_end) == 0
    assert [reply.number for reply in replies] == [*range(1, len(replies) + 1)]
    created = [reply for reply in replies if reply.told.channel == "success"]
    assert 0 < len(created) < 2000
    server.start()
    async with server.client() as client:
        await client.login()
        assert len(await client.call(GetStreams())) == len(created)


async def ask_and_never_read(client: WireClient) -> None:
    """Ask for so much that no buffer takes it, and read nothing of it."""
    messages = [NewMessage(bytes(1000), bytes(16), 0)] * 2000
    send = SendMessages("s", "t", ToPartition(0), 2000, build_batch(messages))
    reader = Consumer(ConsumerKind.SINGLE, 1)
    poll = PollMessages(reader, "s", "t", 0, PollingStrategy.first(), 2000, False)
    await client.login()
    await client.call(CreateStream("s"))
    await client.call(CreateTopic("s", 1, "t"))
    await client.call(send)
    await client.send(b"".join(request(poll, number) for number in range(1, 30)))
    await asyncio.sleep(0.3)


@asynccontextmanager
async def held_up(folder: Path, shutdown_timeout: str) -> AsyncIterator[ServerProcess]:
    """A server with a client that it cannot get rid of."""
    environment = {"WINDSPRITE_SHUTDOWN_TIMEOUT": shutdown_timeout}
    with server_process(folder, environment=environment) as process:
        address = process.wait_ready()["tcp"]
        async with wire_client(address, receive_buffer=64 * KIB) as client:
            await ask_and_never_read(client)
            yield process


async def test_a_second_signal_stops_it_at_once(tmp_path: Path) -> None:
    async with held_up(tmp_path, "60 s") as process:
        process.send(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            await asyncio.to_thread(process.wait_end, 0.7)
        process.send(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait_end, 20) == -signal.SIGTERM


@pytest.mark.parametrize("second", [signal.SIGHUP, signal.SIGTERM])
async def test_a_terminal_that_closes_may_say_so_more_than_once(
    tmp_path: Path, second: signal.Signals
) -> None:
    """The shell tells its jobs; when it has ended the system tells them, and may end a session."""
    async with held_up(tmp_path, "1 s") as process:
        process.send(signal.SIGHUP)
        await until(lambda: any(event["event"] == "stopping" for event in process.events))
        process.send(second)
        assert await asyncio.to_thread(process.wait_end) == 0
        assert process.events[-1]["event"] == "stopped"


async def test_who_does_not_read_is_cut_when_the_time_is_over(tmp_path: Path) -> None:
    async with held_up(tmp_path, "1 s") as process:
        process.send(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait_end, 8) == 0  # by default it takes 10 s
        (cut,) = [event for event in process.events if "were cut" in event["event"]]
        assert cut["count"] == 1
        assert "Traceback" not in process.output


def test_the_ready_file_is_there_as_long_as_clients_can_connect(tmp_path: Path) -> None:
    ready_file = tmp_path / "ready.json"
    with server_process(tmp_path) as process:
        ready = process.wait_ready()
        assert json.loads(ready_file.read_text()) == ready
        assert process.stop() == 0
        assert not ready_file.exists()


# --- Damaged ------------------------------------------------------------------------------------


@pytest.fixture
def used(server: Restarting, tmp_path: Path) -> Path:
    """The data directory of a server that has done something."""

    async def work() -> None:
        async with server.client() as client:
            await client.login()
            for number in range(1, 50):
                await client.call(CreateStream(f"stream {number}"))

    asyncio.run(work())
    assert server.process.stop() == 0
    return tmp_path / "data"


def test_a_damaged_journal_ends_it_with_3(used: Path, tmp_path: Path) -> None:
    journal = used / "journal.db"
    content = bytearray(journal.read_bytes())
    assert len(content) > 8 * KIB
    middle = len(content) // 2
    content[middle : middle + 2 * KIB] = bytes(2 * KIB)
    journal.write_bytes(content)
    with server_process(tmp_path) as process:
        assert process.wait_end() == 3
        assert "journal" in process.output
        assert "Traceback" not in process.output
    assert journal.read_bytes() == content, "it is left as it was found"


@pytest.mark.parametrize("content", [b"", b"no database", bytes(100 * KIB)])
def test_a_journal_that_is_none_ends_it_with_3(used: Path, tmp_path: Path, content: bytes) -> None:
    (used / "journal.db").write_bytes(content)
    with server_process(tmp_path) as process:
        assert process.wait_end() == 3
        assert "Traceback" not in process.output
