"""`make bench`: a real server and a real client on this machine, and a table at the end.

Each scenario runs for a fixed time after a short warm-up. Client and server share the processors,
as they do on a developer's machine, so the figures compare versions of Windsprite with each other
rather than Windsprite with anything else.
"""

import argparse
import asyncio
import platform
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import windsprite
from support.server_process import server_process

PAYLOAD = bytes(1024)
BATCH = 1000
STREAM = "bench"

Step = Callable[[], Awaitable[int]]
"""One request; returns how many messages it carried."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is measured, and the durability of the topic it is measured on."""

    title: str
    durability: str
    make: Callable[[windsprite.Client, str], Awaitable[Step]]


@dataclass(frozen=True, slots=True)
class Figures:
    """What came of one scenario; latencies are those of whole requests, in seconds."""

    title: str
    seconds: float
    messages: int
    latencies: list[float]

    def percentile(self, share: float) -> float:
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def row(self) -> tuple[str, ...]:
        megabytes = self.messages * len(PAYLOAD) / self.seconds / 1e6
        return (
            self.title,
            f"{len(self.latencies) / self.seconds:,.0f}",
            f"{self.messages / self.seconds:,.0f}",
            f"{megabytes:,.1f}",
            f"{self.percentile(0.5) * 1e6:,.0f}",
            f"{self.percentile(0.99) * 1e6:,.0f}",
            f"{max(self.latencies) * 1e6:,.0f}",
        )


async def ping(client: windsprite.Client, _topic: str) -> Step:
    async def step() -> int:
        await client.ping()
        return 0

    return step


async def send_one(client: windsprite.Client, topic: str) -> Step:
    async def step() -> int:
        await client.send(STREAM, topic, [PAYLOAD], partition=0)
        return 1

    return step


async def send_batch(client: windsprite.Client, topic: str) -> Step:
    messages = [PAYLOAD] * BATCH

    async def step() -> int:
        await client.send(STREAM, topic, messages, partition=0)
        return BATCH

    return step


async def poll_batch(client: windsprite.Client, topic: str) -> Step:
    fill = await send_batch(client, topic)
    for _ in range(100):
        await fill()
    offset = 0

    async def step() -> int:
        nonlocal offset
        start = windsprite.From.offset(offset)
        batch = await client.poll(STREAM, topic, partition=0, start=start, count=BATCH)
        offset = (offset + BATCH) % (100 * BATCH)
        return len(batch)

    return step


SCENARIOS = (
    Scenario("ping", "replicated", ping),
    Scenario("send 1 x 1 KiB", "replicated", send_one),
    Scenario("send 1 x 1 KiB, fsync", "persisted", send_one),
    Scenario(f"send {BATCH} x 1 KiB", "replicated", send_batch),
    Scenario(f"send {BATCH} x 1 KiB, fsync", "persisted", send_batch),
    Scenario(f"poll {BATCH} x 1 KiB", "replicated", poll_batch),
)


async def measure(client: windsprite.Client, scenario: Scenario, seconds: float) -> Figures:
    topic = scenario.title
    await client.create_topic(
        STREAM,
        topic,
        durability="persisted" if scenario.durability == "persisted" else "replicated",
    )
    step = await scenario.make(client, topic)
    warm = time.perf_counter() + seconds / 5
    while time.perf_counter() < warm:
        await step()
    messages = 0
    latencies = []
    began = now = time.perf_counter()
    while now - began < seconds:
        messages += await step()
        latencies.append(time.perf_counter() - now)
        now = time.perf_counter()
    await client.purge_topic(STREAM, topic)
    return Figures(scenario.title, now - began, messages, latencies)


async def measure_all(address: str, seconds: float) -> list[Figures]:
    async with windsprite.connect(f"iggy://iggy:iggy@{address}") as client:
        await client.create_stream(STREAM)
        return [await measure(client, scenario, seconds) for scenario in SCENARIOS]


def print_table(figures: list[Figures]) -> None:
    head = ("scenario", "requests/s", "messages/s", "MB/s", "p50 us", "p99 us", "max us")
    rows = [head, *(entry.row() for entry in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]
        print("  ".join(cells))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a real server on this machine.")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each scenario")
    parser.add_argument("--folder", type=Path, help="where data goes; by default a temporary one")
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {platform.machine()}, one client, one connection")
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as folder,
        server_process(Path(folder)) as server,
    ):
        address = server.wait_ready()["tcp"]
        print_table(asyncio.run(measure_all(address, options.seconds)))


if __name__ == "__main__":
    main()
