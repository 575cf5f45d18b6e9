"""Polling, handing out, handling, storing and moving partitions in any order.

The model is a server with one group on one topic. We are one of its members; `other` stands for
all the others. Partitions move without a word, and we hear of it when we look, as in the protocol.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from windsprite.consumer.commits import Commit
from windsprite.consumer.ledger import Ledger, Limits, size_of
from windsprite.consumer.progress import Hold
from windsprite.messages import Batch, From, ReceivedMessage
from windsprite_protocol.model.identifiers import PollingKind

PARTITIONS = 3
partitions = st.integers(0, PARTITIONS - 1)


def message(partition: int, offset: int) -> ReceivedMessage:
    return ReceivedMessage(partition, offset, 0, 0, bytes(16), 0, b"x")


class Partition:
    """A partition on the server, and what the group has done with it."""

    def __init__(self) -> None:
        self.length = 0
        self.is_ours = False
        self.is_leaving = False
        self.served = -1
        self.stored: int | None = None
        self.handled: set[int] = set()

    @property
    def next(self) -> int:
        return 0 if self.stored is None else self.stored + 1

    def store(self, offset: int) -> None:
        assert offset < self.length
        self.stored = offset
        if self.is_leaving and offset >= self.served:
            self.is_ours = self.is_leaving = False


class Consuming(RuleBasedStateMachine):
    @initialize(
        batch=st.integers(1, 5),
        room=st.integers(1, 3000),
        window=st.integers(1, 6),
        start=st.sampled_from([From.first(), From.offset(2), From.last(), "new"]),
        lengths=st.tuples(*[st.integers(0, 12)] * PARTITIONS),
        ours=st.sets(partitions),
    )
    def begin(self, batch, room, window, start, lengths, ours) -> None:
        self.now = 0.0
        self.start = start
        self.window = window
        self.wakes = 0
        self.server = [Partition() for _ in range(PARTITIONS)]
        self.ledger = Ledger(
            Limits(batch, room, 1.0, window),
            Commit.after_handling(every=2),
            start,
            heeds_stored=True,
            is_group=True,
            allow_replay=False,
            has_room=self.wake,
        )
        self.in_hand: list[ReceivedMessage] = []
        self.given: list[set[int]] = [set() for _ in range(PARTITIONS)]
        self.begins: list[int | None] = [None] * PARTITIONS
        for number, there in enumerate(self.server):
            there.length = lengths[number]
            there.is_ours = number in ours
        self.look(is_same_session=True)
        self.poll(PARTITIONS)

    def wake(self) -> None:
        self.wakes += 1

    # --- The server --------------------------------------------------------------------------

    @rule(partition=partitions, count=st.integers(1, 8))
    def append(self, partition, count) -> None:
        self.server[partition].length += count

    @rule(partition=partitions, waits=st.booleans())
    def move(self, partition, waits) -> None:
        there = self.server[partition]
        if not there.is_ours:
            there.is_ours, there.is_leaving = True, False
        elif waits and there.served >= there.next:
            there.is_leaving = True
        else:
            there.is_ours = there.is_leaving = False

    @rule(partition=partitions, count=st.integers(1, 4), stores=st.booleans())
    def another_member_works(self, partition, count, stores) -> None:
        there = self.server[partition]
        end = min(there.length, there.next + count)
        if there.is_ours or there.next >= end:
            return
        if self.begins[partition] is None and there.stored is None:
            return  # nobody knows where the group begins before one has stored something
        there.handled |= set(range(there.next, end))
        if stores:
            there.stored = end - 1

    @rule(partition=partitions, count=st.integers(0, 4), seen=st.booleans(), fails=st.booleans())
    def go_and_come_back(self, partition, count, seen, fails) -> None:
        there = self.server[partition]
        there.is_ours = there.is_leaving = False
        if seen:
            self.look(is_same_session=True)
        if count:
            self.another_member_works(partition, count, stores=True)
        if fails:
            for failed in [m for m in self.in_hand if m.partition_id == partition]:
                self.failed(failed)
        there.is_ours = True
        self.look(is_same_session=True)

    # --- Ourselves ---------------------------------------------------------------------------

    @rule(is_same_session=st.booleans())
    def look(self, is_same_session) -> None:
        if not is_same_session:
            for there in self.server:
                there.is_ours = there.is_ours and not there.is_leaving
                there.is_leaving = False
        ours = [n for n, p in enumerate(self.server) if p.is_ours and not p.is_leaving]
        self.ledger.assign(ours, is_continued=is_same_session)
        for progress in self.ledger.with_hold(Hold.DOUBTED):
            there = self.server[progress.partition]
            if there.is_ours and there.stored == progress.stored:
                progress.hold = Hold.LAST_WORK
            else:
                self.ledger.lose(progress)
        for progress in self.ledger.with_hold(Hold.UNSURE):
            self.ledger.open(progress, self.server[progress.partition].stored)
        assert self.ledger.assignment == tuple(ours)

    @rule(times=st.integers(1, 4))
    def poll(self, times) -> None:
        for _ in range(times):
            self.now += 10
            self.poll_once()

    def poll_once(self) -> None:
        progress, _ = self.ledger.next_poll(self.now)
        if progress is None:
            return
        there = self.server[progress.partition]
        if not there.is_ours or there.is_leaving:
            return  # turned away
        start, count = self.ledger.request(progress)
        assert count >= 1
        first = {
            PollingKind.OFFSET: start.value,
            PollingKind.FIRST: 0,
            PollingKind.LAST: max(0, there.length - count),
        }[start.kind]
        offsets = range(first, min(there.length, first + count))
        there.served = max(there.served, *offsets, -1)
        batch = Batch(
            tuple(message(progress.partition, offset) for offset in offsets),
            progress.partition,
            max(0, there.length - 1),
        )
        self.ledger.polled(progress, batch, progress.turn, self.now)
        if self.begins[progress.partition] is None and progress.next_offset is not None:
            begin = self.begins[progress.partition] = progress.next_offset
            there.handled |= set(range(begin))

    @rule(times=st.integers(1, 4))
    def take(self, times) -> None:
        for _ in range(times):
            taken = self.ledger.take()
            if taken is None:
                return
            given = self.given[taken.partition_id]
            assert taken.offset not in given
            given.add(taken.offset)
            self.in_hand.append(taken)

    @precondition(lambda self: self.in_hand)
    @rule(data=st.data())
    def handle(self, data) -> None:
        done = self.in_hand.pop(data.draw(st.integers(0, len(self.in_hand) - 1)))
        self.server[done.partition_id].handled.add(done.offset)
        self.ledger.finish(done)

    @precondition(lambda self: self.in_hand)
    @rule(data=st.data())
    def fail(self, data) -> None:
        self.failed(self.in_hand[data.draw(st.integers(0, len(self.in_hand) - 1))])

    def failed(self, failed) -> None:
        self.in_hand = [message for message in self.in_hand if message is not failed]
        given = self.given[failed.partition_id]
        # Those after it come again as well if the partition is lost before it is handed out.
        given -= {offset for offset in given if offset >= failed.offset}
        self.ledger.put_back(failed)

    @rule()
    def store(self) -> None:
        for progress in self.ledger:
            self.store_one(progress)

    def store_one(self, progress) -> None:
        offset = progress.to_store()
        if offset is None or progress.hold not in {Hold.FULL, Hold.LAST_WORK}:
            return
        there = self.server[progress.partition]
        assert set(range(offset + 1)) <= there.handled
        if progress.stored == there.stored is not None:
            assert offset > there.stored
        if there.is_ours:
            there.store(offset)
            progress.was_stored(offset, progress.fresh)
        else:
            self.ledger.lose(progress)

    # --- What always holds -------------------------------------------------------------------

    @invariant()
    def what_is_stored_was_handled(self) -> None:
        for there in self.server:
            assert there.stored is None or set(range(there.stored + 1)) <= there.handled

    @invariant()
    def the_buffer_is_counted(self) -> None:
        buffered = [m for progress in self.ledger for m in progress.buffer]
        assert self.ledger.buffered_bytes == sum(map(size_of, buffered))

    @invariant()
    def buffers_are_in_order(self) -> None:
        for progress in self.ledger:
            offsets = [m.offset for m in progress.buffer]
            assert offsets == sorted(set(offsets))
            assert progress.hold is not Hold.NONE or not offsets

    @invariant()
    def not_too_much_is_handed_out(self) -> None:
        for progress in self.ledger:
            if progress.unhandled:
                assert max(progress.unhandled) - min(progress.unhandled) <= 10 * self.window

    # --- In the end --------------------------------------------------------------------------

    def teardown(self) -> None:
        """Everything comes to us, and nothing goes wrong any more: then all is handled."""
        if not hasattr(self, "ledger"):
            return
        for there in self.server:
            there.is_ours, there.is_leaving = True, False
        self.look(is_same_session=True)
        for _ in range(PARTITIONS * (3 + sum(there.length for there in self.server))):
            self.poll(1)
            self.take(4)
            while self.in_hand:
                done = self.in_hand.pop()
                self.server[done.partition_id].handled.add(done.offset)
                self.ledger.finish(done)
        self.store()
        for number, there in enumerate(self.server):
            begin = self.begins[number] or 0
            assert set(range(begin, there.length)) <= there.handled
            if there.length > begin:
                assert there.stored == there.length - 1


TestConsuming = Consuming.TestCase
TestConsuming.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
