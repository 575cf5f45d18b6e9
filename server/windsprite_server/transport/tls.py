"""TLS between a socket and the connection that is served on it.

To the socket a `TlsStream` is a protocol, to the connection it is a transport, and behaves as that
of a plain socket does: either side can be ended before the other, limits of unsent bytes are those
of the socket, and nothing that was decrypted waits in between while the connection is not read.
(`ssl=` of `create_server` gives none of these, and tells nobody of handshakes that fail.)

TLS itself is `ssl.SSLObject`: bytes in, bytes out.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, Protocol, cast

from windsprite_protocol.model.messages import Buffer
from windsprite_server.core.address import join_host_port
from windsprite_server.core.clock import Clock
from windsprite_server.core.log_setup import Logger
from windsprite_server.transport.sockets import host_and_port
from windsprite_server.transport.writing import write_all

_PIECE: Final = 64 * 1024
"""Bytes that are encrypted or decrypted at a time; memory of a connection is a few of these."""

_HANDSHAKE: Final = 22
_MAJOR_VERSION: Final = 3
_CLIENT_HELLO: Final = 1


def is_client_hello(data: Buffer) -> bool:
    """Whether the first bytes of a connection are those of a TLS handshake."""
    return (
        len(data) > 5
        and data[0] == _HANDSHAKE
        and data[1] == _MAJOR_VERSION
        and data[5] == _CLIENT_HELLO
    )


class Handshakes(Protocol):
    """Who counts connections; a handshake is one until the connection behind it takes over."""

    def admit(self, connection: TlsStream) -> bool:
        """Take note of a handshake; returns whether it may go on."""
        ...

    def forget(self, connection: TlsStream) -> None:
        """Take note that a handshake is over."""
        ...


class TlsStream(asyncio.BufferedProtocol, asyncio.Transport):
    """One socket that speaks TLS, server side.

    The connection behind it is made when the handshake has succeeded, and never otherwise.

    Args:
        context: Shows the certificate.
        connection: Makes the protocol that is served with what was decrypted.
        handshakes: Counts this one until then.
        timeout: Seconds for the handshake.
        clock: For that timeout.
        logger: Told of handshakes that fail, and of whatever is no TLS.
        memory: Where bytes of all sockets are received, one socket after the other: event loops
            for Unix report what they received before they turn to the next.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        connection: asyncio.BufferedProtocol,
        *,
        handshakes: Handshakes,
        timeout: float,
        clock: Clock,
        logger: Logger,
        memory: memoryview,
    ) -> None:
        super().__init__()
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._connection = connection
        self._handshakes = handshakes
        self._timeout = timeout
        self._clock = clock
        self._logger = logger
        self._memory = memory
        self._socket: asyncio.Transport
        self._began_at = 0.0
        self._first_byte: int | None = None  # that came in
        self._is_established = False  # the handshake is done
        self._is_told = False  # the log knows why this ends
        self._is_reading = True
        self._is_at_end = False  # the client sends nothing more
        self._is_ended = False  # we send nothing more

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the client's first words, unless there are too many connections."""
        self._socket = cast("asyncio.Transport", transport)
        self._began_at = self._clock.monotonic()
        peer = host_and_port(transport.get_extra_info("peername"))
        self._logger = self._logger.bind(peer="unknown" if peer is None else join_host_port(*peer))
        if not self._handshakes.admit(self):
            self._is_told = True
            self._socket.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection, or the attempt to make one."""
        if self._is_established:
            self._connection.connection_lost(exc)
            return
        self._handshakes.forget(self)
        # Who only looks whether somebody listens, as load balancers do, says nothing at all.
        if self._first_byte is not None:
            self._tell("the client left during the TLS handshake")

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - any size will do
        """Where the next bytes go."""
        return self._memory

    def buffer_updated(self, nbytes: int) -> None:
        """Decrypt what came in, and pass it on."""
        if self._is_deaf:
            return
        if self._first_byte is None:
            self._first_byte = self._memory[0]
        self._incoming.write(self._memory[:nbytes])
        if self._is_established or self._shake_hands():
            self._deliver()

    def eof_received(self) -> bool:
        """The client sends nothing more; it need not have said so in TLS."""
        if not self._is_established:
            return False
        self._end_of_input()
        return not self.is_closing()

    def pause_writing(self) -> None:
        """The client does not take its replies fast enough."""
        if self._is_established:
            self._connection.pause_writing()

    def resume_writing(self) -> None:
        """The client has caught up."""
        if self._is_established:
            self._connection.resume_writing()

    # What the listener calls during the handshake

    def drain(self) -> None:
        """Give the handshake up."""
        self.abort()

    def check_progress(self, now: float) -> None:
        """Give the handshake up if it takes too long."""
        if now - self._began_at >= self._timeout:
            self._tell("the TLS handshake took too long")
            self.abort()

    # What the connection calls

    def get_extra_info(self, name: str, default: object = None) -> object:
        """What is known of the socket."""
        return self._socket.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Whether the socket is closed, or about to be."""
        return self._socket.is_closing()

    def is_reading(self) -> bool:
        """Whether the connection wants to be told of more."""
        return self._is_reading

    def pause_reading(self) -> None:
        """Keep back what was not passed on yet."""
        self._is_reading = False
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        """Pass on what was kept back, then what comes in."""
        self._is_reading = True
        self._socket.resume_reading()
        if self._has_more:
            asyncio.get_running_loop().call_soon(self._deliver)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set how many encrypted bytes may wait to be sent."""
        self._socket.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Encrypted bytes that wait to be sent."""
        return self._socket.get_write_buffer_size()

    def write(self, data: Buffer) -> None:
        """Encrypt and send."""
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        """Encrypt and send; the buffers are not needed afterwards."""
        if self._is_ended or self.is_closing():
            return
        encrypted: list[bytes] = []
        try:
            for piece in _pieces(list_of_data):
                rest = piece
                while rest:
                    rest = rest[self._tls.write(rest) :]
                encrypted.append(self._outgoing.read())
        except ssl.SSLError as error:
            self._fail(error)
        else:
            write_all(self._socket, encrypted)

    def can_write_eof(self) -> bool:
        """TLS can end one side before the other."""
        return True

    def write_eof(self) -> None:
        """End our side; what still comes in is dropped unread."""
        self._say_goodbye()
        self._socket.write_eof()

    def close(self) -> None:
        """Send what waits to be sent, and close."""
        if not self.is_closing():
            self._say_goodbye()
            self._socket.close()

    def abort(self) -> None:
        """Close at once."""
        self._is_told = True
        self._socket.abort()

    # Inside

    @property
    def _is_deaf(self) -> bool:
        """Whether nobody wants what still comes in."""
        return self._is_at_end or self._is_ended or self.is_closing()

    @property
    def _has_more(self) -> bool:
        return bool(self._incoming.pending or self._tls.pending())

    def _shake_hands(self) -> bool:
        """Go on with the handshake; returns whether it is done."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except ssl.SSLError as error:
            self._fail(error)
            return False
        self._is_established = True
        self._handshakes.forget(self)
        self._connection.connection_made(self)
        return not self.is_closing()

    def _deliver(self) -> None:
        """Pass on what can be decrypted, for as long as the connection wants it."""
        while self._is_reading and self._has_more and not self._is_deaf:
            try:
                count, is_end = self._decrypt(memoryview(self._connection.get_buffer(-1)))
            except ssl.SSLError as error:
                self._fail(error)
                return
            if count:
                self._connection.buffer_updated(count)
            if is_end:
                self._end_of_input()
        self._flush()

    def _decrypt(self, buffer: memoryview) -> tuple[int, bool]:
        """Fill a buffer as far as possible; returns how far, and whether nothing follows."""
        count = 0
        while count < len(buffer):
            try:
                read = self._tls.read(len(buffer) - count, buffer[count:])
            except ssl.SSLWantReadError:
                return count, False
            if not read:
                return count, True
            count += cast("int", read)
        return count, False

    def _end_of_input(self) -> None:
        if self._is_at_end:
            return
        self._is_at_end = True
        if not self._connection.eof_received():
            self.close()

    def _say_goodbye(self) -> None:
        """Tell the client that nothing follows, so that it can tell an end from a cut."""
        if self._is_ended:
            return
        self._is_ended = True
        with suppress(ssl.SSLError):  # that the client has not said the same yet is no error
            self._tls.unwrap()
        self._flush()

    def _flush(self) -> None:
        """Send what TLS has to say of its own accord."""
        if self._outgoing.pending and not self.is_closing():
            self._socket.write(self._outgoing.read())

    def _fail(self, error: ssl.SSLError) -> None:
        """Close, after an alert that says why."""
        speaks_tls = self._first_byte == _HANDSHAKE
        self._tell(_sentence(error) if speaks_tls else "the client does not speak TLS")
        self._is_ended = True
        self._flush()
        self._socket.close()

    def _tell(self, reason: str) -> None:
        if self._is_told:
            return
        self._is_told = True
        self._logger.info("connection closed: TLS failed", reason=reason)


def _sentence(error: ssl.SSLError) -> str:
    reason = error.reason or str(error)
    _, alert, refusal = reason.partition("_ALERT_")
    words = (refusal or reason).replace("_", " ").lower()
    return f"the client refuses: {words}" if alert else words


def _pieces(parts: Iterable[Buffer]) -> Iterator[memoryview]:
    """The same bytes in pieces of limited size; small parts share one."""
    small: list[Buffer] = []
    size = 0
    for part in parts:
        if size + len(part) > _PIECE:
            yield memoryview(b"".join(small))
            small, size = [], 0
        if len(part) > _PIECE:
            view = memoryview(part)
            yield from (view[start : start + _PIECE] for start in range(0, len(view), _PIECE))
        else:
            small.append(part)
            size += len(part)
    yield memoryview(b"".join(small))
