"""The state as replies show it: domain values of the protocol.

How much a partition holds is not metadata. Values that say it ask a `Figures` function for the
place of each partition concerned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from windsprite_protocol.model import groups, streams, tokens, topics, users
from windsprite_server.metadata.commands import PartitionPlace
from windsprite_server.metadata.queries import places_of_topic, topics_by_id
from windsprite_server.metadata.state import ConsumerGroup, Stream, Topic, User


class PartitionFigures(Protocol):
    """What the log of a partition says about itself; sizes in bytes."""

    @property
    def segments_count(self) -> int:
        """The active one included."""
        ...

    @property
    def current_offset(self) -> int:
        """Of the newest message; 0 while there is none."""
        ...

    @property
    def size_bytes(self) -> int:
        """Of the batches as they are stored."""
        ...

    @property
    def messages_count(self) -> int:
        """Of the messages that are held."""
        ...


Figures: TypeAlias = Callable[[PartitionPlace], PartitionFigures]


@dataclass(frozen=True, slots=True)
class _Nothing:
    segments_count: int = 0
    current_offset: int = 0
    size_bytes: int = 0
    messages_count: int = 0


_NOTHING: Final = _Nothing()


def no_figures(_: PartitionPlace) -> PartitionFigures:
    """The `Figures` of partitions that are just being created."""
    return _NOTHING


def stream_summary(stream: Stream, figures: Figures) -> streams.Stream:
    """A stream without its topics."""
    return stream_details(stream, figures).stream


def stream_details(stream: Stream, figures: Figures) -> streams.StreamDetails:
    """A stream and its topics, by ascending id."""
    summaries = tuple(topic_summary(stream, topic, figures) for topic in topics_by_id(stream))
    return streams.StreamDetails(
        streams.Stream(
            id=stream.id,
            created_at=stream.created_at,
            topics_count=len(summaries),
            size_bytes=sum(summary.size_bytes for summary in summaries),
            messages_count=sum(summary.messages_count for summary in summaries),
            name=stream.name,
        ),
        summaries,
    )


def topic_summary(stream: Stream, topic: Topic, figures: Figures) -> topics.Topic:
    """A topic without its partitions."""
    size_bytes = 0
    messages_count = 0
    for place in places_of_topic(stream, topic):
        partition = figures(place)
        size_bytes += partition.size_bytes
        messages_count += partition.messages_count
    return topics.Topic(
        id=topic.id,
        created_at=topic.created_at,
        partitions_count=len(topic.partitions),
        message_expiry=topic.message_expiry,
        compression=topic.compression,
        max_topic_size=topic.max_topic_size,
        size_bytes=size_bytes,
        messages_count=messages_count,
        name=topic.name,
        options=topic.options,
        derived_options=topic.derived_options,
    )


def topic_details(stream: Stream, topic: Topic, figures: Figures) -> topics.TopicDetails:
    """A topic and its partitions, by ascending id."""
    partitions = []
    for place, partition in zip(places_of_topic(stream, topic), topic.partitions, strict=True):
        held = figures(place)
        partitions.append(
            topics.Partition(
                id=place.partition_id,
                created_at=partition.created_at,
                segments_count=held.segments_count,
                current_offset=held.current_offset,
                size_bytes=held.size_bytes,
                messages_count=held.messages_count,
            )
        )
    return topics.TopicDetails(topic_summary(stream, topic, figures), tuple(partitions))


def group_details(
    topic: Topic, group: ConsumerGroup, members: tuple[groups.GroupMember, ...] = ()
) -> groups.ConsumerGroupDetails:
    """A consumer group and its members, given by ascending slot number."""
    return groups.ConsumerGroupDetails(
        groups.ConsumerGroup(
            id=group.id & 0xFFFF_FFFF,
            partitions_count=len(topic.partitions),
            members_count=len(members),
            name=group.name,
        ),
        members,
    )


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
