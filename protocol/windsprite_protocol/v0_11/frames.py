"""Frames: a header of 256 bytes, then a body (spec 01, 1 to 4).

The layouts below are the declaration. Since a header is read and written for every frame, what
runs is their `struct` twin. Fields of 128 bits stay `bytes` in the order of the wire: nobody
calculates with them.

What the specification calls `command` at offset 60 is `kind` here; a command is what a request
asks for.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any, Final, NamedTuple

import construct as c

from windsprite_protocol.errors import DecodeError, EncodeError
from windsprite_protocol.layout import struct_twin
from windsprite_protocol.model.messages import Buffer

HEADER_SIZE: Final = 256
"""Bytes of every header."""

DEFAULT_MAX_FRAME_SIZE: Final = 64 * 1024 * 1024
"""Bytes of the largest frame that servers and clients agree on by default, header included."""

NOBODY: Final = bytes(16)
"""The 128-bit field that says nothing: no client, no checksum, no cluster."""


class FrameKind(IntEnum):
    """What a frame is, as far as clients are concerned (spec 01, 1.2)."""

    REQUEST = 5
    REPLY = 8
    EVICTION = 13


LAST_FRAME_KIND: Final = 29
"""The highest kind with a meaning; the others up to here belong to replicas of another server."""


class Operation(IntEnum):
    """How a command travels (spec 01, 2.3)."""

    RESERVED = 0
    REGISTER = 1
    NON_REPLICATED = 2
    LOGOUT = 3
    CREATE_TOPIC_WITH_ASSIGNMENTS = 64
    CREATE_PARTITIONS_WITH_ASSIGNMENTS = 65
    REMOVE_CONSUMER_GROUP_MEMBER = 66
    COMPLETE_CONSUMER_GROUP_REVOCATION = 67
    TRUNCATE_PARTITION = 68
    CREATE_STREAM = 128
    UPDATE_STREAM = 129
    DELETE_STREAM = 130
    PURGE_STREAM = 131
    CREATE_TOPIC = 132
    UPDATE_TOPIC = 133
    DELETE_TOPIC = 134
    PURGE_TOPIC = 135
    CREATE_PARTITIONS = 136
    DELETE_PARTITIONS = 137
    DELETE_SEGMENTS = 138
    CREATE_CONSUMER_GROUP = 139
    DELETE_CONSUMER_GROUP = 140
    CREATE_USER = 141
    UPDATE_USER = 142
    DELETE_USER = 143
    CHANGE_PASSWORD = 144
    UPDATE_PERMISSIONS = 145
    CREATE_PERSONAL_ACCESS_TOKEN = 146
    DELETE_PERSONAL_ACCESS_TOKEN = 147
    JOIN_CONSUMER_GROUP = 148
    LEAVE_CONSUMER_GROUP = 149
    SEND_MESSAGES = 160
    STORE_CONSUMER_OFFSET = 161
    DELETE_CONSUMER_OFFSET = 162


OPERATIONS: Final = frozenset(map(int, Operation))
"""The numbers that are an operation."""

_INTERNAL: Final = range(64, 128)
_METADATA: Final = frozenset(
    number for number in OPERATIONS if 64 <= number < 160 and number != Operation.DELETE_SEGMENTS
)
_FRAMED: Final = _METADATA | {Operation.STORE_CONSUMER_OFFSET, Operation.DELETE_CONSUMER_OFFSET}


def is_internal(operation: int) -> bool:
    """Whether a number is the server's own: never accepted from a client."""
    return operation in _INTERNAL


def is_metadata(operation: int) -> bool:
    """Whether an operation changes metadata; deleting segments isn't one until it is committed."""
    return operation in _METADATA


def is_partition(operation: int) -> bool:
    """Whether an operation writes to a partition."""
    return operation >= Operation.SEND_MESSAGES


def is_framed(operation: int) -> bool:
    """Whether a reply of status 0 under an operation begins with a result section (spec 01, 3.4).

    A reply to a login does too, unless its body is empty.
    """
    return operation in _FRAMED


# --- Layouts ---------------------------------------------------------------------------------


def _header(kind: FrameKind, *fields: c.Construct[Any, Any]) -> c.Construct[Any, Any]:
    """A header: what all frames have in common (spec 01, 1.1), then its own fields."""
    layout = c.Struct(
        "checksum" / c.Bytes(16),
        "checksum_body" / c.Bytes(16),
        "cluster" / c.Bytes(16),
        "size" / c.Int32ul,
        "view" / c.Int32ul,
        "release" / c.Int32ul,
        "kind" / c.Int8ul,
        "replica" / c.Int8ul,
        c.Padding(66),
        *fields,
    )
    if layout.sizeof() != HEADER_SIZE:
        message = f"the header of a {kind.name.lower()} has {layout.sizeof()} bytes"
        raise ValueError(message)
    return layout


REQUEST_HEADER: Final = _header(
    FrameKind.REQUEST,
    "client" / c.Bytes(16),
    "request_checksum" / c.Bytes(16),
    "timestamp" / c.Int64ul,
    "request" / c.Int64ul,
    "operation" / c.Int8ul,
    c.Padding(7),
    "session" / c.Int64ul,
    "user_id" / c.Int32ul,
    "code" / c.Int32ul,
    c.Padding(56),
)

REPLY_HEADER: Final = _header(
    FrameKind.REPLY,
    "request_checksum" / c.Bytes(16),
    "context" / c.Bytes(16),
    "client" / c.Bytes(16),
    "op" / c.Int64ul,
    "commit" / c.Int64ul,
    "timestamp" / c.Int64ul,
    "request" / c.Int64ul,
    "operation" / c.Int8ul,
    c.Padding(7),
    "status" / c.Int32ul,
    c.Padding(36),
)

EVICTION_HEADER: Final = _header(
    FrameKind.EVICTION,
    "client" / c.Bytes(16),
    "max_version" / c.Int32ul,
    "min_version" / c.Int32ul,
    c.Padding(103),
    "reason" / c.Int8ul,
)

_REQUEST: Final = struct_twin(REQUEST_HEADER)
_REPLY: Final = struct_twin(REPLY_HEADER)
_EVICTION: Final = struct_twin(EVICTION_HEADER)
_KIND_OF_REPLY: Final = int(FrameKind.REPLY)

# --- Values ----------------------------------------------------------------------------------


class RequestHeader(NamedTuple):
    """What precedes the body of a request (spec 01, 2.1).

    Attributes:
        checksum: 0 on client connections.
        checksum_body: 0 on client connections.
        cluster: Ignored.
        size: Bytes of the whole frame.
        view: Ignored.
        release: Ignored.
        kind: `FrameKind.REQUEST`.
        replica: Ignored.
        client: Chosen by the client for each session; not 0.
        request_checksum: XXH3-64 of the body, or 0 for none.
        timestamp: Ignored.
        request: The number of the request in its session.
        operation: How the command travels; may be no `Operation` in what comes in.
        session: From the login; 0 before.
        user_id: Never to be trusted.
        code: The code of the command if the operation is `NON_REPLICATED`.
    """

    checksum: bytes = NOBODY
    checksum_body: bytes = NOBODY
    cluster: bytes = NOBODY
    size: int = HEADER_SIZE
    view: int = 0
    release: int = 0
    kind: int = 5
    replica: int = 0
    client: bytes = NOBODY
    request_checksum: bytes = NOBODY
    timestamp: int = 0
    request: int = 0
    operation: int = 0
    session: int = 0
    user_id: int = 0
    code: int = 0


class ReplyHeader(NamedTuple):
    """What precedes the body of a reply (spec 01, 3.1).

    Attributes:
        checksum: 0 on client connections.
        checksum_body: 0 on client connections.
        cluster: The cluster id (a UUID in the order of RFC 9562), or 0 from a server that does
            not tell (spec 09, 1).
        size: Bytes of the whole frame.
        view: Ignored.
        release: Ignored.
        kind: `FrameKind.REPLY`.
        replica: Ignored.
        request_checksum: That of the request.
        context: Ignored.
        client: That of the request.
        op: Informational.
        commit: In replies to logins and metadata commands: up to where the metadata of the server
            is applied; never goes back (spec 01, 3.2).
        timestamp: When the request was committed, in microseconds since the Unix epoch, or 0.
        request: That of the request.
        operation: That of the request, or what it was committed as (spec 01, 3.3).
        status: 0, or the error code of a refusal without a body.
    """

    checksum: bytes = NOBODY
    checksum_body: bytes = NOBODY
    cluster: bytes = NOBODY
    size: int = HEADER_SIZE
    view: int = 0
    release: int = 0
    kind: int = 8
    replica: int = 0
    request_checksum: bytes = NOBODY
    context: bytes = NOBODY
    client: bytes = NOBODY
    op: int = 0
    commit: int = 0
    timestamp: int = 0
    request: int = 0
    operation: int = 0
    status: int = 0


class EvictionHeader(NamedTuple):
    """A frame without a body that ends a session or refuses a login (spec 01, 4.1).

    Attributes:
        checksum: 0 on client connections.
        checksum_body: 0 on client connections.
        cluster: As in a reply.
        size: 256.
        view: Ignored.
        release: 0.
        kind: `FrameKind.EVICTION`.
        replica: Ignored.
        client: Not 0.
        max_version: The newest protocol version served, packed; 0 unless that is the reason.
        min_version: The oldest protocol version served, packed; 0 unless that is the reason.
        reason: May be no `EvictionReason` in what comes in.
    """

    checksum: bytes = NOBODY
    checksum_body: bytes = NOBODY
    cluster: bytes = NOBODY
    size: int = HEADER_SIZE
    view: int = 0
    release: int = 0
    kind: int = 13
    replica: int = 0
    client: bytes = NOBODY
    max_version: int = 0
    min_version: int = 0
    reason: int = 0


def pack_request(header: RequestHeader) -> bytes:
    """The 256 bytes of a header.

    Raises:
        EncodeError: A number does not fit its field.
    """
    try:
        return _REQUEST.pack(*header)
    except struct.error as error:
        raise EncodeError(str(error)) from error


def pack_reply(header: ReplyHeader) -> bytes:
    """The 256 bytes of a header.

    Raises:
        EncodeError: A number does not fit its field.
    """
    try:
        return _REPLY.pack(*header)
    except struct.error as error:
        raise EncodeError(str(error)) from error


def pack_success(
    *,
    cluster: bytes,
    size: int,
    request_checksum: bytes,
    client: bytes,
    position: int,
    timestamp: int,
    request: int,
    operation: int,
) -> bytes:
    """What `pack_reply` makes of a header with these fields, without the header.

    Args:
        cluster: As in `ReplyHeader`.
        size: As there.
        request_checksum: As there.
        client: As there.
        position: Both `op` and `commit`.
        timestamp: As there.
        request: As there.
        operation: As there.

    Raises:
        EncodeError: A number does not fit its field.
    """
    try:
        return _REPLY.pack(
            NOBODY, NOBODY, cluster, size, 0, 0, _KIND_OF_REPLY, 0,
            request_checksum, NOBODY, client, position, position, timestamp, request, operation, 0,
        )  # fmt: skip
    except struct.error as error:
        raise EncodeError(str(error)) from error


def pack_eviction(header: EvictionHeader) -> bytes:
    """The 256 bytes of a header.

    Raises:
        EncodeError: A number does not fit its field.
    """
    try:
        return _EVICTION.pack(*header)
    except struct.error as error:
        raise EncodeError(str(error)) from error


def unpack_request(buffer: Buffer, offset: int = 0) -> RequestHeader:
    """The header of a request at an offset of a buffer; nothing but its size is checked.

    Raises:
        DecodeError: Fewer than 256 bytes are left.
    """
    try:
        return RequestHeader._make(_REQUEST.unpack_from(buffer, offset))
    except struct.error as error:
        raise _cut_short() from error


def unpack_reply(buffer: Buffer, offset: int = 0) -> ReplyHeader:
    """The header of a reply at an offset of a buffer; nothing but its size is checked.

    Raises:
        DecodeError: Fewer than 256 bytes are left.
    """
    try:
        return ReplyHeader._make(_REPLY.unpack_from(buffer, offset))
    except struct.error as error:
        raise _cut_short() from error


def unpack_eviction(buffer: Buffer, offset: int = 0) -> EvictionHeader:
    """The header of an eviction at an offset of a buffer; nothing but its size is checked.

    Raises:
        DecodeError: Fewer than 256 bytes are left.
    """
    try:
        return EvictionHeader._make(_EVICTION.unpack_from(buffer, offset))
    except struct.error as error:
        raise _cut_short() from error


def _cut_short() -> DecodeError:
    return DecodeError(f"a header of fewer than {HEADER_SIZE} bytes")


# --- Protocol versions -----------------------------------------------------------------------


def pack_version(major: int, minor: int, patch: int) -> int:
    """A version as one number, of the same order as versions (spec 01, 5.1).

    Raises:
        ValueError: A component is not in 0..1023.
    """
    if not all(0 <= component < 1024 for component in (major, minor, patch)):
        message = f"version {major}.{minor}.{patch} has a component outside 0..1023"
        raise ValueError(message)
    return major << 20 | minor << 10 | patch


def unpack_version(packed: int) -> tuple[int, int, int]:
    """Major, minor and patch of a packed version; the two bits above them are dropped."""
    return packed >> 20 & 1023, packed >> 10 & 1023, packed & 1023


def format_version(packed: int) -> str:
    """A packed version as people write it: `0.11.0`."""
    return ".".join(map(str, unpack_version(packed)))


PROTOCOL_VERSION: Final = pack_version(0, 11, 0)
"""The newest version of the protocol that is spoken here, packed."""

MIN_PROTOCOL_VERSION: Final = pack_version(0, 11, 0)
"""The oldest version of the protocol that is spoken here, packed."""


def accepts(client_version: int) -> bool:
    """Whether a client of this packed version is served: any patch of a minor version in range."""
    return client_version >= MIN_PROTOCOL_VERSION and client_version >> 10 <= PROTOCOL_VERSION >> 10
