"""Messages in a second: produced, then consumed from memory, with integrity proven."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.contenders import (
    ALL,
    IGGY,
    IGGY_BACKGROUND,
    IGGY_PAYLOADS,
    IGGY_STREAMS,
    LOOPBACK,
    NATS,
    NATS_ATOMIC,
    OURS,
    REDIS,
    SDK,
    SDK_STREAMS,
    Contender,
    load,
    run_module,
    running,
)
from bench.processes import System
from bench.rows import Run, fill_tail, turned
from bench.systems.windsprite import Windsprite
from bench.workload import Workload

WRITE = "sequential write()"
_READ_BY_OTHERS = {"raw", "sdk-streams", "iggy-streams", "iggy-background"}


@dataclass(frozen=True, slots=True)
class Throughput:
    """Produce and consume one workload.

    Attributes:
        name: As `--only` calls it.
        workload: The messages.
        depth: Batches in flight of each connection, where the client can do that.
        contenders: Who takes part.
        usual_repeats: As the name says.
        fsync: Whether acknowledgements wait for the disk.
        in_default: Whether it runs unless asked for by name.
    """

    name: str
    workload: Workload
    depth: int
    contenders: tuple[str, ...] = (LOOPBACK, OURS, NATS, REDIS)
    usual_repeats: int = 2
    fsync: bool = False
    in_default: bool = True

    @property
    def title(self) -> str:
        work = self.workload
        unit = f"{work.size // 1024} KiB" if work.size >= 1024 else f"{work.size} B"
        connections = "1 connection" if work.connections == 1 else f"{work.connections} connections"
        return f"{work.batch:,} x {unit} a batch, {connections}, {self.depth} in flight each"

    def measure(self, run: Run, folder: Path) -> None:
        contenders = run.taking_part(*self.contenders)
        with running(contenders, folder, fsync=self.fsync) as systems:
            if Windsprite in systems:
                fill_tail(systems[Windsprite])
            repeats = run.repeats_of(self.usual_repeats)
            for repeat in range(repeats):
                for contender in turned(contenders, repeat):
                    self._measure_one(run, contender, systems[contender.system], repeat)
                self._measure_write(run, folder)
            self._prove(run, contenders, systems, f"r{repeats - 1}")

    def _measure_one(self, run: Run, contender: Contender, system: System, repeat: int) -> None:
        place = f"r{repeat}-{contender.client}"
        more = {"depth": self.depth, "fsync": self.fsync, "folder": str(system.folder)}
        for action in ("produce", "consume"):
            os.sync()  # what was written before must not be written back meanwhile
            found = load(contender, system, action, place, self.workload, **more)
            fields = {
                "row": self.name,
                "contender": contender.title,
                "durability": "" if action == "consume" else system.durability,
                "is_limit": contender.is_limit,
            }
            run.results.add(
                self.workload.messages / found["seconds"],
                title=f"{action} {self.title}",
                unit="messages/s",
                message_bytes=self.workload.size,
                **fields,
            )
            batches = self.workload.batches * self.workload.connections
            run.results.add(
                found["server_seconds"] * 1e6 / batches,
                title=f"processor time of the server to {action} a batch of {self.title}",
                unit="us",
                **fields,
            )

    def _measure_write(self, run: Run, folder: Path) -> None:
        work = json.dumps(asdict(self.workload))
        os.sync()
        found = run_module("bench.limits", "write", str(folder), work, str(self.fsync), "False")
        run.results.add(
            self.workload.messages / found["seconds"],
            row=self.name,
            title=f"produce {self.title}",
            contender=WRITE,
            durability="fdatasync each" if self.fsync else "page cache",
            unit="messages/s",
            is_limit=True,
            message_bytes=self.workload.size,
        )

    def _prove(
        self,
        run: Run,
        contenders: list[Contender],
        systems: dict[type[object], System],
        prefix: str,
    ) -> None:
        """All that was sent last is there, now and after a crash of each server."""
        servers = [contender for contender in contenders if not contender.is_limit]
        # Some only count, and a consumer group does not read twice.
        readers = {
            contender: ALL[SDK] if contender.client in _READ_BY_OTHERS else contender
            for contender in servers
        }
        for contender, reader in readers.items():
            if reader is not contender:
                self._read_back(reader, systems[contender.system], f"{prefix}-{contender.client}")
        for kind in {contender.system for contender in servers}:
            systems[kind].kill()
            systems[kind].start()
        for contender, reader in readers.items():
            self._read_back(reader, systems[contender.system], f"{prefix}-{contender.client}")

    def _read_back(self, reader: Contender, system: System, place: str) -> None:
        load(reader, system, "verify", place, self.workload, depth=self.depth)


def _work(batch: int, size: int, connections: int, messages: int) -> Workload:
    batches = max(2, messages // (batch * connections))
    return Workload(batches=batches, batch=batch, size=size, connections=connections)


HEADLINE = Throughput(
    "headline",
    _work(1000, 1024, 1, 100_000),
    4,
    (LOOPBACK, OURS, SDK, IGGY, NATS, NATS_ATOMIC, REDIS),
    usual_repeats=5,
)
SINGLE = Throughput(
    "single",
    _work(1, 1024, 1, 8_000),
    32,
    (LOOPBACK, OURS, SDK, IGGY, NATS, REDIS),
    usual_repeats=3,
)
CLIENTS = [
    Throughput(
        f"clients-{name}",
        _work(1000, size, 1, messages),
        1,
        (SDK, IGGY, IGGY_PAYLOADS, SDK_STREAMS, IGGY_STREAMS, IGGY_BACKGROUND),
        usual_repeats=5,
    )
    for name, size, messages in (("100-b", 100, 50_000), ("1-kib", 1024, 50_000))
]
ROWS = [
    HEADLINE,
    SINGLE,
    *CLIENTS,
    Throughput("batch-100", _work(100, 1024, 1, 50_000), 8),
    Throughput("100-bytes", _work(1000, 100, 1, 100_000), 4),
    Throughput("10-kib", _work(1000, 10_240, 1, 10_000), 2),
    Throughput("8-connections", _work(1000, 1024, 8, 96_000), 1),
    Throughput("64-connections", _work(1000, 1024, 64, 128_000), 1),
    Throughput("single-8", _work(1, 1024, 8, 8_000), 1),
    Throughput("single-64", _work(1, 1024, 64, 9_600), 1),
    Throughput("fsync", _work(1000, 1024, 1, 50_000), 4, fsync=True),
    Throughput("fsync-single-64", _work(1, 1024, 64, 6_400), 1, fsync=True),
]
_named = {(row.workload.batch, row.workload.size, row.workload.connections) for row in ROWS}
ROWS += [
    Throughput(
        f"{batch}x{size}x{connections}",
        _work(batch, size, connections, min(100_000, 100_000_000 // size, batch * 8_000)),
        max(1, {1: 32, 100: 8, 1000: 4}[batch] // connections),
        (LOOPBACK, OURS, REDIS),
        in_default=False,
    )
    for batch in (1, 100, 1000)
    for size in (100, 1024, 10_240)
    for connections in (1, 8, 64)
    if (batch, size, connections) not in _named
]
