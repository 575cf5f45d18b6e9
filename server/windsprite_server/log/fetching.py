"""Doing reads where they cost least: at once if all is in memory, else in a thread."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from windsprite_server.log.context import Context
from windsprite_server.log.errors import LogUnavailableError, unavailable
from windsprite_server.log.keys import PartitionKey
from windsprite_server.log.reading import ColdError, Part, Read, Source, cached_only
from windsprite_server.log.results import ReadResult
from windsprite_server.log.segment import GAPS_MAX

T = TypeVar("T")


class Fetcher:
    """Reads from the segment files of one partition.

    Belongs to one event loop.
    """

    __slots__ = ("_context", "_is_unreadable", "_key", "_reported")

    def __init__(self, context: Context, key: PartitionKey) -> None:
        self._context = context
        self._key = key
        self._is_unreadable = False
        self._reported: set[tuple[object, int]] = set()

    def fetch(
        self, parts: Sequence[Part], work: Callable[[Source, Sequence[Part]], T]
    ) -> T | Awaitable[T]:
        """Do some reading, and let go of the files afterwards.

        Args:
            parts: The segments to read from; their files are pinned.
            work: The reading; it is begun anew in a thread if it raises `ColdError` here.

        Raises:
            LogUnavailableError: The disk failed; also from the awaited.
        """
        context = self._context
        cached = cached_only(context.files, context.limits.inline_read_bytes)
        try:
            result = work(self._source(cached, may_wait=False), parts)
        except ColdError:
            pass
        except OSError as error:
            self.release(parts)
            raise self.unreadable(error, parts) from error
        else:
            self.release(parts)
            self._report(result)
            return result
        loop = asyncio.get_running_loop()
        job = context.read_pool.submit(work, self._source(context.files.read, may_wait=True), parts)
        # Not before the thread has ended: who awaits may be cancelled earlier.
        job.add_done_callback(lambda _: loop.call_soon_threadsafe(self.release, parts))
        return self._outcome(job, parts)

    def _source(self, read: Read, *, may_wait: bool) -> Source:
        context, key = self._context, self._key
        return Source(
            partition_id=key.partition_id,
            incarnation=key.incarnation,
            interval=context.limits.index_interval,
            files=context.files,
            large=context.large,
            read=read,
            may_wait=may_wait,
        )

    def release(self, parts: Sequence[Part]) -> None:
        """Let go of the files of segments."""
        context = self._context
        for part in parts:
            context.descriptors.release(part.file)
            if part.segment.index is not None and part.is_sealed:
                context.loaded_indexes.touch(part.segment)

    def unreadable(self, error: OSError, parts: Sequence[Part]) -> LogUnavailableError:
        """What to raise when the disk failed; told to the operator once, until a read succeeds.

        The files are opened anew for the next read: they may be on a disk that was mounted anew.
        """
        for part in parts:
            part.segment.close_files()
        if not self._is_unreadable:
            self._is_unreadable = True
            self._context.logger.error(
                "log_unreadable", partition=self._key.directory_name, reason=error.strerror
            )
        return unavailable("the log can't be read", error)

    async def _outcome(self, job: Future[T], parts: Sequence[Part]) -> T:
        try:
            result = await asyncio.wrap_future(job)
        except OSError as error:
            raise self.unreadable(error, parts) from error
        self._report(result)
        return result

    def _report(self, result: object) -> None:
        """Logs damage that a reader ran into, once for each place."""
        self._is_unreadable = False
        if not isinstance(result, ReadResult) or result.damage is None:
            return
        damage = result.damage
        place = damage.segment, damage.position
        if place not in self._reported and len(self._reported) < GAPS_MAX:
            self._reported.add(place)
            self._context.logger.error(
                "log_damaged",
                file=str(damage.segment),
                position=damage.position,
                length=damage.length,
                first_offset=damage.first_offset,
                next_offset=damage.next_offset,
                reason=damage.reason,
            )
