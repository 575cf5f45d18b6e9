"""A scripted cluster, a client, and producers for its topic."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import windsprite
from support.environment import SeededEnvironment
from support.scripted_server import Delay, ScriptedCluster, ScriptedNode
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.messages import Messages
from windsprite_protocol.model.messages import SendMessages
from windsprite_protocol.model.outcomes import NotNow, Refused, Success
from windsprite_protocol.model.topics import (
    Compression,
    GetTopic,
    Partition,
    Topic,
    TopicDetails,
)

NOT_ACCEPTED = NotNow(ErrorCode.TRANSIENT_NOT_ACCEPTED)
NOT_COMMITTED = NotNow(ErrorCode.TRANSIENT_NOT_COMMITTED)
GONE = Refused(ErrorCode.RESOURCE_NOT_FOUND)
DENIED = Refused(ErrorCode.UNAUTHORIZED)
SILENCE = Delay(1e9)
"""What comes behind on the same connection is not answered either."""


def now() -> float:
    return asyncio.get_running_loop().time()


def has_partitions(node: ScriptedNode, count: int) -> None:
    topic = Topic(1, 1, count, 0, Compression.NONE, 0, 0, 0, "t")
    partitions = tuple(Partition(number, 1, 0, 0, 0, 0) for number in range(count))
    node.always(GetTopic, Success(TopicDetails(topic, partitions)))


class Seeded(SeededEnvironment):
    """Tells the time of day without an event loop, too: deliveries may outlive theirs."""

    def wall_clock_us(self) -> int:
        return 1_700_000_000_000_000


class Setting:
    """A cluster of one node, a client, and producers for its topic."""

    def __init__(self, cluster: ScriptedCluster, client: windsprite.Client) -> None:
        self.cluster = cluster
        self.client = client
        (self.node,) = cluster.nodes

    def producer(self, **options: Any) -> windsprite.Producer:
        return self.client.producer("s", "t", **options)

    def script(self, *steps: Any) -> None:
        """What becomes of the next batches."""
        self.node.script(SendMessages, steps)

    @property
    def asked(self) -> list[list[bytes]]:
        """The payloads of all batches that came in, stored or not."""
        sends = [request for request in self.node.requests if isinstance(request, SendMessages)]
        return [[message.payload for message in Messages([bytes(send.batch)])] for send in sends]

    @property
    def partitionings(self) -> list[Any]:
        sends = [request for request in self.node.requests if isinstance(request, SendMessages)]
        return [send.partitioning for send in sends]

    @property
    def stored(self) -> dict[int, list[bytes]]:
        stored: dict[int, list[bytes]] = defaultdict(list)
        for batch in self.cluster.stored:
            stored[batch.partition] += batch.payloads
        return dict(stored)


@asynccontextmanager
async def setting(partitions: int = 1, **options: Any) -> AsyncIterator[Setting]:
    async with await ScriptedCluster().start() as cluster:
        has_partitions(cluster.nodes[0], partitions)
        connecting = windsprite.connect(
            cluster.url(), environment=Seeded(), reestablish_after=0.0, **options
        )
        async with connecting as client:
            yield Setting(cluster, client)


async def errors_of(*deliveries: windsprite.Delivery) -> list[type[BaseException]]:
    results = await asyncio.gather(*deliveries, return_exceptions=True)
    return [type(result) for result in results if isinstance(result, BaseException)]
