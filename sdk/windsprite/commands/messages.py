"""Sending and polling messages."""

# ruff: noqa: ASYNC109 - a timeout covers more than one wait, with repeats and new connections

from __future__ import annotations

from collections.abc import Sequence

from windsprite.address import RETRY_MODES, RetryMode
from windsprite.commands.base import Commands
from windsprite.errors import InvalidRequest
from windsprite.memberships import Group
from windsprite.messages import Batch, From, Headers, Message, build_send, read_batch, reader_of
from windsprite.order import Whole
from windsprite.retries import Safety
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.identifiers import Consumer, ConsumerKind, Identifier
from windsprite_protocol.model.messages import (
    Confirmation,
    Confirmations,
    PolledMessages,
    PollMessages,
)


class MessageCommands(Commands):
    """Sending and polling messages."""

    async def send(
        self,
        stream: Identifier,
        topic: Identifier,
        messages: Sequence[bytes | str | Message],
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
        retry: RetryMode | None = None,
        ordered: bool = True,
        timeout: float | None = None,
    ) -> Confirmation | None:
        """Append messages to one partition of a topic, all or none of them.

            await client.send("orders", "events", [b"one", "two"], key="customer-7")

        With neither a key nor a partition the server takes the partitions of the topic in turn,
        one for each call. It knows how many there are; the client never has to.

        Args:
            stream: Where.
            topic: Where.
            messages: At least one. Text is sent as UTF-8.
            key: 1 to 255 bytes; messages with the same key go to the same partition, the same as
                with every official client, as long as the number of partitions stays.
            partition: The partition itself.
            headers: For all messages that have no headers of their own.
            retry: What happens if nobody can tell whether the messages were stored:
                `safe` raises `OutcomeUnknown`; `at-least-once` sends them again, with the same
                message ids. None: as `send_retry` of the client says.
            ordered: Whether it waits for sends that were made before it and may go to the same
                partition, and such sends wait for it; see `Client`.
            timeout: Seconds for all of it.

        Returns:
            Where the messages are; None if they are stored but the server did not say where.

        Raises:
            NotFound: There is no such stream, topic or partition.
            InvalidRequest: There is no message, or one is too large.
            OutcomeUnknown: They may have been stored or not.
        """
        request = build_send(
            stream,
            topic,
            messages,
            key=key,
            partition=partition,
            headers=headers,
            environment=self._environment,
        )
        mode = self._send_retry if retry is None else retry
        if mode not in RETRY_MODES:
            raise InvalidRequest("send: retry is either safe or at-least-once")
        confirmations: Confirmations = await self._caller.call(
            request,
            f"send to {topic!r} in {stream!r}",
            time_limit=timeout,
            safety=Safety.AT_LEAST_ONCE if mode == "at-least-once" else Safety.WRITE,
            rank=None if ordered else Whole.FREE,
        )
        return confirmations.items[0] if confirmations.items else None

    async def poll(
        self,
        stream: Identifier,
        topic: Identifier,
        *,
        partition: int | None = None,
        start: From | None = None,
        count: int = 1000,
        consumer: Identifier | Consumer | None = None,
        group: Identifier | None = None,
        auto_commit: bool = False,
        timeout: float | None = None,
    ) -> Batch:
        """Read messages of a partition; comes back at once, with none if there are none.

            batch = await client.poll("orders", "events", start=From.first(), count=100)
            for message in batch:
                print(message.offset, message.payload)

        A member of a consumer group need not know its partitions: one call after the other reads
        them by turns. `batch.partition` says which one it was. A partition without news gives an
        empty batch while others may have some; and so does a group with more members than
        partitions, at every call.

        Args:
            stream: Where.
            topic: Where.
            partition: The partition; None: partition 0, or with a group the next one of those that
                this client has as a member.
            start: Where to begin; None: after the offset stored for the consumer or the group.
            count: How many messages at most; at least 1.
            consumer: On whose behalf; only `From.next()` and `auto_commit` make use of it. None:
                consumer 0, unless there is a group.
            group: The consumer group to poll for; see `join_consumer_group`.
            auto_commit: Let the server store the offset of the last message it returns, before
                it returns it. If the answer is lost, `From.next()` does not see these messages
                again; use `store_consumer_offset` where that matters.
            timeout: Seconds for all of it.

        Raises:
            NotFound: There is no such stream, topic or partition, or this client is no member of
                the group.
            PartitionNotOwned: The partition belongs to another member of the group.
            OutcomeUnknown: The answer to a poll that commits was lost.
        """
        if count < 1:
            raise InvalidRequest(
                "poll: count has to be at least 1", code=ErrorCode.INVALID_MESSAGES_COUNT
            )
        reader = reader_of(consumer, group)
        is_member = reader.kind is ConsumerKind.GROUP
        request = PollMessages(
            reader,
            stream,
            topic,
            0 if partition is None and not is_member else partition,
            start or From.next(),
            count,
            auto_commit,
        )
        doing = f"poll {topic!r} in {stream!r}"
        polled: PolledMessages
        if is_member:
            deadline = self._caller.deadline(timeout)
            member_of = Group(stream, topic, reader.id)
            polled = await self._memberships.poll(member_of, request, doing, deadline)
        else:
            polled = await self._caller.call(request, doing, time_limit=timeout)
        return read_batch(polled)
