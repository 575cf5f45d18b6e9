"""What a check finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from uuid import UUID

from windsprite_server.log.inspection import PartitionInspection
from windsprite_server.log.keys import PartitionKey


class Verdict(Enum):
    """What is to be thought of a data directory."""

    SOUND = "sound"
    """Everything can be read."""
    DAMAGED = "damaged"
    """A server starts on it, but some of what was stored cannot be read."""
    UNUSABLE = "unusable"
    """No server starts on it."""


@dataclass(frozen=True, slots=True)
class JournalFound:
    """What the journal of metadata holds.

    Attributes:
        problem: Why it cannot be used; empty if it can. All else is 0 then.
        position: Of its newest command.
        streams: How many streams there are after it.
        topics: Likewise.
        users: Likewise.
    """

    problem: str = ""
    position: int = 0
    streams: int = 0
    topics: int = 0
    users: int = 0


@dataclass(frozen=True, slots=True)
class PartitionFound:
    """What the log of a partition holds.

    Attributes:
        key: Its numbers.
        stream: The name of its stream; empty if the journal cannot tell.
        topic: The name of its topic; likewise.
        inspection: What is in it; `None` if it could not be looked at.
        problem: Why it could not.
        is_missing: Whether it has no directory.
    """

    key: PartitionKey
    stream: str
    topic: str
    inspection: PartitionInspection | None
    problem: str = ""
    is_missing: bool = False

    @property
    def is_sound(self) -> bool:
        """Whether everything in it can be read."""
        inspection = self.inspection
        return not self.problem and (inspection is None or inspection.is_sound)


@dataclass(frozen=True, slots=True)
class Report:
    """What a data directory holds.

    Attributes:
        directory: Which.
        cluster_id: The cluster whose data it is.
        generation: How many times a server was started on it.
        journal: `None` if no server has got so far as to make one.
        partitions: Those that the journal knows; if it cannot be read, all that there are.
        leftovers: What else lies among the logs, which servers leave alone.
    """

    directory: Path
    cluster_id: UUID
    generation: int
    journal: JournalFound | None
    partitions: tuple[PartitionFound, ...]
    leftovers: tuple[Path, ...]

    @property
    def damaged(self) -> tuple[PartitionFound, ...]:
        """The partitions of which not everything can be read."""
        return tuple(partition for partition in self.partitions if not partition.is_sound)

    @property
    def verdict(self) -> Verdict:
        """What is to be thought of it."""
        if self.journal is not None and self.journal.problem:
            return Verdict.UNUSABLE
        return Verdict.DAMAGED if self.damaged else Verdict.SOUND
