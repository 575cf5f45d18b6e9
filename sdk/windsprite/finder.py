"""Finds a server and the leader of its cluster: passes over all servers, dialling, login, metadata.

Dialling, login and the look for the leader are one unit: nobody sees a session that has not gone
through all three.

What was learnt of the servers lasts from one search to the next. Which session is in use, and who
looks when for another one, is the matter of `link`.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from typing import Final

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
    ConnectionFailed,
    IncompatibleServer,
    InvalidRequest,
    ProtocolViolation,
    WindspriteError,
    error_of,
)
from windsprite.events import Events, LeaderChanged
from windsprite.retries import NOT_NOW, RESEND
from windsprite.session import Session
from windsprite.tls import hint_of
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.cluster import ClusterMetadata, GetClusterMetadata
from windsprite_protocol.v0_11.calling import EvictedError, RemoteError

logger = logging.getLogger("windsprite")

LOGIN_PATIENCE: Final = 5.0
"""Seconds after which a server that cannot log us in now is left for another one.

One that does not answer is left after a share of the `request_timeout`, not before.
"""


class Unusable(Exception):  # noqa: N818 - internal; says what a server is
    """A server cannot be used now; another one may be better."""

    def __init__(self, reason: WindspriteError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Finder:
    """Finds a server that can be used, logs in there, and moves to the leader.

    Args:
        address: Where to start, who we are, how to behave.
        environment: Clock, timers and randomness.
        tls: How to speak TLS; None: plain TCP.
        events: Is told of new leaders.
        on_lost: Called with a connection that is gone, and the reason.
        leave: Closes a connection, unless it is that of the session in use: that one is closed
            when it is replaced.

    Attributes:
        credentials: Who we are, for the next login; None: nobody. May be changed at any time.
    """

    def __init__(
        self,
        address: Address,
        environment: Environment,
        tls: ssl.SSLContext | None,
        events: Events,
        *,
        on_lost: Callable[[Connection, WindspriteError], None],
        leave: Callable[[Connection], None],
    ) -> None:
        self.credentials = address.credentials
        self._options = address.options
        self._environment = environment
        self._tls = tls
        self._events = events
        self._on_lost = on_lost
        self._leave = leave
        self._roster = Roster(address.endpoints, address.options.reestablish_after)
        self._backoff = Backoff(
            address.options.reconnection_interval, address.options.reconnection_max_interval
        )
        self._last_leader: Endpoint | None = None
        self._failures: dict[Endpoint, WindspriteError] = {}

    @property
    def metadata(self) -> ClusterMetadata | None:
        """What was last heard of the cluster."""
        return self._roster.metadata

    async def find(self, *, at_once: bool) -> Session:
        """Dial the servers, pass after pass, until one of them is good.

        Args:
            at_once: Whether the first pass comes at once, not after a random time as all others.

        Raises:
            ConnectionFailed: None was, in as many passes as there may be.
            AuthenticationError, InvalidRequest: A server refused the login.
            IncompatibleServer, ProtocolViolation: All servers that were reached are of this kind.
        """
        retries = self._options.reconnection_retries
        self._failures.clear()
        failed_passes = 0
        while retries is None or failed_passes <= retries:
            waits = failed_passes - 1 if at_once else failed_passes
            if waits >= 0:
                await self._sleep(self._backoff.wait(waits, self._environment.uniform))
            session = await self._one_pass()
            if session is not None:
                return session
            failed_passes += 1
        raise self.connection_failed()

    async def find_at(self, candidate: Candidate, *, others: int = 0) -> Session:
        """Log in at a server and move to the leader that it names.

        Args:
            candidate: The server.
            others: How many may be better if it is of no use now.

        Raises:
            Unusable: It is of no use now.
            AuthenticationError, InvalidRequest: It or the leader refused the login.
        """
        return await self.settle(await self._open(candidate, others=others))

    async def settle(self, session: Session) -> Session:
        """Move to the leader, at most a few times in a row (spec 07, 6).

        Raises:
            Unusable: The connection broke; the session is closed.
            AuthenticationError, InvalidRequest: The leader refused the login.
        """
        if session.logged_in is None:
            return session
        hops = 0
        patience_ends = self._environment.monotonic() + LEADER_WAIT
        try:
            while (decision := await self._decide(session, hops)) is not None:
                if isinstance(decision, WaitForLeader):
                    if self._environment.monotonic() >= patience_ends:
                        warn_of_staying(session, "nobody leads")
                        return session
                    await self._sleep(LEADER_POLL_INTERVAL)
                    continue
                hops += 1
                target = Candidate(decision.endpoint, decision.node_id)
                try:
                    at_leader = await self._open(target, others=1)
                except Unusable as error:
                    warn_of_staying(session, f"the leader cannot be used: {error.reason}")
                    return session
                self._leave(session.connection)
                session = at_leader
        except BaseException:
            self._leave(session.connection)
            raise
        return session

    def connection_failed(self) -> ConnectionFailed:
        """What went wrong in the search that began last, server by server."""
        attempts = [(str(place), error.sentence) for place, error in self._failures.items()]
        tried = "; ".join(
            sentence if place in sentence else f"{place}: {sentence}"
            for place, sentence in attempts
        )
        hints = dict.fromkeys(error.hint for error in self._failures.values() if error.hint)
        return ConnectionFailed(
            tried or "cannot connect: no server answered in time",
            attempts=attempts,
            hint="; ".join(hints),
        )

    # --- One pass ------------------------------------------------------------------------------

    async def _one_pass(self) -> Session | None:
        errors: list[WindspriteError] = []
        now = self._environment.monotonic()
        plan = self._roster.plan(now, self._environment.shuffled)
        for candidate in plan:
            await self._sleep(candidate.not_before - self._environment.monotonic())
            try:
                return await self.find_at(candidate, others=len(plan) - 1)
            except Unusable as error:
                logger.info("cannot use %s: %s", candidate.endpoint, error.reason)
                errors.append(error.reason)
                self._failures[candidate.endpoint] = error.reason
        if all(isinstance(error, IncompatibleServer | ProtocolViolation) for error in errors):
            raise errors[0]
        return None

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
                on_lost=lambda reason: self._on_lost(holder[0], reason) if holder else None,
            )
        except OSError as error:
            hint = hint_of(error.__cause__) if self._tls else ""
            reason = ConnectionFailed(f"cannot connect to {endpoint}: {error}", hint=hint)
            raise Unusable(reason) from error
        holder.append(connection)
        self._roster.connected(endpoint, self._environment.monotonic())
        location = Location(endpoint, connection.peer, candidate.node_id)
        session = Session(connection, location, self._environment)
        try:
            if self.credentials is not None:
                await self._log_in(session, self.credentials, others)
        except BaseException:
            self._leave(connection)
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
                raise Unusable(broken.reason) from broken
            except EvictedError as eviction:
                raise _refused_login(eviction.code, str(eviction)) from eviction
            except RemoteError as error:
                pause = RESEND.wait(repeats, self._environment.uniform)
                out_of_time = self._environment.monotonic() + pause >= patience_ends
                if error.code not in NOT_NOW or out_of_time:
                    raise _refused_login(error.code, str(error)) from error
                repeats += 1
                await self._sleep(pause)
            else:
                return

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
            warn_of_staying(session, decision.reason.value)
        return None

    def _tell_of_leader(self, leader: Endpoint | None) -> None:
        """Tell of a new leader; between two of them there may be none for a while."""
        if leader is None:
            return
        if self._last_leader not in {None, leader}:
            self._events.emit(LeaderChanged(str(leader)))
        self._last_leader = leader

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
            raise Unusable(error_of(eviction.code, "reading the cluster metadata")) from eviction
        except Broken as broken:
            if session.connection.lost is None:
                logger.warning(
                    "no cluster metadata from %s: %s", session.location.dialled, broken.reason
                )
                return None
            raise Unusable(broken.reason) from broken
        if metadata.leader_epoch is not None:
            # It is a Windsprite server (spec 09, 2), which answers requests in their order.
            session.connection.places.limit = self._options.max_in_flight
        return metadata

    async def _sleep(self, seconds: float) -> None:
        if seconds > 0:
            await self._environment.sleep(seconds)


def warn_of_staying(session: Session, reason: str) -> None:
    """Say why a client does not move to the leader."""
    logger.warning("staying with %s: %s", session.location.dialled, reason)


def _refused_login(code: ErrorCode, sentence: str) -> Exception:
    """What a refused login means: the end, or that another server may be better."""
    error = error_of(code, "login refused", sentence)
    if isinstance(error, AuthenticationError | InvalidRequest):
        return error
    return Unusable(error)
