"""The client's side: the exact bytes of requests, and what answers mean."""

from dataclasses import replace

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from support import worked_examples as example
from windsprite_protocol.errors import DecodeError, EncodeError, ErrorCode
from windsprite_protocol.model.cluster import (
    Attachment,
    AttachSession,
    ClusterMetadata,
    ClusterNode,
    GetClusterMetadata,
    NodeRole,
    NodeStatus,
    Route,
)
from windsprite_protocol.model.identifiers import ToPartition
from windsprite_protocol.model.messages import GetPollRouting, PollMessages, SendMessages
from windsprite_protocol.model.outcomes import Evicted, NotNow, Refused, Rejected, Success
from windsprite_protocol.model.sessions import (
    ClientVersion,
    EvictionReason,
    LoggedIn,
    Login,
    Logout,
)
from windsprite_protocol.model.streams import CreateStream, GetStream, Stream, StreamDetails
from windsprite_protocol.model.system import Ping
from windsprite_protocol.v0_11.calling import (
    EvictedError,
    RemoteError,
    decode_reply,
    encode_request,
)
from windsprite_protocol.v0_11.decoder import Frame, FrameDecoder
from windsprite_protocol.v0_11.frames import (
    OPERATIONS,
    EvictionHeader,
    ReplyHeader,
    pack_eviction,
    pack_reply,
    unpack_request,
)
from windsprite_protocol.v0_11.serving import Call, admit, encode_outcome
from windsprite_protocol.v0_11.table import GENERATION

FRAMED = {*range(64, 69), *range(128, 138), *range(139, 150), 161, 162}
CREATE_STREAM = GENERATION.of(CreateStream)
PING = GENERATION.of(Ping)


class Verbatim:
    """The codec of bodies that are given as they are."""

    def encode(self, value: bytes) -> list[bytes]:
        return [value]

    def decode(self, body: memoryview) -> bytes:
        return body.tobytes()


VERBATIM = {c.code: replace(c, request=Verbatim(), reply=Verbatim()) for c in GENERATION}
every_command = pytest.mark.parametrize("command", VERBATIM.values(), ids=lambda c: c.name)


def decoded(data: bytes) -> Frame:
    (only,) = FrameDecoder().feed(data)
    return only


def reply(operation: int, body: bytes = b"", **fields) -> Frame:
    header = ReplyHeader(operation=operation, size=256 + len(body))._replace(**fields)
    return Frame(pack_reply(header), memoryview(bytearray(body)))


def section(*results: int) -> bytes:
    entries = b"".join(bytes(4) + result.to_bytes(4, "little") for result in results)
    return len(results).to_bytes(4, "little") + entries


# --- Requests ----------------------------------------------------------------------------------


def encoded(value, *, checksum: bool = True, session: int = 42, request: int = 1) -> bytes:
    parts = encode_request(
        GENERATION.of(type(value)),
        value,
        client=example.CLIENT,
        session=session,
        request=request,
        checksum=checksum,
    )
    return b"".join(parts)


def test_requests_of_the_worked_examples() -> None:
    login = Login(ClientVersion(11264, "rust-sdk", "0.11.0"), "iggy", "iggy")
    assert encoded(Ping(), session=0) == example.PING
    assert encoded(login, session=0, request=0) == example.LOGIN
    assert encoded(CreateStream("orders")) == example.CREATE_STREAM
    assert encoded(CreateStream("orders"), request=2) == example.CREATE_STREAM_AGAIN
    before_login = encoded(GetClusterMetadata(), session=0)
    assert before_login == example.CLUSTER_METADATA_BEFORE_LOGIN
    assert encoded(GetClusterMetadata(), request=3) == example.CLUSTER_METADATA
    assert encoded(Logout(), request=4) == example.LOGOUT
    attach = AttachSession(Attachment(0x0102030405060708090A0B0C0D0E0F10, 42, 44))
    frame = encoded(attach)
    assert frame[256:] == example.ATTACH_BODY
    assert frame[196:200] == b"\x0e\0\0\0"


def test_without_a_checksum_the_field_stays_empty() -> None:
    stamped, plain = (
        encoded(CreateStream("orders")),
        encoded(CreateStream("orders"), checksum=False),
    )
    assert stamped[144:160] != bytes(16)
    assert plain == stamped[:144] + bytes(16) + stamped[160:]


@every_command
@pytest.mark.parametrize("body", [b"", b"some body"])
def test_request_of_every_command(command, body: bytes) -> None:
    numbers = (
        {"session": 0, "request": 0}
        if command.operation == 1
        else {
            "session": 42,
            "request": 7,
        }
    )
    parts = encode_request(command, body, client=example.CLIENT, checksum=True, **numbers)
    frame = decoded(b"".join(parts))
    header = unpack_request(frame.header)
    assert header.operation == command.operation
    assert header.code == (command.code if command.operation == 2 else 0)
    assert header.client == example.CLIENT
    assert (header.session, header.request) == (numbers["session"], numbers["request"])
    if command.operation == 2 or command.operation >= 160:
        assert header.request_checksum == bytes(16)
    else:
        digest = xxhash.xxh3_64_intdigest(body)
        assert header.request_checksum == digest.to_bytes(16, "little")
    call = admit(frame, bound=True)
    assert call is not None
    assert call.command.operation == command.operation
    assert call.command.code == command.code or command.operation == 1
    assert call.body == body


def test_a_batch_is_not_copied() -> None:
    batch = bytearray(100_000)
    value = SendMessages(1, 2, ToPartition(3), 1, batch)
    parts = encode_request(
        GENERATION.of(SendMessages),
        value,
        client=example.CLIENT,
        session=42,
        request=7,
        checksum=True,
    )
    assert any(part is batch or getattr(part, "obj", None) is batch for part in parts)


def test_a_request_that_no_server_takes_is_not_sent() -> None:
    command = VERBATIM[202]
    arguments = {"client": example.CLIENT, "session": 1, "request": 1, "checksum": False}
    size = 256 + 100
    parts = encode_request(command, bytes(100), **arguments, max_frame_size=size)
    assert len(b"".join(parts)) == size
    with pytest.raises(EncodeError):
        encode_request(command, bytes(100), **arguments, max_frame_size=size - 1)


# --- Replies -----------------------------------------------------------------------------------


def node(name: str, host: str, role: NodeRole) -> ClusterNode:
    return ClusterNode(name, host, 8090, 8080, 3000, 8092, role, NodeStatus.HEALTHY)


@pytest.mark.parametrize(
    ("request_type", "frame", "commit", "value"),
    [
        (Ping, example.PING_REPLY, 41, None),
        (Login, example.LOGIN_REPLY, 42, LoggedIn(0, 42, 11264, "0.9.0")),
        (
            CreateStream,
            example.CREATE_STREAM_REPLY,
            43,
            StreamDetails(Stream(0, 1_785_542_400_000_000, 0, 0, 0, "orders"), ()),
        ),
        (
            GetClusterMetadata,
            example.CLUSTER_METADATA_REPLY,
            44,
            ClusterMetadata("single-node", (node("iggy-node", "127.0.0.1", NodeRole.LEADER),)),
        ),
        (Logout, example.LOGOUT_REPLY, 45, None),
    ],
    ids=["ping", "login", "create stream", "cluster metadata", "logout"],
)
def test_replies_of_the_worked_examples(request_type, frame: bytes, commit: int, value) -> None:
    header, decoded_value = decode_reply(decoded(frame), GENERATION.of(request_type))
    assert decoded_value == value
    assert header.commit == commit


def test_route_of_the_worked_example() -> None:
    command = GENERATION.of(GetPollRouting)
    _, route = decode_reply(reply(2, example.ROUTE_BODY), command)
    attachment = Attachment(0x0102030405060708090A0B0C0D0E0F10, 42, 44)
    assert route == Route(attachment, node("iggy-node-2", "10.0.0.2", NodeRole.FOLLOWER))


@pytest.mark.parametrize(
    ("request_type", "frame", "number", "executed"),
    [
        (CreateStream, example.CREATE_STREAM_REJECTED, 1012, True),
        (CreateStream, example.CREATE_STREAM_NOT_NOW, 58, False),
        (GetClusterMetadata, example.CLUSTER_METADATA_DENIED, 40, False),
        (SendMessages, example.SEND_NOT_NOW, 58, False),
    ],
    ids=["rejected", "not now", "denied", "send not now"],
)
def test_errors_of_the_worked_examples(
    request_type, frame: bytes, number: int, executed: bool
) -> None:
    with pytest.raises(RemoteError) as info:
        decode_reply(decoded(frame), GENERATION.of(request_type))
    assert info.value.code == info.value.number == number
    assert info.value.executed is executed


@pytest.mark.parametrize(
    ("frame", "code", "window"),
    [
        (example.WRONG_PASSWORD, ErrorCode.INVALID_CREDENTIALS, (0, 0)),
        (example.WRONG_VERSION, ErrorCode.INCOMPATIBLE_PROTOCOL_VERSION, (11264, 11264)),
    ],
    ids=["wrong password", "wrong version"],
)
def test_evictions_of_the_worked_examples(
    frame: bytes, code: ErrorCode, window: tuple[int, int]
) -> None:
    with pytest.raises(EvictedError) as info:
        decode_reply(decoded(frame), GENERATION.of(Login))
    assert info.value.code is code
    assert (info.value.min_version, info.value.max_version) == window


@every_command
@pytest.mark.parametrize("payload", [b"", b"payload"])
def test_success_of_every_command_comes_back(command, payload: bytes) -> None:
    parts = encode_outcome(call_of(command), Success(payload), commit=9, cluster_id=bytes(16))
    header, value = decode_reply(decoded(b"".join(parts)), command)
    assert value == payload
    assert header.operation == command.committed_operation
    assert header.request == 7


FAILURES = [
    *(kind(ErrorCode(number)) for kind in (Refused, Rejected) for number in (41, 1012)),
    *(NotNow(ErrorCode(number)) for number in (57, 58, 59)),
]


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        pytest.param(
            command, outcome, id=f"{command.name}-{type(outcome).__name__}-{outcome.code:d}"
        )
        for command in VERBATIM.values()
        for outcome in FAILURES
        if not (command.operation == 1 and isinstance(outcome, Rejected))
    ],
)
def test_failure_of_every_command_comes_back(command, outcome) -> None:
    parts = encode_outcome(call_of(command), outcome, commit=9, cluster_id=bytes(16))
    with pytest.raises(RemoteError) as info:
        decode_reply(decoded(b"".join(parts)), command)
    assert info.value.code is outcome.code
    changes_metadata = 128 <= command.operation < 160
    assert info.value.executed is (changes_metadata and isinstance(outcome, Rejected))


@every_command
def test_eviction_answers_every_command(command) -> None:
    outcome = Evicted(EvictionReason.SESSION_TOO_LOW)
    parts = encode_outcome(call_of(command), outcome, commit=9, cluster_id=bytes(16))
    with pytest.raises(EvictedError) as info:
        decode_reply(decoded(b"".join(parts)), command)
    assert info.value.reason is EvictionReason.SESSION_TOO_LOW


def call_of(command) -> Call:
    parts = encode_request(
        command, b"", client=example.CLIENT, session=42, request=7, checksum=False
    )
    frame = decoded(b"".join(parts))
    return Call(unpack_request(frame.header), command, frame.body)


# --- The procedure of spec 01, 3.5 -------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in range(256) if kind not in (8, 13)])
def test_step_1_only_replies_and_evictions_answer(kind: int) -> None:
    with pytest.raises(DecodeError) as info:
        decode_reply(reply(2, kind=kind), PING)
    assert info.value.code is ErrorCode.INVALID_COMMAND


@pytest.mark.parametrize("size", [0, 255, 257, 259, 0xFFFF_FFFF])
def test_step_2_the_size_is_that_of_the_frame(size: int) -> None:
    with pytest.raises(DecodeError):
        decode_reply(reply(2, b"xx", size=size), PING)


def test_step_3_the_status_wins_over_operation_and_body() -> None:
    with pytest.raises(RemoteError) as info:
        decode_reply(reply(255, section(1012), status=58), PING)
    assert info.value.number == 58
    assert not info.value.executed


@pytest.mark.parametrize("operation", [*sorted(set(range(256)) - OPERATIONS), 0, 1, 3, 64, 128])
def test_step_4_the_operation_is_that_of_the_command(operation: int) -> None:
    with pytest.raises(DecodeError) as info:
        decode_reply(reply(operation, section()), PING)
    assert info.value.code is ErrorCode.INVALID_COMMAND


@pytest.mark.parametrize("operation", [132, 64])
def test_step_4_either_form_of_a_committed_operation_will_do(operation: int) -> None:
    assert decode_reply(reply(operation, section() + b"x"), VERBATIM[302])[1] == b"x"


def test_step_5_a_deletion_of_segments_is_framed_in_its_committed_form() -> None:
    command = VERBATIM[503]
    assert decode_reply(reply(68, section()), command)[1] == b""
    assert decode_reply(reply(138, b""), command)[1] == b""
    with pytest.raises(RemoteError) as info:
        decode_reply(reply(68, section(3007)), command)
    assert info.value.executed


@pytest.mark.parametrize("operation", sorted(FRAMED & {c.operation for c in GENERATION}))
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0\0\0",
        b"\1\0\0\0",
        section(1012)[:-1],
        section(1012, 0)[:-1],
        b"\xff\xff\xff\xff" + bytes(100),
    ],
)
def test_step_5_a_section_must_be_whole(operation: int, body: bytes) -> None:
    (command,) = [c for c in VERBATIM.values() if c.operation == operation]
    with pytest.raises(DecodeError) as info:
        decode_reply(reply(operation, body), command)
    assert info.value.code is ErrorCode.INVALID_COMMAND


def test_step_5_the_first_result_counts() -> None:
    command = VERBATIM[202]
    assert decode_reply(reply(128, section() + b"x"), command)[1] == b"x"
    assert decode_reply(reply(128, section(0) + b"x"), command)[1] == b"x"
    assert decode_reply(reply(128, section(0, 1012) + b"x"), command)[1] == b"x"
    with pytest.raises(RemoteError) as info:
        decode_reply(reply(128, section(1009, 1012) + b"x"), command)
    assert info.value.number == 1009


def test_step_5_a_login_is_framed_unless_its_body_is_empty() -> None:
    command = VERBATIM[40]
    assert decode_reply(reply(1, section() + b"x"), command)[1] == b"x"
    assert decode_reply(reply(1), command)[1] == b""
    with pytest.raises(RemoteError) as info:
        decode_reply(reply(1, section(58)), command)
    assert not info.value.executed
    with pytest.raises(DecodeError) as malformed:
        decode_reply(reply(1), GENERATION.of(Login))
    assert malformed.value.code is ErrorCode.INVALID_FORMAT


def test_step_6_other_bodies_have_no_section() -> None:
    assert decode_reply(reply(2, section(1012)), VERBATIM[12])[1] == section(1012)
    assert decode_reply(reply(160, section()), VERBATIM[101])[1] == section()
    assert decode_reply(reply(2), GENERATION.of(GetStream))[1] is None


def test_a_value_that_makes_no_sense_has_its_own_code() -> None:
    with pytest.raises(DecodeError) as info:
        decode_reply(reply(2), GENERATION.of(PollMessages))
    assert info.value.code is ErrorCode.INVALID_FORMAT
    with pytest.raises(DecodeError) as info:
        decode_reply(reply(128, section() + b"xyz"), CREATE_STREAM)
    assert info.value.code is ErrorCode.INVALID_FORMAT


@settings(max_examples=300)
@given(
    st.binary(min_size=256, max_size=256),
    st.sampled_from([None, 8, 13]),
    st.booleans(),
    st.sampled_from([None, 2, 128, 1, 161]),
    st.sampled_from([1, 12, 40, 100, 121, 202]),
    st.binary(max_size=60),
)
def test_any_answer_is_a_value_or_an_error_of_the_protocol(
    header: bytes, kind: int | None, ok: bool, operation: int | None, code: int, body: bytes
) -> None:
    data = bytearray(header)
    data[48:52] = (256 + len(body)).to_bytes(4, "little")
    if kind is not None:
        data[60] = kind
    if ok:
        data[216:220] = bytes(4)
    if operation is not None:
        data[208] = operation
    command = GENERATION.by_code(code)
    assert command is not None
    answer = Frame(bytes(data), memoryview(bytearray(body)))
    try:
        decode_reply(answer, command)
    except EvictedError:
        assert data[60] == 13
    except RemoteError:
        assert data[60] == 8
    except DecodeError:
        assert data[60] != 13


# --- Errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [17, 999_999, 0xFFFF_FFFF])
def test_an_unknown_error_keeps_its_number(number: int) -> None:
    with pytest.raises(RemoteError, match=str(number)) as info:
        decode_reply(reply(2, status=number), PING)
    assert info.value.code is ErrorCode.ERROR
    assert info.value.number == number


def test_errors_speak_to_people() -> None:
    assert str(RemoteError(1012, executed=True)) == (
        "A stream of this name already exists. (error 1012)"
    )
    evicted = EvictedError(14, min_version=10240, max_version=11264)
    assert "0.10.0 to 0.11.0" in str(evicted)
    assert "stale client" in str(EvictedError(13))
    assert "200" in str(EvictedError(200))


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (0, 3), (1, 40), (2, 3), (3, 3), (4, 3), (5, 3), (6, 3), (7, 40), (8, 40), (9, 42),
        (10, 53), (11, 40), (12, 40), (13, 30), (14, 14003), (15, 4), (16, 40), (255, 40),
    ],
)  # fmt: skip
def test_reasons_of_evictions(reason: int, code: int) -> None:
    header = EvictionHeader(
        client=example.CLIENT, reason=reason, min_version=11264, max_version=12000
    )
    frame = Frame(pack_eviction(header), memoryview(b""))
    with pytest.raises(EvictedError) as info:
        decode_reply(frame, PING)
    assert info.value.code == code
    assert info.value.number == reason
    assert info.value.reason == (reason if reason < 16 else None)
    assert (info.value.min_version, info.value.max_version) == (11264, 12000)


@pytest.mark.parametrize("window", [(0, 0), (0, 5), (6, 5)])
def test_a_window_without_a_version_is_a_lost_session(window: tuple[int, int]) -> None:
    error = EvictedError(14, min_version=window[0], max_version=window[1])
    assert error.code is ErrorCode.UNAUTHENTICATED
    assert error.reason is EvictionReason.INCOMPATIBLE_PROTOCOL
