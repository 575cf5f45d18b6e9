"""The log of a server: structured lines, for people or for machines.

A logger is built and handed down; nothing is configured globally. `logger.bind(connection=7)` gives
one that adds a field to each of its lines. Bind once per connection, and never log per message.
"""

import logging
import re
from collections import deque
from collections.abc import MutableMapping
from contextlib import suppress
from datetime import UTC, datetime
from threading import Lock
from typing import Any, Final, Literal, TextIO

import structlog
from structlog.typing import FilteringBoundLogger, Processor

from windsprite_server.core.clock import Clock

LogFormat = Literal["console", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]
Logger = FilteringBoundLogger

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_KEPT_OF_A_LINE: Final = 4096


class RecentLog:
    """The newest lines of a log, in memory; may be used from any thread.

    Args:
        size: How many lines are kept, each with up to 4,096 characters.
    """

    def __init__(self, size: int) -> None:
        self._lines: deque[str] = deque(maxlen=size)

    def __call__(self, _logger: object, _method: str, rendered: object) -> str:
        """Note a line; the last of the processors of a logger."""
        line = str(rendered)
        self._lines.append(line[:_KEPT_OF_A_LINE])
        return line

    def lines(self) -> list[str]:
        """The lines, oldest first, without colours."""
        return [_COLOUR.sub("", line) for line in list(self._lines)]


def make_logger(
    *,
    log_format: LogFormat,
    level: LogLevel,
    stream: TextIO,
    clock: Clock,
    recent: RecentLog | None = None,
) -> FilteringBoundLogger:
    """Build a logger that writes one line per event to `stream`.

    Args:
        log_format: `console` for people (in colour on a terminal), `json` for machines.
        level: The lowest level that is written.
        stream: Where lines go; flushed after each. One that takes no more, as on a full disk, loses
            lines, and nobody else notices.
        clock: Gives the time of each line, written in UTC with microseconds.
        recent: Keeps the newest lines as well.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    return _build(log_format, number, stream, clock, recent)


def make_quiet_logger(stream: TextIO, clock: Clock) -> FilteringBoundLogger:
    """Build a logger that writes only what is critical, for programs that embed a server."""
    return _build("console", logging.CRITICAL, stream, clock)


def _build(
    log_format: LogFormat,
    level: int,
    stream: TextIO,
    clock: Clock,
    recent: RecentLog | None = None,
) -> FilteringBoundLogger:
    # Tracebacks are plain text everywhere: those with local variables would print passwords.
    ending: list[Processor]
    if log_format == "json":
        ending = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        ending = [
            structlog.dev.ConsoleRenderer(
                colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
    if recent is not None:
        ending.append(recent)
    logger = structlog.wrap_logger(
        _Output(stream),
        processors=[structlog.processors.add_log_level, _Timestamp(clock), *ending],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        context_class=dict,
    )
    # The lazy proxy costs seven times as much per filtered call as what it stands for.
    bound: FilteringBoundLogger = logger.bind()
    return bound


class _Output:
    """Writes lines to a stream; whoever logs goes on, even when that fails."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = Lock()

    def _write(self, line: str) -> None:
        # The disk may be full, or whoever read the log may be gone.
        with self._lock, suppress(OSError, ValueError):
            self._stream.write(f"{line}\n")
            self._stream.flush()

    debug = info = warning = error = critical = _write


class _Timestamp:
    """Adds the time of the given clock to each line."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __call__(
        self, _logger: object, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        seconds, microseconds = divmod(self._clock.now_us(), 1_000_000)
        moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=microseconds)
        event["timestamp"] = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return event
