"""Calls: one request from its first attempt to its answer, over as many sessions as it takes.

Several calls are under way at a time; which ones, `windsprite.order` says. Each of them takes a
place on the connection (`windsprite.places`) for every attempt, and follows its own course
(`windsprite.retries`).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

from windsprite.address import Address, Credentials
from windsprite.connection import Broken
from windsprite.environment import Environment
from windsprite.errors import ConnectionLost, RequestTimedOut, WindspriteError
from windsprite.events import Events
from windsprite.link import Link
from windsprite.order import Order, Rank, Turn, Whole, rank_of
from windsprite.retries import (
    Course,
    Done,
    Fail,
    FindLeader,
    Reconnect,
    Resend,
    Safety,
    Step,
)
from windsprite.session import Prepared, Request, Session
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.generation import Plane
from windsprite_protocol.model.identifiers import PollingKind
from windsprite_protocol.model.messages import PollMessages
from windsprite_protocol.model.sessions import Logout
from windsprite_protocol.model.system import Ping
from windsprite_protocol.v0_11.calling import EvictedError, RemoteError
from windsprite_protocol.v0_11.table import GENERATION

logger = logging.getLogger("windsprite")

_NO_TIME: Final = 0.001
"""Seconds for which the heartbeat does not wait: less than clocks and timers differ by."""


def safety_of(request: Request) -> Safety:
    """What a repeat of a request can do.

    A poll of the next messages that commits is no mere read: if its answer is lost, a repeat gets
    the messages after those, and nobody ever sees the lost ones.
    """
    if isinstance(request, PollMessages):
        moves_on = request.auto_commit and request.strategy.kind is PollingKind.NEXT
        return Safety.WRITE if moves_on else Safety.READ
    plane = GENERATION.of(type(request)).plane
    return Safety.READ if plane in {Plane.READ, Plane.SESSION} else Safety.WRITE


class Caller:
    """Carries out requests on a link, and keeps it alive.

    Args:
        address: Where to start, who we are, how to behave.
        environment: Clock, timers and randomness.
        tls: How to speak TLS; None: plain TCP.
        events: Is told what happens to the connection.
    """

    def __init__(
        self,
        address: Address,
        environment: Environment,
        tls: ssl.SSLContext | None,
        events: Events,
    ) -> None:
        self.link = Link(address, environment, tls, events)
        self._options = address.options
        self._environment = environment
        self._order = Order()
        self._heartbeat: asyncio.Task[None] | None = None

    async def connect(self, time_limit: float | None = None) -> None:
        """Get the first session, and start the heartbeat.

        Args:
            time_limit: Seconds for all of it; None: the client's `connect_timeout`.

        Raises:
            As `Link.session`.
        """
        if time_limit is None:
            time_limit = self._options.connect_timeout
        deadline = self._environment.monotonic() + time_limit
        await self.link.session(deadline)
        if self._heartbeat is None:
            self._heartbeat = asyncio.create_task(self._beat(), name="windsprite-heartbeat")

    async def close(self) -> None:
        """End everything; nothing of it is left when this returns."""
        if self._heartbeat is not None:
            self._heartbeat.cancel()
            await asyncio.wait({self._heartbeat})
        await self.link.close()

    async def call(
        self,
        request: Request,
        doing: str,
        *,
        time_limit: float | None = None,
        safety: Safety | None = None,
        rank: Rank | None = None,
        session: int | None = None,
    ) -> Any:  # noqa: ANN401 - the reply of the request
        """Carry out a request.

        Args:
            request: A request of `windsprite_protocol.model`.
            doing: What it is, for error messages.
            time_limit: Seconds for all of it; None: the client's `request_timeout`.
            safety: What a repeat can do; None: what `safety_of` says.
            rank: Which other calls it has to wait for; None: what `rank_of` says.
            session: The only session that it is sent in, by its number; None: any.

        Raises:
            ConnectionLost: The session has ended, and it was not done.
            WindspriteError: It was not done, or nobody knows.
        """
        deadline = self.deadline(time_limit)
        async with self._my_turn(rank or rank_of(request), deadline, doing):
            course = self._course(
                safety or safety_of(request), doing, can_log_in=self.link.can_log_in
            )
            return await self._carry_out(request, course, deadline, session)

    async def log_in(self, credentials: Credentials, time_limit: float | None = None) -> None:
        """Become somebody else, while no other call is under way.

        Raises:
            As `Link.log_in`.
        """
        deadline = self.deadline(time_limit)
        async with self._my_turn(Whole.BARRIER, deadline, "login"):
            await self.link.log_in(credentials, deadline)

    async def log_out(self, time_limit: float | None = None) -> None:
        """End the session; the connection stays."""
        deadline = self.deadline(time_limit)
        async with self._my_turn(Whole.BARRIER, deadline, "logout"):
            course = self._course(Safety.READ, "logout", can_log_in=False)
            await self._carry_out(Logout(), course, deadline)
            self.link.log_out()

    def deadline(self, time_limit: float | None) -> float:
        """When a call that begins now is over, in seconds; None: after the `request_timeout`."""
        if time_limit is None:
            time_limit = self._options.request_timeout
        return self._environment.monotonic() + time_limit

    # --- Inside ------------------------------------------------------------------------------

    async def _carry_out(
        self, request: Request, course: Course, deadline: float, only_in: int | None = None
    ) -> Any:  # noqa: ANN401 - the reply of the request
        """Try on one session after the other until the request is answered."""
        while True:
            session = await self._session(course, deadline)
            if only_in is not None and only_in != self.link.session_number:
                raise course.ended(ConnectionLost("the session has ended"))
            try:
                step = await self._try_on(session, request, course, deadline)
            finally:
                session.connection.places.release(course)
            match step:
                case Done(value):
                    return value
                case FindLeader():
                    await self._find_leader(session, course, deadline)
                case Reconnect():
                    session.connection.close()

    async def _try_on(
        self, session: Session, request: Request, course: Course, deadline: float
    ) -> Done | FindLeader | Reconnect | None:
        """Send the same bytes until there is an answer, or nothing more to be had here.

        Returns:
            What comes next; None: the session is gone, and nothing of it concerns this request.
        """
        prepared: Prepared | None = None
        places = session.connection.places
        while True:
            has_place = await self._take_place(session, course, deadline)
            if not has_place and (prepared is None or not course.in_doubt):
                return None
            step: Step
            if has_place:
                if prepared is None or (not course.in_doubt and session.is_behind(prepared)):
                    prepared = self._prepare(session, request)
                step = await self._attempt(session, prepared, course, deadline)
            else:
                reason = session.connection.lost or ConnectionLost("the connection is closed")
                step = course.broken(reason, sent=False)
            match step:
                case Fail(error):
                    raise error
                case Resend(pause):
                    if course.in_doubt:
                        places.hold(course)
                    if self._environment.monotonic() + pause >= deadline:
                        raise course.expired(waiting_for_answer=False)
                    await self._environment.sleep(pause)
                case _:
                    return step

    async def _take_place(self, session: Session, course: Course, deadline: float) -> bool:
        """Wait until it may be sent; False if the session is gone."""
        if self._environment.monotonic() < deadline:
            try:
                return await session.connection.places.take(course, deadline)
            except TimeoutError:
                pass
        raise course.expired(waiting_for_answer=False)

    def _prepare(self, session: Session, request: Request) -> Prepared:
        """Encode a request for the place that was taken."""
        try:
            return session.prepare(request)
        except BaseException:
            session.connection.places.give_back()
            raise

    async def _attempt(
        self, session: Session, prepared: Prepared, course: Course, deadline: float
    ) -> Step:
        """Send a request once on the place that was taken, and judge what comes of it."""
        try:
            return Done(await session.exchange_on_place(prepared, deadline))
        except Broken as broken:
            if isinstance(broken.reason, RequestTimedOut):
                return Fail(course.expired(waiting_for_answer=broken.sent))
            return course.broken(broken.reason, sent=broken.sent)
        except RemoteError as error:
            now = self._environment.monotonic()
            # Of a number that nobody knows here, only its own text tells which one it is.
            sentence = str(error) if error.code is ErrorCode.ERROR else ""
            return course.refused(error.code, executed=error.executed, now=now, sentence=sentence)
        except EvictedError as error:
            now = self._environment.monotonic()
            return course.refused(error.code, executed=False, now=now)

    async def _session(self, course: Course, deadline: float) -> Session:
        try:
            return await self.link.session(deadline)
        except WindspriteError as error:
            raise course.ended(error)  # noqa: B904 - it is this error, or has it as its cause

    async def _find_leader(self, session: Session, course: Course, deadline: float) -> None:
        """Have the leader looked for; others go on meanwhile."""
        try:
            await self.link.find_leader(session, deadline)
        except TimeoutError:
            raise course.expired(waiting_for_answer=False) from None
        except WindspriteError as error:
            raise course.ended(error)  # noqa: B904 - it is this error, or has it as its cause

    @asynccontextmanager
    async def _my_turn(self, rank: Rank, deadline: float, doing: str) -> AsyncIterator[None]:
        turn = self._order.enter(rank)
        try:
            if not turn.has_begun:
                turn.waiter = asyncio.get_running_loop().create_future()
                try:
                    async with asyncio.timeout_at(deadline):
                        await turn.waiter
                except TimeoutError:
                    raise RequestTimedOut(f"{doing}: no answer in time") from None
            yield
        finally:
            _wake(self._order.leave(turn))

    def _course(self, safety: Safety, doing: str, *, can_log_in: bool) -> Course:
        """The course of a call that begins now."""
        return Course(
            safety,
            doing,
            now=self._environment.monotonic(),
            uniform=self._environment.uniform,
            can_log_in=can_log_in,
        )

    async def _beat(self) -> None:
        """Ping a connection that nobody uses, so that both sides know that it is alive."""
        wait = interval = self._options.heartbeat_interval
        while True:
            await self._environment.sleep(wait)
            wait = interval
            session = self.link.current
            if session is None or session.connection.in_flight:
                continue
            due = session.connection.last_activity + interval - self._environment.monotonic()
            if due > _NO_TIME:
                wait = due
                continue
            try:
                await self.call(Ping(), "heartbeat")
            except WindspriteError as error:
                logger.info("heartbeat: %s", error)
            except Exception:
                logger.exception("a heartbeat failed unexpectedly")


def _wake(turns: Iterable[Turn]) -> None:
    for turn in turns:
        if turn.waiter is not None and not turn.waiter.done():
            turn.waiter.set_result(None)
