"""The log of a server: structured lines, for people or for machines.

A logger is built and handed down; nothing is configured globally. `logger.bind(connection=7)` gives
one that adds a field to each of its lines. Bind once per connection, and never log per message.
"""

import logging
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any, Literal, TextIO, get_args

import structlog
from structlog.typing import FilteringBoundLogger, Processor

from windsprite_server.core.clock import Clock

LogFormat = Literal["console", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]
Logger = FilteringBoundLogger

LOG_FORMATS: tuple[LogFormat, ...] = get_args(LogFormat)
LOG_LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)


def make_logger(
    *, log_format: LogFormat, level: LogLevel, stream: TextIO, clock: Clock
) -> FilteringBoundLogger:
    """Build a logger that writes one line per event to `stream`.

    Args:
        log_format: `console` for people (in colour on a terminal), `json` for machines.
        level: The lowest level that is written.
        stream: Where lines go; flushed after each.
        clock: Gives the time of each line, written in UTC with microseconds.
    """
    return _build(log_format, logging.getLevelNamesMapping()[level.upper()], stream, clock)


def make_quiet_logger(stream: TextIO, clock: Clock) -> FilteringBoundLogger:
    """Build a logger that writes only what is critical, for programs that embed a server."""
    return _build("console", logging.CRITICAL, stream, clock)


def _build(log_format: LogFormat, level: int, stream: TextIO, clock: Clock) -> FilteringBoundLogger:
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
    logger = structlog.wrap_logger(
        structlog.PrintLogger(stream),
        processors=[structlog.processors.add_log_level, _Timestamp(clock), *ending],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        context_class=dict,
    )
    # The lazy proxy costs seven times as much per filtered call as what it stands for.
    bound: FilteringBoundLogger = logger.bind()
    return bound


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
