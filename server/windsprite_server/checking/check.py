"""Looking through the data directory of a stopped server; changes nothing."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from windsprite_server.checking.report import JournalFound, PartitionFound, Report
from windsprite_server.commit import recover
from windsprite_server.core.data_directory import (
    JOURNAL_FILE,
    LOG_DIRECTORY,
    DataDirectoryError,
    NewerFormatError,
    read_identity,
)
from windsprite_server.journal import JournalError, JournalProblem
from windsprite_server.journal.sqlite import SqliteJournal
from windsprite_server.log.errors import NO_ROOM
from windsprite_server.log.inspection import inspect, log_size, partitions_in
from windsprite_server.log.keys import PartitionKey
from windsprite_server.log.store import is_removed
from windsprite_server.metadata.queries import live_partitions
from windsprite_server.metadata.state import State
from windsprite_server.partitions import key_of

Names: TypeAlias = dict[PartitionKey, tuple[str, str]]


class Progress:
    """Is told how a check goes on; this one keeps it to itself."""

    def begin(self, size: int) -> None:
        """So many bytes are going to be read."""

    def advance(self, size: int) -> None:
        """So many more bytes were read."""


def check(directory: Path, progress: Progress) -> Report | None:
    """Look through a data directory that no server uses.

    Args:
        directory: Which.
        progress: Is told how it goes on.

    Returns:
        What it holds; `None` if no server has used it yet.

    Raises:
        NewerFormatError: A later version wrote it.
        DamagedDirectoryError: It is no data directory, or cannot be told from none.
        DataDirectoryError: It cannot be read, or there is no room for a copy of its journal.
    """
    identity = read_identity(directory)
    if identity is None:
        return None
    try:
        journal, names, going = _journal(directory)
        present, others = _present(directory / LOG_DIRECTORY)
        if journal is not None and journal.problem:
            names = dict.fromkeys(present, ("", ""))
        partitions = _partitions(directory / LOG_DIRECTORY, names, set(present), progress)
    except OSError as error:
        raise DataDirectoryError(f"cannot read {directory}: {error.strerror}") from error
    leftovers = [
        directory / LOG_DIRECTORY / key.directory_name
        for key in present
        if key not in names and key not in going
    ]
    return Report(
        directory=directory,
        cluster_id=identity.cluster_id,
        generation=identity.generation,
        journal=journal,
        partitions=partitions,
        leftovers=tuple(leftovers + others),
    )


def _journal(directory: Path) -> tuple[JournalFound | None, Names, set[PartitionKey]]:
    """The journal, the partitions that it knows by name, and those whose files may go.

    Whatever opens a journal begins to write to it: SQLite takes over what its log holds. So that
    is done to a copy.
    """
    if not (directory / JOURNAL_FILE).exists() and not (directory / LOG_DIRECTORY).exists():
        return None, {}, set()  # a first start that was cut short
    with TemporaryDirectory(prefix="windsprite-check-") as folder:
        for name in (JOURNAL_FILE, f"{JOURNAL_FILE}-wal"):
            if (directory / name).exists():
                _copy(directory / name, Path(folder, name))
        try:
            position, state = asyncio.run(_replay(Path(folder, JOURNAL_FILE)))
        except JournalError as error:
            message = str(error).replace(f"{folder}/", f"{directory}/")
            if error.problem is JournalProblem.NEWER_FORMAT:
                raise NewerFormatError(message) from error
            return JournalFound(message), {}, set()
    found = JournalFound(
        position=position,
        streams=len(state.streams),
        topics=sum(len(stream.topics) for stream in state.streams.values()),
        users=len(state.users),
    )
    names = {
        key_of(place): (state.streams[place.stream_id].name, topic.name)
        for place, topic in live_partitions(state)
    }
    return found, names, set(map(key_of, state.condemned))


def _copy(source: Path, target: Path) -> None:
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        message = (
            f"there is no room for a copy of {source} in {target.parent.parent}: "
            "set TMPDIR to a directory on another disk"
        )
        raise DataDirectoryError(message) from error


async def _replay(path: Path) -> tuple[int, State]:
    journal = await SqliteJournal.open(path, create=False)
    try:
        return journal.last_position, await recover(journal)
    finally:
        await journal.close()


def _present(logs: Path) -> tuple[list[PartitionKey], list[Path]]:
    """The partitions that have a directory, and what else is there and stays."""
    if not logs.exists():
        return [], []
    keys, others = partitions_in(logs)
    return keys, [path for path in others if not is_removed(path.name)]


def _partitions(
    logs: Path, names: Names, present: set[PartitionKey], progress: Progress
) -> tuple[PartitionFound, ...]:
    progress.begin(sum(log_size(logs, key) for key in names if key in present))
    found = []
    for key, (stream, topic) in sorted(names.items()):
        inspection, problem = None, ""
        if key in present:
            try:
                inspection = inspect(logs, key, progress.advance)
            except OSError as error:
                problem = error.strerror or str(error)
        found.append(
            PartitionFound(key, stream, topic, inspection, problem, is_missing=key not in present)
        )
    return tuple(found)
