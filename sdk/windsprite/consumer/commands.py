"""The method of the client that makes consumers."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakSet

from windsprite.consumer.commits import Commit
from windsprite.consumer.consumer import TopicConsumer
from windsprite.consumer.progress import Start
from windsprite.consumer.settings import Settings
from windsprite.consumer.source import Calls
from windsprite.encryption import Encryptor
from windsprite_protocol.model.identifiers import Identifier


class ConsumerCommands(Calls):
    """Consumers.

    Attributes:
        _consumers: Those that were made and are still in use.
    """

    _consumers: WeakSet[TopicConsumer]

    def consumer(
        self,
        stream: Identifier,
        topic: Identifier,
        *,
        name: Identifier | None = None,
        group: Identifier | None = None,
        partitions: Sequence[int] | None = None,
        start: Start | None = None,
        commit: Commit | None = None,
        batch_messages: int = 1000,
        prefetch_bytes: int = 4 << 20,
        poll_interval: float = 0.1,
        max_unhandled: int = 10_000,
        allow_replay: bool = False,
        encryption: Encryptor | None = None,
        create_group: bool = True,
        join: bool = True,
        wait_for_topic: float = 0.0,
        patience: float = 300.0,
        close_timeout: float = 5.0,
    ) -> TopicConsumer:
        """Read a topic message by message, over lost connections and changes of the group.

            async for message in client.consumer("orders", "events", group="billing"):
                print(message.payload)

        Nothing is asked of a server before the consumer is used. As long as this client is a
        member of a group it is one member, however many consumers it has for it.

        Args:
            stream: Where.
            topic: Where.
            name: The name or number under which offsets are stored, for a single consumer.
            group: The group under which they are stored, and whose members share the partitions.
                With neither, nothing is stored.
            partitions: Those to be read by a single consumer; None: all, and those that are added.
            start: Where a partition begins; None: behind the stored offset, or at the oldest
                message. `From.last()` begins with the last `batch_messages`, "new" behind the last
                of all. For a group it holds where nothing is stored yet.
            commit: When offsets are stored; None: `Commit.after_handling()`.
            batch_messages: How many messages a poll asks for at most.
            prefetch_bytes: How many bytes of messages, about, may wait to be handed out. While
                there are more, nothing is polled. What is paused, or held up by `max_unhandled`,
                does not keep other partitions from as many.
            poll_interval: The longest time in seconds for which a partition without news is left
                alone. With more than 20 partitions it is longer, 5 ms for each of them.
            max_unhandled: How far handing out may run ahead of the oldest unhandled message of a
                partition, in offsets.
            allow_replay: Whether messages that this consumer has handled may come again because
                somebody stored a lower offset, or deleted the group.
            encryption: What decrypts payloads and headers, such as an `Encryptor`.
            create_group: Whether to make the group if it is missing.
            join: Whether to join the group and to leave it; False: the program does that.
            wait_for_topic: Seconds to wait for a topic or group that is missing.
            patience: Seconds for which the consumer goes on although no server does what it asks.
            close_timeout: Seconds that closing the consumer may take.

        Raises:
            InvalidRequest: These do not fit together.
        """
        settings = Settings(
            start=start,
            partitions=partitions,
            batch_messages=batch_messages,
            prefetch_bytes=prefetch_bytes,
            poll_interval=poll_interval,
            max_unhandled=max_unhandled,
            commit=commit,
            create_group=create_group,
            join=join,
            allow_replay=allow_replay,
            encryption=encryption,
            wait_for_topic=wait_for_topic,
            patience=patience,
            close_timeout=close_timeout,
        )
        consumer = TopicConsumer(
            self,
            self._caller,
            self._environment,
            stream,
            topic,
            name=name,
            group=group,
            settings=settings,
            others=self._consumers,
        )
        self._consumers.add(consumer)
        return consumer
