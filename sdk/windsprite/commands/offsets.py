"""Stored offsets of consumers."""

from __future__ import annotations

from windsprite.commands.base import Commands
from windsprite.messages import consumer_of
from windsprite_protocol.model.identifiers import AckLevel, Consumer, Identifier
from windsprite_protocol.model.offsets import (
    ConsumerOffset,
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)


class OffsetCommands(Commands):
    """Stored offsets of consumers."""

    async def get_consumer_offset(
        self,
        stream: Identifier,
        topic: Identifier,
        *,
        partition: int = 0,
        consumer: Identifier | Consumer = 0,
    ) -> ConsumerOffset | None:
        """The offset stored for a consumer; None if nothing is stored.

        Raises:
            NotFound: There is no such stream, topic or partition.
        """
        offset: ConsumerOffset | None = await self._caller.call(
            GetConsumerOffset(consumer_of(consumer), stream, topic, partition),
            f"get_consumer_offset {topic!r}",
        )
        return offset

    async def store_consumer_offset(
        self,
        stream: Identifier,
        topic: Identifier,
        offset: int,
        *,
        partition: int = 0,
        consumer: Identifier | Consumer = 0,
    ) -> None:
        """Store the offset of the last message a consumer is done with; it may go back.

        Raises:
            NotFound: There is no such stream, topic or partition.
            InvalidRequest: The partition has no such offset yet.
        """
        await self._caller.call(
            StoreConsumerOffset(
                consumer_of(consumer), stream, topic, partition, offset, AckLevel.QUORUM
            ),
            f"store_consumer_offset {topic!r}",
        )

    async def delete_consumer_offset(
        self,
        stream: Identifier,
        topic: Identifier,
        *,
        partition: int = 0,
        consumer: Identifier | Consumer = 0,
    ) -> None:
        """Forget the offset stored for a consumer.

        Raises:
            NotFound: There is no such stream, topic or partition, or nothing is stored.
        """
        await self._caller.call(
            DeleteConsumerOffset(consumer_of(consumer), stream, topic, partition, AckLevel.QUORUM),
            f"delete_consumer_offset {topic!r}",
        )
