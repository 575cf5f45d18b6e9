"""What is sent: messages that all differ from batch to batch, and a running hash that proves it."""

import random
from collections.abc import Iterable
from dataclasses import dataclass

from xxhash import xxh3_128


@dataclass(frozen=True, slots=True)
class Workload:
    """Messages of one size, in batches of one length, over some connections.

    Each connection has a log of its own: a partition of a topic, a JetStream stream, a Redis
    stream.

    Attributes:
        batches: Batches of each connection.
        batch: Messages of a batch.
        size: Bytes of a payload, at least 16.
        connections: How many.
        distinct: After so many batches the same come again, so that a load generator can hold what
            is more than its memory; 0: all differ.
    """

    batches: int
    batch: int
    size: int
    connections: int = 1
    distinct: int = 0

    @property
    def messages(self) -> int:
        """Messages of all connections."""
        return self.batches * self.batch * self.connections

    @property
    def payload_bytes(self) -> int:
        """Bytes of all payloads."""
        return self.messages * self.size

    @property
    def stored_bytes(self) -> int:
        """Bytes of all batches as Windsprite carries and stores them."""
        return self.batches * self.connections * self.batch_bytes

    @property
    def batch_bytes(self) -> int:
        """Bytes of one batch as Windsprite carries and stores it (spec 04, 2)."""
        return 256 + self.batch * (48 + self.size)

    def payloads(self, connection: int) -> list[list[bytes]]:
        """The payloads of a connection, batch by batch; the first of each batch is unique.

        Batches that come again are the same lists.
        """
        source = random.Random(connection)
        common = [source.randbytes(self.size) for _ in range(self.batch)]
        rest = common[0][16:]
        place = connection.to_bytes(8, "big")
        distinct = [
            [place + number.to_bytes(8, "big") + rest, *common[1:]]
            for number in range(self.distinct or self.batches)
        ]
        return [distinct[number % len(distinct)] for number in range(self.batches)]

    def check(self, connection: int, received: Iterable[bytes | memoryview]) -> None:
        """Prove that these are all messages of a connection, in order and unchanged.

        Raises:
            ValueError: They are not.
        """
        found, expected = xxh3_128(), xxh3_128()
        count = 0
        for payload in received:
            if len(payload) != self.size:
                message = f"message {count} of {connection} has {len(payload)} bytes"
                raise ValueError(message)
            found.update(payload)
            count += 1
        for batch in self.payloads(connection):
            for payload in batch:
                expected.update(payload)
        if count != self.batches * self.batch or found.digest() != expected.digest():
            message = f"connection {connection}: {count} messages came back, and not those sent"
            raise ValueError(message)
