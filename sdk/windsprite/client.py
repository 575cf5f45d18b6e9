"""The client: its life, its session, and all methods of `windsprite.commands`."""

# ruff: noqa: ASYNC109 - a timeout covers more than one wait, with repeats and new connections

from __future__ import annotations

import asyncio
import logging
import ssl
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
from windsprite.consumer.commands import ConsumerCommands
from windsprite.environment import Environment, SystemEnvironment
from windsprite.errors import InvalidRequest, WindspriteError
from windsprite.events import DEFAULT_CAPACITY, Events, EventStream, OnEvent
from windsprite.memberships import Memberships
from windsprite.producer.commands import ProducerCommands
from windsprite.tls import tls_context

logger = logging.getLogger("windsprite")


class Client(
    ProducerCommands,
    ConsumerCommands,
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
        if tls is None:
            tls = tls_context(address.options)
        self._events = Events(on_event)
        self._caller = Caller(address, self._environment, tls, self._events)
        self._memberships = Memberships(
            self._caller, self._environment, address.options.heartbeat_interval
        )
        self._producers = WeakSet()
        self._consumers = WeakSet()

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
            await self._end()

    async def _end(self) -> None:
        """Give up what producers and consumers have not finished, and leave nothing behind."""
        for producer in tuple(self._producers):
            await producer.aclose(timeout=0)
        await self._caller.close()  # so that no consumer waits for an answer
        for consumer in tuple(self._consumers):
            with suppress(WindspriteError):
                await consumer.close(timeout=0)

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
