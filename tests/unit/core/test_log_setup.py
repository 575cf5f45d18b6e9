import io
import json
from typing import get_args

import pytest

from support.clock import ManualClock
from windsprite_server.core.log_setup import (
    LogFormat,
    Logger,
    LogLevel,
    RecentLog,
    make_logger,
    make_quiet_logger,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


CLOCK = ManualClock(now_us=1_700_000_000_000_042)


def logger_and_output(
    log_format: LogFormat = "json", level: LogLevel = "info"
) -> tuple[Logger, io.StringIO]:
    output = io.StringIO()
    return make_logger(log_format=log_format, level=level, stream=output, clock=CLOCK), output


def test_json_lines_carry_time_level_and_bound_fields() -> None:
    logger, output = logger_and_output()
    logger.bind(connection=7).info("listening", tcp="127.0.0.1:8090")
    assert json.loads(output.getvalue()) == {
        "event": "listening",
        "level": "info",
        "timestamp": "2023-11-14T22:13:20.000042Z",
        "connection": 7,
        "tcp": "127.0.0.1:8090",
    }
    logger.info("next")
    assert "connection" not in output.getvalue().splitlines()[1]


@pytest.mark.parametrize(
    ("level", "written"),
    [("debug", "diwe"), ("info", "iwe"), ("warning", "we"), ("error", "e")],
)
def test_levels(level: LogLevel, written: str) -> None:
    logger, output = logger_and_output(level=level)
    logger.debug("d")
    logger.info("i")
    logger.warning("w")
    logger.error("e")
    assert "".join(json.loads(line)["event"] for line in output.getvalue().splitlines()) == written


class Broken(io.StringIO):
    """A stream that fails at one of its methods."""

    def __init__(self, method: str, error: Exception) -> None:
        super().__init__()
        self._method = method
        self._error = error

    def write(self, text: str) -> int:
        return self._do("write") or super().write(text)

    def flush(self) -> None:
        self._do("flush")

    def _do(self, method: str) -> None:
        if method == self._method:
            raise self._error


@pytest.mark.parametrize("level", get_args(LogLevel))
@pytest.mark.parametrize("method", ["write", "flush"])
@pytest.mark.parametrize("error", [OSError(28, "full"), BrokenPipeError(), ValueError("closed")])
def test_whoever_logs_goes_on_when_nothing_can_be_written(
    level: LogLevel, method: str, error: Exception
) -> None:
    recent = RecentLog(1)
    logger = make_logger(
        log_format="json", level="debug", stream=Broken(method, error), clock=CLOCK, recent=recent
    )
    getattr(logger, level)("listening")
    assert "listening" in recent.lines()[0]
    logger.error("failed", exc_info=error)


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_tracebacks_show_no_local_variables(log_format: LogFormat) -> None:
    logger, output = logger_and_output(log_format)

    def fail(password: str) -> None:
        raise RuntimeError("failed")

    try:
        fail("very " + "secret")
    except RuntimeError:
        logger.exception("handler failed", request=3)
    assert "RuntimeError: failed" in output.getvalue()
    assert "very secret" not in output.getvalue()


def test_console_lines_are_plain_text_when_not_on_a_terminal() -> None:
    logger, output = logger_and_output("console")
    logger.info("listening", tcp="127.0.0.1:8090")
    line = output.getvalue()
    assert "listening" in line
    assert "tcp=127.0.0.1:8090" in line
    assert "\x1b" not in line


def test_a_quiet_logger_writes_only_what_is_critical() -> None:
    output = io.StringIO()
    logger = make_quiet_logger(output, CLOCK)
    logger.error("not this")
    logger.critical("but this")
    assert "not this" not in output.getvalue()
    assert "but this" in output.getvalue()


def test_two_loggers_in_one_process_differ() -> None:
    loud, loud_output = logger_and_output(level="debug")
    calm, calm_output = logger_and_output(level="error")
    loud.debug("heard")
    calm.debug("not heard")
    assert "heard" in loud_output.getvalue()
    assert calm_output.getvalue() == ""


def test_the_newest_lines_are_kept() -> None:
    recent = RecentLog(3)
    output = io.StringIO()
    logger = make_logger(log_format="json", level="info", stream=output, clock=CLOCK, recent=recent)
    logger.debug("not written")
    for number in range(5):
        logger.info("event", number=number)
    assert recent.lines() == output.getvalue().splitlines()[2:]


def test_lines_are_kept_without_colours_and_not_at_any_length() -> None:
    recent = RecentLog(2)
    output = Terminal()
    logger = make_logger(
        log_format="console", level="info", stream=output, clock=CLOCK, recent=recent
    )
    logger.info("short")
    logger.info("x" * 10_000)
    assert "\x1b[" in output.getvalue()
    short, long = recent.lines()
    assert "short" in short
    assert "\x1b" not in short + long
    assert len(long) <= 4096


def test_keeping_no_lines() -> None:
    recent = RecentLog(0)
    logger = make_logger(
        log_format="json", level="info", stream=io.StringIO(), clock=CLOCK, recent=recent
    )
    logger.info("event")
    assert recent.lines() == []
