"""The state as replies show it: domain values of the protocol.

How much something holds is not metadata. Values that say it ask `Figures`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from windsprite_protocol.model import groups, streams, tokens, topics, users
from windsprite_server.metadata.queries import topics_by_id
from windsprite_server.metadata.state import ConsumerGroup, Stream, Topic, User


class Held(Protocol):
    """How much a partition, a topic or a stream holds."""

    @property
    def size_bytes(self) -> int:
        """Of the batches as they are stored."""
        ...

    @property
    def messages_count(self) -> int:
        """Of the messages that are held."""
        ...


class PartitionFigures(Held, Protocol):
    """What the log of a partition says about itself."""

    @property
    def segments_count(self) -> int:
        """The active one included."""
        ...

    @property
    def current_offset(self) -> int:
        """Of the newest message; 0 while there is none."""
        ...


class Figures(Protocol):
    """Knows how much everything holds."""

    def partition(
        self, stream_id: int, topic_id: int, partition_id: int, incarnation: int
    ) -> PartitionFigures:
        """What a partition holds; a topic may have very many, so no place is made for each."""
        ...

    def topic(self, stream_id: int, topic_id: int) -> Held:
        """What the partitions of a topic hold together."""
        ...

    def stream(self, stream_id: int) -> Held:
        """What the partitions of a stream hold together."""
        ...


@dataclass(frozen=True, slots=True)
class _Nothing:
    segments_count: int = 0
    current_offset: int = 0
    size_bytes: int = 0
    messages_count: int = 0


_NOTHING: Final = _Nothing()


class _NoFigures:
    def partition(self, _: int, __: int, ___: int, ____: int) -> PartitionFigures:
        return _NOTHING

    def topic(self, _: int, __: int) -> Held:
        return _NOTHING

    def stream(self, _: int) -> Held:
        return _NOTHING


NO_FIGURES: Final = _NoFigures()
"""The `Figures` of what is just being created (spec 03, 3.6)."""


def stream_summary(stream: Stream, figures: Figures) -> streams.Stream:
    """A stream without its topics."""
    held = figures.stream(stream.id)
    return streams.Stream(
        id=stream.id,
        created_at=stream.created_at,
        topics_count=len(stream.topics),
        size_bytes=held.size_bytes,
        messages_count=held.messages_count,
        name=stream.name,
    )


def stream_details(stream: Stream, figures: Figures) -> streams.StreamDetails:
    """A stream and its topics, by ascending id."""
    return streams.StreamDetails(
        stream_summary(stream, figures),
        tuple(topic_summary(stream, topic, figures) for topic in topics_by_id(stream)),
    )


def topic_summary(stream: Stream, topic: Topic, figures: Figures) -> topics.Topic:
    """A topic without its partitions."""
    held = figures.topic(stream.id, topic.id)
    return topics.Topic(
        id=topic.id,
        created_at=topic.created_at,
        partitions_count=len(topic.partitions),
        message_expiry=topic.message_expiry,
        compression=topic.compression,
        max_topic_size=topic.max_topic_size,
        size_bytes=held.size_bytes,
        messages_count=held.messages_count,
        name=topic.name,
        options=topic.options,
        derived_options=topic.derived_options,
    )


def topic_details(stream: Stream, topic: Topic, figures: Figures) -> topics.TopicDetails:
    """A topic and its partitions, by ascending id."""
    partitions = []
    for number, partition in enumerate(topic.partitions):
        held = figures.partition(stream.id, topic.id, number, partition.incarnation)
        partitions.append(
            topics.Partition(
                number,
                partition.created_at,
                held.segments_count,
                held.current_offset,
                held.size_bytes,
                held.messages_count,
            )
        )
    return topics.TopicDetails(topic_summary(stream, topic, figures), tuple(partitions))


def group_summary(topic: Topic, group: ConsumerGroup, members_count: int) -> groups.ConsumerGroup:
    """A consumer group without its members."""
    return groups.ConsumerGroup(
        id=group.id & 0xFFFF_FFFF,
        partitions_count=len(topic.partitions),
        members_count=members_count,
        name=group.name,
    )


def group_details(
    topic: Topic, group: ConsumerGroup, members: tuple[groups.GroupMember, ...] = ()
) -> groups.ConsumerGroupDetails:
    """A consumer group and its members, given by ascending slot number."""
    return groups.ConsumerGroupDetails(group_summary(topic, group, len(members)), members)


def user_summary(user: User) -> users.User:
    """A user without its permissions."""
    return users.User(
        id=user.id, created_at=user.created_at, status=user.status, username=user.username
    )


def user_details(user: User) -> users.UserDetails:
    """A user and its permissions."""
    return users.UserDetails(user_summary(user), user.permissions)


def token_infos(user: User) -> tuple[tokens.TokenInfo, ...]:
    """The tokens of a user, expired ones included, by name."""
    return tuple(
        tokens.TokenInfo(token.name, token.expiry) for _, token in sorted(user.tokens.items())
    )
