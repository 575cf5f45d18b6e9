"""Permission blocks (spec 06, 4.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import construct as c

from windsprite_protocol.layout import FLAG, U32, Layout, Record
from windsprite_protocol.model.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)

if TYPE_CHECKING:
    from construct.core import Context, PathType, StreamType

T = TypeVar("T")

MAX_PERMISSIONS_BYTES: Final = 128 * 1024
"""Grants on more than 14,000 topics. To read a block takes time, some 20 ms for this, during which
nobody else is served, whoever sends it."""


class Chain(Layout[tuple[T, ...]]):
    """A flag in front of each element says that it is there; a flag of 0 ends the chain."""

    def __init__(self, element: c.Construct[T, T]) -> None:
        super().__init__()
        self.element = element

    def _parse(self, stream: StreamType, context: Context, path: PathType) -> tuple[T, ...]:
        elements = []
        while FLAG._parsereport(stream, context, path):
            elements.append(self.element._parsereport(stream, context, path))
        return tuple(elements)

    def _write(
        self, obj: tuple[T, ...], stream: StreamType, context: Context, path: PathType
    ) -> None:
        for element in obj:
            FLAG._build(True, stream, context, path)  # noqa: FBT003  # a byte, not an option
            self.element._build(element, stream, context, path)
        FLAG._build(False, stream, context, path)  # noqa: FBT003  # a byte, not an option


TOPIC_PERMISSIONS: Final = Record(
    TopicPermissions,
    "topic_id" / U32,
    "manage_topic" / FLAG,
    "read_topic" / FLAG,
    "poll_messages" / FLAG,
    "send_messages" / FLAG,
)

STREAM_PERMISSIONS: Final = Record(
    StreamPermissions,
    "stream_id" / U32,
    "manage_stream" / FLAG,
    "read_stream" / FLAG,
    "manage_topics" / FLAG,
    "read_topics" / FLAG,
    "poll_messages" / FLAG,
    "send_messages" / FLAG,
    "topics" / Chain(TOPIC_PERMISSIONS),
)

GLOBAL_PERMISSIONS: Final = Record(
    GlobalPermissions,
    "manage_servers" / FLAG,
    "read_servers" / FLAG,
    "manage_users" / FLAG,
    "read_users" / FLAG,
    "manage_streams" / FLAG,
    "read_streams" / FLAG,
    "manage_topics" / FLAG,
    "read_topics" / FLAG,
    "poll_messages" / FLAG,
    "send_messages" / FLAG,
)

PERMISSIONS: Final = Record(
    Permissions,
    "root" / GLOBAL_PERMISSIONS,
    "streams" / Chain(STREAM_PERMISSIONS),
)
