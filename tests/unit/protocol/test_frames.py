"""Headers of frames, operations and versions."""

import pytest

from support import worked_examples as example
from windsprite_protocol.errors import DecodeError, EncodeError
from windsprite_protocol.v0_11.frames import (
    MIN_PROTOCOL_VERSION,
    OPERATIONS,
    PROTOCOL_VERSION,
    EvictionHeader,
    FrameKind,
    Operation,
    ReplyHeader,
    RequestHeader,
    accepts,
    format_version,
    is_framed,
    is_internal,
    is_metadata,
    is_partition,
    pack_eviction,
    pack_reply,
    pack_request,
    pack_version,
    unpack_eviction,
    unpack_reply,
    unpack_request,
    unpack_version,
)

CREATE_STREAM_CHECKSUM = (0x327D5D19644D82D7).to_bytes(16, "little")

REQUESTS = {
    "ping": (example.PING, RequestHeader(client=example.CLIENT, request=1, operation=2, code=1)),
    "login": (
        example.LOGIN,
        RequestHeader(
            size=290,
            client=example.CLIENT,
            request_checksum=(0x8FDE203C2A3F8095).to_bytes(16, "little"),
            operation=1,
        ),
    ),
    "create stream": (
        example.CREATE_STREAM,
        RequestHeader(
            size=263,
            client=example.CLIENT,
            request_checksum=CREATE_STREAM_CHECKSUM,
            request=1,
            operation=128,
            session=42,
        ),
    ),
    "create stream again": (
        example.CREATE_STREAM_AGAIN,
        RequestHeader(
            size=263,
            client=example.CLIENT,
            request_checksum=CREATE_STREAM_CHECKSUM,
            request=2,
            operation=128,
            session=42,
        ),
    ),
    "cluster metadata before login": (
        example.CLUSTER_METADATA_BEFORE_LOGIN,
        RequestHeader(client=example.CLIENT, request=1, operation=2, code=12),
    ),
    "cluster metadata": (
        example.CLUSTER_METADATA,
        RequestHeader(client=example.CLIENT, request=3, operation=2, session=42, code=12),
    ),
    "logout": (
        example.LOGOUT,
        RequestHeader(
            client=example.CLIENT,
            request_checksum=(0x2D06800538D394C2).to_bytes(16, "little"),
            request=4,
            operation=3,
            session=42,
        ),
    ),
}

REPLIES = {
    "ping": (
        example.PING_REPLY,
        ReplyHeader(client=example.CLIENT, commit=41, request=1, operation=2),
    ),
    "login": (
        example.LOGIN_REPLY,
        ReplyHeader(
            size=282,
            request_checksum=(0x8FDE203C2A3F8095).to_bytes(16, "little"),
            client=example.CLIENT,
            op=42,
            commit=42,
            operation=1,
        ),
    ),
    "create stream": (
        example.CREATE_STREAM_REPLY,
        ReplyHeader(
            size=303,
            request_checksum=CREATE_STREAM_CHECKSUM,
            client=example.CLIENT,
            op=43,
            commit=43,
            timestamp=1_785_542_400_000_000,
            request=1,
            operation=128,
        ),
    ),
    "cluster metadata denied": (
        example.CLUSTER_METADATA_DENIED,
        ReplyHeader(client=example.CLIENT, request=1, operation=2, status=40),
    ),
    "send not now": (
        example.SEND_NOT_NOW,
        ReplyHeader(client=example.CLIENT, request=3, operation=160, status=58),
    ),
}

EVICTIONS = {
    "wrong password": (example.WRONG_PASSWORD, EvictionHeader(client=example.CLIENT, reason=9)),
    "wrong version": (
        example.WRONG_VERSION,
        EvictionHeader(client=example.CLIENT, max_version=11264, min_version=11264, reason=14),
    ),
}


@pytest.mark.parametrize(("frame", "header"), REQUESTS.values(), ids=REQUESTS)
def test_request_header_of_the_worked_examples(frame: bytes, header: RequestHeader) -> None:
    assert unpack_request(frame) == header
    assert pack_request(header) == frame[:256]


@pytest.mark.parametrize(("frame", "header"), REPLIES.values(), ids=REPLIES)
def test_reply_header_of_the_worked_examples(frame: bytes, header: ReplyHeader) -> None:
    assert unpack_reply(frame) == header
    assert pack_reply(header) == frame[:256]


@pytest.mark.parametrize(("frame", "header"), EVICTIONS.values(), ids=EVICTIONS)
def test_eviction_of_the_worked_examples(frame: bytes, header: EvictionHeader) -> None:
    assert unpack_eviction(frame) == header
    assert pack_eviction(header) == frame


@pytest.mark.parametrize("unpack", [unpack_request, unpack_reply, unpack_eviction])
def test_header_is_read_at_an_offset_and_must_be_whole(unpack) -> None:
    buffer = b"\xff" * 10 + example.PING
    assert unpack(buffer, 10) == unpack(example.PING)
    assert unpack(memoryview(buffer), 10) == unpack(example.PING)
    assert unpack(bytearray(buffer), 10) == unpack(example.PING)
    with pytest.raises(DecodeError):
        unpack(buffer, 11)
    with pytest.raises(DecodeError):
        unpack(b"")


def test_values_that_do_not_fit_a_header_are_our_mistake() -> None:
    with pytest.raises(EncodeError):
        pack_request(RequestHeader(session=1 << 64))
    with pytest.raises(EncodeError):
        pack_reply(ReplyHeader(commit=-1))
    with pytest.raises(EncodeError):
        pack_eviction(EvictionHeader(reason=256))


def test_defaults_name_the_kind_of_the_frame() -> None:
    assert RequestHeader().kind == FrameKind.REQUEST
    assert ReplyHeader().kind == FrameKind.REPLY
    assert EvictionHeader().kind == FrameKind.EVICTION


def test_classes_of_operations() -> None:
    internal = {64, 65, 66, 67, 68}
    metadata = internal | (set(range(128, 150)) - {138})
    partition = {160, 161, 162}
    assert {0, 1, 2, 3, 138} | metadata | partition == OPERATIONS
    assert {n for n in OPERATIONS if is_internal(n)} == internal
    assert {n for n in range(256) if is_internal(n)} == set(range(64, 128))
    assert {n for n in range(256) if is_metadata(n)} == metadata
    assert {n for n in OPERATIONS if is_partition(n)} == partition
    assert {n for n in range(256) if is_framed(n)} == metadata | {161, 162}
    assert not is_framed(Operation.DELETE_SEGMENTS)
    assert is_framed(Operation.TRUNCATE_PARTITION)


@pytest.mark.parametrize(
    ("version", "packed"),
    [
        ((0, 11, 0), 11264),
        ((0, 11, 7), 11271),
        ((0, 10, 0), 10240),
        ((1023, 1023, 1023), 2**30 - 1),
    ],
)
def test_packed_versions(version: tuple[int, int, int], packed: int) -> None:
    assert pack_version(*version) == packed
    assert unpack_version(packed) == version
    assert format_version(packed) == "{}.{}.{}".format(*version)


@pytest.mark.parametrize("version", [(1024, 0, 0), (0, 1024, 0), (0, 0, 1024), (0, -1, 0)])
def test_versions_that_cannot_be_packed(version: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="outside"):
        pack_version(*version)


def test_every_patch_of_a_served_minor_version_is_accepted() -> None:
    assert PROTOCOL_VERSION == MIN_PROTOCOL_VERSION == pack_version(0, 11, 0)
    accepted = [(0, 11, 0), (0, 11, 1), (0, 11, 1023)]
    refused = [(0, 0, 0), (0, 10, 0), (0, 10, 1023), (0, 12, 0), (1, 11, 0), (1023, 1023, 1023)]
    assert all(accepts(pack_version(*version)) for version in accepted)
    assert not any(accepts(pack_version(*version)) for version in refused)
    assert not accepts(0xFFFF_FFFF)
    assert not accepts(1 << 30 | pack_version(0, 11, 0))
