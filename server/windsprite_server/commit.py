"""The one way a metadata command becomes durable and applied.

A command is admitted (may this node write?), given the next position and a time, appended to the
journal, applied to the state, and only then answered. One task does this for all commands that
wait, with one durable write for each group of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from windsprite_protocol.model.outcomes import NotNow, Rejected, Success
from windsprite_server.core.clock import Clock
from windsprite_server.journal import Journal
from windsprite_server.metadata.commands import Command, PartitionPlace
from windsprite_server.metadata.state import State, Topic


class WriteGate(Protocol):
    """Whether this node may change metadata now; `cluster.Cluster` is one."""

    def may_write(self) -> bool:
        """Asked before each group of commands."""
        ...


class PartitionStore(Protocol):
    """What the logs of partitions have to do when metadata changes."""

    async def open(self, place: PartitionPlace, topic: Topic) -> None:
        """Make a new, empty partition ready for sends and polls."""
        ...

    async def remove(self, place: PartitionPlace) -> None:
        """Delete the files of a partition that is gone; nothing to delete is no error."""
        ...


@dataclass(frozen=True, slots=True)
class Committed:
    """A command was journaled and applied, or turned down by the state (also journaled).

    Attributes:
        position: Of the command in the journal; the `commit` of its reply.
        timestamp_us: When it was committed; grows strictly with the position.
        outcome: The reply value, or the number of the rejection.
    """

    position: int
    timestamp_us: int
    outcome: Success | Rejected


class CommitFailedError(Exception):
    """The journal failed in the middle of a write: whether it is durable is not known.

    Nothing was applied, and this committer takes no more commands. A restart finds out.
    """


async def recover(journal: Journal) -> State:
    """The state that a journal describes: its snapshot and all commands after it.

    Raises:
        JournalError: The journal cannot be read; it names the position.
    """
    raise NotImplementedError


class Committer:
    """Commits commands one group after the other."""

    def __init__(
        self,
        journal: Journal,
        state: State,
        clock: Clock,
        cluster: WriteGate,
        partitions: PartitionStore,
        *,
        max_waiting: int = 1024,
        max_group: int = 256,
        snapshot_every: int = 10_000,
    ) -> None: ...

    @property
    def position(self) -> int:
        """The position up to which metadata is applied: the `commit` of replies.

        Never goes back, also not across restarts.
        """
        raise NotImplementedError

    async def start(self) -> None:
        """Begin to take commands."""

    async def stop(self) -> None:
        """Commit what waits, refuse what comes, and end."""

    async def execute(self, command: Command, user_id: int | None) -> Committed | NotNow:
        """Commit a command.

        Args:
            command: What to change.
            user_id: The acting user, whose permissions are checked when it is applied; `None` is
                the server itself, which may do everything.

        Returns:
            How it ended; `NotNow` if it was not executed and may be tried again.

        Raises:
            CommitFailedError: Whether the command is durable is not known.
        """
        raise NotImplementedError
