"""`async for` over a consumer, and how to tell that it was left."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Self

from windsprite.messages import ReceivedMessage


class Loop:
    """One `async for` over a consumer.

    Args:
        take_next: The next message, now that the one before is handled; None: there are no more.
        abandon: Is told at which message the loop was left.
    """

    def __init__(
        self,
        take_next: Callable[[ReceivedMessage | None], Awaitable[ReceivedMessage | None]],
        abandon: Callable[[ReceivedMessage], None],
    ) -> None:
        self._take_next = take_next
        self._abandon = abandon
        self._message: ReceivedMessage | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        previous, self._message = self._message, None
        self._message = message = await self._take_next(previous)
        if message is None:
            raise StopAsyncIteration
        return message

    def leave(self) -> None:
        """The loop is over, at the message that it has."""
        message, self._message = self._message, None
        if message is not None:
            self._abandon(message)

    def __del__(self) -> None:
        # Nobody tells an iterator that its loop was left, but then nothing refers to it any more.
        with suppress(RuntimeError):  # the event loop is gone as well
            self.leave()
