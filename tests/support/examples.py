"""Runs the examples of a page as its readers would: in order, in one folder, on a real server.

- A Python program calls `asyncio.run`. Other blocks of Python are parts of such a program: they
  have a `client` and a `producer` and all names of the blocks before. The official client runs in
  this process as well, since it may abort an interpreter that ends soon after a request.
- A block with a `title` is a file; shell runs in the folder of those files, with `windsprite` and
  `python` on its path, and stops at the first command that fails.
- Blocks of `py` are signatures and excerpts, and not run.
- A block of `text` is the output of the block before. `...` stands for anything.
- Comments in the page, invisible to readers: `not run: why`; `endless`, for a block that is stopped
  once it has written as many lines as its output has; `kill the server`, which is started again.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import fnmatch
import inspect
import io
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType
from typing import Any

import windsprite
from support.pages import Block
from support.server_process import RestartableServer

WRITTEN = "127.0.0.1:8090"
"""Where the servers of the pages listen."""

OTHER = "127.0.0.1:9090"
"""Where another one does, if a page needs two."""

NOT_RUN = "not run: "
ENDLESS = "endless"
KILL = "kill the server"
REMARKS = (ENDLESS, KILL)

PYTHON = "python"
SHELL = "sh"
OUTPUT = "text"


def is_not_run(block: Block) -> bool:
    return any(remark.startswith(NOT_RUN) for remark in block.remarks)


def is_program(block: Block) -> bool:
    return block.language == PYTHON and "asyncio.run(" in block.text


class Reader:
    """Somebody who goes through a page and does what it says."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._work = folder / "work"
        self._work.mkdir()
        self._server: RestartableServer | None = None
        self._other: RestartableServer | None = None
        self._names: dict[str, Any] = {"__name__": "__main__"}

    def close(self) -> None:
        for server in (self._server, self._other):
            if server is not None:
                server.end()

    @property
    def address(self) -> str:
        """Where the server of the reader listens."""
        return self._started().address

    def read(self, blocks: Sequence[Block]) -> list[str]:
        """Run the examples; what each of those wrote that were run."""
        outputs: list[str] = []
        for block, following in zip(blocks, [*blocks[1:], None], strict=True):
            if is_not_run(block):
                continue
            if KILL in block.remarks:
                self._started().restart(signal.SIGKILL)
            shown = following if following and following.language == OUTPUT else None
            if block.language == OUTPUT or block.language not in (PYTHON, SHELL):
                continue
            if block.title:
                (self._work / block.title).write_text(self._pointed(block), encoding="utf-8")
                continue
            lines = len(shown.text.splitlines()) if shown else 1
            output = self._run(block, lines if ENDLESS in block.remarks else None)
            outputs.append(output)
            if shown is not None and not is_not_run(shown):
                assert_shown(output, shown)
        return outputs

    def _started(self) -> RestartableServer:
        self._server = self._server or RestartableServer(self._folder / "server")
        return self._server

    def _pointed(self, block: Block) -> str:
        """The code, but for the servers of the test."""
        text = block.text.replace(WRITTEN, self.address)
        if OTHER in text:
            self._other = self._other or RestartableServer(self._folder / "other")
            text = text.replace(OTHER, self._other.address)
        return text

    def _run(self, block: Block, stop_after: int | None) -> str:
        if block.language == SHELL:
            return self._run_shell(block, stop_after)
        if is_program(block):
            self._names = {"__name__": "__main__"}
        written = _Written(stop_after)
        with contextlib.redirect_stdout(written), contextlib.chdir(self._work):
            code = compiled(self._pointed(block), block)
            if is_program(block):
                exec(code, self._names)
            else:
                asyncio.run(self._run_part(code, written))
        return written.getvalue()

    async def _run_part(self, code: CodeType, written: _Written) -> None:
        async with (
            windsprite.connect(f"iggy://iggy:iggy@{self.address}") as client,
            client.producer("orders", "events") as producer,
        ):
            names = {"asyncio": asyncio, "windsprite": windsprite} | self._names
            self._names = names | {"client": client, "producer": producer}
            result = eval(code, self._names)
            if not inspect.iscoroutine(result):
                return
            part = asyncio.ensure_future(result)
            enough = asyncio.ensure_future(written.enough.wait())
            await asyncio.wait((part, enough), return_when=asyncio.FIRST_COMPLETED)
            for task in (part, enough):
                task.cancel()
            await asyncio.wait((part, enough))
            if not part.cancelled():
                part.result()

    def _run_shell(self, block: Block, stop_after: int | None) -> str:
        programs = Path(sys.executable).parent
        process = subprocess.Popen(
            ["bash", "-e", "-u", "-o", "pipefail", "-c", self._pointed_shell(block, programs)],
            cwd=self._work,
            env=os.environ
            | {
                "PATH": f"{programs}:{os.environ['PATH']}",
                "WINDSPRITE_SERVER": f"iggy://iggy:iggy@{self.address}",
                "COLUMNS": "200",
                "PYTHONUNBUFFERED": "1",
                "PYTEST_ADDOPTS": "",
                "PYTHONWARNINGS": "ignore",  # those of other packages are not told in the pages
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
        assert process.stdout is not None
        with process.stdout:
            try:
                if stop_after is None:
                    output = process.stdout.read()
                    assert process.wait() == 0, f"{block.page}:{block.line}: {output}"
                    return output
                return "".join(process.stdout.readline() for _ in range(stop_after))
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
                process.wait()

    def _pointed_shell(self, block: Block, programs: Path) -> str:
        return self._pointed(block).replace(".venv/bin/", f"{programs}/")


class _Written(io.StringIO):
    """What an example prints; tells when it is enough."""

    def __init__(self, stop_after: int | None) -> None:
        super().__init__()
        self.enough = asyncio.Event()
        self._stop_after = stop_after

    def write(self, text: str) -> int:
        count = super().write(text)
        if self._stop_after is not None and self.getvalue().count("\n") >= self._stop_after:
            self.enough.set()
        return count


def compiled(text: str, block: Block) -> CodeType:
    """The code, with the line numbers of the page."""
    source = "\n" * block.line + text
    flags = 0 if is_program(block) else ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code: CodeType = compile(source, block.page, "exec", flags=flags, dont_inherit=True)
    return code


def assert_shown(output: str, shown: Block) -> None:
    """The lines of a page are those of the output, one for one."""
    told = [line.strip() for line in shown.text.splitlines()]
    got = [line.strip() for line in output.splitlines()]
    where = f"{shown.page}:{shown.line}: {output}"
    assert len(told) == len(got), where
    for pattern, line in zip(told, got, strict=True):
        escaped = pattern.replace("[", "[[]").replace("*", "[*]").replace("?", "[?]")
        assert fnmatch.fnmatchcase(line, escaped.replace("...", "*")), where
