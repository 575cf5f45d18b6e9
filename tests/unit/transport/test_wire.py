"""Between frames and handlers: every frame gets the answer that it is due, whatever is in it."""

import asyncio
import io
import json
from math import inf
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from support.clock import ManualClock
from support.command_examples import EXAMPLES, Example
from support.frames import CLIENT, frame
from support.metadata import Machine
from support.wire_client import Answer as Received
from support.wire_client import Told, evicted, result, status, success
from windsprite_protocol.errors import DecodeError, ErrorCode
from windsprite_protocol.model.outcomes import Rejected
from windsprite_protocol.model.permissions import GlobalPermissions, Permissions
from windsprite_protocol.model.sessions import EvictionReason, Logout
from windsprite_protocol.model.streams import CreateStream
from windsprite_protocol.model.system import GetClient, Ping, TransportKind
from windsprite_protocol.v0_11.decoder import FrameDecoder
from windsprite_protocol.v0_11.table import GENERATION
from windsprite_server.core.log_setup import make_logger
from windsprite_server.handlers.answers import UnsuccessfulError
from windsprite_server.handlers.dispatcher import Dispatcher
from windsprite_server.handlers.table import HANDLERS
from windsprite_server.session import Connection, Sessions
from windsprite_server.transport.wire import Answer, Wire

CLUSTER_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
ROOT = 0
GET_CLIENT = 21
FLUSH = 102
SEND = 101
SYNC_GROUP = 606


class Served:
    """A wire with metadata and sessions, without disks."""

    def __init__(self) -> None:
        machine = Machine()
        self.nobody = machine.user("nobody")
        self.reader = machine.user("reader", Permissions(GlobalPermissions(read_servers=True)))
        self.sessions = Sessions(1)
        self.pushed: list[Answer] = []
        services: Any = SimpleNamespace(
            state=machine.state,
            sessions=self.sessions,
            committer=SimpleNamespace(position=machine.state.position),
        )
        self._log = io.StringIO()
        self.clock = ManualClock()
        logger = make_logger(log_format="json", level="debug", stream=self._log, clock=self.clock)
        self.table = dict(HANDLERS)
        dispatcher = Dispatcher(services, self.table, logger)
        self.wire = Wire(dispatcher, CLUSTER_ID, 1 << 20, self.clock)

    def connect(self, user_id: int | None = ROOT) -> Connection:
        connection = self.wire.connect(
            TransportKind.TCP, "192.0.2.1:5", "192.0.2.9", 8090, self.pushed.append
        )
        if user_id is not None:
            self.sessions.bind(connection, connection.number.to_bytes(16, "big"), user_id)
        return connection

    def answer(self, connection: Connection, data: bytes) -> Received:
        (received,) = FrameDecoder().feed(data)
        answer = self.wire.serve(connection, received)
        if not isinstance(answer, Answer):
            answer = asyncio.run(_result(answer))
        assert answer.bad is None
        assert answer.size == sum(map(len, answer.parts))
        (frame,) = FrameDecoder().feed(b"".join(answer.parts))
        return Received(frame)

    def told(self, connection: Connection, data: bytes) -> Told:
        return self.answer(connection, data).told

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._log.getvalue().splitlines()]


async def _result(awaited: Any) -> Any:
    return await awaited


@pytest.fixture
def served() -> Served:
    return Served()


def sent(code: int, body: bytes) -> bytes:
    """A request of a command with any body."""
    command = GENERATION.by_code(code)
    assert command is not None
    if command.operation == 1:
        return frame(body, operation=1, code=0, request=0)
    coded = command.operation == 2
    return frame(body, operation=command.operation, code=code if coded else 0, session=1, request=9)


def unreadable(example: Example) -> bytes | None:
    """A body that is cut so that it cannot be read any more; `None` if it never is."""
    for size in range(len(example.body) - 1, -1, -1):
        try:
            example.codec.decode(memoryview(example.body[:size]))
        except DecodeError:
            return example.body[:size]
    return None


def cut_requests() -> list[Any]:
    found: dict[int, bytes] = {}
    for example in EXAMPLES:
        if example.side == "request" and (body := unreadable(example)) is not None:
            found.setdefault(example.code, body)
    return [pytest.param(code, body, id=str(code)) for code, body in sorted(found.items())]


def test_all_commands_with_a_body_are_tried() -> None:
    empty = {1, 10, 12, 20, 22, 32, 39, 41, 201}
    tried = {parameters.values[0] for parameters in cut_requests()}
    assert tried == {command.code for command in GENERATION} - empty


@pytest.mark.parametrize(("code", "body"), cut_requests())
def test_a_body_that_cannot_be_read(served: Served, code: int, body: bytes) -> None:
    expected = {
        40: evicted(EvictionReason.MALFORMED_LOGIN),
        45: evicted(EvictionReason.MALFORMED_LOGIN),
        FLUSH: status(ErrorCode.FEATURE_UNAVAILABLE),
        SEND: status(ErrorCode.RESOURCE_NOT_FOUND),
        GET_CLIENT: success(),
        SYNC_GROUP: success(),
    }.get(code, status(ErrorCode.INVALID_COMMAND))
    connection = served.connect()
    answer = served.answer(connection, sent(code, body))
    assert answer.told == expected
    assert not answer.body
    assert connection.session is not None, "the session goes on"
    assert served.events == []


def test_whether_clients_may_be_seen_is_asked_before_the_request_is_read(served: Served) -> None:
    request = sent(GET_CLIENT, b"\x01")
    forbidden = status(ErrorCode.UNAUTHORIZED)
    assert served.told(served.connect(served.nobody), request) == forbidden
    assert served.told(served.connect(served.reader), request) == success()


def test_replies_carry_cluster_position_and_what_the_request_said(served: Served) -> None:
    header = served.answer(served.connect(), frame(request=77)).header
    assert header.cluster == CLUSTER_ID.bytes
    assert header.client == CLIENT
    assert header.request == 77
    assert header.commit > 0


def test_unknown_codes(served: Served) -> None:
    unknown = status(ErrorCode.INVALID_COMMAND)
    for code in (0, 2, 15, 105, 9000, 9100, 0xFFFF_FFFF):
        assert served.told(served.connect(), frame(code=code)) == unknown


@pytest.mark.parametrize("operation", sorted(set(range(256)) - {1, 2, 3}))
def test_every_operation_without_a_login(served: Served, operation: int) -> None:
    known = {command.operation for command in GENERATION} | {64, 65, 66, 67, 68}
    expected = (
        evicted(EvictionReason.NO_SESSION)
        if operation in known
        else status(ErrorCode.INVALID_COMMAND)
    )
    connection = served.connect(None)
    request = frame(b"anything", operation=operation, session=1, request=1)
    assert served.told(connection, request) == expected


def test_a_handler_that_does_not_exist_any_more_is_no_crash(served: Served) -> None:
    del served.table[Ping]
    unavailable = status(ErrorCode.FEATURE_UNAVAILABLE)
    assert served.told(served.connect(), frame()) == unavailable


def test_errors_nobody_foresaw_are_logged_without_the_values_of_the_request(
    served: Served,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("what now")

    served.table[Logout] = fail
    served.table[GetClient] = lambda *_: object()  # its codec does not know this
    connection = served.connect()
    failed = status(ErrorCode.ERROR)
    assert served.told(connection, sent(39, b"secret")) == failed
    assert served.told(connection, sent(GET_CLIENT, b"\x01\0\0\0")) == failed
    assert [event["request_number"] for event in served.events] == [9, 9]
    assert [event["connection"] for event in served.events] == [connection.number] * 2
    assert "RuntimeError: what now" in served.events[0]["exception"]
    assert "secret" not in str(served.events)


def test_a_request_may_end_the_session_of_the_one_behind_it(served: Served) -> None:
    connection = served.connect()
    assert served.told(connection, sent(39, b"")) == success()
    assert served.told(connection, sent(20, b"")) == status(ErrorCode.UNAUTHENTICATED)
    assert served.told(connection, sent(39, b"")) == success()


# --- Changes of metadata (spec 01, 6.5) ---------------------------------------------------------


def change(number: int = 1) -> bytes:
    """Creates a stream."""
    return frame(b"\x01s", operation=128, code=0, session=1, request=number)


def counted(served: Served) -> list[str]:
    """Counts how often a stream is created."""
    created: list[str] = []

    async def create(_services: Any, _connection: Connection, request: CreateStream) -> Any:
        created.append(request.name)
        raise UnsuccessfulError(Rejected(ErrorCode.STREAM_NAME_ALREADY_EXISTS))

    served.table[CreateStream] = create
    return created


@pytest.mark.parametrize("age", [1, -1], ids=["older", "newer"])
def test_a_session_of_another_number_than_the_table_knows_is_over(served: Served, age: int) -> None:
    created = counted(served)
    connection = served.connect()
    assert connection.session is not None
    connection.session.number -= age
    too_low = evicted(EvictionReason.SESSION_TOO_LOW)
    assert served.told(connection, change()) == too_low
    assert created == []
    connection.session.number += age
    assert served.told(connection, change()) == result(1012)


def test_a_change_that_fails_in_an_unforeseen_way_may_come_again(served: Served) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("what now")

    served.table[CreateStream] = fail
    connection = served.connect()
    for _ in range(2):
        assert served.told(connection, change()) == status(ErrorCode.ERROR)
    assert len(served.events) == 2
    created = counted(served)
    for _ in range(2):
        assert served.told(connection, change()) == result(1012)
    assert created == ["s"]


def test_a_change_whose_reply_cannot_be_made_was_made_all_the_same(served: Served) -> None:
    made: list[int] = []

    async def create(*_: object) -> object:
        made.append(1)
        return object()  # its codec does not know this

    served.table[CreateStream] = create
    connection = served.connect()
    for _ in range(2):
        assert served.told(connection, change()) == status(ErrorCode.ERROR)
    assert made == [1]


def test_a_change_that_is_called_off_may_come_again(served: Served) -> None:
    async def wait(*_: object) -> None:
        await asyncio.Event().wait()

    served.table[CreateStream] = wait
    connection = served.connect()

    async def call_off() -> None:
        (received,) = FrameDecoder().feed(change())
        answer = served.wire.serve(connection, received)
        assert not isinstance(answer, Answer)
        task = asyncio.ensure_future(answer)
        await asyncio.sleep(0)
        busy = served.wire.serve(connection, received)
        assert isinstance(busy, Answer)
        (told,) = map(Received, FrameDecoder().feed(b"".join(busy.parts)))
        assert told.told == result(ErrorCode.TRANSIENT_NOT_COMMITTED)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(call_off())
    created = counted(served)
    assert served.told(connection, change()) == result(1012)
    assert created == ["s"]


def test_clients_are_heard_with_every_request_and_while_they_wait(served: Served) -> None:
    connection = served.connect()
    asyncio.run(served.clock.advance(5))
    served.told(connection, frame())
    assert connection.heard_at == 5
    asyncio.run(served.clock.advance(1))
    served.told(connection, frame(operation=64, session=1))
    assert connection.heard_at == 6
    asyncio.run(served.clock.advance(1))
    (of_a_replica,) = FrameDecoder().feed(frame(kind=1))
    served.wire.serve(connection, of_a_replica)
    assert connection.heard_at == 6, "replicas speak to nobody here"

    async def look(_services: Any, waiting: Connection, _request: Any) -> None:
        await asyncio.sleep(0)
        assert waiting.heard_at == inf

    served.table[CreateStream] = look
    served.told(connection, change(7))
    assert connection.heard_at == 7
    assert connection.request == 7


def test_an_eviction_is_pushed_as_a_frame(served: Served) -> None:
    connection = served.connect()
    session = connection.session
    assert session is not None
    connection.tell_evicted(session, EvictionReason.STALE_CLIENT)
    (pushed,) = served.pushed
    assert pushed.size == 256
    (told,) = map(Received, FrameDecoder().feed(b"".join(pushed.parts)))
    assert told.told == evicted(EvictionReason.STALE_CLIENT)
    assert told.eviction.client == session.client
