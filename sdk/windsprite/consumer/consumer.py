"""The consumer: messages of a topic, one after the other, each until it is handled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import suppress
from types import TracebackType
from typing import Self
from weakref import ref

from windsprite.caller import Caller
from windsprite.consumer.assigning import Assigning, GroupPartitions, TopicPartitions
from windsprite.consumer.commits import Moment
from windsprite.consumer.committing import Committer
from windsprite.consumer.fetching import TEMPORARY, Fetcher, Patience
from windsprite.consumer.handling import Handler, Handling, OnFailure
from windsprite.consumer.ledger import Ledger
from windsprite.consumer.lifetime import Lifetime
from windsprite.consumer.loop import Loop
from windsprite.consumer.progress import Progress, Start
from windsprite.consumer.settings import Settings, commit_of
from windsprite.consumer.source import Calls, Source
from windsprite.consumer.standing import Standing
from windsprite.environment import Environment
from windsprite.errors import (
    ClientClosed,
    ConnectionLost,
    InvalidRequest,
    NotFound,
    PartitionNotOwned,
    WindspriteError,
)
from windsprite.link import Link
from windsprite.messages import From, ReceivedMessage
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.identifiers import Identifier

logger = logging.getLogger("windsprite")


class TopicConsumer(Standing):
    """Reads a topic, message by message; made by `Client.consumer`.

        async with client.consumer("orders", "events", group="billing") as consumer:
            async for message in consumer:
                print(message.partition_id, message.offset, message.payload)

    A message of `async for` is handled when the loop asks for the next one. When the loop is left,
    by `break` or by an error, the message it was at is not: it is handed out again, to the next
    loop or after a restart. Messages of `get` are handled when `handled` or `commit` says so.

    Use one loop at a time; `run` handles several messages at the same time, and any number of
    tasks may call `get`. Without `async with` the consumer is closed when the first loop, or
    `run`, ends.
    """

    def __init__(
        self,
        calls: Calls,
        caller: Caller,
        environment: Environment,
        stream: Identifier,
        topic: Identifier,
        *,
        name: Identifier | None,
        group: Identifier | None,
        settings: Settings,
        others: Collection[TopicConsumer],
    ) -> None:
        if name is not None and group is not None:
            raise InvalidRequest("consumer: either a name or a group, not both")
        self._source = source = Source(calls, caller, stream, topic, name, group)
        self._settings = settings
        self._others = others
        self._environment = environment
        self._commit = commit = commit_of(settings, source)
        self._stores_first = commit.moment is Moment.HANDED_OUT and commit.every is not None
        start = From.next() if settings.start is None else settings.start
        self._ledger = Ledger(
            settings.limits,
            commit,
            From.first() if start == From.next() else start,
            heeds_stored=group is not None or start == From.next(),
            is_group=group is not None,
            allow_replay=settings.allow_replay,
            has_room=self._has_room,
        )
        self._assigning = self._make_assigning(caller.link)
        self._committer = Committer(source, self._ledger, self._assigning)
        self._fetcher = Fetcher(
            source,
            self._ledger,
            self._assigning,
            self._committer,
            commit=commit,
            environment=environment,
            decrypts=settings.encryption,
            arrived=self._notify,
        )
        self._lifetime = Lifetime(
            source,
            self._ledger,
            self._assigning,
            self._committer,
            self._fetcher,
            environment=environment,
            wait_for_topic=settings.wait_for_topic,
            patience=self._patience,
            twins=self._twins,
            changed=self._notify,
        )
        self._news = asyncio.Event()
        self._is_entered = False
        self._is_stopping = False
        self._yields = False
        self._is_blocked = False
        self._loop: ref[Loop] | None = None

    def _make_assigning(self, link: Link) -> Assigning:
        settings, group = self._settings, self._source.group
        if group is None:
            return TopicPartitions(
                self._source, self._ledger, self._environment, settings.partitions
            )
        if settings.partitions is not None:
            raise InvalidRequest(
                "consumer: the partitions of a member are those its group gives it"
            )
        return GroupPartitions(
            self._source,
            group,
            self._ledger,
            link,
            self._environment,
            join=settings.join,
            create=settings.create_group,
            longest_pause=settings.poll_interval,
        )

    # --- Its life ----------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._is_entered = True
        try:
            await self.start()
        except BaseException:
            await self._close_quietly()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await (self.close() if kind is None else self._close_quietly())

    async def start(self) -> None:
        """Find the partitions, and begin to poll; everything that needs it does this by itself.

        Raises:
            NotFound: There is no such topic, partition or group.
            WindspriteError: As the methods of the client that are used.
        """
        await self._lifetime.start()

    def _twins(self) -> list[Lifetime]:
        """Those of the other consumers of the client that read the same for the same."""
        return [
            one._lifetime for one in self._others if one is not self and one._source == self._source
        ]

    def stop(self) -> None:
        """Hand out nothing more: loops and `run` end after the messages they are at."""
        self._is_stopping = True
        self._notify()

    async def close(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Store what was handled, leave the group, and end all background work.

        May be called more than once, also by several tasks. `Client.close` does it, too.

        Args:
            timeout: Seconds for all of it; None: `close_timeout`. Of several tasks that close it
                the one with the least time counts. Afterwards the consumer is closed in any case.

        Raises:
            WindspriteError: Something that was handled could not be stored: it comes again.
        """
        seconds = self._settings.close_timeout if timeout is None else timeout
        await self._lifetime.close(seconds)

    async def _close_quietly(self) -> None:
        """Close as `close` does, but do not raise what could not be stored: the log says it."""
        with suppress(WindspriteError):
            await self.close()

    def _patience(self) -> Patience:
        return Patience(self._environment, self._settings.patience, f"consume {self._source}")

    # --- Messages ----------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """All messages; ends after `stop` or `close`.

        Raises:
            WindspriteError: As `get`.
        """
        before = None if self._loop is None else self._loop()
        if before is not None:
            before.leave()
        loop = Loop(self._next_of_loop, self._abandon_loop)
        self._loop = ref(loop)
        return loop

    async def _next_of_loop(self, previous: ReceivedMessage | None) -> ReceivedMessage | None:
        """What `async for` gets next, now that the one before is handled; None: no more."""
        if previous is not None:
            self._finish(previous)
        try:
            message = self._take()
            if message is None:
                message = await self._next()
        except BaseException:
            await self._leave_loop(quietly=True)
            raise
        if message is None:
            await self._leave_loop(quietly=False)
        return message

    async def _leave_loop(self, *, quietly: bool) -> None:
        """A loop or `run` has ended: close the consumer unless somebody else will."""
        if not self._is_entered:
            await (self._close_quietly() if quietly else self.close())

    def _abandon_loop(self, message: ReceivedMessage) -> None:
        """A loop was left at a message, which was not handled."""
        self._ledger.put_back(message)
        self._notify()
        if not self._is_entered:
            self._lifetime.begin_to_close(self._settings.close_timeout)

    async def get(self) -> ReceivedMessage:
        """The next message; it is not handled before `handled` or `commit` says so.

        May be cancelled, as by `asyncio.timeout`: no message is lost.

        Raises:
            ClientClosed: The consumer was stopped or closed.
            WindspriteError: The consumer cannot go on as it is; the next call tries it once more.
        """
        message = self._take()
        if message is None:
            message = await self._next()
        if message is None:
            raise ClientClosed(
                f"the consumer of {self._source} was stopped", code=ErrorCode.CLIENT_SHUTDOWN
            )
        return message

    def handled(self, message: ReceivedMessage) -> None:
        """A message of `get` was handled; its offset is stored when all before it are handled, too.

        Nothing happens if the partition was given up meanwhile, or `seek` left it.
        """
        self._finish(message)

    def not_handled(self, message: ReceivedMessage) -> None:
        """A message of `get` was not handled: it is handed out again, before those after it.

        Whoever has the partition then gets it. Nothing happens if its offset counts already, as
        with `Commit.manual`.
        """
        self._ledger.put_back(message)
        self._notify()

    async def run(
        self,
        handler: Handler,
        *,
        concurrency: int = 1,
        attempts: int = 5,
        on_failure: OnFailure | None = None,
        stop: asyncio.Event | None = None,
    ) -> None:
        """Handle messages until `stop`, `close`, or an error.

        A message is handled when the handler is done with it without an error. If it fails, it is
        given the same message again after a pause of up to 0.1 s, 0.2 s ... 10 s.

        Args:
            handler: Is called with each message; may be a coroutine function.
            concurrency: How many messages are handled at the same time. With 1 those of a partition
                are handled in their order, otherwise they only begin in it.
            attempts: How often the handler sees a message that it fails on.
            on_failure: Is called after that, with the message and the last error; the message then
                counts as handled. None: `run` ends with the error.
            stop: Ends `run` when it is set, after the messages that are being handled.

        Raises:
            Exception: What the handler raised in its last attempt.
            WindspriteError: As `get`.
        """
        handling = Handling(self, handler, self._environment, attempts, on_failure)
        try:
            await handling.run(concurrency, stop)
        except BaseException:
            await self._leave_loop(quietly=True)
            raise
        await self._leave_loop(quietly=False)

    def _take(self) -> ReceivedMessage | None:
        """The next message, if it can be had without waiting for anything."""
        if not self._lifetime.has_begun or self._is_over:
            return None
        if self._stores_first or self._yields or self._ledger.due or self._assigning.is_stale:
            return None
        return self._ledger.take()

    async def _next(self) -> ReceivedMessage | None:
        """The next message, whatever has to be waited for; None: there are to be no more."""
        while not self._is_over:
            if self._lifetime.has_to_start:
                await self.start()
            if self._yields:
                # Whoever fetches more gets a turn even if messages are handled without waiting.
                self._yields = False
                await self._environment.sleep(0)
            await self._store_due()
            message = await self._take_storing()
            if message is not None:
                return message
            if self._assigning.is_stale:
                self._fetcher.wake()
            failure = self._lifetime.take_failure()
            if failure is not None:
                raise failure
            self._note_blocked()
            if self._ledger.is_full:
                self._fetcher.wake()  # what is there has to stay: others may have something
            # Nothing was waited for since the last look for a message: so no news are missed.
            self._news.clear()
            if not self._is_over:
                await self._news.wait()
        return None

    @property
    def _is_over(self) -> bool:
        """Whether nothing more is to be handed out."""
        return self._lifetime.is_closing or self._is_stopping

    async def _take_storing(self) -> ReceivedMessage | None:
        """The next message, after its offset is stored if that has to be."""
        patience = self._patience()
        was_missing = False
        while not self._is_over and not self._assigning.is_stale:
            progress = self._ledger.next_to_give()
            if progress is None or not self._ledger.has_to_store(progress):
                return self._ledger.take()
            try:
                if self._source.group is not None:
                    # It may have gone to another member and come back since we asked last.
                    await self._fetcher.settle(renew=True)
                await self._committer.store_next(progress)
            except TEMPORARY as error:
                await patience.after(error)
            except NotFound:
                if was_missing:
                    raise
                was_missing = True
                await self._fetcher.settle(renew=True)
        return None

    def _note_blocked(self) -> None:
        """Whoever waits although there are messages has to be told when one is handled."""
        was_blocked, self._is_blocked = self._is_blocked, bool(self._ledger.waiting_for_handlers)
        if self._is_blocked and not was_blocked:
            logger.warning("%r: older messages have to be handled before there are more", self)

    def _finish(self, message: ReceivedMessage) -> None:
        self._ledger.finish(message)
        if self._is_blocked:
            self._notify()

    def _has_room(self) -> None:
        self._yields = True
        self._fetcher.wake()

    def _notify(self) -> None:
        self._news.set()

    # --- Offsets -----------------------------------------------------------------------------

    async def commit(self, message: ReceivedMessage) -> None:
        """A message and all before it in its partition are handled: store that now.

        Raises:
            PartitionNotOwned: The partition belongs to another member now; it gets the message.
            WindspriteError: As `Client.store_consumer_offset`.
        """
        progress = self._progress(message.partition_id)
        self._ledger.finish_up_to(progress, message.offset)
        if self._commit.moment is Moment.NEVER:
            await self.store_offset(message.offset, partition=message.partition_id)
            return

        async def store() -> None:
            offset = progress.to_store()
            if offset is not None:
                await self._committer.store(progress, offset)

        await self._when_settled(store, progress)

    async def flush(self) -> None:
        """Store now what was handled; with `Commit.manual`, what was handed out.

        Raises:
            WindspriteError: Some of it was not stored; it is not forgotten.
        """
        await self._when_settled(lambda: self._committer.flush(self._ledger))

    async def store_offset(self, offset: int, *, partition: int) -> None:
        """Store an offset, whatever was handled; reading goes on where it is.

        Raises:
            WindspriteError: As `Client.store_consumer_offset`.
        """
        progress = self._progress(partition)
        await self._when_settled(lambda: self._committer.store(progress, offset), progress)

    async def delete_offset(self, *, partition: int) -> None:
        """Delete the stored offset; reading goes on where it is.

        Raises:
            WindspriteError: As `Client.delete_consumer_offset`.
        """
        progress = self._progress(partition)
        await self._when_settled(lambda: self._committer.delete(progress), progress)

    def seek(self, partition: int, where: Start | int) -> None:
        """Go on reading somewhere else: at an offset, or as `From` says.

        What was polled is dropped, and messages that were handed out before do not count any more.
        The stored offset follows when messages are handled from there on.

        Raises:
            PartitionNotOwned: The partition is not one of this consumer's.
        """
        progress = self._progress(partition)
        self._ledger.seek(progress, From.offset(where) if isinstance(where, int) else where)
        self._fetcher.wake()

    def pause(self, *partitions: int) -> None:
        """Hand out and poll nothing of these partitions until `resume`; without any, of all."""
        for partition in partitions or self.assignment:
            self._progress(partition).is_paused = True
        self._fetcher.wake()

    def resume(self, *partitions: int) -> None:
        """Go on after `pause`; without any partition, with all."""
        for partition in partitions or [progress.partition for progress in self._ledger]:
            self._progress(partition).is_paused = False
        self._notify()
        self._fetcher.wake()

    # --- Inside ------------------------------------------------------------------------------

    async def _when_settled(
        self, change: Callable[[], Awaitable[None]], progress: Progress | None = None
    ) -> None:
        """Change offsets once we know what is ours, as far as we can; of one partition, or of all.

        A session that ends before the request is sent is no reason not to do it in the next one,
        after another look.
        """
        patience = self._patience()
        while True:
            self._lifetime.check_open()
            if self._assigning.is_stale or progress is None or not progress.is_held:
                await self._fetcher.settle()
            if progress is not None and not progress.is_held:
                raise PartitionNotOwned(
                    f"partition {progress.partition} went to another member",
                    code=ErrorCode.CONSUMER_GROUP_PARTITION_NOT_OWNED,
                )
            try:
                return await change()
            except ConnectionLost as error:
                if not self._assigning.is_stale:
                    raise
                await patience.after(error)

    async def _store_due(self) -> None:
        """Store what has to be stored before anything more is handed out."""
        patience = self._patience()
        while (due := self._ledger.due) and not self._is_over:
            try:
                if self._assigning.is_stale:
                    await self._fetcher.settle()
                await self._committer.flush(due)
            except TEMPORARY as error:
                await patience.after(error)
            else:
                if not self._assigning.is_stale:
                    self._ledger.was_due(due)
