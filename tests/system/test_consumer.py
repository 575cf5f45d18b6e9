"""The consumer of the SDK on a real server: what it hands out, and which offsets it stores."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import count

import pytest

import windsprite
from support.server_process import server_process
from windsprite import Commit, From
from windsprite.consumer import assigning

STREAM, TOPIC = WHERE = ("orders", "events")
Place = tuple[int, int]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server_process(tmp_path_factory.mktemp("consumer")) as server:
        yield f"iggy://iggy:iggy@{server.wait_ready()['tcp']}"
        assert server.stop() == 0
        assert [event for event in server.events if event["level"] in ("error", "critical")] == []


@pytest.fixture
async def client(url: str) -> AsyncIterator[windsprite.Client]:
    async with windsprite.connect(url) as client:
        await client.create_stream(STREAM)
        yield client
        await client.delete_stream(STREAM)


async def fill(client: windsprite.Client, *sizes: int, create: bool = True) -> set[Place]:
    """Make the topic, with so many messages in each of its partitions."""
    if create:
        await client.create_topic(*WHERE, partitions=len(sizes))
    for partition, size in enumerate(sizes):
        for start in range(0, size, 500):
            texts = [b"%d" % number for number in range(start, min(start + 500, size))]
            await client.send(*WHERE, texts, partition=partition)
    return {(partition, offset) for partition, size in enumerate(sizes) for offset in range(size)}


def place(message: windsprite.ReceivedMessage) -> Place:
    return message.partition_id, message.offset


async def read(consumer: windsprite.TopicConsumer, number: int) -> list[Place]:
    """So many messages, all of them handled."""
    found: list[Place] = []
    async with asyncio.timeout(20):
        while len(found) < number:
            message = await consumer.get()
            assert message.payload == b"%d" % message.offset
            found.append(place(message))
            consumer.handled(message)
    return found


async def stored(client: windsprite.Client, partition: int = 0, name: str = "") -> int | None:
    """What is stored for a single consumer, or for the group."""
    reader = {"consumer": name} if name else {"group": "g"}
    found = await client.get_consumer_offset(*WHERE, partition=partition, **reader)
    return None if found is None else found.stored_offset


@asynccontextmanager
async def nothing_comes(consumer: windsprite.TopicConsumer) -> AsyncIterator[None]:
    """While the block runs, nobody gets a message."""
    waiting = asyncio.create_task(consumer.get())
    yield
    await asyncio.sleep(0.05)
    assert not waiting.done()
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting


READERS = [{"group": "g"}, {"name": "c"}]


# --- At least once ---------------------------------------------------------------------------


@pytest.mark.parametrize("reader", READERS)
async def test_all_partitions_are_read_in_order_and_stored(
    client: windsprite.Client, reader: dict[str, str]
) -> None:
    everything = await fill(client, 1200, 0, 700)
    async with client.consumer(*WHERE, **reader) as consumer:
        found = await read(consumer, 1900)
        assert set(found) == everything
        for partition in range(3):
            offsets = [offset for number, offset in found if number == partition]
            assert offsets == sorted(offsets)
        assert consumer.assignment == (0, 1, 2)
        assert [consumer.lag(0), consumer.position(2), consumer.consumed(2)] == [0, 700, 699]
        assert consumer.consumed(1) is None
    assert [await stored(client, n, reader.get("name", "")) for n in range(3)] == [1199, None, 699]
    async with client.consumer(*WHERE, **reader) as consumer, nothing_comes(consumer):
        pass


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("options", [{}, {"commit": Commit.after_handling(every=1)}])
async def test_bug_21_a_message_whose_handler_failed_is_delivered_again(
    client: windsprite.Client, reader: dict[str, str], options
) -> None:
    await fill(client, 10)
    handled = []

    async def handle_all() -> None:
        async for message in client.consumer(*WHERE, **reader, **options):
            if message.offset == 5:
                raise RuntimeError("no paper")
            handled.append(message.offset)

    with pytest.raises(RuntimeError, match="no paper"):
        await handle_all()
    assert handled == [0, 1, 2, 3, 4]
    async with client.consumer(*WHERE, **reader, **options) as consumer:
        assert await stored(client, name=reader.get("name", "")) == 4
        assert await read(consumer, 5) == [(0, offset) for offset in range(5, 10)]


async def test_who_leaves_the_loop_gets_its_last_message_again(client: windsprite.Client) -> None:
    await fill(client, 10)
    async with client.consumer(*WHERE, group="g") as consumer:
        for expected in (4, 4, 6):
            async for message in consumer:
                if message.offset == expected:
                    break
        await consumer.commit(message)
        assert await stored(client) == 6
        async for message in consumer:
            assert message.offset == 7
            break
        consumer.handled(message)
        async for message in consumer:
            assert message.offset == 8
            break
    assert await stored(client) == 7


async def test_a_loop_without_a_block_closes_the_consumer(
    client: windsprite.Client, url: str
) -> None:
    await fill(client, 3)
    async for message in client.consumer(*WHERE, group="g"):
        if message.offset == 2:
            break
    async with asyncio.timeout(10):
        while (await client.get_consumer_group(*WHERE, "g")).group.members_count:
            await asyncio.sleep(0.01)
    assert await stored(client) == 1


async def test_closing_the_client_stores_what_was_handled(
    client: windsprite.Client, url: str
) -> None:
    await fill(client, 3)
    async with windsprite.connect(url) as other:
        consumer = other.consumer(*WHERE, group="g")
        await read(consumer, 2)
    assert await stored(client) == 1
    with pytest.raises(windsprite.ClientClosed):
        await consumer.get()


async def test_messages_that_are_done_out_of_order(client: windsprite.Client) -> None:
    await fill(client, 5)
    async with client.consumer(*WHERE, group="g") as consumer:
        zero, one, two, three = [await consumer.get() for _ in range(4)]
        consumer.handled(one)
        await consumer.flush()
        assert await stored(client) is None
        consumer.handled(zero)
        await consumer.flush()
        assert await stored(client) == 1
        consumer.not_handled(two)
        again = await consumer.get()
        assert place(again) == (0, 2)
        await consumer.commit(three)
        assert await stored(client) == 3
        consumer.handled(again)
    assert await stored(client) == 3


async def test_get_can_be_cancelled_without_losing_a_message(client: windsprite.Client) -> None:
    await fill(client, 0)
    async with client.consumer(*WHERE, group="g", poll_interval=0.01) as consumer:
        found = []
        sending = asyncio.create_task(fill(client, 200, create=False))
        while len(found) < 200:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.0005):
                    while True:
                        found.append(place(await consumer.get()))
        await sending
        assert found == [(0, offset) for offset in range(200)]


# --- When offsets are stored -----------------------------------------------------------------


async def test_no_more_messages_come_again_than_every_says(client: windsprite.Client) -> None:
    await fill(client, 100)
    commit = Commit.after_handling(every=7, interval=None)
    async with client.consumer(*WHERE, name="c", commit=commit) as consumer:
        done = 0
        async for message in consumer:
            found = await stored(client, name="c")
            assert message.offset - (-1 if found is None else found) - 1 < 7
            done += 1
            if done == 50:
                break
    assert await stored(client, name="c") == 48


async def test_an_interval_stores_in_the_background(client: windsprite.Client) -> None:
    await fill(client, 10)
    commit = Commit.after_handling(interval=0.05)
    async with client.consumer(*WHERE, group="g", commit=commit) as consumer:
        await read(consumer, 4)
        async with asyncio.timeout(10):
            while await stored(client) != 3:
                await asyncio.sleep(0.01)


async def test_before_handling_each_message_is_handled_at_most_once(
    client: windsprite.Client,
) -> None:
    await fill(client, 10)
    commit = Commit.before_handling()
    async with client.consumer(*WHERE, group="g", commit=commit) as consumer:
        async for message in consumer:
            assert await stored(client) == message.offset
            if message.offset == 5:
                break
    assert await stored(client) == 5


async def test_on_poll_the_server_stores_what_it_returns(client: windsprite.Client) -> None:
    await fill(client, 10)
    options = {"group": "g", "commit": Commit.on_poll(), "batch_messages": 4}
    async with client.consumer(*WHERE, **options) as consumer:
        assert place(await consumer.get()) == (0, 0)
        assert await stored(client) == 3
        assert consumer.committed(0) == 3
    async with client.consumer(*WHERE, **options) as consumer:
        assert await read(consumer, 6) == [(0, offset) for offset in range(4, 10)]


async def test_manual_stores_nothing_by_itself(client: windsprite.Client) -> None:
    await fill(client, 10)
    async with client.consumer(*WHERE, group="g", commit=Commit.manual()) as consumer:
        messages = [await consumer.get() for _ in range(6)]
        assert await stored(client) is None
        await consumer.commit(messages[2])
        assert await stored(client) == consumer.committed(0) == 2
    assert await stored(client) == 2
    async with client.consumer(*WHERE, group="g", commit=Commit.manual()) as consumer:
        assert await read(consumer, 4) == [(0, offset) for offset in range(3, 7)]
        await consumer.flush()
        assert await stored(client) == 6
        await consumer.store_offset(4, partition=0)
        assert await stored(client) == 4
        await consumer.delete_offset(partition=0)
        assert await stored(client) is None


async def test_without_a_name_nothing_is_stored(client: windsprite.Client) -> None:
    await fill(client, 3)
    for _ in range(2):
        async with client.consumer(*WHERE) as consumer:
            assert await read(consumer, 3) == [(0, 0), (0, 1), (0, 2)]
    with pytest.raises(windsprite.InvalidRequest, match="name"):
        client.consumer(*WHERE, commit=Commit.after_handling())


# --- Where it begins, and goes ---------------------------------------------------------------


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("start", "first"),
    [
        (None, 0),
        (From.next(), 0),
        (From.first(), 0),
        (From.offset(7), 7),
        (From.last(), 6),
        (From.timestamp(0), 0),
    ],
)
async def test_where_it_begins(
    client: windsprite.Client, reader: dict[str, str], start: From | None, first: int
) -> None:
    await fill(client, 10)
    async with client.consumer(*WHERE, **reader, start=start, batch_messages=4) as consumer:
        assert await read(consumer, 10 - first) == [(0, offset) for offset in range(first, 10)]


@pytest.mark.parametrize("reader", [*READERS, {}])
@pytest.mark.parametrize("there", [0, 1, 10])
async def test_only_what_is_new(
    client: windsprite.Client, reader: dict[str, str], there: int
) -> None:
    await fill(client, there)
    async with client.consumer(*WHERE, **reader, start="new") as consumer:
        async with nothing_comes(consumer):
            async with asyncio.timeout(10):
                while consumer.position(0) is None:
                    await asyncio.sleep(0.001)
        await client.send(*WHERE, [b"%d" % there])
        assert await read(consumer, 1) == [(0, there)]


async def test_where_a_group_begins_is_for_all_its_members(client: windsprite.Client) -> None:
    await fill(client, 10)
    consumer = client.consumer(*WHERE, group="g", start="new")
    async with consumer, nothing_comes(consumer):
        pass
    await client.send(*WHERE, [b"10", b"11"])
    async with client.consumer(*WHERE, group="g", start="new") as consumer:
        assert await read(consumer, 2) == [(0, 10), (0, 11)]


async def test_a_single_consumer_of_some_partitions(client: windsprite.Client) -> None:
    await fill(client, 3, 3, 3)
    async with client.consumer(*WHERE, name="c", partitions=[0, 2]) as consumer:
        assert {number for number, _ in await read(consumer, 6)} == {0, 2}
    for wrong in (lambda: client.consumer(*WHERE, group="g", partitions=[0]),):
        with pytest.raises(windsprite.InvalidRequest):
            wrong()
    with pytest.raises(windsprite.NotFound, match="partition 7"):
        async with client.consumer(*WHERE, name="c", partitions=[0, 7]):
            pass


async def test_seeking(client: windsprite.Client) -> None:
    await fill(client, 20, 20)
    async with client.consumer(*WHERE, group="g", batch_messages=5) as consumer:
        await read(consumer, 40)
        consumer.seek(1, 17)
        assert await read(consumer, 3) == [(1, 17), (1, 18), (1, 19)]
        consumer.seek(0, From.first())
        assert await read(consumer, 1) == [(0, 0)]
        consumer.seek(0, From.last())
        assert await read(consumer, 5) == [(0, offset) for offset in range(15, 20)]
        consumer.seek(0, 3)
        assert await read(consumer, 2) == [(0, 3), (0, 4)]
        with pytest.raises(windsprite.PartitionNotOwned):
            consumer.seek(2, 0)
    assert [await stored(client, n) for n in range(2)] == [4, 19]


async def test_seeking_inside_the_loop(client: windsprite.Client) -> None:
    await fill(client, 5)
    found = []
    async with client.consumer(*WHERE, group="g") as consumer:
        async for message in consumer:
            found.append(message.offset)
            if len(found) == 3:
                consumer.seek(0, 1)
            if len(found) == 6:
                await consumer.commit(message)
                break
    assert found == [0, 1, 2, 1, 2, 3]
    assert await stored(client) == 3


async def test_pausing(client: windsprite.Client) -> None:
    await fill(client, 10, 10)
    async with client.consumer(*WHERE, group="g") as consumer:
        consumer.pause(0)
        assert {number for number, _ in await read(consumer, 10)} == {1}
        async with nothing_comes(consumer):
            pass
        consumer.resume(0)
        assert {number for number, _ in await read(consumer, 10)} == {0}
        consumer.pause()
        await fill(client, 11, 11, create=False)
        async with nothing_comes(consumer):
            pass
        consumer.resume()
        message = await consumer.get()
        assert message.offset == 10


# --- What happens to the topic ---------------------------------------------------------------


async def test_partitions_that_are_added_are_read_from_their_beginning(
    client: windsprite.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assigning, "TOPIC_AGE", 0.02)
    await fill(client, 3)
    async with client.consumer(*WHERE, name="c", start="new") as consumer:
        async with nothing_comes(consumer):
            pass
        await client.create_partitions(*WHERE, 1)
        await client.send(*WHERE, [b"0", b"1"], partition=1)
        assert await read(consumer, 2) == [(1, 0), (1, 1)]
        await client.delete_partitions(*WHERE, 1)
        async with asyncio.timeout(10):
            while consumer.assignment != (0,):
                await asyncio.sleep(0.01)
        await client.send(*WHERE, [b"3"], partition=0)
        assert await read(consumer, 1) == [(0, 3)]


async def test_a_partition_that_is_removed_and_added_again_is_a_new_one(
    client: windsprite.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assigning, "TOPIC_AGE", 0.02)
    await fill(client, 1, 2)
    async with client.consumer(*WHERE, name="c") as consumer:
        assert await read(consumer, 3) == [(0, 0), (1, 0), (1, 1)]
        await consumer.flush()
        await client.delete_partitions(*WHERE, 1)
        async with asyncio.timeout(10):
            while consumer.assignment != (0,):
                await asyncio.sleep(0.01)
        await client.create_partitions(*WHERE, 1)
        await fill(client, 0, 5, create=False)
        assert await read(consumer, 5) == [(1, offset) for offset in range(5)]
    assert await stored(client, 1, "c") == 4


@pytest.mark.parametrize("reader", READERS)
async def test_a_topic_that_is_emptied_is_read_from_its_new_beginning(
    client: windsprite.Client, reader: dict[str, str]
) -> None:
    await fill(client, 10)
    async with client.consumer(*WHERE, **reader, poll_interval=0.02) as consumer:
        await read(consumer, 10)
        await consumer.flush()
        await client.purge_topic(*WHERE)
        await fill(client, 3, create=False)
        assert await read(consumer, 3) == [(0, 0), (0, 1), (0, 2)]
    assert await stored(client, name=reader.get("name", "")) == 2


async def test_a_missing_topic_or_group(client: windsprite.Client) -> None:
    for reader in ({}, *READERS):
        with pytest.raises(windsprite.NotFound):
            async with client.consumer(*WHERE, **reader):
                pass
    await fill(client, 1)
    with pytest.raises(windsprite.NotFound):
        async with client.consumer(*WHERE, group="g", create_group=False):
            pass
    with pytest.raises(windsprite.NotFound, match="no member"):
        async with client.consumer(*WHERE, group="g", join=False):
            pass


@pytest.mark.parametrize("reader", READERS)
async def test_a_topic_can_be_waited_for(client: windsprite.Client, reader: dict[str, str]) -> None:
    consumer = client.consumer(*WHERE, **reader, wait_for_topic=20)
    waiting = asyncio.create_task(read(consumer, 1))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await fill(client, 1)
    assert await waiting == [(0, 0)]
    await consumer.close()


async def test_a_topic_that_is_deleted_ends_the_loop_with_an_error(
    client: windsprite.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assigning, "TOPIC_AGE", 0.02)

    async def read_and_delete(**reader: str) -> None:
        async for message in client.consumer(*WHERE, **reader):
            if message.offset == 2:
                await client.delete_topic(*WHERE)

    for reader in READERS:
        await fill(client, 3)
        with pytest.raises(windsprite.NotFound):
            await read_and_delete(**reader)


async def test_a_member_that_the_program_has_joined_itself(client: windsprite.Client) -> None:
    await fill(client, 3)
    await client.create_consumer_group(*WHERE, "g")
    await client.join_consumer_group(*WHERE, "g")
    async with client.consumer(*WHERE, group="g", join=False) as consumer:
        await read(consumer, 3)
    group = await client.get_consumer_group(*WHERE, "g")
    assert group is not None
    assert group.group.members_count == 1
    assert await stored(client) == 2


async def test_a_right_that_is_taken_away_and_given_back(
    client: windsprite.Client, url: str
) -> None:
    await fill(client, 3)
    polling = windsprite.Permissions(windsprite.GlobalPermissions(poll_messages=True))
    await client.create_user("reader", "reader-password", permissions=polling)
    address = url.rpartition("@")[2]
    async with (
        windsprite.connect(f"iggy://reader:reader-password@{address}") as reader,
        reader.consumer(*WHERE, name="c", partitions=[0], poll_interval=0.01) as consumer,
    ):
        await read(consumer, 3)
        await client.update_permissions("reader", None)
        with pytest.raises(windsprite.PermissionDenied):
            await consumer.get()
        await client.update_permissions("reader", polling)
        await client.send(*WHERE, [b"3"])
        assert await read(consumer, 1) == [(0, 3)]


# --- Handlers --------------------------------------------------------------------------------


async def test_a_failing_handler_sees_its_message_again(client: windsprite.Client) -> None:
    await fill(client, 6)
    seen, stop = [], asyncio.Event()

    async def handle(message: windsprite.ReceivedMessage) -> None:
        seen.append(message.offset)
        if seen.count(2) == 1 == message.offset - 1:
            raise RuntimeError("the first time")
        if message.offset == 5:
            stop.set()

    await client.consumer(*WHERE, group="g").run(handle, stop=stop)
    assert seen == [0, 1, 2, 2, 3, 4, 5]
    assert await stored(client) == 5


async def test_a_handler_that_never_succeeds_ends_it(client: windsprite.Client) -> None:
    await fill(client, 6)
    seen = []

    def handle(message: windsprite.ReceivedMessage) -> None:
        seen.append(message.offset)
        if message.offset == 3:
            raise RuntimeError("always")

    consumer = client.consumer(*WHERE, group="g")
    with pytest.raises(RuntimeError, match="always"):
        await consumer.run(handle, attempts=2)
    assert seen == [0, 1, 2, 3, 3]
    assert await stored(client) == 2


async def test_what_cannot_be_handled_can_be_put_aside(client: windsprite.Client) -> None:
    await fill(client, 6)
    aside, numbers = [], count()

    def handle(message: windsprite.ReceivedMessage) -> None:
        if message.offset % 2:
            raise ValueError(message.offset)
        next(numbers)

    async def put_aside(message: windsprite.ReceivedMessage, error: Exception) -> None:
        aside.append((message.offset, str(error)))
        if message.offset == 5:
            consumer.stop()

    consumer = client.consumer(*WHERE, group="g")
    await consumer.run(handle, attempts=1, on_failure=put_aside)
    assert aside == [(1, "1"), (3, "3"), (5, "5")]
    assert next(numbers) == 3
    assert await stored(client) == 5


async def test_several_messages_at_a_time(client: windsprite.Client) -> None:
    everything = await fill(client, 50, 50)
    seen, at_work, most = [], 0, 0

    async def handle(message: windsprite.ReceivedMessage) -> None:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(0.001 * (message.offset % 3))
        at_work -= 1
        seen.append(place(message))
        if len(seen) == 100:
            consumer.stop()

    consumer = client.consumer(*WHERE, group="g", max_unhandled=10)
    await consumer.run(handle, concurrency=8)
    assert (set(seen), len(seen), most) == (everything, 100, 8)
    assert [await stored(client, n) for n in range(2)] == [49, 49]


async def test_an_error_of_one_of_several_handlers(client: windsprite.Client) -> None:
    await fill(client, 50)
    started = []

    async def handle(message: windsprite.ReceivedMessage) -> None:
        started.append(message.offset)
        if message.offset == 20:
            raise RuntimeError("broken")
        if message.offset > 15:
            await asyncio.sleep(60)

    with pytest.raises(RuntimeError, match="broken"):
        await client.consumer(*WHERE, group="g").run(handle, concurrency=5, attempts=1)
    assert started == list(range(21))
    assert await stored(client) == 15


# --- Encrypted messages ----------------------------------------------------------------------


async def test_encrypted_messages(client: windsprite.Client) -> None:
    pytest.importorskip("cryptography")
    await client.create_topic(*WHERE, partitions=1)
    good, other = windsprite.Encryptor(b"k" * 32), windsprite.Encryptor(b"o" * 32)
    await client.send(*WHERE, [good.encrypt(b"0"), good.encrypt(b"1"), other.encrypt(b"2")])
    with pytest.raises(windsprite.InvalidRequest, match="encryption"):
        client.consumer(*WHERE, group="g", encryption=good, commit=Commit.on_poll())
    async with client.consumer(*WHERE, group="g", encryption=good) as consumer:
        assert await read(consumer, 2) == [(0, 0), (0, 1)]
        with pytest.raises(windsprite.DecryptionFailed):
            await consumer.get()
        consumer.seek(0, 3)
        await client.send(*WHERE, [good.encrypt(b"3")])
        assert await read(consumer, 1) == [(0, 3)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "c", "group": "g"},
        {"name": "c", "batch_messages": 0},
        {"name": "c", "prefetch_bytes": 0},
        {"name": "c", "poll_interval": -1},
        {"name": "c", "start": "old"},
    ],
)
async def test_what_makes_no_sense(client: windsprite.Client, wrong) -> None:
    with pytest.raises(windsprite.InvalidRequest):
        client.consumer(*WHERE, **wrong)
