"""Consumers of one group that come, go, are killed and are cut off: who handles what, how often."""

import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

import windsprite
from support import waiting
from support.server_process import ServerProcess, server_process
from windsprite import Commit

STREAM, TOPIC = WHERE = ("orders", "events")
Place = tuple[int, int]

KILLED = """
import asyncio, sys
import windsprite

async def main(url, every):
    async with windsprite.connect(url) as client:
        commit = windsprite.Commit.after_handling(every=int(every))
        async for message in client.consumer(
            "orders", "events", group="g", commit=commit, batch_messages=20
        ):
            await asyncio.sleep(0.001)
            print(message.partition_id, message.offset, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server_process(tmp_path_factory.mktemp("groups")) as server:
        yield f"iggy://iggy:iggy@{server.wait_ready()['tcp']}"
        assert server.stop() == 0


@pytest.fixture
async def client(url: str) -> AsyncIterator[windsprite.Client]:
    async with windsprite.connect(url) as client:
        await client.create_stream(STREAM)
        yield client
        await client.delete_stream(STREAM)


async def fill(client: windsprite.Client, partitions: int, size: int) -> set[Place]:
    await client.create_topic(*WHERE, partitions=partitions)
    await send(client, partitions, size)
    return {(partition, offset) for partition in range(partitions) for offset in range(size)}


async def send(client: windsprite.Client, partitions: int, size: int) -> None:
    for partition in range(partitions):
        for start in range(0, size, 500):
            count = min(500, size - start)
            await client.send(*WHERE, [b"x"] * count, partition=partition)


async def until(condition) -> None:
    # Well below the time after which servers hand partitions over in any case.
    await waiting.until(condition, seconds=15)


class Member:
    """A member with a client of its own that handles messages in the background.

    Attributes:
        handled: What it has handled, in this order.
        consumer: What it reads with.
    """

    def __init__(self, consumer: windsprite.TopicConsumer) -> None:
        self.handled: list[Place] = []
        self.consumer = consumer
        self.task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        async for message in self.consumer:
            if message.offset % 10 == 0:
                await asyncio.sleep(0.001)
            self.handled.append((message.partition_id, message.offset))

    async def leave(self) -> None:
        """Finish the message at hand, store it, and go."""
        self.consumer.stop()
        try:
            await self.task
        finally:
            await self.consumer.close()


@asynccontextmanager
async def member(url: str, **options) -> AsyncIterator[Member]:
    async with (
        windsprite.connect(url, reconnection_interval=0.01, reestablish_after=0.0) as client,
        client.consumer(*WHERE, group="g", batch_messages=50, **options) as consumer,
    ):
        joined = Member(consumer)
        yield joined
        await joined.leave()


def counted(*members: Member) -> Counter[Place]:
    return Counter(place for member in members for place in member.handled)


def assigned(*members: Member) -> list[int]:
    return [number for member in members for number in member.consumer.assignment]


def in_order(handled: list[Place]) -> bool:
    """Whether the messages of each partition were handled in their order."""
    partitions = {partition for partition, _ in handled}
    offsets = [[o for p, o in handled if p == partition] for partition in partitions]
    return all(one == sorted(one) for one in offsets)


# --- Who comes and goes in an orderly way ----------------------------------------------------


async def test_members_that_join_and_leave_handle_everything_exactly_once(
    client: windsprite.Client, url: str
) -> None:
    await fill(client, 4, 600)
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(member(url))
        await until(lambda: len(one.handled) > 200)
        async with member(url) as two:
            await until(lambda: len(two.consumer.assignment) == 2)
            await send(client, 4, 300)
            await until(lambda: len(two.handled) > 200)
            assert one.consumer.assignment == (0, 1)
        async with member(url) as three:
            await until(lambda: len(three.consumer.assignment) == 2)
            await send(client, 4, 300)
            await until(lambda: len(counted(one, two, three)) == 4 * 1200)
        assert three.handled
        assert counted(one, two, three).total() == 4 * 1200
        assert all(in_order(one.handled) for one in (one, two, three))


async def test_bug_19_a_member_finishes_what_it_has_polled_before_it_hands_over(
    client: windsprite.Client, url: str
) -> None:
    await fill(client, 2, 100)
    async with (
        windsprite.connect(url) as one,
        windsprite.connect(url) as two,
        one.consumer(*WHERE, group="g") as first,
    ):
        held = [await first.get() for _ in range(3)]
        async with asyncio.timeout(10):
            while any(first.lag(number) is None for number in (0, 1)):
                await asyncio.sleep(0.001)
        async with two.consumer(*WHERE, group="g") as second:
            # Everything was polled, so nothing can go to the second before it is handled.
            await until(lambda: first.assignment != (0, 1))
            assert second.assignment == ()
            for message in held:
                first.handled(message)
            for _ in range(197):
                first.handled(await first.get())
            await until(lambda: len(second.assignment) == 1)
            (moved,) = second.assignment
            assert second.committed(moved) in {99, None}
            await client.send(*WHERE, [b"x"], partition=moved)
            message = await second.get()
            assert (message.partition_id, message.offset) == (moved, 100)


@pytest.mark.parametrize("waiting", [0, 2])
async def test_a_partition_stays_until_the_program_has_stored_what_it_was_given(
    client: windsprite.Client, url: str, waiting: int
) -> None:
    """With `Commit.manual`, whether or not more waits to be handed out when another joins."""

    async def stored() -> int | None:
        found = await client.get_consumer_offset(*WHERE, partition=going, group="g")
        return None if found is None else found.stored_offset

    await fill(client, 2, 3)
    async with (
        windsprite.connect(url) as one,
        windsprite.connect(url) as two,
        one.consumer(*WHERE, group="g", commit=Commit.manual()) as first,
    ):
        messages = [await first.get() for _ in range(6 - waiting)]
        async with two.consumer(*WHERE, group="g", commit=Commit.manual()) as second:
            await until(lambda: first.assignment != (0, 1))
            (going,) = {0, 1}.difference(first.assignment)
            messages += [await first.get() for _ in range(waiting)]
            last = max((m for m in messages if m.partition_id == going), key=lambda m: m.offset)
            assert [await stored() for _ in range(100)] == [None] * 100
            await first.commit(last)
            assert await stored() == 2
            await until(lambda: second.assignment == (going,))
            await client.send(*WHERE, [b"x"], partition=going)
            message = await second.get()
            assert (message.partition_id, message.offset) == (going, 3)


async def test_more_members_than_partitions(client: windsprite.Client, url: str) -> None:
    await fill(client, 1, 10)
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(member(url))
        await until(lambda: len(one.handled) == 10)
        two = await stack.enter_async_context(member(url))
        assert two.consumer.assignment == ()
        await one.leave()
        await client.send(*WHERE, [b"x"])
        await until(lambda: two.handled == [(0, 10)])


async def test_partitions_are_added_and_removed(client: windsprite.Client, url: str) -> None:
    await fill(client, 1, 10)
    async with member(url) as one:
        await until(lambda: len(one.handled) == 10)
        await client.create_partitions(*WHERE, 2)
        await client.send(*WHERE, [b"x"], partition=2)
        await until(lambda: (2, 0) in one.handled)
        await client.delete_partitions(*WHERE, 2)
        await until(lambda: one.consumer.assignment == (0,))
        await client.send(*WHERE, [b"x"], partition=0)
        await until(lambda: (0, 10) in one.handled)
        assert set(counted(one).values()) == {1}


async def test_what_the_server_stores_at_polls_is_handled_once_as_well(
    client: windsprite.Client, url: str
) -> None:
    everything = await fill(client, 2, 800)
    async with member(url, commit=Commit.on_poll()) as one:
        await until(lambda: len(one.handled) > 100)
        async with member(url, commit=Commit.on_poll()) as two:
            await until(lambda: len(counted(one, two)) == len(everything))
    assert counted(one, two) == Counter(everything)


async def test_two_consumers_of_one_client_are_one_member(
    client: windsprite.Client, url: str
) -> None:
    await fill(client, 2, 10)
    async with client.consumer(*WHERE, group="g") as one:
        await one.commit(await one.get())
        async with client.consumer(*WHERE, group="g") as two:
            await two.get()
        details = await client.get_consumer_group(*WHERE, "g")
        assert details is not None
        assert details.group.members_count == 1
        await one.commit(await one.get())


# --- Who goes without a word -----------------------------------------------------------------


async def test_the_work_of_a_process_that_is_killed_goes_to_the_others(
    client: windsprite.Client, url: str, tmp_path: Path
) -> None:
    await fill(client, 4, 300)
    everything = {(partition, offset) for partition in range(4) for offset in range(400)}
    output = tmp_path / "handled"
    with output.open("wb") as file:
        process = subprocess.Popen([sys.executable, "-c", KILLED, url, "5"], stdout=file)
    try:
        await until(lambda: output.read_bytes().count(b"\n") > 50)
        async with member(url) as one:
            await until(lambda: one.consumer.assignment != ())
            await send(client, 4, 100)
            await until(lambda: len(one.handled) > 50)
            process.kill()
            process.wait(10)
            lines = output.read_text(encoding="ascii").splitlines()
            killed = [tuple(map(int, line.split())) for line in lines]
            await until(lambda: {*one.handled, *killed} == everything)
            assert max(Counter(killed).values()) == max(counted(one).values()) == 1
            # Of each partition that it had: five messages, and the one that it was handling.
            assert len({*one.handled} & {*killed}) <= 4 * 6
    finally:
        process.kill()
        process.wait(10)


# --- What happens to the group ---------------------------------------------------------------


@pytest.mark.parametrize(("allow_replay", "expected"), [(False, 1), (True, 2)])
async def test_a_group_that_is_deleted_is_made_again(
    client: windsprite.Client, url: str, allow_replay: bool, expected: int
) -> None:
    await fill(client, 2, 10)
    async with member(url, allow_replay=allow_replay) as one:
        await until(lambda: len(one.handled) == 20)
        await one.consumer.flush()
        await client.delete_consumer_group(*WHERE, "g")
        for partition in (0, 1):
            await client.send(*WHERE, [b"x"], partition=partition)
        await until(lambda: {(0, 10), (1, 10)} <= set(one.handled))
        assert {counted(one)[partition, 0] for partition in (0, 1)} == {expected}
        assert max(counted(one).values()) == expected


async def test_a_group_that_must_not_be_made_is_missed(client: windsprite.Client, url: str) -> None:
    await fill(client, 1, 10)
    await client.create_consumer_group(*WHERE, "g")
    async with client.consumer(*WHERE, group="g", create_group=False) as consumer:
        for _ in range(10):
            await consumer.commit(await consumer.get())
        await client.delete_consumer_group(*WHERE, "g")
        with pytest.raises(windsprite.NotFound):
            await consumer.get()


# --- Who is silent for too long --------------------------------------------------------------


def events(server: ServerProcess) -> list[dict[str, str]]:
    return [event for event in server.events if event["event"].startswith("a silent member")]


async def test_bug_22_a_member_that_was_silent_for_too_long_comes_back(tmp_path: Path) -> None:
    settings = {"WINDSPRITE_HEARTBEAT__INTERVAL": "300 ms"}
    with server_process(tmp_path / "server", environment=settings) as server:
        url = f"iggy://iggy:iggy@{server.wait_ready()['tcp']}"
        async with windsprite.connect(url) as client:
            await client.create_stream(STREAM)
            await fill(client, 2, 0)
            commit = Commit.after_handling(every=20)
            async with member(url, commit=commit) as one, member(url, commit=commit) as two:
                await until(lambda: len(assigned(one)) == len(assigned(two)) == 1)
                await send(client, 2, 300)
                await until(lambda: len(one.handled) > 100 and len(two.handled) > 100)
                # A handler that lets nobody else work for that long: both are logged out.
                before = len(events(server))
                time.sleep(1.5)
                await until(lambda: len(events(server)) >= before + 2)
                await send(client, 2, 300)
                await until(lambda: len(counted(one, two)) == 1200)
                await until(lambda: sorted(assigned(one, two)) == [0, 1])
                # Each time, what was handled but not stored comes again: 20 of each partition.
                again = counted(one, two).total() - 1200
                assert again <= 2 * 21 * len(events(server))
