"""The journal in an SQLite database: plain blocking calls, for one thread.

    entry     position, timestamp_us, user_id, command, link
    snapshot  position, timestamp_us, link, state, checksum   (one row at most)
    head      position, timestamp_us, link                    (one row)

`link` is the xxh3-64 (8 bytes, big-endian) of the link of the entry before, then position,
timestamp and user as signed 64-bit integers (-1: no user), then the command. So no entry can
change, vanish or change its place unnoticed; `head` is written in the same transaction, so the last
one cannot vanish either. The link before the first entry is eight zero bytes.

WAL mode with synchronous=FULL: a commit is on stable storage when it returns. The lock is
exclusive and ends with the process.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import xxhash

from windsprite_server.core.failure_points import FailurePoints
from windsprite_server.core.files import sync_directory
from windsprite_server.journal import wal
from windsprite_server.journal.interface import Entry, JournalError, JournalProblem, Snapshot

FORMAT: Final = 1

_APPLICATION_ID: Final = 0x57_53_50_4A  # "WSPJ"
_GENESIS: Final = bytes(8)
_NUMBERS: Final = struct.Struct(">qqq")
_NOBODY: Final = -1
_I64_MAX: Final = (1 << 63) - 1
_SQLITE_MAGIC: Final = b"SQLite format 3\0"
_DAMAGE_CODES: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_COMMAND_BYTES: Final = "SELECT coalesce(sum(length(command)), 0) FROM entry"

_SETTINGS: Final = (
    "locking_mode = EXCLUSIVE",
    "synchronous = FULL",
    "fullfsync = ON",  # only macOS has such a thing
    "cell_size_check = ON",
    "trusted_schema = OFF",
)
_SCHEMA: Final = (
    """CREATE TABLE entry (
        position INTEGER PRIMARY KEY,
        timestamp_us INTEGER NOT NULL,
        user_id INTEGER,
        command BLOB NOT NULL,
        link BLOB NOT NULL
    )""",
    """CREATE TABLE snapshot (
        position INTEGER PRIMARY KEY,
        timestamp_us INTEGER NOT NULL,
        link BLOB NOT NULL,
        state BLOB NOT NULL,
        checksum BLOB NOT NULL
    )""",
    """CREATE TABLE head (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        position INTEGER NOT NULL,
        timestamp_us INTEGER NOT NULL,
        link BLOB NOT NULL
    )""",
)


@dataclass(frozen=True, slots=True)
class _Mark:
    """A place in the chain of entries: the last entry, or where a snapshot was taken."""

    position: int
    timestamp_us: int
    link: bytes


_BEGINNING: Final = _Mark(0, 0, _GENESIS)


class JournalDatabase:
    """An open journal file."""

    def __init__(self, path: Path, *, create: bool, points: FailurePoints | None = None) -> None:
        """Open a journal and check that its ends are where they are said to be.

        Args:
            path: The file; SQLite keeps another one beside it, `NAME-wal`. That no other process
                uses them is for the caller to see to, by a lock on the directory.
            create: Make an empty journal if there is none. Say so only where no journal can
                have been: an empty one in place of a lost one means that all is forgotten.
            points: Places for tests to fail at: `journal.append`, `journal.append.commit`,
                `journal.append.committed`, and the same with `snapshot`.

        Raises:
            JournalError: It cannot be used; nothing was changed.
        """
        self._points = points or FailurePoints()
        self._failure: str | None = None
        try:
            _require_file(path, create=create)
            self._connection = _connect(path)
        except (sqlite3.Error, OSError) as error:
            raise _open_error(path, error) from error
        try:
            self._head, self._snapshot = self._read_ends()
            self._command_bytes: int = self._read(_COMMAND_BYTES)[0][0]
        except sqlite3.Error as error:
            self._connection.close()
            raise _open_error(path, error) from error
        except BaseException:
            self._connection.close()
            raise

    @property
    def last_position(self) -> int:
        """The position of the newest durable entry; 0 before the first."""
        return self._head.position

    @property
    def snapshot_position(self) -> int:
        """The position of the stored snapshot; 0 without one."""
        return self._snapshot.position

    @property
    def command_bytes(self) -> int:
        """Bytes of the commands of all entries that no snapshot stands for."""
        return self._command_bytes

    def append(self, entries: Sequence[Entry]) -> int:
        """Append entries in one transaction; returns the position of the last one.

        Raises:
            JournalError: `NOT_WRITTEN`, `UNKNOWN_OUTCOME` or `CLOSED`.
            ValueError: Positions or timestamps do not grow, or do not fit 63 bits.
        """
        head = self._head
        rows = []
        for entry in entries:
            head = _follow(head, entry)
            rows.append((head.position, head.timestamp_us, entry.user_id, entry.command, head.link))
        with self._transaction("append"):
            self._connection.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?)", rows)
            self._connection.execute(
                "UPDATE head SET position = ?, timestamp_us = ?, link = ?",
                (head.position, head.timestamp_us, head.link),
            )
        self._head = head
        self._command_bytes += sum(len(entry.command) for entry in entries)
        return head.position

    def snapshot(self) -> Snapshot | None:
        """The stored snapshot, verified.

        Raises:
            JournalError: `DAMAGED`, `UNREADABLE` or `CLOSED`.
        """
        self._require_usable()
        mark = self._snapshot
        if mark is _BEGINNING:
            return None
        (row,) = self._read(
            "SELECT state, checksum FROM snapshot WHERE position = ?", mark.position
        )
        state, checksum = row
        if not isinstance(state, bytes) or _snapshot_checksum(mark, state) != checksum:
            raise _damaged("the snapshot is not what was written", mark.position)
        return Snapshot(mark.position, state)

    def entries_after(self, position: int, limit: int) -> list[Entry]:
        """The next entries after a position, verified; fewer than `limit` only at the end.

        Args:
            position: That of the stored snapshot or of an entry; 0 for the beginning.
            limit: The most entries to return.

        Raises:
            JournalError: `DAMAGED` at the first entry that is not what was written, or before
                which one is missing; `UNREADABLE` or `CLOSED`.
            ValueError: Nothing is known of that position.
        """
        mark = self._mark(position)
        rows = self._read(
            "SELECT position, timestamp_us, user_id, command, link FROM entry "
            "WHERE position > ? ORDER BY position LIMIT ?",
            position,
            limit,
        )
        entries = []
        for row in rows:
            entry, link = Entry(*row[:4]), row[4]
            try:
                mark = _follow(mark, entry)
            except (ValueError, TypeError, struct.error):
                mark = _BEGINNING
            if mark.link != link:
                raise _damaged("the entry is not what was written", entry.position)
            entries.append(entry)
        return entries

    def store_snapshot(self, snapshot: Snapshot) -> None:
        """Let a snapshot stand for all entries up to its position, which are dropped.

        Raises:
            JournalError: As for `append`; the old snapshot and the entries are still there.
            ValueError: Nothing is known of that position.
        """
        mark = self._mark(snapshot.position)
        checksum = _snapshot_checksum(mark, snapshot.state)
        row = (mark.position, mark.timestamp_us, mark.link, snapshot.state, checksum)
        with self._transaction("snapshot"):
            self._connection.execute("DELETE FROM snapshot")
            self._connection.execute("INSERT INTO snapshot VALUES (?, ?, ?, ?, ?)", row)
            self._connection.execute("DELETE FROM entry WHERE position <= ?", (mark.position,))
            ((left,),) = self._connection.execute(_COMMAND_BYTES).fetchall()
        self._snapshot = mark
        self._command_bytes = left
        # The write-ahead log now holds a copy of the whole snapshot. Not a matter of safety.
        with suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Close the file; later calls fail with `CLOSED`."""
        self._failure = self._failure or "the journal is closed"
        self._connection.close()

    def _read_ends(self) -> tuple[_Mark, _Mark]:
        select = "SELECT position, timestamp_us, link FROM"
        heads = self._read(f"{select} head")
        snapshots = self._read(f"{select} snapshot")
        last = self._read(f"{select} entry ORDER BY position DESC LIMIT 1")
        if len(heads) != 1 or len(snapshots) > 1:
            raise _damaged("it has no single head, or several snapshots", None)
        head = _Mark(*heads[0])
        snapshot = _Mark(*snapshots[0]) if snapshots else _BEGINNING
        end = _Mark(*last[0]) if last else snapshot
        if end != head:
            raise _damaged("the last entry is missing or not what was written", head.position)
        return head, snapshot

    def _mark(self, position: int) -> _Mark:
        if position == self._snapshot.position:
            return self._snapshot
        rows = self._read(
            "SELECT position, timestamp_us, link FROM entry WHERE position = ?", position
        )
        if not rows:
            raise ValueError(f"the journal has no entry and no snapshot at position {position}")
        return _Mark(*rows[0])

    def _read(self, query: str, *arguments: int) -> list[tuple[Any, ...]]:
        self._require_usable()
        try:
            return self._connection.execute(query, arguments).fetchall()
        except sqlite3.Error as error:
            damaged = _primary_code(error) in _DAMAGE_CODES
            problem = JournalProblem.DAMAGED if damaged else JournalProblem.UNREADABLE
            raise JournalError(problem, f"the journal cannot be read: {error}") from error

    @contextmanager
    def _transaction(self, name: str) -> Iterator[None]:
        self._require_usable()
        committing = False
        try:
            self._points.reach(f"journal.{name}")
            self._connection.execute("BEGIN IMMEDIATE")
            yield
            committing = True
            self._points.reach(f"journal.{name}.commit")
            self._connection.execute("COMMIT")
            self._points.reach(f"journal.{name}.committed")
        except (sqlite3.Error, OSError) as error:
            raise self._write_error(error, committing=committing) from error

    def _write_error(self, error: sqlite3.Error | OSError, *, committing: bool) -> JournalError:
        code = _primary_code(error)
        # A full disk fails the write of a frame, and a commit without its last frame is none.
        # After any other error of a commit, and after every error of the device (a failed fsync
        # most of all), nobody knows what a restart will find.
        traceless = code == sqlite3.SQLITE_FULL or (
            not committing and code != sqlite3.SQLITE_IOERR and code not in _DAMAGE_CODES
        )
        if self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error:
                traceless = False
        if traceless:
            return JournalError(JournalProblem.NOT_WRITTEN, f"the journal was not written: {error}")
        self._failure = f"an earlier write of the journal failed: {error}"
        return JournalError(
            JournalProblem.UNKNOWN_OUTCOME,
            f"whether the journal was written is not known: {error}",
        )

    def _require_usable(self) -> None:
        if self._failure is not None:
            raise JournalError(JournalProblem.CLOSED, self._failure)


def _require_file(path: Path, *, create: bool) -> None:
    """See that there is a journal file whose log is whole, before SQLite touches anything."""
    log = path.with_name(path.name + "-wal")
    if not path.exists():
        if log.exists():
            raise _damaged(f"{log.name} is there, but {path} is missing", None)
        if not create:
            raise JournalError(JournalProblem.MISSING, f"there is no journal {path}")
        _create(path)
    with path.open("rb") as file:
        header = file.read(100)
    if len(header) < 100 or not header.startswith(_SQLITE_MAGIC):
        raise JournalError(JournalProblem.FOREIGN, f"{path} is no journal, or a damaged one")
    (written_format,) = struct.unpack_from(">I", header, 60)
    (application_id,) = struct.unpack_from(">I", header, 68)
    if application_id != _APPLICATION_ID:
        raise JournalError(JournalProblem.FOREIGN, f"{path} is the database of something else")
    if written_format > FORMAT:
        raise JournalError(
            JournalProblem.NEWER_FORMAT,
            f"journal {path} has format {written_format}, but this version knows formats up to "
            f"{FORMAT}: use a newer Windsprite",
        )
    if written_format == 0:
        raise _damaged(f"{path} does not say its format", None)
    if damage := wal.find_damage(log):
        raise _damaged(f"{log}: {damage}", None)


def _create(path: Path) -> None:
    """Make an empty journal; a crash leaves the whole of it or nothing under its name."""
    fresh = path.with_name(path.name + ".new")
    for remains in (fresh, fresh.with_name(fresh.name + "-journal")):
        remains.unlink(missing_ok=True)
    # SQLite gives its other files the permissions of this one; they hold hashes of passwords.
    os.close(os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(fresh, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN")
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute("INSERT INTO head VALUES (1, 0, 0, ?)", (_GENESIS,))
        connection.execute("COMMIT")
    finally:
        connection.close()
    fresh.replace(path)
    sync_directory(path.parent)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=0, check_same_thread=False)
    try:
        _prepare(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    for setting in _SETTINGS:
        connection.execute(f"PRAGMA {setting}").fetchall()
    ((mode,),) = connection.execute("PRAGMA journal_mode = WAL").fetchall()
    if mode != "wal":
        raise JournalError(
            JournalProblem.UNREADABLE, f"{path}: this place does not support SQLite's WAL mode"
        )
    ((verdict,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
    if verdict != "ok":
        raise _damaged(f"{path}: {verdict}", None)
    # The name of the log. SQLite does this with its first sync, but goes on if it fails.
    sync_directory(path.parent)


def _follow(mark: _Mark, entry: Entry) -> _Mark:
    """The chain with one more entry."""
    if not mark.position < entry.position <= _I64_MAX:
        raise ValueError(f"position {entry.position} cannot follow {mark.position}")
    if not mark.timestamp_us < entry.timestamp_us <= _I64_MAX:
        raise ValueError(f"timestamp {entry.timestamp_us} cannot follow {mark.timestamp_us}")
    user_id = _NOBODY if entry.user_id is None else entry.user_id
    numbers = _NUMBERS.pack(entry.position, entry.timestamp_us, user_id)
    link = xxhash.xxh3_64_digest(mark.link + numbers + entry.command)
    return _Mark(entry.position, entry.timestamp_us, link)


def _snapshot_checksum(mark: _Mark, state: bytes) -> bytes:
    numbers = _NUMBERS.pack(mark.position, mark.timestamp_us, _NOBODY)
    hasher = xxhash.xxh3_64(mark.link + numbers)
    hasher.update(state)
    return hasher.digest()


def _damaged(message: str, position: int | None) -> JournalError:
    where = "the journal is damaged" if position is None else f"journal position {position}"
    return JournalError(JournalProblem.DAMAGED, f"{where}: {message}", position)


def _open_error(path: Path, error: sqlite3.Error | OSError) -> JournalError:
    code = _primary_code(error)
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return JournalError(JournalProblem.IN_USE, f"another process uses journal {path}")
    if code in _DAMAGE_CODES:
        return _damaged(f"{path}: {error}", None)
    return JournalError(JournalProblem.UNREADABLE, f"journal {path} cannot be opened: {error}")


def _primary_code(error: Exception) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
