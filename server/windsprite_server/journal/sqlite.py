"""The journal in an SQLite database, with a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from windsprite_server.core.failure_points import FailurePoints
from windsprite_server.journal.database import JournalDatabase
from windsprite_server.journal.interface import Entry, JournalError, JournalProblem, Snapshot

Result = TypeVar("Result")

_REPLAY_CHUNK: Final = 1000


class SqliteJournal:
    """A `Journal` kept in one SQLite file.

    All calls are made one after the other in one thread. A caller that stops waiting does not
    stop the call it made.
    """

    def __init__(
        self, database: JournalDatabase, thread: ThreadPoolExecutor, *, max_waiting: int
    ) -> None:
        """Use `open` instead."""
        self._database = database
        self._thread = thread
        self._max_waiting = max_waiting
        self._waiting = 0
        self._is_closed = False

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        create: bool,
        max_waiting: int = 16,
        points: FailurePoints | None = None,
    ) -> SqliteJournal:
        """Open a journal.

        Args:
            path: The file; see `JournalDatabase`.
            create: Make an empty journal if there is none; only where none can have been.
            max_waiting: How many calls may wait for the thread.
            points: Places for tests to fail at.

        Raises:
            JournalError: It cannot be used; nothing was changed.
        """
        thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        try:
            database = await asyncio.get_running_loop().run_in_executor(
                thread, partial(JournalDatabase, path, create=create, points=points)
            )
        except BaseException:
            thread.shutdown(wait=False)
            raise
        return cls(database, thread, max_waiting=max_waiting)

    @property
    def last_position(self) -> int:
        """The position of the newest durable entry; 0 before the first."""
        return self._database.last_position

    @property
    def snapshot_position(self) -> int:
        """The position of the stored snapshot; 0 without one."""
        return self._database.snapshot_position

    @property
    def command_bytes(self) -> int:
        """Bytes of the commands of all entries that no snapshot stands for."""
        return self._database.command_bytes

    async def append(self, entries: Sequence[Entry]) -> int:
        """Append entries in one transaction; returns the position of the last one.

        Raises:
            JournalError: `NOT_WRITTEN`, `UNKNOWN_OUTCOME`, `CLOSED` or `BUSY`.
            ValueError: Positions or timestamps do not grow, or do not fit 63 bits.
        """
        return await self._run(partial(self._database.append, entries))

    async def snapshot(self) -> Snapshot | None:
        """The stored snapshot, verified.

        Raises:
            JournalError: `DAMAGED`, `UNREADABLE`, `CLOSED` or `BUSY`.
        """
        return await self._run(self._database.snapshot)

    async def replay(self, after: int) -> AsyncIterator[Entry]:
        """All entries after a position, in order, each verified before it is given out.

        Raises:
            JournalError: `DAMAGED`, `UNREADABLE`, `CLOSED` or `BUSY`.
            ValueError: Nothing is known of that position.
        """
        while True:
            entries = await self._run(partial(self._database.entries_after, after, _REPLAY_CHUNK))
            for entry in entries:
                yield entry
            if len(entries) < _REPLAY_CHUNK:
                return
            after = entries[-1].position

    async def store_snapshot(self, snapshot: Snapshot) -> None:
        """Let a snapshot stand for all entries up to its position, which are dropped.

        Raises:
            JournalError: As for `append`; the old snapshot and the entries are still there.
            ValueError: Nothing is known of that position.
        """
        await self._run(partial(self._database.store_snapshot, snapshot))

    async def close(self) -> None:
        """Finish what is being written; later calls fail with `CLOSED`."""
        if self._is_closed:
            return
        self._is_closed = True
        await asyncio.get_running_loop().run_in_executor(self._thread, self._database.close)
        self._thread.shutdown(wait=False)

    async def _run(self, call: Callable[[], Result]) -> Result:
        if self._is_closed:
            raise JournalError(JournalProblem.CLOSED, "the journal is closed")
        if self._waiting >= self._max_waiting:
            raise JournalError(
                JournalProblem.BUSY, f"{self._waiting} calls wait for the journal already"
            )
        self._waiting += 1
        done = asyncio.get_running_loop().run_in_executor(self._thread, call)
        done.add_done_callback(self._finished)
        # What was begun goes on, whether anybody still waits for it or not.
        return await asyncio.shield(done)

    def _finished(self, _: asyncio.Future[Any]) -> None:
        self._waiting -= 1
