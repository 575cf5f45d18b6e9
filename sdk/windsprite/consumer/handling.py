"""Giving messages to a handler, once more if it fails."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeAlias

from windsprite.bootstrap import Backoff
from windsprite.environment import Environment
from windsprite.errors import ClientClosed, InvalidRequest
from windsprite.messages import ReceivedMessage

logger = logging.getLogger("windsprite")

Handler: TypeAlias = Callable[[ReceivedMessage], Awaitable[object] | None]
"""What handles a message; the message is handled when it returns, or what it returns is done."""

OnFailure: TypeAlias = Callable[[ReceivedMessage, Exception], Awaitable[object] | None]
"""What is done about a message that cannot be handled."""

AGAIN: Final = Backoff(base=0.1, cap=10.0)
"""Pauses before a message is handled once more."""


class Messages(Protocol):
    """Where messages come from."""

    async def get(self) -> ReceivedMessage:
        """The next one; raises `ClientClosed` after the last."""
        ...

    def handled(self, message: ReceivedMessage) -> None:
        """A message was handled."""
        ...

    def not_handled(self, message: ReceivedMessage) -> None:
        """A message was not handled."""
        ...

    def stop(self) -> None:
        """Let there be no more."""
        ...


class Handling:
    """Handles messages; `TopicConsumer.run` says how.

    Args:
        messages: The messages.
        handler: Handles one of them.
        environment: Clock and randomness.
        attempts: How often it is tried.
        on_failure: What is done afterwards.
    """

    def __init__(
        self,
        messages: Messages,
        handler: Handler,
        environment: Environment,
        attempts: int,
        on_failure: OnFailure | None,
    ) -> None:
        if attempts < 1:
            raise InvalidRequest("run: attempts is a number of at least 1")
        self._messages = messages
        self._handler = handler
        self._environment = environment
        self._attempts = attempts
        self._on_failure = on_failure

    async def run(self, concurrency: int, stop: asyncio.Event | None) -> None:
        """Handle so many messages at a time, until there are no more.

        Raises:
            Exception: What could not be handled, or why there are no messages.
        """
        if concurrency < 1:
            raise InvalidRequest("run: concurrency is a number of at least 1")
        work = [asyncio.create_task(self._handle_all()) for _ in range(concurrency)]
        stopping = asyncio.create_task(self._stop_with(stop))
        try:
            await asyncio.wait(work, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in (stopping, *work):
                task.cancel()
            results = await asyncio.gather(stopping, *work, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _stop_with(self, event: asyncio.Event | None) -> None:
        if event is not None:
            await event.wait()
            self._messages.stop()

    async def _handle_all(self) -> None:
        while True:
            try:
                message = await self._messages.get()
            except ClientClosed:
                return
            try:
                await self._handle(message)
            except BaseException:
                self._messages.not_handled(message)
                raise
            self._messages.handled(message)

    async def _handle(self, message: ReceivedMessage) -> None:
        for attempt in range(self._attempts):
            try:
                return await _done(self._handler, message)
            except Exception as error:
                if attempt + 1 == self._attempts:
                    if self._on_failure is None:
                        raise
                    return await _done(self._on_failure, message, error)
                logger.warning("%r was not handled", message, exc_info=error)
                await self._environment.sleep(AGAIN.wait(attempt, self._environment.uniform))
        return None


async def _done(function: Callable[..., Awaitable[Any] | None], *arguments: object) -> None:
    """Call a function of the program, and wait for what it returns."""
    try:
        result = function(*arguments)
        if inspect.isawaitable(result):
            await result
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # Nobody wants us to end: it is something the function waited for that was cancelled.
        raise RuntimeError("run: what a handler waited for was cancelled") from error
