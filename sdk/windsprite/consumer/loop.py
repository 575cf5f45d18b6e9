"""`async for` over a consumer, and how to tell that it was left."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol, Self

from windsprite.messages import ReceivedMessage


class Messages(Protocol):
    """Where messages come from."""

    async def next_of_loop(self, previous: ReceivedMessage | None) -> ReceivedMessage | None:
        """The next message, now that the one before is handled; None: there are no more."""
        ...

    def abandon_loop(self, message: ReceivedMessage) -> None:
        """The loop was left at this message."""
        ...


class Loop:
    """One `async for` over a consumer.

    Args:
        consumer: Where messages come from.
    """

    def __init__(self, consumer: Messages) -> None:
        self._consumer = consumer
        self._message: ReceivedMessage | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        previous, self._message = self._message, None
        self._message = message = await self._consumer.next_of_loop(previous)
        if message is None:
            raise StopAsyncIteration
        return message

    def leave(self) -> None:
        """The loop is over, at the message that it has."""
        message, self._message = self._message, None
        if message is not None:
            self._consumer.abandon_loop(message)

    def __del__(self) -> None:
        # Nobody tells an iterator that its loop was left, but then nothing refers to it any more.
        with suppress(RuntimeError):  # the event loop is gone as well
            self.leave()
