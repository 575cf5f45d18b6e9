"""The whole server in the process of a test, with a log and a clock that the test can look at."""

import io
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.wire_client import WireClient, wire_client
from windsprite_server.app import Running, Server
from windsprite_server.core.clock import Clock, SystemClock
from windsprite_server.core.ids import Ids
from windsprite_server.core.log_setup import make_logger
from windsprite_server.handlers.dispatcher import Handler
from windsprite_server.handlers.table import HANDLERS
from windsprite_server.settings import Settings


class RealServer:
    """A started server.

    Attributes:
        address: Where it listens.
        cluster_id: As people read it.
    """

    def __init__(self, running: Running, log: io.StringIO) -> None:
        self.address = str(running.tcp_address)
        self.cluster_id = running.cluster_id
        self._log = log

    @property
    def output(self) -> str:
        """All that was logged."""
        return self._log.getvalue()

    def events(self, text: str = "") -> list[dict[str, Any]]:
        """What was logged, line by line."""
        events = [json.loads(line) for line in self.output.splitlines()]
        return [event for event in events if text in event["event"]]

    @asynccontextmanager
    async def client(self, username: str = "", password: str = "") -> AsyncIterator[WireClient]:
        """A connection, logged in if there is a name."""
        async with wire_client(self.address) as client:
            if username:
                await client.login(username, password)
            yield client


@asynccontextmanager
async def real_server(
    folder: Path,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
    settings: Mapping[str, Any] | None = None,
    handlers: Mapping[type[Any], Handler] = HANDLERS,
) -> AsyncIterator[RealServer]:
    """A server on a free port, with its data in `folder`, that logs all it has to say."""
    log = io.StringIO()
    logger = make_logger(log_format="json", level="debug", stream=log, clock=clock or SystemClock())
    values = {"data_dir": folder, "tcp": {"address": "127.0.0.1:0"}, **(settings or {})}
    server = Server(Settings(**values), logger, clock=clock, ids=ids, handlers=handlers)
    running = await server.start()
    try:
        yield RealServer(running, log)
    finally:
        await server.stop()
