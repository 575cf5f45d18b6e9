"""The journal in SQLite: durable, ordered, and never silently something else than was written."""

import sqlite3
import stat
import struct
from pathlib import Path

import pytest

from support.journal import entries, entry, stored, write_and_kill
from windsprite_server.core.failure_points import FailurePoints
from windsprite_server.journal import Entry, JournalError, JournalProblem, Snapshot
from windsprite_server.journal.database import JournalDatabase


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def filled(path: Path, *groups: list[Entry]) -> None:
    database = JournalDatabase(path, create=True)
    for group in groups:
        database.append(group)
    database.close()


def problem_of_opening(path: Path) -> JournalError:
    with pytest.raises(JournalError) as caught:
        JournalDatabase(path, create=False)
    return caught.value


def change(path: Path, statement: str, *arguments: object) -> None:
    """What a bug or a disk might do to a journal behind its back."""
    with sqlite3.connect(path) as connection:
        assert connection.execute(statement, arguments).rowcount == 1
    connection.close()


# Writing and reading


def test_entries_come_back_as_they_were_written(path: Path) -> None:
    written = [
        entry(1, b"", None),
        entry(2, bytes(range(256)), 0),
        entry(7, b"\0", 0xFFFF_FFFE),  # positions may leave some out
        Entry(8, (1 << 63) - 1, 5, b"x" * 100_000),
    ]
    filled(path, written[:1], written[1:])
    assert stored(path) == written


def test_a_journal_goes_on_where_it_ended(path: Path) -> None:
    filled(path, entries(1, 3))
    database = JournalDatabase(path, create=False)
    assert database.last_position == 3
    assert database.append(entries(4, 5)) == 5
    database.close()
    assert stored(path) == entries(1, 5)


@pytest.mark.parametrize(
    "group",
    [
        [entry(3)],
        [entry(2)],
        [entry(0)],
        [entry(-1)],
        [entry(4), entry(4)],
        [entry(5), entry(4)],
        [Entry(4, 1_700_000_000_000_003, 0, b"")],
        [Entry(4, 0, 0, b"")],
        [Entry(4, 1 << 63, 0, b"")],
        [Entry(1 << 63, 1_700_000_000_000_004, 0, b"")],
    ],
)
def test_positions_and_times_that_do_not_grow_are_refused(path: Path, group: list[Entry]) -> None:
    database = JournalDatabase(path, create=True)
    database.append(entries(1, 3))
    with pytest.raises(ValueError, match="cannot follow"):
        database.append(group)
    assert database.append([entry(4)]) == 4
    database.close()
    assert stored(path) == entries(1, 4)


def test_entries_are_read_in_pieces(path: Path) -> None:
    filled(path, entries(1, 10))
    database = JournalDatabase(path, create=False)
    assert database.entries_after(0, 4) == entries(1, 4)
    assert database.entries_after(4, 6) == entries(5, 10)
    assert database.entries_after(10, 6) == []
    with pytest.raises(ValueError, match="no entry"):
        database.entries_after(11, 1)
    database.close()


def test_nobody_else_can_read_it(path: Path) -> None:
    database = JournalDatabase(path, create=True)
    database.append(entries(1, 1))
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    database.close()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_closed_journal_does_nothing_more(path: Path) -> None:
    database = JournalDatabase(path, create=True)
    database.close()
    for call in (
        lambda: database.append(entries(1, 1)),
        database.snapshot,
        lambda: database.entries_after(0, 1),
    ):
        with pytest.raises(JournalError) as caught:
            call()
        assert caught.value.problem is JournalProblem.CLOSED


# Snapshots


def test_a_snapshot_takes_the_place_of_what_led_to_it(path: Path) -> None:
    database = JournalDatabase(path, create=True)
    assert database.snapshot() is None
    database.append(entries(1, 10))
    database.store_snapshot(Snapshot(6, b"state at 6"))
    assert database.snapshot() == Snapshot(6, b"state at 6")
    assert database.entries_after(6, 100) == entries(7, 10)
    with pytest.raises(ValueError, match="no entry"):
        database.entries_after(0, 100)
    database.store_snapshot(Snapshot(10, b"state at 10"))
    database.close()
    database = JournalDatabase(path, create=False)
    assert (database.last_position, database.snapshot_position) == (10, 10)
    assert database.snapshot() == Snapshot(10, b"state at 10")
    assert database.entries_after(10, 100) == []
    with pytest.raises(ValueError, match="cannot follow"):
        database.append([entry(10)])
    database.append([entry(11)])
    database.close()
    assert stored(path) == [entry(11)]


def test_the_bytes_of_commands_that_no_snapshot_stands_for_are_known(path: Path) -> None:
    database = JournalDatabase(path, create=True)
    assert database.command_bytes == 0
    database.append([entry(1, bytes(10)), entry(2, bytes(100_000))])
    database.append([entry(3, bytes(7))])
    assert database.command_bytes == 100_017
    database.close()
    database = JournalDatabase(path, create=False)
    assert database.command_bytes == 100_017
    database.store_snapshot(Snapshot(2, b"state"))
    assert database.command_bytes == 7
    database.append([entry(4, bytes(3))])
    assert database.command_bytes == 10
    database.store_snapshot(Snapshot(4, b"state"))
    assert database.command_bytes == 0
    database.close()


def test_a_snapshot_belongs_to_an_entry(path: Path) -> None:
    database = JournalDatabase(path, create=True)
    database.append(entries(1, 2))
    for position in (3, -1):
        with pytest.raises(ValueError, match="no entry"):
            database.store_snapshot(Snapshot(position, b""))
    database.close()
    assert stored(path) == entries(1, 2)


def test_snapshots_keep_a_journal_small(path: Path) -> None:
    database = JournalDatabase(path, create=True)
    sizes = []
    for first in range(1, 5001, 500):
        database.append([entry(p, bytes(200)) for p in range(first, first + 500)])
        database.store_snapshot(Snapshot(first + 499, bytes(50_000)))
        sizes.append(sum(file.stat().st_size for file in path.parent.iterdir()))
    database.close()
    assert max(sizes[2:]) < 1.5 * sizes[1]


# Files that are no journal


def test_a_missing_journal_is_not_replaced_by_an_empty_one(path: Path) -> None:
    assert problem_of_opening(path).problem is JournalProblem.MISSING
    assert list(path.parent.iterdir()) == []


def test_what_is_left_of_a_journal_is_not_taken_for_none(path: Path) -> None:
    write_and_kill(path, limit=3)
    path.unlink()
    remains = sorted(file.name for file in path.parent.iterdir())
    for create in (False, True):
        with pytest.raises(JournalError, match="missing") as caught:
            JournalDatabase(path, create=create)
        assert caught.value.problem is JournalProblem.DAMAGED
    assert sorted(file.name for file in path.parent.iterdir()) == remains


def test_remains_of_an_unfinished_creation_are_swept_away(path: Path) -> None:
    for name in ("journal.db.new", "journal.db.new-journal"):
        (path.parent / name).write_bytes(b"half")
    filled(path, entries(1, 1))
    assert stored(path) == entries(1, 1)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "content", [b"", b"x", b"hello, world\n" * 1000, b"SQLite format 3\0" + bytes(84)]
)
def test_a_file_of_another_kind_is_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert problem_of_opening(path).problem is JournalProblem.FOREIGN
    assert path.read_bytes() == content


def test_the_database_of_something_else_is_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE entry (position INTEGER PRIMARY KEY)")
    connection.close()
    before = path.read_bytes()
    assert problem_of_opening(path).problem is JournalProblem.FOREIGN
    assert path.read_bytes() == before


def test_a_newer_format_is_left_alone(path: Path) -> None:
    filled(path, entries(1, 1))
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    before = path.read_bytes()
    error = problem_of_opening(path)
    assert error.problem is JournalProblem.NEWER_FORMAT
    assert "format 2" in str(error)
    assert path.read_bytes() == before


def test_two_at_once_are_refused(path: Path) -> None:
    database = JournalDatabase(path, create=True)
    database.append(entries(1, 1))
    assert problem_of_opening(path).problem is JournalProblem.IN_USE
    database.append(entries(2, 2))
    database.close()
    assert stored(path) == entries(1, 2)


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="nowhere") as caught:
        JournalDatabase(tmp_path / "nowhere" / "journal.db", create=True)
    assert caught.value.problem is JournalProblem.UNREADABLE


# Damage


@pytest.mark.parametrize("position", [1, 3, 5])
@pytest.mark.parametrize(
    "assignment",
    [
        "timestamp_us = timestamp_us + 1",
        "user_id = 1",
        "user_id = NULL",
        "command = x'00'",
        "command = 'command ' || position",  # the same letters, but a text
        "timestamp_us = 'late'",
        "link = x'0000000000000000'",
        "position = position + 100",
    ],
)
def test_a_changed_entry_is_named_and_kept(path: Path, position: int, assignment: str) -> None:
    filled(path, entries(1, 5))
    change(path, f"UPDATE entry SET {assignment} WHERE position = ?", position)
    before = path.read_bytes()
    with pytest.raises(JournalError) as caught:
        stored(path)
    assert caught.value.problem is JournalProblem.DAMAGED
    named = caught.value.position
    assert named is not None
    assert position <= named or position == 5
    assert path.read_bytes()[100:] == before[100:]


@pytest.mark.parametrize("position", [1, 2, 4, 5])
def test_a_missing_entry_is_noticed(path: Path, position: int) -> None:
    filled(path, entries(1, 5))
    change(path, "DELETE FROM entry WHERE position = ?", position)
    with pytest.raises(JournalError) as caught:
        stored(path)
    assert caught.value.problem is JournalProblem.DAMAGED


def test_everything_before_a_damage_can_still_be_read(path: Path) -> None:
    filled(path, entries(1, 5))
    change(path, "UPDATE entry SET command = x'00' WHERE position = 4")
    database = JournalDatabase(path, create=False)
    assert database.entries_after(0, 3) == entries(1, 3)
    with pytest.raises(JournalError, match="position 4") as caught:
        database.entries_after(3, 10)
    assert caught.value.position == 4
    database.close()


@pytest.mark.parametrize(
    "assignment",
    ["state = x'00'", "state = 'state at 3'", "checksum = x'00'", "link = x'00'", "position = 2"],
)
def test_a_changed_snapshot_is_noticed(path: Path, assignment: str) -> None:
    database = JournalDatabase(path, create=True)
    database.append(entries(1, 5))
    database.store_snapshot(Snapshot(3, b"state at 3"))
    database.close()
    change(path, f"UPDATE snapshot SET {assignment}")
    database = JournalDatabase(path, create=False)
    with pytest.raises(JournalError) as caught:
        database.snapshot()
    assert caught.value.problem is JournalProblem.DAMAGED
    assert caught.value.position == database.snapshot_position
    database.close()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM head",
        "UPDATE head SET position = 6",
        "UPDATE head SET link = x'00'",
        "DELETE FROM entry WHERE position = 5",
    ],
)
def test_a_lost_end_is_noticed_when_it_is_opened(path: Path, statement: str) -> None:
    filled(path, entries(1, 5))
    change(path, statement)
    assert problem_of_opening(path).problem is JournalProblem.DAMAGED


def start_of_last_commit(log: bytes) -> int:
    (page_size,) = struct.unpack_from(">I", log, 8)
    starts = range(32, len(log), 24 + page_size)
    commits = [start for start in starts if struct.unpack_from(">I", log, start + 4) != (0,)]
    return commits[-2] + 24 + page_size


@pytest.mark.parametrize("with_log", [False, True], ids=["database", "write-ahead log"])
def test_a_flipped_bit_is_reported_or_harmless(path: Path, tmp_path: Path, with_log: bool) -> None:
    """Whatever bit of the files flips: what is read is what was written, or an error says no.

    The exception is the newest commit while it is only in the write-ahead log: a damaged one and
    one that was cut short by a loss of power look the same.
    """
    if with_log:
        write_and_kill(path, limit=8)
        file = path.with_name(path.name + "-wal")
    else:
        filled(path, *([entry(position)] for position in range(1, 9)))
        file = path
    originals = {each: each.read_bytes() for each in tmp_path.iterdir()}
    whole = originals[file]
    opened = refused = 0
    for position in range(0, len(whole), 397):
        for each, content in originals.items():
            each.write_bytes(content)
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        file.write_bytes(damaged)
        try:
            found = stored(path)
        except JournalError:
            refused += 1
            continue
        opened += 1
        is_newest_commit = with_log and position >= start_of_last_commit(whole)
        assert found == entries(1, 8) or (is_newest_commit and found == entries(1, 7))
    assert opened > 0
    assert refused > 0


def test_a_torn_log_gives_back_whole_groups(path: Path, tmp_path: Path) -> None:
    write_and_kill(path, group=3, limit=30)
    log = path.with_name(path.name + "-wal")
    originals = {each: each.read_bytes() for each in tmp_path.iterdir()}
    counts = set()
    for length in range(0, len(originals[log]), 811):
        for each, content in originals.items():
            each.write_bytes(content)
        log.write_bytes(originals[log][:length])
        found = stored(path)
        assert found == entries(1, len(found))
        assert len(found) % 3 == 0
        counts.add(len(found))
    assert len(counts) == 10  # every whole group but the last


# Writes that fail


def failure(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("injected")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize("point", ["journal.append", "journal.append.commit"])
def test_a_full_disk_leaves_no_trace_and_the_next_try_works(path: Path, point: str) -> None:
    points = FailurePoints()
    database = JournalDatabase(path, create=True, points=points)
    database.append(entries(1, 2))
    points.arm(point, failure(sqlite3.SQLITE_FULL), times=2)
    for _ in range(2):
        with pytest.raises(JournalError) as caught:
            database.append([entry(3, b"refused"), entry(4, b"refused")])
        assert caught.value.problem is JournalProblem.NOT_WRITTEN
        assert database.last_position == 2
        assert database.entries_after(0, 10) == entries(1, 2)
    assert database.append(entries(3, 3)) == 3
    database.close()
    assert stored(path) == entries(1, 3)


def test_a_database_that_may_not_grow_refuses_and_goes_on(path: Path) -> None:
    database = JournalDatabase(path, create=True)
    database.append(entries(1, 1))
    connection = database._connection
    connection.execute("PRAGMA max_page_count = 10").fetchall()
    with pytest.raises(JournalError) as caught:
        database.append([entry(2, bytes(100_000))])
    assert caught.value.problem is JournalProblem.NOT_WRITTEN
    database.append(entries(2, 2))
    with pytest.raises(JournalError):
        database.store_snapshot(Snapshot(2, bytes(100_000)))
    connection.execute("PRAGMA max_page_count = 1000000").fetchall()
    database.append([entry(3, bytes(100_000))])
    database.close()
    assert stored(path) == [*entries(1, 2), entry(3, bytes(100_000))]


@pytest.mark.parametrize(
    ("point", "in_journal"),
    [("journal.append.commit", 2), ("journal.append.committed", 3)],
)
@pytest.mark.parametrize(
    "code", [sqlite3.SQLITE_IOERR, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_CORRUPT]
)
def test_after_a_doubtful_write_nothing_is_written_any_more(
    path: Path, point: str, in_journal: int, code: int
) -> None:
    points = FailurePoints()
    database = JournalDatabase(path, create=True, points=points)
    database.append(entries(1, 2))
    points.arm(point, failure(code), times=1)
    with pytest.raises(JournalError) as caught:
        database.append(entries(3, 3))
    assert caught.value.problem is JournalProblem.UNKNOWN_OUTCOME
    for call in (
        lambda: database.append(entries(3, 3)),
        lambda: database.append(entries(4, 4)),
        lambda: database.store_snapshot(Snapshot(2, b"")),
    ):
        with pytest.raises(JournalError, match="earlier write") as caught:
            call()
        assert caught.value.problem is JournalProblem.CLOSED
    database.close()
    assert stored(path) == entries(1, in_journal)


def test_a_failed_snapshot_leaves_the_old_one_and_the_entries(path: Path) -> None:
    points = FailurePoints()
    database = JournalDatabase(path, create=True, points=points)
    database.append(entries(1, 4))
    database.store_snapshot(Snapshot(2, b"old"))
    points.arm("journal.snapshot.commit", failure(sqlite3.SQLITE_FULL), times=1)
    with pytest.raises(JournalError) as caught:
        database.store_snapshot(Snapshot(4, b"new"))
    assert caught.value.problem is JournalProblem.NOT_WRITTEN
    assert database.snapshot() == Snapshot(2, b"old")
    assert database.entries_after(2, 10) == entries(3, 4)
    database.close()
    assert stored(path) == entries(3, 4)


# Processes that die


@pytest.mark.parametrize("group", [1, 7])
def test_a_process_killed_while_it_appends_loses_nothing_durable(path: Path, group: int) -> None:
    before = 0
    for after in (0, 1, 13, 37, 120):
        durable = write_and_kill(path, group=group, limit=1_000_000, after=after)
        database = JournalDatabase(path, create=False)
        last = database.last_position
        first = database.snapshot_position + 1
        assert last >= max(durable, before)
        assert database.entries_after(first - 1, 1_000_000) == entries(first, last)
        assert last % group == 0
        if first > 1:
            assert database.snapshot() == Snapshot(first - 1, b"state")
        database.close()
        before = last
    assert before > 100 * group
