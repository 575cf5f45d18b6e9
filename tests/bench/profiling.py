"""Where the time of the server goes, by function, while one kind of request is repeated.

Samples come from py-spy, which has to be allowed to look at another process (root, or
`kernel.yama.ptrace_scope` 0). A sample is a moment at which the thread of the event loop was
running; its share of all of them, times the processor time of a request, is the cost of a function.
"""

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.contenders import ALL, OURS, load
from bench.systems.windsprite import Windsprite
from bench.workload import Workload

_RATE = 500
_SHOWN = 25

CASES: dict[str, tuple[str, Workload, int, int]] = {
    "send-1000": ("produce", Workload(300, 1000, 1024), 4, 1000),
    "send-1": ("produce", Workload(40_000, 1, 1024), 1, 1),
    "poll-1000": ("consume", Workload(200, 1000, 1024), 4, 1000),
    "poll-1": ("consume", Workload(40_000, 1, 1024), 1, 1),
    "poll-small-batches-from-disk": ("consume", Workload(100_000, 1, 1024), 4, 1000),
}
"""Action, workload, batches in flight, and how many messages a poll asks for."""


def profile(name: str, folder: Path) -> Iterator[str]:
    """The table of a case, line by line."""
    action, work, depth, polled = CASES[name]
    ours = ALL[OURS]
    settings = {"WINDSPRITE_STORAGE__TAIL_MEMORY": "0"} if name.endswith("from-disk") else {}
    server = Windsprite(folder, settings=settings)
    server.start()
    try:
        load(ours, server, "produce", "warm-up", Workload(2, 1000, 1024))
        if action == "consume":
            load(ours, server, "produce", "profile", work, depth=32)
            work = Workload(work.batches * work.batch // polled, polled, work.size)
        output = folder / "samples.txt"
        spy = subprocess.Popen(
            [
                *(Path(sys.executable).parent / "py-spy", "record", "--native"),
                *("--rate", str(_RATE), "--format", "raw", "--output", output),
                *("--pid", str(server.pid)),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(1)
        found = load(ours, server, action, "profile", work, depth=depth)
        spy.send_signal(signal.SIGINT)
        spy.wait()
    finally:
        server.kill()
    yield from _table(name, output.read_text(encoding="utf-8"), found, work.batches)


def _table(name: str, samples: str, found: dict[str, Any], requests: int) -> Iterator[str]:
    own: Counter[str] = Counter()
    with_callees: Counter[str] = Counter()
    total = 0
    for line in samples.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        if not any("buffer_updated" in frame for frame in frames):
            continue
        total += int(count)
        own[frames[-1]] += int(count)
        for frame in set(frames):
            with_callees[frame] += int(count)
    cost = found["server_seconds"] * 1e6 / requests
    yield f"{name}: {cost:,.1f} us of the server's processors for each request, {total} samples"
    if not total:
        return
    for title, counter in (("in the function itself", own), ("with what it calls", with_callees)):
        yield f"  {title}"
        for frame, count in counter.most_common(_SHOWN):
            yield f"    {count / total * cost:9.2f} us  {count / total:6.1%}  {frame}"
