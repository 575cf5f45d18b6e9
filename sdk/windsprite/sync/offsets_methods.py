"""The methods of `OffsetCommands`, blocking; written by docs/sync_modules.py."""

from __future__ import annotations

from windsprite.client import Client as Target
from windsprite.sync.base import Blocking
from windsprite_protocol.model.identifiers import Consumer, Identifier
from windsprite_protocol.model.offsets import ConsumerOffset


class OffsetCommands(Blocking[Target]):
    """Stored offsets of consumers and of consumer groups.

    They belong to a `consumer`, by its number or name, or to a `group`; without either to
    consumer 0. Everybody may look at the offsets of a group, but only the member that has the
    partition can change them.
    """

    def get_consumer_offset(
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
        return self._thread.run(
            self._target.get_consumer_offset(
                stream, topic, partition=partition, consumer=consumer, group=group, timeout=timeout
            )
        )

    def store_consumer_offset(
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
        self._thread.run(
            self._target.store_consumer_offset(
                stream,
                topic,
                offset,
                partition=partition,
                consumer=consumer,
                group=group,
                timeout=timeout,
            )
        )

    def delete_consumer_offset(
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
        self._thread.run(
            self._target.delete_consumer_offset(
                stream, topic, partition=partition, consumer=consumer, group=group, timeout=timeout
            )
        )
