"""Memberships that end while a consumer begins, against a scripted server, in virtual time."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

import windsprite
from support.environment import SeededEnvironment
from support.scripted_partition import ScriptedPartition
from support.scripted_server import Cut, Delay, ScriptedCluster, Step
from support.virtual_time import in_virtual_time
from windsprite_protocol.model.groups import JoinConsumerGroup, SyncConsumerGroup
from windsprite_protocol.model.outcomes import Success

WHERE = ("orders", "events")
ENDS: dict[str, tuple[type[Any], list[Step]]] = {
    "at once": (JoinConsumerGroup, [Success()]),
    "twice": (JoinConsumerGroup, [Success(), Success()]),
    "with the session": (SyncConsumerGroup, [Cut()]),
    "with the session, which is not joined again": (SyncConsumerGroup, [Cut(), Success()]),
    "seventy times": (JoinConsumerGroup, [Success()] * 70),
}


@pytest.mark.parametrize("end", ENDS)
@in_virtual_time
async def test_a_membership_that_ends_before_it_is_looked_at_begins_again(end: str) -> None:
    async with await ScriptedCluster().start() as cluster:
        ScriptedPartition(cluster, 3)
        kind, steps = ENDS[end]
        cluster.nodes[0].script(kind, steps)
        connecting = windsprite.connect(
            cluster.url(), environment=SeededEnvironment(), reestablish_after=0.0
        )
        async with connecting as client, client.consumer(*WHERE, group="g") as consumer:
            assert [(await consumer.get()).offset for _ in range(3)] == [0, 1, 2]


@in_virtual_time
async def test_a_membership_that_never_begins_is_given_up() -> None:
    async with await ScriptedCluster().start() as cluster:
        ScriptedPartition(cluster, 3)
        cluster.nodes[0].always(JoinConsumerGroup, Success())
        connecting = windsprite.connect(cluster.url(), environment=SeededEnvironment())
        async with connecting as client:
            with pytest.raises(windsprite.Unavailable, match="membership"):
                await client.consumer(*WHERE, group="g", patience=20).get()


@in_virtual_time
async def test_who_does_not_join_by_itself_is_told_at_once() -> None:
    async with await ScriptedCluster().start() as cluster:
        ScriptedPartition(cluster, 3)
        connecting = windsprite.connect(cluster.url(), environment=SeededEnvironment())
        async with connecting as client:
            with pytest.raises(windsprite.NotFound, match="no member"):
                await client.consumer(*WHERE, group="g", join=False).get()
            assert cluster.nodes[0].count(SyncConsumerGroup) == 1


@pytest.mark.parametrize("close_timeout", [0.1, 5.0])
@in_virtual_time
async def test_who_is_closed_while_it_joins_is_no_member_afterwards(close_timeout: float) -> None:
    async with await ScriptedCluster().start() as cluster:
        partition = ScriptedPartition(cluster, 3)
        cluster.nodes[0].script(JoinConsumerGroup, [Delay(1.0, partition.join)])
        connecting = windsprite.connect(cluster.url(), environment=SeededEnvironment())
        async with connecting as client:
            consumer = client.consumer(*WHERE, group="g")
            starting = asyncio.create_task(consumer.start())
            await asyncio.sleep(0.5)
            with suppress(windsprite.RequestTimedOut):
                await consumer.close(close_timeout)
            with pytest.raises(windsprite.ClientClosed):
                await starting
            assert not partition.has_member


@in_virtual_time
async def test_who_is_cancelled_while_it_joins_is_no_member_afterwards() -> None:
    async with await ScriptedCluster().start() as cluster:
        partition = ScriptedPartition(cluster, 3)
        cluster.nodes[0].script(JoinConsumerGroup, [Delay(1.0, partition.join)])
        connecting = windsprite.connect(cluster.url(), environment=SeededEnvironment())
        async with connecting as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5), client.consumer(*WHERE, group="g"):
                    pass
            await asyncio.sleep(2)
            assert cluster.nodes[0].count(JoinConsumerGroup) == 1
            assert not partition.has_member
