"""Windsprite through the producer and the consumer of its SDK, at their default settings."""

from bench.clients import Consume, Produce
from bench.clients.sdk import TOPIC, SdkClient
from bench.workload import Workload


class SdkStreams(SdkClient):
    """A producer that is handed a batch at a time, and a consumer that is a group of its own."""

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
            async with client.producer(place, TOPIC) as producer:
                for batch in batches:
                    await producer.send_many(batch)
                await producer.flush()

        return produce

    def consuming(self, place: str, connection: int, workload: Workload, depth: int) -> Consume:
        client = self._clients[connection]
        end = workload.batches * workload.batch

        async def consume() -> list[bytes]:
            payloads: list[bytes] = []
            async with client.consumer(place, TOPIC, group=place) as consumer:
                async for message in consumer:
                    payloads.append(message.payload)
                    if len(payloads) == end:
                        break
            return payloads

        return consume
