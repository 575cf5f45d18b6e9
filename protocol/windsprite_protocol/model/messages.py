"""Sending and polling batches of messages (spec 04, 4 to 6).

What is made for every send and poll is not frozen, as all other values are, though nobody changes
it either: to make a frozen value takes four times as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from windsprite_protocol.model.identifiers import (
    Consumer,
    Identifier,
    Partitioning,
    PollingStrategy,
)

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes that are handed on without a copy; whoever gets them never changes them."""

NO_PARTITION: Final = 0xFFFF_FFFF
"""The partition id of a poll reply that tells a group member to ask for its assignment again."""


@dataclass(slots=True, unsafe_hash=True)
class SendMessages:
    """Append a batch (spec 04, 2) to a partition of a topic."""

    stream: Identifier
    topic: Identifier
    partitioning: Partitioning
    messages_count: int
    batch: Buffer


@dataclass(slots=True, unsafe_hash=True)
class Confirmation:
    """Where a batch was appended."""

    stream_id: int
    topic_id: int
    partition_id: int
    base_offset: int


@dataclass(slots=True, unsafe_hash=True)
class Confirmations:
    """Where the batches of a send were appended; empty: appended, the offsets are not known."""

    items: tuple[Confirmation, ...]


@dataclass(slots=True, unsafe_hash=True)
class PollMessages:
    """Read up to `count` messages of a partition."""

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    partition_id: int | None
    strategy: PollingStrategy
    count: int
    auto_commit: bool


@dataclass(frozen=True, slots=True)
class PollPrimary:
    """A poll at the primary of the partition, for the attached session (spec 01, 8.4)."""

    poll: PollMessages


@dataclass(frozen=True, slots=True)
class GetPollRouting:
    """Ask where a poll that commits has to be sent (spec 01, 8.4)."""

    poll: PollMessages


@dataclass(slots=True, unsafe_hash=True)
class PolledMessages:
    """The records a poll found: whole batches, the first and the last possibly cut.

    Attributes:
        partition_id: The partition that was read, or `NO_PARTITION`.
        current_offset: The offset of the newest message of the partition; 0 while there is none.
        messages_count: How many messages the records hold together.
        records: Batches in ascending order; each buffer holds one or more whole records, or a
            header followed by its frames in the next buffer.
    """

    partition_id: int
    current_offset: int
    messages_count: int
    records: tuple[Buffer, ...]


@dataclass(frozen=True, slots=True)
class FlushUnsavedBuffer:
    """Ask for a flush to disk; every server of this generation refuses it."""

    stream: Identifier
    topic: Identifier
    partition_id: int
    fsync: bool
