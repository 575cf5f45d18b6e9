"""Group commit: one sync in flight, and everyone who comes meanwhile shares the next."""

import asyncio
import heapq
from collections.abc import Callable
from concurrent.futures import Executor
from itertools import count
from typing import NamedTuple

from windsprite_server.log.errors import LogError, LogFailedError


class SyncJob(NamedTuple):
    """One sync.

    Attributes:
        point: How far it reaches.
        run: Its blocking work, for a thread.
        end: Lets go of what the work needed, on the loop, however it ended.
    """

    point: int
    run: Callable[[], None]
    end: Callable[[], None]


class GroupSync:
    """Moves one number forward: everything below it is on stable storage.

    The number is an offset of a log, or a count of writes; all that matters is that it grows. After
    a failed sync nothing is known of the disk, and no further sync would tell the truth: it never
    tries again, and everyone who waits or comes later gets the reason.
    Belongs to one event loop.
    """

    __slots__ = (
        "_flight", "_on_failed", "_on_synced", "_order", "_pool", "_prepare", "_waiters", "_wanted",
    )  # fmt: skip

    def __init__(
        self,
        pool: Executor,
        prepare: Callable[[], SyncJob],
        on_synced: Callable[[int], None],
        on_failed: Callable[[LogFailedError], None],
    ) -> None:
        """Set up an idle group commit.

        Args:
            pool: Runs the syncs.
            prepare: Called on the loop just before a sync; may raise `OSError`.
            on_synced: Called on the loop after a sync, before those who wait for it wake up.
            on_failed: Called on the loop when a sync failed; must let nobody wait any more.
        """
        self._pool = pool
        self._prepare = prepare
        self._on_synced = on_synced
        self._on_failed = on_failed
        self._flight: asyncio.Future[None] | None = None
        self._wanted = 0
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = count()

    def request(self, point: int) -> None:
        """Let everything below `point` be synced soon."""
        self._wanted = max(self._wanted, point)
        if self._flight is None:
            self._start()

    def wait(self, point: int) -> asyncio.Future[None]:
        """Request a sync up to `point`; the future is done when everything below it is synced."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiters, (point, next(self._order), future))
        self.request(point)
        return future

    def fail(self, error: LogError) -> None:
        """Let everyone who waits know that it will not happen."""
        waiters, self._waiters = self._waiters, []
        for _, _, future in waiters:
            if not future.done():
                future.set_exception(error)

    async def drain(self) -> None:
        """Wait until no sync is in flight."""
        while self._flight is not None:
            await asyncio.wait([self._flight])

    def _start(self) -> None:
        try:
            job = self._prepare()
        except OSError as error:
            self._give_up(error)
            return
        self._flight = asyncio.get_running_loop().run_in_executor(self._pool, job.run)
        self._flight.add_done_callback(lambda flight: self._finish(job, flight))

    def _finish(self, job: SyncJob, flight: asyncio.Future[None]) -> None:
        self._flight = None
        job.end()
        cause = asyncio.CancelledError() if flight.cancelled() else flight.exception()
        if cause is not None:
            self._give_up(cause)
            return
        self._on_synced(job.point)
        waiters = self._waiters
        while waiters and waiters[0][0] <= job.point:
            future = heapq.heappop(waiters)[2]
            if not future.done():
                future.set_result(None)
        if self._wanted > job.point:
            self._start()

    def _give_up(self, cause: BaseException) -> None:
        error = LogFailedError(f"a sync failed, so the log takes no more writes: {cause}")
        error.__cause__ = cause
        self._on_failed(error)
        self.fail(error)
