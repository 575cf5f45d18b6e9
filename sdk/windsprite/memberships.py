"""The consumer groups a client belongs to, and the partitions it polls for them (spec 05; 07, 8.2).

A membership belongs to a session and ends with it; the partitions then go to other members. So a
client remembers what it has joined. Each new session begins by joining again (see `Link`); and if
a poll finds that the membership is gone nevertheless, the client joins once more.

No server says when the partitions of a member change. The client asks for them

- when a poll is turned away: somebody else has the partition now;
- when it has no partition, at every poll;
- when it asked long ago, or in an earlier session: it may have more partitions by now.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from windsprite.caller import Caller
from windsprite.environment import Environment
from windsprite.errors import NotFound, PartitionNotOwned, RequestTimedOut
from windsprite.retries import Safety
from windsprite.session import Request
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.groups import (
    GroupAssignment,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    SyncConsumerGroup,
)
from windsprite_protocol.model.messages import NO_PARTITION, PolledMessages, PollMessages

ATTEMPTS: Final = 2
"""How many partitions a poll tries while it is turned away."""

NOTHING: Final = PolledMessages(NO_PARTITION, 0, 0, ())
"""What a member gets that has no partition to poll."""


Group: TypeAlias = JoinConsumerGroup
"""A group as the caller names it: under another name or number the same one counts as another."""


@dataclass(slots=True)
class Rotation:
    """The partitions of a member, which it polls by turns.

    Attributes:
        assignment: The partitions, as a server told them.
        session: The number of the session in which it did.
        told_at: When it did, in seconds.
        turn: How many turns there were since the partitions changed.
    """

    assignment: GroupAssignment
    session: int
    told_at: float
    turn: int = 0

    def next(self) -> int | None:
        """The partition whose turn it is; None if there is no partition."""
        partitions = self.assignment.partitions
        if not partitions:
            return None
        partition = partitions[self.turn % len(partitions)]
        self.turn += 1
        return partition

    def is_fresh(self, session: int, now: float, max_age: float) -> bool:
        """Whether it need not be asked for again."""
        is_young = self.session == session and now - self.told_at < max_age
        return is_young and bool(self.assignment.partitions)

    def follow(self, before: Rotation) -> None:
        """Go on with the turns of an earlier answer, unless the partitions have changed since."""
        if self.assignment == before.assignment:
            self.turn = before.turn


class Memberships:
    """The groups a client belongs to.

    Args:
        caller: Carries out requests.
        environment: The clock.
        max_age: Seconds after which a member asks for its partitions again.
    """

    def __init__(self, caller: Caller, environment: Environment, max_age: float) -> None:
        self._caller = caller
        self._environment = environment
        self._max_age = max_age
        self._joins = caller.link.joins
        self._rotations: dict[Group, Rotation] = {}

    async def join(self, group: Group, doing: str, deadline: float | None = None) -> None:
        """Become a member, and remember it.

        Raises:
            WindspriteError: The client is no member, or nobody knows; it is not remembered.
        """
        # Whoever is a member stays one: this may be repeated at will.
        await self._call(group, doing, deadline, Safety.READ)
        self._joins[group] = None
        self._rotations.pop(group, None)

    async def leave(self, group: Group, doing: str, deadline: float | None = None) -> None:
        """End a membership, and forget it in any case.

        Raises:
            NotFound: The client is no member, and had not joined either.
        """
        was_joined = self.forget(group)
        request = LeaveConsumerGroup(group.stream, group.topic, group.group)
        try:
            await self._call(request, doing, deadline, Safety.READ)
        except NotFound as error:
            # Its session ended meanwhile, or an earlier attempt has done it.
            if not was_joined or error.code is not ErrorCode.CONSUMER_GROUP_MEMBER_NOT_FOUND:
                raise

    def forget(self, group: Group) -> bool:
        """Do not join again; returns whether the client had joined."""
        self._rotations.pop(group, None)
        was_joined = group in self._joins
        self._joins.pop(group, None)
        return was_joined

    def forget_all(self) -> None:
        """Do not join anything again."""
        self._rotations.clear()
        self._joins.clear()

    async def sync(
        self, group: Group, doing: str, deadline: float | None = None
    ) -> GroupAssignment | None:
        """Ask which partitions the member may poll; None if the client is no member."""
        request = SyncConsumerGroup(group.stream, group.topic, group.group)
        assignment: GroupAssignment | None = await self._call(request, doing, deadline)
        before = self._rotations.pop(group, None)
        if assignment is not None:
            now, session = self._environment.monotonic(), self._caller.link.session_number
            rotation = self._rotations[group] = Rotation(assignment, session, now)
            if before is not None:
                rotation.follow(before)
        return assignment

    async def poll(
        self, group: Group, poll: PollMessages, doing: str, deadline: float
    ) -> PolledMessages:
        """Poll as a member.

        Args:
            group: Of which group.
            poll: What to poll; without a partition, the next one of those that the member has.
            doing: What it is, for error messages.
            deadline: When it has to be over, in seconds.

        Returns:
            `NOTHING` if no partition could be polled.

        Raises:
            NotFound: The client is no member.
            PartitionNotOwned: The partition that was asked for belongs to another member.
        """
        if poll.partition_id is not None:
            return await self._poll_partition(group, poll, poll.partition_id, doing, deadline)
        for _ in range(ATTEMPTS):
            rotation = self._rotations.get(group)
            if rotation is None or not rotation.is_fresh(
                self._caller.link.session_number, self._environment.monotonic(), self._max_age
            ):
                rotation = await self._renew(group, doing, deadline)
            partition = rotation.next()
            if partition is None:
                return NOTHING
            polled = await self._try(replace(poll, partition_id=partition), doing, deadline)
            if polled is not None:
                return polled
            self._rotations.pop(group, None)
        return NOTHING

    async def _poll_partition(
        self, group: Group, poll: PollMessages, partition: int, doing: str, deadline: float
    ) -> PolledMessages:
        polled = await self._try(poll, doing, deadline)
        if polled is None:
            rotation = await self._renew(group, doing, deadline)
            if partition in rotation.assignment.partitions:
                polled = await self._try(poll, doing, deadline)
        if polled is None:
            raise PartitionNotOwned(
                f"{doing}: partition {partition} is not one of this member's",
                code=ErrorCode.CONSUMER_GROUP_PARTITION_NOT_OWNED,
            )
        return polled

    async def _try(self, poll: PollMessages, doing: str, deadline: float) -> PolledMessages | None:
        """Poll a partition; None if the server turns the member away."""
        try:
            polled: PolledMessages = await self._call(poll, doing, deadline)
        except PartitionNotOwned:
            return None
        return None if polled.partition_id == NO_PARTITION else polled

    async def _renew(self, group: Group, doing: str, deadline: float) -> Rotation:
        """Ask for the partitions; join again if a membership that should be there is not."""
        if await self.sync(group, doing, deadline) is None:
            if group in self._joins:
                await self.join(group, doing, deadline)
                await self.sync(group, doing, deadline)
            if group not in self._rotations:
                raise NotFound(
                    f"{doing}: this client is no member of the group {group.group!r}",
                    code=ErrorCode.CONSUMER_GROUP_MEMBER_NOT_FOUND,
                    hint="call join_consumer_group before",
                )
        return self._rotations[group]

    async def _call(
        self,
        request: Request,
        doing: str,
        deadline: float | None,
        safety: Safety | None = None,
    ) -> Any:  # noqa: ANN401 - the reply of the request
        time_limit = None
        if deadline is not None:
            time_limit = deadline - self._environment.monotonic()
            if time_limit <= 0:
                raise RequestTimedOut(f"{doing}: no answer in time")
        return await self._caller.call(request, doing, time_limit=time_limit, safety=safety)
