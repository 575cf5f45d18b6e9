"""The machine's own limit for everything that goes over a socket: a bare uvloop server.

It takes the very frames that a server of the protocol takes and answers each with as many bytes as
the frame asks for in a field that servers ignore. It looks at nothing else.

    python -m bench.systems.machine PORT
"""

import asyncio
import socket
import struct
import sys
from typing import cast

import uvloop

from bench.processes import Program
from windsprite_protocol.v0_11.frames import HEADER_SIZE, ReplyHeader, pack_reply

_SIZES = struct.Struct("<II")
_SIZES_OFFSET = 48  # the size of the frame, then `view`: here the size of the answer
_BUFFER = 1024 * 1024


class _Exchange(asyncio.BufferedProtocol):
    def __init__(self, replies: dict[int, bytes]) -> None:
        self._replies = replies  # by their size, shared by all connections
        self._view = memoryview(bytearray(_BUFFER))
        self._kept = 0
        self._missing = 0  # bytes of the frame that is coming in
        self._reply = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view[self._kept :]

    def buffer_updated(self, count: int) -> None:
        view, at, end = self._view, 0, self._kept + count
        out = []
        while True:
            step = min(self._missing, end - at)
            self._missing -= step
            at += step
            if self._missing:
                break
            if self._reply:
                out.append(self._reply)
                self._reply = b""
            if end - at < HEADER_SIZE:
                break
            self._missing, reply_size = _SIZES.unpack_from(view, at + _SIZES_OFFSET)
            self._reply = self._reply_of(reply_size)
        self._kept = end - at
        if self._kept and at:
            view[: self._kept] = view[at:end]
        if out:
            self._transport.writelines(out)

    def _reply_of(self, size: int) -> bytes:
        if size not in self._replies:
            self._replies[size] = pack_reply(ReplyHeader(size=size)) + bytes(size - HEADER_SIZE)
        return self._replies[size]


class Machine(Program):
    """The bare server in a process of its own."""

    durability = "none"

    def start(self) -> None:
        self.launch(
            lambda port: [sys.executable, "-m", "bench.systems.machine", str(port)], _is_ready
        )


def _is_ready(_: socket.socket) -> bool:
    return True


async def _serve(port: int) -> None:
    replies: dict[int, bytes] = {}
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Exchange(replies), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
