"""Permissions: grants on the server, on streams and on topics.

Grants only add up: nothing denies (spec 06, 4.2). A stream id or topic id that does not exist may
be granted something.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GlobalPermissions:
    """Grants on everything, in the order of the wire."""

    manage_servers: bool = False
    read_servers: bool = False
    manage_users: bool = False
    read_users: bool = False
    manage_streams: bool = False
    read_streams: bool = False
    manage_topics: bool = False
    read_topics: bool = False
    poll_messages: bool = False
    send_messages: bool = False


@dataclass(frozen=True, slots=True)
class TopicPermissions:
    """Grants on one topic, in the order of the wire."""

    topic_id: int
    manage_topic: bool = False
    read_topic: bool = False
    poll_messages: bool = False
    send_messages: bool = False


@dataclass(frozen=True, slots=True)
class StreamPermissions:
    """Grants on one stream, in the order of the wire, and on its topics."""

    stream_id: int
    manage_stream: bool = False
    read_stream: bool = False
    manage_topics: bool = False
    read_topics: bool = False
    poll_messages: bool = False
    send_messages: bool = False
    topics: tuple[TopicPermissions, ...] = ()


@dataclass(frozen=True, slots=True)
class Permissions:
    """All grants of a user; for a repeated id the last entry counts."""

    root: GlobalPermissions = GlobalPermissions()
    streams: tuple[StreamPermissions, ...] = ()
