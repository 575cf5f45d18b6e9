"""Connections of clients, and the sessions bound to them (spec 01, 5 and 6.7).

A connection is bound to at most one session and a session to at most one connection. A session
ends with its connection; its number does not come back, not even after a restart, because the
generation of the data directory is in its high bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from windsprite_protocol.model.sessions import EvictionReason
from windsprite_protocol.model.system import TransportKind
from windsprite_server.session.clients import ClientTable

_COUNTER_BITS: Final = 32
_MAX_CONNECTION: Final = 0xFFFF_FFFF
_MAX_GENERATION: Final = (1 << (63 - _COUNTER_BITS)) - 1


@dataclass(slots=True)
class Session:
    """What a login opened.

    Attributes:
        client: The 128-bit id the client chose, in the byte order of the wire.
        number: Greater than that of every session opened before, below 2^63.
        user_id: Whose rights the session has.
        numbers_writes: Whether each write to a partition has a request number of its own. Some
            old clients give the same one to several (spec 01, 6.6).
    """

    client: bytes
    number: int
    user_id: int
    numbers_writes: bool = True


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
        attached: The session of another connection that this one acts for (spec 01, 8.4).
        request: The number of the request that is being served.
        heard_at: When the last request came, in seconds of a clock that never goes backwards;
            infinite while it waits for its answer, or the connection for memory to be read.
        is_listed: Whether others are told of it: from its first request until its session ends, and
            again from its next request on (spec 06, 2.1 and 6.6).
        tell_evicted: Tells the client that this session of it is over, and why. The transport
            sets it.
    """

    number: int
    transport: TransportKind
    peer: str
    reached_host: str
    reached_port: int
    session: Session | None = None
    attached: Session | None = None
    request: int = 0
    heard_at: float = 0.0
    is_listed: bool = False
    tell_evicted: Callable[[Session, EvictionReason], None] = field(
        default=lambda _session, _reason: None, repr=False
    )


class Sessions:
    """All connections of a node and the sessions bound to them.

    Attributes:
        clients: What was done for the sessions.
    """

    def __init__(
        self,
        generation: int,
        on_end: Callable[[Session], None] | None = None,
        clients: ClientTable[Any] | None = None,
    ) -> None:
        """Number sessions above those of every earlier generation of the data directory.

        Args:
            generation: Grows with every start of the node; 1 to 2^31 - 1.
            on_end: Called with each session that is over: not with one that moves to another
                connection. Must not call back.
            clients: Told of all sessions; one with default bounds unless given.

        Raises:
            ValueError: The generation is out of range.
        """
        if not 0 < generation <= _MAX_GENERATION:
            message = f"the generation must be between 1 and {_MAX_GENERATION}, not {generation}"
            raise ValueError(message)
        self.clients: ClientTable[Any] = ClientTable() if clients is None else clients
        self._on_end = on_end
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

    def listed(self) -> list[Connection]:
        """The connections that others are told of."""
        return [connection for connection in self if connection.is_listed]

    def find(self, client: bytes) -> Session | None:
        """The session of a client id."""
        connection = self._bound.get(client)
        return None if connection is None else connection.session

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

    def bind(
        self, connection: Connection, client: bytes, user_id: int, *, numbers_writes: bool = True
    ) -> Session:
        """Open a session on a connection that has none (spec 01, 5.3).

        Another connection of the same user that holds this client id loses its session without
        being told: its next request finds it logged out.

        Raises:
            SessionConflictError: The client id belongs to a session of another user.
        """
        number = self._last_session + 1
        self.clients.register(client, user_id, number)
        self._last_session = number
        holder = self._bound.get(client)
        if holder is not None:
            _clear(holder)
        session = Session(client, number, user_id, numbers_writes)
        connection.session = session
        self._bound[client] = connection
        return session

    def unbind(self, connection: Connection) -> Session | None:
        """Close the session of a connection; returns it, `None` if there was none."""
        session = connection.session
        if session is None:
            return None
        _clear(connection)
        connection.is_listed = False
        del self._bound[session.client]
        self.clients.end(session.client, session.number)
        if self._on_end is not None:
            self._on_end(session)
        return session


def _clear(connection: Connection) -> None:
    connection.session = None
    connection.attached = None
