"""A server killed at random moments, again and again, while many use its partitions.

After each start everything is read and compared with what clients were told: see
`support.kill_ledger`. Segments are small, so that every moment is one near to a new segment, an
index entry, a removal or an fsync.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.kill_ledger import Ledger, Life, Sent, Stored
from support.preloaded_server import PreloadedServer
from support.read_back import is_unexpected, log_in, poll, stored_batches
from support.topic_option_choices import option
from support.wire_client import Answer, WireClient, success, wire_client
from windsprite_protocol.batches import NewMessage, build_batch
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
from windsprite_protocol.model.streams import CreateStream
from windsprite_protocol.model.tokens import CreateToken
from windsprite_protocol.model.topics import CreateTopic, DeleteSegments, PurgeTopic
from windsprite_protocol.model.typed_values import ValueKind
from windsprite_protocol.v0_11.calling import decode_reply
from windsprite_protocol.v0_11.table import GENERATION

KIB, MIB = 1 << 10, 1 << 20
SEGMENT = FRAME = MIB
LARGEST_BATCH = 128 * KIB
SETTINGS = {
    "WINDSPRITE_LIMITS__MAX_FRAME_SIZE": "1 MiB",
    "WINDSPRITE_RETENTION__INTERVAL": "20 ms",
    "WINDSPRITE_STORAGE__TAIL_MEMORY": "1 MiB",
    "WINDSPRITE_STORAGE__INDEX_INTERVAL": "4 KiB",
    "WINDSPRITE_STORAGE__OPEN_FILES": "16",
}
PERSISTED = {"durability": "persisted", "consumer_offset_durability": "persisted"}
LIMITED = {"max_topic_size": 2 * (SEGMENT + FRAME)}
TOPICS: dict[str, tuple[int, dict[str, Any]]] = {
    "kept": (1, {}),
    "kept durably": (1, PERSISTED),
    "limited": (2, LIMITED),
    "limited durably": (1, PERSISTED | {"max_topic_size": SEGMENT + FRAME}),
    "trimmed": (1, {"preallocate_segments": "true"}),
    "trimmed durably": (1, PERSISTED),
    "purged": (1, {"consumer_offset_durability": "persisted"}),
}
READER, WALKER, GROUP = "reader", "walker", "group"


@dataclass
class World:
    """All partitions, and how far everybody is.

    Attributes:
        ledgers: What is known of each partition.
        deleted: How many segments somebody wanted to be removed.
        token: What clients log in with.
        numbers: The batches that each producer has sent.
    """

    random: random.Random
    ledgers: dict[tuple[str, int], Ledger] = field(default_factory=dict)
    deleted: dict[str, int] = field(default_factory=dict)
    token: str = ""
    numbers: dict[str, int] = field(default_factory=dict)
    acknowledged: int = 0

    def life(self, topic: str, partition: int = 0) -> Life:
        return self.ledgers[topic, partition].life

    def batch(self, producer: str, *, is_small: bool) -> tuple[bytearray, Sent]:
        number = self.numbers[producer] = self.numbers.get(producer, -1) + 1
        count = 1 if is_small else self.random.choice([1, 1, 1, 2, 7, 30])
        size = 0 if is_small else self.random.choice([0, 10, 100, 1000, LARGEST_BATCH // 32])
        payload = f"{producer} {number} ".encode()
        messages = [
            NewMessage(payload + bytes(size), (index + 1).to_bytes(16, "little"), number)
            for index in range(count)
        ]
        return build_batch(messages), Sent(producer, number, count)


# --- What clients do ------------------------------------------------------------------------------


async def produce(
    client: WireClient, world: World, producer: str, topic: str, partition: int, window: int
) -> None:
    """Send without waiting for answers, up to a bound; some topics are purged now and then.

    What is kept for ever is sent slowly and is small, since all of it is read again and again.
    """
    flight: deque[tuple[Life, int] | None] = deque()
    ledger = world.ledgers[topic, partition]
    while True:
        while len(flight) < window:
            if topic == "purged" and world.random.random() < 0.03:
                ledger.purge()
                flight.append(None)
                await client.send(*client.encode(PurgeTopic("s", topic)))
                continue
            batch, sent = world.batch(producer, is_small=window == 1)
            flight.append((ledger.life, ledger.life.send(batch, sent)))
            target = ToPartition(partition)
            await client.send(*client.encode(SendMessages("s", topic, target, sent.count, batch)))
        answer = await client.receive()
        about = flight.popleft()
        if about is None:
            assert answer.told == success()
            ledger.purged()
            continue
        life, digest = about
        life.acknowledge(digest, value(SendMessages, answer).items[0].base_offset)
        world.acknowledged += 1
        if window == 1:
            await asyncio.sleep(0.002)


def value(request: type[Any], answer: Answer) -> Any:
    return decode_reply(answer.frame, GENERATION.of(request))[1]


def consumer_of(name: str) -> Consumer:
    return Consumer(ConsumerKind.GROUP if name == GROUP else ConsumerKind.SINGLE, name)


async def consume(
    client: WireClient, world: World, name: str, topic: str, partition: int = 0
) -> None:
    """Read on from the stored offset, and store how far it went.

    A walker lets the server store it, a member of a group and a reader do it themselves.
    """
    consumer, life = consumer_of(name), world.life(topic, partition)
    offset = life.offsets[name]
    if name == GROUP:
        await client.call(JoinConsumerGroup("s", topic, name))
        while partition not in (await client.call(SyncConsumerGroup("s", topic, name))).partitions:
            await asyncio.sleep(0.001)
    while True:
        count = world.random.choice([1, 50, 5000])
        offset.is_open = name == WALKER
        request = PollMessages(
            consumer, "s", topic, partition, PollingStrategy(5), count, name == WALKER
        )
        found: PolledMessages = await client.call(request)
        messages = Messages(found.records)
        offset.is_open = False
        if not messages:
            await asyncio.sleep(0.001)
            continue
        if offset.told is not None:
            assert messages[0].offset == offset.told + 1, "a consumer missed something"
        numbers = [message.offset for message in messages]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        life.see(numbers[-1] + 1)
        if name != WALKER:
            offset.ask(numbers[-1])
            await client.call(StoreConsumerOffset(consumer, "s", topic, partition, numbers[-1]))
        offset.tell(numbers[-1])


async def trim(client: WireClient, world: World, topic: str) -> None:
    while True:
        world.deleted[topic] += 1
        await client.call(DeleteSegments("s", topic, 0, 1))
        await asyncio.sleep(world.random.uniform(0, 0.02))


def everybody(world: World) -> list[Callable[[WireClient], Awaitable[None]]]:
    """What each connection is used for."""

    def producer(number: int, topic: str, partition: int, window: int) -> Any:
        name = f"{number} of {topic} {partition}"
        return lambda client: produce(client, world, name, topic, partition, window)

    def consumer(name: str, topic: str) -> Any:
        return lambda client: consume(client, world, name, topic)

    return [
        producer(1, "kept", 0, 1),
        producer(1, "kept durably", 0, 1),
        producer(1, "limited", 0, 8),
        producer(2, "limited", 0, 8),
        producer(1, "limited", 1, 32),
        producer(1, "limited durably", 0, 16),
        producer(1, "trimmed", 0, 16),
        producer(1, "trimmed durably", 0, 8),
        producer(2, "trimmed durably", 0, 8),
        producer(1, "purged", 0, 8),
        consumer(READER, "limited"),
        consumer(GROUP, "limited"),
        consumer(WALKER, "limited durably"),
        consumer(READER, "trimmed durably"),
        consumer(WALKER, "trimmed durably"),
        lambda client: trim(client, world, "trimmed"),
        lambda client: trim(client, world, "trimmed durably"),
    ]


# --- Lives of the server --------------------------------------------------------------------------


async def prepare(root: WireClient, world: World) -> None:
    await root.login()
    world.token = (await root.call(CreateToken("all", 0))).token
    await root.call(CreateStream("s"))
    for topic, (partitions, options) in TOPICS.items():
        chosen = {"segment_size": SEGMENT, **options}
        kinds = {int: ValueKind.UINT64, str: ValueKind.STRING}
        wire_options = tuple(option(key, it, kinds[type(it)]) for key, it in chosen.items())
        await root.call(CreateTopic("s", partitions, topic, wire_options))
        await root.call(CreateConsumerGroup("s", topic, GROUP))
        for partition in range(partitions):
            world.ledgers[topic, partition] = Ledger()
        world.deleted[topic] = 0


async def live(server: PreloadedServer, world: World, seconds: float) -> None:
    """Let everybody work until the server is killed, and note all that was still answered."""
    address = server.wait_ready()["tcp"]
    is_over = False

    async def work(does: Callable[[WireClient], Awaitable[None]]) -> None:
        with suppress(EOFError, ConnectionError):
            async with wire_client(address) as client:
                await log_in(client, world.token)
                await does(client)
        assert is_over, "the server closed a connection"

    async with asyncio.TaskGroup() as group:
        for does in everybody(world):
            group.create_task(work(does))
        await asyncio.sleep(seconds)
        is_over = True
        server.kill()


async def check(server: PreloadedServer, world: World) -> None:
    """Compare all there is with what everybody was told."""
    async with wire_client(server.wait_ready()["tcp"]) as client:
        await log_in(client, world.token)
        for (topic, partition), ledger in world.ledgers.items():
            place = f"{topic} {partition}"
            batches = await stored_batches(client, "s", topic, partition)
            last = batches[-1] if batches else None
            current = (await poll(client, "s", topic, partition, 0)).current_offset
            end = current + 1 if last or current else 0
            try:
                ledger.check(batches, end)
                await check_offsets(client, ledger.life, topic, partition, end)
                check_removals(world, ledger.life, topic, batches)
            except AssertionError as error:
                error.add_note(place)
                raise


async def check_offsets(
    client: WireClient, life: Life, topic: str, partition: int, end: int
) -> None:
    for name, offset in life.offsets.items():
        found = await client.call(GetConsumerOffset(consumer_of(name), "s", topic, partition))
        offset.check(None if found is None else found.stored_offset, end)
        # What a consumer has still to read is not removed (spec 03, 6.3).
        assert offset.told is None or life.first <= offset.told + 1


def check_removals(world: World, life: Life, topic: str, batches: list[Stored]) -> None:
    size = sum(batch.size for batch in batches)
    if topic.startswith("kept"):
        assert life.first == 0
    elif topic.startswith("trimmed"):
        assert life.removed_bytes <= world.deleted[topic] * (SEGMENT + LARGEST_BATCH)
    elif topic.startswith("limited") and life.first:
        assert size >= FRAME - LARGEST_BATCH, "more was removed than had to be"


async def run(folder: Path, *, kills: int, seed: int) -> None:
    moments = random.Random(seed)
    world = World(random.Random(seed))
    began = time.monotonic()
    print(f"seed {seed}")
    with PreloadedServer(folder, SETTINGS) as server:
        server.start()
        async with wire_client(server.wait_ready()["tcp"]) as root:
            await prepare(root, world)
        for done in range(1, kills + 1):
            await live(server, world, moments.choice([0.05, 0.4, 1.2]) * moments.random())
            server.start()
            if moments.random() < 0.2:
                await asyncio.sleep(moments.uniform(0, 0.1))
                server.kill()
                server.start()
            await check(server, world)
            if done % 50 == 0:
                print(f"{done} kills, {world.acknowledged} batches acknowledged")
        events = [event for event in server.events if is_unexpected(event)]
        assert not events
    removing = [topic for topic in TOPICS if topic.startswith(("limited", "trimmed"))]
    idle = [topic for topic in removing if not world.life(topic).first]
    assert len(idle) < len(removing) if kills < 100 else not idle, f"nothing was removed of {idle}"
    milliseconds = (time.monotonic() - began) * 1000 / kills
    print(f"{kills} kills, {milliseconds:.0f} ms each, {world.acknowledged} batches acknowledged")


async def test_nothing_acknowledged_is_lost_whenever_the_server_is_killed(tmp_path: Path) -> None:
    await run(tmp_path, kills=8, seed=1)


@pytest.mark.soak
async def test_nothing_acknowledged_is_lost_in_a_thousand_kills(tmp_path: Path) -> None:
    await run(tmp_path, kills=1000, seed=random.randrange(1 << 32))
