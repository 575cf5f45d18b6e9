"""Calls: one request from its first attempt to its answer, over as many sessions as it takes.

Calls are carried out one after the other, in the order in which they were made, and each is
finished before the next one begins, with all its repeats. So requests of one client keep their
order whatever happens to the connection, and a move to another server never comes between a
request and its answer.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from windsprite.address import Address, Credentials
from windsprite.connection import Broken
from windsprite.environment import Environment
from windsprite.errors import RequestTimedOut, WindspriteError
from windsprite.link import Link
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
from windsprite_protocol.generation import Plane
from windsprite_protocol.model.identifiers import PollingKind
from windsprite_protocol.model.messages import PollMessages
from windsprite_protocol.model.sessions import Logout
from windsprite_protocol.model.system import Ping
from windsprite_protocol.v0_11.calling import EvictedError, RemoteError
from windsprite_protocol.v0_11.table import GENERATION

logger = logging.getLogger("windsprite")


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
    """

    def __init__(
        self, address: Address, environment: Environment, tls: ssl.SSLContext | None
    ) -> None:
        self.link = Link(address, environment, tls)
        self._options = address.options
        self._environment = environment
        self._turn = asyncio.Lock()
        self._heartbeat: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Get the first session, and start the heartbeat.

        Raises:
            As `Link.session`.
        """
        deadline = self._environment.monotonic() + self._options.connect_timeout
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
    ) -> Any:  # noqa: ANN401 - the reply of the request
        """Carry out a request.

        Args:
            request: A request of `windsprite_protocol.model`.
            doing: What it is, for error messages.
            time_limit: Seconds for all of it; None: the client's `request_timeout`.
            safety: What a repeat can do; None: what `safety_of` says.

        Raises:
            WindspriteError: It was not done, or nobody knows.
        """
        course = Course(
            safety or safety_of(request),
            doing,
            now=self._environment.monotonic(),
            uniform=self._environment.uniform,
            can_log_in=self.link.can_log_in,
        )
        deadline = self.deadline(time_limit)
        async with self._my_turn(deadline, course):
            return await self._carry_out(request, course, deadline)

    async def log_in(self, credentials: Credentials, time_limit: float | None = None) -> None:
        """Become somebody else, between two calls.

        Raises:
            As `Link.log_in`.
        """
        deadline = self.deadline(time_limit)
        course = self._trivial_course("login")
        async with self._my_turn(deadline, course):
            await self.link.log_in(credentials, deadline)

    async def log_out(self, time_limit: float | None = None) -> None:
        """End the session; the connection stays."""
        deadline = self.deadline(time_limit)
        course = self._trivial_course("logout")
        async with self._my_turn(deadline, course):
            await self._carry_out(Logout(), course, deadline)
            self.link.log_out()

    def deadline(self, time_limit: float | None) -> float:
        """When a call that begins now is over, in seconds; None: after the `request_timeout`."""
        if time_limit is None:
            time_limit = self._options.request_timeout
        return self._environment.monotonic() + time_limit

    # --- Inside ------------------------------------------------------------------------------

    async def _carry_out(self, request: Request, course: Course, deadline: float) -> Any:  # noqa: ANN401
        """Try on one session after the other until the request is answered."""
        while True:
            session = await self._session(course, deadline)
            prepared = session.prepare(request)
            match await self._try_on(session, prepared, course, deadline):
                case Done(value):
                    return value
                case FindLeader():
                    await self._find_leader(session, course, deadline)
                case Reconnect():
                    self.link.drop(session)

    async def _try_on(
        self, session: Session, prepared: Prepared, course: Course, deadline: float
    ) -> Done | FindLeader | Reconnect:
        """Send the same bytes until there is an answer, or nothing more to be had here."""
        while True:
            step = await self._attempt(session, prepared, course, deadline)
            match step:
                case Fail(error):
                    raise error
                case Resend(pause):
                    if self._environment.monotonic() + pause >= deadline:
                        raise course.expired(waiting_for_answer=False)
                    await self._environment.sleep(pause)
                case _:
                    return step

    async def _attempt(
        self, session: Session, prepared: Prepared, course: Course, deadline: float
    ) -> Step:
        """Send a request once, and judge what comes of it."""
        try:
            return Done(await session.exchange(prepared, deadline))
        except Broken as broken:
            if isinstance(broken.reason, RequestTimedOut):
                return Fail(course.expired(waiting_for_answer=broken.sent))
            return course.broken(broken.reason, sent=broken.sent)
        except RemoteError as error:
            now = self._environment.monotonic()
            return course.refused(error.code, executed=error.executed, now=now)
        except EvictedError as error:
            now = self._environment.monotonic()
            return course.refused(error.code, executed=False, now=now)

    async def _session(self, course: Course, deadline: float) -> Session:
        try:
            return await self.link.session(deadline)
        except WindspriteError as error:
            raise course.ended(error)  # noqa: B904 - it is this error, or has it as its cause

    async def _find_leader(self, session: Session, course: Course, deadline: float) -> None:
        try:
            await self.link.find_leader(session, deadline)
        except WindspriteError as error:
            raise course.ended(error)  # noqa: B904 - it is this error, or has it as its cause

    @asynccontextmanager
    async def _my_turn(self, deadline: float, course: Course) -> AsyncIterator[None]:
        if self._turn.locked():
            try:
                async with asyncio.timeout_at(deadline):
                    await self._turn.acquire()
            except TimeoutError:
                raise course.expired(waiting_for_answer=False) from None
        else:
            await self._turn.acquire()
        try:
            yield
        finally:
            self._turn.release()

    def _trivial_course(self, doing: str) -> Course:
        return Course(
            Safety.READ,
            doing,
            now=self._environment.monotonic(),
            uniform=self._environment.uniform,
            can_log_in=False,
        )

    async def _beat(self) -> None:
        """Ping a connection that nobody uses, so that both sides know that it is alive."""
        interval = self._options.heartbeat_interval
        while True:
            await self._environment.sleep(interval)
            session = self.link.current
            if session is None or self._turn.locked():
                continue
            if self._environment.monotonic() - session.connection.last_activity < interval:
                continue
            try:
                await self.call(Ping(), "heartbeat")
            except WindspriteError as error:
                logger.info("heartbeat: %s", error)
            except Exception:
                logger.exception("a heartbeat failed unexpectedly")
