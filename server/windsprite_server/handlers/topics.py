"""Topics, their partitions and segments (spec 03, 4.7-4.15)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.topics import (
    CreatePartitions,
    CreateTopic,
    DeletePartitions,
    DeleteSegments,
    DeleteTopic,
    GetTopic,
    GetTopics,
    PurgeTopic,
    Topic,
    TopicDetails,
    UpdateTopic,
)
from windsprite_protocol.model.typed_values import Options
from windsprite_protocol.topic_options import (
    DEFAULT_SEGMENT_SIZE,
    TopicOptionError,
    config_of,
    resolve_for_create,
    resolve_for_update,
)
from windsprite_server.handlers.access import log_at, require, topic_at
from windsprite_server.handlers.answers import executing, not_now, refused
from windsprite_server.handlers.metadata import commit
from windsprite_server.handlers.services import Services
from windsprite_server.log.errors import LogClosedError, LogError, LogUnavailableError
from windsprite_server.metadata import commands
from windsprite_server.metadata.authorization import Rule
from windsprite_server.metadata.queries import find_stream, find_topic, topics_by_id
from windsprite_server.metadata.state import MAX_PARTITIONS_IN_COMMAND
from windsprite_server.metadata.views import topic_details, topic_summary
from windsprite_server.session import Connection

T = TypeVar("T")


def get_topic(services: Services, connection: Connection, request: GetTopic) -> TopicDetails | None:
    """Tell about a topic and its partitions."""
    stream = find_stream(services.state, request.stream)
    topic = None if stream is None else find_topic(stream, request.topic)
    if stream is None or topic is None:
        return None
    require(services, connection, Rule.READ_TOPIC, stream.id, topic.id)
    return topic_details(stream, topic, services.partitions)


def get_topics(services: Services, connection: Connection, request: GetTopics) -> tuple[Topic, ...]:
    """Tell about all topics of a stream; of one that does not exist there are none."""
    stream = find_stream(services.state, request.stream)
    if stream is None:
        return ()
    require(services, connection, Rule.READ_TOPICS, stream.id)
    figures = services.partitions
    return tuple(topic_summary(stream, topic, figures) for topic in topics_by_id(stream))


def create_topic(
    services: Services, connection: Connection, request: CreateTopic
) -> Coroutine[Any, Any, TopicDetails]:
    """Create a topic with its partitions; its options are resolved here, once and for all."""
    resolved = _resolved(resolve_for_create, request.options, request.partitions_count)
    config = resolved.config
    return commit(
        services,
        connection,
        commands.CreateTopic(
            stream=request.stream,
            name=request.name,
            partitions_count=request.partitions_count,
            message_expiry=config.message_expiry,
            compression=config.compression_algorithm,
            max_topic_size=config.max_topic_size,
            options=resolved.explicit,
            derived_options=resolved.derived,
        ),
    )


def update_topic(
    services: Services, connection: Connection, request: UpdateTopic
) -> Coroutine[Any, Any, None]:
    """Rename a topic and change those of its options that were given."""
    changes = _resolved(resolve_for_update, request.options, _segment_size(services, request))
    return commit(
        services,
        connection,
        commands.UpdateTopic(
            stream=request.stream,
            topic=request.topic,
            name=request.name,
            options=changes.explicit,
            message_expiry=changes.message_expiry,
            compression=changes.compression_algorithm,
            max_topic_size=changes.max_topic_size,
        ),
    )


def delete_topic(
    services: Services, connection: Connection, request: DeleteTopic
) -> Coroutine[Any, Any, None]:
    """Delete a topic with all it holds."""
    return commit(services, connection, commands.DeleteTopic(request.stream, request.topic))


def purge_topic(
    services: Services, connection: Connection, request: PurgeTopic
) -> Coroutine[Any, Any, None]:
    """Delete all messages and offsets of a topic."""
    return commit(services, connection, commands.PurgeTopic(request.stream, request.topic))


def create_partitions(
    services: Services, connection: Connection, request: CreatePartitions
) -> Coroutine[Any, Any, None]:
    """Add partitions to a topic."""
    _check_count(request.partitions_count)
    command = commands.CreatePartitions(request.stream, request.topic, request.partitions_count)
    return commit(services, connection, command)


def delete_partitions(
    services: Services, connection: Connection, request: DeletePartitions
) -> Coroutine[Any, Any, None]:
    """Remove the partitions with the highest ids from a topic."""
    _check_count(request.partitions_count)
    command = commands.DeletePartitions(request.stream, request.topic, request.partitions_count)
    return commit(services, connection, command)


async def delete_segments(
    services: Services, connection: Connection, request: DeleteSegments
) -> None:
    """Remove the oldest sealed segments of a partition, some of them later if consumers need them.

    No command of the journal: what is asked for is kept with the partition it concerns.
    """
    with executing():
        stream, topic = topic_at(services, request.stream, request.topic)
        require(services, connection, Rule.MANAGE_TOPIC, stream.id, topic.id)
        log = log_at(services, stream, topic, request.partition_id)
    if not services.cluster.may_write():
        raise not_now()
    try:
        await services.segment_cleaner.delete_segments(log, request.segments_count)
    except (LogUnavailableError, LogClosedError) as error:
        raise not_now() from error
    except LogError as error:
        # Nobody knows what a failed disk has kept of the request.
        raise refused(ErrorCode.ERROR) from error


def _segment_size(services: Services, request: UpdateTopic) -> int:
    """The segment size of a topic; of one that does not exist, the default."""
    stream = find_stream(services.state, request.stream)
    topic = None if stream is None else find_topic(stream, request.topic)
    if topic is None:
        return DEFAULT_SEGMENT_SIZE
    return config_of(topic.options + topic.derived_options).segment_size


def _resolved(resolve: Callable[[Options, int], T], options: Options, number: int) -> T:
    """What options come to; refuses those that are not allowed."""
    try:
        return resolve(options, number)
    except TopicOptionError as error:
        raise refused(error.code) from error


def _check_count(partitions_count: int) -> None:
    if not 1 <= partitions_count <= MAX_PARTITIONS_IN_COMMAND:
        raise refused(ErrorCode.TOO_MANY_PARTITIONS)
