"""The server's side of this generation: frames to calls, outcomes to frames (spec 01).

The reference leaves some bad requests without an answer; here each one gets the refusal that is
free of risk for its clients, since silence costs them a time-out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import xxhash

from windsprite_protocol.errors import (
    BadFrameError,
    EncodeError,
    ErrorCode,
    ProtocolError,
)
from windsprite_protocol.generation import Command
from windsprite_protocol.model.messages import Buffer
from windsprite_protocol.model.outcomes import (
    Evicted,
    NotNow,
    Outcome,
    Refused,
    Rejected,
    Success,
)
from windsprite_protocol.model.sessions import (
    EvictionReason,
    LoginAttempt,
    LoginWithToken,
)
from windsprite_protocol.v0_11.decoder import Frame
from windsprite_protocol.v0_11.frames import (
    DEFAULT_MAX_FRAME_SIZE,
    HEADER_SIZE,
    LAST_FRAME_KIND,
    MIN_PROTOCOL_VERSION,
    NOBODY,
    OPERATIONS,
    PROTOCOL_VERSION,
    EvictionHeader,
    FrameKind,
    Operation,
    ReplyHeader,
    RequestHeader,
    is_internal,
    is_metadata,
    pack_eviction,
    pack_reply,
    pack_success,
    unpack_request,
)
from windsprite_protocol.v0_11.layouts.sessions import decode_login_shapes
from windsprite_protocol.v0_11.table import GENERATION, LEGACY_LOGIN_CODES

# Members of an enumeration are slow to look up; these are compared for every frame.
_REQUEST: Final = int(FrameKind.REQUEST)
_RESERVED: Final = int(Operation.RESERVED)
_REGISTER: Final = int(Operation.REGISTER)
_NON_REPLICATED: Final = int(Operation.NON_REPLICATED)
_LOGOUT: Final = int(Operation.LOGOUT)
_DELETE_SEGMENTS: Final = int(Operation.DELETE_SEGMENTS)

_BY_OPERATION: Final = {
    command.operation: command
    for command in GENERATION
    if command.operation != _NON_REPLICATED and command.request_type is not LoginWithToken
}
_BY_CODE: Final = {
    command.code: command for command in GENERATION if command.operation == _NON_REPLICATED
}
_COMMITTED: Final = {
    operation: command.committed_operation for operation, command in _BY_OPERATION.items()
}

_SECTION_OF_SUCCESS: Final = bytes(4)
_SECTION_OF_FAILURE: Final = bytes([1, 0, 0, 0, 0, 0, 0, 0])

_JOINED_SIZE: Final = 4096
"""Bytes up to which copying a body costs less than one more buffer to be sent."""


@dataclass(slots=True)
class Call:
    """A request that may be carried out.

    Attributes:
        header: As it came in; neither its session nor its user may be trusted.
        command: What is asked for; `Login` also stands for a login by token.
        body: Not decoded yet.
    """

    header: RequestHeader
    command: Command[Any]
    body: memoryview

    def request(self) -> Any:  # noqa: ANN401  # of `command.request_type`
        """The decoded body: a request of the command, or the `LoginAttempt` of a login.

        Raises:
            DecodeError: Refuse the call with its code; a login is evicted as malformed.
        """
        if self.header.operation == _REGISTER:
            return decode_login(self.body)
        return self.command.request.decode(self.body)


class InadmissibleError(ProtocolError):
    """A request is answered without being carried out.

    Attributes:
        header: That of the request; may hold anything.
        outcome: What to answer.
    """

    def __init__(self, header: RequestHeader, outcome: Refused | Evicted) -> None:
        super().__init__(f"operation {header.operation}, code {header.code}: {outcome}")
        self.header = header
        self.outcome = outcome


def admit(frame: Frame, *, bound: bool) -> Call | None:
    """Checks what can be told from a frame alone (spec 01, 1.3 and 10).

    Args:
        frame: As it came from the decoder.
        bound: Whether the connection has a session.

    Returns:
        The call, or `None` for a frame that is not meant for a server of clients: it is dropped.

    Raises:
        BadFrameError: The other side does not speak this protocol: close the connection.
        InadmissibleError: The request gets an answer at once; the connection stays open.
    """
    header = unpack_request(frame.header)
    if header.kind != _REQUEST:
        if header.kind > LAST_FRAME_KIND:
            raise BadFrameError(f"a frame of kind {header.kind}")
        return None
    operation = header.operation
    if not _is_plausible(header):
        raise _refused(header, ErrorCode.INVALID_COMMAND)
    checksum = header.request_checksum
    if checksum != NOBODY and checksum != checksum_of(frame.body):
        raise _refused(header, ErrorCode.INVALID_FORMAT)
    if operation == _NON_REPLICATED:
        command = _BY_CODE.get(header.code)
        if command is None or not (bound or not command.needs_login):
            raise _unknown_code(header, bound=bound)
        return Call(header, command, frame.body)
    if not bound and operation > _LOGOUT:
        raise InadmissibleError(header, Evicted(EvictionReason.NO_SESSION))
    if is_internal(operation):
        raise InadmissibleError(header, Evicted(EvictionReason.INVALID_REQUEST_OPERATION))
    return Call(header, _BY_OPERATION[operation], frame.body)


def checksum_of(body: Buffer) -> bytes:
    """The `request_checksum` of a body: its XXH3-64, extended to the 16 bytes of the wire."""
    return xxhash.xxh3_64_intdigest(body).to_bytes(16, "little")


def _is_plausible(header: RequestHeader) -> bool:
    """Whether operation, client, session and request can belong together."""
    operation = header.operation
    if operation not in OPERATIONS or operation == _RESERVED or header.client == NOBODY:
        return False
    if operation == _REGISTER:
        return not (header.session or header.request)
    return operation == _NON_REPLICATED or bool(header.session and header.request)


def _unknown_code(header: RequestHeader, *, bound: bool) -> InadmissibleError:
    """What is said to a request that carries a code and is not served."""
    if header.code in LEGACY_LOGIN_CODES:
        return InadmissibleError(header, Evicted(EvictionReason.MALFORMED_LOGIN))
    if not bound:
        return _refused(header, ErrorCode.UNAUTHENTICATED)
    is_other = GENERATION.by_code(header.code) is not None
    return _refused(
        header, ErrorCode.FEATURE_UNAVAILABLE if is_other else ErrorCode.INVALID_COMMAND
    )


def _refused(header: RequestHeader, code: ErrorCode) -> InadmissibleError:
    return InadmissibleError(header, Refused(code))


# --- Logins ----------------------------------------------------------------------------------


def decode_login(body: memoryview) -> LoginAttempt:
    """Reads the body of a login in every way it can be read.

    Raises:
        DecodeError: Not even the version of the client can be read.
    """
    return LoginAttempt(*decode_login_shapes(body))


# --- Outcomes --------------------------------------------------------------------------------


def encode_outcome(
    call: Call | RequestHeader,
    outcome: Outcome,
    *,
    commit: int,
    cluster_id: bytes,
    timestamp: int = 0,
    max_frame_size: int = DEFAULT_MAX_FRAME_SIZE,
) -> list[Buffer]:
    """The frame that answers a request (spec 01, 3 and 4).

    Args:
        call: What is answered; its header is enough unless the outcome is a success.
        outcome: How the request ended. What is `Rejected` outside of the metadata commands
            travels as if it were `Refused`, since only those have room for both.
        commit: Up to where the metadata of this server is applied. Not shown to a client that
            is told to log in first.
        cluster_id: 16 bytes (spec 09, 1).
        timestamp: When an executed request was committed, in microseconds since the Unix epoch.
        max_frame_size: Bytes of the largest frame that clients take.

    Returns:
        The parts of the frame in their order; batches are not copied.

    Raises:
        EncodeError: This outcome cannot be the answer to this request, its value does not fit
            the command, or the frame would be too large.
    """
    header = call.header if isinstance(call, Call) else call
    if isinstance(outcome, Success):
        if not isinstance(call, Call):
            raise EncodeError("only an admitted call can succeed")
        command = call.command
        stamp = command.committed_operation
        section = _SECTION_OF_SUCCESS if command.framed else b""
        body = command.reply.encode(outcome.value)
    elif isinstance(outcome, Evicted):
        return [encode_eviction(outcome.reason, client=header.client, cluster_id=cluster_id)]
    else:
        framed_as = _stamp_of_failure(header.operation, outcome)
        if framed_as is None:
            return [_refusal(header, outcome.code, commit, cluster_id)]
        stamp = framed_as
        section = _SECTION_OF_FAILURE + outcome.code.to_bytes(4, "little")
        body = ()
        if isinstance(outcome, NotNow):
            timestamp = 0
    body_size = 0
    for part in body:
        body_size += len(part)
    size = HEADER_SIZE + len(section) + body_size
    if size > max_frame_size:
        message = f"a reply of {size} bytes; clients take {max_frame_size}"
        raise EncodeError(message)
    head = pack_success(
        cluster=cluster_id,
        size=size,
        request_checksum=header.request_checksum,
        client=header.client,
        position=commit,
        timestamp=timestamp,
        request=header.request,
        operation=stamp,
    )
    if body_size <= _JOINED_SIZE:
        return [b"".join((head, section, *body))]
    return [head + section, *body]


def _stamp_of_failure(operation: int, outcome: Refused | Rejected | NotNow) -> int | None:
    """The operation of a reply whose result section tells of a failure (spec 01, 3.3 and 3.4).

    `None` if the failure belongs into the header. A deletion of segments has a result section only
    in its committed form.
    """
    if isinstance(outcome, Refused):
        return None
    committed = _COMMITTED.get(operation, operation)
    if isinstance(outcome, Rejected):
        if operation == _REGISTER:
            raise EncodeError("a login is turned down by an eviction")
        return committed if is_metadata(committed) else None
    if operation == _REGISTER or is_metadata(operation):
        return operation
    return committed if operation == _DELETE_SEGMENTS else None


def encode_eviction(reason: EvictionReason, *, client: bytes, cluster_id: bytes) -> bytes:
    """The frame that ends a session, also without having been asked (spec 01, 4).

    Args:
        reason: Why. Only `INCOMPATIBLE_PROTOCOL` says which versions are served.
        client: Whose session; 16 bytes, not all of them 0.
        cluster_id: 16 bytes (spec 09, 1).

    Raises:
        EncodeError: There is no client.
    """
    if client == NOBODY:
        raise EncodeError("an eviction of nobody")
    incompatible = reason == EvictionReason.INCOMPATIBLE_PROTOCOL
    return pack_eviction(
        EvictionHeader(
            cluster=cluster_id,
            client=client,
            max_version=PROTOCOL_VERSION if incompatible else 0,
            min_version=MIN_PROTOCOL_VERSION if incompatible else 0,
            reason=reason,
        )
    )


def _refusal(header: RequestHeader, code: ErrorCode, commit: int, cluster_id: bytes) -> bytes:
    """A reply that says in its header why nothing was done."""
    position = 0 if code == ErrorCode.UNAUTHENTICATED else commit
    return pack_reply(
        ReplyHeader(
            cluster=cluster_id,
            request_checksum=header.request_checksum,
            client=header.client,
            op=position,
            commit=position,
            request=header.request,
            operation=header.operation,
            status=code,
        )
    )
