"""Stored offsets of consumers (spec 04, 7)."""

from __future__ import annotations

from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.identifiers import ConsumerKind
from windsprite_protocol.model.offsets import (
    ConsumerOffset,
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from windsprite_server.handlers.access import log_at, require, topic_at
from windsprite_server.handlers.answers import not_now, refused
from windsprite_server.handlers.messages import offset_key
from windsprite_server.handlers.services import Services
from windsprite_server.log.errors import LogError, TooManyOffsetsError
from windsprite_server.log.partition import PartitionLog
from windsprite_server.metadata.authorization import Rule
from windsprite_server.metadata.queries import find_group, find_stream, find_topic
from windsprite_server.session import Connection


def get_consumer_offset(
    services: Services, connection: Connection, request: GetConsumerOffset
) -> ConsumerOffset | None:
    """Tell the offset stored for a consumer; nothing stored is no error."""
    stream, topic = topic_at(services, request.stream, request.topic)
    require(services, connection, Rule.POLL, stream.id, topic.id)
    partition_id = request.partition_id or 0
    if request.consumer.kind is ConsumerKind.GROUP:
        group = find_group(topic, request.consumer.id)
        if group is None:
            return None
        log = log_at(services, stream, topic, partition_id)
        stored = log.offsets.groups.get(group.id)
    else:
        log = log_at(services, stream, topic, partition_id)
        stored = log.offsets.consumers.get(offset_key(request.consumer))
    if stored is None:
        return None
    return ConsumerOffset(partition_id, log.current_offset, stored)


async def store_consumer_offset(
    services: Services, connection: Connection, request: StoreConsumerOffset
) -> None:
    """Store an offset, also a smaller one than before."""
    log = _log_of_writer(services, connection, request)
    if log.is_empty or request.offset > log.current_offset:
        raise refused(ErrorCode.INVALID_OFFSET)
    try:
        log.offsets.consumers.store(offset_key(request.consumer), request.offset)
        await log.offsets.wait_durable()
    except TooManyOffsetsError:
        raise refused(ErrorCode.TOO_MANY_CONSUMER_OFFSETS) from None
    except LogError:
        raise not_now() from None


async def delete_consumer_offset(
    services: Services, connection: Connection, request: DeleteConsumerOffset
) -> None:
    """Forget a stored offset."""
    log = _log_of_writer(services, connection, request)
    try:
        if not log.offsets.consumers.delete(offset_key(request.consumer)):
            raise refused(ErrorCode.CONSUMER_OFFSET_NOT_FOUND)
        await log.offsets.wait_durable()
    except LogError:
        raise not_now() from None


def _log_of_writer(
    services: Services,
    connection: Connection,
    request: StoreConsumerOffset | DeleteConsumerOffset,
) -> PartitionLog:
    """The log of a partition whose offsets the consumer may change (spec 04, 7.3)."""
    if request.partition_id is None:
        raise refused(ErrorCode.INVALID_IDENTIFIER)
    if request.consumer.kind is ConsumerKind.GROUP:
        raise refused(_why_not_owned(services, request))
    stream, topic = topic_at(services, request.stream, request.topic)
    log = log_at(services, stream, topic, request.partition_id)
    require(services, connection, Rule.POLL, stream.id, topic.id)
    if not services.cluster.may_write():
        raise not_now()
    return log


def _why_not_owned(
    services: Services, request: StoreConsumerOffset | DeleteConsumerOffset
) -> ErrorCode:
    """Why a group's offset is not changed: nobody is a member of a group yet."""
    stream = find_stream(services.state, request.stream)
    topic = None if stream is None else find_topic(stream, request.topic)
    if topic is None:
        return ErrorCode.RESOURCE_NOT_FOUND
    if find_group(topic, request.consumer.id) is None:
        by_name = isinstance(request.consumer.id, str)
        return (
            ErrorCode.CONSUMER_GROUP_NAME_NOT_FOUND
            if by_name
            else ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND
        )
    return ErrorCode.CONSUMER_GROUP_PARTITION_NOT_OWNED
