"""Where the time of the server goes, by function, while one kind of request is repeated.

Samples come from py-spy, which has to be allowed to look at another process (root, or
`kernel.yama.ptrace_scope` 0). A sample is a moment at which the thread of the event loop was
running; its share of all of them, times the processor time of a request, is the cost of a function.
Functions of C count for the Python function that calls them: `write` of `log/files.py` is `pwrite`.
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
from bench.rows import fill_tail
from bench.systems.windsprite import Windsprite
from bench.workload import Workload

_RATE = 1000
_SHOWN = 20
_CALLED_BY_THE_LOOP = ("buffer_updated", "get_buffer")
_LOOP = "event loop: waiting, receiving, sending"

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
        fill_tail(server)
        if action == "consume":
            load(ours, server, "produce", "profile", work, depth=32)
            work = Workload(work.batches * work.batch // polled, polled, work.size)
        output = folder / "samples.txt"
        spy = subprocess.Popen(
            [
                *(Path(sys.executable).parent / "py-spy", "record", "--nonblocking", "--function"),
                *("--rate", str(_RATE), "--format", "raw", "--output", output),
                *("--pid", str(server.pid)),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(1)
        found = load(ours, server, action, "profile", work, depth=depth, folder=str(folder))
        spy.send_signal(signal.SIGINT)
        spy.wait()
    finally:
        server.kill()
    yield from _table(name, output.read_text(encoding="utf-8"), found, work.batches)


def _table(name: str, samples: str, found: dict[str, Any], requests: int) -> Iterator[str]:
    own: Counter[str] = Counter()
    with_callees: Counter[str] = Counter()
    for line in samples.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        is_ours = [any(name in frame for name in _CALLED_BY_THE_LOOP) for frame in frames]
        start = is_ours.index(True) if any(is_ours) else None
        served = [_LOOP] if start is None else frames[start:]
        own[served[-1]] += int(count)
        for frame in set(served):
            with_callees[frame] += int(count)
    total = own.total()
    cost = found["server_seconds"] * 1e6 / requests
    yield f"{name}: {cost:,.1f} us of the server's processors for each request, {total} samples"
    for title, counter in (("in the function itself", own), ("with what it calls", with_callees)):
        yield f"  {title}"
        for frame, count in counter.most_common(_SHOWN):
            yield f"    {count / total * cost:9.2f} us  {count / total:6.1%}  {frame}"
