"""Sending and polling messages (spec 04, 4 and 5).

These are the hot handlers: they work on whole batches and return at once unless they have to wait
for the disk.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import Any, Final

from windsprite_protocol.batches import verify_batch
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.hashing import consumer_number, partition_index
from windsprite_protocol.model.identifiers import (
    Balanced,
    ByKey,
    Consumer,
    ConsumerKind,
    Partitioning,
    PollingKind,
    PollingStrategy,
)
from windsprite_protocol.model.messages import (
    NO_PARTITION,
    Confirmation,
    Confirmations,
    PolledMessages,
    PollMessages,
    SendMessages,
)
from windsprite_server.handlers.access import log_at, require, topic_at
from windsprite_server.handlers.answers import not_now, refused
from windsprite_server.handlers.services import Services
from windsprite_server.log.errors import LogError, LogFailedError, TooManyOffsetsError
from windsprite_server.log.partition import PartitionLog
from windsprite_server.log.results import ReadResult
from windsprite_server.metadata.authorization import Rule
from windsprite_server.metadata.commands import PartitionPlace
from windsprite_server.metadata.queries import find_partition, find_stream, find_topic
from windsprite_server.metadata.state import Stream, Topic
from windsprite_server.session import Connection

_POLL_HEAD_BYTES: Final = 16
_ASK_AGAIN: Final = PolledMessages(NO_PARTITION, 0, 0, ())


def send_messages(
    services: Services, connection: Connection, request: SendMessages
) -> Confirmations | Coroutine[Any, Any, Confirmations]:
    """Append a batch; answered once it is as durable as the topic wants it."""
    stream = find_stream(services.state, request.stream)
    topic = None if stream is None else find_topic(stream, request.topic)
    if stream is None or topic is None:
        raise refused(ErrorCode.RESOURCE_NOT_FOUND)
    partition_id = _choose(services, stream, topic, request.partitioning)
    partition = find_partition(topic, partition_id)
    if partition is None:
        raise refused(ErrorCode.RESOURCE_NOT_FOUND)
    require(services, connection, Rule.SEND, stream.id, topic.id)
    if not services.cluster.may_write():
        raise not_now()
    batch = memoryview(request.batch)
    info = verify_batch(batch, request.messages_count)
    log = services.partitions.find(
        PartitionPlace(stream.id, topic.id, partition_id, partition.incarnation)
    )
    if log is None:
        raise not_now()
    try:
        base_offset = log.append(batch, info, services.clock.now_us())
    except LogError as error:
        raise _not_appended(error) from error
    confirmation = Confirmation(stream.id, topic.id, partition_id, base_offset)
    confirmations = Confirmations((confirmation,))
    end = base_offset + request.messages_count
    if log.visible_end < end:
        return _when_visible(log, end, confirmations)
    return confirmations


async def _when_visible(log: PartitionLog, end: int, confirmations: Confirmations) -> Confirmations:
    try:
        await log.wait_visible(end)
    except LogError as error:
        # Whether the batch is on the disk is not known, so nobody may be told to send it again.
        raise refused(ErrorCode.CANNOT_APPEND_MESSAGE) from error
    return confirmations


def _not_appended(error: LogError) -> Exception:
    """What a client is told when nothing was appended: try again, unless that can't help."""
    if isinstance(error, LogFailedError):
        return refused(ErrorCode.CANNOT_APPEND_MESSAGE)
    return not_now()


def _choose(services: Services, stream: Stream, topic: Topic, partitioning: Partitioning) -> int:
    """The partition a batch goes to (spec 04, 4.3)."""
    count = len(topic.partitions)
    if count == 0:
        raise refused(ErrorCode.RESOURCE_NOT_FOUND)
    match partitioning:
        case Balanced():
            turn = services.turns.get((stream.id, topic.id), 0) % count
            services.turns[stream.id, topic.id] = turn + 1
            return turn
        case ByKey(key):
            return partition_index(key, count)
        case _:
            return partitioning.partition_id


def poll_messages(
    services: Services, connection: Connection, request: PollMessages
) -> PolledMessages | Coroutine[Any, Any, PolledMessages]:
    """Read messages of a partition, and store how far they go if the consumer wants it."""
    if request.consumer.kind is ConsumerKind.GROUP:
        if request.partition_id is None:
            raise refused(ErrorCode.INVALID_IDENTIFIER)
        return _ASK_AGAIN  # nobody is a member of a group yet
    stream, topic = topic_at(services, request.stream, request.topic)
    require(services, connection, Rule.POLL, stream.id, topic.id)
    partition_id = request.partition_id or 0
    log = log_at(services, stream, topic, partition_id)
    start = _start(log, request.strategy, request.count, request.consumer)
    if isinstance(start, int):
        found = _read(services, log, start, request.count)
        if isinstance(found, ReadResult):
            return _polled(log, partition_id, request, found)
        return _poll_later(log, partition_id, request, found)
    return _poll_from(services, log, partition_id, request, start)


async def _poll_later(
    log: PartitionLog, partition_id: int, request: PollMessages, reading: Awaitable[ReadResult]
) -> PolledMessages:
    return _polled(log, partition_id, request, await reading)


async def _poll_from(
    services: Services,
    log: PartitionLog,
    partition_id: int,
    request: PollMessages,
    searching: Awaitable[int],
) -> PolledMessages:
    found = _read(services, log, await searching, request.count)
    if not isinstance(found, ReadResult):
        found = await found
    return _polled(log, partition_id, request, found)


def _start(
    log: PartitionLog, strategy: PollingStrategy, count: int, consumer: Consumer
) -> int | Awaitable[int]:
    """The offset a poll begins at (spec 04, 5.3)."""
    match strategy.kind:
        case PollingKind.OFFSET:
            return strategy.value
        case PollingKind.TIMESTAMP:
            return log.offset_at_or_after(strategy.value)
        case PollingKind.FIRST:
            return 0
        case PollingKind.LAST:
            return max(0, log.visible_end - count)
        case PollingKind.NEXT:
            stored = log.offsets.consumers.get(offset_key(consumer))
            return 0 if stored is None else stored + 1


def _read(
    services: Services, log: PartitionLog, start: int, count: int
) -> ReadResult | Awaitable[ReadResult]:
    return log.read(start, count, services.max_reply_body - _POLL_HEAD_BYTES)


def _polled(
    log: PartitionLog, partition_id: int, request: PollMessages, found: ReadResult
) -> PolledMessages:
    if request.auto_commit and found.messages_count:
        try:
            log.offsets.consumers.store_max(offset_key(request.consumer), found.last_offset)
        except TooManyOffsetsError:
            raise refused(ErrorCode.TOO_MANY_CONSUMER_OFFSETS) from None
        except LogError:
            raise not_now() from None
    return PolledMessages(partition_id, log.current_offset, found.messages_count, found.records)


def offset_key(consumer: Consumer) -> int:
    """The number under which the offsets of a single consumer are kept (spec 04, 5.2)."""
    return consumer_number(consumer.id) if isinstance(consumer.id, str) else consumer.id
