"""A client that is given the address of a balancer, behind which every connection is a surprise.

Time is virtual: every wait happens, at its time and in its order, but nobody sits through it.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from random import Random

import pytest

import windsprite
from support.environment import SeededEnvironment
from support.scripted_server import ScriptedCluster
from support.virtual_time import in_virtual_time
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.cluster import ClusterMetadata
from windsprite_protocol.model.outcomes import NotNow
from windsprite_protocol.model.streams import CreateStream

NODES = 3


@dataclass
class Balancer:
    """Forwards each connection to one of the nodes.

    Attributes:
        url: Where clients connect.
        chosen: The nodes that were chosen, one for each connection.
    """

    url: str
    chosen: list[int]


@contextlib.asynccontextmanager
async def balancer(cluster: ScriptedCluster, choose: Callable[[], int]) -> AsyncIterator[Balancer]:
    chosen: list[int] = []
    forwarding: set[asyncio.Task[None]] = set()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        chosen.append(choose())
        node = cluster.nodes[chosen[-1]]
        back, out = await asyncio.open_connection("127.0.0.1", node.port)
        forwarding.update(map(asyncio.ensure_future, (forward(reader, out), forward(back, writer))))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield Balancer(f"iggy://iggy:iggy@127.0.0.1:{port}", chosen)
    finally:
        server.close()
        for task in forwarding:
            task.cancel()
        await asyncio.gather(*forwarding, return_exceptions=True)


def connect(url: str) -> windsprite.Connecting:
    return windsprite.connect(url, environment=SeededEnvironment(0), reestablish_after=0.0)


@pytest.mark.parametrize("first", range(NODES))
@in_virtual_time
async def test_bug_30_behind_a_balancer_the_leader_is_found_at_its_own_address(first: int) -> None:
    async with (
        await ScriptedCluster().start(NODES) as cluster,
        balancer(cluster, lambda: first) as front,
        connect(front.url) as client,
    ):
        await client.create_stream("orders")
        assert front.chosen == [first]
        # The balancer's address is nobody's: even the leader is left for the leader.
        assert sum(len(node.connects) for node in cluster.nodes) <= 2
        assert cluster.nodes[0].count(CreateStream) == 1
        assert client.server == f"127.0.0.1:{cluster.nodes[0].port}"


@pytest.mark.parametrize("first", range(1, NODES))
@in_virtual_time
async def test_bug_30_a_leader_that_only_the_balancer_reaches(
    first: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with await ScriptedCluster().start(NODES) as cluster:

        def advertised() -> ClusterMetadata:
            nodes = tuple(replace(node, tcp_port=1) for node in cluster.metadata().nodes)
            return replace(cluster.metadata(), nodes=nodes)

        for node in cluster.nodes:
            node.tell_metadata = advertised
        for node in cluster.nodes[1:]:
            node.always(CreateStream, NotNow(ErrorCode.TRANSIENT_NOT_ACCEPTED))
        dice = Random(first)
        async with (
            balancer(cluster, lambda: dice.randrange(1, NODES)) as front,
            connect(front.url) as client,
        ):
            with (
                caplog.at_level(logging.WARNING, "windsprite"),
                pytest.raises(windsprite.Unavailable) as raised,
            ):
                await client.create_stream("orders", timeout=30)
            assert raised.value.code is ErrorCode.TRANSIENT_NOT_ACCEPTED
            assert "the leader cannot be used: cannot connect to 127.0.0.1:1" in caplog.text
            # It stays where it is and asks for the leader every few seconds; it does not flood.
            assert len(front.chosen) == 1
            assert await client.get_streams() == ()
