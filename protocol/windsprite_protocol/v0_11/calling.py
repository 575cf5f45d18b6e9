"""The client's side of this generation: requests to frames, frames to replies (spec 01)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import xxhash

from windsprite_protocol.errors import DecodeError, EncodeError, ErrorCode, ProtocolError
from windsprite_protocol.generation import Command, Plane
from windsprite_protocol.model.messages import Buffer
from windsprite_protocol.model.sessions import EvictionReason
from windsprite_protocol.v0_11.decoder import Frame
from windsprite_protocol.v0_11.frames import (
    DEFAULT_MAX_FRAME_SIZE,
    HEADER_SIZE,
    NOBODY,
    FrameKind,
    Operation,
    ReplyHeader,
    RequestHeader,
    format_version,
    is_framed,
    is_partition,
    pack_request,
    unpack_eviction,
    unpack_reply,
)
from windsprite_protocol.v0_11.table import GENERATION, LEGACY_LOGIN_CODES

T = TypeVar("T")

_U32: Final = struct.Struct("<I")
_NOT_EXECUTED: Final = frozenset(
    {
        ErrorCode.TRANSIENT_NOT_COMMITTED,
        ErrorCode.TRANSIENT_NOT_ACCEPTED,
        ErrorCode.REQUEST_ALREADY_APPLIED,
    }
)
_EVICTION_CODES: Final = {
    EvictionReason.RESERVED: ErrorCode.INVALID_COMMAND,
    EvictionReason.NO_SESSION: ErrorCode.UNAUTHENTICATED,
    EvictionReason.CLIENT_RELEASE_TOO_LOW: ErrorCode.INVALID_COMMAND,
    EvictionReason.CLIENT_RELEASE_TOO_HIGH: ErrorCode.INVALID_COMMAND,
    EvictionReason.INVALID_REQUEST_OPERATION: ErrorCode.INVALID_COMMAND,
    EvictionReason.INVALID_REQUEST_BODY: ErrorCode.INVALID_COMMAND,
    EvictionReason.INVALID_REQUEST_BODY_SIZE: ErrorCode.INVALID_COMMAND,
    EvictionReason.SESSION_TOO_LOW: ErrorCode.UNAUTHENTICATED,
    EvictionReason.SESSION_RELEASE_MISMATCH: ErrorCode.UNAUTHENTICATED,
    EvictionReason.INVALID_CREDENTIALS: ErrorCode.INVALID_CREDENTIALS,
    EvictionReason.INVALID_TOKEN: ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN,
    EvictionReason.USER_INACTIVE: ErrorCode.UNAUTHENTICATED,
    EvictionReason.SESSION_ERROR: ErrorCode.UNAUTHENTICATED,
    EvictionReason.STALE_CLIENT: ErrorCode.STALE_CLIENT,
    EvictionReason.INCOMPATIBLE_PROTOCOL: ErrorCode.INCOMPATIBLE_PROTOCOL_VERSION,
    EvictionReason.MALFORMED_LOGIN: ErrorCode.INVALID_FORMAT,
}


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A request whose body the caller has encoded; its reply is the body of the reply.

    Attributes:
        code: The command code; need not be one of this generation.
        body: Bytes.
    """

    code: int
    body: bytes


class _RawBody:
    """A body that is taken as it is."""

    def encode(self, value: RawRequest) -> Sequence[Buffer]:
        """The body of a request.

        Raises:
            EncodeError: It is no bytes.
        """
        try:
            return (bytes(memoryview(value.body)),)
        except TypeError as error:
            message = f"the body of command {value.code}: {error}"
            raise EncodeError(message) from error

    def decode(self, body: memoryview) -> bytes:
        """The body of a reply, without its result section."""
        return bytes(body)


_RAW_BODY: Final[Any] = _RawBody()


def command_of(request: Any) -> Command[Any]:  # noqa: ANN401 - of any command
    """The command of a request; codes that nobody knows travel as reads do (spec 07, 4.5).

    Raises:
        EncodeError: A raw request that would begin or end a session, or whose code is no number of
            32 bits; code `INVALID_COMMAND`.
    """
    if not isinstance(request, RawRequest):
        return GENERATION.of(type(request))
    code = request.code
    command = GENERATION.by_code(code)
    is_session = command is not None and command.plane is Plane.SESSION
    if is_session or code in LEGACY_LOGIN_CODES or not 0 <= code < 1 << 32:
        message = f"command {code} cannot be sent as it is"
        raise EncodeError(message, ErrorCode.INVALID_COMMAND)
    if command is not None:
        return replace(command, request_type=RawRequest, request=_RAW_BODY, reply=_RAW_BODY)
    return Command(
        code=code,
        name=f"command {code}",
        plane=Plane.READ,
        request_type=RawRequest,
        request=_RAW_BODY,
        reply=_RAW_BODY,
        operation=Operation.NON_REPLICATED,
        committed_operation=Operation.NON_REPLICATED,
        framed=False,
    )


class RemoteError(ProtocolError):
    """The server answered a request with an error.

    Attributes:
        number: As it came over the wire.
        code: What it means here; `ErrorCode.ERROR` for a number that is not known.
        executed: Whether the server ran the request and its state turned it down: a repeat gets
            the same answer. If not, nothing was decided; about `TRANSIENT_NOT_COMMITTED` and
            `REQUEST_ALREADY_APPLIED` see there (spec 01, 7.1).
    """

    def __init__(self, number: int, *, executed: bool) -> None:
        self.number = int(number)
        self.code = ErrorCode.of(number)
        self.executed = executed
        super().__init__(f"{self.code.sentence} (error {self.number})")


class EvictedError(ProtocolError):
    """The server ended the session, or refused the login.

    Attributes:
        number: The reason as it came over the wire.
        reason: What it means; `None` for a number that is not known.
        code: The error that it amounts to (spec 01, 4.3).
        min_version: The oldest protocol version the server speaks, packed; 0 unless that is why.
        max_version: The newest one.
    """

    def __init__(self, number: int, *, min_version: int = 0, max_version: int = 0) -> None:
        self.number = int(number)
        self.min_version = min_version
        self.max_version = max_version
        self.reason: EvictionReason | None = None
        self.code = ErrorCode.UNAUTHENTICATED
        detail = f"eviction {self.number}"
        if number in _EVICTION_CODES:
            self.reason = EvictionReason(number)
            detail = self.reason.name.lower().replace("_", " ")
            self.code = _EVICTION_CODES[self.reason]
        if self.code == ErrorCode.INCOMPATIBLE_PROTOCOL_VERSION:
            if 1 <= min_version <= max_version:
                versions = f"{format_version(min_version)} to {format_version(max_version)}"
                detail = f"the server speaks {versions}"
            else:
                self.code = ErrorCode.UNAUTHENTICATED
        super().__init__(f"{self.code.sentence} ({detail})")


def encode_request(
    command: Command[T],
    value: T,
    *,
    client: bytes,
    session: int,
    request: int,
    checksum: bool,
    max_frame_size: int = DEFAULT_MAX_FRAME_SIZE,
) -> list[Buffer]:
    """The frame of a request (spec 01, 2).

    Args:
        command: What is asked for.
        value: Its request.
        client: 16 bytes, chosen at random for each session, not all 0.
        session: From the login; 0 before.
        request: The number of the request (spec 01, 6.3); 0 for a login.
        checksum: Whether the server shall check the body. Reads and what writes to partitions go
            without in any case: batches have checksums of their own.
        max_frame_size: Bytes of the largest frame that the server takes.

    Returns:
        The parts of the frame in their order; batches are not copied.

    Raises:
        EncodeError: The value cannot be carried, or the frame would be too large.
    """
    body = command.request.encode(value)
    size = HEADER_SIZE + sum(map(len, body))
    if size > max_frame_size:
        message = f"a request of {size} bytes; the server takes {max_frame_size}"
        raise EncodeError(message)
    operation = command.operation
    coded = operation == Operation.NON_REPLICATED
    stamp = NOBODY
    if checksum and not coded and not is_partition(operation):
        digest = xxhash.xxh3_64()
        for part in body:
            digest.update(part)
        stamp = digest.intdigest().to_bytes(16, "little")
    head = pack_request(
        RequestHeader(
            size=size,
            client=client,
            request_checksum=stamp,
            request=request,
            operation=operation,
            session=session,
            code=command.code if coded else 0,
        )
    )
    return [head, *body]


def decode_reply(frame: Frame, command: Command[Any]) -> tuple[ReplyHeader, Any]:
    """Header and value of the reply to a command, read as the official clients do (spec 01, 3.5).

    Whether the reply belongs to a certain request is for the caller to see, in its header.

    Raises:
        RemoteError: The server answered with an error.
        EvictedError: The frame is an eviction.
        DecodeError: The frame is not a reply to such a command; code `INVALID_FORMAT` if only the
            value makes no sense.
    """
    header = unpack_reply(frame.header)
    if header.kind == FrameKind.EVICTION:
        eviction = unpack_eviction(frame.header)
        raise EvictedError(
            eviction.reason,
            min_version=eviction.min_version,
            max_version=eviction.max_version,
        )
    if header.kind != FrameKind.REPLY:
        message = f"a frame of kind {header.kind} where a reply belongs"
        raise DecodeError(message)
    if header.size != HEADER_SIZE + len(frame.body):
        message = f"a reply of {header.size} bytes with a body of {len(frame.body)}"
        raise DecodeError(message)
    if header.status:
        raise RemoteError(header.status, executed=False)
    operation = header.operation
    if operation not in (command.operation, command.committed_operation):
        message = f"operation {operation} in a reply to {command.name}"
        raise DecodeError(message)
    body = frame.body
    if is_framed(operation) or (operation == Operation.REGISTER and body):
        body = _after_section(body)
    try:
        return header, command.reply.decode(body)
    except DecodeError as error:
        message = f"the reply to {command.name}: {error}"
        raise DecodeError(message, ErrorCode.INVALID_FORMAT) from error


def _after_section(body: memoryview) -> memoryview:
    """What follows the result section, if that tells of a success (spec 01, 3.4)."""
    if len(body) < _U32.size:
        raise DecodeError("a reply without its result section")
    (count,) = _U32.unpack_from(body)
    size = _U32.size + 2 * _U32.size * count
    if size > len(body):
        message = f"a result section of {size} bytes in a body of {len(body)}"
        raise DecodeError(message)
    if count:
        (result,) = _U32.unpack_from(body, 2 * _U32.size)
        if result:
            raise RemoteError(result, executed=result not in _NOT_EXECUTED)
    return body[size:]
