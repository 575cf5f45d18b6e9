"""The client: its life, its session, and all methods of `windsprite.commands`."""

# ruff: noqa: ASYNC109 - a timeout covers more than one wait, with repeats and new connections

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self
from weakref import WeakSet

from windsprite.address import Address, Password, Token
from windsprite.caller import Caller
from windsprite.commands.groups import GroupCommands
from windsprite.commands.messages import MessageCommands
from windsprite.commands.offsets import OffsetCommands
from windsprite.commands.streams import StreamCommands
from windsprite.commands.system import SystemCommands
from windsprite.commands.tokens import TokenCommands
from windsprite.commands.topics import TopicCommands
from windsprite.commands.users import UserCommands
from windsprite.consumer.commits import Commit
from windsprite.consumer.consumer import TopicConsumer
from windsprite.consumer.progress import Start
from windsprite.consumer.settings import Settings
from windsprite.encryption import Encryptor
from windsprite.environment import Environment, SystemEnvironment
from windsprite.errors import InvalidRequest, WindspriteError
from windsprite.events import DEFAULT_CAPACITY, Events, EventStream, OnEvent
from windsprite.memberships import Memberships
from windsprite.producer.commands import ProducerCommands
from windsprite.tls import tls_context
from windsprite_protocol.model.identifiers import Identifier

logger = logging.getLogger("windsprite")


class Client(
    ProducerCommands,
    SystemCommands,
    StreamCommands,
    TopicCommands,
    MessageCommands,
    OffsetCommands,
    GroupCommands,
    UserCommands,
    TokenCommands,
):
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

    def __init__(
        self,
        address: Address,
        *,
        environment: Environment | None = None,
        tls: ssl.SSLContext | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        self._address = address
        self._environment = environment or SystemEnvironment()
        self._send_retry = address.options.send_retry
        if tls is None and address.options.tls:
            tls = tls_context(address.options.tls_ca_file)
        self._events = Events(on_event)
        self._caller = Caller(address, self._environment, tls, self._events)
        self._memberships = Memberships(
            self._caller, self._environment, address.options.heartbeat_interval
        )
        self._consumers: WeakSet[TopicConsumer] = WeakSet()
        self._producers = WeakSet()

    def __repr__(self) -> str:
        return f"<windsprite.Client {self._address}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def address(self) -> Address:
        """What the client was made with."""
        return self._address

    @property
    def server(self) -> str | None:
        """The `host:port` that the client is connected to; None while there is no connection."""
        location = self._caller.link.location
        return str(location.dialled) if location else None

    def events(self, capacity: int = DEFAULT_CAPACITY) -> EventStream:
        """What happens to the connection from now on; ends when the client is closed.

        Args:
            capacity: How many events are kept for whoever reads them, at least 1. The oldest ones
                are dropped for newer ones, and counted in `dropped`.

        Raises:
            InvalidRequest: There is no capacity.
        """
        if capacity < 1:
            raise InvalidRequest("events: the capacity has to be at least 1")
        return self._events.stream(capacity)

    async def connect(self, *, timeout: float | None = None) -> None:
        """Find a server, log in and move to the leader; `windsprite.connect` does this.

        Args:
            timeout: Seconds for all of it; None: the `connect_timeout`.

        Raises:
            ConnectionFailed: No server could be reached within `connect_timeout`.
            AuthenticationError: The credentials were refused.
        """
        await self._caller.connect(timeout)

    async def close(self, *, timeout: float | None = None) -> None:
        """Close the connection and end all background work; may be called more than once.

        Consumers are closed before, which takes each of them at most its `close_timeout`; and
        producers, which send what they have accepted, for at most their `delivery_timeout`.

        Args:
            timeout: Seconds for producers and consumers together: what they have not finished by
                then is given up. None: as long as they take.
        """
        try:
            async with asyncio.timeout(timeout):
                for producer in tuple(self._producers):
                    await producer.aclose()
                for consumer in tuple(self._consumers):
                    with suppress(WindspriteError):  # it has logged what it could not store
                        await consumer.close()
        except TimeoutError:
            logger.warning("closed before all producers and consumers had finished")
        finally:
            await self._caller.close()

    async def login(self, username: str, password: str, *, timeout: float | None = None) -> None:
        """Log in, or become somebody else; also used for later reconnects.

        The client joins the consumer groups that it belongs to again, as this user.

        Raises:
            AuthenticationError: The server refused; the client remains who it was.
        """
        await self._caller.log_in(Password(username, password), timeout)

    async def login_with_token(self, token: str, *, timeout: float | None = None) -> None:
        """Log in with a personal access token; also used for later reconnects.

        The client joins the consumer groups that it belongs to again, as this user.

        Raises:
            AuthenticationError: The server refused; the client remains who it was.
        """
        await self._caller.log_in(Token(token), timeout)

    async def logout(self, *, timeout: float | None = None) -> None:
        """End the session and all memberships of consumer groups, and forget the credentials.

        `login` works afterwards.
        """
        await self._caller.log_out(timeout)
        self._memberships.forget_all()

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
            self._caller.link,
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
