"""Finding what a request names, and checking that its user may use it.

What does not exist is told before what is forbidden (spec 01, 2.5).
"""

from __future__ import annotations

from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.identifiers import Identifier
from windsprite_server.groups.registry import GroupKey
from windsprite_server.handlers.answers import not_now, refused
from windsprite_server.handlers.services import Services
from windsprite_server.log.partition import PartitionLog
from windsprite_server.metadata.authorization import Rule
from windsprite_server.metadata.commands import PartitionPlace
from windsprite_server.metadata.queries import (
    find_partition,
    find_stream,
    find_topic,
    is_allowed,
)
from windsprite_server.metadata.state import ConsumerGroup, Stream, Topic
from windsprite_server.session import Connection


def user_of(connection: Connection) -> int:
    """Who is logged in on a connection.

    Raises:
        UnsuccessfulError: Nobody is any more.
    """
    if connection.session is None:
        raise refused(ErrorCode.UNAUTHENTICATED)
    return connection.session.user_id


def client_of(connection: Connection) -> bytes:
    """As which client a connection joins and polls for consumer groups.

    Raises:
        UnsuccessfulError: Nobody is logged in any more.
    """
    if connection.session is None:
        raise refused(ErrorCode.UNAUTHENTICATED)
    return connection.session.client


def writing_client_of(connection: Connection) -> bytes:
    """As which client a connection changes offsets: that of the session it is attached to, if any.

    Raises:
        UnsuccessfulError: Nobody is logged in any more.
    """
    return client_of(connection) if connection.attached is None else connection.attached.client


def require(
    services: Services,
    connection: Connection,
    rule: Rule,
    stream_id: int | None = None,
    topic_id: int | None = None,
) -> None:
    """Check a permission.

    Raises:
        UnsuccessfulError: The user does not have it.
    """
    if not is_allowed(services.state, user_of(connection), rule, stream_id, topic_id):
        raise refused(ErrorCode.UNAUTHORIZED)


def topic_at(services: Services, stream: Identifier, topic: Identifier) -> tuple[Stream, Topic]:
    """The topic a request names.

    Raises:
        UnsuccessfulError: The stream or the topic does not exist.
    """
    found_stream = find_stream(services.state, stream)
    if found_stream is None:
        raise refused(ErrorCode.STREAM_ID_NOT_FOUND)
    found_topic = find_topic(found_stream, topic)
    if found_topic is None:
        raise refused(ErrorCode.TOPIC_ID_NOT_FOUND)
    return found_stream, found_topic


def group_key(stream: Stream, topic: Topic, group: ConsumerGroup) -> GroupKey:
    """Under what the members of a group are known."""
    return GroupKey(stream.id, topic.id, group.id)


def place_at(stream: Stream, topic: Topic, partition_id: int) -> PartitionPlace:
    """Where a partition of a topic lives now.

    Raises:
        UnsuccessfulError: The partition does not exist.
    """
    partition = find_partition(topic, partition_id)
    if partition is None:
        raise refused(ErrorCode.PARTITION_NOT_FOUND)
    return PartitionPlace(stream.id, topic.id, partition_id, partition.incarnation)


def find_log(
    services: Services, stream: Stream, topic: Topic, partition_id: int
) -> PartitionLog | None:
    """The log of a partition of a topic; `None` while it could not be opened.

    Raises:
        UnsuccessfulError: The partition does not exist.
    """
    partition = find_partition(topic, partition_id)
    if partition is None:
        raise refused(ErrorCode.PARTITION_NOT_FOUND)
    return services.partitions.find_by_numbers(
        stream.id, topic.id, partition_id, partition.incarnation
    )


def log_at(services: Services, stream: Stream, topic: Topic, partition_id: int) -> PartitionLog:
    """The log of a partition of a topic.

    Raises:
        UnsuccessfulError: The partition does not exist, or it could not be opened yet.
    """
    log = find_log(services, stream, topic, partition_id)
    if log is None:
        raise not_now()
    return log
