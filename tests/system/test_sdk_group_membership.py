"""Memberships of consumer groups against a scripted server, in virtual time."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

import windsprite
from support.environment import SeededEnvironment
from support.scripted_group import ScriptedGroup
from support.scripted_server import Cut, Delay, ScriptedCluster, ScriptedNode, Silence
from support.virtual_time import in_virtual_time
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.groups import (
    DeleteConsumerGroup,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    SyncConsumerGroup,
)
from windsprite_protocol.model.messages import PollMessages
from windsprite_protocol.model.outcomes import NotNow, Refused, Rejected, Success
from windsprite_protocol.model.sessions import EvictionReason

WHERE = ("orders", "events")
GROUP = (*WHERE, "billing")


@dataclass
class Setting:
    """A client, the node it is connected to, and the group there."""

    client: windsprite.Client
    node: ScriptedNode
    group: ScriptedGroup

    async def poll(self, partition: int | None = None) -> int:
        """Poll for the group; returns the partition."""
        batch = await self.client.poll(*WHERE, group="billing", partition=partition)
        return batch.partition


@asynccontextmanager
async def setting(*partitions: int, joined: bool = True) -> AsyncIterator[Setting]:
    async with await ScriptedCluster().start() as cluster:
        group = ScriptedGroup(cluster, *partitions)
        connecting = windsprite.connect(
            cluster.url(), environment=SeededEnvironment(), reestablish_after=0.0
        )
        async with connecting as client:
            if joined:
                await client.join_consumer_group(*GROUP)
            yield Setting(client, cluster.nodes[0], group)


# --- Polling ---------------------------------------------------------------------------------


@in_virtual_time
async def test_a_member_polls_its_partitions_by_turns_and_asks_for_them_once() -> None:
    async with setting(0, 2, 5) as s:
        assert [await s.poll() for _ in range(5)] == [0, 2, 5, 0, 2]
        assert s.node.count(SyncConsumerGroup) == 1


@in_virtual_time
async def test_a_partition_that_was_taken_away_is_noticed_at_once() -> None:
    async with setting(0, 1) as s:
        assert await s.poll() == 0
        s.group.assign(0)
        assert await s.poll() == 0
        assert s.group.polled == [0, None, 0]
        assert s.node.count(SyncConsumerGroup) == 2


@in_virtual_time
async def test_another_partition_is_noticed_after_a_while() -> None:
    async with setting(0) as s:
        await s.poll()
        s.group.assign(0, 1)
        await asyncio.sleep(4.9)
        assert [await s.poll() for _ in range(3)] == [0, 0, 0]
        await asyncio.sleep(0.2)
        assert [await s.poll() for _ in range(3)] == [0, 1, 0]
        assert s.node.count(SyncConsumerGroup) == 2


@in_virtual_time
async def test_a_member_without_partitions_gets_nothing_and_asks_every_time() -> None:
    async with setting() as s:
        assert [await s.poll() for _ in range(3)] == [-1, -1, -1]
        assert (s.node.count(SyncConsumerGroup), s.group.polled) == (3, [])
        s.group.assign(4)
        assert await s.poll() == 4


@in_virtual_time
async def test_a_poll_that_is_turned_away_twice_gives_nothing() -> None:
    async with setting(0, 1) as s:
        s.node.script(PollMessages, [Refused(ErrorCode.CONSUMER_GROUP_PARTITION_NOT_OWNED)] * 2)
        assert await s.poll() == -1
        assert s.group.polled == []
        assert await s.poll() == 0


@in_virtual_time
async def test_a_poll_of_a_partition_of_ones_own_asks_nobody() -> None:
    async with setting(3, 4) as s:
        assert await s.poll(partition=4) == 4
        assert s.node.count(SyncConsumerGroup) == 0
        batch = await s.client.poll(
            *WHERE,
            partition=3,
            consumer=windsprite.Consumer(windsprite.ConsumerKind.GROUP, "billing"),
        )
        assert batch.partition == 3


@in_virtual_time
async def test_a_partition_of_somebody_else_is_an_error() -> None:
    async with setting(3) as s:
        with pytest.raises(windsprite.PartitionNotOwned, match="partition 4") as failure:
            await s.poll(partition=4)
        assert failure.value.code is ErrorCode.CONSUMER_GROUP_PARTITION_NOT_OWNED


@in_virtual_time
async def test_who_is_no_member_is_told_so() -> None:
    async with setting(0, joined=False) as s:
        for partition in (None, 0):
            with pytest.raises(windsprite.NotFound, match="no member of the group") as failure:
                await s.poll(partition)
            assert failure.value.code is ErrorCode.CONSUMER_GROUP_MEMBER_NOT_FOUND
            assert "join_consumer_group" in failure.value.hint
        assert s.node.count(JoinConsumerGroup) == 0
        assert await s.client.sync_consumer_group(*GROUP) is None


@in_virtual_time
async def test_all_requests_of_a_poll_share_its_time() -> None:
    async with setting(0) as s:
        s.node.always(SyncConsumerGroup, Delay(3, s.node._rules[SyncConsumerGroup]))
        s.node.always(PollMessages, Delay(3, s.node._rules[PollMessages]))
        began = asyncio.get_running_loop().time()
        with pytest.raises(windsprite.RequestTimedOut):
            await s.client.poll(*WHERE, group="billing", timeout=5)
        assert asyncio.get_running_loop().time() - began == pytest.approx(5, abs=0.1)


# --- Joining and leaving ---------------------------------------------------------------------


@in_virtual_time
async def test_leaving_ends_it() -> None:
    async with setting(0) as s:
        await s.client.leave_consumer_group(*GROUP)
        with pytest.raises(windsprite.NotFound, match="no member"):
            await s.poll()
        with pytest.raises(windsprite.NotFound) as failure:
            await s.client.leave_consumer_group(*GROUP)
        assert failure.value.code is ErrorCode.CONSUMER_GROUP_MEMBER_NOT_FOUND
        assert s.node.count(JoinConsumerGroup) == 1


@in_virtual_time
async def test_leaving_what_was_lost_already_is_no_error() -> None:
    async with setting(0) as s:
        s.group.expel()
        await s.client.leave_consumer_group(*GROUP)


@pytest.mark.parametrize("executed", [True, False])
@in_virtual_time
async def test_a_connection_that_breaks_while_leaving_ends_it_too(executed: bool) -> None:
    async with setting(0) as s:
        s.node.script(LeaveConsumerGroup, [Cut(executed=executed)])
        await s.client.leave_consumer_group(*GROUP)
        assert s.node.count(JoinConsumerGroup) == 1
        assert not s.group.has_member


@in_virtual_time
async def test_a_connection_that_breaks_while_joining_is_no_doubt() -> None:
    async with setting(0, joined=False) as s:
        s.node.script(JoinConsumerGroup, [Cut(executed=True)])
        await s.client.join_consumer_group(*GROUP)
        assert s.group.has_member


@in_virtual_time
async def test_what_could_not_be_joined_is_not_remembered() -> None:
    async with setting(0, joined=False) as s:
        s.node.script(JoinConsumerGroup, [Rejected(ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND)])
        with pytest.raises(windsprite.NotFound):
            await s.client.join_consumer_group(*GROUP)
        await lose(s)
        assert s.node.count(JoinConsumerGroup) == 1


@pytest.mark.parametrize("ending", ["logout", "delete"])
@in_virtual_time
async def test_memberships_end_with_the_group_and_with_the_login(ending: str) -> None:
    async with setting(0) as s:
        if ending == "logout":
            await s.client.logout()
            await s.client.login("iggy", "iggy")
        else:
            s.node.always(DeleteConsumerGroup, Success())
            await s.client.delete_consumer_group(*GROUP)
            await lose(s)
        assert s.node.count(JoinConsumerGroup) == 1


# --- Joining again ---------------------------------------------------------------------------


async def lose(s: Setting) -> None:
    """Let the client lose its session and find another one."""
    logins = len(s.node.logins)
    s.node.evict(EvictionReason.STALE_CLIENT)
    await asyncio.sleep(5)
    assert len(s.node.logins) == logins + 1


@in_virtual_time
async def test_a_client_joins_again_before_anybody_asks_for_it() -> None:
    async with setting(0, 1) as s:
        assert await s.poll() == 0
        await lose(s)
        assert s.group.has_member
        assert s.node.count(JoinConsumerGroup) == 2
        await s.poll()
        assert s.node.count(SyncConsumerGroup) == 2
        assert None not in s.group.polled


@in_virtual_time
async def test_a_poll_that_finds_the_connection_broken_is_made_as_a_member() -> None:
    async with setting(0, 1) as s:
        assert await s.poll() == 0
        s.node.script(PollMessages, [Cut()])
        assert await s.poll() in {0, 1}
        assert None not in s.group.polled


@in_virtual_time
async def test_another_login_keeps_memberships() -> None:
    async with setting(0) as s:
        await s.client.login("iggy", "iggy")
        assert s.group.has_member
        assert await s.poll() == 0


@in_virtual_time
async def test_a_move_to_the_leader_keeps_memberships() -> None:
    async with await ScriptedCluster().start(2) as cluster:
        group = ScriptedGroup(cluster, 0)
        connecting = windsprite.connect(
            cluster.url(), environment=SeededEnvironment(), reestablish_after=0.0
        )
        async with connecting as client:
            await client.join_consumer_group(*GROUP)
            cluster.elect(1)
            await client.create_stream("s")
            assert cluster.nodes[1].count(JoinConsumerGroup) == 1
            assert (await client.poll(*WHERE, group="billing")).partition == 0
            assert group.polled == [0]


@pytest.mark.parametrize(
    "refusal",
    [
        Rejected(ErrorCode.UNAUTHORIZED),
        Rejected(ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND),
        NotNow(ErrorCode.TRANSIENT_NOT_ACCEPTED),
    ],
)
@in_virtual_time
async def test_a_group_that_cannot_be_joined_now_is_joined_by_a_later_poll(
    refusal: Rejected | NotNow, caplog: pytest.LogCaptureFixture
) -> None:
    async with setting(0) as s:
        s.node.script(JoinConsumerGroup, [refusal])
        with caplog.at_level(logging.WARNING, "windsprite"):
            await lose(s)
        assert "cannot join the group 'billing' again" in caplog.text
        assert not s.group.has_member
        assert await s.client.get_streams() == ()
        assert await s.poll() == 0


@in_virtual_time
async def test_a_refusal_to_join_again_is_told_by_polls() -> None:
    async with setting(0) as s:
        s.node.always(JoinConsumerGroup, Rejected(ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND))
        s.group.expel()
        for partition in (None, 0):
            with pytest.raises(windsprite.NotFound) as failure:
                await s.poll(partition)
            assert failure.value.code is ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("step", [Cut(), Silence()])
@in_virtual_time
async def test_a_connection_that_breaks_while_joining_again_is_replaced(
    step: Cut | Silence,
) -> None:
    async with setting(0) as s:
        s.node.script(JoinConsumerGroup, [step])
        s.node.evict(EvictionReason.STALE_CLIENT)
        await asyncio.sleep(40)
        assert s.group.has_member, "without being asked"
        assert await s.poll() == 0
        assert len(s.node.logins) == 3


@in_virtual_time
async def test_closing_while_joining_again_leaves_nothing_behind() -> None:
    async with setting(0) as s:
        s.node.script(JoinConsumerGroup, [Silence()])
        s.node.evict(EvictionReason.STALE_CLIENT)
        await asyncio.sleep(2)
        assert s.node.count(JoinConsumerGroup) == 2
        await s.client.close()
        await asyncio.sleep(1)
        assert s.node.connections == set()
