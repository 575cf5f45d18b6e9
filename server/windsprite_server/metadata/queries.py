"""Questions to the state: look-ups in constant time and lists in the order of the protocol."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from windsprite_protocol.model.identifiers import Identifier
from windsprite_server.metadata.authorization import Rule, allowed
from windsprite_server.metadata.commands import PartitionPlace
from windsprite_server.metadata.state import (
    ConsumerGroup,
    Partition,
    State,
    Stream,
    Token,
    Topic,
    User,
)


def find_stream(state: State, stream: Identifier) -> Stream | None:
    """A stream by its id or its name."""
    if isinstance(stream, str):
        stream_id = state.stream_ids.get(stream)
        return None if stream_id is None else state.streams[stream_id]
    return state.streams.get(stream)


def find_topic(stream: Stream, topic: Identifier) -> Topic | None:
    """A topic of a stream by its id or its name."""
    if isinstance(topic, str):
        topic_id = stream.topic_ids.get(topic)
        return None if topic_id is None else stream.topics[topic_id]
    return stream.topics.get(topic)


def find_partition(topic: Topic, partition_id: int) -> Partition | None:
    """A partition of a topic by its id."""
    if 0 <= partition_id < len(topic.partitions):
        return topic.partitions[partition_id]
    return None


def find_group(topic: Topic, group: Identifier) -> ConsumerGroup | None:
    """A consumer group of a topic by its id or its name."""
    if isinstance(group, str):
        group_id = topic.group_ids.get(group)
        return None if group_id is None else topic.groups[group_id]
    return topic.groups.get(group)


def find_user(state: State, user: Identifier) -> User | None:
    """A user by its id or its name."""
    if isinstance(user, str):
        user_id = state.user_ids.get(user)
        return None if user_id is None else state.users[user_id]
    return state.users.get(user)


def hash_token(token: str) -> str:
    """Under what a personal access token is stored.

    Its 50 random bytes cannot be guessed, so a fast hash without salt is enough.
    """
    return hashlib.sha256(token.encode()).hexdigest()


def find_token(state: State, token_hash: str) -> tuple[User, Token] | None:
    """A token by the hash of its secret, expired or not, and its owner."""
    owner = state.token_owners.get(token_hash)
    if owner is None:
        return None
    user_id, name = owner
    user = state.users[user_id]
    return user, user.tokens[name]


def is_allowed(
    state: State,
    user_id: int,
    rule: Rule,
    stream_id: int | None = None,
    topic_id: int | None = None,
) -> bool:
    """Whether a rule passes for a user; a user that does not exist is allowed nothing."""
    user = state.users.get(user_id)
    return user is not None and allowed(user.grants, rule, stream_id, topic_id)


def streams_by_id(state: State) -> list[Stream]:
    """All streams by ascending id."""
    return [state.streams[stream_id] for stream_id in sorted(state.streams)]


def topics_by_id(stream: Stream) -> list[Topic]:
    """The topics of a stream by ascending id."""
    return [stream.topics[topic_id] for topic_id in sorted(stream.topics)]


def users_by_id(state: State) -> list[User]:
    """All users by ascending id."""
    return [state.users[user_id] for user_id in sorted(state.users)]


def places_of_topic(stream: Stream, topic: Topic) -> Iterator[PartitionPlace]:
    """Where the partitions of a topic live now, by ascending id."""
    for partition_id, partition in enumerate(topic.partitions):
        yield PartitionPlace(stream.id, topic.id, partition_id, partition.incarnation)


def live_partitions(state: State) -> Iterator[tuple[PartitionPlace, Topic]]:
    """Where all partitions live now, and the topic of each, by ascending ids."""
    for stream in streams_by_id(state):
        for topic in topics_by_id(stream):
            for place in places_of_topic(stream, topic):
                yield place, topic
