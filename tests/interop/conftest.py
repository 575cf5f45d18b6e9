"""A real server for the official client."""

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from apache_iggy import IggyClient

from support.official_client import logged_in
from support.server_process import server_process
from support.wire_client import WireClient, wire_client

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the server listens that all tests share: each one makes its own streams."""
    with server_process(tmp_path_factory.mktemp("interop")) as server:
        yield server.wait_ready()["tcp"]
        assert server.stop() == 0
        assert [event for event in server.events if event["level"] in ("error", "critical")] == []


@pytest.fixture(scope="session")
def small_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a server listens that keeps no messages in memory, and few offsets."""
    settings = {
        "WINDSPRITE_STORAGE__TAIL_MEMORY": "0",
        "WINDSPRITE_STORAGE__INDEX_INTERVAL": "4 KiB",
        "WINDSPRITE_LIMITS__MAX_CONSUMER_OFFSETS": "5",
    }
    with server_process(tmp_path_factory.mktemp("small"), environment=settings) as server:
        yield server.wait_ready()["tcp"]
        assert server.stop() == 0


@pytest.fixture
def fresh_address(tmp_path: Path) -> Iterator[str]:
    """Where a server listens that nobody has used."""
    with server_process(tmp_path) as server:
        yield server.wait_ready()["tcp"]
        assert server.stop() == 0


@pytest.fixture(scope="session")
def clients() -> dict[str, IggyClient]:
    """Clients that are logged in as root, one for each server: logins take longer than tests."""
    return {}


@pytest.fixture
async def client(address: str, clients: dict[str, IggyClient]) -> IggyClient:
    """The official client, logged in as root; not to be logged out, others use it too."""
    if address not in clients:
        clients[address] = await logged_in(address)
    return clients[address]


@pytest.fixture
async def wire(address: str) -> AsyncIterator[WireClient]:
    """A connection that shows every byte, logged in as root."""
    async with wire_client(address) as client:
        await client.login()
        yield client


@pytest.fixture
async def stream(client: IggyClient) -> str:
    """The name of a new stream."""
    name = f"stream-{next(_numbers)}"
    await client.create_stream(name)
    return name


@pytest.fixture
async def topic(client: IggyClient, stream: str) -> str:
    """The name of a topic with three partitions in the new stream."""
    await client.create_topic(stream, "events", 3)
    return "events"
