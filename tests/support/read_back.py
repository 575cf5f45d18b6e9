"""What a server still has after it was killed."""

from typing import Any
from uuid import uuid4

from support.kill_ledger import Stored, digest_of
from support.wire_client import VERSION, WireClient
from windsprite_protocol.batches import check_stored, iter_batches
from windsprite_protocol.model.identifiers import Consumer, ConsumerKind, PollingStrategy
from windsprite_protocol.model.messages import PolledMessages, PollMessages
from windsprite_protocol.model.sessions import LoginWithToken

_EVERYTHING = 1 << 31


async def log_in(client: WireClient, token: str) -> None:
    """Log in under a new client id; takes less time than with a password."""
    client.client = uuid4().bytes
    client.session = (await client.call(LoginWithToken(VERSION, token))).session


async def poll(
    client: WireClient, stream: str, topic: str, partition: int, start: int
) -> PolledMessages:
    """As much as goes into one reply, as somebody who consumes nothing."""
    everybody_else = Consumer(ConsumerKind.SINGLE, "checker")
    strategy = PollingStrategy.offset(start)
    found: PolledMessages = await client.call(
        PollMessages(everybody_else, stream, topic, partition, strategy, _EVERYTHING, False)
    )
    return found


async def stored_batches(
    client: WireClient, stream: str, topic: str, partition: int
) -> list[Stored]:
    """All batches of a partition; their checksums are verified."""
    batches: list[Stored] = []
    start = 0
    while True:
        found = await poll(client, stream, topic, partition, start)
        if not found.messages_count:
            assert start in {0, found.current_offset + 1}, "reading stops before the end"
            return batches
        for header, batch in iter_batches(b"".join(found.records)):
            check_stored(batch)
            count, base = header.message_count, header.base_offset
            if batches and base > start:
                # Either what stood there is missing, or all before was removed meanwhile.
                oldest = await poll(client, stream, topic, partition, 0)
                assert next(iter_batches(oldest.records[0]))[0].base_offset >= base
                batches.clear()
            batches.append(Stored(base, count, len(batch), digest_of(batch)))
            start = base + count


def is_unexpected(event: dict[str, Any]) -> bool:
    """Whether a killed server has no reason to log this."""
    if event["event"] == "partition recovered":
        return bool(event["damages"] or event["lowered_offsets"] or event["lost_offsets"])
    is_about_root = event["event"].startswith("the root user is iggy")
    return event["level"] not in ("debug", "info") and not is_about_root
