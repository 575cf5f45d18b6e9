"""How programs use consumers; never run, but checked by mypy as a user's program would be."""

import asyncio
from typing import assert_type

import windsprite


async def a_loop(client: windsprite.Client) -> None:
    async for message in client.consumer("orders", "events", group="billing"):
        assert_type(message, windsprite.ReceivedMessage)
        assert_type(message.partition_id, int)


async def messages_by_hand(client: windsprite.Client, encryptor: windsprite.Encryptor) -> None:
    consumer = client.consumer(
        "orders",
        "events",
        name="audit",
        partitions=[0, 2],
        start="new",
        commit=windsprite.Commit.after_handling(every=100, interval=None),
        encryption=encryptor,
    )
    assert_type(consumer, windsprite.TopicConsumer)
    async with consumer as same:
        assert_type(same, windsprite.TopicConsumer)
        message = await same.get()
        same.handled(message)
        await same.commit(message)
        same.seek(0, windsprite.From.first())
        same.seek(2, 17)
        same.pause(0, 2)
        same.resume()
        assert_type(same.assignment, tuple[int, ...])
        assert_type(same.position(0), int | None)


async def handlers(client: windsprite.Client, stop: asyncio.Event) -> None:
    async def handle(message: windsprite.ReceivedMessage) -> int:
        return message.offset

    def put_aside(message: windsprite.ReceivedMessage, error: Exception) -> None:
        print(message, error)

    start: windsprite.Start = windsprite.From.timestamp(0)
    consumer = client.consumer(0, 0, group="billing", start=start)
    await consumer.run(handle, concurrency=2, on_failure=put_aside, stop=stop)
