"""Stored offsets of consumers (spec 04, 7)."""

from __future__ import annotations

from dataclasses import dataclass

from windsprite_protocol.model.identifiers import AckLevel, Consumer, Identifier


@dataclass(frozen=True, slots=True)
class GetConsumerOffset:
    """Ask for the offset stored for a consumer on a partition."""

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    partition_id: int | None


@dataclass(frozen=True, slots=True)
class StoreConsumerOffset:
    """Store the offset of the last message a consumer is done with."""

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    partition_id: int | None
    offset: int
    ack: AckLevel = AckLevel.QUORUM


@dataclass(frozen=True, slots=True)
class DeleteConsumerOffset:
    """Forget the offset stored for a consumer."""

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    partition_id: int | None
    ack: AckLevel = AckLevel.QUORUM


@dataclass(frozen=True, slots=True)
class GetConsumerOffsetRouting:
    """Ask where offsets of a consumer have to be written (spec 01, 8.4)."""

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    partition_id: int | None


@dataclass(frozen=True, slots=True)
class ConsumerOffset:
    """The newest offset of a partition and the one stored for a consumer."""

    partition_id: int
    current_offset: int
    stored_offset: int
