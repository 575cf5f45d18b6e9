"""The real program `windsprite-server` in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class ServerProcess:
    """A started program; its output goes to files, so that it can write as much as it likes."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        environment: Mapping[str, str],
        log_file: Path | None = None,
        through: Sequence[str] = (),
    ) -> None:
        """Start it.

        Args:
            folder: For its log and its ready file.
            options: Those of the command `run`.
            environment: Variables that concern it.
            log_file: Another place for its output.
            through: A program, such as `nohup`, that becomes the one named behind it.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._log_file = log_file or folder / "server.log"
        self._ready_file = folder / "ready.json"
        self._ready_file.unlink(missing_ok=True)
        ours = ("WINDSPRITE_", "IGGY_")
        inherited = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
        with self._log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *through,
                    *(sys.executable, "-m", "windsprite_server", "run"),
                    *("--ready-file", self._ready_file, "--log-format", "json"),
                    *options,
                ],
                env=inherited | dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def output(self) -> str:
        """All that was logged."""
        return self._log_file.read_text(encoding="utf-8")

    @property
    def events(self) -> list[dict[str, Any]]:
        """The log, line by line."""
        lines = self.output.splitlines(keepends=True)
        return [json.loads(line) for line in lines if line[0] == "{" and line[-1] == "\n"]

    def wait_ready(self, seconds: float = 30) -> dict[str, Any]:
        """What the ready file says, once it is there."""
        deadline = time.monotonic() + seconds
        while not self._ready_file.exists():
            assert self._process.poll() is None, f"ended with {self._process.poll()}: {self.output}"
            assert time.monotonic() < deadline, self.output
            time.sleep(0.01)
        ready: dict[str, Any] = json.loads(self._ready_file.read_text(encoding="utf-8"))
        return ready

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait_end(self, seconds: float = 30) -> int:
        """The exit code; negative if a signal ended the process."""
        return self._process.wait(seconds)

    def stop(self) -> int:
        self.send(signal.SIGTERM)
        return self.wait_end()

    def end(self) -> None:
        """Make sure that nothing is left of it."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(30)


class RestartableServer:
    """A server whose processes follow each other at one address, with the same data.

    Attributes:
        process: The newest one; it is running, or the last one that was.
        address: Where all of them listen.
    """

    def __init__(self, folder: Path, *, environment: Mapping[str, str] | None = None) -> None:
        """Start the first one, with its data in `folder/data`."""
        self._folder = folder
        self._environment = {"WINDSPRITE_DATA_DIR": str(folder / "data"), **(environment or {})}
        self.address = "127.0.0.1:0"
        self.process: ServerProcess
        self.start()

    def start(self) -> None:
        environment = self._environment | {"WINDSPRITE_TCP__ADDRESS": self.address}
        self.process = ServerProcess(self._folder, environment=environment)
        self.address = self.process.wait_ready()["tcp"]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the process by a signal, and make sure that it ended as it should."""
        self.process.send(number)
        assert self.process.wait_end() == (0 if number is signal.SIGTERM else -number)

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def restart(self, number: signal.Signals = signal.SIGKILL) -> None:
        self.stop(number)
        self.start()

    def end(self) -> None:
        """Make sure that nothing is left of it."""
        self.process.end()


@contextmanager
def server_process(
    folder: Path,
    *options: str,
    environment: Mapping[str, str] | None = None,
    log_file: Path | None = None,
    through: Sequence[str] = (),
) -> Iterator[ServerProcess]:
    """A server on a free port, with its data in `folder/data` unless an option says otherwise."""
    settings = {
        "WINDSPRITE_TCP__ADDRESS": "127.0.0.1:0",
        "WINDSPRITE_DATA_DIR": str(folder / "data"),
    }
    given = settings | dict(environment or {})
    process = ServerProcess(folder, *options, environment=given, log_file=log_file, through=through)
    try:
        yield process
    finally:
        process.end()
