"""From the start of a consumer to its end: its background task, and its membership."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from windsprite.bootstrap import Backoff
from windsprite.consumer.assigning import Assigning
from windsprite.consumer.committing import Committer
from windsprite.consumer.fetching import TEMPORARY, Fetcher, Patience
from windsprite.consumer.ledger import Ledger
from windsprite.consumer.progress import Progress
from windsprite.consumer.source import Source
from windsprite.environment import Environment
from windsprite.errors import ClientClosed, NotFound, RequestTimedOut, WindspriteError
from windsprite_protocol.errors import ErrorCode

logger = logging.getLogger("windsprite")

LOOK_AGAIN: Final = Backoff(base=0.1, cap=1.0)
"""Pauses while a topic is waited for."""


class Lifetime:
    """Starts a consumer, again if need be, and closes it once.

    Args:
        source: What is read.
        ledger: What is polled and handled.
        assigning: Keeps the partitions.
        committer: Stores offsets.
        fetcher: Does the background work.
        environment: The clock.
        wait_for_topic: Seconds to wait for what is missing.
        patience: Makes what waits between attempts.
        twins: Those of the other consumers of the client that read the same for the same.
        changed: Called when the background task has ended, or is about to be.
    """

    def __init__(
        self,
        source: Source,
        ledger: Ledger,
        assigning: Assigning,
        committer: Committer,
        fetcher: Fetcher,
        *,
        environment: Environment,
        wait_for_topic: float,
        patience: Callable[[], Patience],
        twins: Callable[[], Iterable[Lifetime]],
        changed: Callable[[], None],
    ) -> None:
        self._source = source
        self._ledger = ledger
        self._assigning = assigning
        self._committer = committer
        self._fetcher = fetcher
        self._environment = environment
        self._wait_for_topic = wait_for_topic
        self._patience = patience
        self._twins = twins
        self._changed = changed
        self._starting = asyncio.Lock()
        self._work: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._limit = 0.0
        self._limiting: asyncio.Timeout | None = None
        self._failure: BaseException | None = None

    @property
    def has_begun(self) -> bool:
        """Whether it was started, ever."""
        return self._work is not None

    @property
    def has_to_start(self) -> bool:
        """Whether nothing is polled, and nobody has to be told why."""
        return self._work is None or (self._work.done() and self._failure is None)

    @property
    def is_closing(self) -> bool:
        """Whether it is closed, or is being closed."""
        return self._closing is not None

    def check_open(self) -> None:
        """Make sure that it is neither closed nor being closed.

        Raises:
            ClientClosed: It is.
        """
        if self._closing is not None:
            raise ClientClosed(
                f"the consumer of {self._source} is closed", code=ErrorCode.CLIENT_SHUTDOWN
            )

    def take_failure(self) -> BaseException | None:
        """What has ended the background task; None: nothing, or it was taken before."""
        failure, self._failure = self._failure, None
        return failure

    # --- Its start ---------------------------------------------------------------------------

    async def start(self) -> None:
        """Find the partitions, and begin to poll, unless that was done.

        Raises:
            ClientClosed: It is closed.
            NotFound: There is no such topic, partition or group.
            WindspriteError: It cannot be done.
        """
        async with self._starting:
            if self._work is not None and not self._work.done():
                return
            await self._wait_for_earlier_ones()
            patience = self._patience()
            deadline = self._environment.monotonic() + self._wait_for_topic
            attempts = 0
            while True:
                self.check_open()
                try:
                    await self._fetcher.settle()
                    break
                except NotFound:
                    pause = LOOK_AGAIN.limit(attempts)
                    attempts += 1
                    if self._environment.monotonic() + pause > deadline:
                        raise
                    await self._environment.sleep(pause)
                except TEMPORARY as error:
                    await patience.after(error)
            if self._closing is not None:
                await self._leave()
            self.check_open()
            self._work = asyncio.create_task(
                self._fetcher.run(patience), name="windsprite-consumer"
            )
            self._work.add_done_callback(self._ended)

    async def _wait_for_earlier_ones(self) -> None:
        """Begin behind what a consumer of the same name stores that is being closed."""
        closing = {one._closing for one in self._twins() if one._closing is not None}
        if closing:
            await asyncio.wait(closing)

    def _ended(self, work: asyncio.Task[None]) -> None:
        if not work.cancelled():
            self._failure = work.exception()
            logger.warning("consume %s: stopped: %s", self._source, self._failure)
        self._changed()

    # --- Its end -----------------------------------------------------------------------------

    async def close(self, seconds: float) -> None:
        """Store what was handled, leave the group, and end the background task.

        Args:
            seconds: For all of it; of several that close it, who has the least time counts.

        Raises:
            WindspriteError: Something that was handled could not be stored.
        """
        await asyncio.shield(self._begin_to_close(seconds))

    def begin_to_close(self, seconds: float) -> None:
        """Do in the background what `close` does."""
        _ = self._begin_to_close(seconds)

    def _begin_to_close(self, seconds: float) -> asyncio.Task[None]:
        limit = self._environment.monotonic() + seconds
        if self._closing is None:
            self._limit = limit
            self._closing = asyncio.create_task(self._close(), name="windsprite-closing")
            self._closing.add_done_callback(self._closed)
        elif limit < self._limit:
            self._limit = limit
            if self._limiting is not None and not self._limiting.expired():
                self._limiting.reschedule(limit)
        return self._closing

    def _closed(self, closing: asyncio.Task[None]) -> None:
        # Also if nobody waits for it.
        if not closing.cancelled() and (error := closing.exception()) is not None:
            logger.warning("close %s: %s", self._source, error)

    async def _close(self) -> None:
        self._changed()
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait({self._work})
        try:
            async with asyncio.timeout_at(self._limit) as limiting:
                self._limiting = limiting
                try:
                    if self._work is not None:
                        await self._store_the_rest()
                    await self._leave()
                finally:
                    self._limiting = None  # it can't be changed any more
        except TimeoutError:
            raise RequestTimedOut(f"close {self._source}: not done in time") from None

    async def _store_the_rest(self) -> None:
        if not self._to_store():
            return None
        patience = self._patience()
        while True:
            try:
                await self._fetcher.settle()
                return await self._committer.flush(self._to_store())
            except TEMPORARY as error:
                await patience.after(error)
            except WindspriteError:
                await self._leave()
                raise

    def _to_store(self) -> list[Progress]:
        return [p for p in self._ledger if self._ledger.to_store(p) is not None]

    async def _leave(self) -> None:
        if any(one._work is not None and one._closing is None for one in self._twins()):
            return  # the membership is that of the client
        try:
            await self._assigning.leave()
        except WindspriteError as error:
            # The membership ends with the connection.
            logger.info("leave %s: %s", self._source, error)
