"""The cheapest way to exchange frames with a server: nothing is decoded but what is counted."""

import asyncio
import socket
import struct
from collections.abc import Callable, Sequence
from typing import cast

from windsprite_protocol.model.messages import Buffer
from windsprite_protocol.v0_11.frames import HEADER_SIZE

_BUFFER = 1024 * 1024
_SIZE = struct.Struct("<I")
_SIZE_OFFSET = 48
HEAD_SIZE = HEADER_SIZE + 16
"""Bytes of a reply that are kept: its header and what precedes the records of a poll."""


class Link(asyncio.BufferedProtocol):
    """Sends requests, so many in flight, and passes over the bodies of replies.

    Args:
        check: Called with the first `HEAD_SIZE` bytes of each reply, or all of a shorter one;
            raises if it is not as it should be.
    """

    def __init__(self, check: Callable[[bytes], None]) -> None:
        self._check = check
        self._view = memoryview(bytearray(_BUFFER))
        self._kept = 0
        self._missing = 0
        self._head = b""
        self._requests: Sequence[Sequence[Buffer]] = ()
        self._sent = self._answered = 0
        self._done: asyncio.Future[None] | None = None

    async def exchange(self, requests: Sequence[Sequence[Buffer]], depth: int) -> None:
        """Have all requests answered.

        Args:
            requests: Frames, in parts.
            depth: As many are in flight.
        """
        self._requests = requests
        self._sent = self._answered = 0
        self._depth = depth
        self._done = asyncio.get_running_loop().create_future()
        self._refill()
        await self._done

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(ConnectionError("the server closed the connection"))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view[self._kept :]

    def buffer_updated(self, count: int) -> None:
        view, at, end = self._view, 0, self._kept + count
        while True:
            step = min(self._missing, end - at)
            self._missing -= step
            at += step
            if self._missing:
                break
            if self._head:
                self._answer(self._head)
                self._head = b""
            if end - at < HEADER_SIZE:
                break
            (size,) = _SIZE.unpack_from(view, at + _SIZE_OFFSET)
            if end - at < min(size, HEAD_SIZE):
                break
            self._missing = size
            self._head = view[at : at + min(size, HEAD_SIZE)].tobytes()
        self._kept = end - at
        if self._kept and at:
            view[: self._kept] = view[at:end]
        self._refill()

    def close(self) -> None:
        self._transport.abort()

    def _answer(self, head: bytes) -> None:
        try:
            self._check(head)
        except Exception as error:
            self._fail(error)
        self._answered += 1

    def _refill(self) -> None:
        if self._done is None or self._done.done():
            return
        if self._answered == len(self._requests):
            self._done.set_result(None)
            return
        stop = min(len(self._requests), self._answered + self._depth)
        if stop > self._sent:
            parts = [part for request in self._requests[self._sent : stop] for part in request]
            self._transport.writelines(parts)
            self._sent = stop

    def _fail(self, error: Exception) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(error)


async def connected(sock: socket.socket, check: Callable[[bytes], None]) -> Link:
    """A link over a socket that is connected."""
    loop = asyncio.get_running_loop()
    _, link = await loop.create_connection(lambda: Link(check), sock=sock)
    return link
