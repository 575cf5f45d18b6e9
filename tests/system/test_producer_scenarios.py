"""What a producer does when servers do what they should not, or nothing; in virtual time.

Servers are scripted and sockets are real; every wait happens, but nobody sits through it.
"""

import asyncio
import logging
import random
from collections import Counter
from typing import Any

import pytest

import windsprite
from support.producer_setting import (
    DENIED,
    GONE,
    NOT_ACCEPTED,
    NOT_COMMITTED,
    SILENCE,
    errors_of,
    has_partitions,
    now,
    setting,
)
from support.scripted_server import Cut, Delay
from support.virtual_time import in_virtual_time
from windsprite import Delivered
from windsprite.producer.accumulator import MESSAGE_COST
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.identifiers import Balanced, ByKey, ToPartition
from windsprite_protocol.model.messages import Confirmations, SendMessages
from windsprite_protocol.model.outcomes import Refused, Success
from windsprite_protocol.model.topics import (
    CreateTopic,
    GetTopic,
)

# --- Batches ---------------------------------------------------------------------------------


@in_virtual_time
async def test_messages_wait_for_others() -> None:
    async with setting() as here, here.producer(linger=2.0, batch_messages=3) as producer:
        began = now()
        one = await producer.send(b"1")
        await asyncio.sleep(1.5)
        two = await producer.send("2")
        assert await two == Delivered(0, 1)
        assert now() == began + 2.0
        assert await one == Delivered(0, 0)
        full = await producer.send_many([b"3", b"4", b"5", b"6"])
        assert await full[2] == Delivered(0, 4)
        assert now() == began + 2.0
        assert not full[3].done()
        assert await full[3] == Delivered(0, 5)
        assert now() == began + 4.0
        assert here.asked == [[b"1", b"2"], [b"3", b"4", b"5"], [b"6"]]


@in_virtual_time
async def test_batches_have_so_many_bytes() -> None:
    async with setting() as here:
        async with here.producer(linger=0, batch_bytes=256 + 2 * 148) as producer:
            await producer.send_many([bytes([n]) * 100 for n in range(5)])
            await producer.send(bytes(1000))
        assert [len(batch) for batch in here.asked] == [2, 2, 1, 1]


@in_virtual_time
async def test_messages_that_lie_too_far_apart_in_time_go_apart() -> None:
    async with setting() as here:
        async with here.producer(linger=0) as producer:
            messages = [
                windsprite.Message(b"old", origin_timestamp=0),
                windsprite.Message(b"new"),
                windsprite.Message(b"old too", origin_timestamp=1),
            ]
            placed = [await delivery for delivery in await producer.send_many(messages)]
        assert placed == [Delivered(0, 0), Delivered(0, 1), Delivered(0, 2)]
        assert len(here.asked) == 3


@in_virtual_time
async def test_a_caller_that_never_waits_lets_batches_go() -> None:
    async with setting() as here, here.producer(batch_messages=10, linger=60) as producer:
        for number in range(1000):
            await producer.send(f"{number}")
            if here.asked:
                break
        assert here.asked


@in_virtual_time
async def test_while_one_batch_is_on_its_way_the_next_one_fills_up() -> None:
    async with setting() as here, here.producer(linger=1, max_in_flight=1) as producer:
        here.script(Delay(10))
        first = await producer.send(b"0", partition=0)
        await asyncio.sleep(2)
        for number in range(1, 8):
            await producer.send(f"{number}", partition=0)
            await producer.send(f"{number}", partition=1)
            await asyncio.sleep(0.5)
        assert not first.done()
        await producer.flush()
        assert [len(batch) for batch in here.asked] == [1, 7, 7]


# --- Deliveries ------------------------------------------------------------------------------


@in_virtual_time
async def test_an_answer_that_does_not_say_where() -> None:
    async with setting() as here, here.producer(partition=0) as producer:
        here.script(NOT_COMMITTED, Success(Confirmations(())))
        assert await producer.send_and_wait(b"x") == Delivered(0, None)
        assert await producer.send_and_wait(b"y") == Delivered(0, 0)


@in_virtual_time
async def test_errors_are_those_of_the_messages_they_belong_to() -> None:
    failed: list[windsprite.FailedBatch] = []
    async with setting(2) as here:
        async with here.producer(on_error=failed.append, headers={"h": 1}) as producer:
            here.node.always(
                SendMessages, lambda send: GONE if send.partitioning == ToPartition(1) else None
            )
            good = await producer.send(b"good", partition=0)
            bad = await producer.send("bad", partition=1, headers={"k": 2})
            worse = await producer.send(windsprite.Message(b"worse", id=7), partition=1)
            assert await good == Delivered(0, 0)
            assert await errors_of(bad, worse) == [windsprite.NotFound] * 2
            assert await producer.send_and_wait(b"good too", partition=0) == Delivered(0, 1)
            (batch,) = failed
            assert (batch.stream, batch.topic, batch.partition) == ("s", "t", 1)
            assert isinstance(batch.error, windsprite.NotFound)
            assert [message.payload for message in batch.messages] == ["bad", b"worse"]
            assert [message.headers for message in batch.messages] == [{"k": 2}, None]
            assert batch.messages[1].id == 7
            here.node.always(SendMessages, None)
            again = await producer.send_many(batch.messages, partition=batch.partition)
            assert [await delivery for delivery in again] == [Delivered(1, 0), Delivered(1, 1)]
        assert here.cluster.stored[-1].ids == [message.id for message in batch.messages]


@in_virtual_time
async def test_failures_that_nobody_asks_about_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "windsprite")
    async with setting() as here, here.producer(partition=0) as producer:
        here.script(GONE, GONE)
        await producer.send(b"1")
        await producer.send(b"2")
        await producer.flush()
        with pytest.raises(windsprite.NotFound):
            await producer.send_and_wait(b"3")
    (record,) = caplog.records
    assert record.getMessage().startswith("2 messages to 't' in 's' were not delivered")


@in_virtual_time
async def test_whoever_has_a_callback_needs_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "windsprite")
    failed: list[windsprite.FailedBatch] = []

    def told(batch: windsprite.FailedBatch) -> None:
        failed.append(batch)
        if len(failed) == 2:
            raise RuntimeError("a bug of the program")

    async with setting() as here, here.producer(partition=0, on_error=told) as producer:
        here.script(GONE, GONE, GONE)
        for number in range(3):
            await producer.send(f"{number}")
            await producer.flush()
        assert await producer.send_and_wait(b"good") == Delivered(0, 0)
    assert len(failed) == 3
    (record,) = caplog.records
    assert record.exc_info is not None
    assert "a bug of the program" in str(record.exc_info[1])


# --- Repeats ---------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [Cut(), Cut(after=100), Cut(reset=True), Cut(executed=True)])
@in_virtual_time
async def test_safe_producers_never_store_twice(cut: Cut) -> None:
    async with setting() as here, here.producer(partition=0, linger=0) as producer:
        here.script(cut)
        with pytest.raises(windsprite.OutcomeUnknown):
            await producer.send_and_wait(b"doubtful")
        was_stored = len(here.cluster.payloads)
        assert was_stored == (cut.executed or cut.after > 0)
        assert await producer.send_and_wait(b"next") == Delivered(0, was_stored)


@pytest.mark.parametrize("by", ["producer", "client"])
@in_virtual_time
async def test_at_least_once_stores_in_order_and_perhaps_twice(by: str) -> None:
    client_options = {"send_retry": "at-least-once"} if by == "client" else {}
    options = {"retry": "at-least-once"} if by == "producer" else {}
    async with setting(**client_options) as here:
        async with here.producer(partition=0, batch_messages=2, **options) as producer:
            here.script(None, Cut(executed=True), Cut(), Cut(after=10), NOT_COMMITTED)
            deliveries = await producer.send_many([f"{number}" for number in range(6)])
            placed = [await delivery for delivery in deliveries]
        expected = [b"0", b"1", b"2", b"3", b"2", b"3", b"2", b"3", b"4", b"5"]
        assert here.cluster.payloads == expected
        assert [placed[number] for number in (0, 2, 4)] == [
            Delivered(0, 0),
            Delivered(0, 6),
            Delivered(0, 8),
        ]
        first, second, third = (here.cluster.stored[index].ids for index in (1, 2, 3))
        assert first == second == third


@in_virtual_time
async def test_a_server_that_falls_silent() -> None:
    async with setting(request_timeout=5) as here:
        async with here.producer(partition=0, linger=0) as producer:
            here.script(SILENCE)
            began = now()
            with pytest.raises(windsprite.OutcomeUnknown):
                await producer.send_and_wait(b"lost")
            assert now() - began == pytest.approx(5, abs=0.1)
            assert await producer.send_and_wait(b"next") == Delivered(0, 0)
        async with here.producer(partition=0, retry="at-least-once") as patient:
            here.script(SILENCE, SILENCE)
            assert await patient.send_and_wait(b"last") == Delivered(0, 1)


@pytest.mark.parametrize("retry", ["safe", "at-least-once"])
@in_virtual_time
async def test_a_server_that_does_not_come_back(retry: Any) -> None:
    async with setting() as here:
        producer = here.producer(partition=0, delivery_timeout=20, retry=retry, batch_messages=2)
        async with producer:
            await producer.send_and_wait(b"0")
            await here.node.stop()
            began = now()
            early = await producer.send_many([b"1", b"2", b"3", b"4"])
            await asyncio.sleep(10)
            late = await producer.send(b"5")
            errors = await errors_of(*early)
            assert now() - began == pytest.approx(20, abs=1)
            assert all(issubclass(error, windsprite.Unavailable) for error in errors)
            assert len(errors) == 4
            await here.node.start()
            assert await late == Delivered(0, 1)


@in_virtual_time
async def test_what_is_in_doubt_stays_in_doubt() -> None:
    failed: list[windsprite.FailedBatch] = []
    async with setting(reconnection_retries=0) as here:
        options: dict[str, Any] = {"retry": "at-least-once", "delivery_timeout": 20}
        async with here.producer(partition=0, on_error=failed.append, **options) as producer:
            here.script(Cut(executed=True), Refused(ErrorCode.UNAUTHORIZED))
            await producer.send(b"stored, then refused")
            await producer.flush()
            here.script(Cut(executed=True))
            delivery = await producer.send(b"stored, then nobody is there")
            while len(here.cluster.stored) < 2:
                await asyncio.sleep(0.001)
            await here.node.stop()
            with pytest.raises(windsprite.OutcomeUnknown):
                await delivery
            await here.node.start()
    assert [type(batch.error) for batch in failed] == [windsprite.OutcomeUnknown] * 2


@in_virtual_time
async def test_what_a_client_gives_up_is_tried_again_while_it_is_safe() -> None:
    async with (
        setting(reconnection_retries=0) as here,
        here.producer(partition=0, delivery_timeout=60) as producer,
    ):
        await producer.send_and_wait(b"0")
        await here.node.stop()
        delivery = await producer.send(b"1")
        await asyncio.sleep(15)
        assert not delivery.done()
        await here.node.start()
        assert await delivery == Delivered(0, 1)


# --- Room ------------------------------------------------------------------------------------

ONE = MESSAGE_COST + 1
"""The room that a message of one byte takes."""


@in_virtual_time
async def test_full_and_blocking() -> None:
    async with setting() as here:
        options: dict[str, Any] = {"partition": 0, "linger": 60, "buffer_bytes": 3 * ONE}
        async with here.producer(**options) as producer:
            here.script(Delay(5))
            began = now()
            for number in range(3):
                await producer.send(f"{number}")
            assert (producer.buffered_messages, producer.buffered_bytes) == (3, 3 * ONE)
            # Nothing lingers any more as soon as somebody needs the room.
            await producer.send(b"3")
            assert now() == began + 5
            assert producer.buffered_messages == 1
        assert here.asked == [[b"0", b"1", b"2"], [b"3"]]


@in_virtual_time
async def test_full_and_failing() -> None:
    async with setting() as here:
        options: dict[str, Any] = {"linger": 60, "buffer_bytes": 2 * ONE, "when_full": "fail"}
        async with here.producer(**options) as producer:
            await producer.send(b"1")
            with pytest.raises(windsprite.BufferFull) as caught:
                await producer.send_many([b"2", b"3"])
            assert caught.value.code is ErrorCode.BACKGROUND_SEND_BUFFER_OVERFLOW
            await producer.send(b"2")
            with pytest.raises(windsprite.BufferFull):
                await producer.send(b"3")
        assert here.asked == [[b"1", b"2"]]


@in_virtual_time
async def test_full_for_too_long() -> None:
    async with setting() as here:
        options: dict[str, Any] = {"buffer_bytes": ONE, "when_full": 2.0, "partition": 0}
        async with here.producer(**options) as producer:
            here.script(Delay(1), Delay(3))
            began = now()
            await producer.send(b"1")
            await producer.send(b"2")
            assert now() == pytest.approx(began + 1, abs=0.1)
            with pytest.raises(windsprite.BufferFull) as caught:
                await producer.send(b"3")
            assert caught.value.code is ErrorCode.BACKGROUND_SEND_TIMEOUT
            assert now() == pytest.approx(began + 3, abs=0.1)
            await producer.send(b"4")
        assert here.cluster.payloads == [b"1", b"2", b"4"]


@pytest.mark.parametrize("when_full", ["block", "fail", 1.0])
@in_virtual_time
async def test_what_can_never_fit(when_full: Any) -> None:
    async with (
        setting() as here,
        here.producer(buffer_bytes=1000, when_full=when_full) as producer,
    ):
        for attempt in (producer.send(bytes(1000)), producer.send_many([b"x"] * 3)):
            with pytest.raises(windsprite.InvalidRequest, match="more buffer_bytes") as caught:
                await attempt
            assert caught.value.code is ErrorCode.BACKGROUND_SEND_BUFFER_OVERFLOW
        assert producer.buffered_bytes == 0
        await producer.send(bytes(1000 - MESSAGE_COST))


@in_virtual_time
async def test_a_cancelled_send_leaves_no_trace() -> None:
    async with setting() as here:
        async with here.producer(buffer_bytes=ONE, partition=0) as producer:
            here.script(Delay(5))
            await producer.send(b"1")
            blocked = [asyncio.create_task(producer.send(f"{number}")) for number in (2, 3)]
            await asyncio.sleep(1)
            blocked[0].cancel()
            await asyncio.wait(blocked)
            assert blocked[0].cancelled()
            assert await (await blocked[1]) == Delivered(0, 1)
            assert producer.buffered_bytes == 0
        assert here.cluster.payloads == [b"1", b"3"]


# --- Flushing and closing --------------------------------------------------------------------


@in_virtual_time
async def test_flush_waits_for_what_was_accepted_before() -> None:
    async with setting(3) as here, here.producer(linger=60) as producer:
        began = now()
        await producer.flush()
        here.script(Delay(1), GONE)
        deliveries = [await producer.send(f"{n}", partition=n) for n in range(3)]
        later = asyncio.create_task(producer.send(b"later", partition=0))
        await producer.flush()
        assert now() == began + 1
        assert [delivery.done() for delivery in deliveries] == [True] * 3
        assert not (await later).done()
        assert await errors_of(*deliveries) == [windsprite.NotFound]


@in_virtual_time
async def test_leaving_the_block_loses_nothing() -> None:
    async with setting(3) as here:
        async with here.producer(linger=60) as producer:
            deliveries = await producer.send_many([f"{n}" for n in range(10)])
            with_key = await producer.send(b"k", key="k")
        assert all(delivery.done() for delivery in [*deliveries, with_key])
        assert len(here.cluster.payloads) == 11
        for attempt in (producer.send(b"x"), producer.send_many([b"x"]), producer.start()):
            with pytest.raises(windsprite.ProducerClosed):
                await attempt
        await producer.aclose()
        await producer.flush()


@in_virtual_time
async def test_whoever_waits_for_room_is_sent_away_at_the_end() -> None:
    async with setting() as here:
        async with here.producer(buffer_bytes=ONE, partition=0) as producer:
            here.script(Delay(5))
            await producer.send(b"1")
            blocked = asyncio.create_task(producer.send(b"2"))
            await asyncio.sleep(1)
        with pytest.raises(windsprite.ProducerClosed):
            await blocked
        assert here.cluster.payloads == [b"1"]


@in_virtual_time
async def test_a_close_that_has_no_time() -> None:
    async with setting() as here:
        producer = here.producer(partition=0, batch_messages=1)
        await producer.start()
        here.script(SILENCE)
        deliveries = await producer.send_many([b"1", b"2", b"3"])
        began = now()
        await producer.aclose(timeout=3)
        assert now() == began + 3
        assert await errors_of(*deliveries) == [
            windsprite.OutcomeUnknown,
            windsprite.ProducerClosed,
            windsprite.ProducerClosed,
        ]
        assert producer.buffered_bytes == producer.buffered_messages == 0
        assert here.asked == [[b"1"]]


@in_virtual_time
async def test_a_close_that_has_no_time_at_all() -> None:
    async with setting() as here:
        producer = here.producer(partition=0, linger=60)
        await producer.start()
        delivery = await producer.send(b"1")
        await asyncio.sleep(1)
        await producer.aclose(timeout=0)
        assert await errors_of(delivery) == [windsprite.ProducerClosed]
        assert producer.buffered_bytes == producer.buffered_messages == 0
        assert here.asked == []


@in_virtual_time
async def test_a_cancelled_block_sends_what_it_accepted() -> None:
    async with setting() as here:
        deliveries: list[windsprite.Delivery] = []

        async def block() -> None:
            async with here.producer(linger=60, partition=0) as producer:
                deliveries.append(await producer.send(b"1"))
                await asyncio.sleep(1000)

        task = asyncio.create_task(block())
        await asyncio.sleep(1)
        here.script(Delay(2))
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert await deliveries[0] == Delivered(0, 0)


@in_virtual_time
async def test_a_block_that_is_cancelled_again_gives_up() -> None:
    async with setting() as here:
        deliveries: list[windsprite.Delivery] = []

        async def block() -> None:
            async with here.producer(linger=60, partition=0, batch_messages=1) as producer:
                deliveries.extend(await producer.send_many([b"1", b"2"]))
                await asyncio.sleep(1000)

        here.script(SILENCE)
        task = asyncio.create_task(block())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.sleep(1)
        assert not task.done()
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert await errors_of(*deliveries) == [
            windsprite.OutcomeUnknown,
            windsprite.ProducerClosed,
        ]


@in_virtual_time
async def test_a_client_closes_its_producers_before_itself() -> None:
    async with setting() as here:
        producer = here.producer(linger=60)
        await producer.start()
        delivery = await producer.send(b"1")
        await here.client.close()
        assert await delivery == Delivered(0, 0)
        with pytest.raises(windsprite.ProducerClosed):
            await producer.send(b"2")


@in_virtual_time
async def test_a_producer_has_to_be_started() -> None:
    async with setting() as here:
        producer = here.producer()
        assert producer.partitions is None
        with pytest.raises(windsprite.InvalidRequest, match="async with"):
            await producer.send(b"x")
        await asyncio.gather(producer.start(), producer.start())
        await producer.start()
        assert producer.partitions == 1
        with pytest.raises(windsprite.InvalidRequest, match="a single message"):
            await producer.send_many(b"x")
        await producer.aclose()


@in_virtual_time
async def test_nobody_knows_whether_the_topic_was_made() -> None:
    async with setting(3) as here:
        here.node.script(GetTopic, [Success()])
        here.node.script(CreateTopic, [Cut()])
        async with here.producer() as producer:
            assert producer.partitions == 3
        here.node.script(GetTopic, [Success(), Success()])
        here.node.script(CreateTopic, [Cut()])
        with pytest.raises(windsprite.NotFound):
            await here.producer().start()


# --- Direct mode -----------------------------------------------------------------------------


@in_virtual_time
async def test_direct_sends_wait_and_raise() -> None:
    async with setting() as here, here.producer(mode="direct", partition=0, linger=60) as producer:
        here.script(Delay(3), GONE)
        began = now()
        delivery = await producer.send(b"1")
        assert delivery.result() == Delivered(0, 0)
        assert now() == began + 3
        with pytest.raises(windsprite.NotFound):
            await producer.send(b"2")
        assert await producer.send_and_wait(b"3") == Delivered(0, 1)
        assert here.asked == [[b"1"], [b"2"], [b"3"]]


@in_virtual_time
async def test_direct_sends_of_many_tell_of_each() -> None:
    async with (
        setting(2) as here,
        here.producer(mode="direct", batch_messages=2, linger=60) as producer,
    ):
        here.script(None, GONE)
        deliveries = await producer.send_many([b"1", b"2", b"3", b"4", b"5"])
        assert all(delivery.done() for delivery in deliveries)
        assert await errors_of(*deliveries) == [windsprite.NotFound] * 2
        assert sorted(here.cluster.payloads) == [b"1", b"2", b"5"]
        assert list(await producer.send_many([])) == []


# --- Partitions ------------------------------------------------------------------------------


@in_virtual_time
async def test_partitions_take_turns_a_batch_each() -> None:
    async with setting(3) as here:
        async with here.producer(batch_messages=2) as producer:
            await producer.send_many([f"{n}" for n in range(8)])
            await producer.flush()
            await producer.send(b"8")
        turns = [partitioning.partition_id for partitioning in here.partitionings]
        first = turns[0]
        assert turns == [(first + step) % 3 for step in range(5)]
        assert here.asked == [[b"0", b"1"], [b"2", b"3"], [b"4", b"5"], [b"6", b"7"], [b"8"]]


@in_virtual_time
async def test_new_partitions_are_noticed() -> None:
    async with setting(1) as here, here.producer(linger=0, refresh_interval=10) as producer:
        has_partitions(here.node, 3)
        await producer.send_and_wait(b"0")
        await asyncio.sleep(12)
        assert producer.partitions == 3
        for number in range(1, 7):
            await producer.send_and_wait(f"{number}")
        assert {partition: len(held) for partition, held in here.stored.items()} == {
            0: 3,
            1: 2,
            2: 2,
        }


@in_virtual_time
async def test_lost_partitions_are_noticed_at_once() -> None:
    async with setting(2) as here, here.producer(linger=0, refresh_interval=1000) as producer:
        await producer.send_and_wait(b"0", partition=1)
        has_partitions(here.node, 1)
        here.node.always(
            SendMessages, lambda send: GONE if send.partitioning == ToPartition(1) else None
        )
        with pytest.raises(windsprite.NotFound):
            await producer.send_and_wait(b"1", partition=1)
        await asyncio.sleep(0.1)
        assert producer.partitions == 1
        for number in range(4):
            await producer.send_and_wait(f"{number}", key=f"{number}")
            await producer.send_and_wait(f"{number}")


@in_virtual_time
async def test_a_look_at_the_topic_that_fails_changes_nothing() -> None:
    async with setting(2) as here, here.producer(refresh_interval=10) as producer:
        here.node.always(GetTopic, Refused(ErrorCode.ERROR))
        await asyncio.sleep(30)
        assert producer.partitions == 2
        has_partitions(here.node, 5)
        await asyncio.sleep(15)
        assert producer.partitions == 5


@in_virtual_time
async def test_who_may_only_send_lets_the_server_find_partitions() -> None:
    async with setting() as here:
        here.node.always(GetTopic, DENIED)
        async with here.producer() as producer:
            assert producer.partitions is None
            assert await producer.send_and_wait(b"1") == Delivered(0, 0)
            one, two = await producer.send_many([b"2", b"3"], key="k")
            assert await one == Delivered(1, 0)
            assert await two == Delivered(1, 1)
            here.script(NOT_COMMITTED, Success(Confirmations(())))
            assert await producer.send_and_wait(b"4") == Delivered(None, None)
        assert here.partitionings[:2] == [Balanced(), ByKey(b"k")]
        with pytest.raises(windsprite.PermissionDenied, match="partitioner"):
            await here.producer(partitioner=lambda *_: 0).start()


@in_virtual_time
async def test_which_choice_of_a_partition_counts() -> None:
    seen: list[tuple[bytes | str, bytes | None, int]] = []

    def partitioner(message: windsprite.Message, key: bytes | None, partitions: int) -> int | None:
        seen.append((message.payload, key, partitions))
        return {b"mine": 2, b"wrong": 3}.get(message.payload)  # type: ignore[call-overload]

    async with setting(3) as here:
        async with here.producer(partitioner=partitioner, key="user-42") as producer:
            assert (await producer.send_and_wait(b"mine")).partition == 2
            assert (await producer.send_and_wait(b"mine", partition=1)).partition == 1
            assert (await producer.send_and_wait(b"other", key="a")).partition == 0
            assert (await producer.send_and_wait(b"other")).partition == 2
            with pytest.raises(windsprite.InvalidRequest, match="chose 3"):
                await producer.send(b"wrong")
            assert producer.buffered_bytes == 0
        assert seen == [
            (b"mine", b"user-42", 3),
            (b"other", b"a", 3),
            (b"other", b"user-42", 3),
            (b"wrong", b"user-42", 3),
        ]
        async with here.producer(partition=1) as producer:
            assert (await producer.send_and_wait(b"x")).partition == 1
            assert (await producer.send_and_wait(b"x", key="a")).partition == 0
            assert (await producer.send_and_wait(b"x", partition=2)).partition == 2
            for wrong in ({"key": "a", "partition": 1}, {"partition": -1}, {"key": ""}):
                with pytest.raises(windsprite.InvalidRequest):
                    await producer.send(b"x", **wrong)  # type: ignore[arg-type]


@in_virtual_time
async def test_a_topic_without_partitions() -> None:
    async with setting(0) as here, here.producer() as producer:
        for attempt in (producer.send(b"x"), producer.send(b"x", key="k")):
            with pytest.raises(windsprite.NotFound):
                await attempt
        with pytest.raises(windsprite.NotFound):
            await producer.send_many([b"x", b"y"])
        assert producer.buffered_bytes == producer.buffered_messages == 0


# --- All at once -----------------------------------------------------------------------------


def misfortune(dice: random.Random, retry: str) -> Any:
    """What may become of a batch; nothing for good, unless that is a risk that was taken."""
    harmless: list[Any] = [None] * 4 + [Delay(dice.uniform(0, 3)), NOT_ACCEPTED, NOT_COMMITTED]
    harmful = [
        Cut(),
        Cut(executed=True),
        Cut(after=dice.randrange(400), reset=dice.random() < 0.5),
        Cut(executed=True, reset=True),
        SILENCE,
    ]
    return dice.choice(harmless + harmful + ([GONE] if retry == "safe" else []))


@pytest.mark.parametrize("retry", ["safe", "at-least-once"])
@pytest.mark.parametrize("seed", range(8))
@in_virtual_time
async def test_whatever_happens(seed: int, retry: Any) -> None:
    dice = random.Random(seed)
    partitions, senders, count = 3, 4, 30
    async with setting(partitions, request_timeout=5) as here:
        here.script(*(misfortune(dice, retry) for _ in range(40)))
        options: dict[str, Any] = {
            "linger": dice.choice([0, 0.5]),
            "batch_messages": dice.choice([1, 3, 1000]),
            "max_in_flight": dice.choice([1, 8]),
            "buffer_bytes": dice.choice([1 << 20, 5 * (MESSAGE_COST + 10)]),
            "delivery_timeout": 100_000,
            "retry": retry,
        }
        sent: dict[bytes, windsprite.Delivery] = {}
        async with here.producer(**options) as producer:

            async def send(sender: int) -> None:
                for number in range(count):
                    payload = b"%d %d" % (sender, number)
                    where = dice.choice([{}, {"key": f"{sender}"}, {"partition": sender % 3}])
                    sent[payload] = await producer.send(payload, **where)
                    await asyncio.sleep(dice.choice([0, 0, 1]))

            await asyncio.gather(*map(send, range(senders)))
        assert producer.buffered_bytes == producer.buffered_messages == 0
        results = await asyncio.gather(*sent.values(), return_exceptions=True)
        stored = here.stored

    errors = {type(result) for result in results if isinstance(result, BaseException)}
    times = Counter(payload for payloads in stored.values() for payload in payloads)
    for payload, result in zip(sent, results, strict=True):
        if isinstance(result, Delivered):
            assert result.partition is not None
            assert result.offset is not None
            assert stored[result.partition][result.offset] == payload
        elif isinstance(result, windsprite.NotFound):
            assert times[payload] == 0
    if retry == "safe":
        assert set(times.values()) == {1}
        assert errors <= {windsprite.OutcomeUnknown, windsprite.NotFound}
    else:
        assert errors == set()
        assert set(times) == set(sent)
    for payloads in stored.values():
        # First occurrences come in the order of each sender.
        last: dict[int, int] = {}
        for payload in dict.fromkeys(payloads):
            sender, number = map(int, payload.split())
            assert last.get(sender, -1) < number
            last[sender] = number
