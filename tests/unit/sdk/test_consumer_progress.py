"""How far a consumer is with its partitions, and what it polls next."""

from types import SimpleNamespace
from typing import Any

import pytest

import windsprite
from windsprite import Commit, From
from windsprite.consumer.commits import Moment
from windsprite.consumer.committing import Committer
from windsprite.consumer.ledger import Ledger, Limits
from windsprite.consumer.pace import SHORTEST, Pace, longest_pause
from windsprite.consumer.progress import Hold, Progress
from windsprite.messages import Batch, ReceivedMessage


def message(partition: int, offset: int, size: int = 1) -> ReceivedMessage:
    return ReceivedMessage(partition, offset, 0, 0, bytes(16), 0, bytes(size))


def messages(*offsets: int) -> list[ReceivedMessage]:
    return [message(0, offset) for offset in offsets]


def opened(stored: int | None = None, start: windsprite.Start | None = None, **options) -> Progress:
    progress = Progress(0, From.first() if start is None else start, **options)
    progress.open(stored, allow_replay=False)
    return progress


def take(progress: Progress, count: int) -> list[ReceivedMessage]:
    return [progress.take() for _ in range(count)]


# --- One partition ---------------------------------------------------------------------------


def test_what_is_not_handled_is_not_stored() -> None:
    progress = opened()
    progress.polled(messages(0, 1, 2, 3), 3)
    first, second, third = take(progress, 3)
    assert progress.to_store() is None
    progress.finish(third)
    assert progress.to_store() is None
    progress.finish(first)
    assert progress.to_store() == 0
    progress.finish(second)
    assert progress.to_store() == 2
    progress.was_stored(2, progress.fresh)
    assert progress.to_store() is None


def test_bug_17_zero_is_an_offset_like_any_other() -> None:
    progress = opened()
    progress.polled(messages(0), 0)
    progress.finish(progress.take())
    assert progress.to_store() == 0
    assert opened(stored=0).start == From.offset(1)


def test_what_was_not_handled_comes_again_before_all_else() -> None:
    progress = opened()
    progress.polled(messages(0, 1, 2, 3), 3)
    first, second, third = take(progress, 3)
    progress.finish(third)
    assert progress.put_back(second)
    assert progress.put_back(first)
    assert [m.offset for m in take(progress, 3)] == [0, 1, 3]
    assert not progress.put_back(third)


def test_a_partition_begins_behind_what_is_stored() -> None:
    assert opened(stored=41).start == From.offset(42)
    assert opened(start=From.timestamp(7)).start == From.timestamp(7)
    assert opened(stored=41, start=From.offset(3), heeds_stored=False).start == From.offset(3)


@pytest.mark.parametrize(
    ("start", "there", "expected"),
    [("new", [], 0), ("new", [9], 10), (From.last(), [], 0), (From.last(), [7, 8, 9], 7)],
)
def test_bug_18_where_it_begins_is_fixed_before_the_first_message(start, there, expected) -> None:
    progress = opened(start=start)
    progress.polled(messages(*there), there[-1] if there else 0)
    assert progress.next_offset == expected


def test_the_beginning_of_a_group_is_stored_if_it_would_move() -> None:
    for start in ("new", From.last()):
        progress = opened(start=start, pins_start=True)
        progress.polled(messages(9), 9)
        assert progress.to_store() == (9 if start == "new" else 8)
    progress = opened(start=From.first(), pins_start=True)
    progress.polled(messages(9), 9)
    assert progress.to_store() is None


def test_what_another_member_has_handled_is_left_out() -> None:
    progress = opened(stored=1)
    progress.polled(messages(2, 3, 4, 5), 5)
    held = progress.take()
    progress.open(3, allow_replay=False)
    assert progress.next_offset == 4
    assert not progress.finish(held)
    progress.open(20, allow_replay=False)
    assert progress.next_offset == 21


def test_what_was_lost_goes_on_where_it_was() -> None:
    progress = opened(stored=1)
    progress.polled(messages(2, 3, 4), 4)
    held = progress.take()
    progress.lose()
    assert (progress.next_offset, len(progress.buffer)) == (3, 0)
    assert not progress.put_back(held)
    progress.open(1, allow_replay=False)
    assert progress.next_offset == 2


def test_a_lower_stored_offset_counts_only_with_replay() -> None:
    for allow_replay, expected in ((False, 5), (True, 3)):
        progress = opened(stored=4)
        progress.open(2, allow_replay=allow_replay)
        assert progress.next_offset == expected


def test_seeking_forgets_what_was_polled_and_handed_out() -> None:
    progress = opened()
    progress.polled(messages(0, 1, 2), 2)
    held = progress.take()
    progress.was_stored(0)
    turn = progress.turn
    progress.seek(From.offset(10))
    assert progress.turn != turn
    assert not progress.finish(held)
    assert progress.to_store() is None
    progress.open(0, allow_replay=False)
    assert progress.next_offset == 10


def test_an_emptied_partition_begins_anew() -> None:
    progress = opened(start="new")
    progress.polled(messages(9), 9)
    assert progress.polled(messages(10), 10)
    assert not progress.polled([], 3)
    progress.reset()
    progress.open(None, allow_replay=False)
    assert progress.start == From.first()


def test_waiting_for_an_offset_that_is_not_there_yet_is_no_sign_of_that() -> None:
    progress = opened(start=From.offset(100))
    assert progress.polled([], 3)
    assert progress.next_offset == 100


# --- All partitions --------------------------------------------------------------------------


def ledger(
    commit: Commit | None = None, start: windsprite.Start | None = None, **limits: float
) -> Ledger:
    values = {"batch_messages": 4, "prefetch_bytes": 10_000, "poll_interval": 1.0}
    made = Ledger(
        Limits(**values | {"max_unhandled": 10} | limits),
        commit or Commit.after_handling(),
        start or From.first(),
        heeds_stored=True,
        is_group=True,
        allow_replay=False,
        has_room=lambda: None,
    )
    made.assign([0, 1])
    for progress in made.with_hold(Hold.UNSURE):
        made.open(progress, None)
    return made


def polled(made: Ledger, partition: int, *offsets: int, size: int = 1) -> None:
    batch = Batch(
        tuple(message(partition, offset, size) for offset in offsets),
        partition,
        offsets[-1] if offsets else 0,
    )
    progress = made[partition]
    made.polled(progress, batch, progress.turn, 0.0)


def taken(made: Ledger, count: int) -> list[tuple[int, int]]:
    found = [made.take() for _ in range(count)]
    return [(m.partition_id, m.offset) for m in found if m is not None]


def test_partitions_are_polled_by_turns() -> None:
    made = ledger()
    turns = []
    for _ in range(4):
        progress, _ = made.next_poll(0.0)
        assert progress is not None
        turns.append(progress.partition)
    assert turns == [0, 1, 0, 1]


def test_messages_are_handed_out_by_turns_of_a_batch() -> None:
    made = ledger(batch_messages=2)
    polled(made, 0, 0, 1, 2, 3, 4)
    polled(made, 1, 0, 1, 2)
    order = [message and message.partition_id for message in [made.take() for _ in range(8)]]
    assert order == [0, 0, 1, 1, 0, 0, 1, 0]


def test_no_more_is_polled_than_there_is_room_for() -> None:
    made = ledger()
    polled(made, 0, 0, size=9_900)
    assert made.next_poll(0.0) == (None, None)
    assert taken(made, 1) == [(0, 0)]
    assert made.next_poll(0.0)[0] is not None
    assert made.request(made[0])[1] == 1
    assert made.buffered_bytes == 0


def test_a_partition_with_enough_in_the_buffer_is_left_alone() -> None:
    made = ledger()
    polled(made, 0, 0, 1, 2)
    progress, _ = made.next_poll(0.0)
    assert progress is made[1]
    progress, _ = made.next_poll(0.0)
    assert progress is made[1]
    taken(made, 1)
    progress, _ = made.next_poll(0.0)
    assert progress is made[0]


def test_a_silent_partition_is_polled_less_and_less_often() -> None:
    pace, pauses = Pace(), []
    for _ in range(12):
        pace.found_nothing(0.0, 1.0)
        pauses.append(pace.ready_at)
    assert pauses[0] == SHORTEST
    assert pauses == sorted(pauses)
    assert pauses[-1] == 1.0
    pace.hurry()
    assert pace.ready_at == 0.0
    assert longest_pause(0.1, 1000) == 5.0


def test_a_paused_partition_neither_polls_nor_gives() -> None:
    made = ledger()
    polled(made, 0, 0, 1)
    made[0].is_paused = True
    assert taken(made, 1) == []
    assert made.next_poll(0.0)[0] is made[1]
    made[0].is_paused = False
    assert taken(made, 3) == [(0, 0), (0, 1)]


def test_handing_out_does_not_run_too_far_ahead() -> None:
    made = ledger(max_unhandled=3)
    polled(made, 0, *range(6))
    oldest = made.take()
    assert oldest is not None
    assert taken(made, 5) == [(0, 1), (0, 2)]
    assert made.waiting_for_handlers == [made[0]]
    made.finish(oldest)
    assert taken(made, 5) == [(0, 3)]


def test_what_was_polled_is_still_worked_on_if_the_server_waits_for_it() -> None:
    made = ledger()
    polled(made, 0, 0, 1)
    first = made.take()
    assert first is not None
    made.assign([1], is_continued=True)
    assert made[0].hold is Hold.DOUBTED
    assert taken(made, 1) == []
    made[0].hold = Hold.LAST_WORK
    assert taken(made, 2) == [(0, 1)]
    assert made.next_poll(0.0)[0] is None or made.next_poll(0.0)[0] is not made[0]
    made.finish(first)
    assert made[0].to_store() == 0


def test_in_a_new_session_nothing_is_waited_for() -> None:
    made = ledger()
    polled(made, 0, 0, 1)
    made.assign([1])
    assert made[0].hold is Hold.NONE
    assert (taken(made, 1), made.buffered_bytes) == ([], 0)
    assert made[1].hold is Hold.UNSURE


def test_what_the_server_has_stored_is_handed_out_whoever_has_the_partition() -> None:
    made = ledger(Commit.on_poll())
    polled(made, 0, 0, 1)
    made.assign([1])
    assert taken(made, 3) == [(0, 0), (0, 1)]
    assert made[0].to_store() is None


def test_what_another_member_has_polled_meanwhile_is_not_polled_again() -> None:
    made = ledger(Commit.on_poll())
    polled(made, 0, 0, 1)
    made.assign([1])
    made.assign([0, 1])
    made.open(made[0], 9)
    assert made.request(made[0])[0] == From.offset(10)
    assert taken(made, 3) == [(0, 0), (0, 1)]


def test_an_answer_to_a_poll_from_before_a_seek_is_dropped() -> None:
    made = ledger()
    turn = made[0].turn
    made.seek(made[0], From.offset(10))
    made.polled(made[0], Batch((message(0, 0),), 0, 0), turn, 0.0)
    assert taken(made, 1) == []
    assert made.request(made[0])[0] == From.offset(10)


def test_an_answer_to_a_poll_from_before_a_partition_was_put_off_is_dropped() -> None:
    made = ledger()
    polled(made, 0, 0, 1, 2)
    turn = made[0].turn
    assert taken(made, 1) == [(0, 0)]
    made[0].is_paused = True
    made.assign([1], is_continued=True)
    assert made[0].hold is Hold.DOUBTED
    made.polled(made[0], Batch((message(0, 3), message(0, 4)), 0, 4), turn, 0.0)
    assert made.request(made[0])[0] == From.offset(1)
    made.assign([0, 1])
    made.open(made[0], None)
    made[0].is_paused = False
    polled(made, 0, 1, 2, 3, 4)
    assert taken(made, 4) == [(0, 1), (0, 2), (0, 3), (0, 4)]


# --- When to store ---------------------------------------------------------------------------


def test_a_number_of_messages_makes_a_store_due() -> None:
    made = ledger(Commit.after_handling(every=2))
    polled(made, 0, 0, 1, 2)
    first, second = made.take(), made.take()
    assert first is not None
    assert second is not None
    made.finish(first)
    assert made.due == ()
    made.finish(second)
    assert made.due == (made[0],)
    made.was_due(made.due)
    assert made.due == ()


def test_a_number_of_messages_is_stored_before_the_last_of_them_is_handed_out() -> None:
    made = ledger(Commit.before_handling(every=3))
    polled(made, 0, *range(7))
    stored = []
    for offset in range(7):
        assert made.next_to_give() is made[0]
        if made.has_to_store(made[0]):
            stored.append(offset)
            made[0].was_stored(offset, made[0].fresh)
            assert not made.has_to_store(made[0])
        message = made.take()
        assert message is not None
        assert message.offset == offset
        assert made.due == ()
    assert stored == [2, 5]
    assert made.to_store(made[0]) == 6
    assert not made.has_to_store(made[0])


@pytest.mark.parametrize("wrong", [{"every": 0}, {"interval": 0.0}, {"interval": -1.0}])
def test_commits_that_make_no_sense(wrong) -> None:
    with pytest.raises(windsprite.InvalidRequest):
        Commit.after_handling(**wrong)


def test_who_stores() -> None:
    assert Commit.after_handling() == Commit(Moment.HANDLED, None, 1.0)
    assert Commit.after_handling().stores_handled
    assert Commit.before_handling().stores_handled
    assert not Commit.on_poll().stores_handled
    assert not Commit.manual().stores_handled


async def test_partitions_may_be_added_while_offsets_are_stored() -> None:
    made = ledger()
    for partition in (0, 1):
        polled(made, partition, 0)
        message = made.take()
        assert message is not None
        made.finish(message)

    class Slow:
        """A place for offsets that takes its time."""

        def __init__(self) -> None:
            self.stored: list[int] = []

        async def store(self, partition: int, offset: int, _: int | None) -> None:
            made.assign([0, 1, 2 + offset + len(self.stored)])
            for progress in made.with_hold(Hold.UNSURE):
                made.open(progress, None)
            self.stored.append(partition)

    source: Any = Slow()
    assigning: Any = SimpleNamespace(is_stale=False, due_at=0.0, session=None)
    await Committer(source, made, assigning).flush(made)
    assert source.stored == [0, 1]
