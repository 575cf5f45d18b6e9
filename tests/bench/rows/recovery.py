"""From the start of a server that was killed until it answers."""

import time
from dataclasses import dataclass
from pathlib import Path

from bench.contenders import ALL, OURS, load, running
from bench.processes import forget_cached
from bench.rows import Run
from bench.systems.windsprite import Windsprite
from bench.workload import Workload

_PARTITIONS = 100
_BATCH = 100
_SIZE = 10_240
_EMPTY = "an empty data directory"


@dataclass(frozen=True, slots=True)
class Recovery:
    """Starts after kill -9, on logs that grow, with their files in the page cache and not.

    Attributes:
        name: As `--only` calls it.
        sizes_mb: Of all partitions together, growing.
    """

    name: str
    sizes_mb: tuple[int, ...]
    in_default: bool = True

    @property
    def title(self) -> str:
        return f"start after kill -9, {_PARTITIONS} partitions"

    def measure(self, run: Run, folder: Path) -> None:
        with running((ALL[OURS],), folder) as systems:
            system = systems[Windsprite]
            assert isinstance(system, Windsprite)
            written = 0
            self._start(run, system, _EMPTY, is_limit=True)
            for size in self.sizes_mb:
                batches = (size - written) * 1_000_000 // (_BATCH * _SIZE)
                while batches:  # the load generator holds what it sends in memory
                    step = min(batches, 1000)
                    work = Workload(batches=step, batch=_BATCH, size=_SIZE)
                    load(
                        *(ALL[OURS], system, "produce", "recovery", work),
                        depth=4,
                        logs=_PARTITIONS,
                        create=not written,
                    )
                    batches -= step
                    written = written or 1
                written = size
                self._start(run, system, f"{size:,} MB, files in memory")
                self._start(run, system, f"{size:,} MB, files on disk only", is_cold=True)

    def _start(
        self,
        run: Run,
        system: Windsprite,
        contender: str,
        *,
        is_cold: bool = False,
        is_limit: bool = False,
    ) -> None:
        for _ in range(run.repeats_of(3)):
            system.kill()
            if is_cold:
                forget_cached(system.data_directory)
            began = time.perf_counter()
            system.start()
            run.results.add(
                time.perf_counter() - began,
                row=self.name,
                title=self.title,
                contender=contender,
                unit="s",
                is_limit=is_limit,
            )


ROWS = [
    Recovery("recovery", (100, 1000)),
    Recovery("recovery-10-gb", (10_000,), in_default=False),
]
