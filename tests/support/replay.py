"""Reading a journal that a server has left, in every way that must come to the same."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from windsprite_server.commit import recover
from windsprite_server.journal import Entry, Snapshot
from windsprite_server.journal.sqlite import SqliteJournal
from windsprite_server.metadata import snapshot
from windsprite_server.metadata.apply import apply
from windsprite_server.metadata.effects import Context
from windsprite_server.metadata.encoding import decode
from windsprite_server.metadata.state import State

CUTS = 20
CUTS_IN_THE_JOURNAL = 3


async def check_replay(data_directory: Path) -> None:
    """Any snapshot and the entries after it give the same state, byte for byte.

    The journal of a server that has stopped is replayed as a start replays it; from the state at
    many of its positions; and from snapshots taken there and stored in the journal itself.
    """
    with tempfile.TemporaryDirectory(prefix="windsprite-replay-") as folder:
        path = _copy(data_directory, Path(folder) / "left")
        journal = await SqliteJournal.open(path, create=False)
        try:
            stored = await journal.snapshot()
            entries = [entry async for entry in journal.replay(journal.snapshot_position)]
            whole = image(await recover(journal))
        finally:
            await journal.close()
        begin = State()
        if stored is not None:
            begin = snapshot.restore(stored.state)
            assert image(begin) == stored.state
        images = _images(begin, entries)
        assert images[-1] == whole
        for cut in _spread(len(entries), CUTS):
            assert image(_replayed(snapshot.restore(images[cut]), entries[cut:])) == whole
        for number, cut in enumerate(_spread(len(entries), CUTS_IN_THE_JOURNAL)):
            path = _copy(data_directory, Path(folder) / str(number))
            position = entries[cut].position
            assert await _recovered_from(path, Snapshot(position, images[cut + 1])) == whole


def image(state: State) -> bytes:
    """All that a state holds."""
    return snapshot.encode(snapshot.freeze(state))


def _copy(data_directory: Path, target: Path) -> Path:
    target.mkdir()
    for file in data_directory.glob("journal.db*"):
        shutil.copy(file, target)
    return target / "journal.db"


def _images(state: State, entries: Sequence[Entry]) -> list[bytes]:
    """The state at the beginning and after each entry."""
    return [image(state), *(image(_replayed(state, [entry])) for entry in entries)]


def _replayed(state: State, entries: Sequence[Entry]) -> State:
    for entry in entries:
        context = Context(entry.position, entry.timestamp_us, entry.user_id)
        apply(state, decode(entry.command), context)
    return state


def _spread(count: int, wanted: int) -> range:
    """Some of the numbers below `count`, the first one included."""
    return range(0, count, max(1, count // wanted))


async def _recovered_from(path: Path, taken: Snapshot) -> bytes:
    """What a start finds after that snapshot was taken."""
    journal = await SqliteJournal.open(path, create=False)
    try:
        await journal.store_snapshot(taken)
    finally:
        await journal.close()
    journal = await SqliteJournal.open(path, create=False)
    try:
        assert journal.snapshot_position == taken.position
        return image(await recover(journal))
    finally:
        await journal.close()
