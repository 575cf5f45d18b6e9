"""What logs report: figures, reads, damage, and what recovery found."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from windsprite_protocol.model.messages import Buffer
from windsprite_server.log.keys import PartitionKey
from windsprite_server.log.scan import Gap


class LogFigures(Protocol):
    """How much a log holds (spec 03, 7)."""

    @property
    def key(self) -> PartitionKey:
        """Which log it is."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes of the visible batches."""
        ...

    @property
    def messages_count(self) -> int:
        """Visible messages."""
        ...

    @property
    def segments_count(self) -> int:
        """Segments, the active one included."""
        ...


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a segment that are not the batches that were written there.

    Attributes:
        segment: The file.
        position: Where in the file the damage begins.
        length: Its bytes, up to the next sound batch or the end of the segment.
        first_offset: The first offset that can't be read.
        next_offset: The first sound offset after it.
        reason: What is wrong.
    """

    segment: Path
    position: int
    length: int
    first_offset: int
    next_offset: int
    reason: str


def damage_of(path: str, gap: Gap) -> Damage:
    """A gap in the words of a report."""
    return Damage(Path(path), gap.position, gap.length, gap.offset, gap.next_offset, gap.reason)


class ReadResult(NamedTuple):
    """What a read found.

    Attributes:
        records: Batches in ascending order; each buffer holds whole records, or a new header
            followed by its frames in the next buffer.
        messages_count: Messages in all records.
        size_bytes: Bytes of all records.
        last_offset: Offset of the last message in the records; -1 if there is none.
        damage: What kept the read from going on, if it was damage.
    """

    records: tuple[Buffer, ...]
    messages_count: int
    size_bytes: int
    last_offset: int
    damage: Damage | None = None


@dataclass(frozen=True, slots=True)
class TornTail:
    """An unfinished write at the end of a log, cut off at start.

    Attributes:
        segment: The file.
        position: Its size after the cut.
        length: How many bytes were cut.
        saved_as: Where they were kept, if they were not plainly the beginning of one batch.
    """

    segment: Path
    position: int
    length: int
    saved_as: Path | None


@dataclass(frozen=True, slots=True)
class ClampedOffset:
    """A stored consumer offset that was beyond the recovered end of its log.

    Attributes:
        kind: "consumer", "group", or "watermark" for the one that asks for removals.
        number: The consumer's or group's number; 0 for the watermark.
        stored: What was stored.
        lowered_to: What is stored now; `None`: removed, since the log is empty.
    """

    kind: str
    number: int
    stored: int
    lowered_to: int | None


@dataclass(frozen=True, slots=True)
class PartitionRecovery:
    """What recovery found in one partition.

    Attributes:
        key: The partition.
        first_offset: The oldest offset kept.
        next_offset: The offset the next message gets.
        scanned_bytes: How much had to be read, because no index vouched for it.
        created: Whether the directory was missing.
        torn: The cut tail.
        damages: What can't be read, and is kept as it is.
        clamped: Consumer offsets that were beyond the end.
        lost_offsets: Slots of the file of consumer offsets that could not be read.
    """

    key: PartitionKey
    first_offset: int
    next_offset: int
    scanned_bytes: int
    created: bool
    torn: TornTail | None
    damages: tuple[Damage, ...]
    clamped: tuple[ClampedOffset, ...]
    lost_offsets: int

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found that somebody should know of."""
        return not (self.torn or self.damages or self.clamped or self.lost_offsets)


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What recovery found in a store.

    Attributes:
        partitions: One entry for each expected partition that was opened.
        unknown: Entries of the directory that belong to no expected partition; all are kept.
        unreadable: Why the others could not be opened.
    """

    partitions: tuple[PartitionRecovery, ...]
    unknown: tuple[Path, ...]
    unreadable: Mapping[PartitionKey, str]
