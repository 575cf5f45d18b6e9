"""What a message costs as the number of logs, of connections, and the size of the log grow.

The cost is processor time of the server, which other work on the machine disturbs least, and the
time that passes.
"""

from dataclasses import dataclass
from pathlib import Path

from bench.contenders import ALL, OURS, load, running
from bench.processes import System
from bench.rows import Run, fill_tail
from bench.systems.windsprite import Windsprite
from bench.workload import Workload

_SIZE = 1024
_LOGS = 1000
ONE, MANY = "1 partition", f"{_LOGS:,} partitions"


@dataclass(frozen=True, slots=True)
class Scaling:
    """Batches of one and of a hundred messages, in each of the situations that are compared."""

    name: str = "scaling"
    title: str = "cost of a message by partitions, connections and size of the log"
    in_default: bool = True

    def measure(self, run: Run, folder: Path) -> None:
        with running((ALL[OURS],), folder) as systems:
            system = systems[Windsprite]
            fill_tail(system)
            for batch, batches in ((1, 8000), (100, 2000)):
                work = Workload(batches=batches, batch=batch, size=_SIZE)
                self._partitions(run, system, work)
                self._connections(run, system, work)
            self._size(run, system)

    def _partitions(self, run: Run, system: System, work: Workload) -> None:
        title = f"cost of a message, batches of {work.batch}, by partitions"
        places = {ONE: f"one-{work.batch}", MANY: f"many-{work.batch}"}
        logs = {ONE: 1, MANY: _LOGS}
        for name, place in places.items():  # files are made with the first batch of each
            first = Workload(batches=_LOGS, batch=1, size=_SIZE)
            load(ALL[OURS], system, "produce", place, first, depth=8, logs=logs[name])
        for _ in range(run.repeats_of(5)):
            for name, place in places.items():
                self._cost(run, system, title, name, place, work, logs=logs[name], create=False)

    def _connections(self, run: Run, system: System, work: Workload) -> None:
        title = f"cost of a message, batches of {work.batch}, by connections"
        for repeat in range(run.repeats_of(3)):
            for connections in (1, 64):
                spread = Workload(work.batches // connections, work.batch, work.size, connections)
                place = f"c{connections}-{work.batch}-{repeat}"
                self._cost(run, system, title, f"{connections} connections", place, spread)

    def _size(self, run: Run, system: System) -> None:
        title = "cost of a message, batches of 100, by size of the log before"
        work = Workload(batches=1000, batch=100, size=_SIZE)
        sizes = 3 if run.quick else 10
        for repeat in range(run.repeats_of(2)):
            for step in range(sizes):
                name = f"{step * work.payload_bytes // 1_000_000:,} MB"
                place = f"size-{repeat}"
                self._cost(run, system, title, name, place, work, logs=1, create=not step)

    def _cost(
        self,
        run: Run,
        system: System,
        title: str,
        name: str,
        place: str,
        work: Workload,
        **more: object,
    ) -> None:
        depth = max(1, 32 // work.connections) if work.batch == 1 else 4
        found = load(ALL[OURS], system, "produce", place, work, depth=depth, **more)
        for kind, seconds in (
            ("processor time of the server", found["server_seconds"]),
            ("time", found["seconds"]),
        ):
            run.results.add(
                seconds * 1e6 / work.messages,
                row=self.name,
                title=f"{title}: {kind}",
                contender=name,
                unit="us",
                durability=system.durability,
            )


ROWS = [Scaling()]
