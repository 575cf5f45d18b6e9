"""An environment for the SDK in which nothing is left to chance."""

import asyncio
import random
from collections.abc import Callable


class SeededEnvironment:
    """The clock of the running loop, and randomness that is the same in every run.

    It remembers all waits, for tests about pauses.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def wall_clock_us(self) -> int:
        return 1_700_000_000_000_000 + round(self.monotonic() * 1_000_000)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(seconds)

    def call_at(self, when: float, callback: Callable[[], None]) -> asyncio.Handle:
        return asyncio.get_running_loop().call_at(when, callback)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def shuffled(self, count: int) -> list[int]:
        return self._random.sample(range(count), count)

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)
