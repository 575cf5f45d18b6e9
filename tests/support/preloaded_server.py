"""Servers that start within milliseconds, for tests that start very many of them.

A helper process imports the program once; each server is a fork of it that runs the command line
`windsprite-server run` from its beginning, in a process of its own that can be killed.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.traceable import allow_tracing

_TESTS = Path(__file__).parents[1]


class PreloadedServer:
    """A server that is started again and again on the same data; a context manager.

    Args:
        folder: Data, log and ready file go in here.
        environment: Settings of all starts.

    Attributes:
        data: The data directory.
        ready_file: There while a server can be reached.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.data = folder / "data"
        self.ready_file = folder / "ready.json"
        self._log_file = folder / "server.log"
        settings = {
            "WINDSPRITE_TCP__ADDRESS": "127.0.0.1:0",
            "WINDSPRITE_DATA_DIR": str(self.data),
            "WINDSPRITE_LOG__FORMAT": "json",
        }
        self._environment = settings | dict(environment)
        self._pid: int | None = None
        self._is_held = False

    def __enter__(self) -> "PreloadedServer":
        ours = ("WINDSPRITE_", "IGGY_")
        inherited = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
        with self._log_file.open("ab") as log:
            self._helper = subprocess.Popen(
                [sys.executable, "-m", __name__, "run", "--ready-file", self.ready_file],
                env=inherited | self._environment | {"PYTHONPATH": str(_TESTS)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self._pid is not None:
            self.kill()
        self._helper.communicate()

    def start(self, *, is_held: bool = False) -> None:
        """Begin to start a server; if it is held, it does nothing before `let_go`."""
        self.ready_file.unlink(missing_ok=True)
        with self._log_file.open("ab+") as log:
            log.seek(max(0, log.tell() - 1))
            if log.read() not in {b"", b"\n"}:
                log.write(b"\n")  # the one before died within a line
        self._order(b"hold\n" if is_held else b"\n")
        self._is_held = is_held
        self._pid = int(self._next_line())

    def let_go(self) -> None:
        """Let a server go that was held."""
        self._is_held = False
        self._order(b"go\n")

    @property
    def pid(self) -> int:
        """The process of the server."""
        assert self._pid is not None
        return self._pid

    @property
    def is_over(self) -> bool:
        """Whether the server has ended by itself."""
        return self._pid is None or bool(select.select([self._helper.stdout], [], [], 0)[0])

    def wait_ready(self, seconds: float = 30) -> dict[str, Any]:
        """What the ready file says, once it is there.

        Raises:
            EOFError: The server ended before.
        """
        deadline = time.monotonic() + seconds
        while not self.ready_file.exists():
            assert time.monotonic() < deadline, self.output
            if self.is_over:
                raise EOFError(self.output)
            time.sleep(0.001)
        ready: dict[str, Any] = json.loads(self.ready_file.read_text(encoding="utf-8"))
        return ready

    def kill(self, number: signal.Signals = signal.SIGKILL) -> int:
        """End the server; returns its exit code, negative if a signal ended it."""
        with suppress(ProcessLookupError):  # it may have ended by itself
            os.kill(self.pid, number)
        if self._is_held:
            self.let_go()
        return self.wait_end()

    def wait_end(self) -> int:
        """The exit code of a server that ends by itself, or whose end was asked for."""
        self._pid = None
        return int(self._next_line())

    @property
    def output(self) -> str:
        """All that was logged, in all lives."""
        return self._log_file.read_text(encoding="utf-8")

    @property
    def events(self) -> list[dict[str, Any]]:
        """The log, line by line; a line that a kill cut short is left out."""
        lines = self.output.splitlines(keepends=True)
        return [json.loads(line) for line in lines if line[0] == "{" and line.endswith("}\n")]

    def _order(self, line: bytes) -> None:
        assert self._helper.stdin is not None
        self._helper.stdin.write(line)
        self._helper.stdin.flush()

    def _next_line(self) -> bytes:
        assert self._helper.stdout is not None
        return self._helper.stdout.readline()


def _help() -> None:
    """Start a server for each line that comes in; say its process id and, at its end, its code."""
    import gc

    from windsprite_server import app, cli

    del app  # imported for the servers
    gc.freeze()
    for line in sys.stdin:
        gate, opener = os.pipe()
        pid = os.fork()
        if not pid:
            allow_tracing()
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            os.dup2(0, 1)
            os.read(gate, 1)
            os.close(gate)
            os.close(opener)
            os._exit(cli.main(sys.argv[1:]))
        print(pid, flush=True)
        if line == "hold\n":
            sys.stdin.readline()
        os.write(opener, b"!")
        os.close(gate)
        os.close(opener)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    _help()
