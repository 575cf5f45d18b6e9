"""Which calls may be under way at the same time: the rules, and any run against a slow model."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windsprite.order import LOOKAHEAD, Lane, Order, Rank, Turn, Whole, rank_of
from windsprite_protocol.model.groups import JoinConsumerGroup, SyncConsumerGroup
from windsprite_protocol.model.identifiers import (
    AckLevel,
    Balanced,
    ByKey,
    Consumer,
    ConsumerKind,
    Partitioning,
    PollingStrategy,
    ToPartition,
)
from windsprite_protocol.model.messages import PollMessages, SendMessages
from windsprite_protocol.model.offsets import GetConsumerOffset, StoreConsumerOffset
from windsprite_protocol.model.sessions import Logout
from windsprite_protocol.model.streams import CreateStream, GetStreams

ME = Consumer(ConsumerKind.SINGLE, 0)


def send(partitioning: Partitioning, topic: Any = "t", stream: Any = "s") -> Rank:
    return rank_of(SendMessages(stream, topic, partitioning, 1, b""))


def poll(*, auto_commit: bool) -> Rank:
    return rank_of(PollMessages(ME, "s", "t", 0, PollingStrategy.next(), 1, auto_commit))


def may_overlap(first: Rank, second: Rank) -> bool:
    order = Order()
    order.enter(first)
    return order.enter(second).has_begun


def test_sends_to_what_may_be_one_partition_are_in_order() -> None:
    zero, one = send(ToPartition(0)), send(ToPartition(1))
    for anywhere in (send(Balanced()), send(ByKey(b"a"))):
        for other in (zero, one, anywhere, send(ByKey(b"b"))):
            assert not may_overlap(anywhere, other)
            assert not may_overlap(other, anywhere)
    assert not may_overlap(zero, zero)
    assert may_overlap(zero, one)
    assert may_overlap(zero, send(ToPartition(0), "other"))
    assert may_overlap(zero, send(ToPartition(0), "t", "other"))
    assert may_overlap(send(Balanced()), send(Balanced(), "other"))


def test_offsets_are_in_order_and_reads_are_not() -> None:
    store = rank_of(StoreConsumerOffset(ME, "s", "t", 0, 7, AckLevel.QUORUM))
    assert not may_overlap(store, store)
    assert not may_overlap(store, poll(auto_commit=True))
    assert may_overlap(store, send(ToPartition(0)))
    for read in (
        poll(auto_commit=False),
        rank_of(GetStreams()),
        rank_of(GetConsumerOffset(ME, "s", "t", 0)),
        rank_of(SyncConsumerGroup("s", "t", "g")),
    ):
        assert read is Whole.FREE
        assert may_overlap(store, read)
        assert may_overlap(read, read)


def test_what_changes_metadata_or_the_session_is_alone() -> None:
    for request in (CreateStream("s"), JoinConsumerGroup("s", "t", "g"), Logout()):
        barrier = rank_of(request)
        for other in (Whole.FREE, send(ToPartition(0)), barrier):
            assert not may_overlap(barrier, other)
            assert not may_overlap(other, barrier)


PARTITIONS = st.one_of(st.none(), st.integers(0, 2))
LANES = st.builds(Lane, st.sampled_from(["a", "b"]), PARTITIONS)
RANKS = st.one_of(LANES, st.sampled_from(Whole))


def conflicts(first: Rank, second: Rank) -> bool:
    if Whole.BARRIER in (first, second):
        return True
    if not isinstance(first, Lane) or not isinstance(second, Lane):
        return False
    return first.topic == second.topic and (
        None in (first.partition, second.partition) or first.partition == second.partition
    )


@given(st.lists(st.one_of(RANKS, st.integers(0, 30)), max_size=60))
def test_a_call_begins_as_soon_as_nothing_before_it_is_in_its_way(
    steps: list[Rank | int],
) -> None:
    order = Order()
    calls: list[Turn] = []
    for step in steps:
        before = {id(turn) for turn in calls if turn.has_begun}
        if isinstance(step, int):
            if not calls:
                continue
            turn = calls.pop(step % len(calls))  # one that goes on, or one that is given up
            begun = {id(turn) for turn in order.leave(turn)}
            assert begun == {id(turn) for turn in calls if turn.has_begun} - before
        else:
            calls.append(order.enter(step))
        for index, turn in enumerate(calls):
            in_the_way = any(conflicts(other.rank, turn.rank) for other in calls[:index])
            assert turn.has_begun is not in_the_way


@pytest.mark.parametrize(
    "rank",
    [
        send(Balanced(), topic=["t"]),
        send(Balanced(), stream={"s"}),
        send(ToPartition(cast("int", [0]))),
    ],
)
def test_a_call_with_what_cannot_be_a_name_or_a_number_is_not_remembered(rank: Rank) -> None:
    order = Order()
    with pytest.raises(TypeError):
        order.enter(rank)
    for other in (send(ToPartition(0)), Whole.BARRIER):
        turn = order.enter(other)
        assert turn.has_begun
        order.leave(turn)


def test_a_long_queue_costs_no_more_than_a_look_ahead() -> None:
    order = Order()
    first = [order.enter(Lane("t", 0)) for _ in range(LOOKAHEAD)]
    last = order.enter(Lane("t", 1))
    assert not last.has_begun
    begun = order.leave(first[0])
    assert begun == [first[1], last]
