"""Group commit: one sync in flight, and everyone who comes meanwhile shares the next."""

import asyncio
import heapq
from collections import deque
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


class SyncTurns:
    """Lets a bounded number of syncs be under way at a time, over all logs.

    A sync that is under way keeps files open. The others get ready only when it is their turn; by
    then they cover more.
    Belongs to one event loop.
    """

    __slots__ = ("_free", "_is_giving", "_waiting", "pool")

    def __init__(self, pool: Executor, limit: int) -> None:
        """Let nobody wait yet.

        Args:
            pool: Runs the syncs.
            limit: How many may be under way at a time.
        """
        self.pool = pool
        self._free = limit
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_giving = False

    def take(self, begin: Callable[[], None]) -> None:
        """Call `begin` when there is a turn, which may be now; `give_back` ends it."""
        self._waiting.append(begin)
        self._give()

    def give_back(self) -> None:
        """Let somebody else have the turn."""
        self._free += 1
        self._give()

    def _give(self) -> None:
        # A turn may end before `begin` returns: a loop, so that very many of them can.
        if self._is_giving:
            return
        self._is_giving = True
        try:
            while self._free and self._waiting:
                self._free -= 1
                self._waiting.popleft()()
        finally:
            self._is_giving = False


class GroupSync:
    """Moves one number forward: everything below it is on stable storage.

    The number is an offset of a log, or a count of writes; all that matters is that it grows. After
    a failed sync nothing is known of the disk, and no further sync would tell the truth: it never
    tries again, and everyone who waits or comes later gets the reason.
    Belongs to one event loop.
    """

    __slots__ = (
        "_error", "_on_failed", "_on_synced", "_order", "_prepare", "_turns", "_under_way",
        "_waiters", "_wanted",
    )  # fmt: skip

    def __init__(
        self,
        turns: SyncTurns,
        prepare: Callable[[], SyncJob],
        on_synced: Callable[[int], None],
        on_failed: Callable[[LogFailedError], None],
    ) -> None:
        """Set up an idle group commit.

        Args:
            turns: Says when a sync may be under way.
            prepare: Called on the loop just before a sync; may raise `OSError`.
            on_synced: Called on the loop after a sync, before those who wait for it wake up.
            on_failed: Called on the loop when a sync failed; must let nobody wait any more.
        """
        self._turns = turns
        self._prepare = prepare
        self._on_synced = on_synced
        self._on_failed = on_failed
        self._error: LogError | None = None
        self._under_way: asyncio.Future[None] | None = None
        self._wanted = 0
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = count()

    def request(self, point: int) -> None:
        """Let everything below `point` be synced soon."""
        self._wanted = max(self._wanted, point)
        if self._under_way is None:
            self._start()

    def wait(self, point: int) -> asyncio.Future[None]:
        """Request a sync up to `point`; the future is done when everything below it is synced."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiters, (point, next(self._order), future))
        self.request(point)
        return future

    def fail(self, error: LogError) -> None:
        """Begin no more syncs, and let everyone who waits know that it will not happen."""
        self._error = error
        waiters, self._waiters = self._waiters, []
        for _, _, future in waiters:
            if not future.done():
                future.set_exception(error)

    async def drain(self) -> None:
        """Wait until no sync is under way or waits for its turn."""
        while self._under_way is not None:
            await asyncio.wait([self._under_way])

    def _start(self) -> None:
        if self._error is not None:
            self.fail(self._error)
            return
        self._under_way = asyncio.get_running_loop().create_future()
        self._turns.take(self._begin)

    def _begin(self) -> None:
        if self._error is not None:
            self._end()
            return
        try:
            job = self._prepare()
        except OSError as error:
            self._give_up(error)
            self._end()
            return
        flight = asyncio.get_running_loop().run_in_executor(self._turns.pool, job.run)
        flight.add_done_callback(lambda flight: self._finish(job, flight))

    def _finish(self, job: SyncJob, flight: asyncio.Future[None]) -> None:
        job.end()
        cause = asyncio.CancelledError() if flight.cancelled() else flight.exception()
        if cause is not None:
            self._give_up(cause)
        else:
            self._on_synced(job.point)
            waiters = self._waiters
            while waiters and waiters[0][0] <= job.point:
                future = heapq.heappop(waiters)[2]
                if not future.done():
                    future.set_result(None)
        self._end()
        if self._wanted > job.point and self._error is None:
            self._start()

    def _end(self) -> None:
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.set_result(None)
        self._turns.give_back()

    def _give_up(self, cause: BaseException) -> None:
        error = LogFailedError(f"a sync failed, so the log takes no more writes: {cause}")
        error.__cause__ = cause
        self._on_failed(error)
        self.fail(error)
