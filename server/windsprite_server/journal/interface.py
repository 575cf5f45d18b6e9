"""What a journal is, whatever it is kept in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Entry:
    """One journaled command.

    Attributes:
        position: 1 or more; grows strictly, and a durable one is never used again.
        timestamp_us: When it was committed, in microseconds since the Unix epoch; grows strictly.
        user_id: The acting user; `None`: the server itself.
        command: The encoded command.
    """

    position: int
    timestamp_us: int
    user_id: int | None
    command: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An encoded state that stands for all entries up to a position."""

    position: int
    state: bytes = field(repr=False)


class JournalProblem(Enum):
    """What is wrong with a journal."""

    MISSING = "missing"
    """There is no journal where one is expected."""
    IN_USE = "in use"
    """Another process has it open."""
    FOREIGN = "foreign"
    """The file is something else."""
    NEWER_FORMAT = "newer format"
    """A later version wrote it, or one of its entries."""
    DAMAGED = "damaged"
    """What it holds is not what was written, or the disk does not give it; it was left as it is."""
    UNREADABLE = "unreadable"
    """The operating system refused to open or read it."""
    NOT_WRITTEN = "not written"
    """A write failed and left no trace: it may be tried again."""
    UNKNOWN_OUTCOME = "unknown outcome"
    """A write failed, and only reopening the journal shows whether it is in it."""
    CLOSED = "closed"
    """The journal is closed, or an earlier write ended with an unknown outcome."""
    BUSY = "busy"
    """More calls wait for it than may; nothing was done."""


class JournalError(Exception):
    """A journal cannot be opened, read or written.

    Attributes:
        problem: What is wrong.
        position: The entry or snapshot concerned, where there is one.
    """

    def __init__(self, problem: JournalProblem, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.problem = problem
        self.position = position


class Journal(Protocol):
    """Durable, ordered commands."""

    @property
    def last_position(self) -> int:
        """The position of the newest durable entry; 0 before the first."""
        ...

    @property
    def snapshot_position(self) -> int:
        """The position of the stored snapshot; 0 without one."""
        ...

    @property
    def command_bytes(self) -> int:
        """Bytes of the commands of all entries that no snapshot stands for."""
        ...

    async def append(self, entries: Sequence[Entry]) -> int:
        """Append entries in one step: all of them or none.

        Returns:
            The durable position, which is that of the last entry.

        Raises:
            JournalError: `NOT_WRITTEN`, `UNKNOWN_OUTCOME`, `CLOSED` or `BUSY`.
            ValueError: Positions or timestamps do not grow, or do not fit 63 bits.
        """
        ...

    async def snapshot(self) -> Snapshot | None:
        """The stored snapshot, if there is one.

        Raises:
            JournalError: `DAMAGED`, `CLOSED` or `BUSY`.
        """
        ...

    def replay(self, after: int) -> AsyncIterator[Entry]:
        """All entries after a position, in order, each verified before it is given out.

        Args:
            after: The position of the stored snapshot or of an entry; 0 for the beginning.

        Raises:
            JournalError: `DAMAGED` at the first entry that is not what was written, and where
                entries are missing; `CLOSED` or `BUSY`.
        """
        ...

    async def store_snapshot(self, snapshot: Snapshot) -> None:
        """Let a snapshot stand for all entries up to its position, which are dropped.

        Raises:
            JournalError: As for `append`. The old snapshot and the entries are still there.
            ValueError: There is no entry at its position.
        """
        ...

    async def close(self) -> None:
        """Finish what is being written; later calls fail with `CLOSED`."""
        ...
