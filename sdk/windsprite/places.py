"""Who may send on a connection next.

A connection has a number of places, one for each request without an answer. They are taken in the
order in which they were asked for, and not at all while

- the server does not read what was sent to it;
- a call is in doubt: it repeats the same bytes, and the server knows them by a number that must
  not fall too far behind those of others (spec 01, 6.6);
- the client is about to move to another server, which ends the connection: that has to wait until
  nothing is on its way and nobody is in doubt, since a request cut off may have been executed or
  not.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Places:
    """The places of one connection.

    Args:
        limit: How many there are; 1 is lockstep.

    Attributes:
        limit: May be changed at any time.
        taken: How many are taken.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self._waiting: deque[tuple[asyncio.Future[bool], object]] = deque()
        self._leaving: asyncio.Future[bool] | None = None
        self._in_doubt: set[object] = set()
        self._is_paused = False
        self._is_closed = False

    async def take(self, owner: object, deadline: float) -> bool:
        """Wait for a place; False if the connection is closed.

        Args:
            owner: Whose call it is; None: the client's own, which goes before all others.
            deadline: The time of the loop, in seconds.

        Raises:
            TimeoutError: There was none in time.
        """
        if self._is_closed:
            return False
        if not self._waiting and self._may_take(owner):
            self.taken += 1
            return True
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        place = len(self._waiting)
        if owner is None:
            place = next(
                (n for n, (_, other) in enumerate(self._waiting) if other is not None), place
            )
        self._waiting.insert(place, (waiter, owner))
        self.update()  # it may go before those that wait for something else
        try:
            async with asyncio.timeout_at(deadline):
                return await waiter
        except (asyncio.CancelledError, TimeoutError):
            if waiter.done() and not waiter.cancelled() and waiter.result():
                self.give_back()
            raise

    def give_back(self) -> None:
        """A place is free again."""
        self.taken -= 1
        self.update()

    def hold(self, owner: object) -> None:
        """From now on only those may send that are in doubt."""
        self._in_doubt.add(owner)

    def release(self, owner: object) -> None:
        """This one is not in doubt any more, if it ever was."""
        if owner in self._in_doubt:
            self._in_doubt.remove(owner)
            self.update()

    async def clear(self, deadline: float) -> bool:
        """Keep everybody from sending until `reopen`, and wait until nothing is on its way.

        Returns:
            False if the connection is closed.

        Raises:
            TimeoutError: That took too long.
        """
        if self._is_closed:
            return False
        self._leaving = asyncio.get_running_loop().create_future()
        self.update()
        async with asyncio.timeout_at(deadline):
            return await self._leaving

    def reopen(self) -> None:
        """Take back a `clear`."""
        self._leaving = None
        self.update()

    def pause(self) -> None:
        """The server does not read; what is on its way already waits."""
        self._is_paused = True

    def resume(self) -> None:
        """The server reads again."""
        self._is_paused = False
        self.update()

    def close(self) -> None:
        """The connection is closed: nobody gets a place any more."""
        self._is_closed = True
        for waiter in (self._leaving, *(waiter for waiter, _ in self._waiting)):
            if waiter is not None and not waiter.done():
                waiter.set_result(False)
        self._waiting.clear()

    def update(self) -> None:
        """Give places to those who may have them."""
        if self._is_closed:
            return
        passed_over: list[tuple[asyncio.Future[bool], object]] = []
        while self._waiting and self.taken < self.limit and not self._is_paused:
            waiter, owner = self._waiting.popleft()
            if waiter.done():
                continue
            if self._may_take(owner):
                self.taken += 1
                waiter.set_result(True)
            else:
                passed_over.append((waiter, owner))
        self._waiting.extendleft(reversed(passed_over))
        is_clear = not self.taken and not self._in_doubt
        if is_clear and self._leaving is not None and not self._leaving.done():
            self._leaving.set_result(True)

    def _may_take(self, owner: object) -> bool:
        if self._is_paused or self.taken >= self.limit:
            return False
        if owner is None:
            return True
        return owner in self._in_doubt if self._in_doubt else self._leaving is None
