"""Windsprite through the producer and the consumer of the official client, at their defaults."""

from apache_iggy import BackgroundProducerConfig, SendMessage

from bench.clients import Consume, Produce
from bench.clients.iggy import IggyClient
from bench.clients.sdk import TOPIC
from bench.workload import Workload


class IggyStreams(IggyClient):
    """A producer that is handed a batch at a time, and a consumer that is a group of its own.

    Messages are made of payloads while it is timed, as a program does.

    Args:
        is_background: Whether the producer sends in the background, which is not its default but
            that of ours.
    """

    def __init__(self, *, is_background: bool) -> None:
        super().__init__(is_prepared=False)
        self._is_background = is_background

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
        mode = BackgroundProducerConfig() if self._is_background else None

        async def produce() -> None:
            producer = await client.producer(place, TOPIC, mode=mode)
            for batch in batches:
                await producer.send([SendMessage(payload) for payload in batch])
            await producer.shutdown()

        return produce

    def consuming(self, place: str, connection: int, workload: Workload, depth: int) -> Consume:
        client = self._clients[connection]
        end = workload.batches * workload.batch

        async def consume() -> list[bytes]:
            payloads: list[bytes] = []
            consumer = await client.consumer_group(place, place, TOPIC)
            async for message in consumer.iter_messages():
                payloads.append(message.payload())
                if len(payloads) == end:
                    break
            return payloads

        return consume
