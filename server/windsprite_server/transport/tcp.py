"""The TCP transport: a listener, and what all its connections share."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from windsprite_protocol.v0_11.decoder import DEFAULT_BUFFER_SIZE
from windsprite_server.core.address import Address
from windsprite_server.core.clock import Clock, let_sockets_be_read
from windsprite_server.core.log_setup import Logger
from windsprite_server.core.tasks import cancel_and_wait, repeat
from windsprite_server.transport.certificate_watch import CertificateWatch
from windsprite_server.transport.limits import TcpLimits
from windsprite_server.transport.receive_memory import ReceiveMemory
from windsprite_server.transport.sockets import listen
from windsprite_server.transport.tcp_connection import TcpConnection
from windsprite_server.transport.tls import TlsStream
from windsprite_server.transport.untaken import UntakenReplies
from windsprite_server.transport.wire import Wire


class TcpListener:
    """Accepts connections on one address and serves them until it is stopped.

    Args:
        wire: What frames are served by.
        limits: Bounds.
        replies: Keeps account of replies that clients have not taken.
        clock: For time-outs.
        logger: Told of connections that are refused or dropped.
        certificate: Makes the listener speak TLS and nothing else.
        sweep_interval: Seconds between two looks for connections that make no progress; time-outs
            are no more exact than that.
    """

    def __init__(
        self,
        wire: Wire,
        limits: TcpLimits,
        replies: UntakenReplies,
        clock: Clock,
        logger: Logger,
        *,
        certificate: CertificateWatch | None = None,
        sweep_interval: float = 1.0,
    ) -> None:
        self.wire = wire
        self.limits = limits
        self.replies = replies
        self.clock = clock
        self.logger = logger
        self.memory = ReceiveMemory(limits.receive_memory)
        self.dropped_bytes = memoryview(bytearray(DEFAULT_BUFFER_SIZE))
        self._certificate = certificate
        self._tls_memory = memoryview(bytearray(DEFAULT_BUFFER_SIZE))
        self._sweep_interval = sweep_interval
        self._servers: list[asyncio.Server] = []
        self._sweeper: asyncio.Task[None] | None = None
        self._connections: set[TcpConnection | TlsStream] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._has_changed = asyncio.Event()
        self._refused = 0
        self._is_stopping = False

    async def listen(self, address: Address) -> Address:
        """Take an address; who connects has to wait until `accept`.

        Returns:
            The address with the port that was really taken.

        Raises:
            OSError: The address is taken or not ours.
        """
        loop = asyncio.get_running_loop()
        sockets = await listen(address, self.limits.backlog)
        port: int = sockets[0].getsockname()[1]
        for sock in sockets:
            server = await loop.create_server(
                self._new_connection,
                sock=sock,
                backlog=self.limits.backlog,
                start_serving=False,
            )
            self._servers.append(server)
        return Address(address.host, port)

    async def accept(self) -> None:
        """Serve those who have connected since `listen`, and who does from now on."""
        for server in self._servers:
            await server.start_serving()
        self._sweeper = repeat(
            self._sweep,
            self._sweep_interval,
            name="tcp sweep",
            clock=self.clock,
            logger=self.logger,
            failure="connections could not be looked at",
        )

    async def stop(self, drain_seconds: float) -> None:
        """Accept nothing more, let what is being served finish, close all connections.

        Args:
            drain_seconds: After that time connections are closed whatever they do.
        """
        self._is_stopping = True
        for server in self._servers:
            server.close()
        for connection in tuple(self._connections):
            connection.drain()
        try:
            async with asyncio.timeout(drain_seconds):
                await self._all_done()
        except TimeoutError:
            self.logger.warning(
                "connections were cut",
                count=len(self._connections),
                requests_in_flight=len(self._tasks),
            )
            for connection in tuple(self._connections):
                connection.abort()
            for task in self._tasks:
                task.cancel()
            await self._all_done()
        await cancel_and_wait(self._sweeper)

    def _new_connection(self) -> asyncio.BufferedProtocol:
        connection = TcpConnection(self)
        if self._certificate is None:
            return connection
        return TlsStream(
            self._certificate.context,
            connection,
            handshakes=self,
            timeout=self.limits.handshake_timeout,
            clock=self.clock,
            logger=self.logger,
            memory=self._tls_memory,
        )

    async def _all_done(self) -> None:
        while self._connections or self._tasks:
            self._has_changed.clear()
            await self._has_changed.wait()

    async def _sweep(self) -> None:
        """Look for connections that hold something and make no progress."""
        await let_sockets_be_read(self.clock)
        now = self.clock.monotonic()
        for connection in tuple(self._connections):
            connection.check_progress(now)
        if self._refused:
            self.logger.warning(
                "connections were refused: there are too many",
                count=self._refused,
                limit=self.limits.max_connections,
            )
            self._refused = 0

    # What connections call

    @property
    def is_full(self) -> bool:
        """Whether there are as many connections as may be."""
        return len(self._connections) >= self.limits.max_connections

    def admit(self, connection: TcpConnection | TlsStream) -> bool:
        """Take note of a new connection or TLS handshake; returns whether it may stay."""
        if self._is_stopping:
            return False
        if self.is_full:
            self._refused += 1
            return False
        self._connections.add(connection)
        return True

    def forget(self, connection: TcpConnection | TlsStream) -> None:
        """Take note that a connection is closed, or a TLS handshake over."""
        self._connections.discard(connection)
        self._has_changed.set()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that has to wait; it is awaited or cancelled before the server stops."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._has_changed.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            self.logger.error("a connection could not be served", exc_info=error)
