"""Batches and their order, against a model that is slow and plain."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from windsprite.producer.accumulator import MESSAGE_COST, Accumulator, Batch, Run, Target
from windsprite_protocol.batches import MAX_TIMESTAMP_SPREAD, NewMessage, build_batch

MAX_MESSAGES, MAX_BYTES, LINGER = 3, 256 + 4 * 48 + 40, 5.0
TARGETS: list[Target] = [0, 1, b"key", None]


def frame_of(number: int, size: int = 0, time: int = 0) -> NewMessage:
    return NewMessage(bytes(size), number.to_bytes(16, "little"), time)


def put(
    accumulator: Accumulator, target: Target, number: int, now: float, size: int = 0, time: int = 0
) -> Batch:
    batch = accumulator.begun(target, size, time) or accumulator.begin(target, time, now)
    accumulator.add(batch, frame_of(number, size, time), f"original {number}", size)
    return batch


def put_run(
    accumulator: Accumulator,
    target: Target,
    numbers: range,
    now: float,
    size: int,
    time: int,
) -> None:
    """What a call with many messages does."""
    run = Run(
        payloads=[bytes(size)] * len(numbers),
        ids=b"".join(number.to_bytes(16, "little") for number in numbers),
        origin_timestamp=time,
        user_headers=b"",
        originals=[f"original {number}" for number in numbers],
        starts=range(0, (48 + size) * len(numbers) + 1, 48 + size),
    )
    done = 0
    while done < len(numbers):
        batch = accumulator.begun(target, size, time) or accumulator.begin(target, time, now)
        done += accumulator.add_run(batch, run, done)


def numbers(batch: Batch) -> list[int]:
    return [int.from_bytes(frame.id, "little") for frame in batch.frames]


@dataclass
class ModelBatch:
    opened_at: float
    messages: list[tuple[int, int, int]] = field(default_factory=list)
    is_closed: bool = False
    is_due: bool = False

    @property
    def size(self) -> int:
        return 256 + sum(48 + size for _, size, _ in self.messages)

    def takes(self, size: int, time: int) -> bool:
        times = [time, *(other for _, _, other in self.messages)]
        return (
            not self.is_closed
            and self.size + 48 + size <= MAX_BYTES
            and max(times) - min(times) <= MAX_TIMESTAMP_SPREAD
        )


class AccumulatorMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.accumulator = Accumulator(
            max_messages=MAX_MESSAGES, max_bytes=MAX_BYTES, linger=LINGER
        )
        self.now = 0.0
        self.next_number = 0
        self.model: dict[Target, list[ModelBatch]] = {target: [] for target in TARGETS}
        self.out: dict[Target, Batch] = {}
        self.sent: dict[Target, list[int]] = {target: [] for target in TARGETS}
        self.settled: dict[Target, list[int]] = {target: [] for target in TARGETS}

    @rule(
        place=st.sampled_from(TARGETS),
        size=st.sampled_from([0, 0, 1, 20, 40, 41, 500]),
        time=st.sampled_from([0, 1, MAX_TIMESTAMP_SPREAD, MAX_TIMESTAMP_SPREAD + 1]),
    )
    def send(self, place: Target, size: int, time: int) -> None:
        put(self.accumulator, place, self.next_number, self.now, size, time)
        self.expect(place, size, time)

    @rule(
        place=st.sampled_from(TARGETS),
        count=st.integers(1, 8),
        size=st.sampled_from([0, 1, 20, 41, 500]),
        time=st.sampled_from([0, 1, MAX_TIMESTAMP_SPREAD + 1]),
    )
    def send_many(self, place: Target, count: int, size: int, time: int) -> None:
        numbers = range(self.next_number, self.next_number + count)
        put_run(self.accumulator, place, numbers, self.now, size, time)
        for _ in numbers:
            self.expect(place, size, time)

    def expect(self, place: Target, size: int, time: int) -> None:
        number = self.next_number
        self.next_number += 1
        self.sent[place].append(number)
        batches = self.model[place]
        if not batches or not batches[-1].takes(size, time):
            if batches:
                batches[-1].is_closed = batches[-1].is_due = True
            batches.append(ModelBatch(self.now))
        batch = batches[-1]
        batch.messages.append((number, size, time))
        if len(batch.messages) == MAX_MESSAGES or batch.size >= MAX_BYTES:
            batch.is_closed = batch.is_due = True

    @rule(seconds=st.sampled_from([0.0, 1.0, LINGER - 1, LINGER]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def hurry(self) -> None:
        self.accumulator.hurry()
        for batches in self.model.values():
            for batch in batches:
                batch.is_due = True

    @rule()
    def take(self) -> None:
        may_go = {
            target: batches[0]
            for target, batches in self.model.items()
            if target not in self.out
            and batches
            and (batches[0].is_due or batches[0].opened_at + LINGER <= self.now)
        }
        batch = self.accumulator.take(self.now)
        if batch is None:
            assert may_go == {}
            return
        expected = self.model[batch.target].pop(0)
        assert may_go[batch.target] is expected
        assert numbers(batch) == [number for number, _, _ in expected.messages]
        assert batch.originals == [f"original {number}" for number in numbers(batch)]
        assert batch.size == expected.size == len(build_batch(batch.frames))
        assert batch.cost == expected.size - 256 + len(batch.frames) * (MESSAGE_COST - 48)
        self.out[batch.target] = batch

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def settle(self, data: Any) -> None:
        target = data.draw(st.sampled_from(sorted(self.out, key=repr)))
        batch = self.out.pop(target)
        self.accumulator.settled(batch)
        self.settled[target] += numbers(batch)

    @invariant()
    def nothing_is_lost_or_overtaken(self) -> None:
        for target, sent in self.sent.items():
            settled = self.settled[target]
            assert settled == sent[: len(settled)]
        waiting = sum(map(len, self.sent.values())) - sum(map(len, self.settled.values()))
        assert len(self.accumulator) == waiting

    @invariant()
    def the_next_time_is_when_a_batch_has_lingered(self) -> None:
        lingering = [
            batch.opened_at + LINGER
            for batches in self.model.values()
            for batch in batches
            if not batch.is_due
        ]
        when = self.accumulator.next_time()
        if when is None or when > self.now:
            # Times that are over may have been used up by a `take` that found the lane busy.
            assert when == min((time for time in lingering if time > self.now), default=None)

    @invariant()
    def the_last_batches_are_last(self) -> None:
        last = {batch.target: numbers(batch)[-1] for batch in self.accumulator.last_batches()}
        assert last == {
            target: sent[-1]
            for target, sent in self.sent.items()
            if len(sent) > len(self.settled[target])
        }

    def teardown(self) -> None:
        given_up = list(self.accumulator.give_up())
        for batch in self.out.values():
            self.accumulator.settled(batch)
            self.settled[batch.target] += numbers(batch)
        for batch in given_up:
            self.settled[batch.target] += numbers(batch)
        assert self.settled == self.sent
        assert len(self.accumulator) == 0
        assert self.accumulator.take(float("inf")) is None


AccumulatorMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestAccumulator = AccumulatorMachine.TestCase


def test_lanes_take_turns() -> None:
    accumulator = Accumulator(max_messages=1, max_bytes=1 << 20, linger=0)
    for number in range(6):
        put(accumulator, number % 2, number, now=0)
    taken = []
    while batch := accumulator.take(0):
        taken.append((batch.target, numbers(batch)))
        accumulator.settled(batch)
    assert taken == [(0, [0]), (1, [1]), (0, [2]), (1, [3]), (0, [4]), (1, [5])]


def test_a_batch_whose_lane_is_busy_goes_on_filling() -> None:
    accumulator = Accumulator(max_messages=100, max_bytes=1 << 20, linger=1)
    put(accumulator, 0, 0, now=0)
    first = accumulator.take(1)
    assert first is not None
    put(accumulator, 0, 1, now=1)
    assert accumulator.take(100) is None
    put(accumulator, 0, 2, now=100)
    accumulator.settled(first)
    second = accumulator.take(100)
    assert second is not None
    assert numbers(second) == [1, 2]
