"""Sending and polling messages."""

from __future__ import annotations

from collections.abc import Sequence

from windsprite.address import RETRY_MODES, RetryMode
from windsprite.commands.base import Commands
from windsprite.errors import InvalidRequest
from windsprite.messages import Batch, From, Headers, Message, build_send, consumer_of, read_batch
from windsprite.retries import Safety
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.identifiers import Consumer, Identifier
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
        timeout: float | None = None,  # noqa: ASYNC109 - covers more than a wait
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
            f"send to {topic!r}",
            time_limit=timeout,
            safety=Safety.AT_LEAST_ONCE if mode == "at-least-once" else Safety.WRITE,
        )
        return confirmations.items[0] if confirmations.items else None

    async def poll(
        self,
        stream: Identifier,
        topic: Identifier,
        *,
        partition: int = 0,
        start: From | None = None,
        count: int = 1000,
        consumer: Identifier | Consumer = 0,
        auto_commit: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - covers more than a wait
    ) -> Batch:
        """Read messages of a partition; comes back at once, with none if there are none.

            batch = await client.poll("orders", "events", start=From.first(), count=100)
            for message in batch:
                print(message.offset, message.payload)

        Args:
            stream: Where.
            topic: Where.
            partition: The partition.
            start: Where to begin; None: after the offset stored for the consumer.
            count: How many messages at most; at least 1.
            consumer: On whose behalf; only `From.next()` and `auto_commit` make use of it.
            auto_commit: Let the server store the offset of the last message it returns, before
                it returns it. If the answer is lost, `From.next()` does not see these messages
                again; use `store_consumer_offset` where that matters.
            timeout: Seconds for all of it.

        Raises:
            NotFound: There is no such stream, topic or partition.
            OutcomeUnknown: The answer to a poll that commits was lost.
        """
        if count < 1:
            raise InvalidRequest(
                "poll: count has to be at least 1", code=ErrorCode.INVALID_MESSAGES_COUNT
            )
        request = PollMessages(
            consumer_of(consumer),
            stream,
            topic,
            partition,
            start or From.next(),
            count,
            auto_commit,
        )
        polled: PolledMessages = await self._caller.call(
            request, f"poll {topic!r}", time_limit=timeout
        )
        return read_batch(polled)
