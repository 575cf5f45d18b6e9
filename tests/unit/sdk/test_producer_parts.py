"""The parts of a producer that stand alone: routing, room, deliveries, encoding, options."""

import asyncio
import gc
import logging
from typing import Any

import pytest

import windsprite
from support.environment import SeededEnvironment
from support.virtual_time import in_virtual_time
from windsprite.environment import SystemEnvironment
from windsprite.producer.accumulator import Accumulator
from windsprite.producer.delivery import Delivered, Deliveries, Delivery, Outcome, Part
from windsprite.producer.encoding import Encoder, as_message, as_sent
from windsprite.producer.failures import FailureLog
from windsprite.producer.intake import Intake
from windsprite.producer.options import ProducerOptions
from windsprite.producer.room import Room
from windsprite.producer.routing import Router, chosen
from windsprite_protocol.errors import ErrorCode

# --- Routing ---------------------------------------------------------------------------------


def test_keys_go_where_official_clients_send_them() -> None:
    # The table of spec 04, 4.3.
    for key, of_3, of_4, of_10 in (
        (b"user-42", 2, 2, 6),
        (b"order-1", 2, 0, 2),
        (b"a", 0, 2, 0),
        (b"confirmation-key", 2, 3, 5),
        (b"\x01\x00\x00\x00", 2, 3, 5),
    ):
        assert [Router(count).of_key(key) for count in (3, 4, 10)] == [of_3, of_4, of_10]


def test_turns_follow_the_number_of_partitions() -> None:
    router = Router(3, first=2)
    assert [router.next_turn() for _ in range(4)] == [2, 0, 1, 2]
    router.partitions = 2
    assert [router.next_turn() for _ in range(3)] == [1, 0, 1]
    router.partitions = 4
    assert [router.next_turn() for _ in range(4)] == [2, 3, 0, 1]
    assert router.turn == 1


def test_without_the_number_the_server_finds_the_partition() -> None:
    router = Router(None)
    assert router.of_key(b"k") == b"k"
    assert router.turn is None
    assert router.next_turn() is None


def test_a_topic_without_partitions() -> None:
    router = Router(0)
    for find in (router.next_turn, lambda: router.of_key(b"k")):
        with pytest.raises(windsprite.NotFound) as caught:
            find()
        assert caught.value.code is ErrorCode.NO_PARTITIONS


async def test_a_topic_that_loses_its_partitions_takes_none_of_the_messages_of_a_call() -> None:
    accumulator = Accumulator(max_messages=10, max_bytes=1000, linger=0.0)
    options = ProducerOptions(
        partitioner=lambda message, *_: 0 if message.payload == b"chosen" else None
    )
    intake = Intake(options, SystemEnvironment(), accumulator)
    intake.router = Router(1)
    messages = intake.prepare_many([b"chosen", b"any"], None, None, None)
    intake.router.partitions = 0
    with pytest.raises(windsprite.NotFound):
        intake.take_many(messages)
    assert len(accumulator) == 0


def test_what_a_partitioner_may_choose() -> None:
    message = windsprite.Message(b"x")
    assert chosen(lambda *_: 2, message, None, 3) == 2
    assert chosen(lambda *_: None, message, None, 3) is None
    for wrong in (-1, 3):
        with pytest.raises(windsprite.InvalidRequest, match="has 3 partitions"):
            chosen(lambda *_, wrong=wrong: wrong, message, None, 3)


# --- Room ------------------------------------------------------------------------------------


async def turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


@in_virtual_time
async def test_room_is_given_in_the_order_of_the_line() -> None:
    room = Room(10)
    await room.take(5, None)
    assert room.take_at_once(1)
    large = asyncio.create_task(room.take(8, None))
    await turn()
    small = asyncio.create_task(room.take(1, None))
    await turn()
    assert room.is_wanted
    assert not room.take_at_once(1)  # it would fit, but others were here before
    room.give(2)
    await turn()
    assert (large.done(), small.done()) == (False, False)
    room.give(4)
    await turn()
    assert (large.done(), small.done(), room.used) == (True, True, 9)
    assert not room.is_wanted
    await asyncio.gather(large, small)


@in_virtual_time
async def test_who_leaves_the_line_leaves_no_trace() -> None:
    room = Room(10)
    assert room.take_at_once(10)
    first = asyncio.create_task(room.take(10, None))
    second = asyncio.create_task(room.take(5, 3.0))
    third = asyncio.create_task(room.take(5, None))
    await turn()
    first.cancel()
    with pytest.raises(TimeoutError):
        await second
    assert room.used == 10
    room.give(10)
    await turn()
    assert third.done()
    assert room.used == 5
    await asyncio.wait({first, third})
    assert first.cancelled()


@in_virtual_time
async def test_who_is_cancelled_when_it_is_his_turn_gives_it_to_the_next() -> None:
    room = Room(10)
    assert room.take_at_once(10)
    first = asyncio.create_task(room.take(10, None))
    second = asyncio.create_task(room.take(10, None))
    await turn()
    room.give(10)
    first.cancel()
    await asyncio.wait({first, second})
    assert first.cancelled()
    assert room.used == 10
    room.give(10)
    assert room.used == 0


@in_virtual_time
async def test_a_large_one_that_leaves_lets_small_ones_in() -> None:
    room = Room(10)
    assert room.take_at_once(5)
    large = asyncio.create_task(room.take(10, None))
    small = asyncio.create_task(room.take(5, None))
    await turn()
    large.cancel()
    await asyncio.wait({large, small})
    assert room.used == 10


@in_virtual_time
async def test_closing_sends_all_away() -> None:
    room = Room(10)
    assert room.take_at_once(10)
    waiting = [asyncio.create_task(room.take(1, None)) for _ in range(3)]
    await turn()
    waiting[2].cancel()
    room.close(windsprite.ProducerClosed("closed"))
    waiting[1].cancel()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(results[0], windsprite.ProducerClosed)
    assert isinstance(results[1], asyncio.CancelledError)
    with pytest.raises(windsprite.ProducerClosed):
        await room.take(1, None)
    assert room.used == 10


# --- Deliveries ------------------------------------------------------------------------------


def deliveries(outcome: Outcome, count: int) -> list[Delivery]:
    return [Delivery(outcome, index) for index in range(count)]


async def test_each_delivery_has_its_own_offset() -> None:
    outcome = Outcome()
    one, two = deliveries(outcome, 2)
    assert not one.done()
    assert repr(one) == "<Delivery pending>"
    with pytest.raises(asyncio.InvalidStateError):
        one.result()
    waiting = asyncio.gather(one, two, one)
    await turn()
    outcome.succeed(3, 100)
    assert await waiting == [Delivered(3, 100), Delivered(3, 101), Delivered(3, 100)]
    assert await two == two.result() == Delivered(partition=3, offset=101)
    assert "partition=3, offset=101" in repr(two)


async def test_a_stored_batch_whose_place_is_not_known() -> None:
    outcome = Outcome()
    outcome.succeed(3, None)
    assert await Delivery(outcome, 7) == Delivered(3, None)


async def test_giving_up_waiting_stops_nobody_else() -> None:
    outcome = Outcome()
    (delivery,) = deliveries(outcome, 1)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(delivery, 0.001)
    other = asyncio.ensure_future(delivery)
    cancelled = asyncio.ensure_future(delivery)
    await turn()
    cancelled.cancel()
    await turn()
    outcome.succeed(0, 0)
    assert await other == Delivered(0, 0)
    assert cancelled.cancelled()


async def test_errors_are_told_as_often_as_asked_and_do_not_grow() -> None:
    outcome = Outcome()
    one, two = deliveries(outcome, 2)
    error = windsprite.NotFound("gone")
    outcome.fail(error, 2, None)
    depths = []
    for delivery in (one, two, one):
        with pytest.raises(windsprite.NotFound) as caught:
            await delivery
        depths.append(len(caught.traceback))
    assert len(set(depths)) == 1
    assert "NotFound('gone')" in repr(one)


@pytest.mark.parametrize(("asked", "told"), [(0, [3]), (1, [2]), (3, [])])
async def test_failures_nobody_asked_about_are_told_of(asked: int, told: list[int]) -> None:
    heard: list[int] = []

    async def ask() -> None:
        outcome = Outcome()
        all_three = deliveries(outcome, 3)
        outcome.fail(windsprite.NotFound("gone"), 3, lambda count, _: heard.append(count))
        for delivery in all_three[:asked]:
            for _ in range(2):
                with pytest.raises(windsprite.NotFound):
                    await delivery

    await ask()
    gc.collect()
    assert heard == told


async def test_the_deliveries_of_a_call_are_a_sequence() -> None:
    one, two = Outcome(), Outcome()
    both = Deliveries([Part(one, 3, 2), Part(two, 0, 1)])
    one.succeed(0, 100)
    assert not both.done()
    waiting = asyncio.create_task(both.wait())
    await turn()
    assert not waiting.done()
    two.fail(windsprite.NotFound("gone"), 1, None)
    await waiting
    assert both.done()
    assert len(both) == 3
    assert [each.result() for each in both[:2]] == [Delivered(0, 103), Delivered(0, 104)]
    assert both[1] is list(both)[1]
    assert both[-1] in both
    with pytest.raises(windsprite.NotFound):
        await both[2]
    with pytest.raises(IndexError):
        both[3]
    assert not Deliveries(())
    assert Deliveries(()).done()


async def test_failures_of_a_call_are_told_of_until_somebody_looks_at_each() -> None:
    heard: list[int] = []

    async def ask(times: int) -> None:
        outcome = Outcome()
        three = Deliveries([Part(outcome, 0, 3)])
        await asyncio.sleep(0)
        outcome.fail(windsprite.NotFound("gone"), 3, lambda count, _: heard.append(count))
        await three.wait()
        for _ in range(times):
            with pytest.raises(windsprite.NotFound):
                three[0].result()

    await ask(0)
    await ask(3)
    gc.collect()
    assert heard == [3, 2]


def test_lost_messages_are_logged_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    class Watch(SeededEnvironment):
        now = 1_000_000_000

        def wall_clock_us(self) -> int:
            return self.now

    watch = Watch(0)
    log = FailureLog(watch, "'t' in 's'")
    error = windsprite.OutcomeUnknown("who knows")
    with caplog.at_level(logging.ERROR, "windsprite"):
        for _ in range(100):
            log.note(10, error)
            watch.now += 1_000_000
        log.tell()
        log.tell()
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 11
    assert sum(int(line.split()[0]) for line in lines) == 1000
    assert all("who knows" in line and "'t' in 's'" in line for line in lines)


# --- Encoding --------------------------------------------------------------------------------


def test_what_cannot_be_sent_is_refused_at_once() -> None:
    encoder = Encoder(SystemEnvironment(), None, None)
    wrong: list[tuple[Any, ErrorCode | None]] = [
        (bytes(64_000_001), ErrorCode.TOO_BIG_MESSAGE_PAYLOAD),
        (windsprite.Message(b"x", {"k": "v" * 256}), ErrorCode.INVALID_HEADER_VALUE),
        (
            windsprite.Message(b"x", {f"{n}": "v" * 255 for n in range(400)}),
            ErrorCode.TOO_BIG_USER_HEADERS,
        ),
        (windsprite.Message(b"x", id=0), None),
        (windsprite.Message(b"x", id=1 << 128), None),
        (windsprite.Message(b"x", origin_timestamp=-1), None),
        (windsprite.Message(b"x", origin_timestamp=1 << 64), None),
        ("\ud800", None),
        (7, None),
    ]
    for message, code in wrong:
        with pytest.raises(windsprite.InvalidRequest) as caught:
            encoder.encode(message)
        assert caught.value.code is code
    with pytest.raises(windsprite.InvalidRequest):
        Encoder(SystemEnvironment(), {"": 1}, None)


def test_encrypted_messages_have_to_fit_with_what_encryption_adds() -> None:
    encryptor = windsprite.Encryptor(bytes(32))
    encoder = Encoder(SystemEnvironment(), {"k": 1}, encryptor)
    frame = encoder.encode(b"x")
    assert encryptor.decrypt(frame.payload) == b"x"
    assert len(encryptor.decrypt(frame.user_headers)) == len(frame.user_headers) - 28
    with pytest.raises(windsprite.InvalidRequest) as caught:
        encoder.encode(bytes(64_000_000 - 27))
    assert caught.value.code is ErrorCode.TOO_BIG_MESSAGE_PAYLOAD
    headers = {f"{number:03}": "v" * 242 for number in range(392)}
    nearly_too_big = windsprite.Message(b"x", {**headers, "end": "v" * 27})
    assert (
        len(Encoder(SystemEnvironment(), None, None).encode(nearly_too_big).user_headers) > 99_972
    )
    with pytest.raises(windsprite.InvalidRequest) as caught:
        encoder.encode(nearly_too_big)
    assert caught.value.code is ErrorCode.TOO_BIG_USER_HEADERS


def test_ids_are_all_different() -> None:
    encoder = Encoder(SystemEnvironment(), None, None)
    ids = [encoder.encode(b"").id for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert {len(id_) for id_ in ids} == {16}


def test_failed_messages_can_be_sent_again_as_they_were() -> None:
    encoder = Encoder(SystemEnvironment(), None, windsprite.Encryptor(bytes(32)))
    original = windsprite.Message("text", {"k": 1})
    frame = encoder.encode(original)
    again = as_sent(frame, original)
    assert (again.payload, again.headers) == ("text", {"k": 1})
    second = Encoder(SystemEnvironment(), None, None).encode(again)
    assert (second.id, second.origin_timestamp) == (frame.id, frame.origin_timestamp)


def test_messages_that_are_alike_are_encoded_together() -> None:
    environment = SeededEnvironment(0)
    environment.wall_clock_us = lambda: 5  # type: ignore[method-assign]
    encoder = Encoder(environment, {"k": 1}, None)
    for messages, headers in (
        ([b"one", b"two"], None),
        (["\u00e9", b"", bytes(100)], None),
        ([b"x", windsprite.Message("y"), windsprite.Message(b"z")], {"other": "value"}),
        ([b"x"], {}),
    ):
        run = encoder.encode_run(messages, headers)
        assert run is not None
        singly = [encoder.encode(as_message(each, headers)) for each in messages]
        assert list(run.payloads) == [frame.payload for frame in singly]
        assert {(run.user_headers, run.origin_timestamp)} == {
            (frame.user_headers, frame.origin_timestamp) for frame in singly
        }
        assert [as_message(each, None) for each in run.originals] == [
            as_message(each, headers) for each in messages
        ]
        sizes = [48 + len(frame.payload) + len(frame.user_headers) for frame in singly]
        assert list(run.starts) == [sum(sizes[:count]) for count in range(len(sizes) + 1)]
        assert len({run.ids[at : at + 16] for at in range(0, len(run.ids), 16)}) == len(messages)


def test_messages_that_need_a_look_are_not_encoded_together() -> None:
    encoder = Encoder(SystemEnvironment(), None, None)
    wrong: list[Any] = [
        windsprite.Message(b"x", id=1),
        windsprite.Message(b"x", origin_timestamp=1),
        windsprite.Message(b"x", {}),
        windsprite.Message("\ud800"),
        windsprite.Message(7),  # type: ignore[arg-type]
        "\ud800",
        7,
        bytes(64_000_001),
    ]
    for message in wrong:
        assert encoder.encode_run([b"x", message], None) is None
    assert encoder.encode_run([b"x"], {"k": "v" * 256}) is None
    encrypted = Encoder(SystemEnvironment(), None, windsprite.Encryptor(bytes(32)))
    assert encrypted.encode_run([b"x"], None) is None


# --- Options ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": "k", "partition": 1},
        {"mode": "foreground"},
        {"batch_messages": 0},
        {"batch_messages": 1_000_001},
        {"batch_bytes": 0},
        {"batch_bytes": 64_000_001},
        {"linger": -0.001},
        {"linger": float("nan")},
        {"buffer_bytes": 0},
        {"when_full": "wait"},
        {"when_full": 0},
        {"when_full": float("inf")},
        {"max_in_flight": 0},
        {"retry": "exactly-once"},
        {"delivery_timeout": 0},
        {"delivery_timeout": float("inf")},
        {"linger": 5, "delivery_timeout": 5},
        {"refresh_interval": 0},
    ],
    ids=str,
)
def test_options_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(windsprite.InvalidRequest, match=r"^producer: "):
        ProducerOptions(**wrong)
