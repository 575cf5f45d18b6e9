"""The blocking consumer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeAlias

from windsprite.errors import RequestTimedOut
from windsprite.messages import ReceivedMessage
from windsprite.sync.consumer_methods import TopicConsumerMethods

Handler: TypeAlias = Callable[[ReceivedMessage], object]
"""What handles a message; the message is handled when it returns."""

OnFailure: TypeAlias = Callable[[ReceivedMessage, Exception], object]
"""What is done about a message that cannot be handled."""


class TopicConsumer(TopicConsumerMethods):  # noqa: D101 - it has that of its methods
    __doc__ = TopicConsumerMethods.__doc__

    def __enter__(self) -> Self:
        self._thread.run(self._target.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._thread.run(self._target.__aexit__(kind, error, traceback))

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """All messages; ends after `stop` or `close`.

        Raises:
            WindspriteError: As `get`.
        """
        return self._thread.iterate(lambda: aiter(self._target))

    def get(self, timeout: float | None = None) -> ReceivedMessage:
        """The next message; it is not handled before `handled` or `commit` says so.

        If Ctrl-C interrupts it, no message is lost.

        Args:
            timeout: Seconds to wait at most.

        Raises:
            RequestTimedOut: There was no message in time.
            ClientClosed: The consumer was stopped or closed.
            WindspriteError: The consumer cannot go on as it is; the next call tries it once more.
        """
        future = self._thread.submit(self._get(timeout))
        try:
            return self._thread.wait(future)
        except BaseException:
            if future.done() and not future.cancelled() and future.exception() is None:
                self.not_handled(future.result())  # the interrupt came a moment later
            raise

    def run(
        self,
        handler: Handler,
        *,
        concurrency: int = 1,
        attempts: int = 5,
        on_failure: OnFailure | None = None,
    ) -> None:
        """Handle messages until `stop`, `close`, Ctrl-C or an error.

        A message is handled when the handler returns. If it fails, it is given the same message
        again after a pause of up to 0.1 s, 0.2 s ... 10 s.

        Args:
            handler: Is called with each message, in one of as many threads as `concurrency` says.
            concurrency: How many messages are handled at the same time. With 1 those of a partition
                are handled in their order, otherwise they only begin in it.
            attempts: How often the handler sees a message that it fails on.
            on_failure: Is called after that, with the message and the last error; the message then
                counts as handled. None: `run` ends with the error.

        Raises:
            Exception: What the handler raised in its last attempt.
            WindspriteError: As `get`.
        """
        # Whether it makes sense is checked where it is for all.
        threads = max(1, concurrency)
        with ThreadPoolExecutor(threads, thread_name_prefix="windsprite-handler") as pool:

            async def handle(message: ReceivedMessage) -> None:
                await asyncio.get_running_loop().run_in_executor(pool, handler, message)

            async def failed(message: ReceivedMessage, error: Exception) -> None:
                if on_failure is not None:
                    loop = asyncio.get_running_loop()
                    await loop.run_in_executor(pool, on_failure, message, error)

            self._thread.run(
                self._target.run(
                    handle,
                    concurrency=concurrency,
                    attempts=attempts,
                    on_failure=None if on_failure is None else failed,
                )
            )

    async def _get(self, timeout: float | None) -> ReceivedMessage:  # noqa: ASYNC109
        try:
            async with asyncio.timeout(timeout):
                return await self._target.get()
        except TimeoutError:
            raise RequestTimedOut(f"consume: no message in {timeout} s") from None
