"""Members of consumer groups on a real server, in the short forms of examples."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from support.log import batch_of
from support.real_server import RealServer
from support.wire_client import VERSION, Told, WireClient
from windsprite_protocol.messages import Messages
from windsprite_protocol.model.groups import (
    ConsumerGroupDetails,
    GetConsumerGroup,
    GroupAssignment,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    SyncConsumerGroup,
)
from windsprite_protocol.model.identifiers import (
    Consumer,
    ConsumerKind,
    Identifier,
    PollingStrategy,
    ToPartition,
)
from windsprite_protocol.model.messages import (
    NO_PARTITION,
    PolledMessages,
    PollMessages,
    SendMessages,
)
from windsprite_protocol.model.offsets import (
    ConsumerOffset,
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from windsprite_protocol.model.sessions import LoggedIn, Login
from windsprite_protocol.model.system import GetClients

STREAM, TOPIC, GROUP = "orders", 0, "billing"
FENCED = PolledMessages(NO_PARTITION, 0, 0, ())
"""What a poll is answered that a member has to ask for its assignment again for."""


class Member:
    """A connection that uses one group; it does nothing by itself.

    Attributes:
        wire: The connection.
    """

    def __init__(self, wire: WireClient, group: Identifier = GROUP) -> None:
        self.wire = wire
        self.place = STREAM, TOPIC, group
        self.consumer = Consumer(ConsumerKind.GROUP, group)

    async def join(self) -> Told:
        return await self.wire.told(JoinConsumerGroup(*self.place))

    async def leave(self) -> Told:
        return await self.wire.told(LeaveConsumerGroup(*self.place))

    async def sync(self) -> tuple[int, list[int]] | None:
        """Generation and partitions; `None`: no member."""
        assignment: GroupAssignment | None = await self.wire.call(SyncConsumerGroup(*self.place))
        return None if assignment is None else (assignment.generation, list(assignment.partitions))

    def poll_request(
        self,
        partition: int | None,
        count: int = 1,
        start: PollingStrategy | None = None,
        *,
        commit: bool = False,
    ) -> PollMessages:
        strategy = PollingStrategy.next() if start is None else start
        return PollMessages(
            self.consumer, STREAM, TOPIC, partition, strategy, count, auto_commit=commit
        )

    async def poll(
        self,
        partition: int,
        count: int = 1,
        start: PollingStrategy | None = None,
        *,
        commit: bool = False,
    ) -> list[int] | None:
        """Offsets of the messages that come; `None`: fenced."""
        request = self.poll_request(partition, count, start, commit=commit)
        polled: PolledMessages = await self.wire.call(request)
        if polled.partition_id == NO_PARTITION:
            assert polled == FENCED
            return None
        assert polled.partition_id == partition
        found = [message.offset for message in Messages(polled.records)]
        assert len(found) == polled.messages_count
        return found

    async def store(self, partition: int | None, offset: int) -> Told:
        return await self.wire.told(
            StoreConsumerOffset(self.consumer, STREAM, TOPIC, partition, offset)
        )

    async def forget(self, partition: int | None) -> Told:
        return await self.wire.told(DeleteConsumerOffset(self.consumer, STREAM, TOPIC, partition))

    async def stored(self, partition: int | None) -> int | None:
        found: ConsumerOffset | None = await self.wire.call(
            GetConsumerOffset(self.consumer, STREAM, TOPIC, partition)
        )
        return None if found is None else found.stored_offset


@asynccontextmanager
async def members(server: RealServer, count: int) -> AsyncIterator[list[Member]]:
    """So many connections, logged in; none has joined."""
    if not count:
        yield []
        return
    async with server.client("iggy", "iggy") as wire, members(server, count - 1) as others:
        yield [Member(wire), *others]


async def owned(wire: WireClient, group: Identifier = GROUP) -> dict[int, list[int]]:
    """What members own, by their slots."""
    details: ConsumerGroupDetails = await wire.call(GetConsumerGroup(STREAM, TOPIC, group))
    assert details.group.members_count == len(details.members)
    return {member.id: list(member.partitions) for member in details.members}


async def fill(
    wire: WireClient, partitions: Sequence[int], count: int = 10, payload: bytes = b"x"
) -> None:
    """Append so many messages to each of the partitions."""
    for partition in partitions:
        batch, _ = batch_of([payload] * count)
        request = SendMessages(STREAM, TOPIC, ToPartition(partition), count, batch)
        await wire.call(request)


async def login_as(wire: WireClient, client: bytes) -> None:
    """Open a session of root under this client id."""
    wire.client, wire.session, wire.next_request = client, 0, 1
    logged_in: LoggedIn = await wire.call(Login(VERSION, "iggy", "iggy"))
    wire.session = logged_in.session


async def until_members(wire: WireClient, count: int) -> None:
    """Wait until the group has no more members than that."""
    async with asyncio.timeout(10):
        while len(await owned(wire)) > count:
            await asyncio.sleep(0.001)


async def until_connections(wire: WireClient, count: int) -> None:
    """Wait until there are no more connections than that."""
    async with asyncio.timeout(10):
        while len(await wire.call(GetClients())) > count:
            await asyncio.sleep(0.001)
