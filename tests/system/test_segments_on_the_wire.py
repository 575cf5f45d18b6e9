"""Segments that go, answer by answer and over restarts (spec 03, 4.15, 6 and 7; spec 04, 8.3)."""

import asyncio
import itertools
import signal
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.log import batch_of
from support.real_server import RealServer, real_server
from support.server_process import server_process
from support.wire_client import WireClient, evicted, result, status, success, wire_client
from windsprite_protocol.batches import iter_batches
from windsprite_protocol.model.identifiers import (
    Consumer,
    ConsumerKind,
    PollingKind,
    PollingStrategy,
    ToPartition,
)
from windsprite_protocol.model.messages import PolledMessages, PollMessages, SendMessages
from windsprite_protocol.model.offsets import (
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from windsprite_protocol.model.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from windsprite_protocol.model.streams import (
    CreateStream,
    DeleteStream,
    GetStream,
    GetStreams,
    PurgeStream,
)
from windsprite_protocol.model.system import GetStats
from windsprite_protocol.model.topics import (
    CreatePartitions,
    CreateTopic,
    DeletePartitions,
    DeleteSegments,
    DeleteTopic,
    GetTopic,
    Partition,
    PurgeTopic,
    UpdateTopic,
)
from windsprite_protocol.model.typed_values import Option, TypedValue, ValueKind
from windsprite_protocol.model.users import CreateUser

DELETE_SEGMENTS = 503
REQUESTED, COMMITTED = 138, 68
INVALID, UNAUTHORIZED = 3, 41
NO_STREAM, NO_TOPIC, NO_PARTITION = 1009, 2010, 3007

MIB = 1 << 20
SECOND = 1_000_000
PAYLOAD = bytes(200_000)
BATCH = 256 + 2 * (48 + len(PAYLOAD))
"""Bytes of a batch of two messages; three of them fill a segment."""
SEGMENT = 3 * BATCH

CONSUMER = Consumer(ConsumerKind.SINGLE, "slow")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RealServer]:
    async with real_server(tmp_path, settings={"retention": {"interval": "50 ms"}}) as server:
        yield server


@pytest.fixture
async def root(server: RealServer) -> AsyncIterator[WireClient]:
    """Root, and a stream `s` with a topic `t` of one partition with segments of 1 MiB."""
    async with server.client("iggy", "iggy") as client:
        await client.call(CreateStream("s"))
        await create_topic(client)
        yield client


@asynccontextmanager
async def running(
    folder: Path, settings: Mapping[str, Any] | None = None
) -> AsyncIterator[WireClient]:
    """Root on a server that looks at its partitions very often."""
    often = {"retention": {"interval": "50 ms"}, **(settings or {})}
    async with real_server(folder, settings=often) as server:
        async with server.client("iggy", "iggy") as client:
            yield client
        assert server.events("could not") == []


def option(key: str, value: int) -> Option:
    return Option(key, TypedValue.of(value, ValueKind.UINT64))


async def create_topic(
    client: WireClient, name: str = "t", partitions: int = 1, **limits: int
) -> None:
    options = (option("segment_size", MIB), *(option(*limit) for limit in limits.items()))
    await client.call(CreateTopic("s", partitions, name, options))


async def fill(client: WireClient, batches: int, *, topic: str = "t", partition: int = 0) -> None:
    for _ in range(batches):
        batch, _ = batch_of([PAYLOAD] * 2)
        await client.call(SendMessages("s", topic, ToPartition(partition), 2, batch))


async def partition(client: WireClient, number: int = 0, topic: str = "t") -> Partition:
    found: Partition = (await client.call(GetTopic("s", topic))).partitions[number]
    return found


async def becomes(client: WireClient, segments: int, number: int = 0) -> None:
    """Wait until a partition has so many segments."""
    async with asyncio.timeout(10):
        while (await partition(client, number)).segments_count != segments:
            await asyncio.sleep(0.01)


async def poll(client: WireClient, offset: int, count: int = 1) -> PolledMessages:
    strategy = PollingStrategy(PollingKind.OFFSET, offset)
    found: PolledMessages = await client.call(
        PollMessages(CONSUMER, "s", "t", 0, strategy, count, auto_commit=False)
    )
    return found


async def oldest(client: WireClient) -> int:
    """The offset of the oldest message."""
    data = b"".join((await poll(client, 0)).records)
    ((header, _),) = iter_batches(data)
    return header.base_offset


async def totals(client: WireClient) -> list[tuple[int, int]]:
    """Size and messages as topic, stream, list of streams, and server tell them."""
    topic = (await client.call(GetTopic("s", "t"))).topic
    stream = (await client.call(GetStream("s"))).stream
    (listed,) = await client.call(GetStreams())
    stats = await client.call(GetStats())
    return [
        (topic.size_bytes, topic.messages_count),
        (stream.size_bytes, stream.messages_count),
        (listed.size_bytes, listed.messages_count),
        (stats.messages_size_bytes, stats.messages_count),
    ]


# --- DeleteSegments: answers ---------------------------------------------------------------------


def body(stream: bytes, topic: bytes, partition_id: int, count: int) -> bytes:
    return stream + topic + struct.pack("<II", partition_id, count)


def named(text: str) -> bytes:
    return b"\x02" + bytes([len(text)]) + text.encode()


def numbered(number: int) -> bytes:
    return b"\x01\x04" + struct.pack("<I", number)


async def test_success_is_told_under_the_committed_operation(root: WireClient) -> None:
    await fill(root, 4)
    request = body(named("s"), named("t"), 0, 1)
    answer = await root.ask_code(DELETE_SEGMENTS, request)
    header = answer.header
    assert (header.operation, header.status, header.size) == (COMMITTED, 0, 260)
    assert answer.body == bytes(4)
    assert header.commit == header.op > 0
    assert (await partition(root)).segments_count == 1
    # Numbers, nothing left to be removed, no segment asked for, and bytes that nobody reads.
    for request in (
        body(numbered(0), numbered(0), 0, 1),
        body(numbered(0), numbered(0), 0, 0),
        body(numbered(0), numbered(0), 0, 2**32 - 1) + b"more",
    ):
        answer = await root.ask_code(DELETE_SEGMENTS, request)
        assert (answer.header.operation, answer.told) == (COMMITTED, success())


async def test_the_example_of_a_request(root: WireClient) -> None:
    await create_topic(root, "events", 2)
    await fill(root, 7, topic="events", partition=1)
    request = bytes.fromhex("01040000000002066576656e74730100000002000000")
    assert (await root.ask_code(DELETE_SEGMENTS, request)).told == success()
    assert (await partition(root, 1, "events")).segments_count == 1


async def test_rejections_are_told_under_the_committed_operation(
    server: RealServer, root: WireClient
) -> None:
    await root.call(CreateUser("alice", "secret"))
    async with server.client("alice", "secret") as alice:
        for client, request, code in (
            (root, body(named("x"), named("x"), 9, 1), NO_STREAM),
            (root, body(numbered(7), numbered(0), 0, 1), NO_STREAM),
            (root, body(named("s"), named("x"), 9, 1), NO_TOPIC),
            (root, body(numbered(0), numbered(7), 9, 1), NO_TOPIC),
            (root, body(named("s"), named("t"), 1, 1), NO_PARTITION),
            (root, body(named("s"), named("t"), 2**32 - 1, 0), NO_PARTITION),
            # What does not exist is told before what is forbidden, but for the partition.
            (alice, body(named("x"), named("t"), 0, 1), NO_STREAM),
            (alice, body(named("s"), named("x"), 0, 1), NO_TOPIC),
            (alice, body(named("s"), named("t"), 0, 1), UNAUTHORIZED),
            (alice, body(named("s"), named("t"), 9, 1), UNAUTHORIZED),
        ):
            answer = await client.ask_code(DELETE_SEGMENTS, request)
            assert (answer.header.operation, answer.header.status) == (COMMITTED, 0)
            assert answer.told == result(code), request


async def test_what_cannot_be_read_is_refused_under_the_operation_of_the_request(
    root: WireClient,
) -> None:
    whole = body(named("s"), named("t"), 0, 1)
    wrong = [whole[:length] for length in range(len(whole))]
    wrong += [b"\x03" + whole[1:], b"\x02\x00" + whole[2:], b"\x01\x03" + whole[2:]]
    for request in wrong:
        answer = await root.ask_code(DELETE_SEGMENTS, request)
        assert answer.header.operation == REQUESTED
        assert answer.told == status(INVALID), request


async def test_who_is_not_logged_in_is_evicted(server: RealServer) -> None:
    async with server.client() as stranger:
        request = body(named("s"), named("t"), 0, 1)
        answer = await stranger.ask(REQUESTED, request, session=1)
        assert answer.told == evicted(1)


async def test_a_repeated_request_is_answered_again_and_not_carried_out(root: WireClient) -> None:
    await fill(root, 10)
    frame = root.frame(REQUESTED, body(named("s"), named("t"), 0, 1))
    await root.send(*frame)
    first = await root.receive()
    assert (await partition(root)).segments_count == 3
    await root.send(*frame)
    assert (await root.receive()).data == first.data
    assert (await partition(root)).segments_count == 3
    rejected = root.frame(REQUESTED, body(named("s"), named("t"), 9, 1))
    await root.send(*rejected)
    first = await root.receive()
    await root.call(CreatePartitions("s", "t", 9))
    await root.send(*rejected)
    assert (await root.receive()).data == first.data
    assert first.told == result(NO_PARTITION)


@pytest.mark.parametrize(
    "permissions",
    [
        Permissions(GlobalPermissions(manage_streams=True)),
        Permissions(GlobalPermissions(manage_topics=True)),
        Permissions(streams=(StreamPermissions(0, manage_stream=True),)),
        Permissions(streams=(StreamPermissions(0, manage_topics=True),)),
        Permissions(
            streams=(StreamPermissions(0, topics=(TopicPermissions(0, manage_topic=True),)),)
        ),
    ],
)
async def test_each_grant_that_allows_it(
    server: RealServer, root: WireClient, permissions: Permissions
) -> None:
    await fill(root, 3)
    await root.call(CreateUser("alice", "secret", permissions=permissions))
    async with server.client("alice", "secret") as alice:
        assert await alice.told(DeleteSegments("s", "t", 0, 1)) == success()
    assert (await partition(root)).segments_count == 1


# --- DeleteSegments: what it does ----------------------------------------------------------------


async def test_the_oldest_go_and_offsets_go_on(root: WireClient) -> None:
    await fill(root, 10)
    assert await partition(root) == Partition(
        0, (await partition(root)).created_at, 4, 19, 3 * SEGMENT + BATCH, 20
    )
    await root.call(DeleteSegments("s", "t", 0, 2))
    after = await partition(root)
    assert (after.segments_count, after.current_offset) == (2, 19)
    assert (after.size_bytes, after.messages_count) == (SEGMENT + BATCH, 8)
    assert await totals(root) == [(SEGMENT + BATCH, 8)] * 4
    assert await oldest(root) == 12
    await root.call(DeleteSegments("s", "t", 0, 2**32 - 1))
    after = await partition(root)
    assert (after.segments_count, after.current_offset) == (1, 19)
    assert (after.size_bytes, after.messages_count) == (BATCH, 2)
    await fill(root, 1)
    assert (await partition(root)).current_offset == 21


async def test_an_emptied_partition_still_knows_where_it_was(root: WireClient) -> None:
    await fill(root, 3)
    await root.call(DeleteSegments("s", "t", 0, 1))
    after = await partition(root)
    assert (after.segments_count, after.current_offset) == (1, 5)
    assert (after.size_bytes, after.messages_count) == (0, 0)
    assert await totals(root) == [(0, 0)] * 4
    assert (await poll(root, 0)).records == ()
    assert await root.told(StoreConsumerOffset(CONSUMER, "s", "t", 0, 5)) == success()
    assert await root.told(StoreConsumerOffset(CONSUMER, "s", "t", 0, 6)) == status(4100)


async def test_a_slow_consumer_holds_segments_back_until_it_moves_on(root: WireClient) -> None:
    await fill(root, 9)
    await root.call(StoreConsumerOffset(CONSUMER, "s", "t", 0, 8))
    assert await root.told(DeleteSegments("s", "t", 0, 3)) == success()
    assert (await partition(root)).segments_count == 3
    assert await oldest(root) == 6
    await fill(root, 3)  # after the request: not concerned by it
    await root.call(StoreConsumerOffset(CONSUMER, "s", "t", 0, 23))
    await becomes(root, 2)
    assert await oldest(root) == 18
    offset = await root.call(GetConsumerOffset(CONSUMER, "s", "t", 0))
    assert offset.stored_offset == 23


async def test_requests_stay_in_force_over_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as root:
        await root.call(CreateStream("s"))
        await create_topic(root)
        await fill(root, 9)
        await root.call(StoreConsumerOffset(CONSUMER, "s", "t", 0, 0))
        await root.call(DeleteSegments("s", "t", 0, 2))
        assert (await partition(root)).segments_count == 4
    # Even if nothing else is ever removed.
    async with running(tmp_path, {"retention": {"enabled": False}}) as root:
        assert (await partition(root)).segments_count == 4
        await root.call(DeleteConsumerOffset(CONSUMER, "s", "t", 0))
        await becomes(root, 2)
        assert await oldest(root) == 12
    async with running(tmp_path) as root:
        await becomes(root, 2)  # what a stop has cut short is done again
        after = await partition(root)
        assert (after.segments_count, after.current_offset) == (2, 17)
        assert (after.size_bytes, after.messages_count) == (SEGMENT, 6)


async def test_a_purge_ends_what_was_requested(root: WireClient) -> None:
    await fill(root, 6)
    await root.call(StoreConsumerOffset(CONSUMER, "s", "t", 0, 0))
    await root.call(DeleteSegments("s", "t", 0, 2))
    await root.call(PurgeTopic("s", "t"))
    await fill(root, 7)
    await asyncio.sleep(1.2)
    assert (await partition(root)).segments_count == 3
    assert await oldest(root) == 0


# --- Retention -----------------------------------------------------------------------------------


async def test_expired_messages_go_and_offsets_go_on(tmp_path: Path) -> None:
    async with running(tmp_path) as root:
        await root.call(CreateStream("s"))
        await create_topic(root, message_expiry=SECOND)
        await fill(root, 7)
        assert (await partition(root)).segments_count == 3
        await becomes(root, 1)
        after = await partition(root)
        assert (after.current_offset, after.messages_count) == (13, 2)
        assert after.size_bytes == BATCH
        assert await totals(root) == [(BATCH, 2)] * 4
        assert await oldest(root) == 12
        await fill(root, 2)
    async with running(tmp_path) as root:
        await becomes(root, 1)
        after = await partition(root)
        assert (after.current_offset, after.messages_count, after.size_bytes) == (17, 0, 0)
        await fill(root, 1)
        assert await oldest(root) == 18


async def test_an_update_makes_messages_expire(root: WireClient) -> None:
    await fill(root, 3)
    await asyncio.sleep(0.2)
    assert (await partition(root)).segments_count == 2
    await root.call(UpdateTopic("s", "t", "t", (option("message_expiry", 1),)))
    await becomes(root, 1)


async def test_a_slow_consumer_pins_even_what_has_expired(tmp_path: Path) -> None:
    async with running(tmp_path) as root:
        await root.call(CreateStream("s"))
        await create_topic(root, message_expiry=1)
        await fill(root, 1)
        await root.call(StoreConsumerOffset(CONSUMER, "s", "t", 0, 1))
        await fill(root, 5)
        await asyncio.sleep(0.3)
        assert (await partition(root)).segments_count == 3
    async with running(tmp_path) as root:
        await asyncio.sleep(0.3)
        assert (await partition(root)).segments_count == 3
        await root.call(StoreConsumerOffset(CONSUMER, "s", "t", 0, 5))
        await becomes(root, 2)
        await root.call(DeleteConsumerOffset(CONSUMER, "s", "t", 0))
        await becomes(root, 1)


async def test_each_partition_keeps_its_share_of_the_size_of_a_topic(tmp_path: Path) -> None:
    # At least one segment and one frame are kept: 1.5 MiB here.
    settings = {"limits": {"max_frame_size": "512 KiB"}}
    async with running(tmp_path, settings) as root:
        await root.call(CreateStream("s"))
        await create_topic(root, partitions=2, max_topic_size=6 * MIB)
        for number in (0, 1):
            await fill(root, 13, partition=number)
        for number in (0, 1):
            await becomes(root, 3, number)  # two full ones in 3 MiB
        await root.call(UpdateTopic("s", "t", "t", (option("max_topic_size", MIB),)))
        for number in (0, 1):
            await becomes(root, 2, number)
        assert await totals(root) == [(2 * (SEGMENT + BATCH), 16)] * 4
        await root.call(UpdateTopic("s", "t", "t", (option("max_topic_size", 2**64 - 1),)))
        await fill(root, 6)
        await asyncio.sleep(0.2)
        assert (await partition(root)).segments_count == 4


async def test_nothing_is_removed_where_it_is_turned_off(tmp_path: Path) -> None:
    async with running(tmp_path, {"retention": {"enabled": False, "interval": "50 ms"}}) as root:
        await root.call(CreateStream("s"))
        await create_topic(root, message_expiry=1, max_topic_size=MIB)
        await fill(root, 6)
        await asyncio.sleep(0.3)
        assert (await partition(root)).segments_count == 3
        await root.call(DeleteSegments("s", "t", 0, 1))
        assert (await partition(root)).segments_count == 2


async def test_readers_and_writers_go_on_while_segments_go(tmp_path: Path) -> None:
    async with running(tmp_path) as root:
        await root.call(CreateStream("s"))
        await create_topic(root, message_expiry=1)
        last = -1
        for sent in itertools.count(1):
            await fill(root, 1)
            found = await poll(root, last + 1, 100)
            assert found.messages_count in {0, 2}  # none: they have expired already
            last = found.current_offset
            assert last == 2 * sent - 1
            if sent >= 12 and (await partition(root)).segments_count <= 2:
                break


async def test_bug_07_a_killed_server_does_not_begin_anew_after_removing_all(
    tmp_path: Path,
) -> None:
    for life in range(3):
        with server_process(tmp_path) as server:
            async with wire_client(server.wait_ready()["tcp"]) as root:
                await root.login()
                if life == 0:
                    await root.call(CreateStream("s"))
                    await create_topic(root)
                else:
                    after = await partition(root)
                    assert (after.current_offset, after.messages_count) == (6 * life - 1, 0)
                await fill(root, 3)
                assert await oldest(root) == 6 * life
                await root.call(DeleteSegments("s", "t", 0, 1))
            server.send(signal.SIGKILL)
            server.wait_end()


# --- Counters ------------------------------------------------------------------------------------


async def test_counters_after_everything_that_removes_messages(root: WireClient) -> None:
    await create_topic(root, "u", 2)
    await fill(root, 4)
    await fill(root, 1, topic="u", partition=0)
    await fill(root, 2, topic="u", partition=1)

    async def stream() -> tuple[int, int, int]:
        found = (await root.call(GetStream("s"))).stream
        stats = await root.call(GetStats())
        assert (stats.messages_size_bytes, stats.messages_count) == (
            found.size_bytes,
            found.messages_count,
        )
        return found.size_bytes // BATCH, found.messages_count, stats.segments_count

    assert await stream() == (7, 14, 4)
    await root.call(DeleteSegments("s", "t", 0, 1))
    assert await stream() == (4, 8, 3)
    await root.call(PurgeTopic("s", "t"))
    assert await stream() == (3, 6, 3)
    await root.call(PurgeTopic("s", "t"))
    assert await stream() == (3, 6, 3)
    await root.call(CreatePartitions("s", "u", 2))
    assert await stream() == (3, 6, 5)
    await root.call(DeletePartitions("s", "u", 3))
    assert await stream() == (1, 2, 2)
    await root.call(DeleteTopic("s", "t"))
    assert await stream() == (1, 2, 1)
    await root.call(PurgeStream("s"))
    assert await stream() == (0, 0, 1)
    await fill(root, 1, topic="u")
    assert await stream() == (1, 2, 1)
    await root.call(DeleteStream("s"))
    stats = await root.call(GetStats())
    assert (stats.streams_count, stats.topics_count, stats.partitions_count) == (0, 0, 0)
    assert (stats.segments_count, stats.messages_count, stats.messages_size_bytes) == (0, 0, 0)
