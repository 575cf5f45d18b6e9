"""What a consumer reads, and on whose behalf: a topic, for a single consumer or for a group."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from windsprite.errors import AlreadyExists, NotFound
from windsprite.messages import Batch, From
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.groups import ConsumerGroupDetails, GroupAssignment
from windsprite_protocol.model.identifiers import Consumer, Identifier
from windsprite_protocol.model.offsets import ConsumerOffset
from windsprite_protocol.model.topics import TopicDetails


class Calls(Protocol):
    """The methods of the client that a consumer uses."""

    async def get_topic(self, stream: Identifier, topic: Identifier) -> TopicDetails | None:
        """As `Client.get_topic`."""
        ...

    async def poll(
        self,
        stream: Identifier,
        topic: Identifier,
        *,
        partition: int | None = None,
        start: From | None = None,
        count: int = 1000,
        consumer: Identifier | Consumer | None = None,
        group: Identifier | None = None,
        auto_commit: bool = False,
    ) -> Batch:
        """As `Client.poll`."""
        ...

    async def get_consumer_offset(
        self,
        stream: Identifier,
        topic: Identifier,
        *,
        partition: int = 0,
        consumer: Identifier | Consumer | None = None,
        group: Identifier | None = None,
    ) -> ConsumerOffset | None:
        """As `Client.get_consumer_offset`."""
        ...

    async def store_consumer_offset(
        self,
        stream: Identifier,
        topic: Identifier,
        offset: int,
        *,
        partition: int = 0,
        consumer: Identifier | Consumer | None = None,
        group: Identifier | None = None,
    ) -> None:
        """As `Client.store_consumer_offset`."""
        ...

    async def delete_consumer_offset(
        self,
        stream: Identifier,
        topic: Identifier,
        *,
        partition: int = 0,
        consumer: Identifier | Consumer | None = None,
        group: Identifier | None = None,
    ) -> None:
        """As `Client.delete_consumer_offset`."""
        ...

    async def get_consumer_group(
        self, stream: Identifier, topic: Identifier, group: Identifier
    ) -> ConsumerGroupDetails | None:
        """As `Client.get_consumer_group`."""
        ...

    async def create_consumer_group(
        self, stream: Identifier, topic: Identifier, name: str
    ) -> ConsumerGroupDetails:
        """As `Client.create_consumer_group`."""
        ...

    async def join_consumer_group(
        self, stream: Identifier, topic: Identifier, group: Identifier
    ) -> None:
        """As `Client.join_consumer_group`."""
        ...

    async def leave_consumer_group(
        self, stream: Identifier, topic: Identifier, group: Identifier
    ) -> None:
        """As `Client.leave_consumer_group`."""
        ...

    async def sync_consumer_group(
        self, stream: Identifier, topic: Identifier, group: Identifier
    ) -> GroupAssignment | None:
        """As `Client.sync_consumer_group`."""
        ...


@dataclass(frozen=True, slots=True)
class Source:
    """A topic, and who reads it.

    Attributes:
        calls: The client.
        stream: Where.
        topic: Where.
        name: The single consumer; None: there is a group, or nobody is to remember anything.
        group: The consumer group.
    """

    calls: Calls
    stream: Identifier
    topic: Identifier
    name: Identifier | None
    group: Identifier | None

    def __str__(self) -> str:
        reader = "" if self.name is None else f" as {self.name!r}"
        reader = reader if self.group is None else f" for the group {self.group!r}"
        return f"{self.stream!r}, {self.topic!r}{reader}"

    @property
    def is_remembered(self) -> bool:
        """Whether offsets can be stored."""
        return self.name is not None or self.group is not None

    async def poll(self, partition: int, start: From, count: int, *, auto_commit: bool) -> Batch:
        """Poll a partition."""
        return await self.calls.poll(
            self.stream,
            self.topic,
            partition=partition,
            start=start,
            count=count,
            consumer=self.name,
            group=self.group,
            auto_commit=auto_commit,
        )

    async def stored(self, partition: int) -> int | None:
        """The stored offset of a partition; None: nothing is stored."""
        if not self.is_remembered:
            return None
        found = await self.calls.get_consumer_offset(
            self.stream, self.topic, partition=partition, consumer=self.name, group=self.group
        )
        return None if found is None else found.stored_offset

    async def store(self, partition: int, offset: int) -> None:
        """Store an offset."""
        await self.calls.store_consumer_offset(
            self.stream,
            self.topic,
            offset,
            partition=partition,
            consumer=self.name,
            group=self.group,
        )

    async def delete(self, partition: int) -> None:
        """Delete a stored offset."""
        await self.calls.delete_consumer_offset(
            self.stream, self.topic, partition=partition, consumer=self.name, group=self.group
        )

    async def partitions(self) -> Sequence[int]:
        """The partitions of the topic.

        Raises:
            NotFound: There is no such topic.
        """
        topic = await self.calls.get_topic(self.stream, self.topic)
        if topic is None:
            raise NotFound(
                f"consume {self}: there is no such topic", code=ErrorCode.TOPIC_ID_NOT_FOUND
            )
        return [partition.id for partition in topic.partitions]

    # --- Of a group --------------------------------------------------------------------------

    async def join(self, group: Identifier, *, create: bool) -> None:
        """Become a member.

        Args:
            group: Of which group.
            create: Whether to make it if it is missing; others may do so meanwhile.
        """
        if create and isinstance(group, str):
            found = await self.calls.get_consumer_group(self.stream, self.topic, group)
            if found is None:
                with suppress(AlreadyExists):
                    await self.calls.create_consumer_group(self.stream, self.topic, group)
        await self.calls.join_consumer_group(self.stream, self.topic, group)

    async def leave(self, group: Identifier) -> None:
        """End the membership."""
        await self.calls.leave_consumer_group(self.stream, self.topic, group)

    async def assignment(self, group: Identifier) -> GroupAssignment | None:
        """The partitions of the member; None if we are none."""
        return await self.calls.sync_consumer_group(self.stream, self.topic, group)
