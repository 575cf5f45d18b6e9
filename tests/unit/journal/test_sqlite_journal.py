"""The journal as the event loop sees it."""

import asyncio
import threading
from pathlib import Path

import pytest

from support.journal import entries, stored
from windsprite_server.core.failure_points import FailurePoints
from windsprite_server.journal import Entry, Journal, JournalError, JournalProblem, Snapshot
from windsprite_server.journal.sqlite import SqliteJournal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


async def all_of(journal: Journal, after: int = 0) -> list[Entry]:
    return [entry async for entry in journal.replay(after)]


class Gate:
    """Holds the thread of a journal where a failure point is, until it is opened."""

    def __init__(self, points: FailurePoints, name: str) -> None:
        self.entered = threading.Event()
        self._opened = threading.Event()
        points.arm(name, self._wait, times=1)

    def open(self) -> None:
        self._opened.set()

    def _wait(self) -> None:
        self.entered.set()
        assert self._opened.wait(10)


async def test_it_appends_replays_and_keeps_snapshots(path: Path) -> None:
    journal = await SqliteJournal.open(path, create=True)
    assert await journal.append(entries(1, 2500)) == 2500
    assert await all_of(journal) == entries(1, 2500)  # more than it reads at once
    await journal.store_snapshot(Snapshot(2000, b"state"))
    assert await journal.snapshot() == Snapshot(2000, b"state")
    assert await all_of(journal, 2000) == entries(2001, 2500)
    assert (journal.last_position, journal.snapshot_position) == (2500, 2000)
    await journal.close()
    await journal.close()
    assert stored(path) == entries(2001, 2500)


async def test_a_missing_journal_is_missing(path: Path) -> None:
    with pytest.raises(JournalError) as caught:
        await SqliteJournal.open(path, create=False)
    assert caught.value.problem is JournalProblem.MISSING


async def test_the_event_loop_goes_on_while_it_writes(path: Path) -> None:
    points = FailurePoints()
    journal = await SqliteJournal.open(path, create=True, points=points)
    gate = Gate(points, "journal.append.commit")
    appending = asyncio.create_task(journal.append(entries(1, 1)))
    await asyncio.to_thread(gate.entered.wait)
    assert journal.last_position == 0
    gate.open()
    assert await appending == 1
    await journal.close()


async def test_a_cancelled_append_is_carried_out_all_the_same(path: Path) -> None:
    points = FailurePoints()
    journal = await SqliteJournal.open(path, create=True, points=points)
    gate = Gate(points, "journal.append.commit")
    running = asyncio.create_task(journal.append(entries(1, 1)))
    await asyncio.to_thread(gate.entered.wait)
    queued = asyncio.create_task(journal.append(entries(2, 2)))
    await asyncio.sleep(0)
    for task in (running, queued):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    gate.open()
    assert await journal.append(entries(3, 3)) == 3
    await journal.close()
    assert stored(path) == entries(1, 3)


async def test_no_more_calls_wait_than_may(path: Path) -> None:
    points = FailurePoints()
    journal = await SqliteJournal.open(path, create=True, points=points, max_waiting=2)
    gate = Gate(points, "journal.append")
    tasks = [asyncio.create_task(journal.append(entries(p, p))) for p in (1, 2)]
    await asyncio.to_thread(gate.entered.wait)
    tasks[1].cancel()  # gives up its turn, not its place: the call is still made
    with pytest.raises(JournalError) as caught:
        await journal.append(entries(3, 3))
    assert caught.value.problem is JournalProblem.BUSY
    gate.open()
    assert await tasks[0] == 1
    assert await all_of(journal) == entries(1, 2)
    assert await journal.append(entries(3, 3)) == 3
    await journal.close()


async def test_a_closed_journal_says_so(path: Path) -> None:
    journal = await SqliteJournal.open(path, create=True)
    await journal.close()
    for call in (
        journal.append(entries(1, 1)),
        journal.snapshot(),
        journal.store_snapshot(Snapshot(0, b"")),
        all_of(journal),
    ):
        with pytest.raises(JournalError) as caught:
            await call
        assert caught.value.problem is JournalProblem.CLOSED
