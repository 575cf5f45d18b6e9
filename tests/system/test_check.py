"""`windsprite-server check` on directories that real servers left behind, some of them damaged."""

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import windsprite
import windsprite_server
from support.server_process import server_process
from support.small_disk import small_disk
from windsprite_server.cli import main

EVENTS = "0-0-0.3"
"""The directory of the partition that has all the messages."""


async def fill(connection_string: str) -> None:
    async with windsprite.connect(connection_string) as client:
        await client.create_stream("orders")
        await client.create_topic("orders", "events", 2, segment_size="1 MiB")
        for _ in range(30):
            await client.send("orders", "events", [bytes(50_000), bytes(50_000)], partition=0)
        await client.store_consumer_offset("orders", "events", 7, consumer="reader")


async def leave_behind(directory: Path) -> None:
    async with windsprite_server.embedded(directory) as server:
        await fill(server.connection_string)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a server left behind that was stopped as it should be."""
    directory = tmp_path_factory.mktemp("original") / "data"
    asyncio.run(leave_behind(directory))
    return directory


@pytest.fixture
def directory(original: Path, tmp_path: Path) -> Path:
    """A copy of that, to damage."""
    return Path(shutil.copytree(original, tmp_path / "data"))


@dataclass
class Checked:
    """What came of a check."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Checker:
    """Checks a directory; it has to be afterwards what it was before."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, directory: Path, *options: str) -> Checked:
        before = content(directory)
        code = main(["check", str(directory), *options])
        assert content(directory) == before
        return Checked(code, *self._capture.readouterr())


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Checker:
    return Checker(capsys)


def content(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def flip(path: Path, position: int) -> None:
    """Change a bit of a file."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def segments(directory: Path) -> list[Path]:
    return sorted((directory / "log" / EVENTS).glob("*.log"))


def lines(text: str) -> list[str]:
    """The lines of a report, without what only aligns them."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_a_sound_directory(directory: Path, check: Checker) -> None:
    result = check(directory)
    assert (result.code, result.err) == (0, "")
    found = lines(result.out)
    assert found[2] == "journal sound, up to position 3: 1 stream, 1 topic, 1 user"
    assert found[4:7] == [
        "partition messages offsets bytes segments",
        "orders/events/0 60 0 to 59 3010560 3 sound",
        "orders/events/1 0 none 0 0 sound",
    ]
    assert found[-1] == "sound"


def test_the_report_for_programs(directory: Path, check: Checker) -> None:
    result = check(directory, "--format", "json")
    report = result.json
    assert result.code == 0
    assert report["verdict"] == "sound"
    assert report["generation"] == 1
    assert report["journal"] == {
        "problem": None,
        "position": 3,
        "streams": 1,
        "topics": 1,
        "users": 1,
    }
    first, second = report["partitions"]
    assert (first["stream"], first["topic"], first["directory"]) == ("orders", "events", EVENTS)
    assert (first["messages"], first["next_offset"], first["damages"]) == (60, 60, [])
    assert (second["partition"], second["messages"]) == (1, 0)


def test_what_a_killed_server_left_is_sound(tmp_path: Path, check: Checker) -> None:
    """What it had committed last stands in the write-ahead log of its journal only."""
    with server_process(tmp_path) as process:
        asyncio.run(fill(f"iggy://iggy:iggy@{process.wait_ready()['tcp']}"))
        process.send(signal.SIGKILL)
        process.wait_end()
    directory = tmp_path / "data"
    assert (directory / "journal.db-wal").stat().st_size > 0
    result = check(directory, "--format", "json")
    assert result.code == 0
    assert [partition["messages"] for partition in result.json["partitions"]] == [60, 0]


def test_a_damaged_message(directory: Path, check: Checker) -> None:
    flip(segments(directory)[0], 60_000)
    result = check(directory)
    assert result.code == 1
    assert "orders/events/0 58 0 to 59 3010560 3 damaged" in lines(result.out)
    assert "00000000000000000000.log: " in result.out
    assert "offsets 0 to 1 are lost" in result.out
    assert result.out.splitlines()[-1] == "damaged: 1 of 2 partitions"
    (first, second) = check(directory, "--format", "json").json["partitions"]
    (damage,) = first["damages"]
    assert (damage["position"], damage["first_offset"], damage["next_offset"]) == (0, 0, 2)
    assert second["is_sound"]


def test_a_lost_segment(directory: Path, check: Checker) -> None:
    segments(directory)[1].unlink()
    result = check(directory)
    assert result.code == 1
    assert "are lost" in result.out


def test_an_unfinished_write_is_no_damage(directory: Path, check: Checker) -> None:
    last = segments(directory)[-1]
    last.write_bytes(last.read_bytes()[:-10])
    result = check(directory)
    assert result.code == 0
    assert "orders/events/0 58 0 to 57 3010550 3 sound" in lines(result.out)
    assert "an unfinished write" in result.out


def test_a_damaged_offset(directory: Path, check: Checker) -> None:
    flip(directory / "log" / EVENTS / "offsets", 10)
    result = check(directory)
    assert result.code == 1
    assert "1 stored offset of consumers or groups cannot be read" in result.out


def test_a_partition_that_cannot_be_read(directory: Path, check: Checker) -> None:
    segment = segments(directory)[0]
    segment.unlink()
    segment.mkdir()
    result = check(directory)
    assert result.code == 1
    assert f"{EVENTS} cannot be read: Is a directory" in result.out


def test_what_the_journal_does_not_know_is_named(directory: Path, check: Checker) -> None:
    shutil.copytree(directory / "log" / EVENTS, directory / "log" / "7-7-7.7")
    (directory / "log" / "notes\x1b.txt").touch()
    (directory / "log" / "8-8-8.8.removed").mkdir()
    result = check(directory)
    assert result.code == 0
    assert [line for line in result.out.splitlines() if line.startswith("left alone")] == [
        f"left alone: {directory}/log/7-7-7.7, which the journal does not know",
        f"left alone: {directory}/log/notes\\x1b.txt, which the journal does not know",
    ]


def test_a_missing_directory_is_named(directory: Path, check: Checker) -> None:
    shutil.rmtree(directory / "log" / EVENTS)
    result = check(directory)
    assert result.code == 0
    assert "orders/events/0" in result.out
    assert f"there is no {EVENTS}; the next start makes it, empty" in result.out
    shutil.rmtree(directory / "log")
    assert check(directory).code == 0


def test_names_cannot_play_tricks(tmp_path: Path, check: Checker) -> None:
    async def leave() -> None:
        async with (
            windsprite_server.embedded(tmp_path) as server,
            windsprite.connect(server.connection_string) as client,
        ):
            await client.create_stream("a\x1b[31m")
            await client.create_topic(0, "ü\n")

    asyncio.run(leave())
    assert "a\\x1b[31m/\\xfc\\n/0" in check(tmp_path).out


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (
            lambda journal: flip(journal, journal.read_bytes().index(b"events")),
            "not what was written",
        ),
        (lambda journal: journal.write_bytes(b"something else"), "is no journal"),
        (lambda journal: journal.unlink(), "there is no journal"),
    ],
)
def test_without_its_journal_a_directory_is_unusable(
    damage: Any, complaint: str, directory: Path, check: Checker
) -> None:
    damage(directory / "journal.db")
    result = check(directory)
    assert result.code == 3
    assert complaint in result.out
    assert "windsprite-check-" not in result.out
    # The logs are looked through all the same.
    assert f"{EVENTS} 60 0 to 59 3010560 3 sound" in lines(result.out)
    assert result.out.splitlines()[-1] == "unusable: no server starts without the journal"


def test_a_directory_of_a_later_version(directory: Path, check: Checker) -> None:
    with (directory / "journal.db").open("r+b") as journal:
        journal.seek(60)
        journal.write((99).to_bytes(4, "big"))
    result = check(directory)
    assert (result.code, result.out) == (3, "")
    assert "use a newer Windsprite" in result.err
    assert f"{directory}/journal.db" in result.err


def test_a_directory_in_use(tmp_path: Path, check: Checker) -> None:
    async def run() -> Checked:
        async with windsprite_server.embedded(tmp_path):
            return await asyncio.to_thread(check, tmp_path)

    result = asyncio.run(run())
    assert (result.code, result.out) == (3, "")
    assert f"a server uses data directory {tmp_path}: stop it first" in result.err
    assert check(tmp_path).code == 0


def test_no_room_for_a_copy_of_the_journal(
    directory: Path, tmp_path: Path, check: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "other") as disk:
        disk.fill()
        monkeypatch.setattr(tempfile, "tempdir", str(disk.path))
        result = check(directory)
        assert (result.code, result.out) == (3, "")
        assert f"no room for a copy of {directory}/journal.db in {disk.path}" in result.err
        assert "TMPDIR" in result.err
        disk.make_room()
        assert check(directory).code == 0


def test_what_is_no_data_directory(tmp_path: Path, check: Checker) -> None:
    assert check(tmp_path).code == 0
    (tmp_path / "notes").touch()
    for path in (tmp_path, tmp_path / "missing", tmp_path / "notes"):
        result = check(path)
        assert (result.code, result.out) == (3, "")
        assert result.err.startswith("windsprite-server: ")


@pytest.fixture
def spawned() -> list[str]:
    program = (
        "import os, pty, sys; "
        "sys.exit(os.waitstatus_to_exitcode(pty.spawn([sys.executable, '-m', 'windsprite_server', "
        "'check', sys.argv[1]])))"
    )
    return [sys.executable, "-c", program]


def test_progress_is_shown_on_a_terminal(directory: Path, spawned: list[str]) -> None:
    done = subprocess.run(
        [*spawned, str(directory)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0
    assert "checking" in done.stdout
    assert "2.9 MiB" in done.stdout
    assert done.stdout.rstrip().endswith("sound")
