"""Sending and polling messages (spec 04, 4 and 5).

These are the hot handlers: they work on whole batches and return at once unless they have to wait
for the disk.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, Final, NamedTuple

from windsprite_protocol.batches import BatchInfo, begin_to_verify
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.hashing import consumer_number, partition_index
from windsprite_protocol.model.identifiers import (
    ByKey,
    Consumer,
    ConsumerKind,
    Partitioning,
    PollingKind,
    ToPartition,
)
from windsprite_protocol.model.messages import (
    NO_PARTITION,
    Confirmation,
    Confirmations,
    PolledMessages,
    PollMessages,
    SendMessages,
)
from windsprite_server.groups.registry import GroupKey
from windsprite_server.handlers.access import client_of, find_log, group_key, require, topic_at
from windsprite_server.handlers.answers import not_now, refused
from windsprite_server.handlers.services import Services
from windsprite_server.handlers.writes import Write, numbered_write
from windsprite_server.log.errors import LogError, LogFailedError, TooManyOffsetsError
from windsprite_server.log.partition import NOTHING, PartitionLog
from windsprite_server.log.results import ReadResult
from windsprite_server.metadata.authorization import Rule
from windsprite_server.metadata.queries import (
    find_group,
    find_partition,
    find_stream,
    find_topic,
)
from windsprite_server.metadata.state import Stream, Topic
from windsprite_server.session import Connection

# Members of an enumeration are slow to look up.
_SEND: Final = Rule.SEND
_POLL: Final = Rule.POLL
_GROUP: Final = ConsumerKind.GROUP
_OFFSET: Final = PollingKind.OFFSET
_NEXT: Final = PollingKind.NEXT
_FIRST: Final = PollingKind.FIRST
_LAST: Final = PollingKind.LAST

_POLL_HEAD_BYTES: Final = 16
_WRITTEN_BEFORE: Final = Confirmations(())
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
    require(services, connection, _SEND, stream.id, topic.id)
    if not services.cluster.may_write():
        raise not_now()
    log = services.partitions.find_by_numbers(
        stream.id, topic.id, partition_id, partition.incarnation
    )
    if log is None:
        raise not_now()
    write = numbered_write(connection, log)
    if write is not None and services.duplicates.has(*write):
        return _answered(log, log.next_offset, _WRITTEN_BEFORE)
    batch = memoryview(request.batch)
    verified = begin_to_verify(batch, request.messages_count)
    if isinstance(verified, BatchInfo):
        return _append(services, log, write, batch, verified)
    return _verify_and_append(services, log, write, batch, verified)


async def _verify_and_append(
    services: Services,
    log: PartitionLog,
    write: Write | None,
    batch: memoryview,
    verifying: Generator[None, None, BatchInfo],
) -> Confirmations:
    """Append a batch of very many messages; others get their turn while it is verified."""
    while True:
        try:
            next(verifying)
        except StopIteration as end:
            info: BatchInfo = end.value
            break
        await services.clock.sleep(0)
    if not (services.cluster.may_write() and services.partitions.holds(log)):
        raise not_now()
    if write is not None and services.duplicates.has(*write):
        answer = _answered(log, log.next_offset, _WRITTEN_BEFORE)
    else:
        answer = _append(services, log, write, batch, info)
    return answer if isinstance(answer, Confirmations) else await answer


def _append(
    services: Services,
    log: PartitionLog,
    write: Write | None,
    batch: memoryview,
    info: BatchInfo,
) -> Confirmations | Coroutine[Any, Any, Confirmations]:
    try:
        base_offset = log.append(batch, info, services.clock.now_us())
    except LogError as error:
        raise _not_appended(error) from error
    if write is not None:
        services.duplicates.add(*write)
    key = log.key
    confirmation = Confirmation(key.stream_id, key.topic_id, key.partition_id, base_offset)
    end = base_offset + info.header.message_count
    return _answered(log, end, Confirmations((confirmation,)))


def _answered(
    log: PartitionLog, end: int, confirmations: Confirmations
) -> Confirmations | Coroutine[Any, Any, Confirmations]:
    """The answer to a send, once all offsets below `end` are as durable as the topic wants them."""
    return confirmations if log.visible_end >= end else _when_visible(log, end, confirmations)


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
    if isinstance(partitioning, ToPartition):
        return partitioning.partition_id
    if isinstance(partitioning, ByKey):
        return partition_index(partitioning.key, count)
    turn = services.turns.get((stream.id, topic.id), 0) % count
    services.turns[stream.id, topic.id] = turn + 1
    return turn


def poll_messages(
    services: Services, connection: Connection, request: PollMessages
) -> PolledMessages | Coroutine[Any, Any, PolledMessages]:
    """Read messages of a partition, and store how far they go if the consumer wants it."""
    return poll_as(services, connection, request, client_of(connection))


def poll_as(
    services: Services, connection: Connection, request: PollMessages, client: bytes
) -> PolledMessages | Coroutine[Any, Any, PolledMessages]:
    """Poll for a connection that may act for the session of another one (spec 01, 8.4).

    Args:
        services: Everything below.
        connection: Whose user polls.
        request: What to poll.
        client: As whom to poll for a consumer group.
    """
    if request.consumer.kind is _GROUP:
        return _poll_as_member(services, connection, request, client)
    stream, topic = topic_at(services, request.stream, request.topic)
    require(services, connection, _POLL, stream.id, topic.id)
    partition_id = request.partition_id or 0
    log = find_log(services, stream, topic, partition_id)
    if log is None:
        return _empty(partition_id)
    return _Poll(services, log, request, offset_key(request.consumer), None).run()


def _poll_as_member(
    services: Services, connection: Connection, request: PollMessages, client: bytes
) -> PolledMessages | Coroutine[Any, Any, PolledMessages]:
    """Poll for a consumer group (spec 05, 9.3).

    A client that may not poll the partition is not told why: it has to ask for its assignment.
    """
    stream = find_stream(services.state, request.stream)
    topic = None if stream is None else find_topic(stream, request.topic)
    if stream is not None and topic is not None:
        require(services, connection, _POLL, stream.id, topic.id)
    if request.partition_id is None:
        raise refused(ErrorCode.INVALID_IDENTIFIER)
    group = None if topic is None else find_group(topic, request.consumer.id)
    if stream is None or topic is None or group is None:
        return _ASK_AGAIN
    member = _Member(group_key(stream, topic, group), client)
    if not services.groups.may_poll(member.group, member.client, request.partition_id):
        return _ASK_AGAIN
    log = find_log(services, stream, topic, request.partition_id)
    if log is None:
        return _empty(request.partition_id)
    return _Poll(services, log, request, group.id, member).run()


def _empty(partition_id: int) -> PolledMessages:
    """The answer of a partition that could not be opened yet: nothing is in it."""
    return PolledMessages(partition_id, 0, 0, ())


class _Member(NamedTuple):
    """A client that polls for a group."""

    group: GroupKey
    client: bytes


class _Poll:
    """A poll of a partition by somebody who may poll it (spec 04, 5.3 to 5.7)."""

    __slots__ = ("_log", "_member", "_number", "_offsets", "_request", "_services")

    def __init__(
        self,
        services: Services,
        log: PartitionLog,
        request: PollMessages,
        offset_number: int,
        member: _Member | None,
    ) -> None:
        self._services = services
        self._log = log
        self._request = request
        self._offsets = log.offsets.consumers if member is None else log.offsets.groups
        self._number = offset_number
        self._member = member

    def run(self) -> PolledMessages | Coroutine[Any, Any, PolledMessages]:
        try:
            start = self._start()
            found = self._read(start) if isinstance(start, int) else self._read_from(start)
        except LogError:
            found = NOTHING
        return self._reply(found) if isinstance(found, ReadResult) else self._reply_later(found)

    def _start(self) -> int | Awaitable[int]:
        """The offset it begins at."""
        strategy = self._request.strategy
        kind = strategy.kind
        if kind is _NEXT:
            stored = self._offsets.get(self._number)
            return 0 if stored is None else stored + 1
        if kind is _OFFSET:
            return strategy.value
        if kind is _FIRST:
            return 0
        if kind is _LAST:
            return max(0, self._log.visible_end - self._request.count)
        return self._log.offset_at_or_after(strategy.value)

    def _read(self, start: int) -> ReadResult | Awaitable[ReadResult]:
        max_bytes = self._services.max_reply_body - _POLL_HEAD_BYTES
        return self._log.read(start, self._request.count, max_bytes)

    async def _read_from(self, searching: Awaitable[int]) -> ReadResult:
        found = self._read(await searching)
        return found if isinstance(found, ReadResult) else await found

    async def _reply_later(self, reading: Awaitable[ReadResult]) -> PolledMessages:
        try:
            found = await reading
        except LogError:
            found = NOTHING
        # The partition may have gone to another member, or begun a new life, in the meantime.
        return self._reply(found) if self._is_still_allowed() else _ASK_AGAIN

    def _is_still_allowed(self) -> bool:
        member, services = self._member, self._services
        if member is None:
            return True
        return services.partitions.holds(self._log) and services.groups.may_poll(
            member.group, member.client, self._log.key.partition_id
        )

    def _reply(self, found: ReadResult) -> PolledMessages:
        partition_id = self._log.key.partition_id
        if found.messages_count:
            if self._request.auto_commit:
                self._store(found.last_offset)
            if self._member is not None:
                self._services.groups.delivered(
                    *self._member, partition_id, found.last_offset, self._offsets.get(self._number)
                )
        return PolledMessages(
            partition_id, self._log.current_offset, found.messages_count, found.records
        )

    def _store(self, offset: int) -> None:
        try:
            self._offsets.store_max(self._number, offset)
        except TooManyOffsetsError:
            raise refused(ErrorCode.TOO_MANY_CONSUMER_OFFSETS) from None
        except LogError:
            raise not_now() from None


def offset_key(consumer: Consumer) -> int:
    """The number under which the offsets of a single consumer are kept (spec 04, 5.2)."""
    return consumer_number(consumer.id) if isinstance(consumer.id, str) else consumer.id
