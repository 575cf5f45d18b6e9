"""Calls with many messages are what as many calls with one message are, only cheaper."""

import asyncio
from typing import Any

import pytest

import windsprite
from support.producer_setting import DENIED, GONE, SILENCE, errors_of, now, setting
from support.virtual_time import in_virtual_time
from windsprite import Delivered
from windsprite.producer.accumulator import MESSAGE_COST


@in_virtual_time
@pytest.mark.parametrize("batch_bytes", [1 << 20, 256 + 48 + 10, 256 + 3 * 48 + 10])
@pytest.mark.parametrize("batch_messages", [1, 3, 1000])
async def test_single_messages_and_many_keep_their_order(
    batch_messages: int, batch_bytes: int
) -> None:
    options: dict[str, Any] = {"batch_messages": batch_messages, "batch_bytes": batch_bytes}
    async with setting() as here:
        async with here.producer(**options) as producer:
            for start in range(0, 40, 8):
                await producer.send(b"%d" % start)
                await producer.send_many([f"{n}" for n in range(start + 1, start + 5)], key="k")
                await producer.send_many([b"%d" % (start + 5), f"{start + 6}"], headers={"h": 1})
                await producer.send_many([windsprite.Message(b"%d" % (start + 7))], partition=0)
        assert here.stored[0] == [b"%d" % n for n in range(40)]
        for payloads in here.asked:
            size = 256 + sum(48 + len(payload) for payload in payloads)
            assert len(payloads) <= batch_messages
            assert len(payloads) == 1 or size <= batch_bytes


@in_virtual_time
async def test_each_message_of_a_call_has_its_delivery() -> None:
    async with setting() as here, here.producer(batch_messages=3) as producer:
        before = await producer.send(b"0")
        deliveries = await producer.send_many([b"%d" % n for n in range(1, 8)])
        assert not deliveries.done()
        await deliveries.wait()
        assert deliveries.done()
        assert [each.result() for each in deliveries] == [Delivered(0, n) for n in range(1, 8)]
        assert await before == Delivered(0, 0)


@in_virtual_time
async def test_failed_messages_of_a_call_can_be_sent_again() -> None:
    failed: list[windsprite.FailedBatch] = []
    async with setting() as here:
        async with here.producer(on_error=failed.append, batch_messages=2) as producer:
            here.script(None, DENIED)
            deliveries = await producer.send_many(["1", b"2", b"3", "4", b"5"], headers={"h": 1})
            await deliveries.wait()
            assert await errors_of(*deliveries) == [windsprite.PermissionDenied] * 2
            (batch,) = failed
            assert [message.payload for message in batch.messages] == [b"3", "4"]
            assert all(message.headers == {"h": 1} for message in batch.messages)
            assert all(message.origin_timestamp for message in batch.messages)
            await producer.send_many(batch.messages)
        assert here.stored[0] == [b"1", b"2", b"5", b"3", b"4"]
        assert here.cluster.stored[-1].ids == [message.id for message in batch.messages]
        assert len({id_ for stored in here.cluster.stored for id_ in stored.ids}) == 5


@in_virtual_time
async def test_what_is_wrong_with_one_message_refuses_all() -> None:
    wrong: list[Any] = ["\ud800", 7, bytes(2000), windsprite.Message(b"x", id=0)]
    async with setting() as here, here.producer(buffer_bytes=MESSAGE_COST * 3) as producer:
        for message in wrong:
            with pytest.raises(windsprite.InvalidRequest):
                await producer.send_many([b"good", message])
            assert (producer.buffered_messages, producer.buffered_bytes) == (0, 0)
        for place in ({"key": "k", "partition": 0}, {"key": ""}, {"partition": -1}):
            with pytest.raises(windsprite.InvalidRequest):
                await producer.send_many([b"good"], **place)
        assert here.asked == []


@in_virtual_time
async def test_a_partitioner_sees_each_message_of_a_call() -> None:
    def by_payload(message: windsprite.Message, key: bytes | None, partitions: int) -> int | None:
        return int(message.payload) % partitions if key is None else None

    async with setting(2) as here:
        async with here.producer(partitioner=by_payload) as producer:
            await producer.send_many([b"0", b"1", b"2", b"3"])
            await producer.send_many([b"4", b"6"], partition=1)
        assert here.stored == {0: [b"0", b"2"], 1: [b"1", b"3", b"4", b"6"]}


@in_virtual_time
async def test_room_is_what_the_messages_of_a_call_take() -> None:
    async with setting() as here:
        producer = here.producer(buffer_bytes=10 * (MESSAGE_COST + 5), when_full=5.0)
        async with producer:
            here.script(SILENCE)
            await producer.send_many([bytes(4)] * 9, headers=None)
            assert producer.buffered_bytes == 9 * (MESSAGE_COST + 4)
            began = now()
            with pytest.raises(windsprite.BufferFull):
                await producer.send_many([b"12345"] * 2)
            assert now() == began + 5.0
            assert producer.buffered_messages == 9
            await producer.aclose(timeout=1)
        assert (producer.buffered_messages, producer.buffered_bytes) == (0, 0)


@in_virtual_time
async def test_the_next_batches_go_on_when_one_fails() -> None:
    async with setting() as here, here.producer(batch_messages=2, max_in_flight=1) as producer:
        here.script(GONE, None, GONE)
        deliveries = await producer.send_many([b"%d" % n for n in range(8)])
        results = await asyncio.gather(*deliveries, return_exceptions=True)
        failed = [index for index, each in enumerate(results) if isinstance(each, Exception)]
        assert failed == [0, 1, 4, 5]
        assert here.stored[0] == [b"2", b"3", b"6", b"7"]
