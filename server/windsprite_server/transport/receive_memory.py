"""The memory that requests of all connections may hold together."""

from __future__ import annotations

from typing import Protocol


class Holder(Protocol):
    """A connection that is being received from."""

    def memory_available(self) -> None:
        """Called when it may take the memory that it was refused before."""
        ...


class ReceiveMemory:
    """Shares a number of bytes among connections.

    A connection says how much it is going to hold before it takes the memory, and is not read
    while that is not granted. Who is refused is served in the order of asking, as soon as others
    hold less.

    If all of them waited for each other, nothing would ever become free. So one connection at a
    time is favoured: it gets what it asks for, until it holds nothing or all are within the limit
    again. The limit can be exceeded by what that one holds.

    Args:
        limit: Bytes that all connections together may hold.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._held: dict[Holder, int] = {}
        self._asking: dict[Holder, int] = {}
        self._favoured: Holder | None = None

    @property
    def used(self) -> int:
        """Bytes that are granted."""
        return self._used

    @property
    def is_short(self) -> bool:
        """Whether somebody is waiting: who has something to give back should do that first."""
        return bool(self._asking)

    def hold(self, holder: Holder, size: int) -> bool:
        """Say how much a connection holds from now on; returns whether it may.

        If not, it must not take more than it has. It will be told when it may.
        """
        held = self._held.get(holder, 0)
        if size > held and not self._fits(holder, size - held):
            self._asking[holder] = size
            return False
        was_asking = self._asking.pop(holder, None) is not None
        self._grant(holder, size)
        if self._favoured is holder and (not size or self._used <= self._limit):
            self._favoured = None
        if size < held or was_asking:
            self._wake()
        return True

    def _fits(self, holder: Holder, more: int) -> bool:
        if self._used + more <= self._limit:
            return True
        if self._favoured is None:
            self._favoured = holder
        return self._favoured is holder

    def _grant(self, holder: Holder, size: int) -> None:
        self._used += size - self._held.pop(holder, 0)
        if size:
            self._held[holder] = size

    def _wake(self) -> None:
        while self._asking:
            holder, size = next(iter(self._asking.items()))
            if not self._fits(holder, size - self._held.get(holder, 0)):
                return
            del self._asking[holder]
            self._grant(holder, size)
            holder.memory_available()
