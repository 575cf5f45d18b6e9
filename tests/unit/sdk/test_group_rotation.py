"""The turns in which a member polls its partitions."""

from windsprite.memberships import Rotation
from windsprite_protocol.model.groups import GroupAssignment


def rotation(*partitions: int, generation: int = 1, told_at: float = 100.0) -> Rotation:
    return Rotation(GroupAssignment(generation, partitions), session=1, told_at=told_at)


def test_partitions_are_taken_by_turns_in_their_order() -> None:
    turns = rotation(4, 0, 7)
    assert [turns.next() for _ in range(7)] == [4, 0, 7, 4, 0, 7, 4]


def test_there_may_be_no_partition() -> None:
    assert rotation().next() is None


def test_turns_go_on_while_nothing_has_changed() -> None:
    before = rotation(0, 1, 2)
    before.next()
    same = rotation(0, 1, 2, told_at=200.0)
    same.follow(before)
    assert same.next() == 1
    for changed in (rotation(0, 1, 2, generation=2), rotation(0, 1)):
        changed.follow(before)
        assert changed.next() == 0


def test_what_is_old_or_of_another_session_is_asked_for_again() -> None:
    told = rotation(0)
    assert told.is_fresh(session=1, now=104.9, max_age=5)
    assert not told.is_fresh(session=1, now=105.0, max_age=5)
    assert not told.is_fresh(session=2, now=100.0, max_age=5)


def test_who_has_no_partition_always_asks() -> None:
    assert not rotation().is_fresh(session=1, now=100.0, max_age=5)
