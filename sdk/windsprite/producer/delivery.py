"""What becomes of messages: one outcome for each batch, one delivery for each message of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, overload

Report: TypeAlias = Callable[[int, BaseException], None]
"""Is told how many messages failed without anybody asking, and why."""


class Delivered(NamedTuple):
    """Where a message is stored.

    Attributes:
        partition: Its partition; None if the server chose it and did not say.
        offset: Its place there; None if it is stored, but the server did not say where. That
            happens when an answer got lost and the repeat was recognised as such.
    """

    partition: int | None
    offset: int | None


class Outcome:
    """What becomes of a batch; the same for all its messages, but for their places."""

    __slots__ = (
        "_base_offset",
        "_error",
        "_partition",
        "_report",
        "_unseen",
        "_waiters",
        "settled",
    )

    def __init__(self) -> None:
        self.settled = False
        self._partition: int | None = None
        self._base_offset: int | None = None
        self._error: BaseException | None = None
        self._waiters: set[asyncio.Future[None]] = set()
        self._unseen = 0
        self._report: Report | None = None

    def succeed(self, partition: int | None, base_offset: int | None) -> None:
        """The batch is stored; the offset is that of its first message, if it is known."""
        self._partition, self._base_offset = partition, base_offset
        self._settle()

    def fail(self, error: BaseException, count: int, report: Report | None) -> None:
        """The batch is not stored, or nobody knows.

        Args:
            error: What every delivery of it raises.
            count: How many messages it has.
            report: Is told of those whose deliveries nobody has looked at until they are gone.
        """
        # Its traceback leads to whoever holds this outcome; it would live until a collection.
        self._error = error.with_traceback(None)
        self._unseen, self._report = count, report
        self._settle()

    async def wait(self) -> None:
        """Wait until it is settled; whoever is cancelled leaves the others alone."""
        if self.settled:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    def of(self, index: int) -> Delivered:
        """The outcome of one message.

        Raises:
            BaseException: What the batch failed with.
        """
        if self._error is not None:
            # As futures do: not with the traceback of everybody who was told before.
            raise self._error.with_traceback(None)
        base = self._base_offset
        return Delivered(self._partition, None if base is None else base + index)

    def seen(self) -> None:
        """Somebody learnt what became of one of the messages."""
        self._unseen -= 1

    def _settle(self) -> None:
        self.settled = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def __del__(self) -> None:
        if self._error is not None and self._unseen > 0 and self._report is not None:
            self._report(self._unseen, self._error)


class Delivery:
    """What becomes of one message; await it to know, as often as you like.

        delivery = await producer.send(b"payload")
        placed = await delivery        # Delivered(partition=2, offset=17), or the error

    To give up waiting (`asyncio.wait_for`, cancellation) does not stop the message. A delivery that
    nobody awaits costs next to nothing.
    """

    __slots__ = ("_index", "_outcome", "_seen")

    def __init__(self, outcome: Outcome, index: int) -> None:
        self._outcome = outcome
        self._index = index
        self._seen = False

    def __repr__(self) -> str:
        if not self.done():
            return "<Delivery pending>"
        try:
            return f"<Delivery {self._outcome.of(self._index)}>"
        except BaseException as error:
            return f"<Delivery {error!r}>"

    def __await__(self) -> Generator[Any, None, Delivered]:
        """Where the message is stored.

        Raises:
            OutcomeUnknown: It may have been stored or not.
            WindspriteError: It was not stored.
        """
        if not self._outcome.settled:
            yield from self._outcome.wait().__await__()
        return self.result()

    async def wait(self) -> None:
        """Wait until it is known what became of the message, whatever that is."""
        await self._outcome.wait()

    def done(self) -> bool:
        """Whether it is known what became of the message."""
        return self._outcome.settled

    def result(self) -> Delivered:
        """Where the message is stored, once that is known.

        Raises:
            asyncio.InvalidStateError: It is not known yet.
            WindspriteError: As when it is awaited.
        """
        if not self._outcome.settled:
            raise asyncio.InvalidStateError("the message is still on its way")
        if not self._seen:
            self._seen = True
            self._outcome.seen()
        return self._outcome.of(self._index)


class Part(NamedTuple):
    """Messages that stand one after the other in a batch.

    Attributes:
        outcome: What becomes of the batch.
        first: The place of the first of them, counted from 0.
        length: How many they are.
    """

    outcome: Outcome
    first: int
    length: int


class Deliveries(Sequence[Delivery]):
    """What becomes of the messages of one call: a sequence of a `Delivery` for each of them.

        deliveries = await producer.send_many([b"one", b"two"])
        await deliveries.wait()        # all are settled
        placed = deliveries[1].result()

    The single deliveries are made when the first of them is asked for; without that, a call with
    very many messages costs no more than its batches.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._length = sum(part.length for part in parts)

    def __repr__(self) -> str:
        return f"<{self._length} deliveries, {'settled' if self.done() else 'pending'}>"

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Delivery]:
        return iter(self._each)

    @overload
    def __getitem__(self, index: int) -> Delivery: ...

    @overload
    def __getitem__(self, index: slice) -> list[Delivery]: ...

    def __getitem__(self, index: int | slice) -> Delivery | list[Delivery]:
        return self._each[index]

    async def wait(self) -> None:
        """Wait until it is known what became of every message, whatever that is."""
        for part in self._parts:
            await part.outcome.wait()

    def done(self) -> bool:
        """Whether it is known what became of every message."""
        return all(part.outcome.settled for part in self._parts)

    @cached_property
    def _each(self) -> list[Delivery]:
        # Once and for all: each of them remembers whether somebody has looked at it.
        return [
            Delivery(outcome, index)
            for outcome, first, length in self._parts
            for index in range(first, first + length)
        ]
