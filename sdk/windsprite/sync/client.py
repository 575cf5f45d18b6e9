"""The blocking client, and how to get one."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import windsprite.connecting
from windsprite.address import DEFAULT_CONNECTION_STRING, Address
from windsprite.environment import Environment
from windsprite.errors import ClientClosed
from windsprite.events import OnEvent
from windsprite.sync.client_methods import ClientMethods
from windsprite.sync.consumers_methods import ConsumerCommands
from windsprite.sync.groups_methods import GroupCommands
from windsprite.sync.messages_methods import MessageCommands
from windsprite.sync.offsets_methods import OffsetCommands
from windsprite.sync.producers_methods import ProducerCommands
from windsprite.sync.streams_methods import StreamCommands
from windsprite.sync.system_methods import SystemCommands
from windsprite.sync.thread import LoopThread
from windsprite.sync.tokens_methods import TokenCommands
from windsprite.sync.topics_methods import TopicCommands
from windsprite.sync.users_methods import UserCommands


class Client(
    ClientMethods,
    ProducerCommands,
    ConsumerCommands,
    SystemCommands,
    StreamCommands,
    TopicCommands,
    MessageCommands,
    OffsetCommands,
    GroupCommands,
    UserCommands,
    TokenCommands,
):
    """A connection to a cluster, whose methods block; made by `windsprite.sync.connect`.

    It has the methods of `windsprite.Client`, which any number of threads may call. Its event loop
    runs in a thread of its own, until `close`, the end of the program, or until nobody has the
    client, its producers or its consumers any more. Ctrl-C ends the call that it interrupts, and
    nothing else: what had been asked of the server may be done or not.

    A forked process cannot use the clients of its parent: it has to connect itself.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def address(self) -> Address:
        """What the client was made with."""
        return self._target.address

    @property
    def server(self) -> str | None:
        """The `host:port` that the client is connected to; None while there is no connection."""
        return self._target.server

    def close(self, *, timeout: float | None = None) -> None:
        """Close the connection and end all background work; may be called more than once.

        Consumers are closed before, which takes each of them at most its `close_timeout`; and
        producers, which send what they have accepted, for at most their `delivery_timeout`.
        Ctrl-C cuts that short.

        Args:
            timeout: Seconds for producers and consumers together: what they have not finished by
                then is given up. None: as long as they take.
        """
        try:
            if timeout is not None:
                with suppress(ClientClosed):
                    self._thread.run(self._target.close(timeout=timeout))
        finally:
            self._thread.close()


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
) -> Client:
    """Connect to a cluster: find a server, log in, go to the leader.

        with windsprite.sync.connect("iggy://user:password@10.0.0.1,10.0.0.2") as client:
            client.ping()

        client = windsprite.sync.connect(["10.0.0.1", "10.0.0.2"], token="...")

    The arguments are those of `windsprite.connect`; `on_event` is called in another thread, and
    must not call the client.

    Returns:
        A client that is connected, to be closed by `with` or `close`.

    Raises:
        InvalidConnectionString: The servers or options make no sense.
        ConnectionFailed: No server could be reached within `connect_timeout`.
        AuthenticationError: The credentials were refused.
    """
    connecting = windsprite.connecting.connect(
        servers,
        username=username,
        password=password,
        token=token,
        tls_context=tls_context,
        on_event=on_event,
        environment=environment,
        **options,
    )
    thread = LoopThread()
    try:
        return Client(thread, thread.enter(connecting))
    except BaseException:
        thread.close()
        raise
