"""Windsprite through the official Python client of Apache Iggy, which is Rust inside."""

from collections.abc import Callable

import apache_iggy
from apache_iggy import Consumer, PollingStrategy, SendMessage

from bench.clients import Consume, Produce
from bench.clients.sdk import TOPIC
from bench.workload import Workload


class IggyClient:
    """One `IggyClient` for each connection; each has one request in flight.

    Args:
        is_prepared: Whether messages are made of payloads before they are timed; a program has no
            such time.
    """

    def __init__(self, *, is_prepared: bool = True) -> None:
        self.is_prepared = is_prepared
        self._clients: list[apache_iggy.IggyClient] = []

    async def open(self, address: str, connections: int) -> None:
        for _ in range(connections):
            client = apache_iggy.IggyClient(address)
            await client.connect()
            await client.login_user("iggy", "iggy")
            self._clients.append(client)

    async def create(self, place: str, logs: int, *, fsync: bool) -> None:
        durability = apache_iggy.Durability
        await self._clients[0].create_stream(place)
        await self._clients[0].create_topic(
            place,
            TOPIC,
            partitions_count=logs,
            durability=durability.PERSISTED if fsync else durability.REPLICATED,
        )

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
        client = self._clients[connection]
        prepared = list(map(_messages, batches)) if self.is_prepared else []

        async def produce() -> None:
            for batch in prepared or map(_messages, batches):
                await client.send_messages(place, TOPIC, connection, batch)

        return produce

    def consuming(self, place: str, connection: int, workload: Workload, depth: int) -> Consume:
        end = workload.batches * workload.batch

        async def consume() -> list[bytes]:
            payloads: list[bytes] = []
            while len(payloads) < end:
                batch = await self._poll(
                    connection, place, connection, len(payloads), workload.batch
                )
                if not batch:
                    break
                payloads += batch
            return payloads

        return consume

    async def publish(self, place: str, payloads: list[bytes]) -> None:
        messages = [SendMessage(payload) for payload in payloads]
        await self._clients[0].send_messages(place, TOPIC, 0, messages)

    async def follow(self, place: str, receive: Callable[[bytes], None]) -> None:
        offset = 0
        while True:
            payloads = await self._poll(1, place, 0, offset, 1000)
            for payload in payloads:
                receive(payload)
            offset += len(payloads)

    async def close(self) -> None:
        self._clients.clear()

    async def _poll(
        self, connection: int, place: str, partition: int, offset: int, count: int
    ) -> list[bytes]:
        polled = await self._clients[connection].poll_messages(
            place,
            TOPIC,
            consumer=Consumer.Single(1),
            polling_strategy=PollingStrategy.Offset(offset),
            count=count,
            auto_commit=False,
            partition_id=partition,
        )
        return [message.payload() for message in polled]


def _messages(payloads: list[bytes]) -> list[SendMessage]:
    return [SendMessage(payload) for payload in payloads]
