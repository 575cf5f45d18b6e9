"""Asking a real server by hand, and comparing its answers whole: header, channel and body.

An answer is right if it is the one frame that the specification allows, byte for byte. Only the
position that the server gives in `op` and `commit` is not known beforehand: it may not fall.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from support import by_hand
from support.by_hand import COMMITTED, OPERATIONS, READ, REGISTER, UNFRAMED, u32
from support.clock import ManualClock
from support.ids import SeededIds
from support.real_server import RealServer, real_server
from support.wire_client import WireClient

_UNCOMMITTED: Final = {57, 58, 59}
_UNAUTHENTICATED: Final = 40


@dataclass(frozen=True)
class Expected:
    """An answer, and the way it takes: `success`, `status`, `result` or `eviction` (spec 01, 3.4).

    Attributes:
        channel: One of these words.
        code: The number of the error or of the reason.
        body: Of a success, without its result section.
    """

    channel: str
    code: int = 0
    body: bytes = b""

    def __str__(self) -> str:
        return f"{self.channel} {self.code}" if self.code else self.channel


def success(body: bytes = b"") -> Expected:
    return Expected("success", 0, body)


def status(code: int) -> Expected:
    return Expected("status", code)


def result(code: int) -> Expected:
    return Expected("result", code)


def eviction(reason: int) -> Expected:
    return Expected("eviction", reason)


EMPTY: Final = success()
ANSWERS: Final = "answers"


def answers(code: int, *texts: str) -> pytest.MarkDecorator:
    """Says of which answers to a command a test is a proof, such as `status 3`."""
    return pytest.mark.answers(code, *texts)


def case(
    title: str, code: int, body: bytes, expected: Expected, who: str = "root", *, says: str = ""
) -> Any:
    """A request that changes nothing, and its answer: parameters of a test.

    Args:
        title: What is shown.
        code: Of the command.
        body: Of the request.
        expected: The answer.
        who: The connection that asks; an attribute of `Stage`.
        says: The answer as the table names it, unless it is what `expected` says.
    """
    text = says or str(expected)
    values = (who, code, body, expected)
    return pytest.param(*values, id=f"{code} {text}: {title}", marks=answers(code, text))


class Stage:
    """A server and what is known of it.

    Attributes:
        server: The real one, in this process.
        clock: Its clock; it stands still until a test moves it.
        cluster: The id of the cluster, as replies tell it.
        commit: The highest position that a reply has told.
        root: A connection of the root user.
        nobody: A connection of a user without permissions, whose id is 1 and name `nobody`.
        stranger: A connection without a login.
    """

    def __init__(self, server: RealServer, clock: ManualClock) -> None:
        self.server = server
        self.clock = clock
        self.cluster = UUID(server.cluster_id).bytes
        self.commit = 0
        self.root: Peer
        self.nobody: Peer
        self.stranger: Peer
        self._numbers = itertools.count(1)

    def peer(self, wire: WireClient) -> Peer:
        """A client of an open connection."""
        return Peer(wire, self)

    @asynccontextmanager
    async def another(self, username: str = "", password: str = "secret") -> AsyncIterator[Peer]:
        """One more connection, logged in if there is a name."""
        async with self.server.client() as wire:
            peer = self.peer(wire)
            if username:
                await peer.log_in(username, password)
            yield peer

    async def new_time(self) -> int:
        """Let a second pass; returns the time that the next change is made at."""
        await self.clock.advance(1)
        return self.clock.now_us()

    def time_of(self, created: Exchange) -> int:
        """When something was created, as the reply says.

        That is now, or very little later: no two changes have the same time, and the server makes
        some by itself.
        """
        time = int.from_bytes(created.body[4:12], "little")
        assert 0 <= time - self.clock.now_us() < 100
        return time

    def new_name(self) -> str:
        return f"name-{next(self._numbers)}"

    def see(self, commit: int) -> None:
        """Note a position that a reply tells."""
        assert commit >= self.commit, "positions never go back"
        self.commit = commit


class Peer:
    """A client that does nothing by itself.

    Attributes:
        client: The 16 bytes that its requests name as their client.
        session: The number from its login; 0 before.
        next_request: The number of its next counted request.
    """

    _clients = itertools.count(1)

    def __init__(self, wire: WireClient, stage: Stage) -> None:
        self.wire = wire
        self.stage = stage
        self.client = bytes(16)
        self.renew()

    def renew(self) -> None:
        """Be another client, one without a session."""
        self.client = next(self._clients).to_bytes(16, "big")
        self.session = 0
        self.next_request = 1

    def request(self, code: int, body: bytes = b"", **fields: Any) -> bytes:
        """A frame; `fields` are those of its header that are not what they should be."""
        operation = fields.pop("operation", OPERATIONS.get(code, READ))
        number = 0 if operation == REGISTER else self.next_request
        if operation not in (READ, REGISTER) and "request" not in fields:
            self.next_request += 1
        values = {
            "client": self.client,
            "session": 0 if operation == REGISTER else self.session,
            "request": number,
            "code": code if operation == READ else 0,
        }
        return by_hand.request_frame(operation, body, **(values | fields))

    async def ask(self, code: int, body: bytes = b"", **fields: Any) -> Exchange:
        """Send a request and wait for its answer."""
        return await self.exchange(code, self.request(code, body, **fields))

    async def exchange(self, code: int, request: bytes) -> Exchange:
        await self.wire.send(request)
        return await self.answer(code, request)

    async def answer(self, code: int, request: bytes) -> Exchange:
        """Wait for the answer to a request that was sent before."""
        received = await self.wire.receive()
        return Exchange(self.stage, code, request, received.data)

    async def expect(self, expected: Expected, code: int, body: bytes = b"", **fields: Any) -> None:
        """Send a request, and compare its answer."""
        (await self.ask(code, body, **fields)).expect(expected)

    async def log_in(self, username: str = "iggy", password: str = "iggy") -> Exchange:
        """Open a session under a new client id."""
        self.renew()
        told = await self.ask(40, by_hand.login(username, password))
        self.session = int.from_bytes(told.answer[264:272], "little")
        assert self.session > 0
        return told


class Exchange:
    """A request and its answer, as bytes.

    Attributes:
        request: The whole frame.
        answer: The whole frame.
    """

    def __init__(self, stage: Stage, code: int, request: bytes, answer: bytes) -> None:
        self.request = request
        self.answer = answer
        self._stage = stage
        self._code = code

    @property
    def body(self) -> bytes:
        """Of the answer, without a result section of success."""
        body = self.answer[256:]
        if self._operation in UNFRAMED:
            return body
        assert body[:4] == bytes(4)
        return body[4:]

    @property
    def commit(self) -> int:
        """The position that the reply tells."""
        return int.from_bytes(self.answer[184:192], "little")

    def expect(self, expected: Expected) -> None:
        """Compare the answer with the only one that is right."""
        assert self._readable(self.answer) == self._readable(self._frame(expected))
        assert self.answer == self._frame(expected)
        if expected.channel != "eviction" and expected.code != _UNAUTHENTICATED:
            self._stage.see(self.commit)

    @property
    def _operation(self) -> int:
        return self.request[176]

    def _frame(self, expected: Expected) -> bytes:
        cluster, operation = self._stage.cluster, self._operation
        if expected.channel == "eviction":
            return by_hand.eviction_frame(self.request, expected.code, cluster=cluster)
        if expected.channel == "status":
            commit = 0 if expected.code == _UNAUTHENTICATED else self.commit
            return by_hand.reply_frame(
                self.request, cluster=cluster, commit=commit, status=expected.code
            )
        if expected.channel == "result":
            body = u32(1) + u32(0) + u32(expected.code)
        elif operation in UNFRAMED:
            body = expected.body
        else:
            body = bytes(4) + expected.body
        stamp = COMMITTED.get(operation, operation)
        if expected.code in _UNCOMMITTED and operation != OPERATIONS[503]:
            stamp = operation
        return by_hand.reply_frame(
            self.request, body, cluster=cluster, commit=self.commit, operation=stamp
        )

    @staticmethod
    def _readable(frame: bytes) -> dict[str, Any]:
        """What differs in two frames is easier to see in their fields."""
        number = {"kind": 60, "operation": 208, "reason": 255}
        fields: dict[str, Any] = {field: frame[at] for field, at in number.items()}
        fields["status"] = int.from_bytes(frame[216:220], "little")
        return {**fields, "body": frame[256:].hex(" ", -4)}


@asynccontextmanager
async def open_stage(folder: Path, settings: dict[str, Any] | None = None) -> AsyncIterator[Stage]:
    """A server with the three clients that every test needs."""
    clock = ManualClock()
    async with (
        real_server(folder, clock=clock, ids=SeededIds(), settings=settings) as server,
        server.client() as root,
        server.client() as nobody,
        server.client() as stranger,
    ):
        stage = Stage(server, clock)
        stage.root, stage.nobody, stage.stranger = map(stage.peer, (root, nobody, stranger))
        await stage.root.log_in()
        user = by_hand.name("nobody") + by_hand.name("secret") + b"\x01\x00"
        assert (await stage.root.ask(33, user)).body[:4] == u32(1)
        await stage.nobody.log_in("nobody", "secret")
        yield stage
