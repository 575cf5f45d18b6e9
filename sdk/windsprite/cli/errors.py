"""What ends a command."""

from __future__ import annotations


class CommandError(Exception):
    """A command cannot go on; what the person who typed it is told.

    Attributes:
        sentence: What happened.
        hint: What to do about it; empty where that is plain.
    """

    def __init__(self, sentence: str, hint: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint


class UsageError(CommandError):
    """The command line makes no sense."""
