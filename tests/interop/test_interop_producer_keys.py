"""Windsprite's producer beside the official one: the same keys, the same partitions."""

import pytest
from apache_iggy import DirectProducerConfig, IggyClient, Partitioning, SendMessage

import windsprite
from support.official_client import payloads, poll

PARTITIONS = 7
KEYS: list[str | bytes] = [
    "a",
    "user-42",
    "order-1",
    "confirmation-key",
    "ключ",
    "键" * 85,
    b"\x01\x00\x00\x00",
    b"\x00",
    b"\xff" * 255,
    bytes(range(256))[1:],
    *(f"key {number}" for number in range(60)),
]


@pytest.fixture
async def target(client: IggyClient, stream: str) -> str:
    """A stream with a topic `t` of seven partitions."""
    await client.create_topic(stream, "t", PARTITIONS)
    return stream


async def test_the_same_key_goes_to_the_same_partition(
    client: IggyClient, target: str, address: str
) -> None:
    official = {}
    for key in KEYS:
        producer = await client.producer(
            target, "t", partitioning=Partitioning.messages_key(key), mode=DirectProducerConfig()
        )
        (confirmation,) = (await producer.send([SendMessage("official")])).confirmations
        official[key] = confirmation.partition_id
        await producer.shutdown()
    async with (
        windsprite.connect(f"iggy://iggy:iggy@{address}") as windsprite_client,
        windsprite_client.producer(target, "t") as ours,
    ):
        deliveries = {key: await ours.send(b"ours", key=key) for key in KEYS}
        placed = {key: (await delivery).partition for key, delivery in deliveries.items()}
    assert placed == official
    assert set(placed.values()) == set(range(PARTITIONS))
    for partition in range(PARTITIONS):
        expected = list(official.values()).count(partition)
        polled = payloads(await poll(client, target, "t", partition=partition))
        assert (polled.count(b"official"), polled.count(b"ours")) == (expected, expected)


async def test_an_official_client_reads_what_a_producer_sends(
    client: IggyClient, target: str, address: str
) -> None:
    headers: windsprite.Headers = {"text": "té", "flag": True, 5: -7, "ratio": 0.5, "raw": b"\x00"}
    async with (
        windsprite.connect(f"iggy://iggy:iggy@{address}") as windsprite_client,
        windsprite_client.producer(target, "t", partition=3, headers=headers) as producer,
    ):
        await producer.send_many([b"%d" % number for number in range(2500)])
        await producer.send(windsprite.Message(b"last", id=2**128 - 1))
    polled = await poll(client, target, "t", count=10_000, partition=3)
    assert payloads(polled) == [*(b"%d" % number for number in range(2500)), b"last"]
    assert [message.offset() for message in polled] == list(range(2501))
    assert polled[-1].id() == 2**128 - 1
    assert len({message.id() for message in polled}) == 2501
    received = polled[0].user_headers()
    assert received is not None
    assert received.to_scalar_dict() == headers
