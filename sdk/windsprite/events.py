"""What happens to the connection of a client, for whoever wants to know."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self, TypeAlias
from weakref import WeakSet

logger = logging.getLogger("windsprite")

DEFAULT_CAPACITY: Final = 256


@dataclass(frozen=True, slots=True)
class Connected:
    """The client has a connection that it works with, and left the one before, if there was one.

    Attributes:
        server: The `host:port` that was dialled.
        session: How many connections the client has had, with this one.
    """

    server: str
    session: int


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection was lost; the client looks for another one if it has credentials.

    Attributes:
        server: The `host:port` that was dialled.
        reason: Why, for people.
    """

    server: str
    reason: str


@dataclass(frozen=True, slots=True)
class SignedIn:
    """The client is logged in at the server it is connected to.

    Attributes:
        user_id: As whom.
    """

    user_id: int


@dataclass(frozen=True, slots=True)
class SignedOut:
    """The program has logged out."""


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """Another server leads than the one that was last heard of.

    Attributes:
        server: Its `host:port`, as the cluster tells it.
    """

    server: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The client was closed; nothing comes after this."""


ClientEvent: TypeAlias = Connected | Disconnected | SignedIn | SignedOut | LeaderChanged | Closed
OnEvent: TypeAlias = Callable[[ClientEvent], None]


class EventStream:
    """What happens from now on, in its order; ends after `Closed`.

        async for event in client.events():
            print(event)

    Attributes:
        dropped: How many events were dropped, the oldest ones each time, because there were more
            than the capacity that nobody had taken.
    """

    def __init__(self, capacity: int) -> None:
        self.dropped = 0
        self._events: deque[ClientEvent] = deque(maxlen=capacity)
        self._has_changed = asyncio.Event()
        self._is_over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ClientEvent:
        while not self._events:
            if self._is_over:
                raise StopAsyncIteration
            self._has_changed.clear()
            await self._has_changed.wait()
        return self._events.popleft()

    def put(self, event: ClientEvent) -> None:
        """Append an event; the oldest one goes if there is no room."""
        if len(self._events) == self._events.maxlen:
            self.dropped += 1
        self._events.append(event)
        self._is_over = isinstance(event, Closed)
        self._has_changed.set()


class Events:
    """Hands events out.

    Args:
        on_event: Called with each event, in the event loop; what it raises is logged.
    """

    def __init__(self, on_event: OnEvent | None = None) -> None:
        self._on_event = on_event
        self._streams: WeakSet[EventStream] = WeakSet()
        self._is_closed = False

    def emit(self, event: ClientEvent) -> None:
        """Hand out an event; none comes after `Closed`."""
        if self._is_closed:
            return
        self._is_closed = isinstance(event, Closed)
        for stream in tuple(self._streams):
            stream.put(event)
        if self._on_event is None:
            return
        try:
            self._on_event(event)
        except Exception:
            logger.exception("on_event raised for %s", event)

    def stream(self, capacity: int) -> EventStream:
        """All events from now on."""
        stream = EventStream(capacity)
        if self._is_closed:
            stream.put(Closed())
        self._streams.add(stream)
        return stream
