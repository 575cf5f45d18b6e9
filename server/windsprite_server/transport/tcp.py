"""The TCP transport: frames in, replies out, with back-pressure both ways.

Frames of a connection are answered one at a time and in their order. A frame that has to wait for
something holds back those behind it. What may pile up meanwhile is bounded: beyond the bound the
connection is not read, so that the client's own TCP stack makes it wait. The same happens while
the client does not read its replies; one that reads nothing for too long is dropped.

uvloop keeps the buffers it is given until they are sent: nothing handed to `writelines` may change
afterwards.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from windsprite_protocol.model.messages import Buffer
from windsprite_protocol.model.system import TransportKind
from windsprite_protocol.v0_11.decoder import Frame, FrameDecoder
from windsprite_server.core.address import Address, join_host_port
from windsprite_server.core.clock import Clock
from windsprite_server.core.log_setup import Logger
from windsprite_server.session import Connection
from windsprite_server.transport.wire import Answer, Wire

_SWEEP_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class TcpLimits:
    """Bounds of the TCP transport.

    Attributes:
        max_connections: More are closed as soon as they are accepted.
        max_frame_size: Bytes of the largest frame accepted, header included.
        max_waiting_frames: Frames of one connection that may wait while one is being served.
        write_high_water: Unsent bytes of a connection at which serving it pauses.
        write_low_water: Unsent bytes at which it goes on.
        write_timeout: Seconds a client may leave unsent bytes unread before it is dropped.
        frame_timeout: Seconds without a byte after which an unfinished frame ends its connection.
        receive_memory: Bytes that unfinished frames of all connections may hold together; beyond
            it, connections with unfinished frames are read one after the other.
        backlog: Connections the kernel may hold ready to be accepted.
    """

    max_connections: int
    max_frame_size: int
    max_waiting_frames: int
    write_high_water: int
    write_low_water: int
    write_timeout: float
    frame_timeout: float
    receive_memory: int
    backlog: int


class TcpListener:
    """Accepts connections on one address and serves them until it is stopped."""

    def __init__(self, wire: Wire, limits: TcpLimits, clock: Clock, logger: Logger) -> None:
        self._wire = wire
        self._limits = limits
        self._clock = clock
        self._logger = logger
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._connections: set[_TcpConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        self._refused = 0
        self._receiving = ReceiveMemory(limits.receive_memory)

    async def start(self, address: Address) -> Address:
        """Listen; returns the address with the port that was really taken.

        Raises:
            OSError: The address is taken or not ours.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._accept, address.host, address.port, backlog=self._limits.backlog
        )
        port = self._server.sockets[0].getsockname()[1]
        self._sweeper = asyncio.create_task(self._sweep())
        return Address(address.host, port)

    async def stop(self, drain_seconds: float) -> None:
        """Accept nothing more, let what is being served finish, close all connections.

        Args:
            drain_seconds: After that time connections are closed whatever they do.
        """
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.drain()
        try:
            async with asyncio.timeout(drain_seconds):
                while self._connections:
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            self._logger.warning("connections were cut", count=len(self._connections))
            for connection in tuple(self._connections):
                connection.abort()
            for task in self._tasks:
                task.cancel()
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._sweeper is not None:
            self._sweeper.cancel()

    def _accept(self) -> _TcpConnection:
        return _TcpConnection(self)

    async def _sweep(self) -> None:
        """Look once a second for connections that hold something and make no progress."""
        while True:
            await self._clock.sleep(_SWEEP_SECONDS)
            now = self._clock.monotonic()
            for connection in tuple(self._connections):
                connection.check_progress(now)


class ReceiveMemory:
    """The memory that unfinished frames of all connections may hold together.

    A connection takes memory as its frame grows. One that finds none left stops being read until
    others have finished. The one that holds the most is never stopped, so something always goes on.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: dict[_TcpConnection, int] = {}
        self._total = 0

    def hold(self, connection: _TcpConnection, size: int) -> bool:
        """Note how much a connection holds now; returns whether it may be read on."""
        before = self._held.get(connection, 0)
        if size:
            self._held[connection] = size
        elif before:
            del self._held[connection]
        self._total += size - before
        if size < before:
            self._wake()
        return self._may_read(connection)

    def _may_read(self, connection: _TcpConnection) -> bool:
        if self._total <= self._limit or connection not in self._held:
            return True
        return max(self._held, key=self._held.__getitem__) is connection

    def _wake(self) -> None:
        for connection in tuple(self._held):
            if self._may_read(connection):
                connection.memory_available()


class _TcpConnection(asyncio.BufferedProtocol):
    """One connection: cuts its bytes into frames, has them served, writes the replies."""

    def __init__(self, listener: TcpListener) -> None:
        limits = listener._limits
        self._listener = listener
        self._limits = limits
        self._wire = listener._wire
        self._clock = listener._clock
        self._logger = listener._logger
        self._decoder = FrameDecoder(limits.max_frame_size)
        self._transport: asyncio.Transport | None = None
        self._connection: Connection | None = None
        self._waiting: deque[Frame] = deque()
        self._serving = False  # a frame is being served by a task
        self._writable = True
        self._readable = True  # memory for the unfinished frame is left
        self._reading = True
        self._ending = False  # no more frames are taken; close when the rest is answered
        self._received_at = 0.0
        self._unsent = 0
        self._sent_at = 0.0

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, unless there are too many."""
        self._transport = cast("asyncio.Transport", transport)
        listener = self._listener
        peer = _address_text(transport.get_extra_info("peername"))
        listener._connections.add(self)
        if len(listener._connections) > self._limits.max_connections:
            self._logger.warning(
                "connection refused: too many", peer=peer, limit=self._limits.max_connections
            )
            self._ending = True
            self._transport.abort()
            return
        reached = transport.get_extra_info("sockname")
        self._transport.set_write_buffer_limits(
            self._limits.write_high_water, self._limits.write_low_water
        )
        self._connection = self._wire.connect(TransportKind.TCP, peer, reached[0], reached[1])
        self._logger = self._logger.bind(connection=self._connection.number, peer=peer)
        self._received_at = self._sent_at = self._clock.monotonic()
        self._logger.debug("connected")

    def connection_lost(self, exc: Exception | None) -> None:
        """End the session. What was accepted is still carried out; nobody is told."""
        self._ending = True
        self._waiting.clear()
        self._transport = None
        self._listener._receiving.hold(self, 0)
        if self._connection is not None:
            self._wire.disconnect(self._connection)
            self._connection = None
            self._logger.debug("disconnected", error=None if exc is None else str(exc))
        self._listener._connections.discard(self)
        self._listener._idle.set()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the decoder knows better
        """Where the next bytes go."""
        return self._decoder.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Serve the frames that are complete now."""
        self._received_at = self._clock.monotonic()
        self._waiting.extend(self._decoder.received(nbytes))
        if self._decoder.failure is not None and not self._ending:
            self._logger.info("connection closed: bad frame", reason=str(self._decoder.failure))
            self._ending = True
        self._readable = self._listener._receiving.hold(self, self._decoder.pending_bytes)
        self._serve()

    def eof_received(self) -> bool:
        """The client sends nothing more; it still gets the replies to what it sent."""
        self._ending = True
        self._serve()
        return self._serving or bool(self._waiting)

    def pause_writing(self) -> None:
        """The client does not read its replies fast enough."""
        self._writable = False
        self._sent_at = self._clock.monotonic()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._writable = True
        self._serve()

    # What the listener calls

    def drain(self) -> None:
        """Take no more frames; close once those that are here are answered."""
        self._ending = True
        self._serve()

    def abort(self) -> None:
        """Close at once, dropping what was not sent."""
        if self._transport is not None:
            self._transport.abort()

    def memory_available(self) -> None:
        """Go on reading an unfinished frame that waited for memory."""
        self._readable = True
        self._update_reading()

    def check_progress(self, now: float) -> None:
        """Drop the connection if it holds memory and does nothing."""
        transport = self._transport
        if transport is None:
            return
        unsent = transport.get_write_buffer_size()
        if unsent < self._unsent or unsent == 0:
            self._sent_at = now
        self._unsent = unsent
        if unsent and now - self._sent_at >= self._limits.write_timeout:
            self._logger.warning("connection dropped: it does not read replies", unsent=unsent)
            transport.abort()
        elif (
            self._reading
            and self._decoder.is_inside_frame
            and now - self._received_at >= self._limits.frame_timeout
        ):
            self._logger.info("connection closed: a frame was begun and not finished")
            transport.abort()

    # Serving

    def _serve(self) -> None:
        """Answer waiting frames in order, as far as nothing has to be waited for."""
        out: list[Buffer] = []
        out_size = 0
        while self._waiting and self._writable and not self._serving:
            connection = self._connection
            if connection is None:
                return
            answer = self._wire.serve(connection, self._waiting.popleft())
            if not isinstance(answer, Answer):
                self._serving = True
                task = asyncio.create_task(self._finish(answer))
                self._listener._tasks.add(task)
                task.add_done_callback(self._listener._tasks.discard)
                break
            out.extend(answer.parts)
            out_size += answer.size
            if answer.bad is not None:
                self._give_up(answer.bad)
            if out_size >= self._limits.write_high_water:
                self._write(out)
                out, out_size = [], 0
        if out:
            self._write(out)
        self._update_reading()

    async def _finish(self, awaited: Coroutine[Any, Any, Answer]) -> None:
        """Wait for one answer, then go on with the frames behind it."""
        answer = await awaited
        self._serving = False
        if answer.bad is not None:
            self._give_up(answer.bad)
        self._write(answer.parts)
        self._serve()

    def _give_up(self, reason: str) -> None:
        """Take nothing more: what the client sends cannot be understood."""
        self._logger.info("connection closed: bad frame", reason=reason)
        self._ending = True
        self._waiting.clear()

    def _write(self, parts: Sequence[Buffer]) -> None:
        if self._transport is not None and parts:
            self._transport.writelines(parts)

    def _update_reading(self) -> None:
        """Read on only while there is room for what comes; close when all is answered."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._ending and not self._serving and not self._waiting:
            transport.close()
            return
        wants = (
            self._readable
            and self._writable
            and not self._ending
            and len(self._waiting) < self._limits.max_waiting_frames
        )
        if wants is not self._reading:
            self._reading = wants
            if wants:
                self._received_at = self._clock.monotonic()
                transport.resume_reading()
            else:
                transport.pause_reading()


def _address_text(address: tuple[Any, ...] | str | None) -> str:
    """A socket's address for people."""
    if isinstance(address, tuple):
        return join_host_port(address[0], address[1])
    return address or "unknown"
