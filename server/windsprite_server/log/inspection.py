"""Looking through the logs of a stopped server; changes nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from windsprite_server.log.examine import Expected, examine
from windsprite_server.log.files import Files
from windsprite_server.log.index import DEFAULT_INTERVAL
from windsprite_server.log.keys import PartitionKey
from windsprite_server.log.offsets import FILE_NAME, count_lost
from windsprite_server.log.recovery import closing_gap, segment_bases
from windsprite_server.log.results import Damage, damage_of
from windsprite_server.log.scan import Ending


@dataclass(frozen=True, slots=True)
class PartitionInspection:
    """What the log of a partition holds.

    Attributes:
        key: The partition.
        first_offset: The oldest offset.
        next_offset: The offset the next message would get.
        messages_count: Messages whose checksums are right.
        size_bytes: Bytes of all segments.
        segments_count: Segments.
        damages: What can't be read.
        torn_bytes: Bytes at the end that the next start cuts off.
        torn_reason: Why they are no batch; empty if there are none.
        lost_offsets: Stored offsets of consumers or groups that can't be read.
    """

    key: PartitionKey
    first_offset: int
    next_offset: int
    messages_count: int
    size_bytes: int
    segments_count: int
    damages: tuple[Damage, ...]
    torn_bytes: int
    torn_reason: str
    lost_offsets: int

    @property
    def is_sound(self) -> bool:
        """Whether all is as it should be; an unfinished write at the end is."""
        return not self.damages and not self.lost_offsets


def partitions_in(directory: Path) -> tuple[list[PartitionKey], list[Path]]:
    """The partitions in a directory of logs, and what else is there.

    Raises:
        OSError: The directory can't be read.
    """
    keys, others = [], []
    for path in sorted(directory.iterdir()):
        key = PartitionKey.from_directory_name(path.name)
        if key is None:
            others.append(path)
        else:
            keys.append(key)
    return sorted(keys), others


def log_size(directory: Path, key: PartitionKey) -> int:
    """Bytes of all segments of a partition: what `inspect` will read.

    Raises:
        OSError: The directory can't be read.
    """
    return sum(path.stat().st_size for path in (directory / key.directory_name).glob("*.log"))


def inspect(
    directory: Path,
    key: PartitionKey,
    progress: Callable[[int], None] | None = None,
    files: Files | None = None,
) -> PartitionInspection:
    """Verify every checksum of a partition's log and of its stored offsets.

    Args:
        directory: The directory of all logs.
        key: The partition.
        progress: Called after each batch with the bytes read since the call before.
        files: The way to the file system; the real one if not given.

    Raises:
        OSError: The disk can't be read.
    """
    files = files if files is not None else Files()
    place = f"{directory}/{key.directory_name}"
    names = files.list_directory(place)
    bases = segment_bases(names)
    damages: list[Damage] = []
    size = torn_bytes = timestamp = 0
    torn_reason = ""
    next_offset = bases[0] if bases else 0
    for base, next_base in zip(bases, [*bases[1:], None], strict=False):
        stem = f"{place}/{base:020}"
        found = examine(
            files,
            stem,
            Expected(key.partition_id, key.incarnation, base, next_base, timestamp),
            DEFAULT_INTERVAL,
            trust_index=False,
            progress=progress,
        )
        size += found.file_size
        timestamp = max(timestamp, found.end.timestamp)
        next_offset = found.end.offset
        gaps = list(found.gaps)
        if next_base is not None:
            closing = closing_gap(found, next_base)
            gaps += [closing] if closing is not None else []
        elif found.ending in {Ending.TORN, Ending.UNSOUND}:
            torn_bytes, torn_reason = found.file_size - found.end.position, found.reason
        damages += [damage_of(f"{stem}.log", gap) for gap in gaps]
    stored = files.read_whole(f"{place}/{FILE_NAME}") if FILE_NAME in names else b""
    first_offset = bases[0] if bases else 0
    missing = sum(damage.next_offset - damage.first_offset for damage in damages)
    return PartitionInspection(
        key=key,
        first_offset=first_offset,
        next_offset=next_offset,
        messages_count=next_offset - first_offset - missing,
        size_bytes=size,
        segments_count=len(bases),
        damages=tuple(damages),
        torn_bytes=torn_bytes,
        torn_reason=torn_reason,
        lost_offsets=count_lost(stored, key.incarnation),
    )
