"""A journal whose process dies, or whose disk refuses, at any single one of its system calls.

A process of its own lives a short life with a journal and says what it was told; strace kills it
or lets a call fail, from outside. What is there afterwards is compared with what it said: all that
was acknowledged, once and in order, nothing that was refused, and of what was not answered, or
whose outcome is unknown, all or nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from support.journal_life import APPEND, SNAPSHOT, STEPS, group, snapshot
from support.strace import Fault, Trace, require_strace, traced
from windsprite_server.journal import Entry, JournalError, Snapshot
from windsprite_server.journal.database import JournalDatabase

TESTS = Path(__file__).parents[1]
CHANGING = [
    *("pwrite64", "fdatasync", "fsync", "ftruncate"),
    *("openat", "rename", "renameat", "unlink", "unlinkat"),
]
READING = ["pread64", "read"]
ENDS = ["abandon", "close"]
# What happens at a call, and at which ones.
KINDS: dict[str, tuple[str, bool, list[str]]] = {
    "a kill": ("SIGKILL", False, CHANGING),
    "a full disk, once": ("ENOSPC", False, CHANGING),
    "a full disk": ("ENOSPC", True, CHANGING),
    "a broken disk, once": ("EIO", False, CHANGING + READING),
    "a broken disk": ("EIO", True, CHANGING + READING),
}


@pytest.fixture(autouse=True)
def _strace() -> None:
    require_strace()


@dataclass
class Told:
    """What a process said of its life.

    Attributes:
        opened: Whether there was a journal, once.
        entries: Acknowledged ones.
        snapshot: The acknowledged one.
        open_entries: Those of an append of which nobody knows the outcome.
        open_snapshot: The same of a snapshot.
        is_over: It came to its end, whatever happened on the way.
        problems: What it complained about.
    """

    opened: bool = False
    entries: list[Entry] = field(default_factory=list)
    snapshot: Snapshot | None = None
    open_entries: list[Entry] = field(default_factory=list)
    open_snapshot: Snapshot | None = None
    is_over: bool = False
    problems: set[str] = field(default_factory=set)


def understand(lines: list[str]) -> Told:
    told = Told()
    for line in lines:
        word, *rest = line.split()
        if word == "opened":
            told.opened = True
        elif word == "unopened":
            told.problems.update(rest)
        elif word == APPEND:
            told.open_entries = group(*map(int, rest))
        elif word == SNAPSHOT:
            told.open_snapshot = snapshot(*map(int, rest))
        elif word == "told":
            told.entries += told.open_entries
            told.snapshot = told.open_snapshot or told.snapshot
            told.open_entries, told.open_snapshot = [], None
        elif word == "NOT_WRITTEN":
            told.open_entries, told.open_snapshot = [], None
            told.problems.add(word)
        elif word == "UNKNOWN_OUTCOME":
            told.problems.add(word)
        elif word == "afterwards":
            assert rest == ["CLOSED"], "a write after one with an unknown outcome"
        else:
            assert word in {"waiting", "open", "closed"}, line
    told.is_over = lines[-1] == "closed"
    return told


def live(folder: Path, fault: Fault | None, end: str) -> tuple[Told, Trace]:
    """A life with a fault; its journal is in the folder, which has to be empty."""
    output = folder.with_suffix(".strace")
    process = subprocess.Popen(
        [sys.executable, "-m", "support.journal_life", str(folder / "journal.db"), end],
        cwd=TESTS,
        env=os.environ | {"PYTHONSAFEPATH": "", "PYTHONPATH": str(TESTS)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        waiting = process.stdout.readline()
        with traced(process.pid, CHANGING + READING, fault, output) as trace:
            said, complained = process.communicate("\n", timeout=60)
    finally:
        process.kill()
        process.wait()
    assert not complained
    assert process.returncode in {0, -9}
    return understand([waiting, *said.splitlines()]), trace


def check(folder: Path, told: Told) -> None:
    """Compare what is there with what was told, and go on with it."""
    path = folder / "journal.db"
    entries, stored = found(path, create=not told.opened)
    assert stored in [told.snapshot, told.open_snapshot or told.snapshot]
    position = 0 if stored is None else stored.position
    expected = [told.entries, told.entries + told.open_entries]
    assert entries in [[each for each in some if each.position > position] for some in expected]
    last = entries[-1].position if entries else position
    more = group(last + 1, 2, 10, 1 << 20)
    journal = JournalDatabase(path, create=False)
    assert journal.append(more) == last + 2
    journal.close()
    assert found(path) == (entries + more, stored)
    assert [file.name for file in folder.iterdir()] == [path.name]


def found(path: Path, *, create: bool = False) -> tuple[list[Entry], Snapshot | None]:
    journal = JournalDatabase(path, create=create)
    try:
        stored = journal.snapshot()
        return journal.entries_after(journal.snapshot_position, 1000), stored
    finally:
        journal.close()


def survives(folder: Path, fault: Fault, end: str) -> tuple[bool, Told]:
    """Whether a fault came about; fails if something of what was promised is not there."""
    folder.mkdir()
    try:
        told, trace = live(folder, fault, end)
        check(folder, told)
        assert told.is_over or trace.was_reached
        # SQLite calls damaged what the disk does not let it read; nothing else may be called so.
        allowed = {"NOT_WRITTEN", "UNKNOWN_OUTCOME", "UNREADABLE"}
        assert told.problems <= allowed | ({"DAMAGED"} if fault.call in READING else set())
    except (AssertionError, JournalError) as error:
        error.add_note(f"{fault}, then {end}")
        raise
    return trace.was_reached, told


def test_a_life_without_faults_makes_all_calls_and_is_all_there(tmp_path: Path) -> None:
    (tmp_path / "life").mkdir()
    told, trace = live(tmp_path / "life", None, "close")
    assert not trace.was_reached
    assert len(told.entries) == sum(number for kind, number, _ in STEPS if kind == APPEND)
    assert told.is_over
    assert {"pwrite64", "fdatasync", "fsync", "ftruncate", "openat"} <= set(trace.counts())
    check(tmp_path / "life", told)


@pytest.mark.parametrize(("start", "kind"), list(enumerate(KINDS)))
def test_a_journal_keeps_its_word_at_some_calls(tmp_path: Path, start: int, kind: str) -> None:
    (tmp_path / "baseline").mkdir()
    _, trace = live(tmp_path / "baseline", None, "close")
    effect, is_lasting, calls = KINDS[kind]
    points = [(call, number) for call in calls for number in range(1, trace.counts()[call] + 1)]
    for done, (call, number) in enumerate(points[start :: len(points) // 8]):
        fault = Fault(call, number, effect, is_lasting)
        is_reached, _ = survives(tmp_path / str(done), fault, ENDS[done % 2])
        assert is_reached


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_a_journal_keeps_its_word_at_every_call(tmp_path: Path, kind: str) -> None:
    effect, is_lasting, calls = KINDS[kind]
    began = time.monotonic()
    problems: dict[str, int] = {}
    done = 0
    for call in calls:
        for number in count(1):
            fault = Fault(call, number, effect, is_lasting)
            reached = []
            for end in ENDS[: 1 if effect == "SIGKILL" else 2]:
                is_reached, told = survives(tmp_path / str(done), fault, end)
                reached.append(is_reached)
                for problem in told.problems:
                    problems[problem] = problems.get(problem, 0) + 1
                done += 1
            if not any(reached):
                break
        print(f"{kind}: {number - 1} of {call}, {done} lives, {problems}")
    seconds = time.monotonic() - began
    print(f"{kind}: {done} lives, {seconds / done * 1000:.0f} ms each")
    assert problems or effect == "SIGKILL"
