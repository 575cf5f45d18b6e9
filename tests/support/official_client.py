"""Short forms for tests that drive the official client."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from apache_iggy import Consumer, IggyClient, PollingStrategy, ReceiveMessage, SendMessage

# What the official client says for each code. It gets nothing but the number from a server, so
# that whatever a sentence names is 0 or empty.
SENTENCES = {
    3: "Invalid command",
    4: "Invalid format",
    5: "Feature is unavailable",
    6: "Invalid identifier",
    8: "Disconnected",
    9: "Cannot establish connection",
    20: "Resource with key:  was not found.",
    30: "Stale client",
    40: "Unauthenticated",
    41: "Unauthorized",
    42: "Invalid credentials",
    43: "Invalid username",
    44: "Invalid password",
    46: "User already exists",
    48: "Cannot delete user with ID: 0",
    49: "Cannot change permissions for user with ID: 0",
    51: "Personal access token:  for user with ID: 0 already exists",
    53: "Invalid personal access token",
    61: "Not connected",
    1009: "Stream with ID: 0 was not found.",
    1012: "Stream with name:  already exists.",
    2010: "Topic with ID: 0 for stream with ID: 0 was not found.",
    2013: "Topic with name:  for stream with ID: 0 already exists.",
    2015: "Too many partitions",
    2019: "Invalid partitions count",
    3007: "Partition with ID: 0 for topic with ID: 0 for stream with ID: 0 was not found.",
    3021: "Consumer offset for consumer with ID: 0 was not found.",
    4009: "Invalid messages count",
    4041: "Unsupported option key: ",
    4042: "Invalid option value for key: ",
    4100: "Invalid offset: 0",
    5000: "Consumer group with ID: 0 for topic with ID: 0 was not found.",
    5003: "Consumer group with name:  for topic with ID: 0 was not found.",
    5004: "Consumer group with name:  for topic with ID: 0 already exists.",
    5006: "Consumer group member with client ID: 0 for group with ID: 0 for topic with ID: 0 "
    "was not found.",
    5009: "Consumer group member with client ID: 0 does not own partition: 0 "
    "at the current generation (rebalance in progress).",
}


@contextmanager
def fails_with(code: int) -> Iterator[None]:
    """The calls inside end in the error of this code, as the official client words it."""
    with pytest.raises(RuntimeError, match=f"^{re.escape(SENTENCES[code])}$"):
        yield


async def logged_in(address: str, username: str = "iggy", password: str = "iggy") -> IggyClient:
    """A new client, logged in as root unless told otherwise."""
    client = IggyClient(address)
    await client.connect()
    await client.login_user(username, password)
    return client


async def number_of(client: IggyClient) -> int:
    """The number that the server gave to the connection of a client that is logged in."""
    me = await client.send_binary_request(20, b"")
    return int.from_bytes(me[:4], "little")


def told(value: Any) -> str:
    """A parameter in the id of a test: what has no text of its own is told by its class."""
    return re.sub(r"<(?:\w+\.)*(\w+) object at \w+>", r"\1", str(value))


def messages(*payloads: str | bytes) -> list[SendMessage]:
    return [SendMessage(payload) for payload in payloads]


async def poll(
    client: IggyClient,
    stream: str | int,
    topic: str | int,
    start: PollingStrategy | None = None,
    count: int = 1000,
    *,
    partition: int | None = 0,
    consumer: str | int = 1,
    commit: bool = False,
) -> list[ReceiveMessage]:
    """Poll as a single consumer, from the first message on unless told otherwise."""
    polled: list[ReceiveMessage] = await client.poll_messages(
        stream,
        topic,
        consumer=Consumer.Single(consumer),
        polling_strategy=PollingStrategy.First() if start is None else start,
        count=count,
        auto_commit=commit,
        partition_id=partition,
    )
    return polled


def offsets(polled: Sequence[ReceiveMessage]) -> list[int]:
    return [message.offset() for message in polled]


def payloads(polled: Sequence[ReceiveMessage]) -> list[bytes]:
    return [message.payload() for message in polled]


def stored_size(*batches: Sequence[int]) -> int:
    """Bytes that batches take, of messages with so many bytes of payload and headers each."""
    return sum(256 + sum(48 + size for size in batch) for batch in batches)


def figures(resource: Any) -> tuple[int, int]:
    """Messages and bytes of a stream, a topic or a partition."""
    return resource.messages_count, resource.size
