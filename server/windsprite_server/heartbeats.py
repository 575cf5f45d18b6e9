"""Ends the sessions of group members that say nothing any more (spec 01, 7.3; spec 05, 5.4).

Their partitions go to members that are alive. Whoever is no member of a group may be silent as long
as it likes.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from windsprite_protocol.model.sessions import EvictionReason
from windsprite_server.core.clock import Clock, let_sockets_be_read
from windsprite_server.core.log_setup import Logger
from windsprite_server.core.tasks import cancel_and_wait, repeat
from windsprite_server.session import Sessions

_PATIENCE: Final = 1.2
"""So many intervals may pass without a request."""


class Memberships(Protocol):
    """Who is a member of consumer groups; `groups.registry.Groups` is one."""

    def is_member(self, client: bytes) -> bool:
        """Whether a client is a member of any group."""
        ...


class Heartbeats:
    """A background task that looks at all connections once per interval."""

    def __init__(
        self,
        sessions: Sessions,
        memberships: Memberships,
        clock: Clock,
        logger: Logger,
        *,
        interval: float,
    ) -> None:
        """Start nothing yet.

        Args:
            sessions: All connections, and when each of them was heard.
            memberships: Says whose silence matters.
            clock: Its time never goes backwards and does not follow the wall clock.
            logger: Told of sessions that are ended.
            interval: Seconds from one look to the next. Silence of 1.2 intervals is too long, so a
                session ends after less than 2.2 of them.
        """
        self._sessions = sessions
        self._memberships = memberships
        self._clock = clock
        self._logger = logger
        self._interval = interval
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; the first look comes after one interval."""
        self._task = repeat(
            self._look,
            self._interval,
            name="heartbeats",
            clock=self._clock,
            logger=self._logger,
            failure="silent clients could not be looked for",
        )

    async def stop(self) -> None:
        """End; sessions stay what they are."""
        await cancel_and_wait(self._task)

    async def _look(self) -> None:
        await let_sockets_be_read(self._clock)
        self.check()

    def check(self) -> None:
        """End the sessions of members that were silent for too long.

        Their connections stay open; whatever still comes on them comes from nobody.
        """
        now = self._clock.monotonic()
        for connection in tuple(self._sessions):
            session = connection.session
            silence = now - connection.heard_at
            if (
                session is None
                or silence <= _PATIENCE * self._interval
                or not self._memberships.is_member(session.client)
            ):
                continue
            self._sessions.unbind(connection)
            connection.tell_evicted(session, EvictionReason.STALE_CLIENT)
            self._logger.info(
                "a silent member of consumer groups was logged out",
                connection=connection.number,
                peer=connection.peer,
                silence=round(silence, 1),
            )
