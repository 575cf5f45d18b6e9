"""What official clients of any language see of headers, channels and bytes (spec 01; spec 04, 10).

The official client of Python hides most of it; clients in other languages look at more.
"""

import struct
from typing import Any

import pytest
import xxhash
from apache_iggy import IggyClient

from support.by_hand import batch, sealed
from support.official_client import logged_in, messages
from support.wire_client import (
    VERSION,
    Answer,
    WireClient,
    evicted,
    result,
    status,
    success,
    wire_client,
)
from windsprite_protocol.model.identifiers import Balanced, ByKey, ToPartition
from windsprite_protocol.model.messages import Confirmation, SendMessages
from windsprite_protocol.model.sessions import ClientVersion, Login, LoginWithToken, Logout
from windsprite_protocol.model.streams import (
    CreateStream,
    DeleteStream,
    GetStream,
    GetStreams,
    PurgeStream,
    UpdateStream,
)
from windsprite_protocol.model.system import GetStats
from windsprite_protocol.model.topics import (
    CreatePartitions,
    CreateTopic,
    DeletePartitions,
    DeleteTopic,
    GetTopic,
    GetTopics,
    PurgeTopic,
    UpdateTopic,
)
from windsprite_protocol.model.typed_values import Option, TypedValue, ValueKind
from windsprite_protocol.v0_11.frames import NOBODY

pytestmark = pytest.mark.covers("the wire")

REGISTER, READ, LOGOUT = 1, 2, 3
CREATE_STREAM = 128
CREATE_TOPIC, CREATED_TOPIC = 132, 64
CREATE_PARTITIONS, CREATED_PARTITIONS = 136, 65
SEND = 160
NO_SESSION, INVALID_OPERATION, INVALID_CREDENTIALS, INVALID_TOKEN = 1, 4, 9, 10
INCOMPATIBLE, MALFORMED = 14, 15
PROTOCOL = 11 << 10
ODD_OPTION = (Option("x", TypedValue(ValueKind.STRING, b"y")),)


def echoes(wire: WireClient, answer: Answer, operation: int, request: int) -> None:
    """A reply says what it answers (spec 01, 3.1); fields without a meaning are 0."""
    header = answer.header
    assert (header.operation, header.request, header.client) == (operation, request, wire.client)
    assert (header.checksum, header.checksum_body, header.context) == (NOBODY, NOBODY, NOBODY)
    assert (header.view, header.release, header.replica) == (0, 0, 0)
    data = answer.data
    assert data[62:128] == bytes(66)
    assert data[209:216] == bytes(7)
    assert data[220:256] == bytes(36)


# --- Before a login ------------------------------------------------------------------------------


async def test_a_ping(address: str) -> None:
    async with wire_client(address) as wire:
        for number in (1, 7, 2**64 - 1):
            answer = await wire.ask(READ, code=1, request=number)
            assert answer.told == success()
            echoes(wire, answer, READ, number)


@pytest.mark.parametrize("code", [10, 12, 13, 20, 22, 100, 102, 120, 200, 201, 300, 60_000, 0, 202])
async def test_reads_are_refused_and_nothing_is_told(address: str, code: int) -> None:
    async with wire_client(address) as wire:
        answer = await wire.ask(READ, code=code)
        assert answer.told == status(40)
        echoes(wire, answer, READ, 1)
        assert (answer.header.op, answer.header.commit) == (0, 0)
        assert (await wire.ask(READ, code=1)).told == success()


@pytest.mark.parametrize("operation", [*range(128, 150), 160, 161, 162])
async def test_writes_are_evicted(address: str, operation: int) -> None:
    async with wire_client(address) as wire:
        answer = await wire.ask(operation, b"\x01a", session=1)
        assert answer.told == evicted(NO_SESSION)
        assert answer.eviction.client == wire.client
        assert (answer.eviction.min_version, answer.eviction.max_version) == (0, 0)
        assert answer.data[62:128] == bytes(66)
        assert answer.data[144:255] == bytes(111)
        await wire.login()
        assert (await wire.told(GetStats())).channel == "success"


async def test_a_logout_without_a_session(address: str) -> None:
    async with wire_client(address) as wire:
        answer = await wire.ask(LOGOUT, session=1)
        assert answer.told == success()
        echoes(wire, answer, LOGOUT, 1)


# --- Logins --------------------------------------------------------------------------------------


async def test_a_login(address: str) -> None:
    async with wire_client(address) as wire:
        answer = await wire.answer_to(Login(VERSION, "iggy", "iggy"))
        echoes(wire, answer, REGISTER, 0)
        count, user, session, version, length = struct.unpack_from("<IIQIB", answer.body)
        assert (count, user, version) == (0, 0, PROTOCOL)
        assert 0 < session < 1 << 63
        assert len(answer.body) == 21 + length > 21
        assert answer.header.commit > 0
        wire.session = session
        assert (await wire.told(GetStats())).channel == "success"


async def test_sessions_have_growing_numbers(address: str) -> None:
    sessions = []
    async with wire_client(address) as one, wire_client(address) as two:
        for wire in (one, two, one, two):
            sessions.append((await wire.login()).session)
            await wire.call(Logout())
    assert sessions == sorted(set(sessions))


@pytest.mark.parametrize(
    ("username", "password"),
    [
        ("iggy", "wrong"),
        ("nobody", "iggy"),
        ("i", "iggy"),
        ("n" * 51, "iggy"),
        ("n" * 255, "iggy"),
        ("iggy", "pw"),
        ("iggy", "p" * 101),
        ("iggy", "p" * 255),
    ],
)
async def test_a_wrong_password_does_not_end_the_connection(
    address: str, username: str, password: str
) -> None:
    async with wire_client(address) as wire:
        for _ in range(2):
            answer = await wire.answer_to(Login(VERSION, username, password))
            assert answer.told == evicted(INVALID_CREDENTIALS)
            assert answer.eviction.client == wire.client
            assert answer.data[144:255] == bytes(111)
        assert await wire.told(GetStreams()) == status(40)
        await wire.login()


async def test_tokens_that_nobody_has(address: str) -> None:
    async with wire_client(address) as wire:
        for token in ("", "x", "t" * 255):
            answer = await wire.answer_to(LoginWithToken(VERSION, token))
            assert answer.told == evicted(INVALID_TOKEN)
        # Without a password, the body of a login reads as that of a token, too.
        assert await wire.told(Login(VERSION, "iggy", "")) == evicted(INVALID_TOKEN)
        await wire.login()


@pytest.mark.parametrize(
    ("version", "is_served"),
    [
        ((0, 11, 0), True),
        ((0, 11, 7), True),
        ((0, 11, 1023), True),
        ((0, 10, 1023), False),
        ((0, 12, 0), False),
        ((1, 11, 0), False),
        ((0, 0, 0), False),
    ],
)
async def test_versions(address: str, version: tuple[int, int, int], is_served: bool) -> None:
    major, minor, patch = version
    packed = major << 20 | minor << 10 | patch
    async with wire_client(address) as wire:
        for password in ("iggy", "wrong"):
            answer = await wire.answer_to(
                Login(ClientVersion(packed, "sdk", "1"), "iggy", password)
            )
            if is_served:
                served = answer.told
                assert served.channel == "success" or served == evicted(INVALID_CREDENTIALS)
                continue
            assert answer.told == evicted(INCOMPATIBLE)
            eviction = answer.eviction
            assert (eviction.min_version, eviction.max_version) == (PROTOCOL, PROTOCOL)
        await wire.login()


async def test_logins_that_cannot_be_read(address: str) -> None:
    async with wire_client(address) as wire:
        whole = struct.pack("<I", PROTOCOL) + b"\x03sdk\x011" + b"\x04iggy\x04iggy" + bytes(4)
        for end in (*range(len(whole) - 4), len(whole) - 1):
            answer = await wire.ask(REGISTER, whole[:end])
            assert answer.told == evicted(MALFORMED), end
            assert answer.data[144:255] == bytes(111)
        assert (await wire.ask(REGISTER, whole + b"more")).told.channel == "success"


@pytest.mark.parametrize("code", [38, 44])
async def test_logins_of_older_generations(address: str, code: int) -> None:
    async with wire_client(address) as wire:
        for _ in range(2):
            answer = await wire.ask(READ, b"\x04iggy\x04iggy", code=code)
            assert answer.told == evicted(MALFORMED)
            await wire.login()


async def test_a_second_login_keeps_the_session(wire: WireClient) -> None:
    first = wire.session
    again = await wire.answer_to(Login(VERSION, "iggy", "iggy"))
    assert struct.unpack_from("<IIQ", again.body) == (0, 0, first)
    assert await wire.told(Login(VERSION, "iggy", "wrong")) == evicted(INVALID_CREDENTIALS)
    assert (await wire.told(GetStats())).channel == "success"
    await wire.call(Logout())
    assert await wire.told(GetStats()) == status(40)
    assert (await wire.login()).session > first


async def test_who_takes_a_client_id_over(address: str, wire: WireClient) -> None:
    async with wire_client(address) as other:
        other.client = wire.client
        answer = await other.answer_to(Login(VERSION, "iggy", "iggy"))
        assert answer.told.channel == "success"
        assert await wire.told(GetStats()) == status(40)
        assert await wire.told(CreateStream("not mine")) == evicted(NO_SESSION)


# --- Channels of the metadata commands -----------------------------------------------------------


async def test_a_write_and_its_rejection(wire: WireClient) -> None:
    created = await wire.answer_to(CreateStream("on the wire"))
    echoes(wire, created, CREATE_STREAM, 1)
    number, created_at = struct.unpack_from("<IQ", created.body, 4)
    assert created.body == (
        bytes(4)
        + struct.pack("<IQ", number, created_at)
        + bytes(20)
        + b"\x0bon the wire"
        + bytes(4)
    )
    checksum = xxhash.xxh3_64_intdigest(b"\x0bon the wire").to_bytes(16, "little")
    assert created.header.request_checksum == checksum
    assert created.header.commit == created.header.op > 0
    rejected = await wire.answer_to(CreateStream("on the wire"))
    echoes(wire, rejected, CREATE_STREAM, 2)
    assert rejected.body == bytes.fromhex("01000000 00000000 f4030000")
    assert rejected.header.commit >= created.header.commit
    assert await wire.told(DeleteStream("on the wire")) == success()


async def test_commits_of_writes_never_go_back(wire: WireClient) -> None:
    requests = [CreateStream("again"), CreateStream("again"), DeleteStream("again")] * 5
    commits = [(await wire.answer_to(request)).header.commit for request in requests]
    assert commits == sorted(commits)


async def test_replies_that_say_another_operation(wire: WireClient, stream: str) -> None:
    created = await wire.answer_to(CreateTopic(stream, 1, "t"))
    assert (created.told.channel, created.header.operation) == ("success", CREATED_TOPIC)
    rejected = await wire.answer_to(CreateTopic(stream, 1, "t"))
    assert (rejected.told, rejected.header.operation) == (result(2013), CREATED_TOPIC)
    refused = await wire.answer_to(CreateTopic(stream, 1, "u", ODD_OPTION))
    assert (refused.told, refused.header.operation) == (status(4041), CREATE_TOPIC)
    added = await wire.answer_to(CreatePartitions(stream, "t", 1))
    assert (added.told, added.header.operation) == (success(), CREATED_PARTITIONS)
    missing = await wire.answer_to(CreatePartitions(stream, "missing", 1))
    assert (missing.told, missing.header.operation) == (result(2010), CREATED_PARTITIONS)
    none = await wire.answer_to(CreatePartitions(stream, "t", 0))
    assert (none.told, none.header.operation) == (status(2015), CREATE_PARTITIONS)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (CreateStream("x", ODD_OPTION), status(4041)),
        (UpdateStream("missing", "x"), result(1009)),
        (UpdateStream("missing", "x", ODD_OPTION), status(4041)),
        (DeleteStream("missing"), result(1009)),
        (PurgeStream(999_999), result(1009)),
        (CreateTopic("missing", 1, "t"), result(1009)),
        (CreateTopic("missing", 1001, "t"), status(2015)),
        (UpdateTopic("missing", "t", "t"), result(1009)),
        (DeleteTopic("missing", "t"), result(1009)),
        (PurgeTopic("missing", "t"), result(1009)),
        (CreatePartitions("missing", "t", 1), result(1009)),
        (CreatePartitions("missing", "t", 1001), status(2015)),
        (DeletePartitions("missing", "t", 1), result(1009)),
        (DeletePartitions("missing", "t", 0), status(2015)),
        (GetStream("missing"), success()),
        (GetTopic("missing", "t"), success()),
        (GetTopics("missing"), success(bytes(4))),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_which_channel_tells_of_a_failure(
    wire: WireClient, request_: Any, expected: object
) -> None:
    assert await wire.told(request_) == expected


@pytest.mark.parametrize("operation", [64, 65, 66, 67, 68])
async def test_operations_of_the_server_itself(wire: WireClient, operation: int) -> None:
    assert (await wire.ask(operation, b"\x01a")).told == evicted(INVALID_OPERATION)
    assert (await wire.told(GetStats())).channel == "success"


@pytest.mark.parametrize("code", [33, 42, 101, 121, 202, 302, 402, 503, 602, 604])
async def test_writes_sent_as_reads(wire: WireClient, code: int) -> None:
    assert (await wire.ask(READ, b"\x01a", code=code)).told == status(5)


async def test_a_checksum_that_does_not_match(wire: WireClient) -> None:
    wrong = bytes([1]) + bytes(15)
    for operation, code in ((CREATE_STREAM, 0), (READ, 201), (READ, 1), (REGISTER, 0)):
        answer = await wire.ask(operation, b"\x05wrong", code=code, request_checksum=wrong)
        assert answer.told == status(4)
        assert answer.header.request_checksum == wrong
    assert await wire.told(GetStream("wrong")) == success()


async def test_requests_in_a_row_are_answered_in_their_order(
    wire: WireClient, stream: str, topic: str
) -> None:
    frames: list[Any] = []
    for number in range(50):
        frames += wire.frame(READ, code=1, request=number)
        frames += wire.encode(CreatePartitions(stream, topic, 1))
        frames += wire.encode(GetTopic(stream, topic))
    await wire.send(*frames)
    for number in range(50):
        ping, added, read = [await wire.receive() for _ in range(3)]
        assert (ping.header.request, ping.told) == (number, success())
        assert (added.header.request, added.told) == (number + 1, success())
        assert struct.unpack_from("<I", read.body, 12) == (4 + number,)


# --- Sends ---------------------------------------------------------------------------------------


def broken(at: int, by: bytes) -> bytes:
    changed = bytearray(batch(b"one", b"two"))
    changed[at : at + len(by)] = by
    return bytes(changed)


@pytest.mark.parametrize(
    ("messages_", "count", "codes"),
    [
        (broken(0, b""), 2, {0}),
        (batch(b"", b""), 2, {0}),
        (batch(b"one", b"two", first=1), 2, {3}),
        (broken(0, b""), 3, {3}),
        (broken(0, b"") + b"x", 2, {3}),
        (broken(0, b"")[:-1], 2, {3}),
        (broken(0, b"")[:255], 2, {3}),
        (b"", 0, {3}),
        (batch(), 0, {3}),
        (broken(32, struct.pack("<Q", 255)), 2, {3}),
        (broken(32, struct.pack("<Q", 2**63)), 2, {3}),
        (broken(48, struct.pack("<I", 3)), 3, {3}),
        (broken(52, b"\x01"), 2, {3}),
        (broken(255, b"\x01"), 2, {3}),
        (broken(40, bytes(8)), 2, {4039}),
        (broken(256 + 48, b"O"), 2, {4027}),  # a byte of a payload
        (broken(256, bytes(8)), 2, {4027}),  # the checksum of a message
        (broken(256 + 40, b"\x01"), 2, {3, 4027}),  # what is reserved in a message
    ],
)
async def test_batches_that_are_taken_and_that_are_not(
    wire: WireClient, stream: str, topic: str, messages_: bytes, count: int, codes: set[int]
) -> None:
    answer = await wire.answer_to(SendMessages(stream, topic, ToPartition(0), count, messages_))
    assert answer.told.code in codes
    assert answer.header.operation == SEND
    topic_id, stored = 0, 2 if codes == {0} else 0
    details = await wire.call(GetTopic(stream, topic_id))
    assert details.topic.messages_count == stored


async def test_the_server_chooses_partitions_too(
    wire: WireClient, client: IggyClient, stream: str, topic: str
) -> None:
    stream_id = (await client.get_stream(stream)).id

    async def send(partitioning: Any) -> Confirmation:
        answer = await wire.answer_to(SendMessages(stream, topic, partitioning, 1, batch(b"x")))
        body = struct.unpack("<IIIIQ", answer.body)
        assert body[:3] == (1, stream_id, 0)
        return Confirmation(*body[1:])

    turns = [(await send(Balanced())).partition_id for _ in range(7)]
    assert turns == [0, 1, 2, 0, 1, 2, 0]
    keys = {b"user-42": 2, b"order-1": 2, b"a": 0, b"\x01\x00\x00\x00": 2}
    for key, partition in keys.items():
        assert (await send(ByKey(key))).partition_id == partition
    # The official client counts its own turns.
    for _ in range(2):
        await client.send_messages(stream, topic, 1, messages("y"))
    assert (await send(Balanced())).partition_id == 1


# --- The worked example of messages (spec 04, 10) ------------------------------------------------

FRAME_A = bytes.fromhex(
    "8e5ca59edbbdbfb901000000000000000000000000000000"
    "000000000000000000000000050000000000000000000000"
    "68656c6c6f"
)
FRAME_B = bytes.fromhex(
    "5e4db445c365754700010203040506070809"
    "0a0b0c0d0e0f01000000fa0000001200000006000000000000"
    "0000000000776f726c64210205000000636f6c6f72020300000072"
    "6564"
)
ORIGIN = 1_700_000_000_000_000


def record(time: int, *frames: bytes) -> bytes:
    """What is served of the batch of both frames, appended at a time."""
    return sealed(list(frames), origin=ORIGIN, partition_id=3, offset=10, time=time)


async def test_the_worked_example(fresh_address: str) -> None:
    client = await logged_in(fresh_address)
    for stream in ("zero", "orders"):
        await client.create_stream(stream)
    for topic in ("zero", "one", "events"):
        await client.create_topic("orders", topic, 4)
    await client.send_messages("orders", "events", 3, messages(*"0123456789"))

    made = sealed([FRAME_A, FRAME_B], origin=ORIGIN)
    assert len(made) == 381
    assert made[40:48] == bytes.fromhex("49a8dbc74efe84d5")
    head = bytes.fromhex("16000000 010401000000 010402000000 020403000000 02000000")
    answer = await client.send_binary_request(101, head + made)
    assert answer == bytes.fromhex("01000000 01000000 02000000 03000000 0a00000000000000")

    def poll(strategy: int, value: int, count: int, commit: int) -> bytes:
        key = bytes.fromhex("01010401000000 010401000000 010402000000 0103000000")
        return key + struct.pack("<BQIB", strategy, value, count, commit)

    part = await client.send_binary_request(100, poll(1, 11, 5, 1))
    assert len(part) == 344
    assert part[:16] == bytes.fromhex("03000000 0b00000000000000 01000000")
    (time,) = struct.unpack_from("<Q", part, 32)
    assert part[16:] == record(time, FRAME_B)

    whole = record(time, FRAME_A, FRAME_B)
    for body in (poll(1, 10, 10, 0), poll(4, 0, 2, 0), poll(2, time, 10, 0)):
        answer = await client.send_binary_request(100, body)
        assert answer == bytes.fromhex("03000000 0b00000000000000 02000000") + whole
    first = await client.send_binary_request(100, poll(1, 10, 1, 0))
    assert first[16:] == record(time, FRAME_A)
    beyond = await client.send_binary_request(100, poll(1, 12, 1, 0))
    assert beyond == bytes.fromhex("03000000 0b00000000000000 00000000")

    stored = await client.send_binary_request(120, poll(5, 0, 0, 0)[:24])
    assert stored == struct.pack("<IQQ", 3, 11, 11)
    billing = bytes.fromhex("010207 62696c6c696e67 010401000000 010402000000 0103000000")
    assert await client.send_binary_request(121, billing + struct.pack("<QB", 11, 1)) == b""
    expected = bytes.fromhex("03000000 0b00000000000000 0b00000000000000")
    assert await client.send_binary_request(120, billing) == expected
    assert await client.send_binary_request(122, billing + b"\x01") == b""
    assert await client.send_binary_request(120, billing) == b""
