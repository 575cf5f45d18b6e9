"""Lets consumer groups follow what happens around them (spec 05, 11 and 13.4).

Topics change, sessions end, time passes: the members of groups have to know. What is stored for a
group that is deleted has to go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from windsprite_server.core.clock import Clock, let_sockets_be_read
from windsprite_server.core.log_setup import Logger
from windsprite_server.core.tasks import cancel_and_wait
from windsprite_server.groups.registry import GroupKey, Groups
from windsprite_server.log.errors import LogClosedError, LogError
from windsprite_server.metadata.commands import PartitionPlace
from windsprite_server.metadata.effects import (
    ConsumerGroupDeleted,
    Effect,
    PartitionsChanged,
    TopicDeleted,
    TopicPurged,
)
from windsprite_server.metadata.queries import live_partitions, places_of_topic
from windsprite_server.metadata.state import State
from windsprite_server.partitions import Partitions
from windsprite_server.session import Session


class GroupCoordinator:
    """Owns the members of all groups; a background task ends hand-offs that take too long.

    Attributes:
        groups: Who is a member of which group.
    """

    def __init__(
        self,
        state: State,
        partitions: Partitions,
        clock: Clock,
        logger: Logger,
        *,
        rebalancing_timeout: float,
    ) -> None:
        """Start nothing yet; no group has members.

        Args:
            state: Where the groups are.
            partitions: Where their offsets are.
            clock: Says when a hand-off takes too long.
            logger: Told of what failed.
            rebalancing_timeout: Seconds that a member has to commit what it was given of a
                partition that is to go to another one.
        """
        self._state = state
        self._partitions = partitions
        self._clock = clock
        self._logger = logger
        self._handoffs_began = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.groups = Groups(rebalancing_timeout, self._handoffs_began.set)

    def start(self) -> None:
        """Begin; forgets what is stored for groups whose deletion was cut short."""
        for place, topic in live_partitions(self._state):
            log = self._partitions.find(place)
            if log is not None:
                gone = [number for number in log.offsets.groups if number not in topic.groups]
                for number in gone:
                    self._forget_offsets(number, (place,))
        self._task = asyncio.create_task(self._end_handoffs(), name="consumer group hand-offs")

    async def stop(self) -> None:
        """End; members stay what they are."""
        await cancel_and_wait(self._task)

    def end_session(self, session: Session) -> None:
        """End all memberships of a session that is over."""
        self.groups.leave_all(session.client)

    def follow(self, effect: Effect) -> None:
        """Let groups follow what a metadata command has done."""
        match effect:
            case PartitionsChanged(stream_id, topic_id, partitions_count):
                self.groups.resize(stream_id, topic_id, partitions_count)
            case TopicPurged(stream_id, topic_id):
                self.groups.purge(stream_id, topic_id, self._clock.monotonic())
            case TopicDeleted(stream_id, topic_id):
                self.groups.delete_topic(stream_id, topic_id)
            case ConsumerGroupDeleted(stream_id, topic_id, group_id):
                self.groups.delete(GroupKey(stream_id, topic_id, group_id))
                stream = self._state.streams[stream_id]
                self._forget_offsets(group_id, places_of_topic(stream, stream.topics[topic_id]))

    def _forget_offsets(self, group_id: int, places: Iterable[PartitionPlace]) -> None:
        """Delete what is stored for a group that is gone.

        Nobody can ask for it any more, but it would hold back the removal of old messages. What the
        disk does not let go of now goes at the next start.
        """
        for place in places:
            log = self._partitions.find(place)
            if log is None:
                continue
            try:
                log.offsets.groups.delete(group_id)
            except LogClosedError:
                continue
            except LogError as error:
                self._logger.warning(
                    "the offset of a deleted consumer group stays for now",
                    partition=log.key.directory_name,
                    group=group_id,
                    reason=str(error),
                )

    async def _end_handoffs(self) -> None:
        while True:
            await self._handoffs_began.wait()
            self._handoffs_began.clear()
            while (deadline := self.groups.deadline) is not None:
                await self._clock.sleep(deadline - self._clock.monotonic())
                await let_sockets_be_read(self._clock)
                self.groups.finish_handoffs(self._clock.monotonic())
