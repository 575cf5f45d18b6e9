"""One TCP connection: frames in, replies out, with back-pressure both ways.

Frames of a connection are answered one at a time and in their order. A frame that has to wait for
something holds back those behind it. What may pile up meanwhile is bounded, in frames and in
bytes: beyond the bounds the connection is not read, so that the client's own TCP stack makes it
wait. The same happens while the client does not read its replies; one that reads nothing for too
long is dropped.

Who sends request after request without waiting for replies is served for a moment at a time, and
not read in between: others have their turn.

A connection ends in one of these ways:
- The client ends its side: it gets the answers to all complete frames, then the connection is
  closed.
- What it sends cannot be understood, or the server stops: as above, but the client may still be
  sending. To close a socket with unread bytes makes TCP throw away the last replies, so the
  server ends its own side only, and drops what still comes in for a moment.
- It is broken, makes no progress or is one too many: it is cut.

uvloop keeps the buffers it is given until they are sent: nothing handed to it may change
afterwards.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from math import inf
from typing import Any, Final, Protocol, cast

from windsprite_protocol.model.messages import Buffer
from windsprite_protocol.model.system import TransportKind
from windsprite_protocol.v0_11.decoder import DEFAULT_BUFFER_SIZE, Frame, FrameDecoder
from windsprite_protocol.v0_11.frames import HEADER_SIZE
from windsprite_server.core.address import join_host_port
from windsprite_server.core.clock import Clock
from windsprite_server.core.log_setup import Logger
from windsprite_server.session import Connection
from windsprite_server.transport.limits import TcpLimits
from windsprite_server.transport.receive_memory import ReceiveMemory
from windsprite_server.transport.sockets import host_and_port
from windsprite_server.transport.tls import is_client_hello
from windsprite_server.transport.untaken import SMALL, UntakenReplies
from windsprite_server.transport.wire import Answer, Wire
from windsprite_server.transport.writing import write_all

_BUFFER_BEFORE_LOGIN: Final = 4 * 1024
"""Bytes that a connection of somebody unknown is given to send into."""

_TURN_SECONDS: Final = 0.002
"""How long requests of one connection are served before others get their turn."""

_LEAST_PROGRESS: Final = 16
"""Who holds memory that others wait for has to fill this part of it within the frame time-out."""

_LINGER_SECONDS: Final = 2.0
"""How long bytes that nobody wants are received, so that the replies before them arrive."""


class Listener(Protocol):
    """What the connections of a listener share, and what they tell it.

    Attributes:
        limits: Bounds.
        wire: What frames are served by.
        replies: Keeps account of replies that clients have not taken.
        clock: For time-outs.
        logger: Told of connections that are dropped.
        memory: Keeps account of bytes that wait to be served.
        dropped_bytes: Where bytes are received that nobody wants.
    """

    limits: TcpLimits
    wire: Wire
    replies: UntakenReplies
    clock: Clock
    logger: Logger
    memory: ReceiveMemory
    dropped_bytes: memoryview

    @property
    def is_full(self) -> bool:
        """Whether there are as many connections as may be."""
        ...

    def admit(self, connection: TcpConnection) -> bool:
        """Take note of a connection; returns whether it may stay."""
        ...

    def forget(self, connection: TcpConnection) -> None:
        """Take note that a connection is closed."""
        ...

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that has to wait; it is awaited or cancelled before the server stops."""
        ...


class TcpConnection(asyncio.BufferedProtocol):
    """One connection: cuts its bytes into frames, has them served, writes the replies."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._limits = listener.limits
        self._replies = listener.replies
        self._wire = listener.wire
        self._clock = listener.clock
        self._logger = listener.logger
        self._transport: asyncio.Transport | None = None
        self._connection: Connection | None = None
        self._decoder: FrameDecoder | None = None  # none: no more frames are taken
        self._is_trusted = False  # somebody has logged in
        self._waiting: deque[Frame] = deque()
        self._serving = 0  # bytes of the frame that a task is serving
        self._unanswered = 0  # bytes of that one and of those waiting
        self._turn_left = _TURN_SECONDS
        self._awaits_turn = False  # others have theirs, then this one goes on
        self._held = 0  # bytes that are accounted for, or wait to be, in the receive memory
        self._is_granted = True  # memory for what comes next
        self._is_reading = True
        self._is_writable = True
        self._is_at_end = False  # the client sends nothing more
        self._lingers = False  # when all is answered, the client may still be sending
        self._ended_at: float | None = None  # when our side was ended
        self._received = 0
        self._received_at = 0.0
        self._filled = 0  # bytes received when there was progress last
        self._filled_at = 0.0
        self._is_narrow = False  # may leave no more than a small reply untaken
        self._high_water = listener.limits.write_high_water
        self._untaken = 0  # as far as others know
        self._written = 0
        self._sent = 0
        self._sent_at = 0.0

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, unless there are too many."""
        self._transport = cast("asyncio.Transport", transport)
        if not self._listener.admit(self):
            self._transport.abort()
            return
        peer = host_and_port(transport.get_extra_info("peername"))
        host, port = host_and_port(transport.get_extra_info("sockname")) or ("", 0)
        name = "unknown" if peer is None else join_host_port(*peer)
        self._connection = self._wire.connect(TransportKind.TCP, name, host, port, self._push)
        self._logger = self._logger.bind(
            connection=self._connection.number, peer=self._connection.peer
        )
        self._limit_unsent(self._transport)
        limit = self._limits.max_frame_size_before_login
        self._decoder = FrameDecoder(limit, _BUFFER_BEFORE_LOGIN)
        self._received_at = self._sent_at = self._filled_at = self._clock.monotonic()
        self._logger.debug("connected")

    def connection_lost(self, exc: Exception | None) -> None:
        """End the session. What was accepted is still carried out; nobody is told."""
        self._transport = None
        self._decoder = None
        self._waiting.clear()
        # What is being served is still there.
        self._unanswered = self._serving
        self._listener.memory.hold(self, self._serving)
        self._note_untaken(0)
        if self._connection is not None:
            self._wire.disconnect(self._connection)
            self._connection = None
            self._logger.debug("disconnected", reason=None if exc is None else str(exc))
        self._listener.forget(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the decoder knows better
        """Where the next bytes go."""
        decoder = self._decoder
        return self._listener.dropped_bytes if decoder is None else decoder.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Serve the frames that are complete now."""
        decoder = self._decoder
        if decoder is None:
            return
        is_first = not self._received
        self._received += nbytes
        if is_first and is_client_hello(decoder.get_buffer()[:nbytes]):
            self._give_up("a TLS handshake, but this port does not speak TLS")
            self._update()
            return
        for frame in decoder.received(nbytes):
            self._waiting.append(frame)
            self._unanswered += HEADER_SIZE + len(frame.body)
        if decoder.is_inside_frame:
            self._received_at = self._clock.monotonic()
        if decoder.failure is not None:
            self._give_up(str(decoder.failure))
        self._serve()

    def eof_received(self) -> bool:
        """The client sends nothing more; it still gets the replies to what it sent."""
        self._is_at_end = True
        self._decoder = None
        self._serve()
        return self._is_busy

    def pause_writing(self) -> None:
        """The client does not read its replies fast enough."""
        self._is_writable = False

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._is_writable = True
        self._serve()

    # What the listener calls

    def drain(self) -> None:
        """Take no more frames; close once those that are here are answered."""
        self._decoder = None
        self._lingers = self._is_busy
        self._serve()

    def abort(self) -> None:
        """Close at once, dropping what was not sent."""
        if self._transport is not None:
            self._transport.abort()

    def memory_available(self) -> None:
        """Go on reading an unfinished frame that waited for memory."""
        self._is_granted = True
        if self._connection is not None and not self._serving:
            self._connection.heard_at = self._clock.monotonic()
        self._update()

    def check_progress(self, now: float) -> None:
        """Drop the connection if it holds memory and does nothing."""
        transport, decoder = self._transport, self._decoder
        if transport is None:
            return
        unsent = transport.get_write_buffer_size()
        self._note_untaken(unsent)
        sent = self._written - unsent
        if unsent == 0 or sent > self._sent:
            self._sent_at = now
        self._sent = sent
        if now - self._sent_at >= self._limits.write_timeout:
            self._logger.warning("connection dropped: it does not read replies", unsent=unsent)
            transport.abort()
        elif self._ended_at is not None:
            if unsent:
                self._ended_at = now
            elif now - self._ended_at >= _LINGER_SECONDS:
                transport.abort()
        elif (
            decoder is not None
            and decoder.is_inside_frame
            and self._is_reading
            and now - self._received_at >= self._limits.frame_timeout
        ):
            self._logger.info("connection closed: a frame was begun and not finished")
            transport.abort()
        elif self._is_in_the_way(now):
            self._logger.warning(
                "connection dropped: it hardly fills memory that others wait for",
                held=self._held,
            )
            transport.abort()
        elif self._listener.is_full and self._is_silent_stranger(now):
            self._logger.info("connection closed: nobody has logged in, and there are too many")
            transport.abort()

    def _is_silent_stranger(self, now: float) -> bool:
        """Whether nobody is logged in, or says anything."""
        connection = self._connection
        is_silent = now - self._received_at >= self._limits.frame_timeout
        return is_silent and connection is not None and connection.session is None

    def _is_in_the_way(self, now: float) -> bool:
        """Whether the client hardly fills memory that others wait for."""
        least = max(DEFAULT_BUFFER_SIZE, self._held // _LEAST_PROGRESS)
        if not (self._held and self._is_reading) or self._received - self._filled >= least:
            self._filled, self._filled_at = self._received, now
        is_slow = now - self._filled_at >= self._limits.frame_timeout
        return is_slow and self._listener.memory.is_short

    # Serving

    def _push(self, answer: Answer) -> None:
        """Send what the client did not ask for."""
        if self._transport is not None and not self._transport.is_closing():
            write_all(self._transport, answer.parts)
            self._written += answer.size

    @property
    def _is_busy(self) -> bool:
        return bool(self._serving or self._waiting)

    def _serve(self) -> None:
        """Answer waiting frames in order, as far as nothing has to be waited for."""
        transport, connection = self._transport, self._connection
        if transport is None or connection is None:
            return
        is_narrow = self._replies.is_short
        if is_narrow is not self._is_narrow:
            self._is_narrow = is_narrow
            self._limit_unsent(transport)
        waiting, serve, now = self._waiting, self._wire.serve, self._clock.monotonic
        out: list[Buffer] = []
        unsent = transport.get_write_buffer_size()
        began = now()
        while waiting and self._is_writable and not (self._serving or self._awaits_turn):
            frame = waiting.popleft()
            answer = serve(connection, frame)
            size = HEADER_SIZE + len(frame.body)
            if not isinstance(answer, Answer):
                self._serving = size
                self._listener.run(self._finish(answer))
                break
            self._unanswered -= size
            out.extend(answer.parts)
            unsent += answer.size
            self._written += answer.size
            if answer.bad is not None:
                waiting.clear()
                self._unanswered = 0
                self._give_up(answer.bad)
            if unsent > self._high_water:
                write_all(transport, out)
                out = []
                unsent = transport.get_write_buffer_size()
            if now() - began >= self._turn_left:
                self._awaits_turn = True
                asyncio.get_running_loop().call_soon(self._next_turn)
        self._turn_left -= now() - began
        if out:
            write_all(transport, out)
            unsent = transport.get_write_buffer_size()
        if unsent != self._untaken:
            self._note_untaken(unsent)
        self._update()

    def _next_turn(self) -> None:
        """Go on with what waits, or comes in."""
        self._turn_left = _TURN_SECONDS
        self._awaits_turn = False
        self._serve()

    def _limit_unsent(self, transport: asyncio.Transport) -> None:
        """Set at how many unsent bytes serving pauses: few while clients leave too much untaken."""
        limits = self._limits
        high = limits.write_high_water
        if self._is_narrow:
            high = min(SMALL, high)
        self._high_water = high
        transport.set_write_buffer_limits(high, min(limits.write_low_water, high))

    def _note_untaken(self, unsent: int) -> None:
        self._replies.size += unsent - self._untaken
        self._untaken = unsent

    async def _finish(self, awaited: Coroutine[Any, Any, Answer]) -> None:
        """Wait for one answer, then go on with the frames behind it."""
        try:
            answer = await awaited
        except BaseException:
            self.abort()  # what is behind it could never be answered
            raise
        finally:
            self._unanswered -= self._serving
            self._serving = 0
            if self._transport is None:
                self._listener.memory.hold(self, 0)
        transport, connection = self._transport, self._connection
        if transport is None or connection is None:
            return
        if connection.session is not None and not self._is_trusted and self._decoder is not None:
            self._is_trusted = True
            self._decoder.enlarge(self._limits.max_frame_size)
        write_all(transport, answer.parts)
        self._written += answer.size
        self._serve()

    def _give_up(self, reason: str) -> None:
        """Take nothing more: what the client sends cannot be understood."""
        self._logger.info("connection closed: bad frame", reason=reason)
        self._decoder = None
        self._lingers = True

    def _update(self) -> None:
        """Read on only while there is room for what comes; close when all is answered."""
        transport, decoder = self._transport, self._decoder
        if transport is None or transport.is_closing():
            return
        size = self._unanswered + (0 if decoder is None else decoder.pending_bytes)
        if size or self._held:
            self._held = size
            self._is_granted = self._listener.memory.hold(self, size)
            if not self._is_granted and self._connection is not None:
                self._connection.heard_at = inf  # it is we who don't listen
        if decoder is not None:
            wanted = self._is_granted and self._is_writable and self._has_room()
            if wanted is not self._is_reading:
                self._read(transport, wanted=wanted)
        elif self._is_busy:
            self._read(transport, wanted=False)
        elif self._is_at_end or not self._lingers:
            transport.close()
        elif self._ended_at is None:
            self._end(transport)

    def _has_room(self) -> bool:
        """Whether more frames may come."""
        if self._awaits_turn:
            return False
        if not self._unanswered:
            return True
        return (
            len(self._waiting) < self._limits.max_waiting_frames
            and self._unanswered < self._limits.max_frame_size
            and not self._listener.memory.is_short
        )

    def _read(self, transport: asyncio.Transport, *, wanted: bool) -> None:
        if wanted is self._is_reading or self._is_at_end:
            return
        self._is_reading = wanted
        if wanted:
            self._received_at = self._clock.monotonic()
            transport.resume_reading()
        else:
            transport.pause_reading()

    def _end(self, transport: asyncio.Transport) -> None:
        """End our side of the connection after the last reply; drop what the client still sends."""
        self._ended_at = self._clock.monotonic()
        try:
            transport.write_eof()
        except OSError:
            transport.abort()
        else:
            self._read(transport, wanted=True)
