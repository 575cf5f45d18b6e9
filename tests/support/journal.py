"""Journal entries, and journals left behind by a process that was killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from windsprite_server.journal import Entry
from windsprite_server.journal.database import JournalDatabase


def entry(position: int, command: bytes | None = None, user_id: int | None = 0) -> Entry:
    data = f"command {position}".encode() if command is None else command
    return Entry(position, 1_700_000_000_000_000 + position, user_id, data)


def entries(first: int, last: int) -> list[Entry]:
    return [entry(position) for position in range(first, last + 1)]


def stored(path: Path) -> list[Entry]:
    """All entries of a journal that is not open."""
    database = JournalDatabase(path, create=False)
    try:
        return database.entries_after(database.snapshot_position, 1_000_000)
    finally:
        database.close()


_WRITER = """
import sys
from pathlib import Path
from windsprite_server.journal.database import JournalDatabase
from windsprite_server.journal import Entry, Snapshot

journal = JournalDatabase(Path(sys.argv[1]), create=True)
size, limit = int(sys.argv[2]), int(sys.argv[3])
print("open", flush=True)
while journal.last_position < limit:
    first = journal.last_position + 1
    journal.append([
        Entry(p, 1_700_000_000_000_000 + p, 0, f"command {p}".encode())
        for p in range(first, first + size)
    ])
    if journal.last_position % (50 * size) == 0:
        journal.store_snapshot(Snapshot(journal.last_position, b"state"))
    print(journal.last_position, flush=True)
print("done", flush=True)
sys.stdin.read()
"""


def write_and_kill(path: Path, *, group: int = 1, limit: int, after: int | None = None) -> int:
    """Let another process append groups of entries and kill it; nothing is closed.

    Args:
        path: The journal; made if it is missing.
        group: Entries in one transaction.
        limit: The position at which the process appends no more.
        after: Kill it as soon as it says that so many appends are durable, while it goes on with
            the next; `None`: when it has come to the limit.

    Returns:
        The last position that it said was durable.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path), str(group), str(limit)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    durable = 0
    try:
        for number, line in enumerate(process.stdout):
            if line.strip() == "done":
                break
            if line.strip() != "open":
                durable = int(line)
            if number == after:
                break
        os.kill(process.pid, signal.SIGKILL)
        # What it said before it died, and we had not read yet.
        said = [line.strip() for line in process.stdout]
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
    return max([durable, *(int(line) for line in said if line.isdigit())])
