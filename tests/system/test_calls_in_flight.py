"""Several calls of one client at the same time, against scripted servers; time is virtual."""

import asyncio
import random
from typing import Any

import pytest

import windsprite
from support.environment import SeededEnvironment
from support.scripted_server import Cut, Delay, ScriptedCluster, Silence
from support.virtual_time import in_virtual_time
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.messages import PollMessages, SendMessages
from windsprite_protocol.model.outcomes import Evicted, NotNow, Refused
from windsprite_protocol.model.sessions import EvictionReason
from windsprite_protocol.model.streams import CreateStream, GetStreams
from windsprite_protocol.v0_11.frames import unpack_request

NOT_ACCEPTED = NotNow(ErrorCode.TRANSIENT_NOT_ACCEPTED)
NOT_COMMITTED = NotNow(ErrorCode.TRANSIENT_NOT_COMMITTED)


def connect(cluster: ScriptedCluster, *, seed: int = 0, **options: Any) -> windsprite.Connecting:
    options = {"reestablish_after": 0.0, **options}
    return windsprite.connect(cluster.url(), environment=SeededEnvironment(seed), **options)


def sends(client: windsprite.Client, count: int, **more: Any) -> list["asyncio.Task[Any]"]:
    """One send to each of so many partitions."""
    return [
        asyncio.create_task(
            client.send("s", "t", [str(number).encode()], **{"partition": number, **more})
        )
        for number in range(count)
    ]


async def outcomes(tasks: list["asyncio.Task[Any]"]) -> list[Any]:
    return await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("is_windsprite", "option", "together"),
    [(True, None, 16), (True, 5, 5), (True, 1, 1), (False, None, 1), (False, 5, 1)],
)
@in_virtual_time
async def test_how_many_are_on_their_way(
    is_windsprite: bool, option: int | None, together: int
) -> None:
    options = {} if option is None else {"max_in_flight": option}
    async with (
        await ScriptedCluster(names_itself=is_windsprite).start() as cluster,
        connect(cluster, **options) as client,
    ):
        (node,) = cluster.nodes
        node.script(GetStreams, [Delay(1)])
        tasks = [asyncio.create_task(client.get_streams()) for _ in range(20)]
        await asyncio.sleep(0.5)
        (connection,) = node.connections
        assert 1 + connection.waiting == together
        assert await outcomes(tasks) == [()] * 20


CUTS = {
    "not executed": Cut(),
    "executed": Cut(executed=True),
    "in the header": Cut(after=100),
    "in the body": Cut(after=258),
    "reset": Cut(executed=True, reset=True),
    "evicted": Evicted(EvictionReason.STALE_CLIENT),
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("point", range(8))
@in_virtual_time
async def test_a_broken_connection_leaves_in_doubt_what_was_sent_and_nothing_else(
    cut: str, point: int
) -> None:
    async with (
        await ScriptedCluster().start() as cluster,
        connect(cluster, max_in_flight=3) as client,
    ):
        (node,) = cluster.nodes
        node.script(SendMessages, [*[None] * point, CUTS[cut]])
        results = await outcomes(sends(client, 8))
        in_doubt = [isinstance(result, windsprite.OutcomeUnknown) for result in results]
        assert 1 <= sum(in_doubt) <= 3
        assert in_doubt[point]
        for number, result in enumerate(results):
            times = cluster.payloads.count(str(number).encode())
            assert times <= 1 if in_doubt[number] else times == 1
            assert in_doubt[number] or isinstance(result, windsprite.Confirmation)
        await client.ping()
        assert len(node.connects) == 2


@pytest.mark.parametrize("point", range(5))
@pytest.mark.parametrize("cut", CUTS)
@in_virtual_time
async def test_reads_survive_together(cut: str, point: int) -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster) as client:
        (node,) = cluster.nodes
        node.script(GetStreams, [*[None] * point, CUTS[cut]])
        tasks = [asyncio.create_task(client.get_streams()) for _ in range(5)]
        assert await outcomes(tasks) == [()] * 5
        await client.ping()
        assert len(node.connects) == 2


@pytest.mark.parametrize("given_up", range(4))
@in_virtual_time
async def test_who_gives_up_leaves_the_others_right(given_up: int) -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster) as client:
        (node,) = cluster.nodes
        node.script(SendMessages, [Delay(1)] * 4)
        tasks = sends(client, 4)
        await asyncio.sleep(0.5)
        tasks[given_up].cancel()
        results = await outcomes(tasks)
        assert isinstance(results.pop(given_up), asyncio.CancelledError)
        left = [number for number in range(4) if number != given_up]
        assert [result.partition_id for result in results] == left
        await client.ping()
        assert len(node.connects) == 1


@in_virtual_time
async def test_who_is_out_of_time_leaves_the_others_right() -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster) as client:
        (node,) = cluster.nodes
        node.script(SendMessages, [Delay(3)])
        slow = sends(client, 2, timeout=1)
        others = [asyncio.create_task(client.get_streams()) for _ in range(3)]
        for result in await outcomes(slow):
            assert isinstance(result, windsprite.OutcomeUnknown)
        assert await outcomes(others) == [()] * 3
        assert len(node.connects) == 1
        with pytest.raises(windsprite.RequestTimedOut):
            await client.send("s", "t", [b"never"], timeout=0)
        assert b"never" not in cluster.payloads


@in_virtual_time
async def test_a_silent_server_ends_all_that_was_sent() -> None:
    async with (
        await ScriptedCluster().start() as cluster,
        connect(cluster, max_in_flight=2, request_timeout=5) as client,
    ):
        cluster.nodes[0].script(SendMessages, [Silence()])
        results = await outcomes(sends(client, 4, timeout=20))
        unknown = [isinstance(result, windsprite.OutcomeUnknown) for result in results]
        assert unknown == [True, True, False, False]
        assert cluster.payloads == [b"2", b"3"]


def misfortune(dice: random.Random) -> Any:
    kinds = [NOT_ACCEPTED, NOT_COMMITTED, Cut(), Cut(executed=True), Cut(after=100), Delay(0.5)]
    return dice.choice([*[None] * 4, *kinds, Refused(ErrorCode.UNAUTHENTICATED)])


@pytest.mark.parametrize("retry", ["safe", "at-least-once"])
@pytest.mark.parametrize("seed", range(8))
@in_virtual_time
async def test_a_partition_keeps_the_order_of_the_calls(seed: int, retry: Any) -> None:
    dice = random.Random(seed)
    async with await ScriptedCluster().start(2) as cluster, connect(cluster, seed=seed) as client:
        for node in cluster.nodes:
            node.script(SendMessages, [misfortune(dice) for _ in range(30)])
        tasks = []
        for number in range(40):
            partition = dice.randrange(3)
            payload = b"%d" % number
            send = client.send("s", "t", [payload], partition=partition, retry=retry, timeout=300)
            tasks.append(asyncio.create_task(send))
            if number == 20:
                await asyncio.sleep(1)
                cluster.elect(1)
        results = await outcomes(tasks)
    for number, result in enumerate(results):
        times = cluster.payloads.count(b"%d" % number)
        if isinstance(result, windsprite.OutcomeUnknown):
            assert retry == "safe"
            assert times <= 1
        else:
            assert isinstance(result, windsprite.Confirmation | None)
            assert times == 1 if retry == "safe" else times >= 1
    for partition in range(3):
        stored = [
            b for batch in cluster.stored if batch.partition == partition for b in batch.payloads
        ]
        first_times = [int(payload) for payload in dict.fromkeys(stored)]
        assert first_times == sorted(first_times)


@in_virtual_time
async def test_a_send_that_fails_is_over_before_the_next_one_goes() -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster) as client:
        (node,) = cluster.nodes
        node.script(SendMessages, [NOT_ACCEPTED] * 3 + [Refused(ErrorCode.TOPIC_ID_NOT_FOUND)])
        results = await outcomes(sends(client, 3, partition=0))
        assert isinstance(results[0], windsprite.NotFound)
        assert cluster.payloads == [b"1", b"2"]


@in_virtual_time
async def test_sends_in_no_order_overtake() -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster) as client:
        cluster.nodes[0].script(SendMessages, [NOT_ACCEPTED])
        await outcomes(sends(client, 3, partition=0, ordered=False))
        assert cluster.payloads == [b"1", b"2", b"0"]


@in_virtual_time
async def test_a_move_to_the_leader_cuts_nothing_off() -> None:
    async with await ScriptedCluster().start(2) as cluster, connect(cluster) as client:
        before = sum(len(node.connects) for node in cluster.nodes)
        for change in range(4):
            cluster.elect((change + 1) % 2)
            for node in cluster.nodes:
                node.script(PollMessages, [Delay(1)] * 3)
            polls = [asyncio.create_task(client.poll("s", "t")) for _ in range(6)]
            results = await outcomes(sends(client, 10))
            assert all(isinstance(result, windsprite.Confirmation) for result in results)
            await asyncio.gather(*polls)
        numbers = [str(number).encode() for number in range(10)]
        assert sorted(cluster.payloads) == sorted(numbers * 4)
        assert sum(len(node.connects) for node in cluster.nodes) == before + 4


@in_virtual_time
async def test_changes_of_metadata_are_between_all_else() -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster) as client:
        (node,) = cluster.nodes
        node.script(SendMessages, [NOT_ACCEPTED] * 5)
        before = sends(client, 2)
        change = asyncio.create_task(client.create_stream("orders"))
        after = sends(client, 2)
        await outcomes([*before, change, *after])
        kinds = [type(r) for r in node.requests if isinstance(r, CreateStream | SendMessages)]
        assert kinds == [SendMessages] * 7 + [CreateStream] + [SendMessages] * 2


@in_virtual_time
async def test_what_is_repeated_late_takes_a_new_number_unless_in_doubt() -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster) as client:
        (node,) = cluster.nodes
        for refusal in (NOT_ACCEPTED, NOT_COMMITTED):
            node.script(SendMessages, [refusal])
            first = asyncio.create_task(client.send("s", "t", [b"first"], ordered=False))
            others = [
                asyncio.create_task(client.send("s", "t", [b"x"], partition=0, ordered=False))
                for _ in range(200)
            ]
            await outcomes([first, *others])
        numbers = [
            unpack_request(frame.header).request
            for frame, request in zip(node.frames, node.requests, strict=True)
            if isinstance(request, SendMessages)
        ]
        # Servers take a number for executed that is 128 below the highest they have seen.
        highest = 0
        for number in numbers:
            assert number > highest - 128
            highest = max(highest, number)
        assert len(cluster.payloads) == 402
