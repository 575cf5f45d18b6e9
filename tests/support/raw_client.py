"""A client that sends whatever a test wants, byte for byte, and reads what comes back."""

import asyncio
import itertools
import socket
import struct
from typing import Any

from windsprite_protocol.model.sessions import ClientVersion, LoggedIn, Login
from windsprite_protocol.v0_11.calling import decode_reply, encode_request
from windsprite_protocol.v0_11.decoder import Frame, FrameDecoder
from windsprite_protocol.v0_11.frames import (
    PROTOCOL_VERSION,
    FrameKind,
    RequestHeader,
    pack_request,
    unpack_eviction,
    unpack_reply,
)
from windsprite_protocol.v0_11.table import GENERATION

CLIENT = bytes(range(1, 17))
VERSION = ClientVersion(PROTOCOL_VERSION, "test", "1.0.0")


def frame(body: bytes = b"", **fields: Any) -> bytes:
    """A request of any content; by default a ping with the number 1."""
    defaults = {"client": CLIENT, "operation": 2, "code": 1, "request": 1, "size": 256 + len(body)}
    return pack_request(RequestHeader(**{**defaults, **fields})) + body


def request(value: Any, number: int = 1, *, session: int = 1, client: bytes = CLIENT) -> bytes:
    """A well-formed request."""
    command = GENERATION.of(type(value))
    is_login = command.operation == 1
    parts = encode_request(
        command,
        value,
        client=client,
        session=0 if is_login else session,
        request=0 if is_login else number,
        checksum=False,
    )
    return b"".join(parts)


def reset(sock: socket.socket) -> None:
    """Close a socket so that the other side gets a RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


class RawClient:
    """One connection; use it as an async context manager."""

    _numbers = itertools.count(1)

    def __init__(self, host: str, port: int, *, receive_buffer: int | None = None) -> None:
        self.sock: socket.socket
        self.id = next(self._numbers).to_bytes(16, "big")
        self.session = 1
        self._address = (host, port)
        self._receive_buffer = receive_buffer
        self._decoder = FrameDecoder()
        self._frames: list[Frame] = []

    async def __aenter__(self) -> "RawClient":
        family = socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        if self._receive_buffer is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer)
        self.sock.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(self.sock, self._address)
        except BaseException:
            self.sock.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self.sock.close()

    async def send(self, data: bytes | memoryview) -> None:
        await asyncio.get_running_loop().sock_sendall(self.sock, data)

    async def frame(self, seconds: float = 10) -> Frame | None:
        """The next frame; `None` at the end of the connection."""
        while not self._frames:
            try:
                async with asyncio.timeout(seconds):
                    data = await asyncio.get_running_loop().sock_recv(self.sock, 1 << 20)
            except (ConnectionResetError, BrokenPipeError):
                return None
            if not data:
                return None
            self._frames += self._decoder.feed(data)
        return self._frames.pop(0)

    async def frames(self, count: int) -> list[Frame]:
        """The next frames, or those that come before the end."""
        found: list[Frame] = []
        while len(found) < count and (one := await self.frame()) is not None:
            found.append(one)
        return found

    async def is_closed(self, seconds: float = 10) -> bool:
        """Whether the other side ends the connection without another frame."""
        return await self.frame(seconds) is None

    async def is_silent(self, seconds: float = 0.1) -> bool:
        """Whether nothing comes for a while, not even the end."""
        try:
            await self.frame(seconds)
        except TimeoutError:
            return True
        return False

    async def ask(self, value: Any, number: int = 1) -> Any:
        """Send a request and give the value of its reply; raises what the reply says."""
        await self.send(request(value, number, session=self.session, client=self.id))
        answer = await self.frame()
        assert answer is not None, "the connection was closed"
        return decode_reply(answer, GENERATION.of(type(value)))[1]

    async def log_in(self, username: str = "iggy", password: str = "iggy") -> LoggedIn:
        logged_in: LoggedIn = await self.ask(Login(VERSION, username, password))
        self.session = logged_in.session
        return logged_in

    def reset(self) -> None:
        reset(self.sock)


def outcome_of(answer: Frame | None) -> tuple[str, int]:
    """How a server answered: `status` or `result` and its number, or the reason of an eviction."""
    if answer is None:
        return "closed", 0
    header = unpack_reply(answer.header)
    if header.kind == FrameKind.EVICTION:
        return "eviction", unpack_eviction(answer.header).reason
    assert header.kind == FrameKind.REPLY
    assert header.size == 256 + len(answer.body)
    if header.status:
        assert not answer.body, "a refusal has no body"
        return "status", header.status
    framed = header.operation not in (2, 3, 160)
    if framed and len(answer.body) == 12 and answer.body[:4] == b"\x01\0\0\0":
        return "result", int.from_bytes(answer.body[8:], "little")
    return "ok", 0


def number_of(answer: Frame) -> int:
    return unpack_reply(answer.header).request
