"""What clients are told of the cluster and its node, and which setting decides it."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest

import windsprite
from support.frames import frame
from support.server_process import server_process
from support.wire_client import WireClient
from windsprite_protocol.model.cluster import ClusterMetadata, GetClusterMetadata, NodeRole

CLUSTER = UUID("0b6f2a4e-5d7c-4c1e-9a3b-6f0e1d2c3b4a")


def host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


@asynccontextmanager
async def asking(
    folder: Path, *, reach: str | None = None, **environment: str
) -> AsyncIterator[tuple[ClusterMetadata, WireClient]]:
    """A server with these settings, what it says of the cluster, and who asked.

    Args:
        folder: Where it has its data.
        reach: The address to ask at, if not the one it listens on.
        environment: Settings, without the prefix.
    """
    settings = {f"WINDSPRITE_{name}": value for name, value in environment.items()}
    settings.setdefault("WINDSPRITE_ROOT__USERNAME", "iggy")
    settings.setdefault("WINDSPRITE_ROOT__PASSWORD", "iggy")
    with server_process(folder, environment=settings) as process:
        ready = await asyncio.to_thread(process.wait_ready)
        host, port = host_and_port(ready["tcp"])
        async with WireClient(reach or host, port) as client:
            await client.login()
            yield await client.call(GetClusterMetadata()), client
        assert process.stop() == 0


async def test_without_settings(tmp_path: Path) -> None:
    async with asking(tmp_path) as (told, client):
        assert told.name == "windsprite"
        assert told.leader_epoch == 1
        assert told.trailer_error is None
        (node,) = told.nodes
        assert told.leader == node
        assert node.role is NodeRole.LEADER
        assert node.name == socket.gethostname()
        assert (node.host, node.tcp_port) == client.sock.getpeername()
        assert (node.quic_port, node.http_port, node.websocket_port) == (0, 0, 0)
        assert node.identity is not None
        assert (node.identity.node_id, node.identity.zone) == (0, "")
        assert node.identity.generation == 1


async def test_every_setting_of_cluster_and_node_is_seen_by_clients(tmp_path: Path) -> None:
    environment = {
        "CLUSTER__NAME": "orders in Zürich",
        "CLUSTER__ID": str(CLUSTER),
        "NODE__NAME": "node-ä",
        "NODE__ID": "4294967295",
        "NODE__ZONE": "rack 7",
        "NODE__ADVERTISED_ADDRESS": "broker.example.com:9123",
    }
    async with asking(tmp_path, **environment) as (told, _):
        assert told.name == "orders in Zürich"
        assert told.cluster_id == CLUSTER
        (node,) = told.nodes
        assert node.name == "node-ä"
        assert node.identity is not None
        assert node.identity.node_id == 4294967295
        assert node.identity.zone == "rack 7"
        assert (node.host, node.tcp_port) == ("broker.example.com", 9123)


async def test_the_cluster_id_is_in_the_header_of_every_reply_too(tmp_path: Path) -> None:
    async with asking(tmp_path, CLUSTER__ID=str(CLUSTER)) as (told, client):
        assert told.cluster_id == CLUSTER
        refused, evicted = frame(code=99), frame(operation=64, session=1)
        for request in (frame(), refused, evicted):
            await client.send(request)
            assert (await client.receive()).header.cluster == CLUSTER.bytes


@pytest.mark.parametrize(
    ("advertised", "expected"),
    [
        ("10.9.8.7", ("10.9.8.7", None)),
        ("10.9.8.7:1234", ("10.9.8.7", 1234)),
        ("broker", ("broker", None)),
        ("2001:db8::7", ("2001:db8::7", None)),
        ("[2001:db8::7]:1234", ("2001:db8::7", 1234)),
    ],
)
async def test_the_advertised_address_with_and_without_a_port(
    tmp_path: Path, advertised: str, expected: tuple[str, int | None]
) -> None:
    async with asking(tmp_path, NODE__ADVERTISED_ADDRESS=advertised) as (told, client):
        host, port = expected
        (node,) = told.nodes
        assert node.host == host, "IPv6 addresses are sent without brackets"
        assert node.tcp_port == (port or client.sock.getpeername()[1])


@pytest.mark.parametrize(
    ("listen", "reach"),
    [
        ("[::1]:0", "::1"),
        ("localhost:0", "127.0.0.1"),
        ("0.0.0.0:0", "127.0.0.1"),
        ("0.0.0.0:0", "127.0.0.2"),
        ("[::]:0", "::1"),
        ("[::]:0", "127.0.0.2"),
    ],
)
async def test_clients_are_told_the_address_at_which_they_reached_the_server(
    tmp_path: Path, listen: str, reach: str
) -> None:
    async with asking(tmp_path, reach=reach, TCP__ADDRESS=listen) as (told, client):
        (node,) = told.nodes
        assert (node.host, node.tcp_port) == (reach, client.sock.getpeername()[1])


async def test_the_client_of_ours_stays_at_each_of_these_addresses(tmp_path: Path) -> None:
    """A leader that seems to be elsewhere would make it connect once more."""
    environment = {
        "WINDSPRITE_TCP__ADDRESS": "[::]:0",
        "WINDSPRITE_ROOT__USERNAME": "iggy",
        "WINDSPRITE_ROOT__PASSWORD": "iggy",
    }
    with server_process(tmp_path, "--log-level", "debug", environment=environment) as process:
        ready = await asyncio.to_thread(process.wait_ready)
        _, port = host_and_port(ready["tcp"])
        addresses = [f"[::1]:{port}", f"127.0.0.1:{port}", f"127.0.0.2:{port}"]
        for address in addresses:
            async with windsprite.connect(f"iggy://iggy:iggy@{address}") as client:
                assert client.server == address
                metadata = await client.get_cluster_metadata()
                assert metadata.leader is not None
        connected = [event for event in process.events if event["event"] == "connected"]
        assert len(connected) == len(addresses)


async def test_generations_grow_by_one_and_instances_differ_with_each_start(
    tmp_path: Path,
) -> None:
    clusters = set()
    identities = []
    for _ in range(3):
        async with asking(tmp_path) as (told, _client):
            clusters.add(told.cluster_id)
            identities.append(told.nodes[0].identity)
    assert len(clusters) == 1
    assert None not in clusters
    seen = [identity for identity in identities if identity is not None]
    assert [identity.generation for identity in seen] == [1, 2, 3]
    assert len({identity.instance_id for identity in seen}) == 3


async def test_two_data_directories_are_two_clusters(tmp_path: Path) -> None:
    async with asking(tmp_path / "one") as (one, _), asking(tmp_path / "two") as (two, _):
        assert one.cluster_id != two.cluster_id
