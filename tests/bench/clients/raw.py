"""Requests encoded beforehand, replies that are only counted: what the server can do."""

import asyncio
import struct
from collections.abc import Callable

from bench.clients import Consume, Produce
from bench.clients.link import Link, connected
from bench.clients.sdk import TOPIC, SdkClient
from bench.clients.session import Session, log_in
from bench.workload import Workload
from windsprite_protocol.batches import NewMessage, build_batch
from windsprite_protocol.model.identifiers import (
    Consumer,
    ConsumerKind,
    PollingStrategy,
    ToPartition,
)
from windsprite_protocol.model.messages import Buffer, PollMessages, SendMessages
from windsprite_protocol.v0_11.calling import encode_request
from windsprite_protocol.v0_11.frames import HEADER_SIZE, unpack_reply
from windsprite_protocol.v0_11.table import GENERATION

_COUNT = struct.Struct("<I")
_COUNT_OFFSET = HEADER_SIZE + 12
_NOBODY = Consumer(ConsumerKind.SINGLE, 0)
_TIMESTAMP = 1_700_000_000_000_000


def stored_batch(payloads: list[bytes]) -> bytearray:
    """A batch as it travels and as it is stored."""
    messages = [
        NewMessage(payload, (index + 1).to_bytes(16, "little"), _TIMESTAMP)
        for index, payload in enumerate(payloads)
    ]
    return build_batch(messages)


def stored_batches(batches: list[list[bytes]]) -> list[bytearray]:
    """Batches as they are stored; one list of payloads that comes again is encoded once."""
    known: dict[int, bytearray] = {}
    return [known.get(id(one)) or known.setdefault(id(one), stored_batch(one)) for one in batches]


def send_request(
    place: str,
    partition: int,
    payloads: list[bytes],
    number: int,
    session: Session,
    batch: Buffer | None = None,
) -> list[Buffer]:
    """The frame that sends a batch of these payloads, which may be encoded already."""
    batch = stored_batch(payloads) if batch is None else batch
    request = SendMessages(place, TOPIC, ToPartition(partition), len(payloads), batch)
    return encode_request(
        GENERATION.of(SendMessages),
        request,
        client=session.client,
        session=session.number,
        request=number,
        checksum=False,
    )


def poll_request(
    place: str, partition: int, offset: int, count: int, session: Session
) -> list[Buffer]:
    """The frame that polls messages from an offset on."""
    request = PollMessages(
        _NOBODY,
        place,
        TOPIC,
        partition,
        PollingStrategy.offset(offset),
        count,
        auto_commit=False,
    )
    return encode_request(
        GENERATION.of(PollMessages),
        request,
        client=session.client,
        session=session.number,
        request=1,
        checksum=False,
    )


class RawClient:
    """Windsprite through bare frames."""

    def __init__(self) -> None:
        self._sdk = SdkClient()
        self._links: list[Link] = []
        self._sessions: list[Session] = []
        self._counted = 0

    async def open(self, address: str, connections: int) -> None:
        await self._sdk.open(address, 1)
        for _ in range(connections):
            session = await asyncio.to_thread(log_in, address)
            session.sock.setblocking(False)
            self._sessions.append(session)
            self._links.append(await connected(session.sock, self._check))

    async def create(self, place: str, logs: int, *, fsync: bool) -> None:
        await self._sdk.create(place, logs, fsync=fsync)

    async def delete(self, place: str) -> None:
        await self._sdk.delete(place)

    def producing(
        self,
        place: str,
        connection: int,
        batches: list[list[bytes]],
        depth: int,
        *,
        logs: int = 0,
    ) -> Produce:
        requests = [
            send_request(
                place,
                number % logs if logs else connection,
                batches[number - 1],
                number,
                self._sessions[connection],
                batch,
            )
            for number, batch in enumerate(stored_batches(batches), start=1)
        ]

        async def produce() -> None:
            await self._links[connection].exchange(requests, depth)

        return produce

    def consuming(self, place: str, connection: int, workload: Workload, depth: int) -> Consume:
        requests = [
            poll_request(
                place,
                connection,
                number * workload.batch,
                workload.batch,
                self._sessions[connection],
            )
            for number in range(workload.batches)
        ]

        async def consume() -> None:
            self._counted = 0
            await self._links[connection].exchange(requests, depth)
            if len(self._links) == 1 and self._counted != workload.messages:
                message = f"{self._counted} messages came, {workload.messages} were there"
                raise ValueError(message)

        return consume

    async def publish(self, place: str, payloads: list[bytes]) -> None:
        await self._sdk.publish(place, payloads)

    async def follow(self, place: str, receive: Callable[[bytes], None]) -> None:
        await self._sdk.follow(place, receive)

    async def close(self) -> None:
        for link in self._links:
            link.close()
        await self._sdk.close()

    def _check(self, head: bytes) -> None:
        header = unpack_reply(head)
        if header.status:
            message = f"the server refused a request: {header.status}"
            raise ValueError(message)
        if header.operation == GENERATION.of(PollMessages).operation:
            self._counted += _COUNT.unpack_from(head, _COUNT_OFFSET)[0]
