"""Room for messages that wait: so many bytes and no more; whoever comes later waits in line."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress


class Room:
    """A number of bytes that many share.

    Args:
        capacity: The number.

    Attributes:
        used: How many of them are taken.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used = 0
        self._closed: Exception | None = None
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits."""
        return bool(self._line)

    def take_at_once(self, amount: int) -> bool:
        """Take bytes if there are so many, and nobody waits for some already."""
        if self._line or self.used + amount > self.capacity:
            return False
        self.used += amount
        return True

    async def take(self, amount: int, timeout: float | None) -> None:  # noqa: ASYNC109 - a pure wait
        """Take bytes as soon as there are so many; nobody is overtaken.

        Args:
            amount: At most the capacity.
            timeout: Seconds to wait; None: as long as it takes.

        Raises:
            TimeoutError: It took too long; nothing was taken, as when the caller is cancelled.
            Exception: The room was closed.
        """
        if self._closed is not None:
            raise self._closed.with_traceback(None)
        if self.take_at_once(amount):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (amount, turn)
        self._line.append(place)
        try:
            async with asyncio.timeout(timeout):
                await turn
        except BaseException:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.give(amount)  # it was our turn, but we leave
            else:
                with suppress(ValueError):
                    self._line.remove(place)
                self._serve()
            raise

    def give(self, amount: int) -> None:
        """Give bytes back."""
        self.used -= amount
        self._serve()

    def close(self, error: Exception) -> None:
        """Send everybody away who waits, or comes later and would have to."""
        self._closed = error
        line, self._line = self._line, deque()
        for _, turn in line:
            if not turn.done():
                turn.set_exception(error)

    def _serve(self) -> None:
        while self._line:
            amount, turn = self._line[0]
            if not turn.done():
                if self.used + amount > self.capacity:
                    return
                self.used += amount
                turn.set_result(None)
            self._line.popleft()
