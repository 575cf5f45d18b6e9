"""Clients that join, leave, poll, send, die and come back: a program, so that it can run twice.

It reads a `Plan` as JSON from its first argument. When the time of the plan is over its clients
come to rest, connected and some of them members of all groups, and it says `resting`. When it gets
a line they go, and it writes a `Report` as JSON to the file that the plan names.

It checks what a client can check by itself. What takes the knowledge of all is in the report.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from support.wire_client import VERSION, WireClient, wire_client
from windsprite_protocol.batches import NewMessage, build_batch
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.messages import Message, Messages
from windsprite_protocol.model.cluster import GetClusterMetadata
from windsprite_protocol.model.groups import (
    JoinConsumerGroup,
    LeaveConsumerGroup,
    SyncConsumerGroup,
)
from windsprite_protocol.model.identifiers import (
    Balanced,
    ByKey,
    Consumer,
    ConsumerKind,
    PollingStrategy,
    ToPartition,
)
from windsprite_protocol.model.messages import NO_PARTITION, PollMessages, SendMessages
from windsprite_protocol.model.offsets import GetConsumerOffset, StoreConsumerOffset
from windsprite_protocol.model.sessions import Login, LoginWithToken, Logout
from windsprite_protocol.model.system import GetMe, Ping
from windsprite_protocol.model.topics import CreateTopic, DeleteTopic, GetTopic
from windsprite_protocol.v0_11.calling import RemoteError

STREAM: Final = "soak"
TOPICS: Final = {"plain": 6, "synced": 2}
"""Topics that keep all they are sent, and their partitions."""
RESIZED: Final = "resized"
"""A topic whose partitions come and go."""
COUNTED: Final = "counted"
"""A group that commits with each poll: every message is delivered once."""
BY_HAND: Final = "by-hand"
"""A group whose members commit when they are done."""
GROUPS: Final = [
    *((topic, group) for topic in TOPICS for group in (COUNTED, BY_HAND)),
    (RESIZED, BY_HAND),
]
MEMBERS_AT_REST: Final = 4
SECONDS_TO_REST: Final = 20


@dataclass
class Plan:
    """What a program of clients is to do.

    Attributes:
        address: Of the server.
        number: Which program this is.
        clients: How many of them, all connected most of the time.
        seconds: How long.
        pause: Seconds that a client waits between two requests, on average.
        token: To log in with.
        username: To log in with now and then instead.
        password: Of that user.
        report: Where the report goes.
    """

    address: str
    number: int
    clients: int
    seconds: float
    pause: float
    token: str
    username: str
    password: str
    report: str


class Sent(NamedTuple):
    """Messages that the server has acknowledged: a producer numbers all it sends."""

    topic: str
    partition: int
    base_offset: int
    producer: str
    first: int
    count: int


class Delivered(NamedTuple):
    """Messages that the counted group was given."""

    topic: str
    partition: int
    first: int
    last: int


class Assigned(NamedTuple):
    """What a member was told that it may poll."""

    topic: str
    group: str
    generation: int
    member: str
    partitions: list[int]


@dataclass
class Report:
    """What became of it.

    Attributes:
        done: How often each thing was done.
        sent: What was acknowledged.
        delivered: What was given to the counted group.
        assigned: What members were told.
        errors: What should not have happened, the first of each kind.
    """

    done: Counter[str] = field(default_factory=Counter)
    sent: list[Sent] = field(default_factory=list)
    delivered: list[Delivered] = field(default_factory=list)
    assigned: list[Assigned] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)

    def wrong(self, kind: str, detail: object) -> None:
        self.done[f"wrong: {kind}"] += 1
        self.errors.setdefault(kind, str(detail))


def payload_of(producer: str, number: int, size: int) -> bytes:
    """A payload that says whose message it is; the rest of it follows from that."""
    head = f"{producer} {number} ".encode()
    return head + bytes([number % 251]) * size


def read_payload(payload: bytes) -> tuple[str, int]:
    """Who sent a message, and its number.

    Raises:
        ValueError: It is not what was sent.
    """
    producer, number, rest = payload.split(b" ", 2)
    if rest.strip(bytes([int(number) % 251])):
        raise ValueError(payload)
    return producer.decode(), int(number)


class SoakClient:
    """One client: whatever happens to its connections, its messages are numbered on and on."""

    def __init__(self, plan: Plan, number: int, report: Report) -> None:
        self._plan = plan
        self._report = report
        self._random = Random(f"{plan.number}-{number}")
        self._name = f"{plan.number}-{number}"
        self._rests_as_member = number < MEMBERS_AT_REST
        self._sequence = 0
        self._memberships: set[tuple[str, str]] = set()
        self._client: WireClient

    async def live(self, is_over: asyncio.Event, resting: Callable[[], None]) -> None:
        """Connect again and again until time is over; then rest until cancelled."""
        while True:
            try:
                async with wire_client(self._plan.address) as self._client:
                    self._memberships = set()
                    await self._log_in()
                    for _ in range(self._random.randint(1, 60)):
                        if not is_over.is_set():
                            await self._act()
                    if is_over.is_set():
                        await self._rest(resting)
                    await self._die()
            except (EOFError, OSError, TimeoutError) as error:
                self._report.wrong(f"connection: {type(error).__name__}", error)
            self._report.done["died"] += 1
            if not is_over.is_set():
                await self._pause()

    async def _log_in(self) -> None:
        by_password = self._random.random() < 0.02
        request = (
            Login(VERSION, self._plan.username, self._plan.password)
            if by_password
            else LoginWithToken(VERSION, self._plan.token)
        )
        while True:
            try:
                await self._client.open(request)
            except RemoteError as error:
                if error.code is not ErrorCode.TRANSIENT_NOT_ACCEPTED:
                    raise
                await asyncio.sleep(0.1)
            else:
                self._report.done["log in"] += 1
                return

    async def _act(self) -> None:
        actions: dict[Callable[[], Coroutine[Any, Any, None]], int] = {
            self._send: 40,
            self._poll: 15,
            self._consume: 30,
            self._leave: 2,
            self._keep_offset: 6,
            self._ask: 6,
            self._make_and_delete: 1,
        }
        (action,) = self._random.choices(list(actions), list(actions.values()))
        self._report.done[action.__name__.strip("_")] += 1
        await action()
        await self._pause()

    async def _pause(self) -> None:
        await asyncio.sleep(self._random.expovariate(1 / self._plan.pause))

    async def _call(self, request: Any, *allowed: ErrorCode) -> Any:
        """The value of a reply; `None` for an error that may be."""
        try:
            return await self._client.call(request)
        except RemoteError as error:
            if error.code not in allowed:
                self._report.wrong(f"{type(request).__name__}: {error.code.name}", request)
            return None

    # What clients do

    def _topic(self) -> str:
        return self._random.choice(list(TOPICS))

    def _partition(self, topic: str) -> int:
        return self._random.randrange(TOPICS.get(topic, 1))

    def _new_send(self) -> tuple[SendMessages, str, int, int]:
        """A send of the next messages, with their topic, their first number and how many."""
        topic, count = self._topic(), self._random.choice([1, 1, 2, 5, 20])
        first = self._sequence
        self._sequence += count
        size = self._random.choice([0, 20, 100, 400])
        batch = build_batch(
            [
                NewMessage(payload_of(self._name, number, size), number.to_bytes(16, "little"), 1)
                for number in range(first, first + count)
            ]
        )
        partitioning = self._random.choice(
            [ToPartition(self._partition(topic)), Balanced(), ByKey(self._name.encode())]
        )
        return SendMessages(STREAM, topic, partitioning, count, bytes(batch)), topic, first, count

    async def _send(self) -> None:
        request, topic, first, count = self._new_send()
        confirmations = await self._call(request)
        if confirmations is not None:
            (where,) = confirmations.items
            self._report.sent.append(
                Sent(topic, where.partition_id, where.base_offset, self._name, first, count)
            )
            self._report.done["messages sent"] += count

    async def _poll(self) -> None:
        topic = self._topic()
        strategy = self._random.choice(
            [
                PollingStrategy.first(),
                PollingStrategy.last(),
                PollingStrategy.next(),
                PollingStrategy.offset(self._random.randrange(5000)),
            ]
        )
        consumer = Consumer(ConsumerKind.SINGLE, self._random.randrange(20))
        await self._polled(topic, self._partition(topic), consumer, strategy, auto_commit=True)

    async def _polled(
        self,
        topic: str,
        partition: int,
        consumer: Consumer,
        strategy: PollingStrategy,
        *,
        auto_commit: bool,
    ) -> list[Message] | None:
        """Messages, all as they were sent; `None` if the partition belongs to somebody else."""
        count = self._random.choice([1, 10, 100])
        request = PollMessages(consumer, STREAM, topic, partition, strategy, count, auto_commit)
        polled = await self._call(request)
        if polled is None or polled.partition_id == NO_PARTITION:
            return None
        messages = list(Messages(polled.records))
        self._report.done["messages polled"] += len(messages)
        offsets = [message.offset for message in messages]
        if offsets and offsets != list(range(offsets[0], offsets[0] + len(offsets))):
            self._report.wrong("offsets with gaps", (topic, partition, offsets))
        if len(offsets) != polled.messages_count or max([0, *offsets]) > polled.current_offset:
            self._report.wrong("numbers of a poll", (polled.messages_count, offsets))
        for message in messages:
            try:
                read_payload(message.payload)
            except ValueError:
                self._report.wrong("damaged message", message)
        return messages

    async def _consume(self) -> None:
        await self._consume_for(*self._random.choice(GROUPS))

    async def _consume_for(self, topic: str, group: str) -> int:
        """Poll as a member of a group; returns how many messages came."""
        await self._join(topic, group)
        assignment = await self._call(SyncConsumerGroup(STREAM, topic, group))
        if assignment is None:
            self._report.wrong("a member that is none", (topic, group))
            return 0
        member = f"{self._name} in session {self._client.session}"
        self._report.assigned.append(
            Assigned(topic, group, assignment.generation, member, list(assignment.partitions))
        )
        found = 0
        for partition in assignment.partitions:
            consumer = Consumer(ConsumerKind.GROUP, group)
            messages = await self._polled(
                topic, partition, consumer, PollingStrategy.next(), auto_commit=group == COUNTED
            )
            if messages is None:
                self._report.done["partition gone to somebody else"] += 1
            elif messages:
                found += len(messages)
                first, last = messages[0].offset, messages[-1].offset
                if group == COUNTED:
                    self._report.delivered.append(Delivered(topic, partition, first, last))
                else:
                    await self._commit(topic, partition, consumer, last)
        return found

    async def _join(self, topic: str, group: str) -> None:
        if (topic, group) not in self._memberships:
            await self._call(JoinConsumerGroup(STREAM, topic, group))
            self._memberships.add((topic, group))
            self._report.done["join"] += 1

    async def _commit(self, topic: str, partition: int, consumer: Consumer, offset: int) -> None:
        # Whoever owned the partition may have lost it since, or it is empty because it is new.
        may_be = [ErrorCode.CONSUMER_GROUP_PARTITION_NOT_OWNED]
        if topic == RESIZED:
            may_be.append(ErrorCode.INVALID_OFFSET)
        await self._call(StoreConsumerOffset(consumer, STREAM, topic, partition, offset), *may_be)

    async def _leave(self) -> None:
        if self._memberships:
            place = self._random.choice(sorted(self._memberships))
            self._memberships.discard(place)
            await self._call(LeaveConsumerGroup(STREAM, *place))

    async def _keep_offset(self) -> None:
        """A consumer of its own, whose offset nobody else changes."""
        topic = self._topic()
        place = STREAM, topic, self._partition(topic)
        consumer = Consumer(ConsumerKind.SINGLE, f"consumer of {self._name}")
        offset = self._random.randrange(3)
        stored = StoreConsumerOffset(consumer, *place, offset)
        if await self._is_refused(stored, ErrorCode.INVALID_OFFSET):
            return  # there are not so many messages yet
        found = await self._call(GetConsumerOffset(consumer, *place))
        if found is None or found.stored_offset != offset:
            self._report.wrong("a stored offset", (offset, found))

    async def _is_refused(self, request: Any, code: ErrorCode) -> bool:
        try:
            await self._client.call(request)
        except RemoteError as error:
            if error.code is not code:
                self._report.wrong(f"{type(request).__name__}: {error.code.name}", request)
            return True
        return False

    async def _ask(self) -> None:
        requests = [Ping(), GetMe(), GetClusterMetadata(), GetTopic(STREAM, self._topic())]
        await self._call(self._random.choice(requests))

    async def _make_and_delete(self) -> None:
        """A topic of its own, for a moment."""
        name = f"of {self._name}"
        # It may still be there: the one that made it may have died.
        await self._call(CreateTopic(STREAM, 1, name), ErrorCode.TOPIC_NAME_ALREADY_EXISTS)
        await self._call(DeleteTopic(STREAM, name))

    # How they end

    async def _die(self) -> None:
        way = self._random.choice(
            [self._log_out, self._vanish, self._reset, self._half, self._rubbish, self._unread]
        )
        self._report.done[f"die: {way.__name__.strip('_')}"] += 1
        await way()

    async def _log_out(self) -> None:
        await self._call(Logout())

    async def _vanish(self) -> None:
        """The connection is closed, no more."""

    async def _reset(self) -> None:
        self._client.reset()

    async def _half(self) -> None:
        """Half of a frame, then nothing, or a RST."""
        data = b"".join(self._client.encode(self._new_send()[0]))
        await self._client.send(data[: self._random.randrange(1, len(data))])
        if self._random.random() < 0.5:
            self._client.reset()

    async def _rubbish(self) -> None:
        await self._client.send(b"\xff" * 256)
        try:
            await self._client.receive()
        except (EOFError, ConnectionError):
            return
        self._report.wrong("rubbish is answered", "")

    async def _unread(self) -> None:
        """Requests whose answers nobody reads: the sends among them may be done or not."""
        consumer = Consumer(ConsumerKind.SINGLE, 1)
        poll = PollMessages(
            consumer, STREAM, "plain", 0, PollingStrategy.first(), 1000, auto_commit=False
        )
        for request in (self._new_send()[0], poll, poll, self._new_send()[0]):
            await self._client.send(*self._client.encode(request))
        if self._random.random() < 0.5:
            self._client.reset()

    async def _rest(self, resting: Callable[[], None]) -> None:
        """Finish what is begun: then no partition is being handed over to anybody."""
        for place in GROUPS if self._rests_as_member else sorted(self._memberships):
            while await self._consume_for(*place):
                pass
        resting()
        await asyncio.Event().wait()


async def run(plan: Plan) -> Report:
    """Let the clients live, rest and go."""
    report = Report()
    is_over = asyncio.Event()
    all_rest = asyncio.Event()
    awake = plan.clients

    def resting() -> None:
        nonlocal awake
        awake -= 1
        if not awake:
            all_rest.set()

    async with asyncio.TaskGroup() as group:
        clients = [SoakClient(plan, number, report) for number in range(plan.clients)]
        tasks = [group.create_task(client.live(is_over, resting)) for client in clients]
        await asyncio.sleep(plan.seconds)
        is_over.set()
        async with asyncio.timeout(SECONDS_TO_REST):
            await all_rest.wait()
        print("resting", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for task in tasks:
            task.cancel()
    return report


if __name__ == "__main__":
    the_plan = Plan(**json.loads(sys.argv[1]))
    the_report = asyncio.run(run(the_plan))
    Path(the_plan.report).write_text(json.dumps(vars(the_report)), encoding="utf-8")
