"""Who may do what: the permission rules of spec 01, 2.5 as a table.

A user's permissions are compiled once, when they change, into sets of rules that hold everywhere,
on a stream or on a topic. Asking is then a few lookups, cheap enough for every send and poll.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from windsprite_protocol.model.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)


class Rule(IntEnum):
    """What a command needs; a passed rule is one bit of a set of rules."""

    SERVERS = 1 << 0
    READ_USERS = 1 << 1
    MANAGE_USERS = 1 << 2
    READ_STREAMS = 1 << 3
    READ_STREAM = 1 << 4
    CREATE_STREAM = 1 << 5
    MANAGE_STREAM = 1 << 6
    READ_TOPICS = 1 << 7
    READ_TOPIC = 1 << 8
    CREATE_TOPIC = 1 << 9
    MANAGE_TOPIC = 1 << 10
    POLL = 1 << 11
    SEND = 1 << 12


def _rules(*rules: Rule) -> int:
    union = 0
    for rule in rules:
        union |= rule
    return union


# Each level lists its own grants in full, read from the rule table by columns: what may someone do
# who holds this grant and no other?
_READS_TOPICS: Final = _rules(Rule.READ_TOPICS, Rule.READ_TOPIC, Rule.POLL)
_MANAGES_TOPICS: Final = _READS_TOPICS | _rules(Rule.CREATE_TOPIC, Rule.MANAGE_TOPIC, Rule.SEND)
_READS_STREAM: Final = _READS_TOPICS | Rule.READ_STREAM
_MANAGES_STREAM: Final = _MANAGES_TOPICS | _rules(Rule.READ_STREAM, Rule.MANAGE_STREAM)

GLOBAL_GRANTS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "manage_servers": Rule.SERVERS,
        "read_servers": Rule.SERVERS,
        "manage_users": _rules(Rule.READ_USERS, Rule.MANAGE_USERS),
        "read_users": Rule.READ_USERS,
        "manage_streams": _MANAGES_STREAM | _rules(Rule.READ_STREAMS, Rule.CREATE_STREAM),
        "read_streams": _READS_STREAM | Rule.READ_STREAMS,
        "manage_topics": _MANAGES_TOPICS,
        "read_topics": _READS_TOPICS,
        "poll_messages": Rule.POLL,
        "send_messages": Rule.SEND,
    }
)
"""The rules that each global grant passes."""

STREAM_GRANTS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "manage_stream": _MANAGES_STREAM,
        "read_stream": _READS_STREAM,
        "manage_topics": _MANAGES_TOPICS,
        "read_topics": _READS_TOPICS,
        "poll_messages": Rule.POLL,
        "send_messages": Rule.SEND,
    }
)
"""The rules that each grant on a stream passes on that stream."""

TOPIC_GRANTS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "manage_topic": _rules(Rule.READ_TOPIC, Rule.MANAGE_TOPIC, Rule.POLL, Rule.SEND),
        "read_topic": _rules(Rule.READ_TOPIC, Rule.POLL),
        "poll_messages": Rule.POLL,
        "send_messages": Rule.SEND,
    }
)
"""The rules that each grant on a topic passes on that topic."""


@dataclass(frozen=True, slots=True)
class Grants:
    """Permissions in the form that is asked: sets of rules by where they hold.

    Attributes:
        everywhere: The rules that hold on the whole server.
        streams: The rules that hold on a stream, by its id.
        topics: The rules that hold on a topic, by the ids of its stream and itself.
    """

    everywhere: int = 0
    streams: Mapping[int, int] = field(default_factory=dict)
    topics: Mapping[tuple[int, int], int] = field(default_factory=dict)


NOTHING_GRANTED: Final = Grants()
ALL_GLOBAL: Final = GlobalPermissions(**{flag.name: True for flag in fields(GlobalPermissions)})
"""What the root user holds: it passes every rule, so no check needs to know about root."""


def compile_grants(permissions: Permissions | None) -> Grants:
    """The grants that a user's permissions come to."""
    if permissions is None:
        return NOTHING_GRANTED
    return Grants(
        everywhere=_granted(permissions.root, GLOBAL_GRANTS),
        streams={
            stream.stream_id: _granted(stream, STREAM_GRANTS) for stream in permissions.streams
        },
        topics={
            (stream.stream_id, topic.topic_id): _granted(topic, TOPIC_GRANTS)
            for stream in permissions.streams
            for topic in stream.topics
        },
    )


def allowed(
    grants: Grants, rule: Rule, stream_id: int | None = None, topic_id: int | None = None
) -> bool:
    """Whether a rule passes, on that stream or topic where the rule concerns one."""
    if grants.everywhere & rule:
        return True
    if stream_id is None:
        return False
    if grants.streams.get(stream_id, 0) & rule:
        return True
    return topic_id is not None and bool(grants.topics.get((stream_id, topic_id), 0) & rule)


def normalized(permissions: Permissions | None) -> Permissions | None:
    """Permissions as they are stored: by ascending id, of a repeated id the last entry."""
    if permissions is None:
        return None
    streams = {stream.stream_id: stream for stream in permissions.streams}
    return Permissions(
        permissions.root,
        tuple(_normalized_stream(streams[stream_id]) for stream_id in sorted(streams)),
    )


def without_stream(permissions: Permissions, stream_id: int) -> Permissions:
    """Permissions after a stream is gone: its id may come again, its grants must not."""
    return replace(
        permissions,
        streams=tuple(entry for entry in permissions.streams if entry.stream_id != stream_id),
    )


def without_topic(permissions: Permissions, stream_id: int, topic_id: int) -> Permissions:
    """Permissions after a topic is gone."""
    return replace(
        permissions,
        streams=tuple(
            replace(
                entry, topics=tuple(topic for topic in entry.topics if topic.topic_id != topic_id)
            )
            if entry.stream_id == stream_id
            else entry
            for entry in permissions.streams
        ),
    )


def _normalized_stream(stream: StreamPermissions) -> StreamPermissions:
    topics = {topic.topic_id: topic for topic in stream.topics}
    return replace(stream, topics=tuple(topics[topic_id] for topic_id in sorted(topics)))


def _granted(
    permissions: GlobalPermissions | StreamPermissions | TopicPermissions,
    table: Mapping[str, int],
) -> int:
    union = 0
    for grant, rules in table.items():
        if getattr(permissions, grant):
            union |= rules
    return union
