"""The one session a client works with: kept, moved to the leader, and replaced when it is lost.

    nothing --session()--> establishing --> ready --connection lost--> establishing ...
                                              |
                                              `--find_leader()--> moving --> ready

Establishing and moving are one task at a time, whoever asked for it. A caller that gives up does
not stop the task. How a server is found is the matter of `finder`.

A move opens the session at the leader before it closes the old one: an advertised address that
cannot be reached leaves the client where it is, and everybody goes on there meanwhile. Only when
the new session is there it waits until nothing is on its way on the old one, so that it never comes
between a request and its answer.

What ends with a session but is to last (memberships of consumer groups) is asked for again at the
beginning of the next one, before anybody sees it.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias

from windsprite.address import Address, Credentials
from windsprite.bootstrap import LEADER_POLL_INTERVAL, Candidate, Location
from windsprite.connection import Broken, Connection
from windsprite.environment import Environment
from windsprite.errors import AuthenticationError, ClientClosed, InvalidRequest, WindspriteError
from windsprite.events import Closed, Connected, Disconnected, Events, SignedIn, SignedOut
from windsprite.finder import Finder, Unusable, warn_of_staying
from windsprite.session import Session
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.cluster import ClusterMetadata
from windsprite_protocol.model.groups import JoinConsumerGroup
from windsprite_protocol.v0_11.calling import EvictedError, RemoteError

logger = logging.getLogger("windsprite")

CLOSE_TIMEOUT: Final = 1.0
"""Seconds that closing a socket may take."""

Work: TypeAlias = Callable[[], Awaitable[Session]]
"""What a task begins with; not before it runs, since it may be cancelled first."""


class Link:
    """The one session a client works with.

    Args:
        address: Where to start, who we are, how to behave.
        environment: Clock, timers and randomness.
        tls: How to speak TLS; None: plain TCP.
        events: Is told what happens.

    Attributes:
        joins: What every new session begins with, in this order; a set, but for the order.
        session_number: How many sessions there have been.
    """

    def __init__(
        self,
        address: Address,
        environment: Environment,
        tls: ssl.SSLContext | None,
        events: Events,
    ) -> None:
        self.joins: dict[JoinConsumerGroup, None] = {}
        self.session_number = 0
        self._options = address.options
        self._environment = environment
        self._events = events
        self._finder = Finder(
            address, environment, tls, events, on_lost=self._lost, leave=self._leave
        )
        self._session: Session | None = None
        self._task: asyncio.Task[Session] | None = None
        self._left: Session | None = None
        """The session from which a task may move; it is in use meanwhile."""
        self._is_lost_meanwhile = False
        """Whether the session was lost while a task was at work."""
        self._found_at = 0.0
        """When a task ended last: all of them look for the leader."""
        self._closed = False
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def can_log_in(self) -> bool:
        """Whether a lost session can be replaced without the caller."""
        return self._finder.credentials is not None

    @property
    def location(self) -> Location | None:
        """Where the client is connected to."""
        return self._session.location if self._session else None

    @property
    def current(self) -> Session | None:
        """The session, if there is one that can be used right now."""
        is_usable = self._task is None or self._session is self._left
        return self._session if is_usable else None

    @property
    def metadata(self) -> ClusterMetadata | None:
        """What was last heard of the cluster."""
        return self._finder.metadata

    async def session(self, deadline: float) -> Session:
        """The session; while there is none, wait for it.

        Raises:
            ConnectionFailed: No server could be reached until the deadline, or ever.
            AuthenticationError: A server refused the credentials.
            IncompatibleServer, ProtocolViolation: All servers that were reached are of this kind.
            ClientClosed: The client was closed.
        """
        while True:
            self._check_open()
            session = self.current
            if session is not None:
                return session
            if self._task is None:
                self._start(self._establish)
            try:
                await self._task_ends(deadline)
            except TimeoutError:
                raise self._finder.connection_failed() from None

    async def find_leader(self, session: Session, deadline: float) -> None:
        """Ask for the leader and move there.

        Nothing happens if `session` is not in use any more, or what was asked has just been told.

        Raises:
            TimeoutError: It takes longer; it goes on.
            As `session`, otherwise.
        """
        if self._session is not session:
            return
        if self._task is None:
            if self._environment.monotonic() - self._found_at < LEADER_POLL_INTERVAL:
                return
            self._left = session
            self._start(partial(self._move, session))
        await self._task_ends(deadline)

    async def log_in(self, credentials: Credentials, deadline: float) -> None:
        """Become somebody else: a new session at the current server, or any if there is none.

        Raises:
            As `session`. The old session stays in use if the server refuses the credentials.
        """
        while self._task is not None:
            try:
                with suppress(WindspriteError):  # this login may go better
                    await self._task_ends(deadline)
            except TimeoutError:
                raise self._finder.connection_failed() from None
        self._check_open()
        self._start(partial(self._log_in_again, credentials))
        await self.session(deadline)

    def log_out(self) -> None:
        """Take note that the server ended the session at our wish; the connection stays."""
        self._finder.credentials = None
        if self._session is not None:
            self._session.logged_in = None
        self._events.emit(SignedOut())

    async def close(self) -> None:
        """Close everything; nothing of it is left when this returns."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        if self._session is not None:
            self._close(self._session.connection)
        if self._closing:
            await asyncio.wait(self._closing)
        self._events.emit(Closed())

    # --- The task ------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("the client is closed", code=ErrorCode.CLIENT_SHUTDOWN)

    def _start(self, work: Work) -> None:
        self._is_lost_meanwhile = False
        self._task = asyncio.create_task(self._join(work), name="windsprite-link")
        self._task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[Session]) -> None:
        self._task = None
        self._found_at = self._environment.monotonic()
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._take(task.result())
        else:
            logger.warning("no session: %s", error)
        if self._left is not None:
            self._left.connection.places.reopen()
            self._left = None
        if self._is_lost_meanwhile and self._session is None:
            self._replace()

    def _take(self, session: Session) -> None:
        """From now on the client works with this session."""
        old = self._session
        if session in (old, self._left):
            return
        if session.connection.lost is None:
            self._session = session
        else:
            self._session = None
            self._is_lost_meanwhile = True
            self._close(session.connection)
        self.session_number += 1
        if old is not None:
            self._close(old.connection)
        self._tell_of(session)

    def _replace(self) -> None:
        """Look for another session, unless nobody could log in there."""
        if self._task is None and self.can_log_in and not self._closed:
            self._start(self._establish)

    def _tell_of(self, session: Session) -> None:
        """Tell of a new session."""
        server = str(session.location.dialled)
        self._events.emit(Connected(server, self.session_number))
        if session.logged_in is not None:
            self._events.emit(SignedIn(session.logged_in.user_id))
        if session.connection.lost is not None:
            self._events.emit(Disconnected(server, str(session.connection.lost)))

    async def _task_ends(self, deadline: float) -> None:
        """Wait for the end of what is at work.

        Raises:
            TimeoutError: It takes too long.
            WindspriteError: It failed.
        """
        task = self._task
        if task is None:
            return
        timeout = max(0.0, deadline - self._environment.monotonic())
        await asyncio.wait({task}, timeout=timeout)
        if not task.done():
            raise TimeoutError
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    def _lost(self, connection: Connection, reason: WindspriteError) -> None:
        if self._session is None or self._session.connection is not connection:
            return
        server = str(self._session.location.dialled)
        self._session = None
        self._is_lost_meanwhile = True
        if self._closed:
            return
        self._close(connection)
        self._events.emit(Disconnected(server, str(reason)))
        logger.warning("lost the connection to %s: %s", connection.peer, reason)
        self._replace()

    def _leave(self, connection: Connection) -> None:
        """Close a connection, unless it is in use: that one is closed when it is replaced."""
        if self._session is None or connection is not self._session.connection:
            self._close(connection)

    def _close(self, connection: Connection) -> None:
        connection.close()
        task = asyncio.create_task(connection.wait_closed(CLOSE_TIMEOUT))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _join(self, work: Work) -> Session:
        """Do the work, and join the groups again if a new session comes of it.

        What a server refuses now, the next poll for the group asks for again.
        """
        session = await work()
        if session is self._session or session.logged_in is None:
            return session
        try:
            for request in tuple(self.joins):
                deadline = self._environment.monotonic() + self._options.request_timeout
                try:
                    await session.exchange(session.prepare(request), deadline)
                except RemoteError as error:
                    logger.warning("cannot join the group %r again: %s", request.group, error)
        except (Broken, EvictedError) as error:
            # Whoever needs the session will see that it is gone.
            logger.warning("lost a new session: %s", error)
        except BaseException:
            self._close(session.connection)
            raise
        return session

    # --- Its three kinds of work ---------------------------------------------------------------

    async def _establish(self) -> Session:
        """Find a server that is good."""
        # Only the very first pass comes at once: nobody else starts at the same moment.
        return await self._finder.find(at_once=self.session_number == 0)

    async def _move(self, session: Session) -> Session:
        """Look for the leader from a session that exists."""
        try:
            found = await self._finder.settle(session)
        except Unusable as error:
            if session.connection.lost is not None:
                return await self._establish()
            warn_of_staying(session, f"the leader cannot be used: {error.reason}")
            return session
        if found is session:
            return session
        deadline = self._environment.monotonic() + self._options.request_timeout
        try:
            await session.connection.places.clear(deadline)
        except TimeoutError:
            warn_of_staying(session, "a request is in doubt")
            self._close(found.connection)
            return session
        except BaseException:
            self._close(found.connection)
            raise
        return found

    async def _log_in_again(self, credentials: Credentials) -> Session:
        before, self._finder.credentials = self._finder.credentials, credentials
        try:
            if self._session is None:
                return await self._establish()
            here = self._session.location
            try:
                return await self._finder.find_at(Candidate(here.dialled, here.node_id))
            except Unusable:
                return await self._establish()
        except (AuthenticationError, InvalidRequest):
            self._finder.credentials = before
            raise
