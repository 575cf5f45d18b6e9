import struct
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import windsprite
from support.virtual_time import in_virtual_time
from windsprite.environment import SystemEnvironment
from windsprite.messages import Batch, build_send, read_batch, reader_of
from windsprite.session import SDK_VERSION
from windsprite.topic_options import options_for_create, options_for_update
from windsprite_protocol.batches import stamp_batch, verify_batch
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.hashing import partition_index
from windsprite_protocol.messages import Messages
from windsprite_protocol.model.identifiers import (
    Balanced,
    ByKey,
    Consumer,
    ConsumerKind,
    ToPartition,
)
from windsprite_protocol.model.messages import NO_PARTITION, PolledMessages, SendMessages
from windsprite_protocol.model.topics import NEVER_EXPIRES, UNLIMITED_SIZE
from windsprite_protocol.model.typed_values import TypedValue, ValueKind


class Fixed(SystemEnvironment):
    """Known time and randomness."""

    def wall_clock_us(self) -> int:
        return 5_000_000

    def random_bytes(self, count: int) -> bytes:
        return bytes(number % 256 for number in range(1, count + 1))


def sent(messages: Any, **changes: Any) -> SendMessages:
    values = {"key": None, "partition": None, "headers": None, "environment": Fixed(), **changes}
    return build_send("s", 7, messages, **values)


def test_messages_in_all_their_forms() -> None:
    request = sent(
        [
            b"bytes",
            "té",
            b"",
            windsprite.Message(b"m", {"k": 1}, id=2**128 - 1, origin_timestamp=4_000_000),
        ],
        headers={"default": True},
    )
    assert (request.stream, request.topic, request.messages_count) == ("s", 7, 4)
    verify_batch(request.batch, 4)
    messages = Messages([request.batch])
    assert [message.payload for message in messages] == [b"bytes", "té".encode(), b"", b"m"]
    assert [message.headers for message in messages] == [{"default": True}] * 3 + [{"k": 1}]
    assert [message.origin_timestamp for message in messages] == [5_000_000] * 3 + [4_000_000]
    assert messages[0].raw_id == bytes(range(1, 17))
    assert messages[1].raw_id == bytes(range(17, 33))
    assert messages[3].id == 2**128 - 1


def test_where_messages_go() -> None:
    assert sent([b"x"]).partitioning == Balanced()
    assert sent([b"x"], partition=3).partitioning == ToPartition(3)
    assert sent([b"x"], key=b"k").partitioning == ByKey(b"k")
    assert sent([b"x"], key="ü").partitioning == ByKey("ü".encode())


def test_keys_are_hashed_as_official_clients_do() -> None:
    # What a server makes of the key that is sent (spec 04, 4.3).
    for key, of_3, of_10 in ((b"user-42", 2, 6), (b"order-1", 2, 2), (b"a", 0, 0)):
        assert (partition_index(key, 3), partition_index(key, 10)) == (of_3, of_10)


@pytest.mark.parametrize(
    ("messages", "changes", "code"),
    [
        ([], {}, ErrorCode.INVALID_MESSAGES_COUNT),
        ([b"x"], {"key": b""}, ErrorCode.INVALID_KEY_VALUE_LENGTH),
        ([b"x"], {"key": b"k" * 256}, ErrorCode.INVALID_KEY_VALUE_LENGTH),
        ([b"x"], {"key": b"k", "partition": 1}, None),
        (b"not a list", {}, None),
        ("not a list", {}, None),
        ([1], {}, None),
        (["\ud800"], {}, None),
        ([windsprite.Message(b"", id=0)], {}, None),
        ([windsprite.Message(b"", id=2**128)], {}, None),
        ([windsprite.Message(b"", {"": 1})], {}, ErrorCode.INVALID_HEADER_KEY),
        ([windsprite.Message(b"", {"k": ""})], {}, ErrorCode.INVALID_HEADER_VALUE),
        ([b"x"], {"headers": {"k": object()}}, ErrorCode.INVALID_HEADER_VALUE),
        (
            [b"", windsprite.Message(b"", origin_timestamp=2**40)],
            {},
            ErrorCode.INVALID_MESSAGE_TIMESTAMP_DELTA,
        ),
    ],
)
def test_what_cannot_be_sent(
    messages: Any, changes: dict[str, Any], code: ErrorCode | None
) -> None:
    with pytest.raises(windsprite.InvalidRequest) as failure:
        sent(messages, **changes)
    assert failure.value.code is code


def test_a_batch_is_a_sequence() -> None:
    batch = sent([b"a", b"b", b"c"]).batch
    assert isinstance(batch, bytearray)
    stamp_batch(batch, partition_id=2, base_offset=10, base_timestamp=9)
    polled = read_batch(PolledMessages(2, 20, 3, (batch,)))
    assert isinstance(polled, Batch)
    assert (polled.partition, polled.current_offset, polled.next_offset) == (2, 20, 13)
    assert [message.offset for message in polled] == [10, 11, 12]
    assert [message.payload for message in polled[1:]] == [b"b", b"c"]
    assert polled[-1].payload == b"c"
    assert len(polled) == 3
    assert not read_batch(PolledMessages(2, 0, 0, ()))
    assert read_batch(PolledMessages(2, 0, 0, ())).next_offset is None


def test_a_batch_that_is_none() -> None:
    with pytest.raises(windsprite.ProtocolViolation):
        read_batch(PolledMessages(0, 0, 1, (bytes(100),)))


def test_who_reads() -> None:
    assert reader_of(None, None) == Consumer(ConsumerKind.SINGLE, 0)
    assert reader_of("me", None) == Consumer(ConsumerKind.SINGLE, "me")
    assert reader_of(None, 0) == Consumer(ConsumerKind.GROUP, 0)
    group = Consumer(ConsumerKind.GROUP, 1)
    assert reader_of(group, None) is group
    with pytest.raises(windsprite.InvalidRequest, match="not both"):
        reader_of(0, "g")


def test_a_poll_of_no_partition() -> None:
    batch = read_batch(PolledMessages(NO_PARTITION, 0, 0, ()))
    assert (batch.partition, len(batch)) == (-1, 0)


def test_topic_options() -> None:
    block = options_for_create(
        "doing",
        {
            "compression_algorithm": "gzip",
            "message_expiry": timedelta(days=7),
            "max_topic_size": "10 GiB",
            "segment_size": None,
            "durability": "persisted",
            "messages_required_to_save": 100,
            "preallocate_segments": True,
        },
        {"segment_size": 1 << 27, "new": "x"},
        3,
    )
    assert {option.key: option.value for option in block} == {
        "compression_algorithm": TypedValue(ValueKind.STRING, b"gzip"),
        "message_expiry": TypedValue(ValueKind.UINT64, struct.pack("<Q", 604_800_000_000)),
        "max_topic_size": TypedValue(ValueKind.UINT64, struct.pack("<Q", 10 << 30)),
        "durability": TypedValue(ValueKind.STRING, b"persisted"),
        "messages_required_to_save": TypedValue(ValueKind.UINT32, struct.pack("<I", 100)),
        "preallocate_segments": TypedValue(ValueKind.BOOL, b"\x01"),
        "segment_size": TypedValue(ValueKind.UINT64, struct.pack("<Q", 1 << 27)),
        "new": TypedValue(ValueKind.STRING, b"x"),
    }
    (never, unlimited) = options_for_update(
        "doing", {"message_expiry": "never_expire", "max_topic_size": "unlimited"}, {}
    )
    assert never.value.to_python() == NEVER_EXPIRES
    assert unlimited.value.to_python() == UNLIMITED_SIZE


@pytest.mark.parametrize(
    ("known", "others"),
    [
        ({"message_expiry": "soon"}, {}),
        ({"message_expiry": timedelta(0)}, {}),
        ({"message_expiry": timedelta(days=-1)}, {}),
        ({"segment_size": timedelta(1)}, {}),
        ({"segment_size": "big"}, {}),
        ({"segment_size": -1}, {}),
        ({"segment_size": 2**64}, {}),
        ({"durability": timedelta(1)}, {}),
        ({"durability": "maybe"}, {}),
        ({"compression_algorithm": "zip"}, {}),
        ({"segment_size": 5000}, {}),
        ({"messages_required_to_save": 0}, {}),
        ({"size_of_messages_required_to_save": "2 GiB"}, {}),
        ({}, {"preallocate_segments": "maybe"}),
        ({"segment_size": 1}, {"segment_size": 1}),
        ({}, {"key": ""}),
    ],
)
def test_topic_options_that_make_no_sense(known: dict[str, Any], others: dict[str, Any]) -> None:
    with pytest.raises(windsprite.InvalidRequest) as failure:
        options_for_create("doing", known, others, 1)
    assert failure.value.code is ErrorCode.INVALID_OPTION_VALUE
    assert next(iter({**known, **others})) in str(failure.value)


def test_options_that_a_server_would_refuse_without_naming_them() -> None:
    with pytest.raises(windsprite.InvalidRequest, match=r"x: max_topic_size: 5 is less") as failure:
        options_for_create("x", {"max_topic_size": 5}, {}, 1)
    assert failure.value.code is ErrorCode.INVALID_TOPIC_SIZE
    assert "segment_size" in failure.value.hint
    with pytest.raises(windsprite.InvalidRequest, match="'segment_size'") as failure:
        options_for_update("x", {}, {"segment_size": 1 << 20})
    assert failure.value.code is ErrorCode.UNSUPPORTED_OPTION_KEY
    with pytest.raises(windsprite.InvalidRequest, match="1001 partitions") as failure:
        options_for_create("x", {}, {}, 1001)
    assert failure.value.code is ErrorCode.TOO_MANY_PARTITIONS


def test_what_only_the_server_knows_is_left_to_it() -> None:
    assert options_for_update("x", {"max_topic_size": "1 MiB"}, {"of_a_later_server": 1})


@in_virtual_time
async def test_a_poll_of_nothing_is_refused_at_once() -> None:
    async with windsprite.Client(windsprite.Address.parse("h")) as client:
        with pytest.raises(windsprite.InvalidRequest) as failure:
            await client.poll("s", "t", count=0)
        assert failure.value.code is ErrorCode.INVALID_MESSAGES_COUNT
        with pytest.raises(windsprite.InvalidRequest, match="retry"):
            await client.send("s", "t", [b"x"], retry="maybe")  # type: ignore[arg-type]


def test_the_sdk_knows_its_version() -> None:
    project = Path(__file__).parents[3] / "pyproject.toml"
    assert tomllib.loads(project.read_text())["project"]["version"] == SDK_VERSION


def test_the_real_environment_is_random() -> None:
    environment = SystemEnvironment()
    assert environment.random_bytes(16) != environment.random_bytes(16)
    assert sorted(environment.shuffled(50)) == list(range(50))
    assert environment.shuffled(50) != environment.shuffled(50)
    assert 0 <= environment.uniform(0, 1) <= 1
    assert environment.wall_clock_us() > 1_700_000_000_000_000
