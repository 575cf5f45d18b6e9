"""A server for each module of tests of answers, and the account of what they have proven."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from support.exchange import Stage, open_stage

_proven: set[tuple[int, str]] = set()
_is_partial = False


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def empty_stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """A server that holds nothing but its users."""
    async with open_stage(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "answers(code, *texts): the answers to a command that a test proves"
    )
