"""A client that shows what friendly ones hide: headers, channels and bodies of answers."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from dataclasses import dataclass
from typing import Any, Self
from uuid import uuid4

from windsprite_protocol.model.messages import Buffer
from windsprite_protocol.model.sessions import ClientVersion, LoggedIn, Login, LoginWithToken
from windsprite_protocol.v0_11.calling import decode_reply, encode_request
from windsprite_protocol.v0_11.decoder import Frame, FrameDecoder
from windsprite_protocol.v0_11.frames import (
    HEADER_SIZE,
    PROTOCOL_VERSION,
    EvictionHeader,
    FrameKind,
    Operation,
    ReplyHeader,
    RequestHeader,
    is_framed,
    pack_request,
    unpack_eviction,
    unpack_reply,
)
from windsprite_protocol.v0_11.table import GENERATION

VERSION = ClientVersion(PROTOCOL_VERSION, "wire-client", "1.0")


@dataclass(frozen=True)
class Told:
    """What an answer says, and which way it travels (spec 01, 3.4).

    Attributes:
        channel: `success`, `status`, `result` or `eviction`.
        code: The error code or the reason; 0 for a success.
        payload: The body without its result section.
    """

    channel: str
    code: int = 0
    payload: bytes = b""


def success(payload: bytes = b"") -> Told:
    return Told("success", 0, payload)


def status(code: int) -> Told:
    return Told("status", code)


def result(code: int) -> Told:
    return Told("result", code)


def evicted(reason: int) -> Told:
    return Told("eviction", reason)


class Answer:
    """A frame as it came from the server; nothing in it was checked."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.header: ReplyHeader = unpack_reply(frame.header)
        self.body = bytes(frame.body)

    @property
    def data(self) -> bytes:
        """All bytes of the frame."""
        return self.frame.header + self.body

    @property
    def number(self) -> int:
        """Of the request that is answered."""
        return self.header.request

    @property
    def eviction(self) -> EvictionHeader:
        """The header, read as that of an eviction."""
        return unpack_eviction(self.frame.header)

    @property
    def told(self) -> Told:
        """What it says; fails if it breaks the rules of its channel."""
        header, body = self.header, self.body
        assert header.size == HEADER_SIZE + len(body)
        if header.kind == FrameKind.EVICTION:
            assert body == b""
            return evicted(self.eviction.reason)
        assert header.kind == FrameKind.REPLY
        if header.status:
            assert body == b""
            return status(header.status)
        if not is_framed(header.operation) and header.operation != Operation.REGISTER:
            return success(body)
        if body[:4] == bytes(4):
            return success(body[4:])
        assert (len(body), body[:8]) == (12, b"\x01" + bytes(7))
        return result(int.from_bytes(body[8:], "little"))


class WireClient:
    """One connection; use it as an async context manager.

    It does nothing by itself: no login, no ping, no second attempt.

    Attributes:
        sock: The open socket.
        client: The 16 bytes that the next request names as its client.
        session: From the login; 0 before.
        next_request: The number of the next request that is counted (spec 01, 6.3).
    """

    def __init__(self, host: str, port: int, *, receive_buffer: int | None = None) -> None:
        self.sock: socket.socket
        self.client = uuid4().bytes
        self.session = 0
        self.next_request = 1
        self._destination = (host, port)
        self._receive_buffer = receive_buffer
        self._decoder = FrameDecoder()
        self._frames: deque[Frame] = deque()

    async def __aenter__(self) -> Self:
        family = socket.AF_INET6 if ":" in self._destination[0] else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        if self._receive_buffer is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer)
        self.sock.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(self.sock, self._destination)
        except BaseException:
            self.sock.close()
            raise
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.sock.close()

    @property
    def address(self) -> str:
        """Its own, as `host:port`."""
        host, port = self.sock.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def reset(self) -> None:
        """End the connection so that the server gets a RST."""
        reset(self.sock)

    # --- Bytes out and in --------------------------------------------------------------------

    async def send(self, *parts: Buffer) -> None:
        await self._write(parts[0] if len(parts) == 1 else b"".join(parts))

    async def receive(self, seconds: float = 10) -> Answer:
        """The next frame.

        Raises:
            EOFError: The server closed the connection.
            TimeoutError: It said nothing for so long.
        """
        while not self._frames:
            async with asyncio.timeout(seconds):
                data = await self._read()
            if not data:
                raise EOFError
            self._frames += self._decoder.feed(data)
        return Answer(self._frames.popleft())

    async def receive_many(self, count: int) -> list[Answer]:
        """The next frames, or those that come before the end."""
        found: list[Answer] = []
        try:
            while len(found) < count:
                found.append(await self.receive())
        except EOFError:
            pass
        return found

    async def is_closed(self, seconds: float = 10) -> bool:
        """Whether the server ends the connection without another frame."""
        try:
            await self.receive(seconds)
        except EOFError:
            return True
        return False

    async def is_silent(self, seconds: float = 0.1) -> bool:
        """Whether nothing comes for a while, not even the end."""
        try:
            await self.receive(seconds)
        except TimeoutError:
            return True
        except EOFError:
            return False
        return False

    async def _write(self, data: Buffer) -> None:
        await asyncio.get_running_loop().sock_sendall(self.sock, data)

    async def _read(self) -> bytes:
        """Some bytes; none at the end, however the connection ends."""
        try:
            return await asyncio.get_running_loop().sock_recv(self.sock, 1 << 20)
        except (ConnectionResetError, BrokenPipeError):
            return b""

    # --- Requests as bytes -------------------------------------------------------------------

    def frame(
        self, operation: int, body: Buffer = b"", *, code: int = 0, **fields: Any
    ) -> list[Buffer]:
        """A request built by hand.

        Args:
            operation: How the command travels.
            body: Its body.
            code: Which command it is, where the operation does not say it.
            fields: Of the header, to be set to something else than what belongs there.
        """
        header = RequestHeader(
            size=HEADER_SIZE + len(body),
            client=self.client,
            request=self._number(operation),
            operation=operation,
            session=0 if operation == Operation.REGISTER else self.session,
            code=code,
        )
        return [pack_request(header._replace(**fields)), body]

    async def ask(self, operation: int, body: Buffer = b"", **fields: Any) -> Answer:
        """The answer to a request built by hand, as `frame` does it."""
        await self.send(*self.frame(operation, body, **fields))
        return await self.receive()

    async def ask_code(self, code: int, body: Buffer = b"") -> Answer:
        """The answer to a command named by its code, sent the way that it travels."""
        command = GENERATION.by_code(code)
        if command is None or command.operation == Operation.NON_REPLICATED:
            return await self.ask(Operation.NON_REPLICATED, body, code=code)
        return await self.ask(command.operation, body)

    # --- Requests as values ------------------------------------------------------------------

    def encode(self, request: Any) -> list[Buffer]:
        command = GENERATION.of(type(request))
        return encode_request(
            command,
            request,
            client=self.client,
            session=0 if command.operation == Operation.REGISTER else self.session,
            request=self._number(command.operation),
            checksum=True,
        )

    async def answer_to(self, request: Any) -> Answer:
        """What comes back for a request, not decoded."""
        await self.send(*self.encode(request))
        return await self.receive()

    async def told(self, request: Any) -> Told:
        """What the answer to a request says."""
        return (await self.answer_to(request)).told

    async def call(self, request: Any) -> Any:
        """The value of the reply to a request.

        Raises:
            RemoteError: The server answered with an error.
            EvictedError: It answered with an eviction.
        """
        answer = await self.answer_to(request)
        _, value = decode_reply(answer.frame, GENERATION.of(type(request)))
        return value

    async def login(self, username: str = "iggy", password: str = "iggy") -> LoggedIn:
        """Opens a session under a new client id.

        Raises:
            EvictedError: The server refuses.
        """
        return await self.open(Login(VERSION, username, password))

    async def open(self, request: Login | LoginWithToken) -> LoggedIn:
        """Opens a session under a new client id, either way.

        Raises:
            EvictedError: The server refuses.
        """
        self.client, self.session, self.next_request = uuid4().bytes, 0, 1
        logged_in: LoggedIn = await self.call(request)
        self.session = logged_in.session
        return logged_in

    def _number(self, operation: int) -> int:
        """The number of a request; reads show the next one without using it up."""
        if operation == Operation.REGISTER:
            return 0
        number = self.next_request
        if operation != Operation.NON_REPLICATED:
            self.next_request += 1
        return number


def reset(sock: socket.socket) -> None:
    """Close a socket so that the other side gets a RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def wire_client(address: str, **options: Any) -> WireClient:
    """A connection to `host:port`, on which nobody is logged in."""
    host, _, port = address.rpartition(":")
    return WireClient(host.strip("[]"), int(port), **options)
