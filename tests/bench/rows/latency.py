"""Latency from end to end at a fixed offered rate."""

from dataclasses import dataclass
from pathlib import Path

from bench.contenders import IGGY, NATS, REDIS, SDK, load, running
from bench.rows import Run, turned
from bench.workload import Workload

_SIZE = 1024


@dataclass(frozen=True, slots=True)
class Latency:
    """A producer and a consumer on connections of their own, in one process beside the server.

    Attributes:
        name: As `--only` calls it.
        batch: Messages of a batch.
        rate: Batches in a second.
    """

    name: str
    batch: int
    rate: float
    in_default: bool = True

    @property
    def title(self) -> str:
        return (
            f"end to end at {self.rate * self.batch:,.0f} messages/s of 1 KiB, {self.batch} a batch"
        )

    def measure(self, run: Run, folder: Path) -> None:
        contenders = run.taking_part(SDK, IGGY, NATS, REDIS)
        seconds = 2 if run.quick else 4
        work = Workload(batches=int(self.rate * seconds), batch=self.batch, size=_SIZE)
        with running(contenders, folder) as systems:
            for repeat in range(run.repeats_of(1)):
                for contender in turned(contenders, repeat):
                    system = systems[contender.system]
                    place = f"r{repeat}-{contender.client}"
                    found = load(contender, system, "latency", place, work, rate=self.rate)
                    if found["lost"]:
                        run.results.skip(
                            f"{self.name}: {contender.title} could not keep up, "
                            f"{found['lost']:,} messages did not come in time"
                        )
                    for percentile in ("p50", "p99", "p99.9", "max"):
                        run.results.add(
                            found[percentile],
                            row=self.name,
                            title=f"{self.title}: {percentile}",
                            contender=contender.title,
                            durability=system.durability,
                            unit="us",
                        )


ROWS = [
    Latency("latency-single", batch=1, rate=1000),
    Latency("latency-batch", batch=100, rate=200),
]
