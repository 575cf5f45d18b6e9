"""When the offsets of messages are stored (spec 07, 10.3); no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from windsprite.errors import InvalidRequest

DEFAULT_INTERVAL = 1.0
"""Seconds between two stores."""


class Moment(Enum):
    """What has to have happened to a message before its offset may be stored."""

    HANDLED = "it was handled"
    HANDED_OUT = "it was handed out"
    POLLED = "it was polled"
    NEVER = "nothing: offsets are stored when the program asks for it"


@dataclass(frozen=True, slots=True)
class Commit:
    """When offsets are stored; made by one of the methods, not by hand.

    The conditions of one policy are alternatives: whatever comes first. What is due then is stored
    also when a partition is given up, and when the consumer is closed.

    Attributes:
        moment: Which messages count.
        every: So many messages of a partition make a store due. Nothing more is handed out until
            it is done, so this is also the largest number of messages that come again after a
            crash. None: no number does.
        interval: Seconds after which a store is due, in the background. None: no time does.
    """

    moment: Moment
    every: int | None = None
    interval: float | None = None

    def __post_init__(self) -> None:
        if self.every is not None and self.every < 1:
            raise InvalidRequest("Commit: every is a number of messages, at least 1")
        if self.interval is not None and not self.interval > 0:
            raise InvalidRequest("Commit: interval is a number of seconds above 0")

    @classmethod
    def after_handling(
        cls,
        *,
        every: int | None = None,
        interval: float | None = DEFAULT_INTERVAL,
    ) -> Commit:
        """Only what was handled: each message is handled at least once.

        Args:
            every: After so many messages of a partition.
            interval: After so many seconds.
        """
        return cls(Moment.HANDLED, every, interval)

    @classmethod
    def before_handling(cls, *, every: int | None = 1, interval: float | None = None) -> Commit:
        """What is handed out, before it is: with `every=1` each message is handled at most once.

        Args:
            every: With each message that makes so many of a partition.
            interval: After so many seconds.
        """
        return cls(Moment.HANDED_OUT, every, interval)

    @classmethod
    def on_poll(cls) -> Commit:
        """By the server, with each poll: the quickest, and what was polled never comes again."""
        return cls(Moment.POLLED)

    @classmethod
    def manual(cls) -> Commit:
        """Only by `commit`, `flush` and `store_offset`, also when the consumer is closed."""
        return cls(Moment.NEVER)

    @property
    def stores_handled(self) -> bool:
        """Whether the consumer itself stores what was handled, or handed out."""
        return self.moment in {Moment.HANDLED, Moment.HANDED_OUT}
