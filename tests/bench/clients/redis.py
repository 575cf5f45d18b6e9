"""Redis Streams through redis-py with its C parser: pipelines of XADD, XREAD of many entries.

The blocking client costs less than the asyncio one, so that each connection has a thread.
"""

import asyncio
from collections.abc import Callable
from itertools import chain

import redis

from bench.clients import Consume, Produce
from bench.workload import Workload

_FIELD = b"p"
_BLOCK_MS = 1000


class RedisClient:
    """One connection each; a log is a key."""

    def __init__(self) -> None:
        self._clients: list[redis.Redis] = []

    async def open(self, address: str, connections: int) -> None:
        host, _, port = address.rpartition(":")
        for _ in range(connections):
            self._clients.append(redis.Redis(host, int(port), single_connection_client=True))

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
        # The client has one pipeline in flight, so that small batches go together in one.
        together = depth if len(batches[0]) == 1 else 1
        pipelines = [
            list(chain.from_iterable(batches[start : start + together]))
            for start in range(0, len(batches), together)
        ]

        def produce() -> None:
            for pipeline in pipelines:
                self._send(connection, f"{place}-{connection}", pipeline)

        return lambda: asyncio.to_thread(produce)

    def consuming(self, place: str, connection: int, workload: Workload, depth: int) -> Consume:
        client = self._clients[connection]
        key = f"{place}-{connection}"
        end = workload.batches * workload.batch
        count = depth if workload.batch == 1 else workload.batch

        def consume() -> list[bytes]:
            payloads: list[bytes] = []
            last = b"0"
            while len(payloads) < end:
                found = client.xread({key: last}, count=count)
                if not found:
                    break
                entries = _entries(found)
                payloads += [fields[_FIELD] for _, fields in entries]
                last = entries[-1][0]
            return payloads

        return lambda: asyncio.to_thread(consume)

    async def publish(self, place: str, payloads: list[bytes]) -> None:
        await asyncio.to_thread(self._send, 0, f"{place}-0", payloads)

    async def follow(self, place: str, receive: Callable[[bytes], None]) -> None:
        key = f"{place}-0"
        last = b"0"
        while True:
            found = await asyncio.to_thread(
                self._clients[1].xread, {key: last}, count=1000, block=_BLOCK_MS
            )
            for entry, fields in _entries(found):
                receive(fields[_FIELD])
                last = entry

    async def close(self) -> None:
        for client in self._clients:
            client.close()

    def _send(self, connection: int, key: str, payloads: list[bytes]) -> None:
        pipeline = self._clients[connection].pipeline(transaction=False)
        for payload in payloads:
            pipeline.xadd(key, {_FIELD: payload})
        pipeline.execute()


def _entries(found: object) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """The entries of a reply to XREAD of one key, in either version of the protocol."""
    if not found:
        return []
    rows = next(iter(found.values())) if isinstance(found, dict) else found[0][1]
    return rows[0] if isinstance(rows[0], list) else rows
