"""What becomes of a message that a blocking producer sends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import overload

from windsprite.errors import ClientClosed, RequestTimedOut
from windsprite.producer.delivery import Delivered
from windsprite.producer.delivery import Deliveries as AllTargets
from windsprite.producer.delivery import Delivery as Target
from windsprite.sync.base import Blocking
from windsprite.sync.thread import LoopThread


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
        return _wait(self._thread, self._target, timeout)

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


class Deliveries(Blocking[AllTargets], Sequence[Delivery]):
    """What becomes of the messages of one call: a sequence of a `Delivery` for each of them.

    deliveries = producer.send_many([b"one", b"two"])
    deliveries.wait()        # all are settled
    placed = deliveries[1].result()
    """

    def __repr__(self) -> str:
        return repr(self._target)

    def __len__(self) -> int:
        return len(self._target)

    @overload
    def __getitem__(self, index: int) -> Delivery: ...

    @overload
    def __getitem__(self, index: slice) -> list[Delivery]: ...

    def __getitem__(self, index: int | slice) -> Delivery | list[Delivery]:
        if isinstance(index, slice):
            return [Delivery(self._thread, each) for each in self._target[index]]
        return Delivery(self._thread, self._target[index])

    def done(self) -> bool:
        """Whether it is known what became of every message."""
        return self._target.done()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is known what became of every message, whatever that is.

        Args:
            timeout: Seconds to wait at most.

        Returns:
            Whether it is known.
        """
        return _wait(self._thread, self._target, timeout)


def _wait(thread: LoopThread, target: Target | AllTargets, seconds: float | None) -> bool:
    async def wait() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await target.wait()

    if not target.done():
        try:
            thread.run(wait())
        except ClientClosed:
            # Closing a client settles everything that it was given.
            if not target.done():
                raise
    return target.done()
