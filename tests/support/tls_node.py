"""The TCP transport with TLS and handlers of a test."""

import asyncio
import dataclasses
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.certificates import Authority, Files
from support.tcp_node import LIMITS, MIB, TcpNode, ping, snapshot
from support.tls_client import TlsClient
from windsprite_protocol.model.system import GetSnapshot, Ping
from windsprite_server.core.address import Address
from windsprite_server.transport.certificate_watch import CertificateWatch
from windsprite_server.transport.tcp import TcpListener
from windsprite_server.transport.tls import TlsStream

AUTHORITY = Authority()


class TlsNode(TcpNode):
    """A listener that speaks TLS, with what is behind it.

    Attributes:
        files: The certificate and its key.
        watch: The certificate in force; it is read again when a test asks for it.
    """

    def __init__(
        self, folder: Path, handlers: Any, send_memory: int = 512 * MIB, **limits: Any
    ) -> None:
        super().__init__(dataclasses.replace(LIMITS, **limits), handlers, 1.0, send_memory)
        logger = self.listener.logger
        self.files = Files(folder, AUTHORITY.issue())
        self.watch = CertificateWatch(
            self.files.cert, self.files.key, self.clock, logger, interval=1
        )
        self.listener = TcpListener(
            self.wire,
            self.listener.limits,
            self.replies,
            self.clock,
            logger,
            certificate=self.watch,
        )

    def events(self, text: str = "", level: str = "") -> list[dict[str, Any]]:
        """What was logged, apart from connections that come and go, and certificates."""
        events = super().events(text, level)
        return [event for event in events if event["event"] != "certificate loaded"]

    @property
    def half_open(self) -> int:
        """Handshakes that are not over."""
        return sum(type(one) is TlsStream for one in self.listener._connections)

    def tls_client(self, context: ssl.SSLContext | None = None, **options: Any) -> TlsClient:
        """A client that trusts the issuer, unless told otherwise."""
        context = context or AUTHORITY.client_context()
        return TlsClient(self.address.host, self.address.port, context, **options)


@asynccontextmanager
async def tls_node(
    folder: Path, handlers: Any = None, *, host: str = "127.0.0.1", **limits: Any
) -> AsyncIterator[TlsNode]:
    """A listener on a free port; by default pings are answered, and snapshots are large."""
    node = TlsNode(folder, handlers or {Ping: ping, GetSnapshot: snapshot(MIB)}, **limits)
    node.address = await node.listener.listen(Address(host, 0))
    try:
        await node.listener.accept()
        yield node
    finally:
        await node.listener.stop(0)
        leaked = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert leaked == []
