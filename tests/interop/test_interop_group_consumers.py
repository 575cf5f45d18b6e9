"""The official client's consumer as a member of a group (spec 05, 12)."""

import asyncio
import signal
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from apache_iggy import (
    AutoCommit,
    AutoCommitAfter,
    AutoCommitWhen,
    IggyClient,
    IggyConsumer,
    PollingStrategy,
    ReceiveMessage,
)

from support.consumer_process import consumer_process
from support.official_client import fails_with, logged_in, messages
from support.server_process import server_process
from support.waiting import until

covers = pytest.mark.covers

SIZES = [4000, 3500, 2500]
TOTAL = sum(SIZES)
EVERYTHING = {(partition, offset) for partition, size in enumerate(SIZES) for offset in range(size)}
SOON = timedelta(milliseconds=50)


def place_of(message: ReceiveMessage) -> tuple[int, int]:
    return message.partition_id(), message.offset()


async def fill(client: IggyClient, stream: str, topic: str, sizes: list[int]) -> None:
    """Send so many messages to each partition, 500 at a time."""
    for partition, size in enumerate(sizes):
        for start in range(0, size, 500):
            texts = [str(number) for number in range(start, min(start + 500, size))]
            await client.send_messages(stream, topic, partition, messages(*texts))


async def stored(client: IggyClient, consumer: IggyConsumer, partition: int) -> int | None:
    """The offset that is stored for a group."""
    names = (consumer.name(), str(consumer.stream()), str(consumer.topic()))
    parts = b"".join(b"\x02" + bytes([len(name)]) + name.encode() for name in names)
    body = b"\x02" + parts + b"\x01" + partition.to_bytes(4, "little")
    reply = await client.send_binary_request(120, body)
    return int.from_bytes(reply[12:20], "little") if reply else None


async def taken(consumer: IggyConsumer, count: int) -> list[tuple[int, int]]:
    """Partition and offset of the next messages."""
    found: list[tuple[int, int]] = []
    async with asyncio.timeout(30):
        async for message in consumer.iter_messages():
            found.append(place_of(message))
            if len(found) == count:
                break
    return found


async def shares(client: IggyClient, stream: str, topic: str, group: str) -> list[list[int]]:
    details = await client.get_consumer_group(stream, topic, group)
    assert details is not None
    return [member.partitions for member in details.members]


@pytest.fixture(scope="module")
def quick_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a server listens that gives up on silent members after a second or two."""
    settings = {"WINDSPRITE_HEARTBEAT__INTERVAL": "1 s"}
    with server_process(tmp_path_factory.mktemp("quick"), environment=settings) as server:
        yield server.wait_ready()["tcp"]
        assert server.stop() == 0
        assert [event for event in server.events if event["level"] in ("error", "critical")] == []


@pytest.fixture(scope="module")
def full(address: str) -> tuple[str, str]:
    """The names of a stream and a topic with 10,000 messages in three partitions."""

    async def make() -> None:
        client = await logged_in(address)
        await client.create_stream("full")
        await client.create_topic("full", "events", len(SIZES))
        await fill(client, "full", "events", SIZES)

    asyncio.run(make())
    return "full", "events"


# --- All messages, each once ---------------------------------------------------------------------

WHEN = {
    "polling": AutoCommit.When(AutoCommitWhen.PollingMessages()),
    "all": AutoCommit.When(AutoCommitWhen.ConsumingAllMessages()),
    "each": AutoCommit.When(AutoCommitWhen.ConsumingEachMessage()),
    "tenth": AutoCommit.When(AutoCommitWhen.ConsumingEveryNthMessage(10)),
    "interval": AutoCommit.Interval(SOON),
    "interval or polling": AutoCommit.IntervalOrWhen(SOON, AutoCommitWhen.PollingMessages()),
}


@covers(
    "consumer_group",
    "IggyConsumer.iter_messages",
    "IggyConsumer.get_last_consumed_offset",
    "IggyConsumer.get_last_stored_offset",
)
@pytest.mark.parametrize("mode", WHEN)
async def test_one_member_takes_ten_thousand_messages(
    client: IggyClient, full: tuple[str, str], mode: str
) -> None:
    consumer = await client.consumer_group(
        f"all by {mode}", *full, batch_length=100, auto_commit=WHEN[mode]
    )
    found = await taken(consumer, TOTAL)
    assert len(found) == TOTAL
    assert set(found) == EVERYTHING
    for partition, size in enumerate(SIZES):
        assert [offset for place, offset in found if place == partition] == list(range(size))
        assert consumer.get_last_consumed_offset(partition) == size - 1
        last = size - 10 if mode == "tenth" else size - 1
        async with asyncio.timeout(30):
            while await stored(client, consumer, partition) != last:
                await asyncio.sleep(0.01)
            # What it stored itself it also remembers; what a poll stored it does not.
            while mode == "each" and consumer.get_last_stored_offset(partition) != last:
                await asyncio.sleep(0.01)


AFTER = {
    "each": AutoCommit.After(AutoCommitAfter.ConsumingEachMessage()),
    "tenth": AutoCommit.After(AutoCommitAfter.ConsumingEveryNthMessage(10)),
    "interval or all": AutoCommit.IntervalOrAfter(SOON, AutoCommitAfter.ConsumingAllMessages()),
}


@covers("IggyConsumer.consume_messages")
@pytest.mark.parametrize("mode", AFTER)
async def test_one_member_is_called_for_each_message(
    client: IggyClient, full: tuple[str, str], mode: str
) -> None:
    consumer = await client.consumer_group(
        f"called by {mode}", *full, batch_length=100, auto_commit=AFTER[mode]
    )
    found: list[tuple[int, int]] = []
    is_done = asyncio.Event()

    async def note(message: ReceiveMessage) -> None:
        found.append(place_of(message))
        if len(found) == TOTAL:
            is_done.set()

    async with asyncio.timeout(30):
        await consumer.consume_messages(note, is_done)
    assert len(found) == TOTAL
    assert set(found) == EVERYTHING


@covers("consumer_group", "IggyConsumer.iter_messages")
async def test_members_that_come_while_others_work_share_the_rest(
    address: str, client: IggyClient, full: tuple[str, str]
) -> None:
    """Batches are committed as they are polled, so that nothing is given to two members."""
    found: list[tuple[int, int]] = []

    async def work(member: IggyClient) -> None:
        consumer = await member.consumer_group(
            "shared", *full, batch_length=50, poll_interval=timedelta(milliseconds=2)
        )
        async for message in consumer.iter_messages():
            found.append(place_of(message))  # noqa: PERF401 - others look at it meanwhile

    members = [await logged_in(address) for _ in range(3)]
    tasks = []
    for number, member in enumerate(members, start=1):
        tasks.append(asyncio.create_task(work(member)))
        await until(lambda least=1500 * number: len(found) >= least)
    assert sorted(map(len, await shares(client, *full, "shared"))) == [1, 1, 1]
    await until(lambda: len(found) >= TOTAL)
    assert len(found) == TOTAL
    assert set(found) == EVERYTHING
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# --- What a consumer does at its start and end ---------------------------------------------------


@covers("consumer_group", "IggyConsumer.name", "IggyConsumer.stream", "IggyConsumer.topic")
async def test_a_consumer_creates_its_group_and_joins(
    client: IggyClient, stream: str, topic: str
) -> None:
    for name in ("one", "two"):
        consumer = await client.consumer_group(name, stream, topic)
        assert (consumer.name(), consumer.stream(), consumer.topic()) == (name, stream, topic)
        assert await shares(client, stream, topic, name) == [[0, 1, 2]]
    assert len(await client.get_consumer_groups(stream, topic)) == 2


@covers("consumer_group")
async def test_a_group_that_may_not_be_created(client: IggyClient, stream: str, topic: str) -> None:
    with pytest.raises(RuntimeError, match="Consumer group with name:"):
        await client.consumer_group(
            "missing", stream, topic, create_consumer_group_if_not_exists=False
        )
    assert await client.get_consumer_groups(stream, topic) == []
    await client.create_consumer_group(stream, topic, "there")
    await client.consumer_group("there", stream, topic, create_consumer_group_if_not_exists=False)
    assert await shares(client, stream, topic, "there") == [[0, 1, 2]]


@covers("consumer_group")
@pytest.mark.parametrize(
    ("place", "said"), [(("missing", "events"), "Stream with name:"), (None, "Topic with name:")]
)
async def test_a_stream_or_topic_that_is_missing(
    client: IggyClient, stream: str, place: tuple[str, str] | None, said: str
) -> None:
    with pytest.raises(RuntimeError, match=said):
        await client.consumer_group("g", *(place or (stream, "missing")))


@covers("consumer_group")
async def test_a_stream_and_a_topic_that_come_later(client: IggyClient, stream: str) -> None:
    building = client.consumer_group(
        "g", f"{stream}-later", "events", init_retries=100, init_retry_interval=SOON
    )
    task = asyncio.ensure_future(building)
    await asyncio.sleep(0.12)
    await client.create_stream(f"{stream}-later")
    await asyncio.sleep(0.12)
    assert not task.done()
    await client.create_topic(f"{stream}-later", "events", 2)
    async with asyncio.timeout(5):
        await task
    assert await shares(client, f"{stream}-later", "events", "g") == [[0, 1]]


@covers("consumer_group")
async def test_a_consumer_that_does_not_join_by_itself(
    client: IggyClient, stream: str, topic: str
) -> None:
    await fill(client, stream, topic, [3])
    consumer = await client.consumer_group("g", stream, topic, auto_join_consumer_group=False)
    with pytest.raises(RuntimeError, match="was not found"):
        await taken(consumer, 1)
    await client.create_consumer_group(stream, topic, "g")
    await client.join_consumer_group(stream, topic, "g")
    assert await taken(consumer, 3) == [(0, 0), (0, 1), (0, 2)]


@covers("IggyConsumer.store_offset", "IggyConsumer.delete_offset", "consumer_group")
async def test_offsets_are_stored_and_deleted(client: IggyClient, stream: str, topic: str) -> None:
    await fill(client, stream, topic, [10, 10])
    options: dict[str, Any] = {
        "auto_commit": AutoCommit.Disabled(),
        "allow_replay": True,
        "batch_length": 5,
    }
    consumer = await client.consumer_group("g", stream, topic, **options)
    for partition in (0, 1):
        with fails_with(3021):
            await consumer.delete_offset(partition)
    for offset in (5, 4):
        await consumer.store_offset(offset, 1)
        assert await stored(client, consumer, 1) == offset
    with fails_with(4100):
        await consumer.store_offset(10, 1)
    again = await client.consumer_group("g", stream, topic, **options)
    found = await taken(again, 10)
    assert {place for place in found if place[0] == 1} == {(1, offset) for offset in range(5, 10)}
    await consumer.delete_offset(1)
    assert await stored(client, consumer, 1) is None


@covers("consumer_group", "IggyConsumer.partition_id")
@pytest.mark.parametrize(
    ("start", "first"),
    [
        (PollingStrategy.First(), 0),
        (PollingStrategy.Last(), 6),
        (PollingStrategy.Offset(3), 3),
        (PollingStrategy.Next(), 0),
        (PollingStrategy.Timestamp(0), 0),
    ],
)
async def test_where_a_consumer_begins(
    client: IggyClient, stream: str, topic: str, start: PollingStrategy, first: int
) -> None:
    await fill(client, stream, topic, [10])
    consumer = await client.consumer_group(
        "g", stream, topic, polling_strategy=start, batch_length=4
    )
    assert await taken(consumer, 4) == [(0, offset) for offset in range(first, first + 4)]
    assert consumer.partition_id() == 0


# --- Members that go or change in mid-work -------------------------------------------------------


@covers("IggyConsumer.iter_messages")
async def test_a_group_that_is_deleted_is_made_again_and_read_from_the_start(
    client: IggyClient, stream: str, topic: str
) -> None:
    await fill(client, stream, topic, [6])
    consumer = await client.consumer_group(
        "g", stream, topic, batch_length=2, polling_retry_interval=SOON, allow_replay=True
    )
    assert await taken(consumer, 2) == [(0, 0), (0, 1)]
    await client.delete_consumer_group(stream, topic, "g")
    found = await taken(consumer, 6)
    assert set(found) == {(0, offset) for offset in range(6)}
    details = await client.get_consumer_group(stream, topic, "g")
    assert details is not None
    assert details.id == 1


@covers("IggyConsumer.iter_messages")
async def test_a_member_without_partitions_hears_of_the_end_of_its_group(
    address: str, client: IggyClient, stream: str
) -> None:
    await client.create_topic(stream, "narrow", 1)
    await client.consumer_group("g", stream, "narrow")
    idle = await (await logged_in(address)).consumer_group(
        "g",
        stream,
        "narrow",
        create_consumer_group_if_not_exists=False,
        polling_retry_interval=SOON,
    )
    assert await shares(client, stream, "narrow", "g") == [[0], []]
    waiting = asyncio.create_task(taken(idle, 1))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    await client.delete_consumer_group(stream, "narrow", "g")
    with pytest.raises(RuntimeError, match="Consumer group with name:"):
        await asyncio.wait_for(waiting, 10)


@covers("consumer_group", "IggyConsumer.consume_messages")
async def test_the_work_of_a_member_that_is_killed_goes_to_the_others(
    address: str, client: IggyClient, stream: str, topic: str
) -> None:
    await fill(client, stream, topic, [300, 300, 300])
    await client.create_consumer_group(stream, topic, "g")
    everything = {(partition, offset) for partition in range(3) for offset in range(300)}
    with (
        consumer_process(address, stream, topic, "g") as one,
        consumer_process(address, stream, topic, "g") as two,
    ):
        await until(lambda: len(one.found) > 50 and len(two.found) > 50)
        one.kill()
        assert set(one.found) | set(two.found) < everything
        await until(lambda: {*one.found, *two.found} == everything)
        assert await shares(client, stream, topic, "g") == [[0, 1, 2]]
        # At most the batch it was working on is delivered again, of each of its partitions.
        assert len(one.found) == len(set(one.found))
        assert len(two.found) == len(set(two.found))
        assert len(set(one.found) & set(two.found)) <= 3 * 10


@covers("consumer_group", "IggyConsumer.consume_messages")
async def test_bug_22_a_member_that_was_silent_for_too_long_comes_back(quick_address: str) -> None:
    address = quick_address
    client = await logged_in(address)
    place = "orders", "events"
    await client.create_stream("orders")
    await client.create_topic(*place, 2)
    await client.create_consumer_group(*place, "g")
    await fill(client, *place, [200, 200])
    with consumer_process(address, *place, "g", replays=True) as member:
        await until(lambda: len(member.found) > 100)
        member.send(signal.SIGSTOP)
        async with asyncio.timeout(30):
            while await shares(client, *place, "g"):
                await asyncio.sleep(0.05)
        before = len(member.found)
        member.send(signal.SIGCONT)
        everything = {(partition, offset) for partition in (0, 1) for offset in range(200)}
        await until(lambda: set(member.found) == everything, 60)
        assert len(member.found) > before
        assert await shares(client, *place, "g") == [[0, 1]]
        await fill(client, *place, [10])
        await until(lambda: (0, 209) in member.found)
        # A message may come twice, since its commit was refused; none is left out.
        assert {offset for partition, offset in member.found if partition == 0} == set(range(210))
    assert len(await client.get_consumer_groups(*place)) == 1


async def test_a_server_that_is_started_again_has_no_members_and_gets_them_back(
    tmp_path: Path,
) -> None:
    place = "orders", "events"
    with server_process(tmp_path) as server:
        address = server.wait_ready()["tcp"]
        client = await logged_in(address)
        await client.create_stream("orders")
        await client.create_topic(*place, 2)
        await client.create_consumer_group(*place, "g")
        await fill(client, *place, [400, 400])
        with consumer_process(address, *place, "g", replays=True) as member:
            await until(lambda: len(member.found) > 100)
            server.send(signal.SIGKILL)
            server.wait_end()
            settings = {"WINDSPRITE_TCP__ADDRESS": address}
            with server_process(tmp_path, environment=settings) as again:
                again.wait_ready()
                everything = {(partition, offset) for partition in (0, 1) for offset in range(400)}
                await until(lambda: set(member.found) == everything, 60)
                assert again.stop() == 0
