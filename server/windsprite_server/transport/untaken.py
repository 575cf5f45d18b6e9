"""Replies that clients have asked for and not taken."""

from __future__ import annotations

from typing import Final

SMALL: Final = 64 * 1024
"""Bytes that a reply may always have."""


class UntakenReplies:
    """How much is on its way to clients, and what further replies may therefore have.

    A client that asks and does not read makes the server keep what it asked for. So while clients
    leave much untaken, all of them get small replies, one at a time.

    Args:
        limit: Bytes that may be untaken before replies become small. Beyond it each connection
            can make the server keep two small replies more, or one that is no larger than it must
            be: a single message.

    Attributes:
        size: Bytes that are untaken.
    """

    __slots__ = ("_limit", "size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.size = 0

    @property
    def is_short(self) -> bool:
        """Whether replies have to be small."""
        return self._limit - self.size <= SMALL

    def room(self) -> int:
        """Bytes that the next reply may have. May be called from any thread."""
        return max(SMALL, self._limit - self.size)
