"""A log and a list of messages, driven by the same random steps, always agree."""

import asyncio

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.log import (
    NOW,
    Harness,
    MemoryFiles,
    append,
    fetch,
    find_time,
    messages_of,
    read,
    trim,
)
from windsprite_protocol.topic_options import Durability
from windsprite_server.log.keys import LogLimits, PartitionOptions

_offsets = st.integers(0, 400)


class LogMachine(RuleBasedStateMachine):
    """The model: batches as (base offset, append time, payloads), and two dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.batches: list[tuple[int, int, list[bytes]]] = []
        self.consumers: dict[int, int] = {}
        self.groups: dict[int, int] = {}
        self.first = 0
        self.now = NOW
        self.newest = 0
        self.has_lost = False
        self.serial = 0

    def run(self, coroutine):
        return self.runner.run(coroutine)

    @initialize(
        durability=st.sampled_from(Durability),
        tail=st.sampled_from([0, 3000, 1 << 20]),
        interval=st.sampled_from([1, 1000, 1 << 16]),
        segment=st.sampled_from([1, 1500, 5000, 1 << 20]),
        preallocate=st.booleans(),
    )
    def begin(self, durability, tail, interval, segment, preallocate) -> None:
        self.files = MemoryFiles()
        options = PartitionOptions(
            segment_size=segment,
            durability=durability,
            consumer_offset_durability=durability,
            preallocate_segments=preallocate,
        )
        limits = LogLimits(
            tail_bytes=tail,
            index_interval=interval,
            consumer_offsets=4,
            descriptors=3,
            index_bytes=1,
            read_threads=1,
            sync_threads=1,
        )
        self.harness = Harness(self.files, options=options, limits=limits)
        self.log = self.harness.open()

    @property
    def next(self) -> int:
        return self.batches[-1][0] + len(self.batches[-1][2]) if self.batches else 0

    @property
    def messages(self) -> list[tuple[int, bytes]]:
        return [
            (base + delta, payload)
            for base, _, payloads in self.batches
            for delta, payload in enumerate(payloads)
            if base + delta >= self.first
        ]

    @rule(sizes=st.lists(st.sampled_from([0, 1, 10, 10, 10, 300]), min_size=1, max_size=12))
    def append(self, sizes) -> None:
        self.serial += 1
        payloads = [self.serial.to_bytes(4, "big") + bytes([size % 251]) * size for size in sizes]

        async def run() -> None:
            base = append(self.log, *payloads, now=self.now)
            await self.log.wait_visible(base + len(payloads))
            assert base == self.next

        self.run(run())
        time = self.log.last_timestamp
        assert time == max(self.now, self.newest + 1)
        self.newest = time
        self.batches.append((self.next, time, payloads))

    @rule(step=st.integers(-1000, 1000))
    def set_clock(self, step) -> None:
        self.now += step

    @rule(start=_offsets, count=st.integers(0, 40))
    def read_some(self, start, count) -> None:
        found = self.run(read(self.log, start, count))
        expected = [message for message in self.messages if message[0] >= start]
        assert found == expected[:count]

    @rule(start=_offsets, room=st.integers(0, 3000))
    def read_into_little_room(self, start, room) -> None:
        result = self.run(fetch(self.log, start, 1000, room))
        expected = [message for message in self.messages if message[0] >= start]
        found = messages_of(result)
        assert found == expected[: len(found)]
        assert bool(found) == bool(expected)
        assert result.size_bytes <= room or len(found) == 1 or not found

    @rule(pick=st.integers(0, 200), step=st.integers(-1, 1))
    def find_time(self, pick, step) -> None:
        times = [time for _, time, _ in self.batches] or [NOW]
        time = times[pick % len(times)] + step
        found = self.run(find_time(self.log, time))
        later = [base for base, other, _ in self.batches if other >= time]
        assert found == max(self.first, min(later, default=self.next))

    @rule(number=st.integers(0, 5), offset=_offsets, monotone=st.booleans(), group=st.booleans())
    def store_offset(self, number, offset, monotone, group) -> None:
        if offset >= self.next:
            return
        model = self.groups if group else self.consumers
        table = self.log.offsets.groups if group else self.log.offsets.consumers
        if number not in model and len(model) == 4:
            return

        async def run() -> None:
            (table.store_max if monotone else table.store)(number, offset)
            await self.log.offsets.wait_durable()

        self.run(run())
        model[number] = max(offset, model.get(number, 0)) if monotone else offset

    @rule(number=st.integers(0, 5), group=st.booleans())
    def delete_offset(self, number, group) -> None:
        model = self.groups if group else self.consumers
        table = self.log.offsets.groups if group else self.log.offsets.consumers

        async def run() -> bool:
            deleted = table.delete(number)
            await self.log.offsets.wait_durable()
            return deleted

        assert self.run(run()) == (model.pop(number, None) is not None)

    @rule(cold=st.booleans())
    def set_page_cache(self, cold) -> None:
        self.files.is_cold = cold

    @rule(count=st.integers(0, 3))
    def delete_segments(self, count) -> None:
        self.run(trim(self.log, count))
        assert self.log.first_offset >= self.first
        barrier = min([*self.consumers.values(), *self.groups.values()], default=None)
        if barrier is not None and self.log.first_offset > self.first:
            assert self.log.first_offset <= barrier + 1
        assert self.log.first_offset == self.next or self.log.first_offset in {
            base for base, _, _ in self.batches
        }
        self.first = self.log.first_offset

    @rule()
    def close_and_open(self) -> None:
        async def run() -> None:
            self.log = await self.harness.reopen()

        self.run(run())
        assert self.harness.recovery.scanned_bytes == 0
        self.check_recovery()

    @rule(power=st.booleans())
    def die_and_open(self, power) -> None:
        is_persisted = self.harness.options.durability is Durability.PERSISTED

        async def run() -> None:
            await self.harness.stop()
            self.files.crash(power=power and is_persisted)
            self.log = self.harness.open()

        self.run(run())
        self.check_recovery()

    @precondition(lambda self: self.batches)
    @rule(missing=st.integers(1, 700))
    def lose_the_end(self, missing) -> None:
        async def run() -> None:
            await self.harness.stop()
            names = [name for name in self.harness.names() if name.endswith(".log")]
            data = self.files.content(self.harness.path(names[-1]))
            end = len(data) - missing
            if self.harness.options.preallocate_segments:
                del data[len(data.rstrip(b"\0")) :]  # reserved space, not content
            if end < len(data):
                del data[max(0, end) :]
            self.files.settle()
            self.log = self.harness.open()

        self.run(run())
        # A prefix of the batches is left, and offsets are those of before.
        kept = [batch for batch in self.batches if batch[0] + len(batch[2]) <= self.log.next_offset]
        self.has_lost = self.has_lost or len(kept) < len(self.batches)
        self.batches = kept
        self.check_time()
        assert self.log.next_offset == max(self.next, self.log.first_offset)
        for model in (self.consumers, self.groups):
            for number, offset in list(model.items()):
                if offset >= self.log.next_offset:
                    if self.log.next_offset:
                        model[number] = self.log.next_offset - 1
                    else:
                        del model[number]

    def check_time(self) -> None:
        # A log may remember the time of a batch that it lost, so as not to go back behind it.
        time = self.log.last_timestamp
        kept = [time for base, time, _ in self.batches if base >= self.first]
        assert max(kept, default=0) <= time <= self.newest
        assert time == self.newest or self.has_lost
        self.newest = time

    def check_recovery(self) -> None:
        self.check_time()
        assert self.harness.recovery.is_clean
        assert not self.harness.report.unknown

    @invariant()
    def counters_agree(self) -> None:
        if not hasattr(self, "log"):
            return
        log = self.log
        assert log.first_offset == self.first
        assert log.next_offset == log.visible_end == self.next
        assert log.messages_count == len(self.messages)
        assert log.current_offset == max(0, self.next - 1)
        assert log.is_empty == (self.next == 0)
        size = sum(
            256 + sum(48 + len(payload) for payload in payloads)
            for base, _, payloads in self.batches
            if base >= self.first
        )
        assert log.size_bytes == size
        for table, model in (
            (log.offsets.consumers, self.consumers),
            (log.offsets.groups, self.groups),
        ):
            assert {number: table.get(number) for number in table} == model

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.run(self.harness.store.close())
        self.runner.close()


TestLogModel = LogMachine.TestCase
TestLogModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
