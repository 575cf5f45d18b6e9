"""How connections share the memory for requests."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from windsprite_server.transport.receive_memory import ReceiveMemory

LIMIT = 100


class Reader:
    """A connection that notes what it was told."""

    def __init__(self, memory: ReceiveMemory) -> None:
        self.memory = memory
        self.may_read = True
        self.holds = 0
        self.wants = 0

    def take(self, size: int) -> bool:
        self.wants = size
        self.may_read = self.memory.hold(self, size)
        if self.may_read:
            self.holds = size
        return self.may_read

    def memory_available(self) -> None:
        assert not self.may_read
        self.may_read = True
        self.holds = self.wants


@pytest.fixture
def memory() -> ReceiveMemory:
    return ReceiveMemory(LIMIT)


def test_what_fits_is_granted(memory: ReceiveMemory) -> None:
    readers = [Reader(memory) for _ in range(4)]
    assert all(reader.take(25) for reader in readers)
    assert memory.used == LIMIT
    for reader in readers:
        reader.take(0)
    assert memory.used == 0


def test_one_goes_beyond_the_limit_and_the_others_wait_in_their_order(
    memory: ReceiveMemory,
) -> None:
    first, second, third = (Reader(memory) for _ in range(3))
    assert first.take(60)
    assert second.take(70), "somebody has to go on"
    assert not memory.is_short
    assert not third.take(30)
    assert not first.take(90)
    assert memory.is_short
    assert memory.used == 130
    second.take(0)
    assert third.may_read
    assert first.may_read, "favoured now"
    assert memory.used == 90 + 30
    assert not memory.is_short


def test_who_waited_longest_is_favoured_next(memory: ReceiveMemory) -> None:
    holder = Reader(memory)
    holder.take(1000)
    waiting = [Reader(memory) for _ in range(3)]
    for reader in waiting:
        assert not reader.take(1000)
    for number, reader in enumerate(waiting):
        holder.take(0)
        assert [other.may_read for other in waiting[number:]] == [True] + [False] * (2 - number)
        holder = reader


def test_favour_ends_when_all_are_within_the_limit(memory: ReceiveMemory) -> None:
    holder, favoured, other = (Reader(memory) for _ in range(3))
    holder.take(60)
    favoured.take(80)
    assert not other.take(50)
    favoured.take(41)
    assert favoured.take(80), "it is needed still"
    assert not other.may_read
    favoured.take(40)
    assert other.may_read
    assert not favoured.take(80)


def test_who_leaves_while_waiting_makes_room_for_those_behind(memory: ReceiveMemory) -> None:
    holder, favoured, large, small = (Reader(memory) for _ in range(4))
    holder.take(80)
    favoured.take(30)
    assert not large.take(50)
    assert not small.take(10)
    holder.take(60)
    assert not small.may_read, "it is behind"
    large.take(0)
    assert small.may_read


def test_a_smaller_wish_may_fit_at_once(memory: ReceiveMemory) -> None:
    holder, favoured, reader = (Reader(memory) for _ in range(3))
    holder.take(50)
    favoured.take(60)
    assert not reader.take(40)
    holder.take(20)
    assert not reader.may_read
    assert reader.take(20)
    assert memory.used == LIMIT


class Sharing(RuleBasedStateMachine):
    """Any number of connections in any order: the limit holds, and nobody waits for nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = ReceiveMemory(LIMIT)
        self.readers = [Reader(self.memory) for _ in range(6)]

    @rule(number=st.integers(0, 5), more=st.integers(1, 80))
    def grow(self, number: int, more: int) -> None:
        reader = self.readers[number]
        if reader.may_read:
            reader.take(min(LIMIT, reader.holds + more))

    @rule(number=st.integers(0, 5), part=st.integers(0, 100))
    def shrink(self, number: int, part: int) -> None:
        reader = self.readers[number]
        reader.take(reader.holds * part // 100)

    @invariant()
    def the_sum_is_right(self) -> None:
        assert self.memory.used == sum(reader.holds for reader in self.readers)

    @invariant()
    def at_most_one_is_beyond_the_limit(self) -> None:
        assert self.memory.used <= LIMIT + max(reader.holds for reader in self.readers)

    @invariant()
    def somebody_can_go_on(self) -> None:
        holders = [reader for reader in self.readers if reader.holds or not reader.may_read]
        assert not holders or any(reader.may_read for reader in holders)

    def teardown(self) -> None:
        for _ in range(20):
            for reader in self.readers:
                if reader.may_read:
                    reader.take(0)
        assert all(reader.may_read for reader in self.readers)
        assert self.memory.used == 0


TestSharing = Sharing.TestCase
TestSharing.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
