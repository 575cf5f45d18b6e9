"""How long a partition is left alone that had nothing new; no I/O.

The protocol has no poll that waits (spec 04, 5.3). So a partition is polled again and again, at
first soon and then less and less often: each pause is as long as all the pauses since the last
message together. A message is therefore late by at most about the time for which its partition had
been silent, and never by more than the longest pause.
"""

from __future__ import annotations

from typing import Final

SHORTEST: Final = 0.002
"""Seconds of the first pause."""

SPACING: Final = 0.005
"""Seconds between two polls of a consumer with nothing to do, however many partitions it has."""


class Pace:
    """The pauses of one partition.

    Attributes:
        ready_at: When it may be polled again, in seconds.
    """

    __slots__ = ("_pause", "ready_at")

    def __init__(self) -> None:
        self.ready_at = 0.0
        self._pause = 0.0

    def hurry(self) -> None:
        """Poll at once."""
        self.ready_at = 0.0
        self._pause = 0.0

    def found_nothing(self, now: float, longest: float) -> None:
        """Pause, longer than the last time.

        Args:
            now: The time, in seconds.
            longest: The longest pause, in seconds.
        """
        self._pause = min(longest, self._pause * 2 or SHORTEST)
        self.ready_at = now + self._pause


def longest_pause(poll_interval: float, partitions: int) -> float:
    """The longest pause of each of so many partitions, in seconds."""
    return max(poll_interval, SPACING * partitions)
