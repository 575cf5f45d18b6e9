"""Topics, their partitions and segments (spec 03, 4.7-4.15)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from windsprite_protocol.model.identifiers import Identifier
from windsprite_protocol.model.typed_values import Options

NEVER_EXPIRES: Final = 0xFFFF_FFFF_FFFF_FFFF
UNLIMITED_SIZE: Final = 0xFFFF_FFFF_FFFF_FFFF
SERVER_DEFAULT: Final = 0


class Compression(IntEnum):
    """Noted for clients; the server compresses nothing."""

    NONE = 1
    GZIP = 2


@dataclass(frozen=True, slots=True)
class GetTopic:
    """Ask for one topic and its partitions."""

    stream: Identifier
    topic: Identifier


@dataclass(frozen=True, slots=True)
class GetTopics:
    """Ask for all topics of a stream."""

    stream: Identifier


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Create a topic with 0 to 1000 partitions."""

    stream: Identifier
    partitions_count: int
    name: str
    options: Options = ()


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Delete a topic with all it holds."""

    stream: Identifier
    topic: Identifier


@dataclass(frozen=True, slots=True)
class UpdateTopic:
    """Rename a topic and change those of its options that may change."""

    stream: Identifier
    topic: Identifier
    name: str
    options: Options = ()


@dataclass(frozen=True, slots=True)
class PurgeTopic:
    """Delete all messages and offsets of a topic."""

    stream: Identifier
    topic: Identifier


@dataclass(frozen=True, slots=True)
class CreatePartitions:
    """Add 1 to 1000 partitions to a topic."""

    stream: Identifier
    topic: Identifier
    partitions_count: int


@dataclass(frozen=True, slots=True)
class DeletePartitions:
    """Remove the 1 to 1000 partitions with the highest ids from a topic."""

    stream: Identifier
    topic: Identifier
    partitions_count: int


@dataclass(frozen=True, slots=True)
class DeleteSegments:
    """Remove the oldest sealed segments of a partition."""

    stream: Identifier
    topic: Identifier
    partition_id: int
    segments_count: int


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic; size and count are sums over its partitions.

    `options` are those the client chose, `derived_options` those the server filled in.
    """

    id: int
    created_at: int
    partitions_count: int
    message_expiry: int
    compression: Compression
    max_topic_size: int
    size_bytes: int
    messages_count: int
    name: str
    options: Options = ()
    derived_options: Options = ()


@dataclass(slots=True, unsafe_hash=True)
class Partition:
    """A partition; `current_offset` is that of the newest message, 0 while there is none.

    A thousand may be made for one reply; not frozen, though nobody changes one, since that is
    slower to make.
    """

    id: int
    created_at: int
    segments_count: int
    current_offset: int
    size_bytes: int
    messages_count: int


@dataclass(frozen=True, slots=True)
class TopicDetails:
    """A topic and its partitions, by ascending id."""

    topic: Topic
    partitions: tuple[Partition, ...]
