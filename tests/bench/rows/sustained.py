"""Producing more than the kernel lets wait for the disk, until all of it is there."""

import json
import os
import shutil
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.contenders import ALL, OURS, load, run_module, running
from bench.processes import fill_page_cache
from bench.rows import Run, fill_tail
from bench.rows.throughput import WRITE
from bench.systems.windsprite import Windsprite
from bench.workload import Workload

_PLACE = "sustained"
_DISTINCT = 128
_LEFT_FREE = 4_000_000_000
"""Bytes of the disk that a measurement does not use."""
_SECONDS_TO_DELETE = 120


@dataclass(frozen=True, slots=True)
class Sustained:
    """Messages that are acknowledged when they are in the page cache, by our server and by `write`.

    The time ends when all is on the disk, so that it does not depend on how much the kernel lets
    wait for it. All memory is in use, as it is after a while.

    Attributes:
        name: As `--only` calls it.
        size_mb: Of the payloads of one measurement.
    """

    name: str = "sustained"
    size_mb: int = 6000
    in_default: bool = False

    @property
    def title(self) -> str:
        return f"produce {self.size_mb:,} MB, 1,000 x 1 KiB a batch, until all is on the disk"

    def measure(self, run: Run, folder: Path) -> None:
        work = Workload(self.size_mb * 1000 // 1024, 1000, 1024, distinct=_DISTINCT)
        needed = work.stored_bytes + _LEFT_FREE
        if shutil.disk_usage(folder).free < needed:
            run.results.skip(f"{self.name}: it needs {needed / 1e9:,.0f} GB of free disk")
            return
        with running((ALL[OURS],), folder) as systems:
            system = systems[Windsprite]
            assert isinstance(system, Windsprite)
            fill_tail(system)
            repeats = run.repeats_of(5)
            for repeat in range(repeats):
                for name in (WRITE, OURS) if repeat % 2 else (OURS, WRITE):
                    fill_page_cache(folder / "memory")
                    os.sync()
                    if name == WRITE:
                        seconds = _write(work, folder)
                    else:
                        seconds = _send(work, system, is_last=repeat == repeats - 1)
                    self._add(run, name, work, seconds)

    def _add(self, run: Run, contender: str, work: Workload, seconds: float) -> None:
        print(f"    {contender}: {work.stored_bytes / 1e9:.1f} GB in {seconds:.1f} s", flush=True)
        run.results.add(
            work.messages / seconds,
            row=self.name,
            title=self.title,
            contender=contender,
            unit="messages/s",
            durability="page cache",
            is_limit=contender == WRITE,
            message_bytes=work.size,
        )


def _write(work: Workload, folder: Path) -> float:
    order = json.dumps(asdict(work))
    seconds: float = run_module("bench.limits", "write", str(folder), order, "False", "True")[
        "seconds"
    ]
    return seconds


def _send(work: Workload, system: Windsprite, *, is_last: bool) -> float:
    """Send, and take it away again; what was sent last is counted after a crash before."""
    ours = ALL[OURS]
    seconds: float = load(ours, system, "produce", _PLACE, work, depth=4, sync=True)["seconds"]
    if is_last:
        system.kill()
        system.start()
        load(ours, system, "consume", _PLACE, work, depth=4)
    load(ours, system, "delete", _PLACE, work)
    deadline = time.monotonic() + _SECONDS_TO_DELETE
    while _used(system.data_directory) > work.stored_bytes // 2:
        if time.monotonic() > deadline:
            raise RuntimeError("what was deleted is still on the disk")
        time.sleep(0.1)
    return seconds


def _used(folder: Path) -> int:
    """Bytes of the files below a folder, from which files vanish meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(parent, name).stat().st_size
    return total


SUSTAINED = Sustained()
ROWS = [SUSTAINED]
