"""A server inside another program: for tests, demonstrations, and programs that bring their own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from windsprite_server.app import DEFAULT_ROOT, ROOT_PASSWORD_FILE, Server
from windsprite_server.core.address import join_host_port
from windsprite_server.core.clock import SystemClock
from windsprite_server.core.log_setup import make_quiet_logger
from windsprite_server.settings import Settings, load_settings
from windsprite_server.settings.model import leaves


@dataclass(frozen=True, slots=True)
class EmbeddedServer:
    """A running server of this process.

    Attributes:
        host: Where it listens.
        port: The port, a free one unless `tcp.address` says otherwise.
        data_dir: The directory that holds everything.
        connection_string: Makes a client log in as the root user that the settings name, or as
            the one that the first start made. It holds the password.
    """

    host: str
    port: int
    data_dir: Path
    connection_string: str


@asynccontextmanager
async def embedded(
    data_dir: Path | str | None = None, **settings: object
) -> AsyncIterator[EmbeddedServer]:
    """Run a server on the running event loop, for as long as the context lasts.

        async with windsprite_server.embedded(limits={"max_connections": 10}) as server:
            async with windsprite.connect(server.connection_string) as client:
                ...

    It is the same server that `windsprite-server run` starts, on a free port of 127.0.0.1 unless
    `tcp` says otherwise. It reads no file and no environment, handles no signals, and logs
    nothing but what is critical, to standard error.

    Args:
        data_dir: What it keeps there outlives it. `None`: a temporary directory that does not.
        **settings: Tables and keys of the settings, as in the file: `tcp={"backlog": 5}`,
            `shutdown_timeout="1 s"`.

    Raises:
        SettingsError: A setting is unknown or its value is not allowed.
        DataDirectoryError: The data directory cannot be used.
        CertificateError: There is no good certificate for TLS.
        OSError: The address cannot be listened on.
    """
    async with AsyncExitStack() as stack:
        if data_dir is None:
            temporary = TemporaryDirectory(prefix="windsprite-")
            stack.push_async_callback(asyncio.to_thread, temporary.cleanup)
            data_dir = temporary.name
        given = {"tcp.address": "127.0.0.1:0"} | dict(leaves(settings))
        effective = load_settings(environment={}, command_line=given | {"data_dir": str(data_dir)})
        server = Server(effective, make_quiet_logger(sys.stderr, SystemClock()))
        running = await server.start()
        stack.push_async_callback(server.stop)
        host, port = running.tcp_address
        yield EmbeddedServer(host, port, Path(data_dir), _connection_string(effective, host, port))


def _connection_string(settings: Settings, host: str, port: int) -> str:
    root = settings.root
    username = DEFAULT_ROOT if root.username is None else root.username
    if root.password is not None:
        password = root.password.get_secret_value()
    else:
        made = settings.data_dir / ROOT_PASSWORD_FILE
        password = made.read_text().strip() if made.exists() else DEFAULT_ROOT
    credentials = f"{quote(username, safe='')}:{quote(password, safe='')}"
    options = "?tls=true" if settings.tcp.tls.enabled else ""
    return f"iggy://{credentials}@{join_host_port(host, port)}{options}"
