"""Fixtures for pytest-asyncio: a client on the loop of the test, of whatever scope that is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import pytest_asyncio

from windsprite_testing.connecting import connected

if TYPE_CHECKING:
    import windsprite
    from windsprite_server import EmbeddedServer

LoopScope: TypeAlias = Literal["function", "class", "module", "package", "session"]

NAME: Final = "_windsprite_client_on_loop_of_{}"


def _fixture(scope: LoopScope) -> Any:  # noqa: ANN401 - what pytest-asyncio makes of a function
    @pytest_asyncio.fixture(loop_scope=scope, name=NAME.format(scope))
    async def client(windsprite_server: EmbeddedServer) -> AsyncIterator[windsprite.Client]:
        async with connected(windsprite_server) as client:
            yield client

    return client


of_function = _fixture("function")
of_class = _fixture("class")
of_module = _fixture("module")
of_package = _fixture("package")
of_session = _fixture("session")
