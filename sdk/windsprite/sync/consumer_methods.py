"""The methods of `TopicConsumer`, blocking; written by docs/sync_modules.py."""

from __future__ import annotations

from windsprite.consumer.consumer import TopicConsumer as Target
from windsprite.consumer.progress import Start
from windsprite.messages import ReceivedMessage
from windsprite.sync.base import Blocking
from windsprite_protocol.model.identifiers import Identifier


class TopicConsumerMethods(Blocking[Target]):
    """Reads a topic, message by message; made by `Client.consumer`.

        with client.consumer("orders", "events", group="billing") as consumer:
            for message in consumer:
                print(message.partition_id, message.offset, message.payload)

    A message of `for` is handled when the loop asks for the next one. When the loop is left,
    by `break` or by an error, the message it was at is not: it is handed out again, to the next
    loop or after a restart. Messages of `get` are handled when `handled` or `commit` says so.

    Use one loop at a time; `run` handles several messages at the same time, and any number of
    threads may call `get`. Without `with` the consumer is closed when the first loop, or
    `run`, ends.
    """

    def start(self) -> None:
        """Find the partitions, and begin to poll; everything that needs it does this by itself.

        Raises:
            NotFound: There is no such topic, partition or group.
            WindspriteError: As the methods of the client that are used.
        """
        self._thread.run(self._target.start())

    def stop(self) -> None:
        """Hand out nothing more: loops and `run` end after the messages they are at."""
        self._thread.call(self._target.stop)

    def close(self, timeout: float | None = None) -> None:
        """Store what was handled, leave the group, and end all background work.

        May be called more than once, also by several threads. `Client.close` does it, too.

        Args:
            timeout: Seconds for all of it; None: `close_timeout`. Of several tasks that close it
                the one with the least time counts. Afterwards the consumer is closed in any case.

        Raises:
            WindspriteError: Something that was handled could not be stored: it comes again.
        """
        self._thread.run(self._target.close(timeout))

    def handled(self, message: ReceivedMessage) -> None:
        """A message of `get` was handled; its offset is stored when all before it are handled, too.

        Nothing happens if the partition was given up meanwhile, or `seek` left it.
        """
        self._thread.call(lambda: self._target.handled(message))

    def not_handled(self, message: ReceivedMessage) -> None:
        """A message of `get` was not handled: it is handed out again, before those after it.

        Whoever has the partition then gets it. Nothing happens if its offset counts already, as
        with `Commit.manual`.
        """
        self._thread.call(lambda: self._target.not_handled(message))

    def commit(self, message: ReceivedMessage) -> None:
        """A message and all before it in its partition are handled: store that now.

        Raises:
            PartitionNotOwned: The partition belongs to another member now; it gets the message.
            WindspriteError: As `Client.store_consumer_offset`.
        """
        self._thread.run(self._target.commit(message))

    def flush(self) -> None:
        """Store now what was handled; with `Commit.manual`, what was handed out.

        Raises:
            WindspriteError: Some of it was not stored; it is not forgotten.
        """
        self._thread.run(self._target.flush())

    def store_offset(self, offset: int, *, partition: int) -> None:
        """Store an offset, whatever was handled; reading goes on where it is.

        Raises:
            WindspriteError: As `Client.store_consumer_offset`.
        """
        self._thread.run(self._target.store_offset(offset, partition=partition))

    def delete_offset(self, *, partition: int) -> None:
        """Delete the stored offset; reading goes on where it is.

        Raises:
            WindspriteError: As `Client.delete_consumer_offset`.
        """
        self._thread.run(self._target.delete_offset(partition=partition))

    def seek(self, partition: int, where: Start | int) -> None:
        """Go on reading somewhere else: at an offset, or as `From` says.

        What was polled is dropped, and messages that were handed out before do not count any more.
        The stored offset follows when messages are handled from there on.

        Raises:
            PartitionNotOwned: The partition is not one of this consumer's.
        """
        self._thread.call(lambda: self._target.seek(partition, where))

    def pause(self, *partitions: int) -> None:
        """Hand out and poll nothing of these partitions until `resume`; without any, of all."""
        self._thread.call(lambda: self._target.pause(*partitions))

    def resume(self, *partitions: int) -> None:
        """Go on after `pause`; without any partition, with all."""
        self._thread.call(lambda: self._target.resume(*partitions))

    @property
    def stream(self) -> Identifier:
        """Where it reads."""
        return self._thread.call(lambda: self._target.stream)

    @property
    def topic(self) -> Identifier:
        """Where it reads."""
        return self._thread.call(lambda: self._target.topic)

    @property
    def name(self) -> Identifier | None:
        """For which single consumer it reads."""
        return self._thread.call(lambda: self._target.name)

    @property
    def group(self) -> Identifier | None:
        """For which group it reads."""
        return self._thread.call(lambda: self._target.group)

    @property
    def assignment(self) -> tuple[int, ...]:
        """The partitions it reads at the moment, in ascending order."""
        return self._thread.call(lambda: self._target.assignment)

    def position(self, partition: int) -> int | None:
        """The offset of the message that is handed out next; None: not known yet."""
        return self._thread.call(lambda: self._target.position(partition))

    def consumed(self, partition: int) -> int | None:
        """The offset of the message that was handed out last; None: there was none."""
        return self._thread.call(lambda: self._target.consumed(partition))

    def committed(self, partition: int) -> int | None:
        """The stored offset, as far as the consumer knows; None: nothing is stored."""
        return self._thread.call(lambda: self._target.committed(partition))

    def lag(self, partition: int) -> int | None:
        """How many messages there are to be handed out, as of the last poll; None: not known."""
        return self._thread.call(lambda: self._target.lag(partition))
