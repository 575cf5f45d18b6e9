"""One TCP connection to a server: frames out, frames in, in order.

A server answers the requests of a connection in their order, so each frame that comes in belongs
to the oldest request without an answer. What keeps that true whatever happens:

- A caller that gives up (cancelled, or out of time) leaves its place in the order behind; the
  answer is dropped when it comes. Until then the place counts as taken.
- While the server does not read what was sent to it, nothing more is sent.
- A server that leaves a request unanswered for longer than `patience` is taken for dead, and the
  connection is closed.
- After anything that is not a frame of the protocol, or an answer nobody waits for, nothing that
  follows can be trusted: the connection is closed.
- An eviction ends the session, so it is the last frame of a connection.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final, cast

from windsprite.address import Endpoint
from windsprite.environment import Environment
from windsprite.errors import (
    ClientClosed,
    ConnectionLost,
    InvalidConnectionString,
    ProtocolViolation,
    RequestTimedOut,
    WindspriteError,
)
from windsprite.places import Places
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.messages import Buffer
from windsprite_protocol.v0_11.decoder import Frame, FrameDecoder
from windsprite_protocol.v0_11.frames import FrameKind

_KIND_OFFSET: Final = 60
_WRITE_BUFFER_LIMIT: Final = 4 * 1024 * 1024
_STRANGER: Final = "check that this is the address of an Iggy or Windsprite server"
_PERHAPS_TLS: Final = ", and that tls=true is given if it speaks TLS"


class Broken(Exception):  # noqa: N818 - internal; says what happened to the exchange
    """An exchange ended without an answer.

    Attributes:
        reason: What a caller is told.
        sent: Whether any byte of the request may have reached the server.
    """

    def __init__(self, reason: WindspriteError, *, sent: bool) -> None:
        super().__init__(str(reason))
        self.reason = reason
        self.sent = sent


@dataclass(slots=True)
class _Pending:
    """A request without an answer; the answer of a finished future is dropped."""

    answer: asyncio.Future[Frame]
    deadline: float
    patience_ends: float


class Connection(asyncio.BufferedProtocol):
    """One TCP connection; made by `open_connection`.

    Args:
        environment: Clock and timers.
        patience: Seconds after which a server that does not answer is taken for dead.
        max_reply_size: Bytes of the largest frame accepted.
        max_in_flight: Requests on their way at a time; 1 is lockstep.
        on_lost: Called once when the connection is gone, with the reason.

    Attributes:
        places: Those for requests on their way.
        lost: Why the connection is gone; None while it is there.
        peer: The IP address at the other end; None if it cannot be told.
        last_activity: When something was sent or received last, in seconds.
    """

    def __init__(
        self,
        environment: Environment,
        *,
        patience: float,
        max_reply_size: int,
        max_in_flight: int = 1,
        on_lost: Callable[[WindspriteError], None] | None = None,
    ) -> None:
        self._environment = environment
        self._patience = patience
        self._decoder = FrameDecoder(max_reply_size)
        self.places = Places(max_in_flight)
        self._on_lost = on_lost
        self._pending: deque[_Pending] = deque()
        self._has_answered = False
        self._timer: asyncio.Handle | None = None
        self._rings_at = 0.0
        self._transport: asyncio.Transport | None = None
        self._closed = asyncio.get_running_loop().create_future()
        self.lost: WindspriteError | None = None
        self.peer: Endpoint | None = None
        self.last_activity = environment.monotonic()

    # --- Called by whoever sends requests ----------------------------------------------------

    @property
    def in_flight(self) -> int:
        """Requests without an answer, those that nobody waits for any more included."""
        return len(self._pending)

    async def exchange(self, parts: Sequence[Buffer], deadline: float) -> Frame:
        """Wait for a place, send a request and wait for its answer.

        Args:
            parts: The frame; its bytes must not change until the answer is there.
            deadline: The time, in seconds, at which the caller gives up.

        Raises:
            Broken: The connection broke, or had broken before, or the deadline passed.
        """
        try:
            has_place = await self.places.take(None, deadline)
        except TimeoutError:
            reason = RequestTimedOut("earlier requests took all the time")
            raise Broken(reason, sent=False) from None
        if not has_place:
            raise Broken(self.lost or ConnectionLost("the connection is closed"), sent=False)
        return await self.send(parts, deadline)

    async def send(self, parts: Sequence[Buffer], deadline: float) -> Frame:
        """Send a request on a place that was taken, and wait for its answer.

        Args:
            parts: As for `exchange`.
            deadline: As for `exchange`.

        Raises:
            Broken: As for `exchange`.
        """
        if self.lost is not None or self._transport is None:
            self.places.give_back()
            raise Broken(self.lost or ConnectionLost("the connection is closed"), sent=False)
        now = self._environment.monotonic()
        pending = _Pending(
            asyncio.get_running_loop().create_future(), deadline, now + self._patience
        )
        self._pending.append(pending)
        self.last_activity = now
        self._watch(min(deadline, pending.patience_ends))
        _write_all(self._transport, parts)
        return await pending.answer

    def close(self) -> None:
        """Close the connection; whoever waits for an answer gets an error."""
        self._fail(ClientClosed("the connection was closed", code=ErrorCode.CLIENT_SHUTDOWN))

    def distrust(self, reason: str) -> ProtocolViolation:
        """Close the connection since the server does not follow the protocol; what to raise."""
        violation = ProtocolViolation(f"the server does not follow the protocol: {reason}")
        self._fail(violation, abort=True)
        return violation

    async def wait_closed(self, time_limit: float) -> None:
        """Wait until the socket is closed; after `time_limit` seconds it is closed the hard way."""
        await asyncio.wait({self._closed}, timeout=time_limit)
        if self._transport is not None:
            self._transport.abort()
            await self._closed

    # --- Called by the event loop ------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is connected."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_LIMIT)
        self.peer = _peer_of(transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the decoder knows better
        """Where the next bytes go."""
        if self.lost is not None:
            return memoryview(bytearray(4096))  # for what nobody reads any more
        return self._decoder.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come in."""
        if self.lost is not None:
            return
        self.last_activity = self._environment.monotonic()
        for frame in self._decoder.received(nbytes):
            self._answer(frame)
            if self.lost is not None:
                return
        if self._decoder.failure is not None:
            self.distrust(str(self._decoder.failure))

    def pause_writing(self) -> None:
        """The server does not read."""
        self.places.pause()

    def resume_writing(self) -> None:
        """The server reads again."""
        self.places.resume()

    def eof_received(self) -> bool:
        """The server has closed its side."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        reason = f"the connection was lost: {exc}" if exc else "the server closed the connection"
        hint = ""
        if self._pending and not self._has_answered:
            is_plain = self._transport is None or not self._transport.get_extra_info("sslcontext")
            hint = _STRANGER + (_PERHAPS_TLS if is_plain else "")
        self._fail(ConnectionLost(reason, code=ErrorCode.DISCONNECTED, hint=hint))
        self._transport = None
        if not self._closed.done():
            self._closed.set_result(None)

    # --- Inside ------------------------------------------------------------------------------

    def _answer(self, frame: Frame) -> None:
        kind = frame.header[_KIND_OFFSET]
        if kind not in {FrameKind.REPLY, FrameKind.EVICTION}:
            self.distrust(f"a frame of kind {kind}")
            return
        if not self._pending:
            if kind == FrameKind.EVICTION:
                self._fail(_evicted())
            else:
                self.distrust("an answer to no request")
            return
        pending = self._pending.popleft()
        self._has_answered = True
        self.places.give_back()
        if not pending.answer.done():
            pending.answer.set_result(frame)
        if kind == FrameKind.EVICTION:
            self._fail(_evicted())

    def _fail(self, reason: WindspriteError, *, abort: bool = False) -> None:
        """End the connection, once."""
        if self.lost is not None:
            return
        self.lost = reason
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None and abort:
            self._transport.abort()
        elif self._transport is not None:
            self._transport.close()
        for pending in self._pending:
            if not pending.answer.done():
                pending.answer.set_exception(Broken(reason, sent=True))
        self._pending.clear()
        self.places.close()
        if self._on_lost is not None:
            self._on_lost(reason)

    def _watch(self, when: float) -> None:
        """See that `_sweep` runs at this time; one timer serves all requests."""
        if self._timer is not None:
            if self._rings_at <= when and not self._timer.cancelled():
                return
            self._timer.cancel()
        self._timer = self._environment.call_at(when, self._sweep)
        self._rings_at = when

    def _sweep(self) -> None:
        """Give up what is out of time."""
        self._timer = None
        now = self._environment.monotonic()
        for pending in self._pending:
            if pending.deadline <= now and not pending.answer.done():
                pending.answer.set_exception(
                    Broken(RequestTimedOut("no answer in time"), sent=True)
                )
        if self._pending and self._pending[0].patience_ends <= now:
            reason = f"the server did not answer for {self._patience:g} seconds"
            self._fail(ConnectionLost(reason, code=ErrorCode.DISCONNECTED), abort=True)
            return
        if self._pending:
            self._watch(
                min(
                    self._pending[0].patience_ends,
                    *(p.deadline for p in self._pending if not p.answer.done()),
                    float("inf"),
                )
            )


def _write_all(transport: asyncio.WriteTransport, parts: Sequence[Buffer]) -> None:
    if isinstance(transport, asyncio.Transport):
        # `writelines` of asyncio's own transports fails if they are closing, from Python 3.12 on,
        # and up to 3.12.8 and 3.13.1 it does not pause whoever writes more than the other side
        # reads (CVE-2024-12254). Those of uvloop are no instances.
        transport.write(b"".join(parts))
    else:
        transport.writelines(parts)


def _evicted() -> ConnectionLost:
    return ConnectionLost("the server ended the session", code=ErrorCode.STALE_CLIENT)


def _peer_of(transport: asyncio.BaseTransport) -> Endpoint | None:
    """The IP address at the other end."""
    name: Any = transport.get_extra_info("peername")
    if not isinstance(name, tuple):
        return None
    try:
        return Endpoint.of(name[0], name[1])
    except InvalidConnectionString:
        return None


async def open_connection(
    endpoint: Endpoint,
    environment: Environment,
    *,
    time_limit: float,
    patience: float,
    max_reply_size: int,
    tls: ssl.SSLContext | None = None,
    tls_domain: str = "",
    on_lost: Callable[[WindspriteError], None] | None = None,
) -> Connection:
    """Dial a server; of a name with several addresses, each of them until one answers.

    Args:
        endpoint: Where.
        environment: Clock and timers.
        time_limit: Seconds for TCP and TLS together.
        patience: Seconds after which a server that does not answer is taken for dead.
        max_reply_size: Bytes of the largest frame accepted.
        tls: How to speak TLS; None: plain TCP.
        tls_domain: The name expected in the certificate; empty: the host of the endpoint.
        on_lost: Called once when the connection is gone, with the reason.

    Raises:
        OSError: Nobody answers there, TLS fails, or the time is over; its text says why.
    """
    loop = asyncio.get_running_loop()
    ends = loop.time() + time_limit

    async def dial(host: str) -> Connection:
        _, connection = await loop.create_connection(
            lambda: Connection(
                environment, patience=patience, max_reply_size=max_reply_size, on_lost=on_lost
            ),
            host,
            endpoint.port,
            ssl=tls,
            server_hostname=(tls_domain or endpoint.host) if tls else None,
        )
        return connection

    errors: list[OSError] = []
    try:
        async with asyncio.timeout_at(ends):
            hosts = await _addresses(endpoint)
        for index, host in enumerate(hosts):
            # One that swallows what is sent to it leaves time for the others.
            share = (ends - loop.time()) / (len(hosts) - index)
            try:
                async with asyncio.timeout(share):
                    return await dial(host)
            except OSError as error:
                errors.append(error)
    except OSError as error:
        errors.append(error)
    raise OSError(" and ".join(dict.fromkeys(map(_why, errors)))) from errors[-1]


async def _addresses(endpoint: Endpoint) -> list[str]:
    """The IP addresses of a host, in the order in which they are to be tried."""
    try:
        ip_address(endpoint.host)
    except ValueError:
        pass
    else:
        return [endpoint.host]  # asking for it would take a thread
    found = await asyncio.get_running_loop().getaddrinfo(
        endpoint.host, endpoint.port, type=socket.SOCK_STREAM
    )
    return [
        f"{address[0]}%{address[3]}" if len(address) > 3 and address[3] else str(address[0])
        for *_, address in found
    ]


def _why(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if error.errno is not None and "Connect call failed" in str(error):
        return os.strerror(error.errno)
    if isinstance(error, ConnectionResetError) and not str(error):
        return "the server closed the connection"  # in the middle of the TLS handshake
    return error.strerror or str(error) or type(error).__name__
