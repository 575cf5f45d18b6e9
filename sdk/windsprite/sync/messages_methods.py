"""The methods of `MessageCommands`, blocking; written by docs/sync_modules.py."""

from __future__ import annotations

from collections.abc import Sequence

from windsprite.address import RetryMode
from windsprite.client import Client as Target
from windsprite.messages import Batch, From, Headers, Message
from windsprite.sync.base import Blocking
from windsprite_protocol.model.identifiers import Consumer, Identifier
from windsprite_protocol.model.messages import Confirmation


class MessageCommands(Blocking[Target]):
    """Sending and polling messages."""

    def send(
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

            client.send("orders", "events", [b"one", "two"], key="customer-7")

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
        return self._thread.run(
            self._target.send(
                stream,
                topic,
                messages,
                key=key,
                partition=partition,
                headers=headers,
                retry=retry,
                ordered=ordered,
                timeout=timeout,
            )
        )

    def poll(
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

            batch = client.poll("orders", "events", start=From.first(), count=100)
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
        return self._thread.run(
            self._target.poll(
                stream,
                topic,
                partition=partition,
                start=start,
                count=count,
                consumer=consumer,
                group=group,
                auto_commit=auto_commit,
                timeout=timeout,
            )
        )
