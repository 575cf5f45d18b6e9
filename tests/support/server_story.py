"""A client that does one thing after the other and knows what a server has to have of it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from support.kill_ledger import Ledger, Sent
from support.read_back import poll, stored_batches
from support.topic_option_choices import option
from support.wire_client import WireClient
from windsprite_protocol.batches import NewMessage, build_batch
from windsprite_protocol.model.groups import CreateConsumerGroup
from windsprite_protocol.model.identifiers import Consumer, ConsumerKind, ToPartition
from windsprite_protocol.model.messages import SendMessages
from windsprite_protocol.model.offsets import (
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from windsprite_protocol.model.streams import CreateStream, DeleteStream, GetStreams, UpdateStream
from windsprite_protocol.model.topics import (
    CreatePartitions,
    CreateTopic,
    DeletePartitions,
    DeleteSegments,
    DeleteTopic,
    GetTopics,
    PurgeTopic,
)
from windsprite_protocol.model.typed_values import ValueKind
from windsprite_protocol.model.users import CreateUser, DeleteUser, GetUsers, UpdateUser

SEGMENT = 1 << 20
SMALL, LARGE = 20, SEGMENT // 8 - 512
PERSISTED = {"durability": "persisted", "consumer_offset_durability": "persisted"}
TOPICS: dict[str, dict[str, str]] = {
    "kept": {},
    "kept durably": PERSISTED,
    "trimmed": {"preallocate_segments": "true"},
    "trimmed durably": PERSISTED,
    "purged": PERSISTED,
}
READER = "reader"
_READER = Consumer(ConsumerKind.SINGLE, READER)


def _options(**options: str | int) -> tuple[Any, ...]:
    kinds = {int: ValueKind.UINT64, str: ValueKind.STRING}
    return tuple(option(key, it, kinds[type(it)]) for key, it in options.items())


class Story:
    """What was done, and what was answered.

    Attributes:
        there: Names of all streams, topics and users, as `names` finds them.
        change: What the change of them that is not answered takes away and what it brings.
        done: How many requests were answered.
    """

    def __init__(self) -> None:
        self.there: set[str] = {"user iggy"}
        self.change: tuple[set[str], set[str]] = set(), set()
        self.done = 0
        self._ledgers: dict[str, Ledger] = defaultdict(Ledger)
        self._number = self._round = 0

    async def begin(self, client: WireClient) -> None:
        """Make what stays."""
        await self._change(client, CreateStream("s"), brings="stream s")
        for topic, options in TOPICS.items():
            await self._create(client, topic, 1, **options)
            await self._send(client, topic, SMALL)
        await client.call(CreateConsumerGroup("s", "kept", "group"))

    async def live(self, client: WireClient, rounds: int = 2) -> None:
        """All that changes files: metadata, messages, offsets, removals."""
        for _ in range(rounds):
            self._round += 1
            await self._live_a_round(client, self._round)

    async def _live_a_round(self, client: WireClient, number: int) -> None:
        fleeting, user, stream = f"fleeting {number}", f"user {number}", f"stream {number}"
        await self._create(client, fleeting, 2, **(PERSISTED if number % 2 else {}))
        for topic in (fleeting, "kept", "kept durably"):
            await self._send(client, topic, SMALL)
            await self._store(client, topic)
            await self._send(client, topic, SMALL)
        two, three = f"topic {fleeting} of 2", f"topic {fleeting} of 3"
        await self._change(client, CreatePartitions("s", fleeting, 1), two, three)
        await self._forget(client, "kept durably")
        for topic in ("trimmed", "trimmed durably"):
            await self._trim(client, topic)
        await self._change(client, CreateUser(user, "password"), brings=f"user {user}")
        await self._purge(client, "purged")
        await self._change(client, DeletePartitions("s", fleeting, 1), three, two)
        await self._change(client, CreateStream(stream), brings=f"stream {stream}")
        renaming = UpdateStream(stream, f"{stream} now")
        await self._change(client, renaming, f"stream {stream}", f"stream {stream} now")
        other_name = UpdateUser(user, f"{user} now")
        await self._change(client, other_name, f"user {user}", f"user {user} now")
        await self._change(client, DeleteUser(f"{user} now"), f"user {user} now")
        await self._change(client, DeleteTopic("s", fleeting), two)
        await self._change(client, DeleteStream(f"{stream} now"), f"stream {stream} now")

    async def check(self, client: WireClient) -> None:
        """Compare a server that was started anew with what was answered."""
        takes, brings = self.change
        there = await names(client)
        assert there in [self.there, (self.there - takes) | brings], f"{there}, not {self.there}"
        self.there, self.change = there, (set(), set())
        for topic, ledger in self._ledgers.items():
            if not any(name.startswith(f"topic {topic} of") for name in there):
                continue
            batches = await stored_batches(client, "s", topic, 0)
            current = (await poll(client, "s", topic, 0, 0)).current_offset
            end = current + 1 if batches or current else 0
            ledger.check(batches, end)
            found = await client.call(GetConsumerOffset(_READER, "s", topic, 0))
            offset = ledger.life.offsets[READER]
            offset.check(None if found is None else found.stored_offset, end)
            if topic.startswith("kept"):
                assert ledger.life.first == 0

    async def _create(self, client: WireClient, topic: str, count: int, **options: str) -> None:
        chosen = _options(segment_size=SEGMENT, **options)
        request = CreateTopic("s", count, topic, chosen)
        await self._change(client, request, brings=f"topic {topic} of {count}")

    async def _change(
        self, client: WireClient, request: Any, takes: str = "", brings: str = ""
    ) -> None:
        self.change = {takes} - {""}, {brings} - {""}
        await client.call(request)
        self.there = (self.there - self.change[0]) | self.change[1]
        self.change = set(), set()
        self.done += 1

    async def _send(self, client: WireClient, topic: str, size: int) -> None:
        self._number += 1
        payload = b"%d " % self._number + bytes(size)
        batch = build_batch([NewMessage(payload, self._number.to_bytes(16, "little"), 1)])
        life = self._ledgers[topic].life
        digest = life.send(batch, Sent("story", self._number, 1))
        receipt = await client.call(SendMessages("s", topic, ToPartition(0), 1, batch))
        life.acknowledge(digest, receipt.items[0].base_offset)
        self.done += 1

    async def _store(self, client: WireClient, topic: str) -> None:
        life = self._ledgers[topic].life
        offset = life.offsets[READER]
        offset.ask(life.end - 1)
        await client.call(StoreConsumerOffset(_READER, "s", topic, 0, life.end - 1))
        offset.tell(life.end - 1)
        self.done += 1

    async def _forget(self, client: WireClient, topic: str) -> None:
        offset = self._ledgers[topic].life.offsets[READER]
        offset.asked.add(None)  # type: ignore[arg-type]
        await client.call(DeleteConsumerOffset(_READER, "s", topic, 0))
        offset.tell(None)
        self.done += 1

    async def _trim(self, client: WireClient, topic: str) -> None:
        """Fill a segment and let it be removed."""
        for _ in range(9):
            await self._send(client, topic, LARGE)
        await self._store(client, topic)
        await client.call(DeleteSegments("s", topic, 0, 1))
        self.done += 1

    async def _purge(self, client: WireClient, topic: str) -> None:
        await self._send(client, topic, SMALL)
        ledger = self._ledgers[topic]
        ledger.purge()
        await client.call(PurgeTopic("s", topic))
        ledger.purged()
        self.done += 1
        await self._send(client, topic, SMALL)


async def names(client: WireClient) -> set[str]:
    """All that metadata knows."""
    streams = [stream.name for stream in await client.call(GetStreams())]
    topics = await client.call(GetTopics("s")) if "s" in streams else []
    users = await client.call(GetUsers())
    return (
        {f"stream {name}" for name in streams}
        | {f"topic {topic.name} of {topic.partitions_count}" for topic in topics}
        | {f"user {user.username}" for user in users}
    )
