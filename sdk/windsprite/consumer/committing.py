"""Storing the offsets of what was handled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from windsprite.consumer.assigning import Assigning
from windsprite.consumer.ledger import Ledger
from windsprite.consumer.progress import Progress
from windsprite.consumer.source import Source
from windsprite.errors import InvalidRequest, NotFound, PartitionNotOwned, WindspriteError
from windsprite_protocol.errors import ErrorCode

logger = logging.getLogger("windsprite")


class Committer:
    """Stores offsets, one at a time.

    Args:
        source: For whom.
        ledger: What was handled.
        assigning: Whose partitions they are.

    Attributes:
        lock: Held while offsets are stored, or are looked at and must not change.
    """

    def __init__(self, source: Source, ledger: Ledger, assigning: Assigning) -> None:
        self.lock = asyncio.Lock()
        self._source = source
        self._ledger = ledger
        self._assigning = assigning

    async def flush(self, partitions: Iterable[Progress]) -> None:
        """Store what was handled in these partitions, as far as they are ours.

        Raises:
            WindspriteError: Some of it was not stored; it is not forgotten.
        """
        failure: WindspriteError | None = None
        for progress in tuple(partitions):  # there may be more of them by the end
            try:
                await self.store_handled(progress)
            except WindspriteError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    async def store_handled(self, progress: Progress) -> None:
        """Store what was handled in a partition, if it is ours.

        Raises:
            WindspriteError: It was not stored; it is not forgotten.
        """
        async with self.lock:
            offset = progress.to_store()
            if offset is None:
                return
            try:
                await self._store_if_ours(progress, offset)
            except NotFound as error:
                # Whoever looks for the partitions next will see what is missing.
                logger.warning("%s: offset %d was not stored: %s", self._source, offset, error)
                self._assigning.due_at = 0.0

    async def store_next(self, progress: Progress) -> None:
        """Store the offset of the next message of a partition, which was not handed out yet.

        Afterwards either it is stored, or the message is another one, or the partition is not ours.

        Raises:
            WindspriteError: It was not stored, or nobody knows.
        """
        async with self.lock:
            if self._ledger.has_to_store(progress):
                await self._store_if_ours(progress, progress.buffer[0].offset)

    async def _store_if_ours(self, progress: Progress, offset: int) -> None:
        if self._assigning.is_stale or not progress.is_held:
            return
        try:
            await self._store(progress, offset)
        except PartitionNotOwned:
            self._lost(progress, offset)
        except InvalidRequest as error:
            if error.code is not ErrorCode.INVALID_OFFSET:
                raise
            logger.warning(
                "%s: partition %d has no offset %d any more; it was emptied",
                *(self._source, progress.partition, offset),
            )
            self._ledger.reset(progress)

    async def store(self, progress: Progress, offset: int) -> None:
        """Store an offset that the program asks for.

        Raises:
            WindspriteError: It was not stored.
        """
        async with self.lock:
            try:
                await self._store(progress, offset)
            except PartitionNotOwned:
                self._lost(progress, offset)
                raise

    async def delete(self, progress: Progress) -> None:
        """Delete the stored offset.

        Raises:
            WindspriteError: It was not deleted.
        """
        async with self.lock:
            await self._source.delete(progress.partition, self._assigning.session)
            progress.stored = None

    async def is_ours(self, progress: Progress) -> bool:
        """Whether a partition that the server names no more is still ours for a while.

        That is so if it waits for our offsets before it gives the partition to another member
        (spec 05, 7.1). It tells by taking an offset, or by missing one that is to be deleted;
        either changes nothing but what has to be stored anyway.
        """
        async with self.lock:
            try:
                return await self._takes_offsets(progress)
            except NotFound as error:
                return error.code is ErrorCode.CONSUMER_OFFSET_NOT_FOUND
            except (PartitionNotOwned, InvalidRequest):
                return False

    async def _takes_offsets(self, progress: Progress) -> bool:
        stored = await self._source.stored(progress.partition)
        handled = progress.handled
        if stored != progress.stored:
            if stored is None or handled is None or stored > handled:
                return False
            progress.stored = stored  # by a request of ours whose answer was lost
        offset = self._ledger.to_store(progress)
        offset = stored if offset is None else offset
        if offset is None:
            await self._source.delete(progress.partition, self._assigning.session)
        else:
            await self._store(progress, offset)
        return True

    async def _store(self, progress: Progress, offset: int) -> None:
        fresh, turn = progress.fresh, progress.turn
        # Once the session has ended others may have stored more than that.
        await self._source.store(progress.partition, offset, self._assigning.session)
        progress.was_stored(offset, fresh if turn == progress.turn else 0)

    def _lost(self, progress: Progress, offset: int) -> None:
        logger.warning(
            "%s: partition %d went to another member before offset %d was stored; "
            "messages after offset %s are handled again there",
            *(self._source, progress.partition, offset, progress.stored),
        )
        self._ledger.lose(progress)
        self._assigning.due_at = 0.0
