"""On what machine, with which software and which tree a result came to be."""

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench.systems import nats, redis

ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("windsprite", "uvloop", "xxhash", "apache-iggy", "nats-py", "redis", "hiredis")
_QUIET = 0.5
"""The load average, before anything runs, under which a machine counts as quiet."""


def gather(folder: Path) -> dict[str, Any]:
    """The facts, for the result file.

    Args:
        folder: Where data goes.
    """
    return {
        "command": " ".join(["python", "-m", "bench", *sys.argv[1:]]),
        "commit": _output("git", "-C", str(ROOT), "rev-parse", "HEAD"),
        "changed_files": _output("git", "-C", str(ROOT), "status", "--short").splitlines(),
        "processor": _processor(),
        "processors": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "file_system": _output("stat", "-f", "-c", "%T", str(folder)),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "nats_server": _output(nats.executable() or "nats-server", "--version"),
        "redis_server": _output(redis.executable() or "redis-server", "--version"),
        "load_before": os.getloadavg()[0],
    }


def told(facts: dict[str, Any]) -> list[str]:
    """What the reader of the table has to know, in a few lines."""
    processors = f"{facts['processors']} x {facts['processor']}"
    memory = f"{facts['memory_bytes'] / 2**30:.0f} GiB"
    uvloop = f"uvloop {facts['packages']['uvloop']}"
    commit = f"commit {facts['commit'][:12]}{' and changes' if facts['changed_files'] else ''}"
    lines = [
        f"{processors}, {memory}, Linux {facts['kernel']}, {facts['file_system']}",
        f"Python {facts['python']}, {uvloop}, {commit}",
        "Servers and load generators share these processors and are not pinned to them.",
    ]
    if facts["load_before"] > _QUIET:
        lines.append(
            f"The machine was NOT quiet: load average {facts['load_before']:.1f} before the start."
        )
    return lines


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
