"""Which request is due when, and how many messages it has; no I/O."""

from __future__ import annotations

from typing import NamedTuple


class Turn(NamedTuple):
    """One request.

    Attributes:
        messages: How many messages it has.
        due: When it is to be sent, in seconds of the clock; None: at once.
    """

    messages: int
    due: float | None


class Pacing:
    """Deals out requests to whoever asks for the next one.

    With a rate the times do not depend on how long earlier requests take (open loop): what cannot
    be sent in time is late, and its latency counts from when it was due.

    Args:
        start: The time when it begins, in seconds.
        messages: How many messages in all; None: no end.
        batch: How many messages a request has.
        rate: Messages in a second; None: as fast as it goes.
        duration: Seconds after which there are no more requests; None: no end.
    """

    def __init__(
        self,
        start: float,
        *,
        messages: int | None,
        batch: int,
        rate: float | None,
        duration: float | None,
    ) -> None:
        self._start = start
        self._left = messages
        self._batch = batch
        self._rate = rate
        self._end = None if duration is None else start + duration
        self._dealt = 0

    def next(self, now: float) -> Turn | None:
        """The next request; None: there are no more."""
        due = None if self._rate is None else self._start + self._dealt / self._rate
        if self._end is not None and (now if due is None else due) >= self._end:
            return None
        messages = self._batch if self._left is None else min(self._batch, self._left)
        if not messages:
            return None
        self._dealt += messages
        if self._left is not None:
            self._left -= messages
        return Turn(messages, due)
