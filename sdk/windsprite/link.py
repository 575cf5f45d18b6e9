"""The one session a client works with: found, kept, moved to the leader, and found again.

    nothing --session()--> establishing --> ready --connection lost--> establishing ...
                                              |
                                              `--find_leader()--> moving --> ready

Establishing and moving are one task at a time, whoever asked for it. Dialling, login and the look
for the leader are one unit: nobody sees a session that has not gone through all three. A caller
that gives up does not stop the task.

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
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

from windsprite.address import Address, Credentials, Endpoint
from windsprite.bootstrap import (
    LEADER_POLL_INTERVAL,
    LEADER_WAIT,
    Backoff,
    Candidate,
    Location,
    Redirect,
    Roster,
    Stay,
    StayReason,
    WaitForLeader,
    decide,
)
from windsprite.connection import Broken, Connection, open_connection
from windsprite.environment import Environment
from windsprite.errors import (
    AuthenticationError,
    ClientClosed,
    ConnectionFailed,
    IncompatibleServer,
    InvalidRequest,
    ProtocolViolation,
    WindspriteError,
    error_of,
)
from windsprite.events import (
    Closed,
    Connected,
    Disconnected,
    Events,
    LeaderChanged,
    SignedIn,
    SignedOut,
)
from windsprite.retries import RESEND
from windsprite.session import Session
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.cluster import ClusterMetadata, GetClusterMetadata
from windsprite_protocol.model.groups import JoinConsumerGroup
from windsprite_protocol.v0_11.calling import EvictedError, RemoteError

logger = logging.getLogger("windsprite")

LOGIN_PATIENCE: Final = 5.0
"""Seconds after which a server that cannot log us in now is left for another one.

One that does not answer is left after a share of the `request_timeout`, not before.
"""

CLOSE_TIMEOUT: Final = 1.0
"""Seconds that closing a socket may take."""

_NOT_NOW: Final = frozenset({ErrorCode.TRANSIENT_NOT_COMMITTED, ErrorCode.TRANSIENT_NOT_ACCEPTED})


class _Unusable(Exception):  # noqa: N818 - internal; says what a server is
    """A server cannot be used now; another one may be better."""

    def __init__(self, reason: WindspriteError) -> None:
        super().__init__(str(reason))
        self.reason = reason


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
        self._credentials = address.credentials
        self._environment = environment
        self._tls = tls
        self._events = events
        self._roster = Roster(address.endpoints, address.options.reestablish_after)
        self._backoff = Backoff(
            address.options.reconnection_interval, address.options.reconnection_max_interval
        )
        self._session: Session | None = None
        self._task: asyncio.Task[Session] | None = None
        self._left: Session | None = None
        """The session from which a task may move; it is in use meanwhile."""
        self._is_lost_meanwhile = False
        """Whether the session was lost while a task was at work."""
        self._found_at = 0.0
        """When a task ended last: all of them look for the leader."""
        self._last_leader: Endpoint | None = None
        self._failures: dict[Endpoint, WindspriteError] = {}
        self._was_connected = False
        self._closed = False
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def can_log_in(self) -> bool:
        """Whether a lost session can be replaced without the caller."""
        return self._credentials is not None

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
        return self._roster.metadata

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
                self._start(self._establish())
            try:
                await self._task_ends(deadline)
            except TimeoutError:
                raise self._connection_failed() from None

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
            self._start(self._move(session))
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
                raise self._connection_failed() from None
        self._check_open()
        self._start(self._log_in_again(credentials))
        await self.session(deadline)

    def log_out(self) -> None:
        """Take note that the server ended the session at our wish; the connection stays."""
        self._credentials = None
        if self._session is not None:
            self._session.logged_in = None
        self._events.emit(SignedOut())

    def drop(self, session: Session) -> None:
        """Close a session that is of no use any more."""
        session.connection.close()

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

    def _start(self, work: Coroutine[Any, Any, Session]) -> None:
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
        self._was_connected = True
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
            self._start(self._establish())

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

    def _close(self, connection: Connection) -> None:
        connection.close()
        task = asyncio.create_task(connection.wait_closed(CLOSE_TIMEOUT))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _join(self, work: Coroutine[Any, Any, Session]) -> Session:
        """Do the work, and join the groups again if a new session comes of it.

        What a server refuses now, the next poll for the group asks for again.
        """
        session = await work
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
        """Dial the servers, pass after pass, until one of them is good."""
        retries = self._options.reconnection_retries
        self._failures.clear()
        failed_passes = 0
        while retries is None or failed_passes <= retries:
            # Only the very first pass comes at once: nobody else starts at the same moment.
            waits = failed_passes if self._was_connected else failed_passes - 1
            if waits >= 0:
                await self._sleep(self._backoff.wait(waits, self._environment.uniform))
            session = await self._one_pass()
            if session is not None:
                return session
            failed_passes += 1
        raise self._connection_failed()

    async def _one_pass(self) -> Session | None:
        errors: list[WindspriteError] = []
        now = self._environment.monotonic()
        plan = self._roster.plan(now, self._environment.shuffled)
        for candidate in plan:
            await self._sleep(candidate.not_before - self._environment.monotonic())
            try:
                session = await self._open(candidate, others=len(plan) - 1)
                return await self._settle(session)
            except _Unusable as error:
                logger.info("cannot use %s: %s", candidate.endpoint, error.reason)
                errors.append(error.reason)
                self._failures[candidate.endpoint] = error.reason
        if all(isinstance(error, IncompatibleServer | ProtocolViolation) for error in errors):
            raise errors[0]
        return None

    async def _move(self, session: Session) -> Session:
        """Look for the leader from a session that exists."""
        try:
            found = await self._settle(session)
        except _Unusable as error:
            if session.connection.lost is not None:
                return await self._establish()
            self._warn_of_staying(session, f"the leader cannot be used: {error.reason}")
            return session
        if found is session:
            return session
        deadline = self._environment.monotonic() + self._options.request_timeout
        try:
            await session.connection.places.clear(deadline)
        except TimeoutError:
            self._warn_of_staying(session, "a request is in doubt")
            self._close(found.connection)
            return session
        except BaseException:
            self._close(found.connection)
            raise
        return found

    async def _log_in_again(self, credentials: Credentials) -> Session:
        before, self._credentials = self._credentials, credentials
        try:
            if self._session is None:
                return await self._establish()
            here = self._session.location
            try:
                session = await self._open(Candidate(here.dialled, here.node_id), others=0)
                return await self._settle(session)
            except _Unusable:
                return await self._establish()
        except (AuthenticationError, InvalidRequest):
            self._credentials = before
            raise

    # --- One server ----------------------------------------------------------------------------

    async def _open(self, candidate: Candidate, *, others: int) -> Session:
        """Dial a server and log in there; `others` may be better if it is of no use now."""
        endpoint = candidate.endpoint
        self._roster.doubt(endpoint)
        holder: list[Connection] = []
        try:
            connection = await open_connection(
                endpoint,
                self._environment,
                time_limit=self._options.dial_timeout,
                patience=self._options.request_timeout,
                max_reply_size=self._options.max_reply_size,
                tls=self._tls,
                tls_domain=self._options.tls_domain,
                on_lost=lambda reason: self._lost(holder[0], reason) if holder else None,
            )
        except OSError as error:
            reason = ConnectionFailed(f"cannot connect to {endpoint}: {error}")
            raise _Unusable(reason) from error
        holder.append(connection)
        self._roster.connected(endpoint, self._environment.monotonic())
        location = Location(endpoint, connection.peer, candidate.node_id)
        session = Session(connection, location, self._environment)
        try:
            if self._credentials is not None:
                await self._log_in(session, self._credentials, others)
        except BaseException:
            self._close(connection)
            raise
        self._roster.trust(endpoint)
        return session

    async def _log_in(self, session: Session, credentials: Credentials, others: int) -> None:
        """Log in; where the server cannot do it now, the same bytes are sent again for a while."""
        start = self._environment.monotonic()
        time_limit = patience = self._options.request_timeout
        if others:
            patience = min(time_limit, LOGIN_PATIENCE)
            time_limit = max(patience, time_limit / (1 + others))
        deadline, patience_ends = start + time_limit, start + patience
        prepared = session.prepare_login(credentials)
        repeats = 0
        while True:
            try:
                await session.log_in(prepared, deadline)
            except Broken as broken:
                raise _Unusable(broken.reason) from broken
            except EvictedError as eviction:
                raise _refused_login(eviction.code, str(eviction)) from eviction
            except RemoteError as error:
                pause = RESEND.wait(repeats, self._environment.uniform)
                out_of_time = self._environment.monotonic() + pause >= patience_ends
                if error.code not in _NOT_NOW or out_of_time:
                    raise _refused_login(error.code, str(error)) from error
                repeats += 1
                await self._sleep(pause)
            else:
                return

    async def _settle(self, session: Session) -> Session:
        """Move to the leader, at most a few times in a row (spec 07, 6).

        Raises:
            _Unusable: The connection broke; the session is closed.
        """
        if session.logged_in is None:
            return session
        hops = 0
        patience_ends = self._environment.monotonic() + LEADER_WAIT
        try:
            while (decision := await self._decide(session, hops)) is not None:
                if isinstance(decision, WaitForLeader):
                    if self._environment.monotonic() >= patience_ends:
                        self._warn_of_staying(session, "nobody leads")
                        return session
                    await self._sleep(LEADER_POLL_INTERVAL)
                    continue
                hops += 1
                target = Candidate(decision.endpoint, decision.node_id)
                try:
                    at_leader = await self._open(target, others=1)
                except _Unusable as error:
                    self._warn_of_staying(session, f"the leader cannot be used: {error.reason}")
                    return session
                self._leave(session)
                session = at_leader
        except BaseException:
            self._leave(session)
            raise
        return session

    async def _decide(self, session: Session, hops: int) -> Redirect | WaitForLeader | None:
        """What to do about the leader; None: stay."""
        metadata = await self._read_metadata(session)
        if metadata is None:
            return None
        if metadata.trailer_error is not None:
            place = session.location.dialled
            logger.warning("%s tells of its cluster: %s", place, metadata.trailer_error)
        last_seen = self._roster.last_seen
        decision = decide(metadata, session.location, hops=hops, last_seen=last_seen)
        self._roster.learn(metadata)
        self._tell_of_leader(self._roster.leader)
        if not isinstance(decision, Stay):
            return decision
        if decision.reason not in {StayReason.ONLY_NODE, StayReason.AT_LEADER}:
            self._warn_of_staying(session, decision.reason.value)
        return None

    def _tell_of_leader(self, leader: Endpoint | None) -> None:
        """Tell of a new leader; between two of them there may be none for a while."""
        if leader is None:
            return
        if self._last_leader not in {None, leader}:
            self._events.emit(LeaderChanged(str(leader)))
        self._last_leader = leader

    def _warn_of_staying(self, session: Session, reason: str) -> None:
        logger.warning("staying with %s: %s", session.location.dialled, reason)

    def _leave(self, session: Session) -> None:
        """Close a session, unless it is the one in use: that one is closed when it is replaced."""
        if session is not self._session:
            self._close(session.connection)

    async def _read_metadata(self, session: Session) -> ClusterMetadata | None:
        """What the server says about the cluster; None if it says nothing that can be used."""
        deadline = self._environment.monotonic() + self._options.request_timeout
        try:
            metadata: ClusterMetadata = await session.exchange(
                session.prepare(GetClusterMetadata()), deadline
            )
        except RemoteError as error:
            logger.warning("no cluster metadata from %s: %s", session.location.dialled, error)
            return None
        except EvictedError as eviction:
            raise _Unusable(error_of(eviction.code, "reading the cluster metadata")) from eviction
        except Broken as broken:
            if session.connection.lost is None:
                logger.warning(
                    "no cluster metadata from %s: %s", session.location.dialled, broken.reason
                )
                return None
            raise _Unusable(broken.reason) from broken
        if metadata.leader_epoch is not None:
            # It is a Windsprite server (spec 09, 2), which answers requests in their order.
            session.connection.places.limit = self._options.max_in_flight
        return metadata

    async def _sleep(self, seconds: float) -> None:
        if seconds > 0:
            await self._environment.sleep(seconds)

    def _connection_failed(self) -> ConnectionFailed:
        attempts = [(str(place), error.sentence) for place, error in self._failures.items()]
        tried = "; ".join(
            sentence if place in sentence else f"{place}: {sentence}"
            for place, sentence in attempts
        )
        return ConnectionFailed(
            tried or "cannot connect: no server answered in time", attempts=attempts
        )


def _refused_login(code: ErrorCode, sentence: str) -> Exception:
    """What a refused login means: the end, or that another server may be better."""
    error = error_of(code, "login refused", sentence)
    if isinstance(error, AuthenticationError | InvalidRequest):
        return error
    return _Unusable(error)
