"""What a consumer reads, and on whose behalf: a topic, for a single consumer or for a group."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from windsprite.caller import Caller
from windsprite.commands.groups import GroupCommands
from windsprite.commands.messages import MessageCommands
from windsprite.commands.offsets import OffsetCommands
from windsprite.commands.topics import TopicCommands
from windsprite.errors import AlreadyExists, NotFound
from windsprite.messages import Batch, From, reader_of
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.groups import GroupAssignment
from windsprite_protocol.model.identifiers import AckLevel, Identifier
from windsprite_protocol.model.offsets import DeleteConsumerOffset, StoreConsumerOffset


class Calls(TopicCommands, MessageCommands, OffsetCommands, GroupCommands):
    """The methods of the client that a consumer uses."""


@dataclass(frozen=True, slots=True)
class Source:
    """A topic, and who reads it.

    Attributes:
        calls: The client.
        caller: Carries out its requests.
        stream: Where.
        topic: Where.
        name: The single consumer; None: there is a group, or nobody is to remember anything.
        group: The consumer group.
    """

    calls: Calls
    caller: Caller
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

    async def store(self, partition: int, offset: int, session: int | None) -> None:
        """Store an offset.

        Args:
            partition: Where.
            offset: The offset.
            session: The only session in which this is right, by its number; None: any.
        """
        request = StoreConsumerOffset(
            reader_of(self.name, self.group),
            self.stream,
            self.topic,
            partition,
            offset,
            AckLevel.QUORUM,
        )
        await self.caller.call(request, f"store the offset of {self}", session=session)

    async def delete(self, partition: int, session: int | None) -> None:
        """Delete a stored offset; the arguments are those of `store`."""
        reader = reader_of(self.name, self.group)
        request = DeleteConsumerOffset(reader, self.stream, self.topic, partition, AckLevel.QUORUM)
        await self.caller.call(request, f"delete the offset of {self}", session=session)

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
