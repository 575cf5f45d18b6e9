"""`connect`: from a connection string to a client that works."""

from __future__ import annotations

import ssl
from collections.abc import Generator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from windsprite.address import (
    DEFAULT_CONNECTION_STRING,
    Address,
    Credentials,
    Password,
    Token,
)
from windsprite.client import Client
from windsprite.environment import Environment
from windsprite.errors import InvalidRequest
from windsprite.events import OnEvent


class Connecting:
    """What `connect` returns: await it, or use it in `async with`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    if not TYPE_CHECKING:  # type checkers see by themselves that it is no client

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - never returns
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            if hasattr(Client, name):
                message = (
                    f"connect() has to be awaited before {name!r} can be used: "
                    "client = await windsprite.connect(...), "
                    "or async with windsprite.connect(...) as client"
                )
            raise AttributeError(message, name=name, obj=self)

    def __await__(self) -> Generator[Any, None, Client]:
        return self._connect().__await__()

    async def __aenter__(self) -> Client:
        return await self._connect()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._client.close()

    async def _connect(self) -> Client:
        try:
            await self._client.connect()
        except BaseException:
            await self._client.close()
            raise
        return self._client


def connect(
    servers: str | Address | Sequence[str] = DEFAULT_CONNECTION_STRING,
    *,
    username: str | None = None,
    password: str | None = None,
    token: str | None = None,
    tls_context: ssl.SSLContext | None = None,
    on_event: OnEvent | None = None,
    environment: Environment | None = None,
    **options: Any,  # noqa: ANN401 - the fields of `Options`, which checks them
) -> Connecting:
    """Connect to a cluster: find a server, log in, go to the leader.

        async with windsprite.connect("iggy://user:password@10.0.0.1,10.0.0.2") as client:
            await client.ping()

        client = await windsprite.connect(["10.0.0.1", "10.0.0.2"], token="...")

    Args:
        servers: A connection string, or one or several `host[:port]` or connection strings. The
            servers are only where to start: the others of the cluster are found out.
        username: With `password`, instead of credentials in the connection string.
        password: See `username`.
        token: A personal access token, instead of credentials in the connection string.
        tls_context: How to speak TLS, for what connection strings cannot say, such as client
            certificates.
        on_event: Called in the event loop with everything that happens to the connection; see
            `Client.events`. It must not wait. What it raises is logged and harms nothing.
        environment: Clock and randomness, for tests.
        **options: The fields of `windsprite.Options`, such as `request_timeout=5`; they come
            before those in the connection string. Durations are seconds.

    Returns:
        Something to `await` for a `Client`, or to use in `async with`, which also closes it.
        Without any credentials the client is connected but not logged in: see `Client.login`.

    Raises:
        InvalidConnectionString: The servers or options make no sense. What goes wrong later is
            raised when the result is awaited.
    """
    address = Address.gather(servers).with_options(options)
    credentials = _credentials(username, password, token)
    if credentials is not None:
        address = replace(address, credentials=credentials)
    return Connecting(Client(address, environment=environment, tls=tls_context, on_event=on_event))


def _credentials(
    username: str | None, password: str | None, token: str | None
) -> Credentials | None:
    if token is not None:
        if username is not None or password is not None:
            raise InvalidRequest("connect: either a token or a user name and a password")
        return Token(token)
    if (username is None) != (password is None):
        raise InvalidRequest("connect: a user name and a password belong together")
    if username is None or password is None:
        return None
    return Password(username, password)
