"""The pytest plugin: a fresh server for each test that asks for one, and clients on it.

pytest loads it wherever the distribution is installed. So it imports neither client nor server
before a test needs them: whoever tests something else does not wait for them, and tools that
measure imports, such as coverage, are there before.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import pytest

from windsprite_testing.connecting import connected

if TYPE_CHECKING:
    import windsprite
    from windsprite.sync import Client as BlockingClient
    from windsprite_server import EmbeddedServer

_OPTION: Final = "--windsprite-setting"
_INI: Final = "windsprite_settings"

_WITH_ANYIO: Final = "_windsprite_client_with_anyio"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Settings of all servers of a run."""
    parser.getgroup("windsprite").addoption(
        _OPTION,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the servers that the fixture windsprite_server starts, such as "
        "limits.max_connections=10; may be given several times",
    )
    parser.addini(
        _INI,
        type="linelist",
        default=[],
        help="settings of the servers that the fixture windsprite_server starts, KEY = VALUE",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Let pytest-asyncio know of our fixture, if it is there."""
    if config.pluginmanager.hasplugin("asyncio"):
        config.pluginmanager.import_plugin("windsprite_testing.with_asyncio")


# --- Fixtures ------------------------------------------------------------------------------------


@pytest.fixture
def windsprite_settings(pytestconfig: pytest.Config) -> Mapping[str, object]:
    """Settings of the server: tables and keys as in its file, or dotted keys.

    Override it in a module or a `conftest.py`; as it is, it holds those of the command line and
    of the ini file.
    """
    lines: list[str] = [*pytestconfig.getini(_INI), *pytestconfig.getoption(_OPTION)]
    settings: dict[str, object] = {}
    for line in lines:
        key, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"{line!r} is not a setting for windsprite: KEY=VALUE")
        settings[key.strip()] = value.strip()
    return settings


@pytest.fixture
def windsprite_server(windsprite_settings: Mapping[str, object]) -> Iterator[EmbeddedServer]:
    """A server of the test's own, on a free port, with nothing in it.

    It has `.connection_string`, `.host`, `.port` and `.data_dir`, a temporary directory that is
    removed afterwards. It runs in a thread of this process.
    """
    try:
        from windsprite.sync.thread import LoopThread  # noqa: PLC0415 - see above
        from windsprite_server import embedded  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise pytest.UsageError(
            f"the fixture windsprite_server needs the package {error.name}: "
            "pip install 'windsprite[server]'"
        ) from error
    settings: dict[str, Any] = dict(windsprite_settings)
    thread = LoopThread("windsprite-server")
    try:
        yield thread.enter(embedded(**settings))
    finally:
        thread.close()


@pytest.fixture
def windsprite_sync_client(windsprite_server: EmbeddedServer) -> Iterator[BlockingClient]:
    """A blocking client, logged in as root."""
    from windsprite.sync import connect  # noqa: PLC0415

    with connect(windsprite_server.connection_string) as client:
        yield client


@pytest.fixture
def windsprite_client(
    windsprite_server: EmbeddedServer,  # noqa: ARG001 - so that pytest tells who needs what
    request: pytest.FixtureRequest,
) -> windsprite.Client:
    """A `windsprite.Client`, logged in as root, on the event loop of the test.

    It needs pytest-asyncio, in whatever mode, or anyio. The loop is found out for each test.
    """
    has_asyncio = request.config.pluginmanager.hasplugin("asyncio")
    if "anyio_backend" in request.fixturenames:
        # In auto mode pytest-asyncio marks and runs all tests that are coroutines, while anyio has
        # their fixtures: on two loops, of which one would wait for the other for ever.
        if has_asyncio and request.node.get_closest_marker("asyncio"):
            raise pytest.UsageError(
                "the test is one of anyio, but pytest-asyncio runs it: "
                "set asyncio_mode to strict, or do without anyio there"
            )
        return _of_anyio(request)
    if not has_asyncio:
        raise pytest.UsageError(
            "the fixture windsprite_client needs pytest-asyncio, or a test that is marked with "
            "anyio; windsprite_sync_client needs neither"
        )
    return _of_asyncio(request)


# --- Event loops ---------------------------------------------------------------------------------


# anyio takes care of any fixture that is a coroutine, if a test is one of its own.
@pytest.fixture(name=_WITH_ANYIO)
async def _with_anyio(windsprite_server: EmbeddedServer) -> AsyncIterator[windsprite.Client]:
    async with connected(windsprite_server) as client:
        yield client


def _of_anyio(request: pytest.FixtureRequest) -> windsprite.Client:
    backend: Any = request.getfixturevalue("anyio_backend")
    if (backend if isinstance(backend, str) else backend[0]) != "asyncio":
        raise pytest.UsageError(
            "the client runs on asyncio only: let the fixture anyio_backend return 'asyncio'"
        )
    client: windsprite.Client = request.getfixturevalue(_WITH_ANYIO)
    return client


def _of_asyncio(request: pytest.FixtureRequest) -> windsprite.Client:
    from windsprite_testing.with_asyncio import NAME  # noqa: PLC0415 - imports pytest-asyncio

    marker = request.node.get_closest_marker("asyncio")
    scope = marker.kwargs.get("loop_scope") if marker else None
    scope = scope or request.config.getini("asyncio_default_test_loop_scope") or "function"
    client: windsprite.Client = request.getfixturevalue(NAME.format(scope))
    return client
