"""The methods of `ProducerCommands`, blocking; written by docs/sync_modules.py."""

from __future__ import annotations

from windsprite.address import RetryMode
from windsprite.client import Client as Target
from windsprite.encryption import Encryptor
from windsprite.messages import Headers
from windsprite.producer.options import NewTopic, OnError, ProducerMode, WhenFull
from windsprite.producer.routing import Partitioner
from windsprite.sync.base import Blocking
from windsprite.sync.producer import Producer
from windsprite_protocol.model.identifiers import Identifier


class ProducerCommands(Blocking[Target]):
    """Producers.

    Attributes:
        _producers: Those that were made and are still in use.
    """

    def producer(
        self,
        stream: Identifier,
        topic: Identifier,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        partitioner: Partitioner | None = None,
        headers: Headers | None = None,
        mode: ProducerMode = "background",
        batch_messages: int = 1000,
        batch_bytes: int = 1 << 20,
        linger: float = 0.005,
        buffer_bytes: int = 32 << 20,
        when_full: WhenFull = "block",
        max_in_flight: int = 8,
        retry: RetryMode | None = None,
        delivery_timeout: float = 120.0,
        refresh_interval: float = 30.0,
        create: bool | NewTopic = True,
        encryption: Encryptor | None = None,
        on_error: OnError | None = None,
    ) -> Producer:
        """A producer for a topic: gathers messages into batches and says what became of each.

            with client.producer("orders", "events") as producer:
                delivery = producer.send(b"payload", key="customer-7")
                placed = delivery.result()

        Messages of a partition are stored in the order in which they were accepted. Make as many
        producers as you have topics; all use the connection of the client.

        Args:
            stream: Where to.
            topic: Where to.
            key: For messages that are sent without a key and a partition.
            partition: The same; with neither, messages take the partitions by turns, a batch each.
            partitioner: Called for every message that is sent without a partition.
            headers: For messages that have no headers of their own.
            mode: `background`: `send` returns when a message is accepted. `direct`: it returns
                when the message is stored, or raises; nothing lingers.
            batch_messages: How many messages a batch has at most, 1 to 1,000,000.
            batch_bytes: How many bytes a batch has at most, unless a single message has more.
            linger: How many seconds a message waits for others to go with.
            buffer_bytes: How many bytes may wait or be on their way, some 400 for each message
                besides payload and headers.
            when_full: What `send` does while they are used up: `block` waits, `fail` raises
                `BufferFull`, a number waits so many seconds and then raises it.
            max_in_flight: How many batches are on their way at the same time; never two of the
                same partition.
            retry: `safe`: a batch that may have been stored is not sent again; its deliveries
                raise `OutcomeUnknown`. `at-least-once`: it is sent again, and may be stored twice.
                None: as `send_retry` of the client says.
            delivery_timeout: How many seconds after its first message a batch is given up.
            refresh_interval: After how many seconds the partitions are counted again. New
                partitions are used from then on, and keys go elsewhere.
            create: Whether to make the stream and the topic if they are missing, and how.
            encryption: Encrypts payloads and headers, as official clients do.
            on_error: Called in another thread with every batch that was not delivered. Without it,
                failures that nobody learns from a delivery are logged.

        Raises:
            InvalidRequest: An option makes no sense.
        """
        return Producer(
            self._thread,
            self._thread.call(
                lambda: self._target.producer(
                    stream,
                    topic,
                    key=key,
                    partition=partition,
                    partitioner=partitioner,
                    headers=headers,
                    mode=mode,
                    batch_messages=batch_messages,
                    batch_bytes=batch_bytes,
                    linger=linger,
                    buffer_bytes=buffer_bytes,
                    when_full=when_full,
                    max_in_flight=max_in_flight,
                    retry=retry,
                    delivery_timeout=delivery_timeout,
                    refresh_interval=refresh_interval,
                    create=create,
                    encryption=encryption,
                    on_error=on_error,
                )
            ),
        )
