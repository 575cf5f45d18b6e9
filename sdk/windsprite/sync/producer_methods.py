"""The methods of `Producer`, blocking; written by docs/sync_modules.py."""

from __future__ import annotations

from collections.abc import Iterable

from windsprite.messages import Headers
from windsprite.producer.accumulator import Original
from windsprite.producer.delivery import Delivered
from windsprite.producer.producer import Producer as Target
from windsprite.sync.base import Blocking
from windsprite.sync.delivery import Deliveries, Delivery


class ProducerMethods(Blocking[Target]):
    """Sends messages to a topic; made by `Client.producer`.

        with client.producer("orders", "events") as producer:
            delivery = producer.send(b"payload", key="customer-7")
            placed = delivery.result()

    Leaving the block sends what was accepted and waits until all of it is settled, whatever the
    block ends with, Ctrl-C included; so does `close`. Ctrl-C while waiting there
    stops that: what was not sent yet fails with `ProducerClosed`, and what was on its way with
    `OutcomeUnknown`.
    """

    @property
    def partitions(self) -> int | None:
        """How many partitions the topic had when it was last looked at.

        None: the producer was not started, or its user may send to the topic, but not look at it.
        The server finds the partitions of keys and turns then.
        """
        return self._thread.call(lambda: self._target.partitions)

    @property
    def buffered_messages(self) -> int:
        """How many messages were accepted and are not settled."""
        return self._thread.call(lambda: self._target.buffered_messages)

    @property
    def buffered_bytes(self) -> int:
        """How many of the `buffer_bytes` they take."""
        return self._thread.call(lambda: self._target.buffered_bytes)

    def start(self) -> None:
        """Find the topic, or make it; entering the block does this. Does nothing the second time.

        Raises:
            NotFound: There is no such topic, and it was not to be made.
            PermissionDenied: The user may not make it; or may not look at it, and there is a
                partitioner, which has to be told how many partitions there are.
            ProducerClosed: The producer was closed.
        """
        self._thread.run(self._target.start())

    def send(
        self,
        message: Original,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
    ) -> Delivery:
        """Accept a message; it is sent soon, together with others.

        Waits while there is no room for it, as `when_full` says. Interrupted, it leaves no
        trace. In `direct` mode it waits until the message is stored; interrupted meanwhile, the
        message may be stored or not.

        Args:
            message: Text is sent as UTF-8.
            key: 1 to 255 bytes; messages with the same key go to the same partition, in their
                order, as long as the number of partitions stays.
            partition: The partition itself.
            headers: For a message that has none of its own.

        Returns:
            What becomes of the message; its `result` tells.

        Raises:
            InvalidRequest: The message is too large, or makes no sense.
            BufferFull: There is no room.
            NotFound: The topic has no partitions.
            ProducerClosed: The producer was closed.
            WindspriteError: In `direct` mode, what became of it.
        """
        return Delivery(
            self._thread,
            self._thread.run(
                self._target.send(message, key=key, partition=partition, headers=headers)
            ),
        )

    def send_and_wait(
        self,
        message: Original,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
    ) -> Delivered:
        """Send a message and wait until it is stored; `linger` counts, unless others fill a batch.

        Args:
            message: As in `send`.
            key: As in `send`.
            partition: As in `send`.
            headers: As in `send`.

        Returns:
            Where it is stored.

        Raises:
            WindspriteError: As `send` and the delivery do.
        """
        return self._thread.run(
            self._target.send_and_wait(message, key=key, partition=partition, headers=headers)
        )

    def send_many(
        self,
        messages: Iterable[Original],
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
    ) -> Deliveries:
        """Accept messages, all of them or none, in their order.

        They may go in several batches, to several partitions if there is neither a key nor a
        partition. In `direct` mode it waits until all are settled; each delivery tells of its own.

        Args:
            messages: Any number; together they have to fit into `buffer_bytes`.
            key: As in `send`, for all of them.
            partition: As in `send`, for all of them.
            headers: As in `send`.

        Returns:
            One delivery for each message.

        Raises:
            WindspriteError: As `send`; none of them was accepted.
        """
        return Deliveries(
            self._thread,
            self._thread.run(
                self._target.send_many(messages, key=key, partition=partition, headers=headers)
            ),
        )

    def flush(self) -> None:
        """Send what was accepted before without lingering, and wait until it is settled.

        Failures are no matter of this call: deliveries and `on_error` tell of them.
        """
        self._thread.run(self._target.flush())

    def close(self, *, timeout: float | None = None) -> None:
        """Accept nothing more, send what was accepted, and wait until it is settled.

        It may be called more than once. Whoever waits in `send` for room is sent away.

        Args:
            timeout: After so many seconds the rest is given up: what was not sent fails with
                `ProducerClosed`, what is on its way with `OutcomeUnknown`. None: `delivery_timeout`
                gives up what cannot be sent.
        """
        self._thread.run(self._target.aclose(timeout=timeout))
