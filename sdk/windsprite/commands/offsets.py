"""Stored offsets of consumers and consumer groups."""

# ruff: noqa: ASYNC109 - a timeout covers more than one wait, with repeats and new connections

from __future__ import annotations

from windsprite.commands.base import Commands
from windsprite.messages import reader_of
from windsprite_protocol.model.identifiers import AckLevel, Consumer, Identifier
from windsprite_protocol.model.offsets import (
    ConsumerOffset,
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)


class OffsetCommands(Commands):
    """Stored offsets of consumers and of consumer groups.

    They belong to a `consumer`, by its number or name, or to a `group`; without either to
    consumer 0. Everybody may look at the offsets of a group, but only the member that has the
    partition can change them.
    """

    async def get_consumer_offset(
        self,
        stream: Identifier,
        topic: Identifier,
        *,
        partition: int = 0,
        consumer: Identifier | Consumer | None = None,
        group: Identifier | None = None,
        timeout: float | None = None,
    ) -> ConsumerOffset | None:
        """The offset stored for a consumer or a group; None if nothing is stored.

        Raises:
            NotFound: There is no such stream, topic or partition.
        """
        offset: ConsumerOffset | None = await self._caller.call(
            GetConsumerOffset(reader_of(consumer, group), stream, topic, partition),
            f"get_consumer_offset {topic!r} in {stream!r}",
            time_limit=timeout,
        )
        return offset

    async def store_consumer_offset(
        self,
        stream: Identifier,
        topic: Identifier,
        offset: int,
        *,
        partition: int = 0,
        consumer: Identifier | Consumer | None = None,
        group: Identifier | None = None,
        timeout: float | None = None,
    ) -> None:
        """Store the offset of the last message a consumer is done with; it may go back.

        Raises:
            NotFound: There is no such stream, topic, partition or group.
            PartitionNotOwned: The partition does not belong to this member of the group any more:
                whoever has it now sees the messages again.
            InvalidRequest: The partition has no such offset yet.
        """
        await self._caller.call(
            StoreConsumerOffset(
                reader_of(consumer, group), stream, topic, partition, offset, AckLevel.QUORUM
            ),
            f"store_consumer_offset {topic!r} in {stream!r}",
            time_limit=timeout,
        )

    async def delete_consumer_offset(
        self,
        stream: Identifier,
        topic: Identifier,
        *,
        partition: int = 0,
        consumer: Identifier | Consumer | None = None,
        group: Identifier | None = None,
        timeout: float | None = None,
    ) -> None:
        """Forget the offset stored for a consumer.

        Raises:
            NotFound: There is no such stream, topic, partition or group, or nothing is stored.
            PartitionNotOwned: The partition does not belong to this member of the group.
        """
        await self._caller.call(
            DeleteConsumerOffset(
                reader_of(consumer, group), stream, topic, partition, AckLevel.QUORUM
            ),
            f"delete_consumer_offset {topic!r} in {stream!r}",
            time_limit=timeout,
        )
