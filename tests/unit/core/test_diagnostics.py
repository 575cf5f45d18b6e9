"""Archives that describe the state of the server."""

import asyncio
import io
import os
import threading
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from support.clock import ManualClock
from windsprite_protocol.model.system import SnapshotCompression, SnapshotKind
from windsprite_server.core.diagnostics import Diagnostics, DiagnosticsBusyError
from windsprite_server.core.log_setup import RecentLog, make_logger

CLOCK = ManualClock(now_us=1_700_000_000_000_000)
ALL_KINDS = [kind for kind in SnapshotKind if kind is not SnapshotKind.ALL]
NAMES = {
    SnapshotKind.FILESYSTEM_OVERVIEW: "filesystem_overview.txt",
    SnapshotKind.PROCESS_LIST: "process_list.txt",
    SnapshotKind.RESOURCE_USAGE: "resource_usage.txt",
    SnapshotKind.TEST: "test.txt",
    SnapshotKind.SERVER_LOGS: "server_logs.txt",
    SnapshotKind.SERVER_CONFIG: "server_config.txt",
}


class Bench:
    def __init__(self, data_dir: Path, *, keeps_log: bool = True) -> None:
        self.output = io.StringIO()
        self.recent = RecentLog(100) if keeps_log else None
        self.logger = make_logger(
            log_format="json",
            level="info",
            stream=self.output,
            clock=CLOCK,
            recent=self.recent,
        )
        configuration = 'data_dir = "x"  # default\n'
        self.diagnostics = Diagnostics(data_dir, configuration, self.recent, CLOCK, self.logger)

    async def files(
        self,
        *kinds: SnapshotKind,
        compression: SnapshotCompression = SnapshotCompression.DEFLATED,
    ) -> dict[str, str]:
        archive = await self.diagnostics.archive(compression, kinds)
        opened = zipfile.ZipFile(io.BytesIO(archive))
        return {name: opened.read(name).decode() for name in opened.namelist()}


async def test_one_file_for_each_kind_in_the_order_asked_for(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.logger.info("started")
    for kinds in (ALL_KINDS, ALL_KINDS[::-1]):
        files = await bench.files(*kinds)
        assert list(files) == [NAMES[kind] for kind in kinds]
        assert all(text.endswith("\n") for text in files.values())


async def test_what_is_asked_for_twice_is_there_once(tmp_path: Path) -> None:
    files = await Bench(tmp_path).files(SnapshotKind.TEST, SnapshotKind.TEST)
    assert files == {"test.txt": "test\n"}


async def test_nothing_asked_for_is_an_empty_archive(tmp_path: Path) -> None:
    assert await Bench(tmp_path).files() == {}


async def test_what_the_files_say(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(bytes(4321))
    bench = Bench(tmp_path)
    bench.logger.warning("something happened", place="here")
    files = await bench.files(*ALL_KINDS)
    assert files["server_config.txt"] == 'data_dir = "x"  # default\n'
    assert '"something happened"' in files["server_logs.txt"]
    (listed,) = [
        line for line in files["filesystem_overview.txt"].splitlines() if "journal.db" in line
    ]
    assert listed.startswith("-rw-")
    assert " 4321 " in listed
    headings, *processes = [line.split("\t") for line in files["process_list.txt"].splitlines()]
    assert {len(cells) for cells in processes} == {len(headings)}
    assert str(os.getpid()) in [cells[0] for cells in processes]
    for figure in ("memory: total ", f"process {os.getpid()}", "threads", "disk of "):
        assert figure in files["resource_usage.txt"] or figure in files["process_list.txt"]


async def test_no_command_line_of_a_process_is_told(tmp_path: Path) -> None:
    secret = "password-" + "on-a-command-line"
    sleeper = await asyncio.create_subprocess_exec("sleep", "60", env={"SECRET": secret})
    shell = await asyncio.create_subprocess_exec("sh", "-c", f"sleep 60 # {secret}")
    try:
        files = await Bench(tmp_path).files(*ALL_KINDS)
        assert str(sleeper.pid) in files["process_list.txt"]
        assert not any(secret in text for text in files.values())
    finally:
        for process in (sleeper, shell):
            process.kill()
            await process.wait()


async def test_a_section_that_cannot_be_collected_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path / "missing", keeps_log=False)
    files = await bench.files(
        SnapshotKind.SERVER_LOGS, SnapshotKind.RESOURCE_USAGE, SnapshotKind.TEST
    )
    assert files == {"test.txt": "test\n"}
    assert "resource_usage.txt" in bench.output.getvalue()


async def test_names_of_files_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"na\xffme")).touch()
    files = await Bench(tmp_path).files(SnapshotKind.FILESYSTEM_OVERVIEW)
    assert "na\\udcffme" in files["filesystem_overview.txt"]


async def test_very_many_files_are_not_all_listed(tmp_path: Path) -> None:
    for number in range(1003):
        (tmp_path / f"{number:04}").touch()
    files = await Bench(tmp_path).files(SnapshotKind.FILESYSTEM_OVERVIEW)
    lines = files["filesystem_overview.txt"].splitlines()
    assert lines[0] == f"{tmp_path}:"
    assert lines[1000].endswith("0999")
    assert lines[1001] == "and 3 more"


class HeldLog(RecentLog):
    """Lets a thread that reads it wait."""

    def __init__(self) -> None:
        super().__init__(1)
        self.may_go_on = threading.Event()

    def lines(self) -> list[str]:
        assert self.may_go_on.wait(30)
        return []


async def test_one_at_a_time_even_if_nobody_waits_for_it_any_more(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    held = HeldLog()
    diagnostics = Diagnostics(tmp_path, "", held, CLOCK, bench.logger)

    async def archive(kinds: Iterable[SnapshotKind]) -> bytes:
        return await diagnostics.archive(SnapshotCompression.STORED, kinds)

    first = asyncio.create_task(archive([SnapshotKind.SERVER_LOGS]))
    await asyncio.sleep(0.01)
    with pytest.raises(DiagnosticsBusyError):
        await archive([])
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    with pytest.raises(DiagnosticsBusyError):
        await archive([])
    held.may_go_on.set()
    for _ in range(1000):
        try:
            assert await archive([])
            break
        except DiagnosticsBusyError:
            await asyncio.sleep(0.001)
    else:
        raise AssertionError("it is still busy")
