"""Progress of long work: a bar on a terminal while it goes on, and a sentence about all of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from windsprite.cli.output import human_size
from windsprite.environment import Environment

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_REFRESHES_PER_SECOND: Final = 5


class Meter:
    """Counts messages, and shows a bar on the standard error while that is a terminal.

    Args:
        verb: What happens to the messages: `sent`, `read`.
        environment: The clock.
        total: How much there is to be done, in whatever unit; None: nobody knows.
        visible: False hides the bar.
        note: What else to show beside the bar.

    Attributes:
        messages: Messages so far.
        payload_bytes: Bytes of their payloads.
    """

    def __init__(
        self,
        verb: str,
        environment: Environment,
        *,
        total: int | None,
        visible: bool = True,
        note: Callable[[], str] | None = None,
    ) -> None:
        self.messages = 0
        self.payload_bytes = 0
        self._verb = verb
        self._environment = environment
        self._total = total
        self._done = 0
        self._visible = visible and sys.stderr.isatty()
        self._note = note
        self._bar: tuple[Progress, TaskID] | None = None
        self._started = environment.monotonic()
        self._ended: float | None = None
        self._next_update = 0.0

    def __enter__(self) -> Self:
        self._started = self._environment.monotonic()
        if self._visible:
            self._bar = _make_bar(self._verb, self._total)
            self._bar[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended = self._environment.monotonic()
        if self._bar is not None:
            self._update(*self._bar)
            self._bar[0].stop()

    @property
    def seconds(self) -> float:
        """How long it took until the end, or has taken so far; never 0."""
        now = self._environment.monotonic() if self._ended is None else self._ended
        return max(now - self._started, 1e-9)

    def count(self, messages: int, payload_bytes: int, done: int) -> None:
        """Take note of some more messages; `done` is in the unit of the total."""
        self.messages += messages
        self.payload_bytes += payload_bytes
        self._done += done
        if self._bar is not None and self._environment.monotonic() >= self._next_update:
            self._next_update = self._environment.monotonic() + 1 / _REFRESHES_PER_SECOND
            self._update(*self._bar)

    def __str__(self) -> str:
        """All of it: `sent 5 messages, 12 B, in 0.1 s (50 messages/s, 120 B/s)`."""
        noun = "message" if self.messages == 1 else "messages"
        return (
            f"{self._verb} {self.messages:,} {noun}, {human_size(self.payload_bytes)}, "
            f"in {self.seconds:.1f} s ({self._rate:,} messages/s, "
            f"{human_size(round(self.payload_bytes / self.seconds))}/s)"
        )

    @property
    def _rate(self) -> int:
        return round(self.messages / self.seconds)

    def _update(self, bar: Progress, task: TaskID) -> None:
        figures = f"{self.messages:,} messages, {self._rate:,}/s"
        if self._note is not None:
            figures += f", {self._note()}"
        bar.update(task, completed=self._done, figures=figures)


def _make_bar(verb: str, total: int | None) -> tuple[Progress, TaskID]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        refresh_per_second=_REFRESHES_PER_SECOND,
        transient=True,
    )
    return bar, bar.add_task(verb, total=total, figures="")
