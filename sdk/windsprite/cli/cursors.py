"""How far a partition has been read, and what to ask for next; no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from windsprite import Batch, From, ReceivedMessage
from windsprite.cli.arguments import Start, StartKind

_FIRST_COUNT: Final = 16
_LARGEST_COUNT: Final = 10_000
_REPLY_BYTES: Final = 4 << 20
"""How many bytes of payload a reply should have, about."""

_MESSAGE_OVERHEAD: Final = 48


class Cursor:
    """Reads one partition from a start to an end.

    Args:
        partition: Which.
        start: Where to begin.
        newest: The offset of the newest message at the time when reading begins; None: there is
            no message.
        count: Messages wanted; None: as many as there are.
        follow: Whether to go on behind the newest message.
        again: Where a follower goes on in a partition that was emptied, or has lost its end.

    Attributes:
        start: Where the next poll begins.
        is_done: Whether there is nothing more to be had.
    """

    def __init__(
        self,
        partition: int,
        start: Start,
        *,
        newest: int | None,
        count: int | None,
        follow: bool,
        again: From = From.first(),  # noqa: B008 - a constant
    ) -> None:
        self.partition = partition
        self.start = _begin(start, newest, count or 1)
        self._end = None if follow else -1 if newest is None else newest
        self._again = again
        self._highest = -1
        self._left = count
        self._typical_size: int | None = None
        self.is_done = self._end == -1

    @property
    def count(self) -> int:
        """How many messages to ask for next: so many that a reply gets neither tiny nor huge."""
        if self._typical_size is None:
            count = _FIRST_COUNT
        else:
            count = max(1, min(_LARGEST_COUNT, _REPLY_BYTES // self._typical_size))
        return count if self._left is None else min(count, self._left)

    def take(self, batch: Batch) -> Sequence[ReceivedMessage]:
        """Those messages of a reply that are wanted; the cursor moves on behind them."""
        messages: Sequence[ReceivedMessage] = batch.messages
        if self._end is not None and messages and messages[-1].offset > self._end:
            messages = [message for message in messages if message.offset <= self._end]
        if not messages:
            self.is_done = self._end is not None
            if batch.current_offset < self._highest:
                self.start = self._again
                self._highest = -1
            return messages
        newest = self._highest = messages[-1].offset
        self.start = From.offset(newest + 1)
        size = sum(len(message.payload) for message in messages)
        self._typical_size = _MESSAGE_OVERHEAD + size // len(messages)
        if self._left is not None:
            self._left -= len(messages)
        self.is_done = newest == self._end or self._left == 0
        return messages


def _begin(start: Start, newest: int | None, count: int) -> From:
    match start.kind:
        case StartKind.FIRST:
            return From.first()
        case StartKind.LAST:
            return From.first() if newest is None else From.offset(max(0, newest + 1 - count))
        case StartKind.NEXT:
            return From.next()
        case StartKind.OFFSET:
            return From.offset(start.value)
        case StartKind.TIME:
            return From.timestamp(start.value)
