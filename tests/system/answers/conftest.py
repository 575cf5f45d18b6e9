"""A server for each module of tests of answers, and the account of what they have proven."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from support.exchange import ANSWERS, Stage, open_stage

HERE = Path(__file__).parent
ACCOUNT = "test_answers_account.py"

_proven: set[tuple[int, str]] = set()
_deselected: list[pytest.Item] = []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def empty_stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """A server that holds nothing but its users."""
    async with open_stage(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


@pytest.fixture
def proven(request: pytest.FixtureRequest) -> set[tuple[int, str]]:
    """The answers that tests have proven; only a run of all of them can give an account."""
    if not _is_whole(request.session.items):
        pytest.skip("not all tests of answers were run")
    return _proven


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "answers(code, *texts): the answers to a command that a test proves"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker in item.iter_markers(ANSWERS):
            code, *texts = marker.args
            item.user_properties += [(ANSWERS, (code, text)) for text in texts]
    items.sort(key=lambda item: item.path == HERE / ACCOUNT)  # comes last


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    _deselected.extend(item for item in items if item.path.parent == HERE)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and report.passed:
        _proven.update(pair for name, pair in report.user_properties if name == ANSWERS)


def _is_whole(items: Sequence[pytest.Item]) -> bool:
    """Whether all tests of all files of this folder were collected, and none was left out."""
    ours = [item for item in items if item.path.parent == HERE]
    if {item.path for item in ours} != set(HERE.glob("test_*.py")) or _deselected:
        return False
    collected = {(item.path, getattr(item, "originalname", "")) for item in ours}
    modules = {item.path: item.getparent(pytest.Module) for item in ours}
    return all(
        (path, name) in collected
        for path, module in modules.items()
        if module is not None
        for name in vars(module.obj)
        if name.startswith("test_")
    )
