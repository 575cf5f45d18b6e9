"""Offsets that cannot be stored at once, against a scripted server, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

import windsprite
from support.environment import SeededEnvironment
from support.scripted_partition import ScriptedPartition
from support.scripted_server import Cut, Delay, ScriptedCluster, ScriptedNode, Silence, Step
from support.virtual_time import in_virtual_time
from windsprite import Commit
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.offsets import StoreConsumerOffset
from windsprite_protocol.model.outcomes import NotNow, Refused

WHERE = ("orders", "events")
NOT_ACCEPTED = NotNow(ErrorCode.TRANSIENT_NOT_ACCEPTED)
NOT_COMMITTED = NotNow(ErrorCode.TRANSIENT_NOT_COMMITTED)


@dataclass
class Setting:
    """A client, the node it is connected to, and the partition there."""

    client: windsprite.Client
    node: ScriptedNode
    partition: ScriptedPartition

    def consumer(self, commit: Commit, **options: Any) -> windsprite.TopicConsumer:
        options = {"group": "g", "batch_messages": 4, "poll_interval": 0.01} | options
        return self.client.consumer(*WHERE, commit=commit, **options)


@asynccontextmanager
async def setting(length: int = 10) -> AsyncIterator[Setting]:
    async with await ScriptedCluster().start() as cluster:
        partition = ScriptedPartition(cluster, length)
        connecting = windsprite.connect(
            cluster.url(),
            environment=SeededEnvironment(),
            reestablish_after=0.0,
            request_timeout=2.0,
        )
        async with connecting as client:
            yield Setting(client, cluster.nodes[0], partition)


def executed(s: Setting, then: Any) -> Step:
    """Store the offset, but answer something else."""

    def step(request: StoreConsumerOffset) -> Any:
        s.partition.store(request)
        return then

    return step


TROUBLES: dict[str, Callable[[Setting], list[Step]]] = {
    "not accepted for long": lambda _: [NOT_ACCEPTED] * 30,
    "not accepted for very long": lambda _: [NOT_ACCEPTED] * 200,
    "perhaps committed": lambda _: [NOT_COMMITTED],
    "committed for long": lambda s: [executed(s, NOT_COMMITTED)] * 20,
    "perhaps committed for very long": lambda _: [NOT_COMMITTED] * 200,
    "cut before": lambda _: [Cut()],
    "cut before, twice": lambda _: [Cut(), Cut(reset=True)],
    "cut in the answer": lambda s: [executed(s, Cut(after=100))],
    "cut after it was executed": lambda s: [executed(s, Cut())],
    "silent": lambda _: [Silence()],
    "late": lambda s: [Delay(5.0, s.partition.store)],
}


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("every", [1, 3])
@in_virtual_time
async def test_what_is_due_is_stored_before_more_is_handed_out(trouble: str, every: int) -> None:
    async with setting() as s:
        s.node.script(StoreConsumerOffset, TROUBLES[trouble](s))
        commit = Commit.after_handling(every=every, interval=None)
        async with s.consumer(commit) as consumer:
            for offset in range(10):
                message = await consumer.get()
                assert message.offset == offset
                stored = -1 if s.partition.stored is None else s.partition.stored
                assert offset - stored - 1 < every
                consumer.handled(message)
        assert s.partition.stored == 9
        assert s.partition.asked == sorted(s.partition.asked)


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("every", [1, 3])
@in_virtual_time
async def test_what_is_stored_before_it_is_handed_out_is_stored_then(
    trouble: str, every: int
) -> None:
    async with setting() as s:
        s.node.script(StoreConsumerOffset, TROUBLES[trouble](s))
        found = []
        async with s.consumer(Commit.before_handling(every=every)) as consumer:
            while not found or found[-1] < 8:
                message = await consumer.get()
                found.append(message.offset)
                stored = -1 if s.partition.stored is None else s.partition.stored
                assert message.offset - stored < every
        assert found == sorted(set(found))
        # One is missing where it may be that somebody else has stored its offset.
        assert len(found) >= 8
        assert s.partition.asked == sorted(s.partition.asked)


def another_member_goes_on(s: Setting, offset: int) -> Callable[[Any], Any]:
    """A step: the connection is lost, and then somebody else works until we are back."""

    def step(_: StoreConsumerOffset) -> Cut:
        s.partition.stored = offset
        return Cut()

    return step


@pytest.mark.parametrize("until", [0, 1, 5])
@in_virtual_time
async def test_what_another_member_has_handled_meanwhile_is_not_handed_out(until: int) -> None:
    async with setting() as s:
        s.node.script(StoreConsumerOffset, [another_member_goes_on(s, until)])
        async with s.consumer(Commit.before_handling()) as consumer:
            found = [(await consumer.get()).offset for _ in range(9 - until)]
        assert found == list(range(until + 1, 10))
        assert s.partition.asked == found


@in_virtual_time
async def test_what_another_member_has_handled_before_it_left_is_not_handed_out() -> None:
    async with setting() as s, s.consumer(Commit.before_handling()) as consumer:
        found = []
        while not found or found[-1] < 9:
            found.append((await consumer.get()).offset)
            if found[-1] in {0, 4}:
                # The partition goes to another member and comes back, and nobody tells us.
                s.partition.stored = found[-1] + 3
                s.partition.deal_out()
        assert found == [0, 4, 8, 9]
        assert s.partition.asked == found


@in_virtual_time
async def test_what_another_member_has_polled_before_it_left_is_not_polled_again() -> None:
    async with setting() as s, s.consumer(Commit.on_poll(), batch_messages=2) as consumer:
        assert [(await consumer.get()).offset for _ in range(2)] == [0, 1]
        assert s.partition.stored == 1
        s.partition.stored = 6
        s.partition.deal_out()
        assert [(await consumer.get()).offset for _ in range(3)] == [7, 8, 9]


@in_virtual_time
async def test_what_belongs_to_another_member_is_not_handed_out() -> None:
    async with setting() as s:
        refused = Refused(ErrorCode.CONSUMER_GROUP_PARTITION_NOT_OWNED)
        s.node.script(StoreConsumerOffset, [s.partition.store, refused])
        async with s.consumer(Commit.before_handling()) as consumer:
            assert (await consumer.get()).offset == 0
            get = asyncio.create_task(consumer.get())
            while s.node.count(StoreConsumerOffset) < 2:
                await asyncio.sleep(0.01)
            # By the other member, before the partition comes back.
            s.partition.stored = 3
            s.partition.deal_out()
            assert (await get).offset == 4


@pytest.mark.parametrize("commit", [Commit.before_handling(), Commit.after_handling(every=1)])
@in_virtual_time
async def test_an_error_that_stays_is_raised_and_nothing_is_handed_out(commit: Commit) -> None:
    async with setting() as s:
        refused = Refused(ErrorCode.TOO_MANY_CONSUMER_OFFSETS)
        s.node.script(StoreConsumerOffset, [refused] * 3)
        found = []
        async with s.consumer(commit) as consumer:
            for _ in range(5):
                try:
                    message = await consumer.get()
                except windsprite.LimitReached:
                    continue
                found.append(message.offset)
                consumer.handled(message)
        assert found == [0, 1]


@in_virtual_time
async def test_who_gives_up_waiting_for_a_store_loses_nothing() -> None:
    async with setting() as s:
        slow = Delay(1.0, s.partition.store)
        s.node.script(StoreConsumerOffset, [s.partition.store, slow, slow])
        found = []
        async with s.consumer(Commit.before_handling()) as consumer:
            while len(found) < 10:
                try:
                    async with asyncio.timeout(0.3):
                        found.append((await consumer.get()).offset)
                except TimeoutError:
                    continue
                assert s.partition.stored == found[-1]
        assert found == list(range(10))


# --- Stores that wait while the session ends -------------------------------------------------


async def commits(consumer: windsprite.TopicConsumer, message: windsprite.ReceivedMessage) -> None:
    await consumer.commit(message)


async def flushes(consumer: windsprite.TopicConsumer, message: windsprite.ReceivedMessage) -> None:
    consumer.handled(message)
    await consumer.flush()


async def goes_on(consumer: windsprite.TopicConsumer, message: windsprite.ReceivedMessage) -> None:
    consumer.handled(message)
    await consumer.get()


BY_HAND = Commit.after_handling(interval=None)
WAYS = {
    "commit": (BY_HAND, commits),
    "flush": (BY_HAND, flushes),
    "every message": (Commit.after_handling(every=1), goes_on),
    "in the background": (Commit.after_handling(interval=0.05), goes_on),
    "before handling": (Commit.before_handling(), goes_on),
}


@pytest.mark.parametrize("way", WAYS)
@in_virtual_time
async def test_what_waits_to_be_stored_while_the_session_ends_takes_nothing_back(way: str) -> None:
    commit, store = WAYS[way]
    async with setting() as s:
        async with s.consumer(commit, batch_messages=2) as consumer:
            message = await consumer.get()
            s.partition.asked.clear()
            # Something else changes offsets of the partition: what comes after it has to wait.
            s.node.script(StoreConsumerOffset, [Delay(0.5, another_member_goes_on(s, 7))])
            first = asyncio.create_task(s.client.store_consumer_offset(*WHERE, 0, consumer=9))
            await asyncio.sleep(0.01)
            task = asyncio.create_task(store(consumer, message))
            with pytest.raises(windsprite.OutcomeUnknown):
                await first
            await task
            found = []
            while not found or found[-1] < 9:
                found.append((await consumer.get()).offset)
        assert found in ([8, 9], [9])  # one way has got the first of them already
        assert s.partition.stored in {7, 8, 9}
        assert all(offset > 7 for offset in s.partition.asked)
