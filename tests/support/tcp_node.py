"""The TCP transport with handlers of a test: what it does shows without logins and disks."""

import asyncio
import dataclasses
import io
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from support.clock import ManualClock
from support.waiting import until
from support.wire_client import WireClient
from windsprite_protocol.model.system import GetClient, GetSnapshot, Ping, Snapshot
from windsprite_server.core.address import Address
from windsprite_server.core.log_setup import make_logger
from windsprite_server.handlers.dispatcher import Dispatcher, Handler
from windsprite_server.session import Connection, Sessions
from windsprite_server.transport.limits import TcpLimits
from windsprite_server.transport.tcp import TcpListener
from windsprite_server.transport.untaken import UntakenReplies
from windsprite_server.transport.wire import Wire

KIB = 1024
MIB = 1024 * KIB
CLUSTER_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
POSITION = 7

LIMITS = TcpLimits(
    max_connections=100,
    max_frame_size=64 * MIB,
    max_frame_size_before_login=64 * MIB,
    max_waiting_frames=256,
    write_high_water=4 * MIB,
    write_low_water=1 * MIB,
    write_timeout=60,
    frame_timeout=30,
    receive_memory=512 * MIB,
    backlog=128,
)


class TcpNode:
    """A listener with what is behind it.

    Attributes:
        listener: What is tested.
        clock: Stands still until a test moves it.
        sessions: The connections that the layers above know of.
        served: The requests that handlers were called with.
        replies: What clients have not taken.
    """

    def __init__(
        self,
        limits: TcpLimits,
        handlers: Mapping[type[Any], Handler],
        sweep_interval: float,
        send_memory: int = 512 * MIB,
    ) -> None:
        self._log = io.StringIO()
        self.clock = ManualClock()
        self.sessions = Sessions(1)
        self.served: list[Any] = []
        services: Any = SimpleNamespace(
            sessions=self.sessions, committer=SimpleNamespace(position=POSITION)
        )
        logger = make_logger(log_format="json", level="debug", stream=self._log, clock=self.clock)
        table = {kind: self._noting(handler) for kind, handler in handlers.items()}
        self.wire = Wire(
            Dispatcher(services, table, logger), CLUSTER_ID, limits.max_frame_size, self.clock
        )
        self.replies = UntakenReplies(send_memory)
        self.listener = TcpListener(
            self.wire, limits, self.replies, self.clock, logger, sweep_interval=sweep_interval
        )
        self.address = Address("", 0)

    def _noting(self, handler: Handler) -> Handler:
        def noted(services: Any, connection: Connection, request: Any) -> Any:
            self.served.append(request)
            return handler(services, connection, request)

        return noted

    def events(self, text: str = "", level: str = "") -> list[dict[str, Any]]:
        """What was logged, apart from connections that come and go."""
        events = [json.loads(line) for line in self._log.getvalue().splitlines()]
        return [
            event
            for event in events
            if event["event"] not in ("connected", "disconnected")
            and text in event["event"]
            and level in event["level"]
        ]

    def client(self, **options: Any) -> WireClient:
        return WireClient(self.address.host, self.address.port, **options)

    async def until(self, condition: Callable[[], bool]) -> None:
        await until(condition)

    @property
    def open_connections(self) -> int:
        return len(self.sessions)


@asynccontextmanager
async def tcp_node(
    handlers: Mapping[type[Any], Handler] | None = None,
    *,
    host: str = "127.0.0.1",
    sweep_interval: float = 1.0,
    send_memory: int = 512 * MIB,
    accepts: bool = True,
    **limits: Any,
) -> AsyncIterator[TcpNode]:
    """A listener on a free port; by default pings are answered, and snapshots are large."""
    node = TcpNode(
        dataclasses.replace(LIMITS, **limits),
        {Ping: ping, GetSnapshot: snapshot(1 * MIB)} if handlers is None else handlers,
        sweep_interval,
        send_memory,
    )
    node.address = await node.listener.listen(Address(host, 0))
    try:
        if accepts:
            await node.listener.accept()
        yield node
    finally:
        await node.listener.stop(0)
        leaked = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert leaked == []


def ping(services: Any, connection: Connection, request: Ping) -> None:
    """Answer at once, and open a session, which other requests need."""
    if connection.session is None:
        services.sessions.bind(connection, connection.number.to_bytes(16, "big"), 0)


def snapshot(size: int) -> Handler:
    content = bytes(size)
    return lambda services, connection, request: Snapshot(content)


def bound(handler: Handler) -> dict[type[Any], Handler]:
    """Pings open sessions; the handler serves requests that need one: `GetClient`."""
    return {Ping: ping, GetClient: handler}
