"""A clock that stands still until a test moves it."""

import asyncio
import heapq
import itertools


class ManualClock:
    """Both of its times move only with `advance`; sleepers wake in the order of their deadlines."""

    def __init__(self, now_us: int = 1_700_000_000_000_000) -> None:
        self._now_us = now_us
        self._elapsed_us = 0
        self._order = itertools.count()
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []

    def now_us(self) -> int:
        return self._now_us

    def monotonic(self) -> float:
        return self._elapsed_us / 1_000_000

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        deadline = self._elapsed_us + round(seconds * 1_000_000)
        heapq.heappush(self._sleepers, (deadline, next(self._order), woken))
        await woken

    def set_wall_clock(self, now_us: int) -> None:
        """Make the wall clock jump, as an operator or NTP does; sleepers notice nothing."""
        self._now_us = now_us

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass, waking each sleeper at its own time, and let woken tasks run."""
        end = self._elapsed_us + round(seconds * 1_000_000)
        await self._settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            deadline, _, woken = heapq.heappop(self._sleepers)
            self._move_to(deadline)
            if not woken.done():
                woken.set_result(None)
            await self._settle()
        self._move_to(end)

    def tick(self, seconds: float) -> None:
        """Let `seconds` pass in the middle of something; sleepers wake at the next `advance`."""
        self._move_to(self._elapsed_us + round(seconds * 1_000_000))

    def _move_to(self, elapsed_us: int) -> None:
        self._now_us += elapsed_us - self._elapsed_us
        self._elapsed_us = elapsed_us

    @staticmethod
    async def _settle() -> None:
        # A woken task may need a few turns of the loop to reach its next sleep.
        for _ in range(10):
            await asyncio.sleep(0)
