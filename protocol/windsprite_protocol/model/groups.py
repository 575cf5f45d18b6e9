"""Consumer groups (spec 05)."""

from __future__ import annotations

from dataclasses import dataclass

from windsprite_protocol.model.identifiers import Identifier


@dataclass(frozen=True, slots=True)
class GetConsumerGroup:
    """Ask for one group and its members."""

    stream: Identifier
    topic: Identifier
    group: Identifier


@dataclass(frozen=True, slots=True)
class GetConsumerGroups:
    """Ask for all groups of a topic."""

    stream: Identifier
    topic: Identifier


@dataclass(frozen=True, slots=True)
class CreateConsumerGroup:
    """Create a group; nobody joins it by that."""

    stream: Identifier
    topic: Identifier
    name: str


@dataclass(frozen=True, slots=True)
class DeleteConsumerGroup:
    """Delete a group, its memberships and its stored offsets."""

    stream: Identifier
    topic: Identifier
    group: Identifier


@dataclass(frozen=True, slots=True)
class JoinConsumerGroup:
    """Make this session a member of a group."""

    stream: Identifier
    topic: Identifier
    group: Identifier


@dataclass(frozen=True, slots=True)
class LeaveConsumerGroup:
    """End this session's membership of a group."""

    stream: Identifier
    topic: Identifier
    group: Identifier


@dataclass(frozen=True, slots=True)
class SyncConsumerGroup:
    """Ask which partitions this session may poll as a member of a group."""

    stream: Identifier
    topic: Identifier
    group: Identifier


@dataclass(frozen=True, slots=True)
class ConsumerGroup:
    """A group; `partitions_count` is that of its topic."""

    id: int
    partitions_count: int
    members_count: int
    name: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member (by its slot number) and the partitions it owns."""

    id: int
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConsumerGroupDetails:
    """A group and its members, by ascending slot number."""

    group: ConsumerGroup
    members: tuple[GroupMember, ...]


@dataclass(frozen=True, slots=True)
class GroupAssignment:
    """The partitions a member may poll, as of a generation of the group."""

    generation: int
    partitions: tuple[int, ...]
