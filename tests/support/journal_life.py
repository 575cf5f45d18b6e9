"""The short life of a journal in a process of its own, which says what it was told.

As a program it takes the journal's path, and what to do after a write with an unknown outcome:
`close` the journal, or `abandon` it. It waits for input before it begins.
"""

import os
import select
import sys
from pathlib import Path

from support.traceable import allow_tracing
from windsprite_server.journal import Entry, JournalError, JournalProblem, Snapshot
from windsprite_server.journal.database import JournalDatabase

# Entries of a group, or those a snapshot leaves; bytes in each of their commands, or in it.
APPEND, SNAPSHOT, REOPEN = "append", "snapshot", "reopen"
STEPS: list[tuple[str, int, int]] = [
    (APPEND, 1, 0),
    (APPEND, 3, 40),
    (APPEND, 2, 9000),
    (SNAPSHOT, 1, 6000),
    (APPEND, 1, 100),
    (APPEND, 4, 2000),
    (APPEND, 1, 0),
    (SNAPSHOT, 0, 10),
    (APPEND, 2, 10),
    (REOPEN, 0, 0),
    (APPEND, 1, 10),
    (SNAPSHOT, 0, 9000),
    (APPEND, 3, 10),
]
# SQLite writes the log back after so many pages, so that it does in such a short life.
PAGES_BEFORE_WRITTEN_BACK = 8


def group(first: int, count: int, size: int, serial: int) -> list[Entry]:
    """Entries like no others."""
    return [
        Entry(
            position, 1_000 * serial + position, 0, b"%d of %d" % (position, serial) + bytes(size)
        )
        for position in range(first, first + count)
    ]


def snapshot(position: int, size: int, serial: int) -> Snapshot:
    return Snapshot(position, b"%d of %d" % (position, serial) + bytes(size))


def say(*words: object) -> None:
    print(*words, flush=True)


class Life:
    """A journal that is open, and the one try after the other to write to it."""

    def __init__(self, path: Path, *, closes: bool) -> None:
        self._path = path
        self._closes = closes
        self._serial = 0
        self._journal: JournalDatabase

    def open(self, *, create: bool) -> None:
        say("open")
        try:
            self._journal = JournalDatabase(self._path, create=create)
            self._journal.snapshot()
            self._journal.entries_after(self._journal.snapshot_position, 1000)
        except JournalError as error:
            say("unopened", error.problem.name)
            sys.exit()
        setting = f"PRAGMA wal_autocheckpoint = {PAGES_BEFORE_WRITTEN_BACK}"
        self._journal._connection.execute(setting).fetchall()
        say("opened")

    def close(self) -> None:
        self._journal.close()
        say("closed")

    def write(self, kind: str, number: int, size: int) -> None:
        """Try it, and once more after a refusal."""
        if kind == SNAPSHOT and not self._journal.last_position:
            return
        for _ in range(2):
            self._serial += 1
            try:
                self._write(kind, number, size)
            except JournalError as error:
                say(error.problem.name)
                if error.problem is not JournalProblem.NOT_WRITTEN:
                    self._give_up()
            else:
                say("told")
                return

    def _write(self, kind: str, number: int, size: int) -> None:
        journal, last = self._journal, self._journal.last_position
        if kind == APPEND:
            say(kind, last + 1, number, size, self._serial)
            journal.append(group(last + 1, number, size, self._serial))
        else:
            position = max(last - number, journal.snapshot_position, 1)
            say(kind, position, size, self._serial)
            journal.store_snapshot(snapshot(position, size, self._serial))

    def _give_up(self) -> None:
        try:
            self._journal.append(group(self._journal.last_position + 1, 1, 1, 1 << 30))
        except JournalError as error:
            say("afterwards", error.problem.name)
        if not self._closes:
            os._exit(0)
        self.close()
        sys.exit()


def main(path: str, end: str) -> None:
    life = Life(Path(path), closes=end == "close")
    say("waiting")
    select.select([sys.stdin], [], [])  # nothing is read, since reads are counted
    life.open(create=True)
    for kind, number, size in STEPS:
        if kind == REOPEN:
            life.close()
            life.open(create=False)
        else:
            life.write(kind, number, size)
    life.close()


if __name__ == "__main__":
    allow_tracing()
    main(*sys.argv[1:])
