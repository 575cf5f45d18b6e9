"""Between a transport and the handlers: frames to calls, outcomes to replies, in generation 0.11.

A second generation of the wire gets a sibling of this module; the handlers do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from types import CoroutineType, MappingProxyType
from typing import Any, Final, cast
from uuid import UUID

from windsprite_protocol.errors import BadFrameError, DecodeError, ErrorCode
from windsprite_protocol.generation import Plane
from windsprite_protocol.model.groups import SyncConsumerGroup
from windsprite_protocol.model.messages import Buffer, FlushUnsavedBuffer, SendMessages
from windsprite_protocol.model.outcomes import (
    Evicted,
    NotNow,
    Outcome,
    Refused,
    Rejected,
    Success,
)
from windsprite_protocol.model.sessions import EvictionReason, LoginAttempt
from windsprite_protocol.model.system import (
    GetClient,
    GetSnapshot,
    SnapshotCompression,
    SnapshotKind,
    TransportKind,
)
from windsprite_protocol.model.tokens import CreateToken
from windsprite_protocol.v0_11.decoder import Frame
from windsprite_protocol.v0_11.frames import NOBODY, Operation, RequestHeader, accepts
from windsprite_protocol.v0_11.serving import (
    Call,
    InadmissibleError,
    admit,
    encode_eviction,
    encode_outcome,
)
from windsprite_protocol.v0_11.table import GENERATION
from windsprite_server.core.clock import Clock
from windsprite_server.handlers.dispatcher import Dispatcher
from windsprite_server.session import Connection, Session, Step


@dataclass(slots=True)
class Answer:
    """What goes back for one frame; nobody changes it.

    Attributes:
        parts: Buffers to be written one after the other; empty if the frame is ignored.
        size: Their bytes.
        bad: Why nothing more can be understood on this connection, which has to be closed.
    """

    parts: Sequence[Buffer]
    size: int
    bad: str | None = None


_IGNORED: Final = Answer((), 0)
_METADATA: Final = Plane.METADATA  # members of an enumeration are slow to look up

# Of these the permission is checked before the body is read: requests for what cannot be there
# stand in for those that cannot be read.
_STAND_INS: Final = {
    GetClient: GetClient(client_id=0),
    GetSnapshot: GetSnapshot(SnapshotCompression.STORED, (SnapshotKind.ALL, SnapshotKind.ALL)),
}
# What is said to other bodies that cannot be read, where that is not the ordinary refusal.
_UNREADABLE: Final[Mapping[type[Any], Outcome]] = MappingProxyType(
    {
        FlushUnsavedBuffer: Refused(ErrorCode.FEATURE_UNAVAILABLE),  # so that nobody relies on it
        SendMessages: Refused(ErrorCode.RESOURCE_NOT_FOUND),
        SyncConsumerGroup: Success(None),
    }
)

# What is said to a change of metadata that is not carried out now (spec 01, 6.5).
_INSTEAD: Final[Mapping[Step, Outcome]] = MappingProxyType(
    {
        Step.IN_PROGRESS: NotNow(ErrorCode.TRANSIENT_NOT_COMMITTED),
        Step.NO_SESSION: Evicted(EvictionReason.NO_SESSION),
        Step.OUTDATED: Evicted(EvictionReason.SESSION_TOO_LOW),
        Step.MISMATCH: Refused(ErrorCode.INVALID_COMMAND),
        Step.REPLY_FORGOTTEN: NotNow(ErrorCode.REQUEST_ALREADY_APPLIED),
    }
)
# A secret is told once; a repetition hears that it was, and nothing keeps it.
_TOLD_ONCE: Final = NotNow(ErrorCode.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS)


class Wire:
    """Serves frames of any transport.

    Whatever happens, each frame that is not ignored gets exactly one answer: an error that nobody
    foresaw is logged and answered with the generic error.

    Args:
        dispatcher: What carries out requests.
        cluster_id: Told in every reply.
        max_frame_size: Bytes of the largest reply.
        clock: Says when clients were heard.
    """

    def __init__(
        self, dispatcher: Dispatcher, cluster_id: UUID, max_frame_size: int, clock: Clock
    ) -> None:
        self._dispatcher = dispatcher
        self._cluster_id = cluster_id.bytes
        self._max_frame_size = max_frame_size
        self._clock = clock

    def connect(
        self,
        transport: TransportKind,
        peer: str,
        reached_host: str,
        reached_port: int,
        push: Callable[[Answer], None],
    ) -> Connection:
        """Take note of a new connection.

        Args:
            transport: How the client is connected.
            peer: The address of the client, for people.
            reached_host: The address of ours that it connected to.
            reached_port: The port.
            push: Sends the client what it did not ask for.
        """
        connection = self._dispatcher.connect(transport, peer, reached_host, reached_port)
        connection.tell_evicted = partial(self._push_eviction, push)
        return connection

    def disconnect(self, connection: Connection) -> None:
        """Forget a connection, and end its session."""
        self._dispatcher.disconnect(connection)

    def serve(self, connection: Connection, frame: Frame) -> Answer | Coroutine[Any, Any, Answer]:
        """Answer a frame: at once, or by a coroutine where something has to be waited for."""
        try:
            call = admit(frame, bound=connection.session is not None)
        except InadmissibleError as error:
            self._hear(connection)
            return self._answer(connection, error.header, error.outcome)
        except BadFrameError as error:
            return Answer((), 0, bad=str(error))
        if call is None:
            return _IGNORED
        self._hear(connection)
        connection.request = call.header.request
        return self._carry_out(connection, call)

    def _hear(self, connection: Connection) -> None:
        connection.heard_at = self._clock.monotonic()
        connection.is_listed = True

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
        if call.command.plane is _METADATA:
            return self._change(connection, call, request)
        number = connection.request
        outcome = self._dispatcher.dispatch(connection, request, number)
        if isinstance(outcome, CoroutineType):
            work = self._dispatcher.outcome_of(outcome, connection, request, number)
            return self._answer_later(connection, call, work)
        return self._answer(connection, call, cast("Outcome", outcome))

    # Changes of metadata are carried out at most once

    def _change(
        self,
        connection: Connection,
        call: Call,
        request: Any,  # noqa: ANN401 - of any command
    ) -> Answer | Coroutine[Any, Any, Answer]:
        """Carry out a change of metadata, unless it was carried out before (spec 01, 6.5)."""
        outcome = self._dispatcher.dispatch(connection, request, call.header.request)
        session = connection.session
        if session is None or isinstance(outcome, Refused | NotNow | Evicted):
            return self._answer(connection, call, cast("Outcome", outcome))
        clients, header = self._dispatcher.clients, call.header
        step = clients.begin(session.client, session.number, header.request, _checksum(header))
        if step is Step.EXECUTE:
            if isinstance(outcome, CoroutineType):
                return self._change_later(connection, call, request, session, outcome)
            return self._changed(connection, call, request, session, cast("Outcome", outcome))
        if isinstance(outcome, CoroutineType):
            outcome.close()
        if step is not Step.REPLAY:
            return self._answer(connection, call, _INSTEAD[step])
        reply = clients.reply(session.client, header.request)
        return reply if isinstance(reply, Answer) else self._answer(connection, call, reply)

    async def _change_later(
        self,
        connection: Connection,
        call: Call,
        request: Any,  # noqa: ANN401 - of any command
        session: Session,
        work: Coroutine[Any, Any, Any],
    ) -> Answer:
        try:
            outcome = await self._wait(
                connection,
                self._dispatcher.outcome_of(work, connection, request, call.header.request),
            )
        except BaseException:
            self._dispatcher.clients.abandon(session.client)
            raise
        return self._changed(connection, call, request, session, outcome)

    def _changed(
        self,
        connection: Connection,
        call: Call,
        request: Any,  # noqa: ANN401 - of any command
        session: Session,
        outcome: Outcome,
    ) -> Answer:
        """Note how a change of metadata ended; what was not executed may come again."""
        answer = self._answer(connection, call, outcome)
        clients, header = self._dispatcher.clients, call.header
        if isinstance(outcome, Success | Rejected):
            is_secret = isinstance(request, CreateToken) and isinstance(outcome, Success)
            reply = _TOLD_ONCE if is_secret else answer
            clients.finish(session.client, header.request, _checksum(header), reply, answer.size)
        else:
            clients.abandon(session.client)
        return answer

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
        return self._answer(connection, call, await self._wait(connection, outcome))

    async def _wait(self, connection: Connection, outcome: Coroutine[Any, Any, Outcome]) -> Outcome:
        """Who waits for an answer is not idle."""
        connection.heard_at = inf
        found = await outcome
        connection.heard_at = self._clock.monotonic()
        return found

    def _answer(
        self, connection: Connection, call: Call | RequestHeader, outcome: Outcome
    ) -> Answer:
        try:
            parts = self._encode(call, outcome)
        except Exception as error:
            parts = self._encode(call, self._unexpected(connection, call, error))
        return Answer(parts, len(parts[0]) if len(parts) == 1 else sum(map(len, parts)))

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
        if request_type in _STAND_INS:
            stand_in = _STAND_INS[request_type]
            outcome = self._dispatcher.dispatch(connection, stand_in, call.header.request)
            return cast("Outcome", outcome)  # nothing has to be waited for
        return _UNREADABLE.get(request_type, Refused(error.code))

    def _push_eviction(
        self, push: Callable[[Answer], None], session: Session, reason: EvictionReason
    ) -> None:
        """Tell a client that its session is over, without having been asked."""
        frame = encode_eviction(reason, client=session.client, cluster_id=self._cluster_id)
        push(Answer((frame,), len(frame)))

    def _unexpected(
        self, connection: Connection, call: Call | RequestHeader, error: Exception
    ) -> Outcome:
        command = call.command.name if isinstance(call, Call) else "inadmissible"
        header = call.header if isinstance(call, Call) else call
        return self._dispatcher.unexpected(connection, command, header.request, error)


def _checksum(header: RequestHeader) -> bytes | None:
    """The checksum of the body of a request, if the client told it."""
    return None if header.request_checksum == NOBODY else header.request_checksum
