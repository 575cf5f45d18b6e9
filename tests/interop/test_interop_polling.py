"""Polling messages with the official client (spec 04, 5 and 9), from memory and from disk."""

from dataclasses import dataclass

import pytest
from apache_iggy import Consumer, IggyClient, PollingStrategy

from support.official_client import (
    fails_with,
    figures,
    logged_in,
    messages,
    offsets,
    payloads,
    poll,
    told,
)

covers = pytest.mark.covers

First, Last, Next = PollingStrategy.First, PollingStrategy.Last, PollingStrategy.Next
Offset, Timestamp = PollingStrategy.Offset, PollingStrategy.Timestamp
MAX_U64 = 2**64 - 1


@pytest.fixture(params=["address", "small_address"], ids=["from memory", "from disk"])
def where(request: pytest.FixtureRequest) -> str:
    """The address of a server that has what it was sent in memory, or only on disk."""
    address: str = request.getfixturevalue(request.param)
    return address


@pytest.fixture
async def client(where: str, clients: dict[str, IggyClient]) -> IggyClient:
    if where not in clients:
        clients[where] = await logged_in(where)
    return clients[where]


# --- Where a poll starts -------------------------------------------------------------------------


@dataclass
class Batches:
    """A partition with batches of 5, 1 and 10 messages: offsets 0 to 15."""

    client: IggyClient
    stream: str
    topic: str
    times: list[int]

    async def poll(self, start: PollingStrategy, count: int) -> list[int]:
        polled = await poll(self.client, self.stream, self.topic, start, count, consumer=9)
        assert payloads(polled) == [f"{offset}".encode() for offset in offsets(polled)]
        return offsets(polled)


@pytest.fixture
async def batches(client: IggyClient, stream: str, topic: str) -> Batches:
    times = []
    for first, count in ((0, 5), (5, 1), (6, 10)):
        numbers = range(first, first + count)
        await client.send_messages(stream, topic, 0, messages(*map(str, numbers)))
        (newest,) = await poll(client, stream, topic, Last(), 1)
        times.append(newest.timestamp())
    assert times == sorted(set(times))
    return Batches(client, stream, topic, times)


@pytest.mark.parametrize(
    ("start", "count", "expected"),
    [
        (Offset(0), 1, range(1)),
        (Offset(0), 5, range(5)),
        (Offset(0), 16, range(16)),
        (Offset(0), 1000, range(16)),
        (Offset(2), 2, range(2, 4)),
        (Offset(3), 5, range(3, 8)),
        (Offset(4), 1, range(4, 5)),
        (Offset(4), 2, range(4, 6)),
        (Offset(5), 1, range(5, 6)),
        (Offset(6), 100, range(6, 16)),
        (Offset(9), 4, range(9, 13)),
        (Offset(15), 1, range(15, 16)),
        (Offset(15), 2**32 - 1, range(15, 16)),
        (Offset(16), 1, range(0)),
        (Offset(17), 10, range(0)),
        (Offset(MAX_U64), 10, range(0)),
        (First(), 1, range(1)),
        (First(), 7, range(7)),
        (First(), 2**32 - 1, range(16)),
        (Last(), 1, range(15, 16)),
        (Last(), 2, range(14, 16)),
        (Last(), 10, range(6, 16)),
        (Last(), 11, range(5, 16)),
        (Last(), 13, range(3, 16)),
        (Last(), 16, range(16)),
        (Last(), 17, range(16)),
        (Last(), 2**32 - 1, range(16)),
        (Next(), 1, range(1)),
        (Next(), 6, range(6)),
        (Next(), 1000, range(16)),
        (Timestamp(0), 1000, range(16)),
        (Timestamp(0), 3, range(3)),
        (Timestamp(1), 16, range(16)),
        (Timestamp(MAX_U64), 16, range(0)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, PollingStrategy) else None,
)
@covers("poll_messages")
async def test_where_a_poll_starts(
    batches: Batches, start: PollingStrategy, count: int, expected: range
) -> None:
    assert await batches.poll(start, count) == list(expected)
    assert await batches.poll(start, count) == list(expected)


@covers("poll_messages")
async def test_a_time_selects_whole_batches(batches: Batches) -> None:
    first, second, third = batches.times
    everything = 1000
    assert await batches.poll(Timestamp(first), everything) == list(range(16))
    assert await batches.poll(Timestamp(first + 1), everything) == list(range(5, 16))
    assert await batches.poll(Timestamp(second - 1), everything) == list(range(5, 16))
    assert await batches.poll(Timestamp(second), everything) == list(range(5, 16))
    assert await batches.poll(Timestamp(second + 1), everything) == list(range(6, 16))
    assert await batches.poll(Timestamp(third), everything) == list(range(6, 16))
    assert await batches.poll(Timestamp(third), 4) == list(range(6, 10))
    assert await batches.poll(Timestamp(third), 1) == [6]
    assert await batches.poll(Timestamp(third + 1), everything) == []


@pytest.mark.parametrize(
    "start", [Offset(0), Offset(7), First(), Last(), Next(), Timestamp(0)], ids=told
)
@covers("poll_messages")
async def test_an_empty_partition(
    client: IggyClient, stream: str, topic: str, start: PollingStrategy
) -> None:
    assert await poll(client, stream, topic, start, 10, partition=1, commit=True) == []
    await client.send_messages(stream, topic, 1, messages("a"))
    assert offsets(await poll(client, stream, topic, Next(), 10, partition=1)) == [0]


@covers("poll_messages", "create_topic")
async def test_across_segments(client: IggyClient, stream: str) -> None:
    await client.create_topic(stream, "t", 1, segment_size=1 << 20)
    batch, sends = 5, 30
    for number in range(sends):
        texts = (f"{number * batch + place} ".ljust(20_000, "x") for place in range(batch))
        await client.send_messages(stream, "t", 0, messages(*texts))
    # A segment takes batches until it is full: eleven of 100,496 bytes; then a new one begins.
    size = 256 + batch * (48 + 20_000)
    (partition,) = (await client.get_topic(stream, "t")).partitions
    assert partition.segments_count == sends // -(-(1 << 20) // size) + 1 == 3
    assert figures(partition) == (sends * batch, sends * size)
    for start, count in ((0, 150), (53, 4), (54, 1), (55, 1), (52, 60), (109, 2), (107, 43)):
        polled = await poll(client, stream, "t", Offset(start), count)
        assert offsets(polled) == list(range(start, start + count))
        assert [int(text.split()[0]) for text in payloads(polled)] == offsets(polled)
        (first,) = await poll(client, stream, "t", Offset(start // batch * batch), 1)
        (found,) = await poll(client, stream, "t", Timestamp(first.timestamp()), 1)
        assert found.offset() == first.offset()
    await client.delete_topic(stream, "t")


@covers("poll_messages")
async def test_a_count_of_0_is_not_sent(client: IggyClient, stream: str, topic: str) -> None:
    with fails_with(4009):
        await poll(client, stream, topic, First(), 0)


@covers("poll_messages")
async def test_a_poll_without_partition_reads_partition_0(
    client: IggyClient, stream: str, topic: str
) -> None:
    for partition in (2, 1, 0):
        await client.send_messages(stream, topic, partition, messages(f"in {partition}"))
    for _ in range(3):
        polled = await poll(client, stream, topic, partition=None)
        assert payloads(polled) == [b"in 0"]
        assert polled[0].partition_id() == 0


@covers("poll_messages")
async def test_polling_what_is_missing(client: IggyClient, stream: str, topic: str) -> None:
    for missing in ("missing", 999_999):
        with fails_with(1009):
            await poll(client, missing, topic)
        with fails_with(2010):
            await poll(client, stream, missing)
    for partition in (3, 2**32 - 1):
        with fails_with(3007):
            await poll(client, stream, topic, partition=partition)


@covers("poll_messages")
async def test_polling_for_a_group_that_is_missing(
    client: IggyClient, stream: str, topic: str
) -> None:
    await client.send_messages(stream, topic, 0, messages("a"))
    polled = await client.poll_messages(
        stream,
        topic,
        consumer=Consumer.Group("missing"),
        polling_strategy=First(),
        count=1,
        auto_commit=False,
        partition_id=0,
    )
    assert polled == []


# --- Consumers -----------------------------------------------------------------------------------


@covers("poll_messages")
async def test_next_goes_on_after_what_was_committed(batches: Batches) -> None:
    client, stream, topic = batches.client, batches.stream, batches.topic
    found = []
    for _ in range(4):
        polled = await poll(client, stream, topic, Next(), 5, consumer="me", commit=True)
        found.append(offsets(polled))
    assert found == [list(range(5)), list(range(5, 10)), list(range(10, 15)), [15]]
    for commit in (True, False):
        assert await poll(client, stream, topic, Next(), 5, consumer="me", commit=commit) == []
    await client.send_messages(stream, topic, 0, messages("16"))
    assert offsets(await poll(client, stream, topic, Next(), 5, consumer="me")) == [16]


@covers("poll_messages")
async def test_next_starts_over_while_nothing_is_committed(batches: Batches) -> None:
    for _ in range(3):
        assert await batches.poll(Next(), 5) == list(range(5))


@covers("poll_messages")
async def test_consumers_do_not_disturb_each_other(where: str, batches: Batches) -> None:
    client, stream, topic = batches.client, batches.stream, batches.topic
    other = await logged_in(where)

    async def go_on(own: IggyClient, consumer: str | int, count: int) -> list[int]:
        polled = await poll(own, stream, topic, Next(), count, consumer=consumer, commit=True)
        return offsets(polled)

    assert await go_on(client, "one", 3) == [0, 1, 2]
    assert await go_on(client, "two", 2) == [0, 1]
    assert await go_on(client, 7, 1) == [0]
    assert await go_on(other, "one", 2) == [3, 4]  # one name, one position
    assert await go_on(client, "one", 2) == [5, 6]
    assert await go_on(client, "two", 2) == [2, 3]
    assert await go_on(other, 7, 2) == [1, 2]
    # a name counts as its hash
    assert await go_on(client, "billing", 3) == [0, 1, 2]
    assert await go_on(client, 1_795_796_488, 3) == [3, 4, 5]
    assert await go_on(client, "billing", 1) == [6]


@covers("poll_messages")
async def test_each_partition_has_its_own_position(
    client: IggyClient, stream: str, topic: str
) -> None:
    for partition in range(3):
        await client.send_messages(stream, topic, partition, messages("a", "b", "c"))
    for partition, count in ((0, 1), (1, 2), (2, 3)):
        await poll(
            client, stream, topic, Next(), count, partition=partition, consumer="me", commit=True
        )
    rest = [
        offsets(await poll(client, stream, topic, Next(), 10, partition=number, consumer="me"))
        for number in range(3)
    ]
    assert rest == [[1, 2], [2], []]


@pytest.mark.parametrize(
    ("start", "count", "committed"),
    [
        (Offset(4), 3, 6),
        (Offset(16), 3, None),
        (First(), 2, 1),
        (Last(), 1, 15),
        (Last(), 4, 15),
        (Next(), 7, 6),
        (Timestamp(0), 6, 5),
        (Timestamp(MAX_U64), 6, None),
    ],
    ids=told,
)
@covers("poll_messages")
async def test_every_poll_commits_the_last_message_that_it_returns(
    batches: Batches, start: PollingStrategy, count: int, committed: int | None
) -> None:
    client, stream, topic = batches.client, batches.stream, batches.topic
    await poll(client, stream, topic, start, count, consumer="me", commit=True)
    following = 0 if committed is None else committed + 1
    rest = await poll(client, stream, topic, Next(), 100, consumer="me")
    assert offsets(rest) == list(range(following, 16))


@covers("poll_messages")
async def test_a_commit_by_polling_never_goes_back(batches: Batches) -> None:
    client, stream, topic = batches.client, batches.stream, batches.topic
    await poll(client, stream, topic, Offset(10), 1, consumer="me", commit=True)
    for start, count in ((First(), 2), (Offset(3), 4), (Timestamp(0), 1), (Offset(10), 1)):
        await poll(client, stream, topic, start, count, consumer="me", commit=True)
        rest = await poll(client, stream, topic, Next(), 100, consumer="me")
        assert offsets(rest) == list(range(11, 16))
