"""Figures of this process and its machine, for statistics (spec 06, 6.2)."""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

import psutil

from windsprite_server.core.clock import Clock

_MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """One look at the process and the machine; sizes in bytes, times in microseconds."""

    process_id: int
    cpu_usage: float
    total_cpu_usage: float
    memory_usage: int
    total_memory: int
    available_memory: int
    run_time: int
    start_time: int
    read_bytes: int
    written_bytes: int
    threads_count: int
    free_disk_space: int
    total_disk_space: int


@dataclass(frozen=True, slots=True)
class MachineNames:
    """What the machine is called and what runs on it."""

    hostname: str
    os_name: str
    os_version: str
    kernel_version: str


class ProcessMeter:
    """Looks at the process it runs in.

    CPU use is the change since the look before, 0 at the first, as spec 06, 6.2 wants it.
    """

    def __init__(self, data_dir: Path, clock: Clock) -> None:
        self._data_dir = data_dir
        self._clock = clock
        self._started_us = clock.now_us()
        self._started = clock.monotonic()
        self._process = psutil.Process()
        self.names = _machine_names()

    def read(self) -> ProcessFigures:
        """The figures of this moment; takes a fraction of a millisecond and does not block."""
        with self._process.oneshot():
            memory = self._process.memory_info().rss
            cpu = self._process.cpu_percent(None)
            threads = self._process.num_threads()
        total, available = _memory()
        read_bytes, written_bytes = self._disk_traffic()
        free_disk, total_disk = self._disk_space()
        run_seconds = int(self._clock.monotonic() - self._started)
        return ProcessFigures(
            process_id=os.getpid(),
            cpu_usage=cpu,
            total_cpu_usage=_total_cpu_usage(),
            memory_usage=memory,
            total_memory=total,
            available_memory=available,
            run_time=run_seconds * _MICROSECONDS,
            start_time=self._started_us // _MICROSECONDS * _MICROSECONDS,
            read_bytes=read_bytes,
            written_bytes=written_bytes,
            threads_count=threads,
            free_disk_space=free_disk,
            total_disk_space=total_disk,
        )

    def _disk_traffic(self) -> tuple[int, int]:
        try:
            counters = self._process.io_counters()
        except (AttributeError, psutil.Error, OSError):  # not on macOS, not in every container
            return 0, 0
        return counters.read_bytes, counters.write_bytes

    def _disk_space(self) -> tuple[int, int]:
        try:
            usage = shutil.disk_usage(self._data_dir)
        except OSError:
            return 0, 0
        return usage.free, usage.total


def _total_cpu_usage() -> float:
    """Percent, over the processors that the process may use, since the look before."""
    usage = psutil.cpu_percent(None, percpu=True)
    try:
        allowed = os.sched_getaffinity(0)
    except AttributeError:  # not on macOS
        allowed = set(range(len(usage)))
    used = [percent for number, percent in enumerate(usage) if number in allowed]
    return sum(used) / len(used) if used else 0.0


def _memory() -> tuple[int, int]:
    """Total and available memory, within the limit of the control group if there is one."""
    memory = psutil.virtual_memory()
    total, available = memory.total, memory.available
    limit = _control_group_number("memory.max")
    if limit is not None and limit < total:
        used = _control_group_number("memory.current") or 0
        total = limit
        available = min(available, max(0, limit - used))
    return total, available


def _control_group_number(name: str) -> int | None:
    try:
        text = Path("/sys/fs/cgroup", name).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    return int(text) if text.isdecimal() else None


def _machine_names() -> MachineNames:
    try:
        release = platform.freedesktop_os_release()
        os_version = release.get("PRETTY_NAME", "")
    except OSError:
        os_version = platform.version()
    return MachineNames(
        hostname=platform.node() or "unknown_hostname",
        os_name=platform.system() or "unknown_os_name",
        os_version=os_version or "unknown_os_version",
        kernel_version=platform.release() or "unknown_kernel_version",
    )
