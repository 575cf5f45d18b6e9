"""Consumer groups: creating and deleting them, joining and leaving, assignments (spec 05, 3)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeAlias

from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.groups import (
    ConsumerGroup,
    ConsumerGroupDetails,
    CreateConsumerGroup,
    DeleteConsumerGroup,
    GetConsumerGroup,
    GetConsumerGroups,
    GroupAssignment,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    SyncConsumerGroup,
)
from windsprite_server.groups.registry import GroupKey
from windsprite_server.handlers.access import client_of, group_key, require, topic_at
from windsprite_server.handlers.answers import executing, not_now, refused
from windsprite_server.handlers.metadata import commit
from windsprite_server.handlers.services import Services
from windsprite_server.metadata import commands
from windsprite_server.metadata.authorization import Rule
from windsprite_server.metadata.queries import find_group, find_stream, find_topic
from windsprite_server.metadata.state import Stream, Topic
from windsprite_server.metadata.views import group_details, group_summary
from windsprite_server.session import Connection

_InTopic: TypeAlias = GetConsumerGroup | GetConsumerGroups | JoinConsumerGroup | LeaveConsumerGroup


def get_group(
    services: Services, connection: Connection, request: GetConsumerGroup
) -> ConsumerGroupDetails | None:
    """Tell about a group and its members."""
    stream, topic = _readable_topic(services, connection, request)
    group = find_group(topic, request.group)
    if group is None:
        return None
    members = services.groups.members(group_key(stream, topic, group))
    return group_details(topic, group, members)


def get_groups(
    services: Services, connection: Connection, request: GetConsumerGroups
) -> tuple[ConsumerGroup, ...]:
    """Tell about all groups of a topic."""
    stream, topic = _readable_topic(services, connection, request)
    return tuple(
        group_summary(topic, group, services.groups.members_count(group_key(stream, topic, group)))
        for group in topic.groups.values()
    )


def create_group(
    services: Services, connection: Connection, request: CreateConsumerGroup
) -> Coroutine[Any, Any, ConsumerGroupDetails]:
    """Create a group without members."""
    command = commands.CreateConsumerGroup(request.stream, request.topic, request.name)
    return commit(services, connection, command)


def delete_group(
    services: Services, connection: Connection, request: DeleteConsumerGroup
) -> Coroutine[Any, Any, None]:
    """Delete a group with its memberships and all that is stored for it."""
    command = commands.DeleteConsumerGroup(request.stream, request.topic, request.group)
    return commit(services, connection, command)


async def join_group(
    services: Services, connection: Connection, request: JoinConsumerGroup
) -> None:
    """Make the session of a connection a member of a group."""
    key, partitions_count = _group_to_change(services, connection, request)
    now = services.clock.monotonic()
    services.groups.join(key, client_of(connection), partitions_count, now)


async def leave_group(
    services: Services, connection: Connection, request: LeaveConsumerGroup
) -> None:
    """End the membership of the session of a connection."""
    key, _ = _group_to_change(services, connection, request)
    with executing():
        if not services.groups.leave(key, client_of(connection)):
            raise refused(ErrorCode.CONSUMER_GROUP_MEMBER_NOT_FOUND)


def sync_group(
    services: Services, connection: Connection, request: SyncConsumerGroup
) -> GroupAssignment | None:
    """Tell a member what it may poll; nothing tells others that they are no members.

    Whatever is missing, and whoever asks: this says nothing else (spec 05, 3.9).
    """
    stream = find_stream(services.state, request.stream)
    topic = None if stream is None else find_topic(stream, request.topic)
    group = None if topic is None else find_group(topic, request.group)
    if stream is None or topic is None or group is None:
        return None
    return services.groups.assignment(group_key(stream, topic, group), client_of(connection))


def _readable_topic(
    services: Services, connection: Connection, request: _InTopic
) -> tuple[Stream, Topic]:
    stream, topic = topic_at(services, request.stream, request.topic)
    require(services, connection, Rule.READ_TOPIC, stream.id, topic.id)
    return stream, topic


def _group_to_change(
    services: Services, connection: Connection, request: JoinConsumerGroup | LeaveConsumerGroup
) -> tuple[GroupKey, int]:
    """The group that a session joins or leaves, and how many partitions its topic has."""
    if not services.cluster.may_write():
        raise not_now()
    with executing():
        stream, topic = _readable_topic(services, connection, request)
        group = find_group(topic, request.group)
        if group is None:
            raise refused(ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND)
    return group_key(stream, topic, group), len(topic.partitions)
