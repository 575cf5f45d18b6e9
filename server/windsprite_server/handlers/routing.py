"""Going straight to the node that leads a partition, for the session of another connection.

Spec 01, 8.4. The node that a client is logged in to tells where polls that commit and writes of
offsets have to go, and gives an attachment to its own session. On a connection to that other node
the client shows the attachment, and acts as that session from then on. A client may do so as well
where both nodes are the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.cluster import Attachment, AttachSession, Route
from windsprite_protocol.model.identifiers import ConsumerKind
from windsprite_protocol.model.messages import (
    GetPollRouting,
    PolledMessages,
    PollMessages,
    PollPrimary,
)
from windsprite_protocol.model.offsets import GetConsumerOffsetRouting
from windsprite_server.groups.registry import GroupKey
from windsprite_server.handlers.access import group_key, place_at, require, topic_at
from windsprite_server.handlers.answers import not_now, refused
from windsprite_server.handlers.messages import poll_as
from windsprite_server.handlers.services import Services
from windsprite_server.metadata.authorization import Rule
from windsprite_server.metadata.queries import find_group
from windsprite_server.session import Connection

_MayUse: TypeAlias = Callable[[GroupKey, bytes, int], bool]
"""Whether a client may use a partition for a group."""


def get_poll_routing(services: Services, connection: Connection, request: GetPollRouting) -> Route:
    """Tell where a poll that commits has to go."""
    return _route(services, connection, request.poll, services.groups.may_poll)


def get_offset_routing(
    services: Services, connection: Connection, request: GetConsumerOffsetRouting
) -> Route:
    """Tell where offsets of a consumer have to be written."""
    return _route(services, connection, request, services.groups.owns)


def attach_session(services: Services, connection: Connection, request: AttachSession) -> None:
    """Let a connection act for the session of another one of the same user."""
    attachment = request.attachment
    own = connection.session
    if own is None:
        raise refused(ErrorCode.UNAUTHENTICATED)
    session = services.sessions.find(attachment.client.to_bytes(16, "little"))
    if session is None or session.number != attachment.session or session.user_id != own.user_id:
        raise refused(ErrorCode.STALE_CLIENT)
    if attachment.watermark > services.committer.position:
        raise not_now()
    connection.attached = session


def poll_primary(
    services: Services, connection: Connection, request: PollPrimary
) -> PolledMessages | Coroutine[Any, Any, PolledMessages]:
    """Poll for the session that the connection is attached to."""
    session = connection.attached
    if session is None or services.sessions.find(session.client) is not session:
        raise refused(ErrorCode.UNAUTHENTICATED)
    if not services.cluster.may_write():
        raise not_now()
    return poll_as(services, connection, request.poll, session.client)


def _route(
    services: Services,
    connection: Connection,
    request: PollMessages | GetConsumerOffsetRouting,
    may_use: _MayUse,
) -> Route:
    session, partition_id = connection.session, request.partition_id
    if session is None:
        raise refused(ErrorCode.UNAUTHENTICATED)
    is_group = request.consumer.kind is ConsumerKind.GROUP
    if is_group and partition_id is None:
        raise refused(ErrorCode.INVALID_IDENTIFIER)
    stream, topic = topic_at(services, request.stream, request.topic)
    require(services, connection, Rule.POLL, stream.id, topic.id)
    place = place_at(stream, topic, partition_id or 0)
    if is_group:
        group = find_group(topic, request.consumer.id)
        if group is None or not may_use(
            group_key(stream, topic, group), session.client, place.partition_id
        ):
            raise refused(ErrorCode.CONSUMER_GROUP_PARTITION_NOT_OWNED)
    node = services.cluster.describe(connection.reached_host, connection.reached_port).leader
    if node is None:
        raise not_now()
    client = int.from_bytes(session.client, "little")
    return Route(Attachment(client, session.number, services.committer.position), node)
