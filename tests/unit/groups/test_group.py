"""One consumer group: slots, shares, hand-offs, generation (spec 05, 5 to 8)."""

import pytest

from support.group_examples import TIMEOUT, Example
from windsprite_server.groups.group import Group

# --- Members -------------------------------------------------------------------------------------


def test_a_new_group_has_no_members() -> None:
    group = Group(3, TIMEOUT)
    assert group.generation == 0
    assert group.members == ()
    assert group.assignment(b"A") is None
    assert not group.owns(b"A", 0)
    assert not group.may_poll(b"A", 0)


def test_joining_again_changes_nothing() -> None:
    example = Example(3).join("AB")
    before = example.owned, example.group.generation
    example.join("AABB")
    assert (example.owned, example.group.generation) == before


def test_a_joiner_gets_the_lowest_free_slot() -> None:
    example = Example(8).join("ABCDE").leave("BD")
    assert list(example.owned) == [0, 2, 4]
    assert example.join("F").group.clients == (b"A", b"F", b"C", b"E")
    assert example.join("G").group.clients == (b"A", b"F", b"C", b"G", b"E")
    assert list(example.join("H").owned) == [0, 1, 2, 3, 4, 5]


def test_leaving_without_being_a_member_changes_nothing() -> None:
    example = Example(3).join("A").leave("A")
    generation = example.group.generation
    assert not example.group.leave(b"A")
    assert not example.group.leave(b"B")
    assert example.group.generation == generation


def test_others_keep_their_slots_when_one_leaves() -> None:
    example = Example(4).join("ABCD").leave("B")
    assert example.group.clients == (b"A", b"C", b"D")
    assert example.owned == {0: [0, 3], 2: [1], 3: [2]}


# --- Shares while nothing is in flight (spec 05, 6.5) --------------------------------------------

A_LONG_ROW = [[0, 2, 4, 6], [1, 3, 5, 7], [14, 12, 15, 13], [10, 8, 9, 11]]


@pytest.mark.parametrize(
    ("partitions", "joining", "lists"),
    [
        (3, "A", [[0, 1, 2]]),
        (3, "AB", [[0, 1], [2]]),
        (3, "ABC", [[0], [2], [1]]),
        (3, "ABCD", [[0], [2], [1], []]),
        (6, "AB", [[0, 1, 2], [5, 4, 3]]),
        (6, "ABC", [[0, 1], [5, 4], [2, 3]]),
        (6, "ABCDEF", [[0], [5], [2], [3], [4], [1]]),
        (12, "ABCD", [[0, 1, 2], [11, 10, 9], [5, 4, 6], [3, 8, 7]]),
        (10, "ABCD", [[0, 1, 2], [9, 8, 7], [4, 5], [3, 6]]),
        (0, "AB", [[], []]),
    ],
)
def test_joins(partitions: int, joining: str, lists: list[list[int]]) -> None:
    example = Example(partitions).join(joining)
    assert example.lists == lists
    assert example.group.generation == len(joining)
    assert list(example.pollable.values()) == [set(numbers) for numbers in lists]


def test_after_members_left_the_next_ones_take_from_those_that_stayed() -> None:
    example = Example(16).join("ABCD").leave("CD")
    assert example.lists == [list(range(0, 16, 2)), list(range(1, 16, 2))]
    assert example.group.generation == 6
    assert example.join("EF").lists == A_LONG_ROW
    assert example.group.generation == 8


def test_no_more_is_moved_than_has_to_be() -> None:
    example = Example(5).join("ABC").leave("A").join("D")
    assert example.lists == [[4], [0, 2], [1, 3]]
    # One share may be larger than the others. The first member has no use for it, the second has.
    assert example.join("E").lists == [[4], [0, 2], [1], [3]]


def test_partitions_are_added_and_removed() -> None:
    example = Example(3).join("AB")
    example.group.resize(6)
    assert example.lists == [[0, 2, 4], [1, 3, 5]]
    example.group.resize(4)
    assert example.lists == [[0, 2], [1, 3]]
    assert example.group.generation == 4
    assert example.leave("A").owned == {1: [0, 1, 2, 3]}
    assert example.join("C").owned == {0: [3, 2], 1: [0, 1]}
    assert example.group.generation == 6


def test_a_topic_gets_its_first_partitions_after_the_members() -> None:
    example = Example(0).join("AB")
    example.group.resize(3)
    assert example.lists == [[0, 2], [1]]
    assert example.group.generation == 3


def test_the_same_number_of_partitions_is_no_change() -> None:
    example = Example(3).join("AB")
    example.group.resize(3)
    assert example.group.generation == 2


def test_without_members_only_the_generation_moves() -> None:
    example = Example(3).join("A").leave("A")
    example.group.resize(5)
    assert example.group.generation == 3
    assert example.join("B").lists == [[0, 1, 2, 3, 4]]


def test_a_member_with_one_partition_keeps_it() -> None:
    example = Example(3).join("ABC")
    before = example.lists
    assert example.join("DEF").lists == [*before, [], [], []]


# --- Partitions in flight (spec 05, 6.6 and 7) ---------------------------------------------------


def busy() -> Example:
    """A polled all three partitions and committed nothing; B and C joined."""
    return Example(3).join("A").poll("A", 0, 1, 2).join("BC")


def test_joiners_wait_for_what_is_in_flight() -> None:
    example = Example(3).join("A").poll("A", 0, 1, 2).join("B")
    assert example.lists == [[0, 1, 2], []]
    assert example.pollable == {"A": {0, 1}, "B": set()}
    example.join("C")
    assert example.lists == [[0, 1, 2], [], []]
    assert example.pollable == {"A": {0}, "B": set(), "C": set()}
    assert example.group.generation == 3


def test_each_commit_finishes_one_handoff() -> None:
    example = busy().commit("A", 2)
    assert example.lists == [[0, 1], [2], []]
    assert example.pollable == {"A": {0}, "B": {2}, "C": set()}
    assert example.group.generation == 4
    example.commit("A", 1)
    assert example.lists == [[0], [2], [1]]
    assert example.group.generation == 5
    assert example.group.deadline is None


def test_the_timeout_finishes_all_handoffs() -> None:
    example = busy().wait(TIMEOUT)
    assert example.lists == [[0], [2], [1]]
    assert example.group.generation == 5


def test_each_handoff_has_its_own_time() -> None:
    example = Example(3).join("A").poll("A", 0, 1, 2).join("B").wait(10).join("C")
    assert example.group.deadline == TIMEOUT
    assert example.wait(19.9).lists == [[0, 1, 2], [], []]
    assert example.wait(0.1).lists == [[0, 1], [2], []]
    assert example.group.deadline == TIMEOUT + 10
    assert example.wait(10).lists == [[0], [2], [1]]
    assert example.group.deadline is None


def test_a_member_that_leaves_ends_all_handoffs() -> None:
    example = busy().leave("B")
    assert example.owned == {0: [0, 2], 2: [1]}
    assert example.pollable == {"A": {0, 2}, "C": {1}}
    assert example.group.generation == 4
    assert example.group.deadline is None


def test_the_source_of_handoffs_leaves() -> None:
    example = busy().leave("A")
    assert example.owned == {1: [0, 2], 2: [1]}
    assert example.pollable == {"B": {0, 2}, "C": {1}}


def test_new_partitions_end_all_handoffs() -> None:
    example = busy()
    example.group.resize(6)
    assert example.lists == [[0, 3], [1, 4], [2, 5]]
    assert example.group.deadline is None


def test_a_purge_ends_all_handoffs() -> None:
    example = busy()
    example.group.purge(example.now)
    assert example.lists == [[0], [2], [1]]
    assert example.group.generation == 5


def test_a_purge_without_handoffs_changes_nothing() -> None:
    example = Example(3).join("AB").poll("A", 0)
    example.group.purge(example.now)
    assert example.lists == [[0, 1], [2]]
    assert example.group.generation == 2
    assert example.join("C").lists == [[0], [2], [1]]


def test_a_commit_below_what_was_delivered_is_not_enough() -> None:
    example = Example(2).join("A").poll("A", 0, 1).join("B").commit("A", 1, offset=8)
    assert example.lists == [[0, 1], []]
    assert example.commit("A", 1).lists == [[0], [1]]


def test_a_commit_beyond_what_was_delivered_is() -> None:
    example = Example(2).join("A").poll("A", 0, 1).join("B")
    assert example.commit("A", 1, offset=100).lists == [[0], [1]]


def test_a_commit_of_another_partition_moves_nothing() -> None:
    example = Example(2).join("A").poll("A", 0, 1).join("B").commit("A", 0)
    assert example.lists == [[0, 1], []]


def test_what_is_committed_with_the_poll_is_not_in_flight() -> None:
    example = Example(2).join("A")
    for number in (0, 1):
        example.group.delivered(b"A", number, 9, 9)
    assert example.join("B").lists == [[0], [1]]


def test_a_poll_back_of_what_is_committed_is_not_in_flight() -> None:
    example = Example(2).join("A")
    for number in (0, 1):
        example.group.delivered(b"A", number, 5, 9)
    assert example.join("B").lists == [[0], [1]]


def test_a_poll_back_does_not_take_back_what_was_delivered_before() -> None:
    example = Example(2).join("A").poll("A", 0, 1)
    for number in (0, 1):
        example.group.delivered(b"A", number, 5, None)
    example.commit("A", 0, 1, offset=5).join("B")
    assert example.lists == [[0, 1], []]
    assert example.commit("A", 1).lists == [[0], [1]]


def test_an_offset_stored_backwards_is_in_flight_again() -> None:
    example = Example(2).join("A").poll("A", 0, 1).commit("A", 0, 1).commit("A", 1, offset=3)
    assert example.join("B").lists == [[0, 1], []]


def test_a_deleted_offset_is_in_flight_again() -> None:
    example = Example(2).join("A").poll("A", 0, 1).commit("A", 0, 1).commit("A", 1, offset=None)
    assert example.join("B").lists == [[0, 1], []]


def test_only_what_would_move_is_looked_at() -> None:
    example = Example(2).join("A").poll("A", 0)
    assert example.join("B").lists == [[0], [1]]


def test_the_source_still_commits_and_the_target_does_not_yet() -> None:
    example = Example(2).join("A").poll("A", 0, 1).join("B")
    group = example.group
    assert group.owns(b"A", 1)
    assert not group.may_poll(b"A", 1)
    assert not group.owns(b"B", 1)
    assert not group.may_poll(b"B", 1)
    example.commit("A", 1)
    assert not group.owns(b"A", 1)
    assert group.may_poll(b"B", 1)
    group.committed(b"A", 1, 3, example.now)
    assert example.lists == [[0], [1]]


def test_what_others_were_given_does_not_count() -> None:
    example = Example(2).join("AB")
    example.group.delivered(b"A", 1, 9, None)
    example.group.delivered(b"C", 0, 9, None)
    assert example.leave("A").join("C").lists == [[1], [0]]


def test_nobody_waits_for_a_member_that_never_polled_what_it_inherited() -> None:
    example = Example(2).join("A").poll("A", 0, 1).join("B").wait(TIMEOUT)
    assert example.lists == [[0], [1]]
    # B has 1, which A had been given; B has 0 as well after A left, which it never polled.
    assert example.leave("A").join("C").owned == {0: [1], 1: [0]}


def test_what_stays_with_its_owner_stays_in_flight() -> None:
    example = Example(3).join("AB").poll("A", 1).leave("B")
    assert example.lists == [[0, 1, 2]]
    assert example.join("BC").lists == [[0, 1], [2], []]
    assert example.commit("A", 1).lists == [[0], [2], [1]]


def test_rejoining_an_empty_group_waits_for_nobody() -> None:
    example = Example(3).join("A").poll("A", 0, 1, 2).leave("A").join("BC")
    assert example.lists == [[0, 1], [2]]
    assert example.pollable == {"B": {0, 1}, "C": {2}}


def test_who_came_while_all_was_promised_gets_its_share_in_the_end() -> None:
    example = Example(4).join("A").poll("A", 0, 1, 2, 3).join("BC")
    assert example.pollable == {"A": {0, 1}, "B": set(), "C": set()}
    example.commit("A", 3)
    assert example.lists == [[0, 1, 2], [3], []]
    generation = example.group.generation
    example.commit("A", 2)
    assert example.lists == [[0, 1], [3], [2]]
    assert example.group.generation == generation + 2


def test_shares_are_evened_out_when_the_last_handoff_ends() -> None:
    example = Example(6).join("A").poll("A", *range(6)).join("BC")
    assert example.pollable == {"A": {0, 1}, "B": set(), "C": set()}
    example.commit("A", 5, 4, 3)
    assert example.lists == [[0, 1, 2], [5, 4, 3], []]
    example.wait(TIMEOUT)
    assert example.lists == [[0, 1], [5, 4], [2, 3]]


# --- A whole exchange (spec 05, 15.9) ------------------------------------------------------------


def test_an_exchange_of_three_clients() -> None:
    example = Example(3).join("A")
    assert (example.owned, example.group.generation) == ({0: [0, 1, 2]}, 1)
    example.poll("A", 0).join("B")
    assert (example.owned, example.group.generation) == ({0: [0, 1], 1: [2]}, 2)
    example.poll("A", 1)
    assert not example.group.may_poll(b"A", 2)
    example.join("C")
    assert (example.owned, example.group.generation) == ({0: [0, 1], 1: [2], 2: []}, 3)
    assert not example.group.may_poll(b"A", 1)
    example.commit("A", 1)
    assert (example.owned, example.group.generation) == ({0: [0], 1: [2], 2: [1]}, 4)
    assert not example.group.owns(b"A", 1)
    example.leave("A")
    assert (example.owned, example.group.generation) == ({1: [0, 2], 2: [1]}, 5)
