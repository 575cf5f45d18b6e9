"""What becomes of failures that nobody asks for."""

from __future__ import annotations

import logging
from typing import Final

from windsprite.environment import Environment

logger = logging.getLogger("windsprite")

LOG_INTERVAL_US: Final = 10_000_000
"""Microseconds between two lines about lost messages."""


class FailureLog:
    """Says that messages were lost, but not over and over.

    Args:
        environment: The clock.
        where: The topic, for the log.
    """

    def __init__(self, environment: Environment, where: str) -> None:
        self._environment = environment
        self._where = where
        self._told_at: int | None = None
        self._untold = 0
        self._last: BaseException | None = None

    def note(self, count: int, error: BaseException) -> None:
        """Messages failed, and their deliveries are gone without anybody having looked at them."""
        self._untold += count
        self._last = error
        # Deliveries may be collected after their event loop, whose clock is gone then.
        now = self._environment.wall_clock_us()
        if self._told_at is None or not 0 <= now - self._told_at < LOG_INTERVAL_US:
            self._told_at = now
            self.tell()

    def tell(self) -> None:
        """Log what was not logged yet."""
        if self._untold:
            logger.error(
                "%d messages to %s were not delivered, and nobody asked about them; the last: %s",
                self._untold,
                self._where,
                self._last,
            )
        self._untold, self._last = 0, None
