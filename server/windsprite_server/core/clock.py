"""Time as an argument: whoever needs it is given a `Clock`."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """The three kinds of time a server needs."""

    def now_us(self) -> int:
        """Wall clock, in microseconds since the Unix epoch. May jump, also backwards."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary point; never goes backwards. For intervals and deadlines."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for at least `seconds`; zero or less gives other tasks one turn."""
        ...


class SystemClock:
    """The clock of the machine and of the running event loop."""

    __slots__ = ()

    def now_us(self) -> int:
        """Wall clock, in microseconds since the Unix epoch."""
        return time.time_ns() // 1_000

    monotonic = staticmethod(time.monotonic)  # asked for every request

    async def sleep(self, seconds: float) -> None:
        """Wait for at least `seconds`."""
        await asyncio.sleep(seconds)
