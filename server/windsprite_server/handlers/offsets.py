"""Stored offsets of consumers and consumer groups (spec 04, 7; spec 05, 10)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, NamedTuple, NoReturn

from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.identifiers import AckLevel, ConsumerKind
from windsprite_protocol.model.offsets import (
    ConsumerOffset,
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from windsprite_server.groups.registry import GroupKey
from windsprite_server.handlers.access import (
    group_key,
    log_at,
    place_at,
    require,
    topic_at,
    writing_client_of,
)
from windsprite_server.handlers.answers import not_now, refused
from windsprite_server.handlers.messages import offset_key
from windsprite_server.handlers.services import Services
from windsprite_server.handlers.writes import Write, numbered_write
from windsprite_server.log.errors import LogError, LogFailedError, TooManyOffsetsError
from windsprite_server.log.offsets import OffsetFile, OffsetTable
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
    log = services.partitions.find(place_at(stream, topic, partition_id))
    if log is None:  # it could not be opened yet, so nothing is in it
        return None
    if request.consumer.kind is ConsumerKind.GROUP:
        group = find_group(topic, request.consumer.id)
        stored = None if group is None else log.offsets.groups.get(group.id)
    else:
        stored = log.offsets.consumers.get(offset_key(request.consumer))
    if stored is None:
        return None
    return ConsumerOffset(partition_id, log.current_offset, stored)


def store_consumer_offset(
    services: Services, connection: Connection, request: StoreConsumerOffset
) -> Coroutine[Any, Any, None] | None:
    """Store an offset, also a smaller one than before."""
    entry = _entry_to_change(services, connection, request)
    if entry.write is not None and services.duplicates.has(*entry.write):
        return _answered(entry)
    if entry.log.is_empty or request.offset > entry.log.current_offset:
        raise refused(ErrorCode.INVALID_OFFSET)
    try:
        entry.table.store(entry.number, request.offset)
    except LogError as error:
        _raise_not_written(error)
    return _changed(services, entry, request.offset)


def delete_consumer_offset(
    services: Services, connection: Connection, request: DeleteConsumerOffset
) -> Coroutine[Any, Any, None] | None:
    """Forget a stored offset."""
    entry = _entry_to_change(services, connection, request)
    if entry.write is not None and services.duplicates.has(*entry.write):
        return _answered(entry)
    try:
        is_deleted = entry.table.delete(entry.number)
    except LogError as error:
        _raise_not_written(error)
    if not is_deleted:
        raise refused(ErrorCode.CONSUMER_OFFSET_NOT_FOUND)
    return _changed(services, entry, None)


class _Entry(NamedTuple):
    """Where the offset of a consumer on a partition is kept.

    Attributes:
        log: Of the partition.
        table: Of single consumers or of groups.
        number: The consumer's or the group's.
        member: The group, and the client that may change its offset; `None` for single consumers.
        write: To recognise the request by if it comes again; `None`: it is carried out again.
    """

    log: PartitionLog
    table: OffsetTable
    number: int
    member: tuple[GroupKey, bytes] | None
    write: Write | None


def _entry_to_change(
    services: Services,
    connection: Connection,
    request: StoreConsumerOffset | DeleteConsumerOffset,
) -> _Entry:
    """The entry that a request may change, checked in the order of spec 04, 7.3."""
    if request.partition_id is None:
        raise refused(ErrorCode.INVALID_IDENTIFIER)
    if request.consumer.kind is ConsumerKind.GROUP:
        return _entry_of_group(services, connection, request, request.partition_id)
    stream, topic = topic_at(services, request.stream, request.topic)
    place_at(stream, topic, request.partition_id)
    require(services, connection, Rule.POLL, stream.id, topic.id)
    log = log_at(services, stream, topic, request.partition_id)
    _check_may_write(services)
    write = _write(connection, log, request)
    return _Entry(log, log.offsets.consumers, offset_key(request.consumer), None, write)


def _entry_of_group(
    services: Services,
    connection: Connection,
    request: StoreConsumerOffset | DeleteConsumerOffset,
    partition_id: int,
) -> _Entry:
    stream = find_stream(services.state, request.stream)
    topic = None if stream is None else find_topic(stream, request.topic)
    if stream is None or topic is None:
        raise refused(ErrorCode.RESOURCE_NOT_FOUND)
    group = find_group(topic, request.consumer.id)
    if group is None:
        by_name = isinstance(request.consumer.id, str)
        raise refused(
            ErrorCode.CONSUMER_GROUP_NAME_NOT_FOUND
            if by_name
            else ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND
        )
    key, client = group_key(stream, topic, group), writing_client_of(connection)
    if not services.groups.owns(key, client, partition_id):
        raise refused(ErrorCode.CONSUMER_GROUP_PARTITION_NOT_OWNED)
    require(services, connection, Rule.POLL, stream.id, topic.id)
    log = log_at(services, stream, topic, partition_id)
    _check_may_write(services)
    write = _write(connection, log, request)
    return _Entry(log, log.offsets.groups, group.id, (key, client), write)


def _write(
    connection: Connection, log: PartitionLog, request: StoreConsumerOffset | DeleteConsumerOffset
) -> Write | None:
    # What is not to be acknowledged by anybody is not remembered either (spec 01, 6.6).
    return None if request.ack is AckLevel.NONE else numbered_write(connection, log)


def _check_may_write(services: Services) -> None:
    if not services.cluster.may_write():
        raise not_now()


def _changed(
    services: Services, entry: _Entry, offset: int | None
) -> Coroutine[Any, Any, None] | None:
    """Let the group go on from what is stored now; answered once that is durable."""
    if entry.write is not None:
        services.duplicates.add(*entry.write)
    if entry.member is not None:
        partition_id = entry.log.key.partition_id
        services.groups.committed(*entry.member, partition_id, offset, services.clock.monotonic())
    return _answered(entry)


def _answered(entry: _Entry) -> Coroutine[Any, Any, None] | None:
    offsets = entry.log.offsets
    return None if offsets.is_durable else _when_durable(offsets)


async def _when_durable(offsets: OffsetFile) -> None:
    try:
        await offsets.wait_durable()
    except LogError as error:
        # It is stored, and nobody knows whether that outlives a restart: no reason to repeat it.
        raise refused(ErrorCode.ERROR) from error


def _raise_not_written(error: LogError) -> NoReturn:
    """Tell a client that nothing was changed: to try again, unless that can't help."""
    if isinstance(error, TooManyOffsetsError):
        raise refused(ErrorCode.TOO_MANY_CONSUMER_OFFSETS) from None
    if isinstance(error, LogFailedError):
        raise refused(ErrorCode.ERROR) from error
    raise not_now() from error
