"""JetStream through nats-py.

Many publishes are in flight; or they go as atomic batches, where only the last message of a batch
is acknowledged. Messages are read by a push consumer that needs no acknowledgements.
"""

import asyncio
from collections.abc import Callable, Sequence

import nats
from nats.aio.client import Client as Connection
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, StorageType

from bench.clients import Consume, Produce
from bench.workload import Workload

_PENDING = 1 << 30
_PATIENCE = 60
_ATOMIC_MAX = 1000  # messages of one atomic batch


class NatsClient:
    """One connection each; a log is a stream with one subject of the same name."""

    def __init__(self, *, atomic: bool) -> None:
        self._atomic = atomic
        self._connections: list[Connection] = []
        self._streams: list[JetStreamContext] = []

    async def open(self, address: str, connections: int) -> None:
        for _ in range(connections):
            connection = await nats.connect(f"nats://{address}", pending_size=64 * 1024 * 1024)
            self._connections.append(connection)
            self._streams.append(
                connection.jetstream(timeout=_PATIENCE, publish_async_max_pending=_PENDING)
            )

    async def create(self, place: str, logs: int, *, fsync: bool) -> None:
        for log in range(logs):
            subject = f"{place}-{log}"
            await self._streams[0].add_stream(
                name=subject,
                subjects=[subject],
                storage=StorageType.FILE,
                allow_atomic=self._atomic,
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
        subject = f"{place}-{connection}"

        async def produce() -> None:
            in_flight: list[asyncio.Future[object]] = []
            for number, batch in enumerate(batches):
                if self._atomic:
                    in_flight.append(
                        asyncio.ensure_future(
                            self._send_atomically(connection, subject, batch, str(number))
                        )
                    )
                else:
                    in_flight += [
                        await self._streams[connection].publish_async(subject, payload)
                        for payload in batch
                    ]
                if len(in_flight) >= depth * (1 if self._atomic else len(batch)):
                    await asyncio.gather(*in_flight)
                    in_flight.clear()
            await asyncio.gather(*in_flight)

        return produce

    def consuming(self, place: str, connection: int, workload: Workload, depth: int) -> Consume:
        end = workload.batches * workload.batch

        async def consume() -> list[bytes]:
            payloads: list[bytes] = []
            done = asyncio.get_running_loop().create_future()

            async def receive(message: Msg) -> None:
                payloads.append(message.data)
                if len(payloads) == end:
                    done.set_result(None)

            await self._subscribe(connection, f"{place}-{connection}", receive)
            async with asyncio.timeout(_PATIENCE):
                await done
            return payloads

        return consume

    async def publish(self, place: str, payloads: list[bytes]) -> None:
        subject = f"{place}-0"
        acknowledged = [await self._streams[0].publish_async(subject, one) for one in payloads]
        await asyncio.gather(*acknowledged)

    async def follow(self, place: str, receive: Callable[[bytes], None]) -> None:
        async def take(message: Msg) -> None:
            receive(message.data)

        await self._subscribe(1, f"{place}-0", take)
        await asyncio.get_running_loop().create_future()

    async def close(self) -> None:
        for connection in self._connections:
            await connection.close()

    async def _subscribe(self, connection: int, subject: str, receive: object) -> None:
        await self._streams[connection].subscribe(
            subject,
            cb=receive,
            config=ConsumerConfig(ack_policy=AckPolicy.NONE),
            pending_msgs_limit=_PENDING,
            pending_bytes_limit=_PENDING,
        )

    async def _send_atomically(
        self, connection: int, subject: str, batch: Sequence[bytes], batch_id: str
    ) -> None:
        nats_connection = self._connections[connection]
        head = {"Nats-Batch-Id": f"{subject}-{batch_id}"}
        for start in range(len(batch) - 1):
            await nats_connection.publish(
                subject, batch[start], headers=head | {"Nats-Batch-Sequence": str(start + 1)}
            )
        end = head | {"Nats-Batch-Sequence": str(len(batch)), "Nats-Batch-Commit": "1"}
        await self._streams[connection].publish(subject, batch[-1], headers=end)
