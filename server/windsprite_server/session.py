"""Who is connected, and under which session (spec 01, 5 and 6; spec 06, 2). Pure: no I/O.

A connection is bound to at most one session and a session to at most one connection. A session
lives in memory and ends with its connection; its number does not come back, not even after a
restart, because the generation of the data directory is in its high bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from windsprite_protocol.model.system import TransportKind

_COUNTER_BITS: Final = 32
_MAX_CONNECTION: Final = 0xFFFF_FFFF
_MAX_GENERATION: Final = (1 << (63 - _COUNTER_BITS)) - 1


class SessionConflictError(Exception):
    """The client id belongs to a session of another user."""


@dataclass(slots=True)
class Session:
    """What a login opened.

    Attributes:
        client: The 128-bit id the client chose, in the byte order of the wire.
        number: Greater than that of every session opened before, below 2^63.
        user_id: Whose rights the session has.
    """

    client: bytes
    number: int
    user_id: int


@dataclass(slots=True)
class Connection:
    """One connection of a client.

    Attributes:
        number: Unique on this node while it runs; what clients are told as their client id.
        transport: How the client is connected.
        peer: The address of the client, for people.
        reached_host: The address of ours that the client connected to, without the port.
        reached_port: Its port.
        session: `None` until a login and after a logout.
    """

    number: int
    transport: TransportKind
    peer: str
    reached_host: str
    reached_port: int
    session: Session | None = None


class Sessions:
    """All connections of a node and the sessions bound to them."""

    def __init__(self, generation: int) -> None:
        """Number sessions above those of every earlier generation of the data directory.

        Args:
            generation: Grows with every start of the node; 1 to 2^31 - 1.

        Raises:
            ValueError: The generation is out of range.
        """
        if not 0 < generation <= _MAX_GENERATION:
            message = f"the generation must be between 1 and {_MAX_GENERATION}, not {generation}"
            raise ValueError(message)
        self._last_session = generation << _COUNTER_BITS
        self._last_connection = 0
        self._connections: dict[int, Connection] = {}
        self._bound: dict[bytes, Connection] = {}

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._connections.values())

    def get(self, number: int) -> Connection | None:
        """The connection with this number."""
        return self._connections.get(number)

    def connect(
        self, transport: TransportKind, peer: str, reached_host: str, reached_port: int
    ) -> Connection:
        """Take note of a new connection."""
        number = self._free_number()
        connection = Connection(number, transport, peer, reached_host, reached_port)
        self._connections[number] = connection
        return connection

    def _free_number(self) -> int:
        while True:
            self._last_connection = (self._last_connection + 1) & _MAX_CONNECTION
            if self._last_connection and self._last_connection not in self._connections:
                return self._last_connection

    def disconnect(self, connection: Connection) -> Session | None:
        """Forget a connection; returns the session that ended with it."""
        self._connections.pop(connection.number, None)
        return self.unbind(connection)

    def bind(self, connection: Connection, client: bytes, user_id: int) -> Session:
        """Open a session on a connection that has none (spec 01, 5.3).

        Another connection of the same user that holds this client id loses its session without
        being told: its next request finds it logged out.

        Raises:
            SessionConflictError: The client id belongs to a session of another user.
        """
        holder = self._bound.get(client)
        if holder is not None and holder.session is not None:
            if holder.session.user_id != user_id:
                raise SessionConflictError
            holder.session = None
        self._last_session += 1
        session = Session(client, self._last_session, user_id)
        connection.session = session
        self._bound[client] = connection
        return session

    def unbind(self, connection: Connection) -> Session | None:
        """Close the session of a connection; returns it, `None` if there was none."""
        session = connection.session
        if session is None:
            return None
        connection.session = None
        if self._bound.get(session.client) is connection:
            del self._bound[session.client]
        return session
