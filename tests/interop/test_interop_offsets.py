"""Stored offsets: what the official client shows of them, and every rule on the wire (spec 04, 7).

The official client has methods for the offsets of groups only; those of single consumers go
through its raw requests here, or through a client that shows every byte.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import pytest
from apache_iggy import IggyClient, PollingStrategy

from support.official_client import fails_with, logged_in, messages, offsets, poll
from support.wire_client import (
    WireClient,
    evicted,
    status,
    success,
    wire_client,
)
from windsprite_protocol.model.identifiers import AckLevel, Consumer, ConsumerKind
from windsprite_protocol.model.offsets import (
    ConsumerOffset,
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)

covers = pytest.mark.covers

GET, STORE, DELETE = 120, 121, 122
ME = Consumer(ConsumerKind.SINGLE, "me")
NO_SESSION = 1
Request: TypeAlias = GetConsumerOffset | StoreConsumerOffset | DeleteConsumerOffset


@dataclass(frozen=True)
class Target:
    """A topic with three partitions, the second of which holds offsets 0 to 4."""

    stream: str
    topic: str

    def get(self, consumer: Consumer = ME, partition: int | None = 1) -> GetConsumerOffset:
        return GetConsumerOffset(consumer, self.stream, self.topic, partition)

    def store(
        self,
        offset: int,
        consumer: Consumer = ME,
        partition: int | None = 1,
        ack: AckLevel = AckLevel.QUORUM,
    ) -> StoreConsumerOffset:
        return StoreConsumerOffset(consumer, self.stream, self.topic, partition, offset, ack)

    def delete(
        self,
        consumer: Consumer = ME,
        partition: int | None = 1,
        ack: AckLevel = AckLevel.QUORUM,
    ) -> DeleteConsumerOffset:
        return DeleteConsumerOffset(consumer, self.stream, self.topic, partition, ack)


@pytest.fixture
async def target(client: IggyClient, stream: str, topic: str) -> Target:
    await client.send_messages(stream, topic, 1, messages(*"abcde"))
    return Target(stream, topic)


def body(
    target: Target, *, consumer: bytes = b"\x01\x02\x02me", partition: int | None = 1
) -> bytes:
    """What the bodies of the three commands begin with, built by hand (spec 04, 7.1)."""
    names = b"".join(
        b"\x02" + bytes([len(name)]) + name.encode() for name in (target.stream, target.topic)
    )
    chosen = bytes(5) if partition is None else b"\x01" + struct.pack("<I", partition)
    return consumer + names + chosen


async def next_offsets(client: IggyClient, target: Target) -> list[int]:
    """What the consumer gets next."""
    polled = await poll(
        client, target.stream, target.topic, PollingStrategy.Next(), partition=1, consumer="me"
    )
    return offsets(polled)


# --- With the official client --------------------------------------------------------------------


@covers("send_binary_request")
async def test_storing_and_forgetting(client: IggyClient, target: Target) -> None:
    key = body(target)
    assert await client.send_binary_request(GET, key) == b""
    with fails_with(3021):
        await client.send_binary_request(DELETE, key + b"\x01")
    assert await client.send_binary_request(STORE, key + struct.pack("<QB", 2, 1)) == b""
    assert await client.send_binary_request(GET, key) == struct.pack("<IQQ", 1, 4, 2)
    assert await next_offsets(client, target) == [3, 4]
    assert await client.send_binary_request(DELETE, key + b"\x01") == b""
    assert await client.send_binary_request(GET, key) == b""
    assert await next_offsets(client, target) == [0, 1, 2, 3, 4]
    with fails_with(3021):
        await client.send_binary_request(DELETE, key + b"\x01")


@covers("send_binary_request", "poll_messages")
async def test_what_polling_commits_is_what_is_stored(client: IggyClient, target: Target) -> None:
    key = body(target)
    stream, topic = target.stream, target.topic
    await poll(client, stream, topic, count=3, partition=1, consumer="me", commit=False)
    assert await client.send_binary_request(GET, key) == b""
    await poll(client, stream, topic, count=3, partition=1, consumer="me", commit=True)
    assert await client.send_binary_request(GET, key) == struct.pack("<IQQ", 1, 4, 2)
    await client.send_messages(stream, topic, 1, messages("f"))
    assert await client.send_binary_request(GET, key) == struct.pack("<IQQ", 1, 5, 2)


@pytest.mark.parametrize("offset", [0, 1, 2**64 - 1])
@covers("send_binary_request")
async def test_nothing_can_be_stored_for_an_empty_partition(
    client: IggyClient, target: Target, offset: int
) -> None:
    with fails_with(4100):
        await client.send_binary_request(
            STORE, body(target, partition=0) + struct.pack("<QB", offset, 1)
        )


@covers("send_binary_request")
async def test_only_offsets_that_exist_can_be_stored(client: IggyClient, target: Target) -> None:
    key = body(target)
    for offset in (2, 4):
        await client.send_binary_request(STORE, key + struct.pack("<QB", offset, 1))
    for offset in (5, 6, 2**64 - 1):
        with fails_with(4100):
            await client.send_binary_request(STORE, key + struct.pack("<QB", offset, 1))
    assert await client.send_binary_request(GET, key) == struct.pack("<IQQ", 1, 4, 4)


@covers("send_binary_request")
async def test_going_back(client: IggyClient, target: Target) -> None:
    for offset, rest in ((4, []), (1, [2, 3, 4]), (0, [1, 2, 3, 4]), (3, [4])):
        await client.send_binary_request(STORE, body(target) + struct.pack("<QB", offset, 1))
        assert await next_offsets(client, target) == rest


@covers("send_binary_request", "purge_topic", "purge_stream")
async def test_a_purge_forgets_offsets(client: IggyClient, target: Target) -> None:
    for purge in (
        lambda: client.purge_topic(target.stream, target.topic),
        lambda: client.purge_stream(target.stream),
    ):
        await client.send_binary_request(STORE, body(target) + struct.pack("<QB", 4, 1))
        await purge()
        assert await client.send_binary_request(GET, body(target)) == b""
        await client.send_messages(target.stream, target.topic, 1, messages(*"abcde"))
        assert await client.send_binary_request(GET, body(target)) == b""


# --- On the wire ---------------------------------------------------------------------------------

NOWHERE = Target("no such stream", "events")


def nowhere(target: Target) -> Target:
    return NOWHERE


def no_topic(target: Target) -> Target:
    return Target(target.stream, "no such topic")


Make: TypeAlias = Callable[[Target, Consumer, int | None], Request]
ALL: dict[str, Make] = {
    "get": lambda target, consumer, partition: target.get(consumer, partition),
    "store": lambda target, consumer, partition: target.store(0, consumer, partition),
    "delete": lambda target, consumer, partition: target.delete(consumer, partition),
}
WRITES = {name: ALL[name] for name in ("store", "delete")}


@covers("120, 121, 122 on the wire")
async def test_the_bytes_of_every_success(wire: WireClient, target: Target) -> None:
    stored = await wire.answer_to(target.store(3))
    assert (stored.header.operation, stored.body) == (161, bytes(4))
    got = await wire.answer_to(target.get())
    assert (got.header.operation, got.header.status) == (2, 0)
    assert got.body == struct.pack("<IQQ", 1, 4, 3)
    deleted = await wire.answer_to(target.delete())
    assert (deleted.header.operation, deleted.body) == (162, bytes(4))
    nothing = await wire.answer_to(target.get())
    assert (nothing.header.operation, nothing.header.status, nothing.body) == (2, 0, b"")


@pytest.mark.parametrize("name", ALL)
@covers("120, 121, 122 on the wire")
async def test_what_is_missing(wire: WireClient, target: Target, name: str) -> None:
    make = ALL[name]
    assert await wire.told(make(nowhere(target), ME, 1)) == status(1009)
    assert await wire.told(make(no_topic(target), ME, 1)) == status(2010)
    for partition in (3, 2**32 - 1):
        assert await wire.told(make(target, ME, partition)) == status(3007)
    by_number = Target(999_999, 999_999)  # type: ignore[arg-type]
    assert await wire.told(make(by_number, ME, 1)) == status(1009)


@pytest.mark.parametrize("name", WRITES)
@covers("120, 121, 122 on the wire")
async def test_a_write_names_its_partition(wire: WireClient, target: Target, name: str) -> None:
    for place in (target, nowhere(target), no_topic(target)):
        assert await wire.told(WRITES[name](place, ME, None)) == status(6)


@covers("120, 121, 122 on the wire")
async def test_a_read_without_partition_is_one_of_partition_0(
    client: IggyClient, wire: WireClient, target: Target
) -> None:
    await client.send_messages(target.stream, target.topic, 0, messages("a", "b"))
    await wire.call(target.store(0, partition=0))
    await wire.call(target.store(4, partition=1))
    assert await wire.call(target.get(partition=None)) == ConsumerOffset(0, 1, 0)
    # Only a flag of exactly 1 says that a partition follows.
    answer = await wire.ask_code(GET, body(target)[:-5] + b"\x02\x01\x00\x00\x00")
    assert answer.told == success(struct.pack("<IQQ", 0, 1, 0))


@pytest.mark.parametrize("name", ALL)
@covers("120, 121, 122 on the wire")
async def test_nobody_is_logged_in(address: str, target: Target, name: str) -> None:
    async with wire_client(address) as wire:
        wire.session = 1
        expected = status(40) if name == "get" else evicted(NO_SESSION)
        for partition in (1, 7, None):
            assert await wire.told(ALL[name](target, ME, partition)) == expected
        await wire.login()
        assert await wire.told(target.get()) == success()


@pytest.mark.parametrize(
    ("code", "tail"), [(GET, b""), (STORE, bytes(8) + b"\x01"), (DELETE, b"\x01")]
)
@covers("120, 121, 122 on the wire")
async def test_bodies_that_cannot_be_read(
    wire: WireClient, target: Target, code: int, tail: bytes
) -> None:
    whole = body(target) + tail
    for end in range(len(whole)):
        assert (await wire.ask_code(code, whole[:end])).told == status(3)
    for wrong in (
        b"\x03\x02\x02me",  # a third kind of consumer
        b"\x00\x02\x02me",
        b"\x01\x03\x02me",  # a third kind of identifier
        b"\x01\x02\x00",  # a name without bytes
        b"\x01\x01\x02me",  # a number of two bytes
        b"\x01\x02\x02\xff\xfe",  # no UTF-8
    ):
        assert (await wire.ask_code(code, body(target, consumer=wrong) + tail)).told == status(3)
    if code != GET:
        assert (await wire.ask_code(code, whole[:-1] + b"\x02")).told == status(3)
    assert await wire.told(target.get()) == success()


@pytest.mark.parametrize(
    ("code", "tail"), [(GET, b""), (STORE, bytes(8) + b"\x01"), (DELETE, b"\x01")]
)
@covers("120, 121, 122 on the wire")
async def test_bytes_after_the_last_field_are_ignored(
    wire: WireClient, target: Target, code: int, tail: bytes
) -> None:
    await wire.call(target.store(0))
    answer = await wire.ask_code(code, body(target) + tail + b"and more")
    assert answer.told.channel == "success"


@pytest.mark.parametrize("ack", AckLevel)
@covers("120, 121, 122 on the wire")
async def test_both_levels_of_acknowledgement_are_seen_at_once(
    address: str, wire: WireClient, target: Target, ack: AckLevel
) -> None:
    async with wire_client(address) as other:
        await other.login()
        assert await wire.told(target.store(2, ack=ack)) == success()
        assert await other.call(target.get()) == ConsumerOffset(1, 4, 2)
        assert await wire.told(target.store(9, ack=ack)) == status(4100)
        assert await wire.told(target.delete(ack=ack)) == success()
        assert await other.call(target.get()) is None
        assert await wire.told(target.delete(ack=ack)) == status(3021)


@covers("120, 121, 122 on the wire")
async def test_whose_offset_it_is(client: IggyClient, wire: WireClient, target: Target) -> None:
    await client.send_messages(target.stream, target.topic, 2, messages(*"abc"))
    billing, number = Consumer(ConsumerKind.SINGLE, "billing"), 0x6B09AE08
    await wire.call(target.store(1, billing))
    same = Consumer(ConsumerKind.SINGLE, number)
    assert await wire.call(target.get(same)) == ConsumerOffset(1, 4, 1)
    await wire.call(target.store(2, same))
    assert await wire.call(target.get(billing)) == ConsumerOffset(1, 4, 2)
    for other in ("Billing", "billing ", number + 1, 0, 2**32 - 1):
        assert await wire.call(target.get(Consumer(ConsumerKind.SINGLE, other))) is None
    assert await wire.call(target.get(billing, 2)) is None
    await wire.call(target.store(0, billing, 2))
    await wire.call(target.delete(same))
    assert await wire.call(target.get(billing)) is None
    assert await wire.call(target.get(billing, 2)) == ConsumerOffset(2, 2, 0)


@covers("120, 121, 122 on the wire")
async def test_how_many_consumers_a_partition_remembers(small_address: str) -> None:
    client = await logged_in(small_address)  # of a server that allows five
    stream = "remembers five"
    await client.create_stream(stream)
    await client.create_topic(stream, "events", 3)
    await client.send_messages(stream, "events", 1, messages(*"abcde"))
    await client.send_messages(stream, "events", 2, messages(*"abcde"))
    target = Target(stream, "events")

    def consumer(number: int) -> Consumer:
        return Consumer(ConsumerKind.SINGLE, number)

    async with wire_client(small_address) as wire:
        await wire.login()
        for number in range(5):
            assert await wire.told(target.store(0, consumer(number))) == success()
        assert await wire.told(target.store(0, consumer(5))) == status(3024)
        with pytest.raises(RuntimeError):
            await poll(client, stream, "events", partition=1, consumer=5, commit=True)
        assert await wire.call(target.get(consumer(5))) is None
        assert len(await poll(client, stream, "events", partition=1, consumer=5)) == 5
        # Those that are known may go on, and other partitions have room of their own.
        assert await wire.told(target.store(1, consumer(4))) == success()
        assert len(await poll(client, stream, "events", partition=1, consumer=3, commit=True)) == 5
        assert await wire.told(target.store(0, consumer(5), 2)) == success()
        assert await wire.told(target.delete(consumer(0))) == success()
        assert await wire.told(target.store(0, consumer(5))) == success()


# --- Groups --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WRITES)
@covers("120, 121, 122 on the wire")
async def test_writes_for_a_group_that_is_missing(
    wire: WireClient, target: Target, name: str
) -> None:
    make = WRITES[name]
    by_name, by_number = (Consumer(ConsumerKind.GROUP, id_) for id_ in ("missing", 999_999))
    assert await wire.told(make(target, by_name, None)) == status(6)
    assert await wire.told(make(nowhere(target), by_name, 1)) == status(20)
    assert await wire.told(make(no_topic(target), by_name, 1)) == status(20)
    assert await wire.told(make(target, by_name, 1)) == status(5003)
    assert await wire.told(make(target, by_number, 1)) == status(5000)


@covers("120, 121, 122 on the wire")
async def test_reads_for_a_group_that_is_missing(wire: WireClient, target: Target) -> None:
    for id_ in ("missing", 999_999):
        group = Consumer(ConsumerKind.GROUP, id_)
        assert await wire.told(target.get(group)) == success()
        assert await wire.told(target.get(group, None)) == success()
        assert await wire.told(nowhere(target).get(group)) == status(1009)
        assert await wire.told(no_topic(target).get(group)) == status(2010)


@covers("send_binary_request")
async def test_groups_with_the_official_client(client: IggyClient, target: Target) -> None:
    by_number = body(target, consumer=b"\x02\x01\x04" + struct.pack("<I", 7))
    by_name = body(target, consumer=b"\x02\x02\x01g")
    for code, tail in ((STORE, struct.pack("<QB", 0, 1)), (DELETE, b"\x01")):
        with fails_with(5000):
            await client.send_binary_request(code, by_number + tail)
        with fails_with(5003):
            await client.send_binary_request(code, by_name + tail)
    assert await client.send_binary_request(GET, by_name) == b""
