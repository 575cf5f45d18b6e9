"""The background work of a consumer: find its partitions, poll them, store what is due."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from windsprite.bootstrap import Backoff
from windsprite.consumer.assigning import Assigning
from windsprite.consumer.commits import Commit, Moment
from windsprite.consumer.committing import Committer
from windsprite.consumer.ledger import Ledger
from windsprite.consumer.progress import Hold, Progress
from windsprite.consumer.source import Source
from windsprite.encryption import Encryptor
from windsprite.environment import Environment
from windsprite.errors import (
    NotFound,
    OutcomeUnknown,
    PartitionNotOwned,
    Unavailable,
    WindspriteError,
)
from windsprite.messages import Batch, ReceivedMessage

logger = logging.getLogger("windsprite")

TEMPORARY: Final = (Unavailable, OutcomeUnknown)
"""Errors after which everything that a consumer does can be done again."""

BACKOFF: Final = Backoff(base=0.1, cap=5.0)
"""Pauses between attempts; the client has made several of its own before."""


class Patience:
    """Waits between attempts, up to a limit.

    Args:
        environment: Clock and randomness.
        limit: Seconds after which nothing is attempted any more.
        doing: What is attempted, for the log.
    """

    def __init__(self, environment: Environment, limit: float, doing: str) -> None:
        self._environment = environment
        self._limit = limit
        self._doing = doing
        self._attempts = 0
        self._since = 0.0

    def succeeded(self) -> None:
        """An attempt succeeded."""
        self._attempts = 0

    async def after(self, error: WindspriteError) -> None:
        """Wait before the next attempt.

        Raises:
            WindspriteError: This error, since there is no sense in another attempt.
        """
        now = self._environment.monotonic()
        if not self._attempts:
            self._since = now
        if not isinstance(error, TEMPORARY) or now - self._since >= self._limit:
            raise error
        pause = BACKOFF.wait(self._attempts, self._environment.uniform)
        logger.warning("%s: %s; again in %.1f s", self._doing, error, pause)
        self._attempts += 1
        await self._environment.sleep(pause)


class Fetcher:
    """Does the background work, one request at a time.

    Args:
        source: What is read.
        ledger: What is polled and handled.
        assigning: Keeps the partitions.
        committer: Stores offsets.
        commit: When.
        environment: Clock and randomness.
        decrypts: Decrypts what was polled; None: nothing is encrypted.
        arrived: Called when there may be something to be handed out.
    """

    def __init__(
        self,
        source: Source,
        ledger: Ledger,
        assigning: Assigning,
        committer: Committer,
        *,
        commit: Commit,
        environment: Environment,
        decrypts: Encryptor | None,
        arrived: Callable[[], None],
    ) -> None:
        self._source = source
        self._ledger = ledger
        self._assigning = assigning
        self._committer = committer
        self._commit = commit
        self._environment = environment
        self._decrypts = decrypts
        self._arrived = arrived
        self._wake = asyncio.Event()
        self._settling = asyncio.Lock()
        self._flush_at = 0.0

    def wake(self) -> None:
        """There is something to be done."""
        self._wake.set()

    async def run(self, patience: Patience) -> None:
        """Work until somebody cancels it.

        Raises:
            WindspriteError: It cannot go on.
        """
        self._put_off_flush()
        while True:
            try:
                await self._step()
                patience.succeeded()
            except WindspriteError as error:
                await patience.after(error)

    async def settle(self, *, renew: bool = False) -> None:
        """Find out which partitions are ours, and where we are in them.

        Args:
            renew: Whether to ask although the last answer is not old.
        """
        async with self._settling:
            is_due = renew or self._environment.monotonic() >= self._assigning.due_at
            if is_due or self._assigning.is_stale:
                await self._assigning.renew()
            if self._ledger.is_unsettled:
                await self._look_at_partitions()

    # --- Inside ------------------------------------------------------------------------------

    async def _step(self) -> None:
        self._wake.clear()
        now = self._environment.monotonic()
        flushes = now >= self._flush_at
        # An offset must not be stored in a partition that was elsewhere meanwhile: so look first.
        await self.settle(renew=flushes and self._has_to_flush)
        if flushes:
            self._put_off_flush()
            await self._committer.flush(self._ledger)
        progress, ready_at = self._ledger.next_poll(now)
        if progress is not None:
            if self._commit.moment is Moment.POLLED and self._source.group is not None:
                # It may have gone to another member and come back since we asked last.
                await self.settle(renew=True)
            if progress.hold is Hold.FULL:
                await self._poll(progress)
        else:
            until = min(
                self._assigning.due_at, self._flush_at, math.inf if ready_at is None else ready_at
            )
            await self._rest(until - now)

    @property
    def _has_to_flush(self) -> bool:
        return any(self._ledger.to_store(progress) is not None for progress in self._ledger)

    def _put_off_flush(self) -> None:
        interval = self._commit.interval
        now = self._environment.monotonic()
        self._flush_at = math.inf if interval is None else now + interval

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(None if seconds == math.inf else max(0.0, seconds)):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _look_at_partitions(self) -> None:
        for progress in self._ledger.with_hold(Hold.DOUBTED):
            if await self._committer.is_ours(progress):
                progress.hold = Hold.LAST_WORK
                self._arrived()
            else:
                logger.info("%s: partition %d is gone", self._source, progress.partition)
                self._ledger.lose(progress)
        for progress in self._ledger.with_hold(Hold.LAST_WORK):
            if self._ledger.is_done(progress):
                if self._ledger.to_store(progress) is not None:
                    await self._committer.flush([progress])
                self._ledger.lose(progress)
        for progress in self._ledger.with_hold(Hold.UNSURE):
            try:
                await self._open(progress)
            except NotFound:
                await self._assigning.renew()
            if self._assigning.is_stale:
                return
        passing = (Hold.DOUBTED, Hold.LAST_WORK, Hold.UNSURE)
        self._ledger.is_unsettled = any(p.hold in passing for p in self._ledger)

    async def _open(self, progress: Progress) -> None:
        async with self._committer.lock:
            stored = await self._source.stored(progress.partition)
            if progress.hold is Hold.UNSURE and not self._assigning.is_stale:
                self._ledger.open(progress, stored)
                self._arrived()

    async def _poll(self, progress: Progress) -> None:
        start, count = self._ledger.request(progress)
        turn = progress.turn
        try:
            batch = await self._source.poll(
                progress.partition,
                start,
                count,
                auto_commit=self._commit.moment is Moment.POLLED,
            )
        except (PartitionNotOwned, NotFound) as error:
            logger.info("%s: %s", self._source, error)
            self._assigning.due_at = 0.0
            progress.pace.found_nothing(self._environment.monotonic(), 1.0)
            return
        if self._assigning.is_stale:
            return  # others may have had the partition
        batch = self._decrypted(batch)
        self._ledger.polled(progress, batch, turn, self._environment.monotonic())
        if batch:
            self._arrived()

    def _decrypted(self, batch: Batch) -> Batch:
        """A batch that everybody can read, up to the first message that cannot be decrypted.

        Raises:
            WindspriteError: That is the first message of all.
        """
        if self._decrypts is None:
            return batch
        messages: list[ReceivedMessage] = []
        for message in batch:
            try:
                messages.append(self._decrypts.decrypt_message(message))
            except WindspriteError:
                if messages:
                    break
                raise
        return replace(batch, messages=tuple(messages))
