"""Ten thousand messages with the official client, sent and polled in every way (spec 04, 9)."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
import xxhash
from apache_iggy import IggyClient, Partitioning, PollingStrategy, ReceiveMessage, SendMessage

from support.official_client import figures, offsets, payloads, poll

covers = pytest.mark.covers

First, Last, Next = PollingStrategy.First, PollingStrategy.Last, PollingStrategy.Next
Offset, Timestamp = PollingStrategy.Offset, PollingStrategy.Timestamp
MESSAGES = 10_000
PARTITIONS = 3
BATCH_SIZES = (1, 399, 500, 100)
Route: TypeAlias = Callable[[int], tuple[Partitioning | int, int]]


def by_partition(number: int) -> tuple[int, int]:
    return number % PARTITIONS, number % PARTITIONS


def by_key(number: int) -> tuple[Partitioning, int]:
    key = f"customer-{number * number}"
    return Partitioning.messages_key(key), xxhash.xxh32_intdigest(key.encode()) % PARTITIONS


def balanced(number: int) -> tuple[Partitioning, int]:
    return Partitioning.balanced(), number % PARTITIONS


ROUTES: list[Route] = [by_partition, by_key, balanced]


def payload_of(number: int) -> bytes:
    return f"message {number}, ".encode() * (1 + number % 7)


def headers_of(number: int) -> dict[Any, Any]:
    return {"number": number, "kind": "odd" if number % 2 else "even", "ratio": number / 7}


def headers_size(number: int) -> int:
    """Bytes of the headers above, as they are stored."""
    numeric = 1 if number < 256 else 2
    ratio = 4 if number % 7 == 0 else 8  # exact in 32 bits, or not
    return 3 * 10 + len("numberkindratio") + numeric + (3 if number % 2 else 4) + ratio


async def read_all(client: IggyClient, stream: str, topic: str, partition: int) -> list[Any]:
    """All messages of a partition, by offset, in pieces that fit no batch."""
    found: list[ReceiveMessage] = []
    while True:
        piece = await poll(client, stream, topic, Offset(len(found)), 701, partition=partition)
        found += piece
        if not piece:
            return found


async def read_next(client: IggyClient, stream: str, topic: str, partition: int) -> list[int]:
    """The offsets that a consumer gets who asks for the next messages until there are none."""
    found: list[int] = []
    while True:
        piece = await poll(
            client, stream, topic, Next(), 999, partition=partition, consumer="me", commit=True
        )
        found += offsets(piece)
        if not piece:
            return found


@pytest.mark.parametrize("with_headers", [False, True], ids=["plain", "with headers"])
@pytest.mark.parametrize("route", ROUTES, ids=[route.__name__ for route in ROUTES])
@covers("send_messages", "poll_messages", "get_topic")
async def test_ten_thousand_messages(
    client: IggyClient, stream: str, topic: str, route: Route, with_headers: bool
) -> None:
    def headers(number: int) -> dict[Any, Any] | None:
        return headers_of(number) if with_headers else None

    sent: defaultdict[int, list[int]] = defaultdict(list)
    starts: defaultdict[int, list[int]] = defaultdict(list)
    first, turn, size = 0, 0, 0
    while first < MESSAGES:
        count = min(BATCH_SIZES[turn % len(BATCH_SIZES)], MESSAGES - first)
        numbers = range(first, first + count)
        batch = [
            SendMessage(
                payload_of(number), headers_of(number) if with_headers else None, number + 1
            )
            for number in numbers
        ]
        partitioning, partition = route(turn)
        response = await client.send_messages(stream, topic, partitioning, batch)
        (confirmation,) = response.confirmations
        assert (confirmation.partition_id, confirmation.base_offset) == (
            partition,
            len(sent[partition]),
        )
        starts[partition].append(len(sent[partition]))
        sent[partition] += numbers
        size += 256 + sum(
            48 + len(payload_of(number)) + (headers_size(number) if with_headers else 0)
            for number in numbers
        )
        first, turn = first + count, turn + 1

    details = await client.get_topic(stream, topic)
    assert figures(details) == figures(await client.get_stream(stream)) == (MESSAGES, size)
    assert [partition.messages_count for partition in details.partitions] == [
        len(sent[partition]) for partition in range(PARTITIONS)
    ]

    for partition in range(PARTITIONS):
        numbers = sent[partition]
        polled = await read_all(client, stream, topic, partition)
        assert offsets(polled) == list(range(len(numbers)))
        assert [message.id() for message in polled] == [number + 1 for number in numbers]
        assert payloads(polled) == [payload_of(number) for number in numbers]
        if with_headers:
            for message, number in zip(polled, numbers, strict=True):
                assert message.user_headers().to_scalar_dict() == headers_of(number)
        else:
            assert all(message.user_headers() is None for message in polled)

        times = [polled[start].timestamp() for start in starts[partition]]
        assert times == sorted(set(times))
        assert {message.timestamp() for message in polled} == set(times)
        for start, time in zip(starts[partition], times, strict=True):
            found = await poll(client, stream, topic, Timestamp(time), 1, partition=partition)
            assert offsets(found) == [start]
        assert (
            await poll(client, stream, topic, Timestamp(times[-1] + 1), partition=partition) == []
        )

        for count in (1, 50, 777):
            newest = await poll(client, stream, topic, Last(), count, partition=partition)
            assert payloads(newest) == payloads(polled[-count:])
            oldest = await poll(client, stream, topic, First(), count, partition=partition)
            assert payloads(oldest) == payloads(polled[:count])
        everything = await poll(client, stream, topic, First(), MESSAGES, partition=partition)
        assert offsets(everything) == offsets(polled)
        assert await read_next(client, stream, topic, partition) == offsets(polled)


@covers("send_messages", "poll_messages")
async def test_readers_while_messages_come_in(
    address: str, client: IggyClient, stream: str, topic: str
) -> None:
    total = 2000

    async def read(consumer: str) -> list[bytes]:
        own = IggyClient(address)
        await own.login_user("iggy", "iggy")
        found: list[bytes] = []
        while len(found) < total:
            found += payloads(
                await poll(own, stream, topic, Next(), 77, consumer=consumer, commit=True)
            )
        return found

    readers = [asyncio.ensure_future(read(consumer)) for consumer in ("one", "two")]
    expected = [f"{number}".encode() for number in range(total)]
    for start in range(0, total, 50):
        batch = [SendMessage(payload) for payload in expected[start : start + 50]]
        await client.send_messages(stream, topic, 0, batch)
    assert await asyncio.gather(*readers) == [expected, expected]
