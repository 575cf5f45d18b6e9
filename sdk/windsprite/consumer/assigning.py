"""Which partitions a consumer reads: those of the topic, or those that its group gives it."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Final, Protocol

from windsprite.consumer.ledger import Ledger
from windsprite.consumer.pace import Pace
from windsprite.consumer.source import Source
from windsprite.environment import Environment
from windsprite.errors import NotFound, Unavailable
from windsprite.link import Link
from windsprite.messages import From
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.groups import GroupAssignment
from windsprite_protocol.model.identifiers import Identifier

logger = logging.getLogger("windsprite")

TOPIC_AGE: Final = 5.0
"""Seconds after which the partitions of a topic are asked for again."""

ASSIGNMENT_AGE: Final = 1.0
"""Seconds after which a member asks for its partitions again; no server says that they changed."""

ATTEMPTS: Final = 3
"""How often a member asks for its partitions if its membership ends while it does."""


class Assigning(Protocol):
    """Keeps the partitions of a ledger up to date.

    Attributes:
        due_at: When that has to be done again, in seconds.
        session: The number of the session in which the partitions may be changed; None: any.
    """

    due_at: float
    session: int | None

    @property
    def is_stale(self) -> bool:
        """Whether others may have the partitions by now: they must not be read or changed."""
        ...

    async def renew(self) -> None:
        """Ask the server.

        Raises:
            WindspriteError: The partitions cannot be had.
        """
        ...

    async def leave(self) -> None:
        """Give all of them up."""
        ...


class TopicPartitions:
    """All partitions of a topic, or some.

    Args:
        source: What is read.
        ledger: What is kept up to date.
        environment: The clock.
        chosen: The partitions; None: all.
    """

    is_stale = False
    session: int | None = None

    def __init__(
        self,
        source: Source,
        ledger: Ledger,
        environment: Environment,
        chosen: Sequence[int] | None,
    ) -> None:
        self.due_at = 0.0
        self._source = source
        self._ledger = ledger
        self._environment = environment
        self._chosen = chosen
        self._known: Sequence[int] | None = None

    async def renew(self) -> None:
        """Ask for the partitions of the topic; those that are new are read from their beginning.

        For partitions that the program has chosen, this is done only when one seems to be missing.
        """
        if self._chosen is None:
            partitions = await self._source.partitions()
            if partitions != self._known:
                start = None if self._known is None else From.first()
                self._ledger.assign(partitions, start=start)
                self._known = partitions
            self.due_at = self._environment.monotonic() + TOPIC_AGE
        elif self._known is None:
            self._ledger.assign(self._chosen)
            self._known = self._chosen
            self.due_at = math.inf
        else:
            missing = set(self._chosen).difference(await self._source.partitions())
            if missing:
                raise NotFound(
                    f"consume {self._source}: there is no partition {min(missing)}",
                    code=ErrorCode.PARTITION_NOT_FOUND,
                )
            self.due_at = math.inf

    async def leave(self) -> None:
        """Nobody else waits for them."""


class GroupPartitions:
    """The partitions of a member of a group.

    A membership ends with its session, and the partitions go to others. So nothing that was known
    before holds in a new session, nor when the group has dealt out its partitions anew.

    Args:
        source: What is read.
        group: The group.
        ledger: What is kept up to date.
        link: The session.
        environment: The clock.
        join: Whether to join, and to leave; otherwise the program does.
        create: Whether to make the group if it is missing.
        longest_pause: Seconds between two questions while there is no partition.
    """

    def __init__(
        self,
        source: Source,
        group: Identifier,
        ledger: Ledger,
        link: Link,
        environment: Environment,
        *,
        join: bool,
        create: bool,
        longest_pause: float,
    ) -> None:
        self.due_at = 0.0
        self._source = source
        self._group = group
        self._ledger = ledger
        self._link = link
        self._environment = environment
        self._join = join
        self._create = create
        self._longest_pause = longest_pause
        self._pace = Pace()
        self.session: int | None = None
        self._known: GroupAssignment | None = None
        self._has_joined = False

    @property
    def is_stale(self) -> bool:
        """Whether the session in which we heard of the partitions has ended."""
        return self._link.session_number != self.session or self._link.current is None

    async def renew(self) -> None:
        """Ask for the partitions; become a member (again) if we are none."""
        for _ in range(ATTEMPTS):
            session = self._link.session_number
            assignment, is_old = await self._ask()
            is_same = session == self._link.session_number and self._link.current is not None
            if is_same and (assignment is not None or not self._join):
                break
        else:
            raise Unavailable(f"consume {self._source}: the membership is lost time and again")
        if assignment is None:
            raise NotFound(
                f"consume {self._source}: this client is no member of the group",
                code=ErrorCode.CONSUMER_GROUP_MEMBER_NOT_FOUND,
                hint="call join_consumer_group before, or leave out join",
            )
        is_continued = is_old and session == self.session
        if assignment != self._known or not is_continued:
            logger.info("%s: the partitions are %s", self._source, list(assignment.partitions))
            self._ledger.assign(assignment.partitions, is_continued=is_continued)
        self._known, self.session = assignment, session
        now = self._environment.monotonic()
        self.due_at = now + ASSIGNMENT_AGE
        if assignment.partitions:
            self._pace.hurry()
        else:
            self._pace.found_nothing(now, min(self._longest_pause, ASSIGNMENT_AGE))
            self.due_at = self._pace.ready_at

    async def _ask(self) -> tuple[GroupAssignment | None, bool]:
        """The partitions, None if we are no member; and whether we were one before."""
        if self._has_joined or not self._join:
            assignment = await self._source.assignment(self._group)
            if assignment is not None or not self._join:
                return assignment, True
        self._has_joined = True  # or perhaps, if we are cancelled meanwhile
        await self._source.join(self._group, create=self._create)
        # It may have ended again: with the session, or with the group.
        return await self._source.assignment(self._group), False

    async def leave(self) -> None:
        """End the membership, if it is ours."""
        if self._has_joined:
            await self._source.leave(self._group)
