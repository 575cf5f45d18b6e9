"""What a check finds, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from windsprite_server.checking.report import JournalFound, PartitionFound, Report, Verdict
from windsprite_server.log.results import Damage

_COLUMNS = ("partition", "messages", "offsets", "bytes", "segments", "")


def render_text(report: Report) -> str:
    """All of it in lines for people."""
    return "".join(f"{line}\n" for line in _lines(report))


def render_json(report: Report) -> str:
    """All of it as an object on one line; sizes in bytes."""
    journal = report.journal
    values = {
        "verdict": report.verdict.value,
        "directory": str(report.directory),
        "cluster_id": str(report.cluster_id),
        "generation": report.generation,
        "journal": None if journal is None else _journal_to_json(journal),
        "partitions": [_partition_to_json(partition) for partition in report.partitions],
        "leftovers": [str(path) for path in report.leftovers],
    }
    return json.dumps(values) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield f"cluster     {report.cluster_id}"
    yield f"generation  {report.generation}"
    yield f"journal     {_journal(report.journal)}"
    if report.partitions:
        yield ""
        yield from _table(report)
    for path in report.leftovers:
        yield f"left alone: {_shown(path)}, which the journal does not know"
    yield ""
    yield _conclusion(report)


def _journal(journal: JournalFound | None) -> str:
    if journal is None:
        return "not made yet"
    if journal.problem:
        return journal.problem
    return (
        f"sound, up to position {journal.position}: {_count(journal.streams, 'stream')}, "
        f"{_count(journal.topics, 'topic')}, {_count(journal.users, 'user')}"
    )


def _table(report: Report) -> Iterator[str]:
    rows = [_COLUMNS, *map(_row, report.partitions)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row, partition in zip(rows, (None, *report.partitions), strict=True):
        name, *figures, verdict = row
        cells = (figure.rjust(width) for figure, width in zip(figures, widths[1:], strict=False))
        yield "  ".join((name.ljust(widths[0]), *cells, verdict)).rstrip()
        if partition is not None:
            yield from (f"    {remark}" for remark in _remarks(partition))


def _row(partition: PartitionFound) -> tuple[str, ...]:
    found = partition.inspection
    if found is None:
        return (_name(partition), "", "", "", "", "no directory" if partition.is_missing else "?")
    return (
        _name(partition),
        str(found.messages_count),
        f"{found.first_offset} to {found.next_offset - 1}" if found.messages_count else "none",
        str(found.size_bytes),
        str(found.segments_count),
        "sound" if partition.is_sound else "damaged",
    )


def _name(partition: PartitionFound) -> str:
    key = partition.key
    if not partition.stream:
        return key.directory_name
    return f"{_shown(partition.stream)}/{_shown(partition.topic)}/{key.partition_id}"


def _remarks(partition: PartitionFound) -> Iterator[str]:
    """What people should know of a partition besides its figures."""
    if partition.problem:
        yield f"{partition.key.directory_name} cannot be read: {partition.problem}"
    if partition.is_missing:
        yield f"there is no {partition.key.directory_name}; the next start makes it, empty"
    found = partition.inspection
    if found is None:
        return
    for damage in found.damages:
        yield _damage(damage)
    if found.lost_offsets:
        yield f"{_count(found.lost_offsets, 'stored offset')} of consumers or groups cannot be read"
    if found.torn_bytes:
        yield (
            f"the last {found.torn_bytes} bytes are no batch ({found.torn_reason}): "
            "an unfinished write, most likely, which the next start cuts off"
        )


def _damage(damage: Damage) -> str:
    first, last = damage.first_offset, damage.next_offset - 1
    lost = f"offset {first} is" if first == last else f"offsets {first} to {last} are"
    return (
        f"{damage.segment.name}: {damage.length} bytes at {damage.position} cannot be read, "
        f"{lost} lost: {damage.reason}"
    )


def _conclusion(report: Report) -> str:
    match report.verdict:
        case Verdict.UNUSABLE:
            return "unusable: no server starts without the journal"
        case Verdict.DAMAGED:
            count = len(report.damaged)
            return f"damaged: {count} of {_count(len(report.partitions), 'partition')}"
        case Verdict.SOUND:
            return "sound"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _shown(name: str | Path) -> str:
    """A name that neither moves a cursor nor ends a line."""
    text = str(name)
    return text if text.isprintable() else ascii(text)[1:-1]


def _journal_to_json(journal: JournalFound) -> dict[str, Any]:
    return {
        "problem": journal.problem or None,
        "position": journal.position,
        "streams": journal.streams,
        "topics": journal.topics,
        "users": journal.users,
    }


def _partition_to_json(partition: PartitionFound) -> dict[str, Any]:
    key, found = partition.key, partition.inspection
    about = {
        "stream": partition.stream or None,
        "topic": partition.topic or None,
        "partition": key.partition_id,
        "directory": key.directory_name,
        "is_sound": partition.is_sound,
        "is_missing": partition.is_missing,
        "problem": partition.problem or None,
    }
    if found is None:
        return about
    return about | {
        "messages": found.messages_count,
        "first_offset": found.first_offset,
        "next_offset": found.next_offset,
        "size": found.size_bytes,
        "segments": found.segments_count,
        "torn_bytes": found.torn_bytes,
        "lost_offsets": found.lost_offsets,
        "damages": [
            {
                "segment": damage.segment.name,
                "position": damage.position,
                "length": damage.length,
                "first_offset": damage.first_offset,
                "next_offset": damage.next_offset,
                "reason": damage.reason,
            }
            for damage in found.damages
        ],
    }
