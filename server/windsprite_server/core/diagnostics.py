"""Archives that describe the state of the server, for whoever helps with it (spec 06, 6.3).

They may be passed on, so they hold no secrets: no passwords, and no command lines of processes.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import psutil

from windsprite_protocol.model.system import SnapshotCompression, SnapshotKind
from windsprite_server.core import zip_archive
from windsprite_server.core.clock import Clock
from windsprite_server.core.log_setup import Logger, RecentLog
from windsprite_server.core.zip_archive import Entry

_SYSTEM_DIRECTORIES: Final = (Path("/tmp"), Path("/proc"))  # noqa: S108 - only listed
_LISTED_FILES: Final = 1000
_LISTED_PROCESSES: Final = 5000
_CPU_SAMPLE_SECONDS: Final = 0.2
_MICROSECONDS: Final = 1_000_000
_PROCESS_HEADINGS: Final = (
    "pid", "parent", "user", "status", "threads", "resident", "virtual", "cpu seconds", "started",
    "name",
)  # fmt: skip

_METHODS: Final = {
    SnapshotCompression.STORED: zip_archive.STORED,
    SnapshotCompression.DEFLATED: zip_archive.DEFLATED,
    SnapshotCompression.BZIP2: zip_archive.BZIP2,
    SnapshotCompression.ZSTD: zip_archive.ZSTD,
    SnapshotCompression.LZMA: zip_archive.LZMA,
    SnapshotCompression.XZ: zip_archive.XZ,
}


class DiagnosticsBusyError(Exception):
    """Another archive is being made."""


class Diagnostics:
    """Makes archives in a thread, one at a time.

    Args:
        data_dir: The data directory.
        configuration: The settings in force, without secrets.
        recent_log: The newest lines of the log; `None`: nobody keeps them.
        clock: Time.
        logger: Told of sections that could not be collected.
    """

    def __init__(
        self,
        data_dir: Path,
        configuration: str,
        recent_log: RecentLog | None,
        clock: Clock,
        logger: Logger,
    ) -> None:
        self._data_dir = data_dir
        self._clock = clock
        self._logger = logger
        self._job: asyncio.Future[bytes] | None = None
        self._sections: dict[SnapshotKind, tuple[str, Callable[[], Iterable[str]]]] = {
            SnapshotKind.FILESYSTEM_OVERVIEW: ("filesystem_overview.txt", self._files),
            SnapshotKind.PROCESS_LIST: ("process_list.txt", _processes),
            SnapshotKind.RESOURCE_USAGE: ("resource_usage.txt", self._resources),
            SnapshotKind.TEST: ("test.txt", lambda: ["test"]),
            SnapshotKind.SERVER_CONFIG: ("server_config.txt", lambda: [configuration.rstrip()]),
        }
        if recent_log is not None:
            self._sections[SnapshotKind.SERVER_LOGS] = ("server_logs.txt", recent_log.lines)

    async def archive(
        self, compression: SnapshotCompression, kinds: Iterable[SnapshotKind]
    ) -> bytes:
        """A ZIP archive with one file for each of these kinds, in their order.

        What cannot be collected is left out.

        Raises:
            DiagnosticsBusyError: Another one is being made.
        """
        if self._job is not None and not self._job.done():
            raise DiagnosticsBusyError
        loop = asyncio.get_running_loop()
        self._job = loop.run_in_executor(None, self._archive, compression, list(kinds))
        # Who asked may go away, but the thread goes on, and the next one has to wait for it.
        return await asyncio.shield(self._job)

    def _archive(self, compression: SnapshotCompression, kinds: list[SnapshotKind]) -> bytes:
        now = datetime.fromtimestamp(self._clock.now_us() / _MICROSECONDS, UTC)
        entries = filter(None, map(self._entry, dict.fromkeys(kinds)))
        return zip_archive.zip_archive(entries, _METHODS[compression], now)

    def _entry(self, kind: SnapshotKind) -> Entry | None:
        if kind not in self._sections:
            return None
        name, collect = self._sections[kind]
        try:
            text = "".join(f"{line}\n" for line in collect())
        except Exception:
            self._logger.exception("a section of a snapshot could not be collected", section=name)
            return None
        # Names of files may be no text.
        return Entry(name, text.encode(errors="backslashreplace"))

    def _files(self) -> Iterator[str]:
        for directory in (self._data_dir, *_SYSTEM_DIRECTORIES):
            yield f"{directory}:"
            yield from _listing(directory)
            yield ""

    def _resources(self) -> Iterator[str]:
        yield f"processors: {psutil.cpu_count()}"
        load = ", ".join(f"{average:.2f}" for average in psutil.getloadavg())
        yield f"load in 1, 5, 15 minutes: {load}"
        used = psutil.cpu_percent(_CPU_SAMPLE_SECONDS, percpu=True)
        yield f"percent of each processor in use: {', '.join(map(str, used))}"
        yield f"memory: {_fields(psutil.virtual_memory())}"
        yield f"swap: {_fields(psutil.swap_memory())}"
        yield f"disk of {self._data_dir}: {_fields(psutil.disk_usage(str(self._data_dir)))}"
        yield f"disks since start: {_fields(psutil.disk_io_counters())}"
        yield f"network since start: {_fields(psutil.net_io_counters())}"
        yield ""
        process = psutil.Process()
        yield f"this server, process {process.pid}:"
        yield f"memory: {_fields(process.memory_info())}"
        yield f"processor seconds: {_fields(process.cpu_times())}"
        yield f"open files: {process.num_fds()}"
        for thread in process.threads():
            yield f"thread: {_fields(thread)}"


def _listing(directory: Path) -> Iterator[str]:
    """The files of a directory, as `ls -l` shows them; some of them, if there are very many."""
    try:
        names = sorted(os.listdir(directory))  # noqa: PTH208 - names that are no text, too
    except OSError as error:
        yield f"cannot be listed: {error.strerror}"
        return
    for name in names[:_LISTED_FILES]:
        try:
            found = os.lstat(directory / name)
        except OSError:
            continue  # gone meanwhile
        changed = datetime.fromtimestamp(found.st_mtime, UTC)
        yield (
            f"{stat.filemode(found.st_mode)} {found.st_nlink:>4} {found.st_uid:>5} "
            f"{found.st_gid:>5} {found.st_size:>12} {changed:%Y-%m-%dT%H:%M:%SZ} {name}"
        )
    if len(names) > _LISTED_FILES:
        yield f"and {len(names) - _LISTED_FILES} more"


def _processes() -> Iterator[str]:
    """All processes, without what they were called with."""
    yield "\t".join(_PROCESS_HEADINGS)
    attributes = [
        *("pid", "ppid", "username", "status", "num_threads", "memory_info", "cpu_times"),
        *("create_time", "name"),
    ]
    processes = list(psutil.process_iter(attributes))
    for process in processes[:_LISTED_PROCESSES]:
        known = process.info
        memory, times, started = known["memory_info"], known["cpu_times"], known["create_time"]
        cells = (
            known["pid"],
            known["ppid"],
            known["username"],
            known["status"],
            known["num_threads"],
            memory and memory.rss,
            memory and memory.vms,
            times and round(times.user + times.system, 2),
            started and f"{datetime.fromtimestamp(started, UTC):%Y-%m-%dT%H:%M:%SZ}",
            known["name"],
        )
        yield "\t".join("-" if cell is None else str(cell) for cell in cells)
    if len(processes) > _LISTED_PROCESSES:
        yield f"and {len(processes) - _LISTED_PROCESSES} more"


def _fields(figures: tuple[float, ...] | None) -> str:
    """A named tuple of `psutil` as text; nothing if the system does not tell it."""
    if figures is None:
        return "unknown"
    names: tuple[str, ...] = getattr(figures, "_fields", ())
    return ", ".join(f"{name} {value}" for name, value in zip(names, figures, strict=True))
