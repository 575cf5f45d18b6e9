"""The server's side: which frames are admitted, and the exact bytes of every answer."""

from contextlib import suppress
from dataclasses import replace

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from support import worked_examples as example
from windsprite_protocol.errors import (
    BadFrameError,
    DecodeError,
    EncodeError,
    ErrorCode,
)
from windsprite_protocol.model.cluster import (
    ClusterMetadata,
    ClusterNode,
    GetClusterMetadata,
    NodeRole,
    NodeStatus,
)
from windsprite_protocol.model.outcomes import Evicted, NotNow, Refused, Rejected, Success
from windsprite_protocol.model.sessions import (
    ClientVersion,
    EvictionReason,
    LoggedIn,
    Login,
    LoginWithToken,
)
from windsprite_protocol.model.streams import CreateStream, Stream, StreamDetails
from windsprite_protocol.model.system import Ping
from windsprite_protocol.v0_11.decoder import Frame, FrameDecoder
from windsprite_protocol.v0_11.frames import OPERATIONS, RequestHeader, accepts, pack_request
from windsprite_protocol.v0_11.serving import (
    Call,
    InadmissibleError,
    admit,
    checksum_of,
    decode_login,
    encode_eviction,
    encode_outcome,
)
from windsprite_protocol.v0_11.table import GENERATION

CLUSTER_ID = bytes.fromhex("0197a3b2c4d57e6f8a9b0c1d2e3f4a5b")
NOBODY = bytes(16)

METADATA = {*range(128, 138), *range(139, 150)}
OFFSETS = {161, 162}
PARTITION = {160, *OFFSETS}
INTERNAL = {64, 65, 66, 67, 68}
COMMITTED = {132: 64, 136: 65, 138: 68}
BY_CODE = {command.code: command for command in GENERATION}
BY_OPERATION = {command.operation: command for command in GENERATION if command.operation != 2}

either = pytest.mark.parametrize("bound", [True, False], ids=["bound", "unbound"])


def frame(body: bytes = b"", **fields) -> Frame:
    """A request, plausible where nothing else is said."""
    fields = {"client": example.CLIENT, "request": 7, "session": 42} | fields
    header = pack_request(RequestHeader(size=256 + len(body), **fields))
    return Frame(header, memoryview(bytearray(body)))


def decoded(data: bytes) -> Frame:
    (only,) = FrameDecoder().feed(data)
    return only


def answer_to(asked: Frame, *, bound: bool) -> Refused | Evicted:
    with pytest.raises(InadmissibleError) as info:
        admit(asked, bound=bound)
    assert pack_request(info.value.header) == asked.header
    return info.value.outcome


def admitted(asked: Frame, *, bound: bool = True) -> Call:
    call = admit(asked, bound=bound)
    assert call is not None
    return call


# --- Bad frames, by the rows of spec 01, 1.3 ---------------------------------------------------


@either
@pytest.mark.parametrize("kind", [30, 31, 128, 255])
def test_row_3_an_undefined_kind_closes_the_connection(kind: int, bound: bool) -> None:
    with pytest.raises(BadFrameError):
        admit(frame(kind=kind, operation=2, code=1), bound=bound)


@either
@pytest.mark.parametrize("kind", [kind for kind in range(30) if kind != 5])
def test_row_4_frames_between_replicas_are_dropped(kind: int, bound: bool) -> None:
    assert admit(frame(kind=kind, operation=255, client=NOBODY), bound=bound) is None


@either
@pytest.mark.parametrize("operation", sorted(set(range(256)) - OPERATIONS))
def test_row_5_an_undefined_operation_is_refused(operation: int, bound: bool) -> None:
    asked = frame(operation=operation)
    assert answer_to(asked, bound=bound) == Refused(ErrorCode.INVALID_COMMAND)


@either
@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_row_6_a_request_of_nobody_is_refused(operation: int, bound: bool) -> None:
    asked = frame(operation=operation, client=NOBODY)
    assert answer_to(asked, bound=bound) == Refused(ErrorCode.INVALID_COMMAND)


@either
def test_row_7_the_reserved_operation_is_refused(bound: bool) -> None:
    assert answer_to(frame(operation=0), bound=bound) == Refused(ErrorCode.INVALID_COMMAND)


@either
@pytest.mark.parametrize(("session", "request_number"), [(1, 0), (0, 1), (1, 1)])
def test_row_8_a_login_has_neither_session_nor_number(
    session: int, request_number: int, bound: bool
) -> None:
    asked = frame(operation=1, session=session, request=request_number)
    assert answer_to(asked, bound=bound) == Refused(ErrorCode.INVALID_COMMAND)


@either
@pytest.mark.parametrize(("session", "request_number"), [(1, 0), (0, 1), (0, 0)])
@pytest.mark.parametrize("operation", sorted(OPERATIONS - {0, 1, 2}))
def test_row_9_all_others_have_both(
    operation: int, session: int, request_number: int, bound: bool
) -> None:
    asked = frame(operation=operation, session=session, request=request_number)
    assert answer_to(asked, bound=bound) == Refused(ErrorCode.INVALID_COMMAND)


@either
@pytest.mark.parametrize("operation", sorted(OPERATIONS - {0}))
def test_row_10_a_wrong_checksum_is_refused(operation: int, bound: bool) -> None:
    numbers = {"session": 0, "request": 0} if operation == 1 else {}
    asked = frame(
        b"body", operation=operation, code=38, request_checksum=checksum_of(b"Body"), **numbers
    )
    assert answer_to(asked, bound=bound) == Refused(ErrorCode.INVALID_FORMAT)


def test_row_10_all_128_bits_of_the_checksum_count() -> None:
    digest = checksum_of(b"body")
    for stamp in (digest[:8] + b"\1" + bytes(7), digest[:15] + b"\x80", bytes(15) + b"\1"):
        asked = frame(b"body", operation=128, request_checksum=stamp)
        assert answer_to(asked, bound=True) == Refused(ErrorCode.INVALID_FORMAT)
    for stamp in (digest, NOBODY):
        assert admitted(frame(b"body", operation=128, request_checksum=stamp)).body == b"body"


@either
@pytest.mark.parametrize("code", [38, 44])
def test_row_11_legacy_logins_are_malformed(code: int, bound: bool) -> None:
    asked = frame(operation=2, code=code)
    assert answer_to(asked, bound=bound) == Evicted(EvictionReason.MALFORMED_LOGIN)


@pytest.mark.parametrize("code", sorted({0, 15, 9000, 0xFFFF_FFFF, *BY_CODE} - {1}))
def test_row_12_before_a_login_only_a_ping_is_read(code: int) -> None:
    asked = frame(operation=2, code=code, session=0)
    assert answer_to(asked, bound=False) == Refused(ErrorCode.UNAUTHENTICATED)


@pytest.mark.parametrize("operation", sorted(INTERNAL | METADATA | {138} | PARTITION))
def test_row_13_before_a_login_nothing_is_written(operation: int) -> None:
    asked = frame(operation=operation)
    assert answer_to(asked, bound=False) == Evicted(EvictionReason.NO_SESSION)


@pytest.mark.parametrize("operation", sorted(INTERNAL))
def test_row_14_operations_of_the_server_itself_end_the_session(operation: int) -> None:
    asked = frame(operation=operation)
    assert answer_to(asked, bound=True) == Evicted(EvictionReason.INVALID_REQUEST_OPERATION)


# --- What is admitted --------------------------------------------------------------------------


@either
@pytest.mark.parametrize("request_number", [0, 1, 1 << 63])
def test_a_ping_is_always_served(request_number: int, bound: bool) -> None:
    call = admitted(frame(operation=2, code=1, session=0, request=request_number), bound=bound)
    assert call.command is BY_CODE[1]
    assert call.request() == Ping()


@either
def test_login_and_logout_are_always_served(bound: bool) -> None:
    login = admitted(frame(operation=1, session=0, request=0), bound=bound)
    assert login.command is GENERATION.of(Login)
    assert admitted(frame(operation=3), bound=bound).command.code == 39


@pytest.mark.parametrize("operation", sorted(METADATA | {138} | PARTITION))
def test_every_write_reaches_its_command(operation: int) -> None:
    call = admitted(frame(b"body", operation=operation))
    assert call.command is BY_OPERATION[operation]
    assert call.header.operation == operation
    assert call.body == b"body"


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_codes_are_served_where_they_belong(code: int) -> None:
    asked = frame(operation=2, code=code)
    if BY_CODE[code].operation == 2:
        assert admitted(asked).command is BY_CODE[code]
    else:
        assert answer_to(asked, bound=True) == Refused(ErrorCode.FEATURE_UNAVAILABLE)


@pytest.mark.parametrize("code", [0, 2, 15, 16, 17, 105, 106, 9000, 9100, 0xFFFF_FFFF])
def test_codes_of_nothing_are_refused(code: int) -> None:
    asked = frame(operation=2, code=code)
    assert answer_to(asked, bound=True) == Refused(ErrorCode.INVALID_COMMAND)


def test_the_code_counts_for_reads_only() -> None:
    call = admitted(frame(b"\x06orders", operation=128, code=38))
    assert call.request() == CreateStream("orders")


@settings(max_examples=500)
@given(
    st.binary(min_size=256, max_size=256),
    st.sampled_from([None, 5]),
    st.sampled_from([None, *sorted(OPERATIONS)]),
    st.sampled_from([None, 1, 12, 100, 202]),
    st.binary(max_size=20),
    st.booleans(),
    st.booleans(),
)
def test_any_header_is_admitted_dropped_or_answered(
    header: bytes,
    kind: int | None,
    operation: int | None,
    code: int | None,
    body: bytes,
    stamped: bool,
    bound: bool,
) -> None:
    data = bytearray(header)
    if kind is not None:
        data[60] = kind
    if operation is not None:
        data[176] = operation
    if code is not None:
        data[196:200] = code.to_bytes(4, "little")
    if not stamped:
        data[144:160] = bytes(16)
    asked = Frame(bytes(data), memoryview(bytearray(body)))
    try:
        call = admit(asked, bound=bound)
    except InadmissibleError as error:
        parts = encode_outcome(error.header, error.outcome, commit=1, cluster_id=CLUSTER_ID)
        assert len(b"".join(parts)) == 256
    except BadFrameError:
        assert data[60] >= 30
    else:
        if call is None:
            assert data[60] < 30
            assert data[60] != 5
        else:
            assert call.command.operation == data[176]
            with suppress(DecodeError):
                call.request()


# --- Logins ------------------------------------------------------------------------------------

RUST = ClientVersion(11264, "rust-sdk", "0.11.0")
RUST_BYTES = b"\x00\x2c\x00\x00\x08rust-sdk\x060.11.0"


def test_a_login_with_a_password() -> None:
    attempt = decode_login(memoryview(RUST_BYTES + b"\x04iggy\x06secret\x00\x00\x00\x00"))
    assert attempt.client == RUST
    assert attempt.password == Login(RUST, "iggy", "secret")
    assert attempt.token is None
    assert accepts(attempt.client.protocol_version)


def test_a_login_with_a_token() -> None:
    attempt = decode_login(memoryview(RUST_BYTES + b"\x05token\x00\x00\x00\x00"))
    assert attempt.client == RUST
    assert attempt.password is None
    assert attempt.token == LoginWithToken(RUST, "token")


def test_an_empty_password_reads_as_a_token_too() -> None:
    attempt = decode_login(memoryview(RUST_BYTES + b"\x04iggy\x00\x00\x00\x00\x00"))
    assert attempt.password == Login(RUST, "iggy", "")
    assert attempt.token == LoginWithToken(RUST, "iggy")


@pytest.mark.parametrize("rest", [b"", b"\x04igg", b"\x00", b"\x04iggy\x04iggy\x01\x00\x00\x00"])
def test_a_login_that_is_neither(rest: bytes) -> None:
    attempt = decode_login(memoryview(RUST_BYTES + rest))
    assert attempt.client == RUST
    assert attempt.password is None
    assert attempt.token is None


def test_context_and_what_follows_are_ignored() -> None:
    rest = b"\x04iggy\x04iggy\x02\x00\x00\x00{}and more"
    attempt = decode_login(memoryview(RUST_BYTES + rest))
    assert attempt.password == Login(RUST, "iggy", "iggy", "{}")


@pytest.mark.parametrize("size", range(len(RUST_BYTES)))
def test_a_login_of_an_unknown_client_is_malformed(size: int) -> None:
    with pytest.raises(DecodeError):
        decode_login(memoryview(RUST_BYTES[:size]))


def test_the_call_of_a_login_reads_its_body() -> None:
    call = admitted(decoded(example.LOGIN), bound=False)
    assert call.request() == decode_login(call.body)
    assert call.request().password == Login(RUST, "iggy", "iggy")


# --- The exact bytes of answers ----------------------------------------------------------------


def reply_bytes(
    operation: int,
    *,
    status: int = 0,
    body: bytes = b"",
    commit: int = 9,
    timestamp: int = 0,
    stamp: bytes = NOBODY,
    number: int = 7,
) -> bytes:
    """A reply, put together from the offsets of the specification."""
    data = bytearray(256)
    data[32:48] = CLUSTER_ID
    data[48:52] = (256 + len(body)).to_bytes(4, "little")
    data[60] = 8
    data[128:144] = stamp
    data[160:176] = example.CLIENT
    data[176:184] = data[184:192] = commit.to_bytes(8, "little")
    data[192:200] = timestamp.to_bytes(8, "little")
    data[200:208] = number.to_bytes(8, "little")
    data[208] = operation
    data[216:220] = status.to_bytes(4, "little")
    return bytes(data) + body


class Verbatim:
    """The codec of bodies that are given as they are."""

    def encode(self, value: bytes) -> list[bytes]:
        return [value]

    def decode(self, body: memoryview) -> bytes:
        return body.tobytes()


def call_of(operation: int, code: int = 12, **fields) -> Call:
    """A call of the real command, whose reply is given as bytes."""
    if operation == 1:
        fields |= {"session": 0, "request": 7}
    command = BY_CODE[code] if operation == 2 else BY_OPERATION[operation]
    header = RequestHeader(
        client=example.CLIENT, operation=operation, session=42, request=7, code=0
    )._replace(**fields)
    return Call(header, replace(command, reply=Verbatim()), memoryview(b""))


def encoded(call: Call | RequestHeader, outcome, timestamp: int = 1234) -> bytes:
    parts = encode_outcome(call, outcome, commit=9, cluster_id=CLUSTER_ID, timestamp=timestamp)
    return b"".join(parts)


def section(code: int) -> bytes:
    return b"\1\0\0\0\0\0\0\0" + code.to_bytes(4, "little")


every_operation = pytest.mark.parametrize(
    "operation", sorted({1, 2, 3, 138} | METADATA | PARTITION)
)


@every_operation
@pytest.mark.parametrize("payload", [b"", b"payload", b"x" * 4096, b"x" * 4097, b"x" * 100_000])
def test_success(operation: int, payload: bytes) -> None:
    framed = operation in {1, 138} | METADATA | OFFSETS
    expected = reply_bytes(
        COMMITTED.get(operation, operation),
        body=(bytes(4) if framed else b"") + payload,
        timestamp=1234,
    )
    assert encoded(call_of(operation), Success(payload)) == expected


@every_operation
def test_refused(operation: int) -> None:
    expected = reply_bytes(operation, status=4041)
    outcome = Refused(ErrorCode.UNSUPPORTED_OPTION_KEY)
    assert encoded(call_of(operation), outcome) == expected
    assert encoded(call_of(operation).header, outcome) == expected


@every_operation
def test_rejected(operation: int) -> None:
    outcome = Rejected(ErrorCode.STREAM_NAME_ALREADY_EXISTS)
    if operation == 1:
        with pytest.raises(EncodeError):
            encoded(call_of(operation), outcome)
        return
    if operation in METADATA | {138}:
        stamp = COMMITTED.get(operation, operation)
        expected = reply_bytes(stamp, body=section(1012), timestamp=1234)
    else:
        expected = reply_bytes(operation, status=1012)
    assert encoded(call_of(operation), outcome) == expected


@every_operation
@pytest.mark.parametrize("code", [57, 58, 59])
def test_not_now(operation: int, code: int) -> None:
    if operation == 138:
        expected = reply_bytes(68, body=section(code))
    elif operation in METADATA | {1}:
        expected = reply_bytes(operation, body=section(code))
    else:
        expected = reply_bytes(operation, status=code)
    assert encoded(call_of(operation), NotNow(ErrorCode(code))) == expected


@every_operation
@pytest.mark.parametrize("reason", [reason for reason in EvictionReason if reason != 0])
def test_evicted(operation: int, reason: EvictionReason) -> None:
    expected = bytearray(256)
    expected[32:48] = CLUSTER_ID
    expected[48:52] = (256).to_bytes(4, "little")
    expected[60] = 13
    expected[128:144] = example.CLIENT
    if reason == 14:
        expected[144:152] = b"\x00\x2c\x00\x00" * 2
    expected[255] = reason
    assert encoded(call_of(operation), Evicted(reason)) == expected
    alone = encode_eviction(reason, client=example.CLIENT, cluster_id=CLUSTER_ID)
    assert alone == expected


def test_nobody_is_evicted() -> None:
    with pytest.raises(EncodeError):
        encode_eviction(EvictionReason.STALE_CLIENT, client=NOBODY, cluster_id=CLUSTER_ID)


@every_operation
def test_who_has_to_log_in_does_not_learn_the_position(operation: int) -> None:
    expected = reply_bytes(operation, status=40, commit=0)
    assert encoded(call_of(operation), Refused(ErrorCode.UNAUTHENTICATED)) == expected


@pytest.mark.parametrize("outcome", [Success(b""), Rejected(ErrorCode.UNAUTHORIZED)])
def test_checksum_and_number_are_echoed(outcome) -> None:
    call = call_of(128, request_checksum=bytes(range(16)), request=1 << 60)
    body = bytes(4) if isinstance(outcome, Success) else section(41)
    expected = reply_bytes(128, body=body, stamp=bytes(range(16)), number=1 << 60, timestamp=1234)
    assert encoded(call, outcome) == expected


@pytest.mark.parametrize("operation", [0, 4, 69, 127, 255])
def test_a_refusal_echoes_what_means_nothing(operation: int) -> None:
    header = RequestHeader(client=example.CLIENT, operation=operation, request=7)
    expected = reply_bytes(operation, status=3)
    assert encoded(header, Refused(ErrorCode.INVALID_COMMAND)) == expected


def test_success_needs_the_call() -> None:
    with pytest.raises(EncodeError):
        encoded(call_of(3).header, Success(b""))


def test_a_value_of_another_command_is_our_mistake() -> None:
    call = admitted(decoded(example.CREATE_STREAM))
    with pytest.raises(EncodeError):
        encoded(call, Success(LoggedIn(1, 2, 3, "4")))


def test_a_reply_that_no_client_takes_is_our_mistake() -> None:
    call = call_of(128)
    size = 256 + 4 + 1000
    for limit, fits in ((size, True), (size - 1, False)):
        arguments = {"commit": 9, "cluster_id": CLUSTER_ID, "max_frame_size": limit}
        if fits:
            assert len(b"".join(encode_outcome(call, Success(bytes(1000)), **arguments))) == size
        else:
            with pytest.raises(EncodeError):
                encode_outcome(call, Success(bytes(1000)), **arguments)


def test_large_bodies_are_not_copied() -> None:
    payload = bytearray(100_000)
    parts = encode_outcome(call_of(2), Success(payload), commit=9, cluster_id=CLUSTER_ID)
    assert parts[1] is payload


def test_small_replies_are_one_buffer() -> None:
    parts = encode_outcome(call_of(128), Success(b"x" * 100), commit=9, cluster_id=CLUSTER_ID)
    assert len(parts) == 1


def test_the_table_agrees_with_the_classes_of_operations() -> None:
    for command in GENERATION:
        operation = command.operation
        assert command.framed is (operation in {1, 138} | METADATA | OFFSETS), command.name
        assert command.committed_operation == COMMITTED.get(operation, operation), command.name
        assert command.needs_login is (command.code not in {1, 39, 40, 45}), command.name


# --- The worked examples -----------------------------------------------------------------------

ORDERS = StreamDetails(Stream(0, 1_785_542_400_000_000, 0, 0, 0, "orders"), ())
SINGLE_NODE = ClusterMetadata(
    "single-node",
    (
        ClusterNode(
            "iggy-node",
            "127.0.0.1",
            8090,
            8080,
            3000,
            8092,
            NodeRole.LEADER,
            NodeStatus.HEALTHY,
        ),
    ),
)


def with_op(frame_bytes: bytes, op: int) -> bytes:
    """An example with `op` set, which is informational: here it always equals `commit`."""
    return frame_bytes[:176] + op.to_bytes(8, "little") + frame_bytes[184:]


@pytest.mark.parametrize(
    ("asked", "outcome", "commit", "timestamp", "expected"),
    [
        pytest.param(example.PING, Success(), 41, 0, with_op(example.PING_REPLY, 41), id="ping"),
        pytest.param(
            example.LOGIN,
            Success(LoggedIn(0, 42, 11264, "0.9.0")),
            42,
            0,
            example.LOGIN_REPLY,
            id="login",
        ),
        pytest.param(
            example.LOGIN,
            Evicted(EvictionReason.INVALID_CREDENTIALS),
            41,
            0,
            example.WRONG_PASSWORD,
            id="wrong password",
        ),
        pytest.param(
            example.LOGIN,
            Evicted(EvictionReason.INCOMPATIBLE_PROTOCOL),
            41,
            0,
            example.WRONG_VERSION,
            id="wrong version",
        ),
        pytest.param(
            example.CREATE_STREAM,
            Success(ORDERS),
            43,
            1_785_542_400_000_000,
            example.CREATE_STREAM_REPLY,
            id="create stream",
        ),
        pytest.param(
            example.CREATE_STREAM_AGAIN,
            Rejected(ErrorCode.STREAM_NAME_ALREADY_EXISTS),
            44,
            1_785_542_401_000_000,
            example.CREATE_STREAM_REJECTED,
            id="create stream again",
        ),
        pytest.param(
            example.CREATE_STREAM_AGAIN,
            NotNow(ErrorCode.TRANSIENT_NOT_ACCEPTED),
            44,
            1_785_542_401_000_000,
            example.CREATE_STREAM_NOT_NOW,
            id="create stream on a follower",
        ),
        pytest.param(
            example.CLUSTER_METADATA,
            Success(SINGLE_NODE),
            44,
            0,
            with_op(example.CLUSTER_METADATA_REPLY, 44),
            id="cluster metadata",
        ),
        pytest.param(
            example.LOGOUT, Success(), 45, 0, with_op(example.LOGOUT_REPLY, 45), id="logout"
        ),
    ],
)
def test_answers_of_the_worked_examples(
    asked: bytes, outcome, commit: int, timestamp: int, expected: bytes
) -> None:
    call = admitted(decoded(asked))
    parts = encode_outcome(call, outcome, commit=commit, cluster_id=NOBODY, timestamp=timestamp)
    assert b"".join(parts) == expected


def test_requests_of_the_worked_examples() -> None:
    assert admitted(decoded(example.PING), bound=False).request() == Ping()
    assert admitted(decoded(example.CREATE_STREAM)).request() == CreateStream("orders")
    assert admitted(decoded(example.CLUSTER_METADATA)).request() == GetClusterMetadata()
    assert xxhash.xxh3_64_intdigest(b"") == 0x2D06800538D394C2


def test_cluster_metadata_before_login_as_in_the_worked_example() -> None:
    with pytest.raises(InadmissibleError) as info:
        admit(decoded(example.CLUSTER_METADATA_BEFORE_LOGIN), bound=False)
    error = info.value
    parts = encode_outcome(error.header, error.outcome, commit=41, cluster_id=NOBODY)
    assert b"".join(parts) == example.CLUSTER_METADATA_DENIED


def test_send_not_now_as_in_the_worked_example() -> None:
    call = admitted(frame(operation=160, request=3))
    outcome = NotNow(ErrorCode.TRANSIENT_NOT_ACCEPTED)
    parts = encode_outcome(call, outcome, commit=0, cluster_id=NOBODY)
    assert b"".join(parts) == example.SEND_NOT_NOW
