"""System calls of a running process that are counted, fail or kill it, by strace from outside."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from support.traceable import PR_SET_PTRACER

_SECONDS = 60
_LINE = re.compile(r"(\d+) +(\w+)\(")


@dataclass(frozen=True)
class Fault:
    """What happens to a process at one of its system calls, which is not carried out.

    Attributes:
        call: The name of the system call.
        number: The how manieth of its name in its thread, from 1 on.
        effect: `SIGKILL`, or the name of an error that it ends with.
        is_lasting: All later calls of its name fail as well.
    """

    call: str
    number: int
    effect: str
    is_lasting: bool = False

    @property
    def _option(self) -> str:
        what = "signal" if self.effect == "SIGKILL" else "error"
        when = f"{self.number}{'+' if self.is_lasting else ''}"
        return f"--inject={self.call}:{what}={self.effect}:when={when}"

    def __str__(self) -> str:
        lasting = " and all later ones" if self.is_lasting else ""
        return f"{self.effect} at {self.call} {self.number}{lasting}"


class Trace:
    """What strace saw; complete once the process has ended."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def counts_by_thread(self) -> Counter[tuple[int, str]]:
        """How often each thread made each system call."""
        found = [match for match in map(_LINE.match, self._lines) if match]
        return Counter((int(match[1]), match[2]) for match in found)

    def counts(self) -> Counter[str]:
        """How often each system call was made by the thread that made it most often."""
        most: Counter[str] = Counter()
        for (_, call), count in self.counts_by_thread().items():
            most[call] = max(most[call], count)
        return most

    @property
    def was_reached(self) -> bool:
        """Whether the fault came about."""
        text = self._file.read_text(encoding="utf-8", errors="replace")
        return "(INJECTED)" in text or "+++ killed by SIGKILL +++" in text

    @property
    def _lines(self) -> list[str]:
        return self._file.read_text(encoding="utf-8", errors="replace").splitlines()


def threads_of(pid: int) -> list[int]:
    """The threads of a process, in the order in which they began."""

    def began(thread: int) -> tuple[int, int]:
        status = Path(f"/proc/{pid}/task/{thread}/stat").read_text(encoding="utf-8")
        return int(status.rpartition(")")[2].split()[19]), thread

    return sorted((int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()), key=began)


def require_strace() -> None:
    """Skip a test where no process can be traced."""
    if reason := _reason_against():
        pytest.skip(reason)


@cache
def _reason_against() -> str | None:
    if sys.platform != "linux" or shutil.which("strace") is None:
        return "strace is not installed"
    waiting = subprocess.Popen([sys.executable, "-c", _WAITING], stdin=-1, stdout=-1)
    try:
        assert waiting.stdout is not None
        waiting.stdout.readline()
        options = ["--follow-forks", "--inject=fsync:error=EIO", "--output=/dev/null"]
        strace, said = _attach(waiting.pid, options)
        waiting.communicate(b"\n", timeout=_SECONDS)
        strace.communicate(timeout=_SECONDS)
        return None if "attached" in said else f"no process can be traced here: {said}"
    finally:
        waiting.kill()
        waiting.wait()


def _attach(pid: int, options: list[str]) -> tuple[subprocess.Popen[str], str]:
    """Start strace; at return it has told whether it traces the process."""
    strace = subprocess.Popen(
        ["strace", *options, f"--attach={pid}"],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert strace.stderr is not None
    return strace, strace.stderr.readline().strip()


_WAITING = f"""
import ctypes
ctypes.CDLL(None).prctl({PR_SET_PTRACER}, -1, 0, 0, 0)
print(flush=True)
input()
"""


@contextmanager
def traced(
    pid: int, calls: Iterable[str], fault: Fault | None, output: Path, *, follow: bool = True
) -> Iterator[Trace]:
    """Trace a process, which waits for something, until it ends; leaving waits for that.

    Args:
        pid: Its first thread, or the one to be traced.
        calls: The system calls that are counted, as far as this machine has them.
        fault: What happens to it.
        output: A file for strace.
        follow: Trace its other threads, and those that it starts, as well.
    """
    options = [
        f"--trace={','.join(f'?{call}' for call in calls)}",
        "--string-limit=0",
        f"--output={output}",
    ]
    options += ["--follow-forks"] * follow
    if fault is not None:
        options.append(fault._option)
    strace, said = _attach(pid, options)
    try:
        assert "attached" in said, said
        yield Trace(output)
        strace.communicate(timeout=_SECONDS)
    finally:
        strace.kill()
        strace.communicate()
