"""How far a check is, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

from windsprite_server.checking.check import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

_STEP: Final = 1 << 22
"""Bytes after which the bar moves on: batches may be tiny, and drawing takes time."""


@contextmanager
def show_progress(stream: TextIO) -> Iterator[Progress]:
    """A progress that is shown on a stream while that is a terminal, and is gone at the end."""
    if not stream.isatty():
        yield Progress()
        return
    from rich.console import Console  # noqa: PLC0415 - most checks have no terminal
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bar  # noqa: PLC0415

    columns = (
        TextColumn("checking"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(file=stream), transient=True) as bar:
        yield _Shown(bar, bar.add_task("", total=None))


class _Shown(Progress):
    def __init__(self, bar: Bar, task: TaskID) -> None:
        self._bar = bar
        self._task = task
        self._read = 0
        self._shown = 0

    def begin(self, size: int) -> None:
        self._bar.update(self._task, total=size)

    def advance(self, size: int) -> None:
        self._read += size
        if self._read - self._shown >= _STEP:
            self._shown = self._read
            self._bar.update(self._task, completed=self._read)
