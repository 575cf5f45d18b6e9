"""The command line `windsprite`: called in this process, or run as a program of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

import pytest

from windsprite.cli import main


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a command.

    Attributes:
        code: The exit code.
        out: The standard output.
        err: The standard error.
    """

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """The standard output as text."""
        return self.out.decode()

    @property
    def json(self) -> Any:
        """The standard output as one JSON document."""
        return json.loads(self.out)


class CommandLine:
    """Calls commands in this process, for a server.

    Args:
        server: Connection string.
        capture: Catches what is written.
    """

    def __init__(self, server: str, capture: pytest.CaptureFixture[bytes]) -> None:
        self.server = server
        self._capture = capture

    def __call__(self, *arguments: str) -> Result:
        """What comes of a command."""
        self._capture.readouterr()
        code = main(["--server", self.server, *arguments])
        out, err = self._capture.readouterr()
        return Result(code, out, err.decode())

    def ok(self, *arguments: str) -> Result:
        """What comes of a command that works."""
        result = self(*arguments)
        assert result.code == 0, result.err
        return result


def start_program(
    server: str,
    *arguments: str,
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[bytes] = subprocess.PIPE,
) -> subprocess.Popen[bytes]:
    """Start `windsprite` with pipes for its output, unless that goes elsewhere."""
    return subprocess.Popen(
        program(*arguments),
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=os.environ | {"WINDSPRITE_SERVER": server},
    )


def run_program(server: str, *arguments: str, data: bytes = b"") -> Result:
    """Run `windsprite` with this standard input."""
    done = subprocess.run(
        program(*arguments),
        input=data,
        capture_output=True,
        env=os.environ | {"WINDSPRITE_SERVER": server},
        check=False,
        timeout=60,
    )
    return Result(done.returncode, done.stdout, done.stderr.decode())


def program(*arguments: str) -> Sequence[str]:
    """The command line that runs `windsprite` with this interpreter."""
    return [sys.executable, "-m", "windsprite.cli", *arguments]
