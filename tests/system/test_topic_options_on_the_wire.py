"""Topics and their options, byte for byte (spec 03, 4.7, 4.9, 4.11, 5 and 10)."""

import itertools
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.log import batch_of
from support.real_server import RealServer, real_server
from support.wire_client import Told, WireClient, result, status, success
from windsprite_protocol.model.identifiers import ToPartition
from windsprite_protocol.model.messages import SendMessages
from windsprite_protocol.model.permissions import GlobalPermissions, Permissions
from windsprite_protocol.model.users import CreateUser

DESCRIBE, CREATE_STREAM, GET_TOPIC, CREATE_TOPIC, UPDATE_TOPIC = 13, 202, 300, 302, 304
CREATED = 64
"""The operation of the reply to the creation of a topic (spec 01, 3.3)."""

INVALID = 3
UNAUTHORIZED = 41
NO_STREAM, INVALID_TOPIC_SIZE = 1009, 1019
NO_TOPIC, TOPIC_EXISTS, TOO_MANY_PARTITIONS = 2010, 2013, 2015
UNKNOWN_OPTION, INVALID_OPTION = 4041, 4042

RAW, STRING, BOOL, UINT8, UINT32, UINT64 = 1, 2, 3, 9, 11, 12
NEVER = UNLIMITED = 2**64 - 1
MIB, GIB = 1 << 20, 1 << 30

# The worked examples; T1 is when the topic was created, and gets replaced.

T1 = bytes.fromhex("6083a8875b580600")
CREATE_EVENTS = bytes.fromhex(
    """
    02066f726465727302000000066576656e7473021a000000636f6e73756d65725f6f66667365745f64757261
    62696c697479020a0000007265706c696361746564020a0000006475726162696c6974790209000000706572
    736973746564020e0000006d6573736167655f6578706972790c0800000000a0e3d08c000000020c00000073
    65676d656e745f73697a650207000000313238204d6942
    """
)
CREATED_EVENTS = bytes.fromhex(
    """
    00000000000000006083a8875b5806000200000000a0e3d08c00000001ffffffffffffffff00000000000000
    000000000000000000066576656e747389000000021a000000636f6e73756d65725f6f66667365745f647572
    6162696c697479020a0000007265706c696361746564020a0000006475726162696c69747902090000007065
    72736973746564020e0000006d6573736167655f6578706972790c0800000000a0e3d08c000000020c000000
    7365676d656e745f73697a650c080000000000000800000000bc0000000215000000636f6d7072657373696f
    6e5f616c676f726974686d02040000006e6f6e65020e0000006d61785f746f7069635f73697a650c08000000
    ffffffffffffffff02190000006d657373616765735f72657175697265645f746f5f736176650b0400000000
    0400000214000000707265616c6c6f636174655f7365676d656e7473030100000000022100000073697a655f
    6f665f6d657373616765735f72657175697265645f746f5f736176650c080000000000100000000000000000
    006083a8875b58060000000000000000000000000000000000000000000000000000000000010000006083a8
    875b58060000000000000000000000000000000000000000000000000000000000
    """
)
EVENTS_AFTER_ONE_SEND = bytes.fromhex(
    """
    000000006083a8875b5806000200000000a0e3d08c00000001ffffffffffffffffae01000000000000030000
    0000000000066576656e747389000000021a000000636f6e73756d65725f6f66667365745f6475726162696c
    697479020a0000007265706c696361746564020a0000006475726162696c6974790209000000706572736973
    746564020e0000006d6573736167655f6578706972790c0800000000a0e3d08c000000020c0000007365676d
    656e745f73697a650c080000000000000800000000bc0000000215000000636f6d7072657373696f6e5f616c
    676f726974686d02040000006e6f6e65020e0000006d61785f746f7069635f73697a650c08000000ffffffff
    ffffffff02190000006d657373616765735f72657175697265645f746f5f736176650b040000000004000002
    14000000707265616c6c6f636174655f7365676d656e7473030100000000022100000073697a655f6f665f6d
    657373616765735f72657175697265645f746f5f736176650c080000000000100000000000000000006083a8
    875b580600010000000200000000000000ae010000000000000300000000000000010000006083a8875b5806
    0001000000000000000000000000000000000000000000000000000000
    """
)
SDK_BLOCK = bytes.fromhex(
    """
    0214000000707265616c6c6f636174655f7365676d656e7473030100000001020c0000007365676d656e745f
    73697a650c080000000000004000000000020a0000006475726162696c697479020900000070657273697374
    6564
    """
)

# --- Bodies, put together by hand ----------------------------------------------------------------


def name(text: str) -> bytes:
    encoded = text.encode()
    return bytes([len(encoded)]) + encoded


def named(text: str) -> bytes:
    return b"\x02" + name(text)


def option(key: str, kind: int, value: bytes) -> bytes:
    return b"".join(
        bytes([field_kind]) + struct.pack("<I", len(field)) + field
        for field_kind, field in ((STRING, key.encode()), (kind, value))
    )


def text(key: str, value: str) -> bytes:
    return option(key, STRING, value.encode())


def u64(key: str, value: int) -> bytes:
    return option(key, UINT64, struct.pack("<Q", value))


def u32(key: str, value: int) -> bytes:
    return option(key, UINT32, struct.pack("<I", value))


def flag(key: str, value: int) -> bytes:
    return option(key, BOOL, bytes([value]))


def create(*options: bytes, stream: str = "s", topic: str = "t", partitions: int = 1) -> bytes:
    return named(stream) + struct.pack("<I", partitions) + name(topic) + b"".join(options)


def update(*options: bytes, stream: str = "s", topic: str = "t", to: str = "t") -> bytes:
    return named(stream) + named(topic) + name(to) + b"".join(options)


def get(stream: str = "s", topic: str = "t") -> bytes:
    return named(stream) + named(topic)


def block(*options: bytes) -> bytes:
    return struct.pack("<I", sum(map(len, options))) + b"".join(options)


DEFAULTS = {
    "compression_algorithm": text("compression_algorithm", "none"),
    "consumer_offset_durability": text("consumer_offset_durability", "replicated"),
    "durability": text("durability", "replicated"),
    "max_topic_size": u64("max_topic_size", UNLIMITED),
    "message_expiry": u64("message_expiry", NEVER),
    "messages_required_to_save": u32("messages_required_to_save", 1024),
    "preallocate_segments": flag("preallocate_segments", 0),
    "segment_size": u64("segment_size", GIB),
    "size_of_messages_required_to_save": u64("size_of_messages_required_to_save", MIB),
}
"""The option of each key as a topic has it by default, in the order of reports."""


def topic_header(
    created_at: int,
    *explicit: bytes,
    derived: list[bytes],
    expiry: int = NEVER,
    compression: int = 1,
    size: int = UNLIMITED,
    partitions: int = 1,
    topic: str = "t",
) -> bytes:
    fields = struct.pack("<IQIQBQQQ", 0, created_at, partitions, expiry, compression, size, 0, 0)
    return fields + name(topic) + block(*explicit) + block(*derived)


def partition(number: int, created_at: int, segments: int = 1) -> bytes:
    return struct.pack("<IQIQQQ", number, created_at, segments, 0, 0, 0)


def without(*keys: str) -> list[bytes]:
    return [option for key, option in DEFAULTS.items() if key not in keys]


def created_at(body: bytes) -> int:
    """When the topic of a reply was created; its header begins the body."""
    return int.from_bytes(body[4:12], "little")


# --- Fixtures ------------------------------------------------------------------------------------


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RealServer]:
    async with real_server(tmp_path) as server:
        yield server


@pytest.fixture
async def root(server: RealServer) -> AsyncIterator[WireClient]:
    """Root, and a stream `s` with the id 0."""
    async with server.client("iggy", "iggy") as client:
        assert (await client.ask_code(CREATE_STREAM, name("s"))).told.channel == "success"
        yield client


async def told(client: WireClient, code: int, body: bytes) -> Told:
    return (await client.ask_code(code, body)).told


async def check_all(client: WireClient, code: int, cases: dict[bytes, Told]) -> None:
    """Ask for all of them; shows all that were answered differently."""
    answers = {body: await told(client, code, body) for body in cases}
    wrong = {body: answer for body, answer in answers.items() if answer != cases[body]}
    assert wrong == {}


# --- The worked examples -------------------------------------------------------------------------


async def test_the_examples_of_creating_and_getting_a_topic(root: WireClient) -> None:
    await told(root, CREATE_STREAM, name("orders"))
    body = CREATE_EVENTS
    assert len(body) == 155
    answer = await root.ask_code(CREATE_TOPIC, body)
    assert answer.header.operation == CREATED
    assert answer.header.status == 0
    now = answer.body[8:16]
    assert answer.body == CREATED_EVENTS.replace(T1, now)
    assert len(answer.body) == 473

    batch, _ = batch_of([b"ten bytes!"] * 3)
    await root.call(SendMessages("orders", "events", ToPartition(0), 3, batch))
    for target in (get("orders", "events"), b"\x01\x04\x01\0\0\0\x01\x04\0\0\0\0"):
        answer = await root.ask_code(GET_TOPIC, target)
        assert answer.told == success(EVENTS_AFTER_ONE_SEND.replace(T1, now))
        assert len(answer.body) == 469


async def test_a_topic_without_options_derives_all_nine(root: WireClient) -> None:
    answer = await root.ask_code(CREATE_TOPIC, create(partitions=2))
    at = created_at(answer.told.payload)
    header = topic_header(at, derived=list(DEFAULTS.values()), partitions=2)
    assert answer.told == success(header + partition(0, at, 0) + partition(1, at, 0))
    assert await told(root, GET_TOPIC, get()) == success(
        header + partition(0, at) + partition(1, at)
    )


async def test_the_block_of_the_sdks_in_any_order(root: WireClient) -> None:
    answer = await root.ask_code(CREATE_TOPIC, create(SDK_BLOCK))
    payload = answer.told.payload
    at = created_at(payload)
    explicit = [
        text("durability", "persisted"),
        flag("preallocate_segments", 1),
        u64("segment_size", GIB),
    ]
    derived = without("durability", "preallocate_segments", "segment_size")
    assert payload == topic_header(at, *explicit, derived=derived) + partition(0, at, 0)


# --- Canonical values ----------------------------------------------------------------------------

CANONICAL = {
    text("compression_algorithm", "GZip"): text("compression_algorithm", "gzip"),
    text("compression_algorithm", "NONE"): text("compression_algorithm", "none"),
    option("compression_algorithm", UINT8, b"\x02"): text("compression_algorithm", "gzip"),
    option("compression_algorithm", UINT8, b"\x01"): text("compression_algorithm", "none"),
    text("message_expiry", "1h 30m"): u64("message_expiry", 5_400_000_000),
    text("message_expiry", "10 000 s"): u64("message_expiry", 10_000_000_000),
    text("message_expiry", "never_expire"): u64("message_expiry", NEVER),
    u64("message_expiry", 1): u64("message_expiry", 1),
    u64("message_expiry", NEVER): u64("message_expiry", NEVER),
    text("max_topic_size", "2 GiB"): u64("max_topic_size", 2 * GIB),
    text("max_topic_size", "unlimited"): u64("max_topic_size", UNLIMITED),
    u64("max_topic_size", GIB): u64("max_topic_size", GIB),
    text("segment_size", "128 MiB"): u64("segment_size", 128 * MIB),
    text("segment_size", "1Mi"): u64("segment_size", MIB),
    text("durability", "persisted"): text("durability", "persisted"),
    text("consumer_offset_durability", "persisted"): text(
        "consumer_offset_durability", "persisted"
    ),
    text("messages_required_to_save", "+7"): u32("messages_required_to_save", 7),
    u32("messages_required_to_save", 1 << 24): u32("messages_required_to_save", 1 << 24),
    text("size_of_messages_required_to_save", "1.5 KiB"): u64(
        "size_of_messages_required_to_save", 1536
    ),
    text("preallocate_segments", "true"): flag("preallocate_segments", 1),
    text("preallocate_segments", "false"): flag("preallocate_segments", 0),
    flag("preallocate_segments", 1): flag("preallocate_segments", 1),
}
FIELDS = {
    text("compression_algorithm", "gzip"): {"compression": 2},
    u64("message_expiry", 5_400_000_000): {"expiry": 5_400_000_000},
    u64("message_expiry", 10_000_000_000): {"expiry": 10_000_000_000},
    u64("message_expiry", 1): {"expiry": 1},
    u64("max_topic_size", 2 * GIB): {"size": 2 * GIB},
    u64("max_topic_size", GIB): {"size": GIB},
}
"""What the values change in the fixed fields of the header."""


async def test_values_are_reported_in_their_canonical_kinds(root: WireClient) -> None:
    topics = itertools.count()
    for given, canonical in CANONICAL.items():
        topic = f"t{next(topics)}"
        payload = (await told(root, CREATE_TOPIC, create(given, topic=topic))).payload
        key = next(key for key in DEFAULTS if option(key, STRING, b"x")[:-6] in given)
        header = topic_header(
            created_at(payload),
            canonical,
            derived=without(key),
            topic=topic,
            **FIELDS.get(canonical, {}),
        )
        assert payload[4:] == (header + partition(0, created_at(payload), 0))[4:], given


ABSENT = [
    u64("message_expiry", 0),
    text("message_expiry", "0"),
    text("message_expiry", "Server_default"),
    u64("max_topic_size", 0),
    text("max_topic_size", "none"),
    text("max_topic_size", "Unlimited"),
    u64("segment_size", 0),
    text("segment_size", "None"),
    u64("size_of_messages_required_to_save", 0),
    text("size_of_messages_required_to_save", "0"),
]


async def test_zero_says_nothing(root: WireClient) -> None:
    for number, given in enumerate(ABSENT):
        payload = (await told(root, CREATE_TOPIC, create(given, topic=f"t{number}"))).payload
        header = topic_header(
            created_at(payload), derived=list(DEFAULTS.values()), topic=f"t{number}"
        )
        assert payload[4 : len(header)] == header[4:], given


# --- What is refused, and in which order ---------------------------------------------------------

WRONG_VALUES = [
    text("compression_algorithm", "lz4"),
    text("compression_algorithm", " gzip"),
    option("compression_algorithm", UINT8, b"\x00"),
    option("compression_algorithm", UINT8, b"\x03"),
    option("compression_algorithm", UINT8, b"\x01\x00"),
    option("compression_algorithm", UINT64, bytes(8)),
    option("compression_algorithm", STRING, b"\xff"),
    text("message_expiry", "10"),
    text("message_expiry", "soon"),
    option("message_expiry", UINT64, bytes(7)),
    option("message_expiry", UINT32, bytes(4)),
    option("message_expiry", RAW, bytes(8)),
    option("message_expiry", 200, bytes(8)),
    text("max_topic_size", "-1"),
    u64("segment_size", MIB - 512),
    u64("segment_size", MIB + 1),
    u64("segment_size", GIB + 512),
    text("segment_size", "1 MB"),
    text("durability", "Persisted"),
    text("durability", "sometimes"),
    option("durability", RAW, b"persisted"),
    text("consumer_offset_durability", " persisted"),
    u32("messages_required_to_save", 0),
    u32("messages_required_to_save", (1 << 24) + 1),
    text("messages_required_to_save", "4294967296"),
    text("messages_required_to_save", "1 "),
    u64("size_of_messages_required_to_save", GIB + 1),
    option("preallocate_segments", BOOL, b"\x02"),
    option("preallocate_segments", BOOL, b"\x01\x01"),
    text("preallocate_segments", "True"),
    option("preallocate_segments", UINT8, b"\x01"),
]
UNKNOWN = [
    text("partitions_count", "1"),
    option("enforce_fsync", BOOL, b"\x01"),
    text("Durability", "persisted"),
    text("x", "1"),
]


async def test_wrong_options_of_a_creation(root: WireClient) -> None:
    wrong = {create(given): status(INVALID_OPTION) for given in WRONG_VALUES}
    unknown = {create(given): status(UNKNOWN_OPTION) for given in UNKNOWN}
    await check_all(root, CREATE_TOPIC, wrong | unknown)
    assert await told(root, GET_TOPIC, get()) == success()


async def test_the_order_of_what_is_checked_at_a_creation(root: WireClient) -> None:
    bad_value = text("durability", "x")
    unknown = text("x", "1")
    small, too_small = u64("segment_size", MIB), u64("segment_size", 512)
    tiny = u64("max_topic_size", 4563)
    reserved = flag("preallocate_segments", 1)
    nowhere = {"stream": "nowhere", "partitions": 2000}
    await check_all(
        root,
        CREATE_TOPIC,
        {
            b"": status(INVALID),
            create(bad_value, unknown)[:-1]: status(INVALID),
            create(unknown, unknown): status(INVALID),
            create(topic="") + unknown: status(INVALID),
            create(unknown, bad_value, too_small, tiny, **nowhere): status(UNKNOWN_OPTION),
            create(bad_value, unknown, too_small, tiny, **nowhere): status(INVALID_OPTION),
            create(too_small, unknown, tiny, **nowhere): status(UNKNOWN_OPTION),
            create(too_small, tiny, **nowhere): status(INVALID_OPTION),
            create(reserved, tiny, **nowhere): status(INVALID_OPTION),
            create(reserved, partitions=65): status(INVALID_OPTION),
            create(reserved, small, partitions=1001): status(TOO_MANY_PARTITIONS),
            create(tiny, **nowhere): status(TOO_MANY_PARTITIONS),
            create(partitions=1001): status(TOO_MANY_PARTITIONS),
            create(tiny, stream="nowhere"): status(INVALID_TOPIC_SIZE),
            create(u64("max_topic_size", GIB - 1)): status(INVALID_TOPIC_SIZE),
            create(u64("max_topic_size", MIB - 1), small): status(INVALID_TOPIC_SIZE),
            create(text("max_topic_size", "1 MB"), small): status(INVALID_TOPIC_SIZE),
            create(stream="nowhere"): result(NO_STREAM),
        },
    )
    assert await told(root, GET_TOPIC, get()) == success()


async def test_what_is_just_allowed_at_a_creation(root: WireClient) -> None:
    cases = [
        create(flag("preallocate_segments", 1), topic="a", partitions=64),
        create(
            flag("preallocate_segments", 1), u64("segment_size", MIB), topic="b", partitions=1000
        ),
        create(u64("max_topic_size", MIB), u64("segment_size", MIB), topic="c", partitions=0),
        create(u64("max_topic_size", GIB), topic="d"),
        create(u64("segment_size", MIB + 512), topic="e"),
        create(topic="f" * 255),
    ]
    for body in cases:
        assert (await told(root, CREATE_TOPIC, body)).channel == "success"


async def test_what_the_state_of_the_server_turns_down(
    server: RealServer, root: WireClient
) -> None:
    await root.call(CreateUser("alice", "secret"))
    assert (await told(root, CREATE_TOPIC, create())).channel == "success"
    assert (await told(root, CREATE_TOPIC, create(topic="u"))).channel == "success"
    await check_all(
        root,
        CREATE_TOPIC,
        {create(): result(TOPIC_EXISTS), create(stream="x"): result(NO_STREAM)},
    )
    await check_all(
        root,
        UPDATE_TOPIC,
        {
            update(stream="x", topic="x"): result(NO_STREAM),
            update(topic="x"): result(NO_TOPIC),
            update(to="u"): result(TOPIC_EXISTS),
        },
    )
    async with server.client("alice", "secret") as alice:
        await check_all(
            alice,
            CREATE_TOPIC,
            {
                create(text("x", "1")): status(UNKNOWN_OPTION),
                create(stream="x"): result(NO_STREAM),
                create(): result(UNAUTHORIZED),
            },
        )
        await check_all(
            alice,
            UPDATE_TOPIC,
            {
                update(text("x", "1")): status(UNKNOWN_OPTION),
                update(topic="x"): result(NO_TOPIC),
                update(to="u"): result(UNAUTHORIZED),
            },
        )
        assert await told(alice, GET_TOPIC, get()) == status(UNAUTHORIZED)
        assert await told(alice, GET_TOPIC, get(topic="x")) == success()


# --- Updates -------------------------------------------------------------------------------------


async def test_an_update_moves_options_and_keeps_the_others(root: WireClient) -> None:
    durable = text("durability", "persisted")
    payload = (await told(root, CREATE_TOPIC, create(durable))).payload
    at = created_at(payload)
    gzip = text("compression_algorithm", "GZIP")
    answer = await root.ask_code(UPDATE_TOPIC, update(text("message_expiry", "1h"), gzip, to="new"))
    assert answer.header.operation == 133
    assert answer.body == bytes(4)
    # As it was sent, other than at the creation.
    expected = topic_header(
        at,
        *(gzip, durable, text("message_expiry", "1h")),
        derived=without("compression_algorithm", "durability", "message_expiry"),
        expiry=3_600_000_000,
        compression=2,
        topic="new",
    )
    assert await told(root, GET_TOPIC, get()) == success()
    assert await told(root, GET_TOPIC, get(topic="new")) == success(expected + partition(0, at))


async def test_the_example_of_an_update(root: WireClient) -> None:
    await told(root, CREATE_TOPIC, create())
    body = bytes.fromhex(
        "010400000000010400000000066576656e7473"
        "020e0000006d6573736167655f6578706972790c0800000000a493d600000000"
    )
    assert await told(root, UPDATE_TOPIC, body) == success()
    payload = (await told(root, GET_TOPIC, get(topic="events"))).payload
    assert int.from_bytes(payload[16:24], "little") == 3_600_000_000


async def test_zero_leaves_a_setting_alone(root: WireClient) -> None:
    given = (u64("max_topic_size", 2 * GIB), u64("message_expiry", 60_000_000))
    await told(root, CREATE_TOPIC, create(*given))
    before = await told(root, GET_TOPIC, get())
    for zero in (
        u64("message_expiry", 0),
        text("message_expiry", "default"),
        u64("max_topic_size", 0),
        text("max_topic_size", "server_default"),
        u64("message_expiry", 0) + u64("max_topic_size", 0),
    ):
        assert await told(root, UPDATE_TOPIC, update(zero)) == success()
        assert await told(root, GET_TOPIC, get()) == before


async def test_wrong_options_of_an_update(root: WireClient) -> None:
    await told(root, CREATE_TOPIC, create(u64("segment_size", 2 * MIB)))
    before = await told(root, GET_TOPIC, get())
    fixed = [DEFAULTS[key] for key in DEFAULTS if key not in UPDATABLE]
    cases = {update(given, to="new"): status(UNKNOWN_OPTION) for given in (*fixed, *UNKNOWN)}
    cases |= {
        update(given, to="new"): status(INVALID_OPTION)
        for given in WRONG_VALUES
        if any(key.encode() in given for key in UPDATABLE)
    }
    bad_value, tiny = text("compression_algorithm", "x"), u64("max_topic_size", 1)
    cases |= {
        b"": status(INVALID),
        update(bad_value)[:-1]: status(INVALID),
        update(bad_value, bad_value): status(INVALID),
        update(to=""): status(INVALID),
        # Keys come first, wherever they stand.
        update(bad_value, tiny, DEFAULTS["durability"], topic="x"): status(UNKNOWN_OPTION),
        update(tiny, bad_value, topic="x"): status(INVALID_OPTION),
        update(u64("max_topic_size", 2 * MIB - 1)): status(INVALID_TOPIC_SIZE),
        # Of a topic that does not exist, the segments are taken to have 1 GiB.
        update(u64("max_topic_size", GIB - 1), topic="x"): status(INVALID_TOPIC_SIZE),
        update(u64("max_topic_size", GIB), topic="x"): result(NO_TOPIC),
        update(u64("max_topic_size", GIB), stream="x"): result(NO_STREAM),
    }
    await check_all(root, UPDATE_TOPIC, cases)
    assert await told(root, GET_TOPIC, get()) == before
    assert await told(root, UPDATE_TOPIC, update(u64("max_topic_size", 2 * MIB))) == success()


UPDATABLE = ("compression_algorithm", "message_expiry", "max_topic_size")


# --- The catalog ---------------------------------------------------------------------------------


async def test_the_catalog_of_topics(server: RealServer, root: WireClient) -> None:
    await root.call(CreateUser("alice", "secret"))
    async with server.client("alice", "secret") as anybody:
        payload = (await told(anybody, DESCRIBE, b"\x01")).payload
    (count,) = struct.unpack_from("<I", payload)
    at, found = 4, []
    for _ in range(count):
        end = at + 1 + payload[at]
        key, kind = payload[at + 1 : end].decode(), payload[end]
        (length,) = struct.unpack_from("<I", payload, end + 1)
        default = payload[end + 5 : end + 5 + length]
        at = end + 5 + length
        (length,) = struct.unpack_from("<I", payload, at)
        assert payload[at + 4 : at + 4 + length].decode().strip()
        at += 4 + length
        found.append((key, kind, default))
    assert at == len(payload)
    assert found == [
        ("compression_algorithm", STRING, b"none"),
        ("message_expiry", UINT64, b"\xff" * 8),
        ("max_topic_size", UINT64, b"\xff" * 8),
        ("segment_size", UINT64, b"\0\0\0\x40\0\0\0\0"),
        ("durability", STRING, b"replicated"),
        ("consumer_offset_durability", STRING, b"replicated"),
        ("messages_required_to_save", UINT32, b"\0\x04\0\0"),
        ("size_of_messages_required_to_save", UINT64, b"\0\0\x10\0\0\0\0\0"),
        ("preallocate_segments", BOOL, b"\0"),
    ]
    # What the catalog lists is what topics accept.
    given = [option(key, kind, default) for key, kind, default in found]
    assert (await told(root, CREATE_TOPIC, create(*given))).channel == "success"


async def test_other_scopes(server: RealServer, root: WireClient) -> None:
    cases = {
        b"\x02": success(bytes(4)),
        b"\x03": success(bytes(4)),
        b"\x02 more": success(bytes(4)),
        b"\x00": status(INVALID),
        b"\x04": status(INVALID),
        b"": status(INVALID),
    }
    await check_all(root, DESCRIBE, cases)
    async with server.client() as stranger:
        assert await told(stranger, DESCRIBE, b"\x01") == status(40)


async def test_options_are_the_same_after_a_restart(tmp_path: Path) -> None:
    given = (text("durability", "persisted"), text("segment_size", "128 MiB"))
    async with real_server(tmp_path) as server, server.client("iggy", "iggy") as root:
        await told(root, CREATE_STREAM, name("s"))
        await told(root, CREATE_TOPIC, create(*given))
        await told(root, UPDATE_TOPIC, update(text("message_expiry", "1 day")))
        before = await told(root, GET_TOPIC, get())
    async with real_server(tmp_path) as server, server.client("iggy", "iggy") as root:
        assert await told(root, GET_TOPIC, get()) == before


async def test_a_grant_on_topics_is_enough(server: RealServer, root: WireClient) -> None:
    permissions = Permissions(GlobalPermissions(manage_topics=True))
    await root.call(CreateUser("alice", "secret", permissions=permissions))
    async with server.client("alice", "secret") as alice:
        assert (await told(alice, CREATE_TOPIC, create())).channel == "success"
        assert await told(alice, UPDATE_TOPIC, update(to="u")) == success()
