"""Load generators: one adapter for each client library, all with the same methods.

They run in the process of `bench.load` and nowhere else. What they need besides the server is
imported when they are made, so that a client that is not installed troubles nobody.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from bench.workload import Workload

Produce = Callable[[], Awaitable[None]]
"""Sends everything and waits for all acknowledgements."""

Consume = Callable[[], Awaitable[list[bytes] | None]]
"""Receives everything; returns the payloads, unless the client only counts them."""


class Client(Protocol):
    """What is common to all clients.

    A place is where one workload goes: it has a log for each connection.
    """

    async def open(self, address: str, connections: int) -> None:
        """Connect and log in."""
        ...

    async def create(self, place: str, logs: int, *, fsync: bool) -> None:
        """Make a place."""
        ...

    async def delete(self, place: str) -> None:
        """Take a place away again, with all that is in it."""
        ...

    def producing(
        self,
        place: str,
        connection: int,
        batches: list[list[bytes]],
        depth: int,
        *,
        logs: int = 0,
    ) -> Produce:
        """Prepare as much as the library allows; what is returned is what is timed.

        Args:
            place: Where to.
            connection: On which connection, into its log.
            batches: The payloads.
            depth: Batches to have in flight.
            logs: Spread the batches over so many logs; 0: all go into the connection's own. Only
                the raw client can.
        """
        ...

    def consuming(self, place: str, connection: int, workload: Workload, depth: int) -> Consume:
        """The same for reading a log from its beginning, a batch at a time."""
        ...

    async def publish(self, place: str, payloads: list[bytes]) -> None:
        """Send one batch into log 0, on connection 0, and wait for its acknowledgement."""
        ...

    async def follow(self, place: str, receive: Callable[[bytes], None]) -> None:
        """Hand over each new payload of log 0, on connection 1, until cancelled."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...


def make(name: str) -> Client:
    """The client of this name.

    Raises:
        ImportError: Its library is not installed.
    """
    # Each imports a library that may not be there.
    match name:
        case "raw":
            from bench.clients.raw import RawClient as Adapter
        case "sdk":
            from bench.clients.sdk import SdkClient as Adapter
        case "sdk-streams":
            from bench.clients.sdk_streams import SdkStreams as Adapter
        case "iggy" | "iggy-payloads":
            from bench.clients.iggy import IggyClient

            return IggyClient(is_prepared=name == "iggy")
        case "iggy-streams" | "iggy-background":
            from bench.clients.iggy_streams import IggyStreams

            return IggyStreams(is_background=name == "iggy-background")
        case "nats" | "nats-batch":
            from bench.clients.nats import NatsClient

            return NatsClient(atomic=name == "nats-batch")
        case "redis":
            from bench.clients.redis import RedisClient as Adapter
        case "machine":
            from bench.clients.machine import MachineClient as Adapter
        case _:
            message = f"there is no client {name!r}"
            raise ValueError(message)
    return Adapter()
