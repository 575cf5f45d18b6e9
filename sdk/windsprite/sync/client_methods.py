"""The methods of `Client`, blocking; written by docs/sync_modules.py."""

from __future__ import annotations

from collections.abc import Sequence

from windsprite.client import Client as Target
from windsprite.consumer.commits import Commit
from windsprite.consumer.progress import Start
from windsprite.encryption import Encryptor
from windsprite.events import DEFAULT_CAPACITY
from windsprite.sync.base import Blocking
from windsprite.sync.consumer import TopicConsumer
from windsprite.sync.events import EventStream
from windsprite_protocol.model.identifiers import Identifier


class ClientMethods(Blocking[Target]):
    """A connection to a cluster; made by `connect`.

    Streams, topics, consumers, groups and users are named by their number (`int`) or their name
    (`str`): `7` and `"7"` are different. All methods raise a `WindspriteError`, and every one of
    them takes at most `request_timeout`, or `timeout` seconds where it is given.

    A lost connection is replaced, and the client goes where the leader is, without further ado;
    what had been asked for meanwhile is done then, if that cannot do anything twice.

    Of calls that are made at the same time, up to `max_in_flight` are on their way together, if the
    server is a Windsprite server. Their order:

    - Sends that may go to the same partition are carried out in the order in which the calls were
      made, each one after the outcome of the one before is known, with all repeats and on whatever
      connection. A send that fails is over by then: later ones neither overtake it nor wait for it
      to be tried again. Sends with a key, and those for which the server chooses, may go to any
      partition of their topic. `send(..., ordered=False)` waits for no other send, and none waits
      for it.
    - The same holds for changes of stored offsets, and polls that commit, of one partition.
    - Whatever changes streams, topics, groups, users, memberships or the login begins when all
      calls before it have ended, and all calls after it begin when it has ended.
    - Other reads are in no order.

    A send whose outcome is unknown (`OutcomeUnknown`), or that was cancelled or timed out on its
    way, may still be stored at any time. A partition is known by its names: the number and the name
    of one topic count as two topics.
    """

    def events(self, capacity: int = DEFAULT_CAPACITY) -> EventStream:
        """What happens to the connection from now on; ends when the client is closed.

        Args:
            capacity: How many events are kept for whoever reads them, at least 1. The oldest ones
                are dropped for newer ones, and counted in `dropped`.

        Raises:
            InvalidRequest: There is no capacity.
        """
        return EventStream(self._thread, self._thread.call(lambda: self._target.events(capacity)))

    def login(self, username: str, password: str, *, timeout: float | None = None) -> None:
        """Log in, or become somebody else; also used for later reconnects.

        The client joins the consumer groups that it belongs to again, as this user.

        Raises:
            AuthenticationError: The server refused; the client remains who it was.
        """
        self._thread.run(self._target.login(username, password, timeout=timeout))

    def login_with_token(self, token: str, *, timeout: float | None = None) -> None:
        """Log in with a personal access token; also used for later reconnects.

        The client joins the consumer groups that it belongs to again, as this user.

        Raises:
            AuthenticationError: The server refused; the client remains who it was.
        """
        self._thread.run(self._target.login_with_token(token, timeout=timeout))

    def logout(self, *, timeout: float | None = None) -> None:
        """End the session and all memberships of consumer groups, and forget the credentials.

        `login` works afterwards.
        """
        self._thread.run(self._target.logout(timeout=timeout))

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
        max_unhandled: int = 10000,
        allow_replay: bool = False,
        encryption: Encryptor | None = None,
        create_group: bool = True,
        join: bool = True,
        wait_for_topic: float = 0.0,
        patience: float = 300.0,
        close_timeout: float = 5.0,
    ) -> TopicConsumer:
        """Read a topic message by message, over lost connections and changes of the group.

            for message in client.consumer("orders", "events", group="billing"):
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
                there are more, nothing is polled.
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
        return TopicConsumer(
            self._thread,
            self._thread.call(
                lambda: self._target.consumer(
                    stream,
                    topic,
                    name=name,
                    group=group,
                    partitions=partitions,
                    start=start,
                    commit=commit,
                    batch_messages=batch_messages,
                    prefetch_bytes=prefetch_bytes,
                    poll_interval=poll_interval,
                    max_unhandled=max_unhandled,
                    allow_replay=allow_replay,
                    encryption=encryption,
                    create_group=create_group,
                    join=join,
                    wait_for_topic=wait_for_topic,
                    patience=patience,
                    close_timeout=close_timeout,
                )
            ),
        )
