"""Between a transport and the handlers: frames to calls, outcomes to replies, in generation 0.11.

A second generation of the wire gets a sibling of this module; the handlers do not change.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from types import CoroutineType
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

from windsprite_protocol.errors import BadFrameError, DecodeError, ErrorCode
from windsprite_protocol.model.groups import SyncConsumerGroup
from windsprite_protocol.model.messages import Buffer, FlushUnsavedBuffer
from windsprite_protocol.model.outcomes import Evicted, Outcome, Refused, Success
from windsprite_protocol.model.sessions import EvictionReason, LoginAttempt
from windsprite_protocol.model.system import (
    GetClient,
    GetSnapshot,
    SnapshotCompression,
    SnapshotKind,
    TransportKind,
)
from windsprite_protocol.v0_11.decoder import Frame
from windsprite_protocol.v0_11.frames import Operation, RequestHeader, accepts
from windsprite_protocol.v0_11.serving import Call, InadmissibleError, admit, encode_outcome
from windsprite_protocol.v0_11.table import GENERATION
from windsprite_server.handlers.dispatcher import Dispatcher
from windsprite_server.session import Connection


class Answer(NamedTuple):
    """What goes back for one frame.

    Attributes:
        parts: Buffers to be written one after the other; empty if the frame is ignored.
        size: Their bytes.
        bad: Why nothing more can be understood on this connection, which has to be closed.
    """

    parts: Sequence[Buffer]
    size: int
    bad: str | None = None


_IGNORED = Answer((), 0)

# Of these the permission is checked before the body is read: requests for what cannot be there
# stand in for those that cannot be read.
_STAND_INS: Final = {
    GetClient: GetClient(client_id=0),
    GetSnapshot: GetSnapshot(SnapshotCompression.STORED, (SnapshotKind.ALL, SnapshotKind.ALL)),
}
_NO_SUCH_THING: Final = Success(None)


class Wire:
    """Serves frames of any transport.

    Whatever happens, each frame that is not ignored gets exactly one answer: an error that nobody
    foresaw is logged and answered with the generic error.

    Args:
        dispatcher: What carries out requests.
        cluster_id: Told in every reply.
        max_frame_size: Bytes of the largest reply.
    """

    def __init__(self, dispatcher: Dispatcher, cluster_id: UUID, max_frame_size: int) -> None:
        self._dispatcher = dispatcher
        self._cluster_id = cluster_id.bytes
        self._max_frame_size = max_frame_size

    def connect(
        self, transport: TransportKind, peer: str, reached_host: str, reached_port: int
    ) -> Connection:
        """Take note of a new connection."""
        return self._dispatcher.connect(transport, peer, reached_host, reached_port)

    def disconnect(self, connection: Connection) -> None:
        """Forget a connection, and end its session."""
        self._dispatcher.disconnect(connection)

    def serve(self, connection: Connection, frame: Frame) -> Answer | Coroutine[Any, Any, Answer]:
        """Answer a frame: at once, or by a coroutine where something has to be waited for."""
        try:
            call = admit(frame, bound=connection.session is not None)
        except InadmissibleError as error:
            return self._answer(connection, error.header, error.outcome)
        except BadFrameError as error:
            return Answer((), 0, bad=str(error))
        return _IGNORED if call is None else self._carry_out(connection, call)

    def _carry_out(
        self, connection: Connection, call: Call
    ) -> Answer | Coroutine[Any, Any, Answer]:
        try:
            request = call.request()
        except DecodeError as error:
            return self._answer(connection, call, self._unreadable(connection, call, error))
        except Exception as error:
            return self._answer(connection, call, self._unexpected(connection, call, error))
        if isinstance(request, LoginAttempt):
            return self._login(connection, call, request)
        outcome = self._dispatcher.dispatch(connection, request, call.header.request)
        if isinstance(outcome, CoroutineType):
            return self._answer_later(connection, call, outcome)
        return self._answer(connection, call, cast("Outcome", outcome))

    def _login(
        self, connection: Connection, call: Call, attempt: LoginAttempt
    ) -> Answer | Coroutine[Any, Any, Answer]:
        if not accepts(attempt.client.protocol_version):
            return self._answer(connection, call, Evicted(EvictionReason.INCOMPATIBLE_PROTOCOL))
        outcome = self._dispatcher.login(
            connection, call.header.client, attempt, GENERATION.packed_version
        )
        return self._answer_later(connection, call, outcome)

    async def _answer_later(
        self, connection: Connection, call: Call, outcome: Coroutine[Any, Any, Outcome]
    ) -> Answer:
        return self._answer(connection, call, await outcome)

    def _answer(
        self, connection: Connection, call: Call | RequestHeader, outcome: Outcome
    ) -> Answer:
        try:
            parts = self._encode(call, outcome)
        except Exception as error:
            parts = self._encode(call, self._unexpected(connection, call, error))
        return Answer(parts, sum(map(len, parts)))

    def _encode(self, call: Call | RequestHeader, outcome: Outcome) -> Sequence[Buffer]:
        return encode_outcome(
            call,
            outcome,
            commit=self._dispatcher.position,
            cluster_id=self._cluster_id,
            max_frame_size=self._max_frame_size,
        )

    def _unreadable(self, connection: Connection, call: Call, error: DecodeError) -> Outcome:
        """What is said to a body that cannot be read (spec 02, 3)."""
        request_type = call.command.request_type
        if call.header.operation == Operation.REGISTER:
            return Evicted(EvictionReason.MALFORMED_LOGIN)
        if request_type is FlushUnsavedBuffer:
            return Refused(ErrorCode.FEATURE_UNAVAILABLE)  # always, so that nobody relies on it
        if request_type is SyncConsumerGroup:
            return _NO_SUCH_THING
        if request_type in _STAND_INS:
            stand_in = _STAND_INS[request_type]
            outcome = self._dispatcher.dispatch(connection, stand_in, call.header.request)
            return cast("Outcome", outcome)  # nothing has to be waited for
        return Refused(error.code)

    def _unexpected(
        self, connection: Connection, call: Call | RequestHeader, error: Exception
    ) -> Outcome:
        command = call.command.name if isinstance(call, Call) else "inadmissible"
        header = call.header if isinstance(call, Call) else call
        return self._dispatcher.unexpected(connection, command, header.request, error)
