"""What becomes of a message that a blocking producer sends."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from windsprite.errors import ClientClosed, RequestTimedOut
from windsprite.producer.delivery import Delivered
from windsprite.producer.delivery import Delivery as Target
from windsprite.sync.base import Blocking


class Delivery(Blocking[Target]):
    """What becomes of one message.

        delivery = producer.send(b"payload")
        placed = delivery.result()        # Delivered(partition=2, offset=17), or the error

    To give up waiting, by Ctrl-C or a timeout, does not stop the message.
    """

    def done(self) -> bool:
        """Whether it is known what became of the message."""
        return self._target.done()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is known what became of the message, whatever that is.

        Args:
            timeout: Seconds to wait at most.

        Returns:
            Whether it is known.
        """
        if not self._target.done():
            try:
                self._thread.run(self._wait(timeout))
            except ClientClosed:
                # Closing a client settles everything that it was given.
                if not self._target.done():
                    raise
        return self._target.done()

    def result(self, timeout: float | None = None) -> Delivered:
        """Where the message is stored; waits until that is known.

        Args:
            timeout: Seconds to wait at most.

        Raises:
            RequestTimedOut: It is not known in time; the message goes on.
            OutcomeUnknown: It may have been stored or not.
            WindspriteError: It was not stored.
        """
        if not self.wait(timeout):
            raise RequestTimedOut(f"send: the message is still on its way after {timeout} s")
        return self._target.result()

    async def _wait(self, timeout: float | None) -> None:  # noqa: ASYNC109 - of another thread
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._target.wait()
