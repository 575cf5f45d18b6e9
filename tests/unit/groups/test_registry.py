"""All groups: who is a member of what, and what happens to topics (spec 05, 5.3 and 11)."""

from collections.abc import Callable

import pytest

from windsprite_protocol.model.groups import GroupAssignment, GroupMember
from windsprite_server.groups.registry import GroupKey, Groups

BILLING = GroupKey(0, 0, 0)
AUDIT = GroupKey(0, 0, 1)
ELSEWHERE = GroupKey(0, 1, 0)
TIMEOUT = 3.0


@pytest.fixture
def alarms() -> list[str]:
    """One entry for each time that hand-offs began."""
    return []


@pytest.fixture
def groups(alarms: list[str]) -> Groups:
    return Groups(TIMEOUT, lambda: alarms.append("!"))


def lists(groups: Groups, key: GroupKey) -> list[tuple[int, ...]]:
    return [member.partitions for member in groups.members(key)]


def test_a_group_that_nobody_joined(groups: Groups) -> None:
    assert groups.members(BILLING) == ()
    assert groups.members_count(BILLING) == 0
    assert groups.assignment(BILLING, b"A") is None
    assert groups.memberships(b"A") == []
    assert not groups.is_member(b"A")
    assert not groups.owns(BILLING, b"A", 0)
    assert not groups.may_poll(BILLING, b"A", 0)
    assert not groups.leave(BILLING, b"A")
    assert groups.deadline is None
    groups.leave_all(b"A")
    groups.delivered(BILLING, b"A", 0, 1, None)
    groups.committed(BILLING, b"A", 0, 1, 0)
    groups.delete(BILLING)
    groups.delete_topic(0, 0)
    groups.resize(0, 0, 5)
    groups.purge(0, 0, 0)
    groups.finish_handoffs(0)


def test_members_of_one_group(groups: Groups) -> None:
    groups.join(BILLING, b"A", 3, 0)
    groups.join(BILLING, b"B", 3, 0)
    assert groups.members(BILLING) == (GroupMember(0, (0, 1)), GroupMember(1, (2,)))
    assert groups.members_count(BILLING) == 2
    assert groups.assignment(BILLING, b"B") == GroupAssignment(2, (2,))
    assert groups.may_poll(BILLING, b"A", 1)
    assert not groups.may_poll(BILLING, b"A", 2)
    assert groups.leave(BILLING, b"A")
    assert not groups.leave(BILLING, b"A")
    assert groups.members(BILLING) == (GroupMember(1, (0, 1, 2)),)
    assert not groups.is_member(b"A")


def test_groups_do_not_know_each_other(groups: Groups) -> None:
    for key in (ELSEWHERE, AUDIT, BILLING):
        groups.join(key, b"A", 2, 0)
    groups.join(AUDIT, b"B", 2, 0)
    assert groups.memberships(b"A") == [BILLING, AUDIT, ELSEWHERE]
    assert lists(groups, BILLING) == [(0, 1)]
    assert lists(groups, AUDIT) == [(0,), (1,)]
    groups.leave(AUDIT, b"A")
    assert groups.memberships(b"A") == [BILLING, ELSEWHERE]
    assert groups.memberships(b"B") == [AUDIT]
    assert lists(groups, BILLING) == [(0, 1)]


def test_the_end_of_a_session_ends_all_its_memberships(groups: Groups) -> None:
    for key in (BILLING, AUDIT, ELSEWHERE):
        groups.join(key, b"A", 2, 0)
        groups.join(key, b"B", 2, 0)
    groups.leave_all(b"A")
    assert groups.memberships(b"A") == []
    assert groups.memberships(b"B") == [BILLING, AUDIT, ELSEWHERE]
    assert all(lists(groups, key) == [(0, 1)] for key in (BILLING, AUDIT, ELSEWHERE))


def test_a_deleted_group_has_no_members_and_a_new_one_begins_anew(groups: Groups) -> None:
    groups.join(BILLING, b"A", 2, 0)
    groups.join(AUDIT, b"A", 2, 0)
    groups.delete(BILLING)
    assert groups.memberships(b"A") == [AUDIT]
    assert groups.assignment(BILLING, b"A") is None
    groups.join(BILLING, b"A", 2, 0)
    assert groups.assignment(BILLING, b"A") == GroupAssignment(1, (0, 1))


def test_a_deleted_topic_takes_its_groups_with_it(groups: Groups) -> None:
    for key in (BILLING, AUDIT, ELSEWHERE):
        groups.join(key, b"A", 2, 0)
    groups.delete_topic(0, 0)
    assert groups.memberships(b"A") == [ELSEWHERE]
    assert groups.members(BILLING) == groups.members(AUDIT) == ()


def test_partitions_change_in_all_groups_of_the_topic(groups: Groups) -> None:
    for key in (BILLING, AUDIT, ELSEWHERE):
        groups.join(key, b"A", 2, 0)
    groups.resize(0, 0, 3)
    assert lists(groups, BILLING) == lists(groups, AUDIT) == [(0, 1, 2)]
    assert lists(groups, ELSEWHERE) == [(0, 1)]


def test_who_joins_is_believed_how_many_partitions_there_are(groups: Groups) -> None:
    groups.join(BILLING, b"A", 2, 0)
    groups.join(BILLING, b"B", 4, 0)
    assert lists(groups, BILLING) == [(0, 1), (3, 2)]
    groups.resize(0, 0, 4)
    assert lists(groups, BILLING) == [(0, 1), (3, 2)]


def test_a_handoff_asks_to_be_looked_at(groups: Groups, alarms: list[str]) -> None:
    for key in (BILLING, AUDIT):
        groups.join(key, b"A", 2, 10)
        groups.delivered(key, b"A", 1, 5, None)
    assert alarms == []
    groups.join(BILLING, b"B", 2, 10)
    assert alarms == ["!"]
    assert groups.deadline == 10 + TIMEOUT
    groups.join(AUDIT, b"B", 2, 11)
    assert alarms == ["!"]
    groups.committed(BILLING, b"A", 1, 5, 12)
    assert lists(groups, BILLING) == [(0,), (1,)]
    assert groups.deadline == 11 + TIMEOUT
    groups.finish_handoffs(13)
    assert lists(groups, AUDIT) == [(0, 1), ()]
    groups.finish_handoffs(11 + TIMEOUT)
    assert lists(groups, AUDIT) == [(0,), (1,)]
    assert groups.deadline is None


@pytest.mark.parametrize(
    "event",
    [
        lambda groups: groups.leave(BILLING, b"A"),
        lambda groups: groups.leave_all(b"B"),
        lambda groups: groups.resize(0, 0, 5),
        lambda groups: groups.purge(0, 0, 1),
        lambda groups: groups.delete(BILLING),
        lambda groups: groups.delete_topic(0, 0),
    ],
)
def test_what_ends_handoffs_needs_no_timer(
    groups: Groups, alarms: list[str], event: Callable[[Groups], object]
) -> None:
    groups.join(BILLING, b"A", 2, 0)
    groups.delivered(BILLING, b"A", 1, 5, None)
    groups.join(BILLING, b"B", 2, 0)
    assert groups.deadline == TIMEOUT
    event(groups)
    assert groups.deadline is None
    assert alarms == ["!"]


def test_a_purge_completes_handoffs(groups: Groups) -> None:
    groups.join(BILLING, b"A", 2, 0)
    groups.delivered(BILLING, b"A", 1, 5, None)
    groups.join(BILLING, b"B", 2, 0)
    groups.purge(0, 0, 1)
    assert lists(groups, BILLING) == [(0,), (1,)]
