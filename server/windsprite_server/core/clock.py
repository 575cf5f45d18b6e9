"""Time as an argument: whoever needs it is given a `Clock`."""

import asyncio
import time
from typing import Final, Protocol

# One for who was woken by a timer, which comes before the sockets; one for them; one to be sure.
_TURNS_TO_READ: Final = 3


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


async def let_sockets_be_read(clock: Clock) -> None:
    """Let the event loop look at all sockets at least once.

    For who finds that something comes too late: if it was this process that stood still, what
    others did in time is still unread.
    """
    for _ in range(_TURNS_TO_READ):
        await clock.sleep(0)
