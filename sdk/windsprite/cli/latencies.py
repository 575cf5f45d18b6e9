"""How long things took: a histogram that stays small, however many there are; no I/O."""

from __future__ import annotations

from collections import Counter
from typing import Final

_DIGITS: Final = 7
"""Binary digits that are kept of each value: what it says is off by less than 1/128."""


class Histogram:
    """Counts latencies, in whole microseconds, and tells their percentiles.

    A value is counted with those that have the same leading binary digits, as in an HDR histogram:
    exactly below 256 µs, and to less than 1 % above. There are at most 128 counters for each
    doubling of the value.

    Attributes:
        count: How many there are.
        largest: The largest of them, in microseconds, exactly; 0 if there are none.
    """

    def __init__(self) -> None:
        self.count = 0
        self.largest = 0
        self._counts: Counter[int] = Counter()

    def record(self, seconds: float) -> None:
        """Count one; less than nothing, as clocks may say, is nothing."""
        value = max(0, round(seconds * 1_000_000))
        self.count += 1
        self.largest = max(self.largest, value)
        self._counts[_group_end(value)] += 1

    def percentile(self, percent: float) -> int:
        """So many percent took no longer than this, in microseconds; 0 if there are none.

        It may be too large by less than 1 %, and never too small.
        """
        wanted = max(1.0, self.count * percent / 100)
        seen = 0
        for end in sorted(self._counts):
            seen += self._counts[end]
            if seen >= wanted:
                return min(end, self.largest)
        return self.largest


def _group_end(value: int) -> int:
    """The largest value that is counted together with this one."""
    shift = max(0, value.bit_length() - _DIGITS - 1)
    return ((value >> shift) + 1 << shift) - 1
