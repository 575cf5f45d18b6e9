"""The same requests and replies of the same sizes, exchanged with the bare uvloop server."""

import asyncio
import struct
from collections.abc import Callable

from bench.clients import Consume, Produce
from bench.clients.link import HEAD_SIZE, Link, connected
from bench.clients.raw import poll_request, send_request, stored_batches
from bench.clients.session import Session, dial
from bench.workload import Workload
from windsprite_protocol.model.messages import Buffer

CONFIRMATION_SIZE = 256 + 4 + 20
"""Bytes of the answer to a send: header, count, one confirmation."""

_VIEW = struct.Struct("<I")
_VIEW_OFFSET = 52


def asking(parts: list[Buffer], reply_size: int) -> list[Buffer]:
    """A request that makes the bare server answer with so many bytes."""
    head = bytearray(parts[0])
    _VIEW.pack_into(head, _VIEW_OFFSET, reply_size)
    return [head, *parts[1:]]


class MachineClient:
    """The bare server as if it were one of ours."""

    def __init__(self) -> None:
        self._links: list[Link] = []
        self._sessions: list[Session] = []

    async def open(self, address: str, connections: int) -> None:
        for _ in range(connections):
            sock = dial(address)
            sock.setblocking(False)
            self._sessions.append(Session(sock, bytes(range(1, 17)), 1))
            self._links.append(await connected(sock, lambda _: None))

    async def create(self, place: str, logs: int, *, fsync: bool) -> None:
        pass

    async def delete(self, place: str) -> None:
        raise NotImplementedError

    def producing(
        self,
        place: str,
        connection: int,
        batches: list[list[bytes]],
        depth: int,
        *,
        logs: int = 0,
    ) -> Produce:
        session = self._sessions[connection]
        requests = [
            asking(
                send_request(place, connection, batches[number - 1], number, session, batch),
                CONFIRMATION_SIZE,
            )
            for number, batch in enumerate(stored_batches(batches), start=1)
        ]
        return lambda: self._links[connection].exchange(requests, depth)

    def consuming(self, place: str, connection: int, workload: Workload, depth: int) -> Consume:
        size = HEAD_SIZE + workload.batch_bytes
        session = self._sessions[connection]
        requests = [
            asking(poll_request(place, connection, number, workload.batch, session), size)
            for number in range(workload.batches)
        ]

        async def consume() -> None:
            await self._links[connection].exchange(requests, depth)

        return consume

    async def publish(self, place: str, payloads: list[bytes]) -> None:
        raise NotImplementedError

    async def follow(self, place: str, receive: Callable[[bytes], None]) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        for link in self._links:
            link.close()
        await asyncio.sleep(0)
