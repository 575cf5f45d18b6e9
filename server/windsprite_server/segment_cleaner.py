"""Removes segments that nobody wants to keep, again and again (spec 03, 6).

What is to be removed follows from the options of topics and from requests of clients; what may be
removed, from the offsets that consumers have stored. A client's request is in force until it could
be carried out, so partitions that owe it something are looked at more often than all others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from typing import Final

from windsprite_protocol.model.topics import NEVER_EXPIRES, UNLIMITED_SIZE
from windsprite_server.core.clock import Clock
from windsprite_server.core.log_setup import Logger
from windsprite_server.core.tasks import cancel_and_wait, repeat
from windsprite_server.log.errors import LogClosedError, LogError
from windsprite_server.log.partition import REMOVALS_MAX, PartitionLog
from windsprite_server.log.retention import size_budget
from windsprite_server.metadata.commands import PartitionPlace
from windsprite_server.metadata.queries import find_partition
from windsprite_server.metadata.state import State, Topic
from windsprite_server.partitions import Partitions

_SEGMENTS_IN_ONE_GO: Final = 128
_SECONDS_BETWEEN_ATTEMPTS: Final = 1.0
_SUDDEN: Final = 60 * 1_000_000
"""Microseconds that the clock may be set forward without making expiry wait."""


class SegmentCleaner:
    """Background tasks that look at all partitions whose topics limit what is kept."""

    def __init__(
        self,
        state: State,
        partitions: Partitions,
        clock: Clock,
        logger: Logger,
        *,
        interval: float | None,
        max_frame_size: int,
    ) -> None:
        """Start nothing yet.

        Args:
            state: Where the topics are.
            partitions: Their logs.
            clock: Says what has expired, and when it is time to look again.
            logger: Told of what was removed, and of what failed.
            interval: Seconds from the end of one look at all partitions to the next; `None`: only
                requests of clients are carried out.
            max_frame_size: Bytes of the largest request a client may send: that much, and one
                segment, a partition may always keep.
        """
        self._state = state
        self._partitions = partitions
        self._clock = clock
        self._logger = logger
        self._interval = interval
        self._max_frame_size = max_frame_size
        self._tasks: list[asyncio.Task[None]] = []
        self._owing: set[PartitionLog] = set()
        self._is_owing = asyncio.Event()
        self._failing: set[PartitionLog] = set()
        self._last_look = clock.now_us(), clock.monotonic()

    def start(self) -> None:
        """Begin; the first look at all partitions comes after one interval."""
        for log in self._partitions:
            self._note(log)
        self._tasks.append(asyncio.create_task(self._settle_regularly(), name="segment requests"))
        if self._interval is not None:
            cleaning = repeat(
                self._clean_up,
                self._interval,
                name="segment cleaner",
                clock=self._clock,
                logger=self._logger,
                failure="segments could not be looked at",
            )
            self._tasks.append(cleaning)

    async def stop(self) -> None:
        """End; files whose removal has begun are still removed."""
        await cancel_and_wait(*self._tasks)

    async def delete_segments(self, log: PartitionLog, segments_count: int) -> None:
        """Have the oldest sealed segments of a log removed (spec 03, 4.15).

        At once, as far as consumers and the disk let it, and the others once they do.

        Raises:
            LogUnavailableError: The disk refused; nothing will be removed.
            LogFailedError: No more writes until restart.
            LogClosedError: The partition was removed.
        """
        await log.request_removal(segments_count)
        await self._settle(log)

    async def clean(self) -> int:
        """Look at all partitions once; what fails for one does not keep it from the others.

        Returns:
            How many segments were removed.
        """
        may_expire = not self._was_set_forward()
        removed = seen = 0
        for place in self._limited_places():
            log = self._partitions.find(place)
            if log is not None:
                seen += log.segments_count
                removed += await self._clean(place, log, may_expire=may_expire)
            if seen > _SEGMENTS_IN_ONE_GO:
                seen = 0
                await self._clock.sleep(0)
        self._failing = set(filter(self._partitions.holds, self._failing))
        return removed

    async def settle(self) -> None:
        """Carry out what clients asked for and what consumers held back, as far as it goes now."""
        for log in list(self._owing):
            await self._settle(log)
            await self._clock.sleep(0)
        self._owing = {
            log for log in self._owing if log.owes_removals and self._partitions.holds(log)
        }
        if not self._owing:
            self._is_owing.clear()

    async def _clean_up(self) -> None:
        if removed := await self.clean():
            self._logger.info("segments were removed", count=removed)

    async def _settle_regularly(self) -> None:
        while True:
            await self._is_owing.wait()
            await self._clock.sleep(_SECONDS_BETWEEN_ATTEMPTS)
            await self.settle()

    def _limited_places(self) -> Iterator[PartitionPlace]:
        """The partitions whose topics limit what is kept; each is looked up when it is its turn."""
        for stream_id in list(self._state.streams):
            stream = self._state.streams.get(stream_id)
            for topic_id in () if stream is None else list(stream.topics):
                for partition_id in count():
                    topic = self._topic(stream_id, topic_id)
                    if topic is None or not _is_limited(topic):
                        break
                    partition = find_partition(topic, partition_id)
                    if partition is None:
                        break
                    yield PartitionPlace(stream_id, topic_id, partition_id, partition.incarnation)

    def _topic(self, stream_id: int, topic_id: int) -> Topic | None:
        stream = self._state.streams.get(stream_id)
        return None if stream is None else stream.topics.get(topic_id)

    async def _clean(self, place: PartitionPlace, log: PartitionLog, *, may_expire: bool) -> int:
        removed = 0
        while True:
            # Looked up anew each time: what the topic wants to keep by now must not be removed.
            topic = self._topic(place.stream_id, place.topic_id)
            if topic is None or not self._partitions.holds(log):
                return removed
            expiry = topic.message_expiry if may_expire else NEVER_EXPIRES
            budget = size_budget(
                topic.max_topic_size,
                len(topic.partitions),
                log.options.segment_size,
                self._max_frame_size,
            )
            removed_now = await self._enforce(
                log,
                expiry_us=None if expiry == NEVER_EXPIRES else expiry,
                budget=None if topic.max_topic_size == UNLIMITED_SIZE else budget,
            )
            removed += removed_now
            if removed_now < REMOVALS_MAX:
                return removed
            await self._clock.sleep(0)

    async def _settle(self, log: PartitionLog) -> None:
        while await self._enforce(log) == REMOVALS_MAX:
            await self._clock.sleep(0)

    async def _enforce(
        self, log: PartitionLog, expiry_us: int | None = None, budget: int | None = None
    ) -> int:
        """Remove some segments of one log; a failure is told once, and tried again later."""
        try:
            removed = await log.enforce_retention(self._clock.now_us(), expiry_us, budget)
        except LogClosedError:
            return 0  # the partition was removed meanwhile
        except Exception as error:
            if log not in self._failing:
                self._failing.add(log)
                self._logger.warning(
                    "segments could not be removed; it is tried again",
                    partition=log.key.directory_name,
                    reason=str(error),
                    exc_info=None if isinstance(error, LogError) else error,
                )
            removed = 0
        else:
            self._failing.discard(log)
        self._note(log)
        return removed

    def _note(self, log: PartitionLog) -> None:
        if log.owes_removals:
            self._owing.add(log)
            self._is_owing.set()

    def _was_set_forward(self) -> bool:
        """Whether the clock went much further since the last look than time did.

        It may have been set wrong and be corrected soon. Nothing expires because of it before the
        next look, which takes it as it is.
        """
        wall_clock, elapsed = self._last_look
        self._last_look = self._clock.now_us(), self._clock.monotonic()
        passed = round((self._last_look[1] - elapsed) * 1_000_000)
        ahead = self._last_look[0] - wall_clock - passed
        if ahead > _SUDDEN:
            self._logger.warning(
                "the clock was set forward; messages expire with the next look",
                seconds=ahead // 1_000_000,
            )
        return ahead > _SUDDEN


def _is_limited(topic: Topic) -> bool:
    return topic.message_expiry != NEVER_EXPIRES or topic.max_topic_size != UNLIMITED_SIZE
