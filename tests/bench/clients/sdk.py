"""Windsprite through its own SDK, as a program uses it."""

from collections.abc import Callable

import windsprite
from bench.clients import Consume, Produce
from bench.workload import Workload

TOPIC = "log"


class SdkClient:
    """One `windsprite.Client` for each connection."""

    def __init__(self) -> None:
        self._clients: list[windsprite.Client] = []

    async def open(self, address: str, connections: int) -> None:
        for _ in range(connections):
            self._clients.append(await windsprite.connect(f"iggy://iggy:iggy@{address}"))

    async def create(self, place: str, logs: int, *, fsync: bool) -> None:
        durability = "persisted" if fsync else "replicated"
        await self._clients[0].create_stream(place)
        await self._clients[0].create_topic(place, TOPIC, partitions=logs, durability=durability)

    async def delete(self, place: str) -> None:
        await self._clients[0].delete_stream(place)

    def producing(
        self,
        place: str,
        connection: int,
        batches: list[list[bytes]],
        depth: int,
        *,
        logs: int = 0,
    ) -> Produce:
        client = self._clients[connection]

        async def produce() -> None:
            for batch in batches:
                await client.send(place, TOPIC, batch, partition=connection)

        return produce

    def consuming(self, place: str, connection: int, workload: Workload, depth: int) -> Consume:
        client = self._clients[connection]
        end = workload.batches * workload.batch

        async def consume() -> list[bytes]:
            payloads: list[bytes] = []
            while len(payloads) < end:
                start = windsprite.From.offset(len(payloads))
                batch = await client.poll(
                    place, TOPIC, partition=connection, start=start, count=workload.batch
                )
                if not batch:
                    break
                payloads += batch.payloads
            return payloads

        return consume

    async def publish(self, place: str, payloads: list[bytes]) -> None:
        await self._clients[0].send(place, TOPIC, payloads, partition=0)

    async def follow(self, place: str, receive: Callable[[bytes], None]) -> None:
        offset = 0
        while True:
            start = windsprite.From.offset(offset)
            batch = await self._clients[1].poll(place, TOPIC, partition=0, start=start)
            for message in batch:
                receive(message.payload)
            offset += len(batch)

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
