"""Producers whose event loop ends: it cancels all tasks, and nothing goes on after that."""

import asyncio

import pytest

import windsprite
from support.producer_setting import SILENCE, errors_of, setting
from support.virtual_time import in_virtual_time


async def cancel(tasks: set[asyncio.Task[None]]) -> None:
    """As `asyncio.run` does at its end."""
    for task in tasks:
        task.cancel()
    done, pending = await asyncio.wait(tasks, timeout=1.0)
    assert pending == set()
    assert all(task.cancelled() for task in done)


@pytest.mark.parametrize("max_in_flight", [1, 3])
@in_virtual_time
async def test_a_producer_that_was_not_closed_does_not_hold_up_the_end(max_in_flight: int) -> None:
    async with setting(4) as s:
        s.script(SILENCE)
        producer = s.producer(batch_messages=1, linger=0.0, max_in_flight=max_in_flight)
        await producer.start()
        before = asyncio.all_tasks()
        deliveries = [await producer.send(b"%d" % number, partition=number) for number in range(4)]
        await asyncio.sleep(0.1)
        sending = asyncio.all_tasks() - before
        assert len(sending) == max_in_flight
        await cancel(sending)
        assert await errors_of(*deliveries) == [
            *[windsprite.OutcomeUnknown] * max_in_flight,
            *[windsprite.ProducerClosed] * (4 - max_in_flight),
        ]
        assert (producer.buffered_messages, producer.buffered_bytes) == (0, 0)
        assert asyncio.all_tasks() <= before
        with pytest.raises(windsprite.ProducerClosed):
            await producer.send(b"later")
        await producer.aclose()


@in_virtual_time
async def test_whoever_waits_for_room_is_sent_away_when_the_loop_ends() -> None:
    async with setting() as s:
        s.script(SILENCE)
        producer = s.producer(batch_messages=1, buffer_bytes=1000)
        await producer.start()
        before = asyncio.all_tasks()
        deliveries = [await producer.send(b"0"), await producer.send(b"1")]
        await asyncio.sleep(0.1)
        sending = asyncio.all_tasks() - before
        waiting = asyncio.create_task(producer.send(b"2"))
        await asyncio.sleep(0.1)
        await cancel(sending)
        with pytest.raises(windsprite.ProducerClosed):
            await waiting
        assert all(delivery.done() for delivery in deliveries)
