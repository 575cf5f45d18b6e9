"""With what a command is applied, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from windsprite_protocol.model.outcomes import Rejected, Success
from windsprite_server.metadata.commands import PartitionPlace
from windsprite_server.metadata.state import Topic


@dataclass(frozen=True, slots=True)
class Context:
    """What a command is applied with.

    Attributes:
        position: In the journal; greater than that of the command before.
        timestamp_us: When it was committed; greater than that of the command before.
        user_id: The acting user; `None`: the server itself, which may do everything.
    """

    position: int
    timestamp_us: int
    user_id: int | None


@dataclass(frozen=True, slots=True)
class PartitionOpened:
    """A partition began a life: it needs an empty log."""

    place: PartitionPlace
    topic: Topic


@dataclass(frozen=True, slots=True)
class PartitionCondemned:
    """The life of a partition is over: its files may go."""

    place: PartitionPlace


@dataclass(frozen=True, slots=True)
class PartitionsChanged:
    """A topic has more or fewer partitions than before; the new ones are opened by now."""

    stream_id: int
    topic_id: int
    partitions_count: int


@dataclass(frozen=True, slots=True)
class TopicPurged:
    """All partitions of a topic begin a new life, and nothing is stored for its groups."""

    stream_id: int
    topic_id: int


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """A topic is gone, with its groups: both ids may come again."""

    stream_id: int
    topic_id: int


@dataclass(frozen=True, slots=True)
class ConsumerGroupDeleted:
    """A group is gone while its topic stays: what is stored for it may go."""

    stream_id: int
    topic_id: int
    group_id: int


@dataclass(frozen=True, slots=True)
class UserDeleted:
    """A user is gone: its sessions must not live on, since the id may come again."""

    user_id: int


_NOTHING_TO_SAY: Final = Success()

Effect: TypeAlias = (
    PartitionOpened
    | PartitionCondemned
    | PartitionsChanged
    | TopicPurged
    | TopicDeleted
    | ConsumerGroupDeleted
    | UserDeleted
)


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of a command: its outcome, and what it means for the rest of the server."""

    outcome: Success | Rejected = _NOTHING_TO_SAY
    effects: tuple[Effect, ...] = ()
