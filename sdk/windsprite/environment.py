"""What the SDK takes from the world besides the network: clocks, timers, randomness, identifiers.

This is the only module that reads them. Everything else is given an `Environment`, so that a
test can replay a run exactly and never has to wait.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable
from typing import Protocol


class Environment(Protocol):
    """Clocks, timers, randomness and identifiers."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; the clock of the event loop's timers."""
        ...

    def wall_clock_us(self) -> int:
        """Microseconds since the Unix epoch."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def call_at(self, when: float, callback: Callable[[], None]) -> asyncio.Handle:
        """Call back when `monotonic` has reached `when`.

        What comes back can be cancelled. Of what is due at once uvloop tells no time.
        """
        ...

    def uniform(self, low: float, high: float) -> float:
        """A random number for spreading waits; nothing secret hangs on it."""
        ...

    def shuffled(self, count: int) -> list[int]:
        """The numbers below `count` in random order."""
        ...

    def random_bytes(self, count: int) -> bytes:
        """Bytes that nobody else has or can guess; identifiers are made of them."""
        ...


class SystemEnvironment:
    """The environment of a real program."""

    def __init__(self) -> None:
        self._random = random.Random(os.urandom(16))  # noqa: S311 - spreads waits, hides nothing

    def monotonic(self) -> float:
        """Seconds on the clock of the running event loop."""
        return asyncio.get_running_loop().time()

    def wall_clock_us(self) -> int:
        """Microseconds since the Unix epoch."""
        return time.time_ns() // 1000

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    def call_at(self, when: float, callback: Callable[[], None]) -> asyncio.Handle:
        """Call back when `monotonic` has reached `when`."""
        return asyncio.get_running_loop().call_at(when, callback)

    def uniform(self, low: float, high: float) -> float:
        """A random number between the two."""
        return self._random.uniform(low, high)

    def shuffled(self, count: int) -> list[int]:
        """The numbers below `count` in random order."""
        return self._random.sample(range(count), count)

    def random_bytes(self, count: int) -> bytes:
        """Bytes that nobody else has or can guess."""
        return os.urandom(count)
