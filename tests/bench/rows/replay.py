"""Reading a log from its beginning when nothing of it is in memory."""

from dataclasses import dataclass
from pathlib import Path

from bench.contenders import ALL, OURS, SDK, load, run_module, running
from bench.processes import forget_cached
from bench.rows import Run
from bench.systems.windsprite import Windsprite
from bench.workload import Workload

READ = "sequential read, then loopback"
_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Replay:
    """Cold replay of one log; the server starts anew, on files that are only on the disk.

    Attributes:
        name: As `--only` calls it.
        batch: Messages of a stored batch.
        polled: Messages of a poll.
        messages: How many.
    """

    name: str
    batch: int
    polled: int
    messages: int
    in_default: bool = True

    @property
    def title(self) -> str:
        return f"cold replay of batches of {self.batch:,} x 1 KiB, {self.polled:,} a poll"

    def measure(self, run: Run, folder: Path) -> None:
        messages = self.messages // 4 if run.quick else self.messages
        written = Workload(batches=messages // self.batch, batch=self.batch, size=1024)
        polled = Workload(batches=messages // self.polled, batch=self.polled, size=1024)
        ours = ALL[OURS]
        with running((ours,), folder) as systems:
            system = systems[Windsprite]
            assert isinstance(system, Windsprite)
            load(ours, system, "produce", "replay", written, depth=32)
            log = system.data_directory
            for _ in range(run.repeats_of(5)):
                system.kill()
                forget_cached(log)
                limit = run_module("bench.limits", "replay", str(log), str(_CHUNK))
                self._add(run, messages / limit["seconds"], READ, is_limit=True)
                forget_cached(log)
                system.start()
                found = load(ours, system, "consume", "replay", polled, depth=4)
                self._add(run, messages / found["seconds"], OURS)
            load(ALL[SDK], system, "verify", "replay", written)

    def _add(self, run: Run, value: float, contender: str, *, is_limit: bool = False) -> None:
        run.results.add(
            value,
            row=self.name,
            title=self.title,
            contender=contender,
            unit="messages/s",
            is_limit=is_limit,
            message_bytes=1024,
        )


REPLAY = Replay("replay", batch=1000, polled=1000, messages=300_000)
ROWS = [REPLAY, Replay("replay-single", batch=1, polled=1000, messages=40_000)]
