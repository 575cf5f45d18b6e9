"""How tests are spread over processes, what is shown of a failure, and a table at the end.

The process that starts the others collects no tests, and so loads no other `conftest.py` than this.
"""

import signal
from collections import Counter
from collections.abc import Generator

import pytest
from apache_iggy import IggyClient, IggyConsumer, IggyProducer
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

# --- Processes -----------------------------------------------------------------------------------

_ANSWERS = "tests/system/answers/"  # one account is given of them all, by the process that ran them


class _ByFile(LoadFileScheduling):
    """All tests of a file run in one process, since they may share a server."""

    def _split_scope(self, nodeid: str) -> str:
        return _ANSWERS if nodeid.startswith(_ANSWERS) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _ByFile:
    config.option.loadscopereorder = False  # tests/unit last: what is short evens out the end
    return _ByFile(config, log)


def pytest_sessionstart() -> None:
    """A shell lets what it starts in the background ignore Ctrl-C; programs under test must not."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# --- Failures ------------------------------------------------------------------------------------

_TOLD = 8000
"""Characters of a log."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the servers of a test that failed have logged."""
    report = yield
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    if report.failed and folder is not None:
        for log in sorted(folder.rglob("server.log")):
            text = log.read_text(encoding="utf-8", errors="replace")
            report.sections.append((f"end of {log.relative_to(folder)}", text[-_TOLD:]))
    return report


# --- The table -----------------------------------------------------------------------------------

_METHODS = [
    *(name for name in vars(IggyClient) if not name.startswith("_")),
    *(f"IggyConsumer.{name}" for name in vars(IggyConsumer) if not name.startswith("_")),
    *(f"IggyProducer.{name}" for name in vars(IggyProducer) if not name.startswith("_")),
]
_COVERS = "covers"
_results: dict[str, Counter[str]] = {}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "covers(*methods): what a test of the official client is a case of"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker in item.iter_markers(_COVERS):
            item.user_properties += [(_COVERS, method) for method in marker.args]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when != "call" and report.passed:
        return
    for name, method in report.user_properties:
        if name == _COVERS:
            _results.setdefault(method, Counter())[report.outcome] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _results:
        return
    terminalreporter.section("official client, protocol 0.11: method, cases, result")
    for method, result in sorted(_results.items()):
        told = ", ".join(f"{number} {outcome}" for outcome, number in sorted(result.items()))
        terminalreporter.write_line(f"{method:<36} {result.total():>4}  {told}")
    without = [method for method in _METHODS if method not in _results]
    if without:
        terminalreporter.write_line(f"without a case in this run: {', '.join(without)}")
