"""The client: its life, its session, and all methods of `windsprite.commands`."""

from __future__ import annotations

import ssl
from types import TracebackType
from typing import Self

from windsprite.address import Address, Password, Token
from windsprite.caller import Caller
from windsprite.commands.groups import GroupCommands
from windsprite.commands.messages import MessageCommands
from windsprite.commands.offsets import OffsetCommands
from windsprite.commands.streams import StreamCommands
from windsprite.commands.system import SystemCommands
from windsprite.commands.tokens import TokenCommands
from windsprite.commands.topics import TopicCommands
from windsprite.commands.users import UserCommands
from windsprite.environment import Environment, SystemEnvironment
from windsprite.memberships import Memberships
from windsprite.tls import tls_context


class Client(
    SystemCommands,
    StreamCommands,
    TopicCommands,
    MessageCommands,
    OffsetCommands,
    GroupCommands,
    UserCommands,
    TokenCommands,
):
    """A connection to a cluster; made by `connect`.

    Streams, topics, consumers, groups and users are named by their number (`int`) or their name
    (`str`): `7` and `"7"` are different. All methods raise a `WindspriteError`, and every one of
    them takes at most `request_timeout`, or `timeout` seconds where it is given.

    Calls of one client are carried out one after the other, in the order in which they are made.
    A lost connection is replaced, and the client goes where the leader is, without further ado;
    what had been asked for meanwhile is done then, if that cannot do anything twice.
    """

    def __init__(
        self,
        address: Address,
        *,
        environment: Environment | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._address = address
        self._environment = environment or SystemEnvironment()
        self._send_retry = address.options.send_retry
        if tls is None and address.options.tls:
            tls = tls_context(address.options.tls_ca_file)
        self._caller = Caller(address, self._environment, tls)
        self._memberships = Memberships(
            self._caller, self._environment, address.options.heartbeat_interval
        )

    def __repr__(self) -> str:
        return f"<windsprite.Client {self._address}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def address(self) -> Address:
        """What the client was made with."""
        return self._address

    @property
    def server(self) -> str | None:
        """The `host:port` that the client is connected to; None while there is no connection."""
        location = self._caller.link.location
        return str(location.dialled) if location else None

    async def connect(self) -> None:
        """Find a server, log in and move to the leader; `windsprite.connect` does this.

        Raises:
            ConnectionFailed: No server could be reached within `connect_timeout`.
            AuthenticationError: The credentials were refused.
        """
        await self._caller.connect()

    async def close(self) -> None:
        """Close the connection and end all background work; may be called more than once."""
        await self._caller.close()

    async def login(self, username: str, password: str) -> None:
        """Log in, or become somebody else; also used for later reconnects.

        The client joins the consumer groups that it belongs to again, as this user.

        Raises:
            AuthenticationError: The server refused; the client remains who it was.
        """
        await self._caller.log_in(Password(username, password))

    async def login_with_token(self, token: str) -> None:
        """Log in with a personal access token; also used for later reconnects.

        The client joins the consumer groups that it belongs to again, as this user.

        Raises:
            AuthenticationError: The server refused; the client remains who it was.
        """
        await self._caller.log_in(Token(token))

    async def logout(self) -> None:
        """End the session and all memberships of consumer groups, and forget the credentials.

        `login` works afterwards.
        """
        await self._caller.log_out()
        self._memberships.forget_all()
