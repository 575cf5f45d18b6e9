"""What metadata commands, sessions and time do to the members of consumer groups."""

import errno
from collections.abc import AsyncIterator

import pytest

from support.log import append
from support.partitions import PartitionNode
from windsprite_server.group_coordinator import GroupCoordinator
from windsprite_server.groups.registry import GroupKey
from windsprite_server.log.partition import PartitionLog
from windsprite_server.metadata import commands as c
from windsprite_server.session import Session

TIMEOUT = 3.0
G = GroupKey(0, 0, 0)
H = GroupKey(0, 0, 1)


class GroupNode(PartitionNode):
    """Metadata, logs and the members of groups together: topic `t` with groups `g` and `h`."""

    def open(self) -> None:
        super().open()
        self.coordinator = GroupCoordinator(
            self.machine.state,
            self.partitions,
            self.clock,
            self.logger,
            rebalancing_timeout=TIMEOUT,
        )
        self.groups = self.coordinator.groups

    async def close(self) -> None:
        await self.coordinator.stop()
        await super().close()

    async def do(self, command: c.Command) -> None:
        await super().do(command)
        for effect in self.machine.last.effects:
            self.coordinator.follow(effect)

    def shares(self, key: GroupKey = G) -> list[tuple[int, ...]]:
        return [member.partitions for member in self.groups.members(key)]

    def hand_over(self, key: GroupKey = G) -> None:
        """A has a batch of its last partition in flight when B joins."""
        now = self.clock.monotonic()
        self.groups.join(key, b"A", 2, now)
        self.groups.delivered(key, b"A", 1, 5, None)
        self.groups.join(key, b"B", 2, now)
        assert self.shares(key) == [(0, 1), ()]


@pytest.fixture
async def node() -> AsyncIterator[GroupNode]:
    node = GroupNode()
    await node.topic(partitions=2, segment_size=1 << 20)
    for name in "gh":
        await node.do(c.CreateConsumerGroup("s", "t", name))
    node.coordinator.start()
    yield node
    await node.close()


def stored(log: PartitionLog) -> dict[int, int | None]:
    return {number: log.offsets.groups.get(number) for number in log.offsets.groups}


# --- Time ----------------------------------------------------------------------------------------


async def test_handoffs_end_when_their_time_is_over(node: GroupNode) -> None:
    node.hand_over(G)
    await node.clock.advance(1)
    node.hand_over(H)
    await node.clock.advance(1.9)
    assert node.shares(G) == [(0, 1), ()]
    await node.clock.advance(0.1)
    assert (node.shares(G), node.shares(H)) == ([(0,), (1,)], [(0, 1), ()])
    await node.clock.advance(1)
    assert node.shares(H) == [(0,), (1,)]


async def test_time_is_watched_again_after_all_was_quiet(node: GroupNode) -> None:
    for _ in range(3):
        node.hand_over()
        await node.clock.advance(1)
        node.groups.committed(G, b"A", 1, 5, node.clock.monotonic())
        assert node.shares() == [(0,), (1,)]
        await node.clock.advance(100)
        node.groups.leave_all(b"A")
        node.groups.leave_all(b"B")
        node.hand_over()
        await node.clock.advance(TIMEOUT)
        assert node.shares() == [(0,), (1,)]
        node.groups.leave_all(b"A")
        node.groups.leave_all(b"B")


async def test_a_commit_that_came_while_the_server_stood_still_is_in_time(
    node: GroupNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.hand_over(G)
    node.hand_over(H)
    sleep = node.clock.sleep
    owned: list[bool] = []

    async def read_between_turns(seconds: float) -> None:
        await sleep(seconds)
        if seconds <= 0 and not owned:
            owned.append(node.groups.owns(G, b"A", 1))
            node.groups.committed(G, b"A", 1, 5, node.clock.monotonic())

    monkeypatch.setattr(node.clock, "sleep", read_between_turns)
    node.clock.tick(100 * TIMEOUT)
    await node.clock.advance(0)
    assert owned == [True]
    assert node.shares(G) == node.shares(H) == [(0,), (1,)]


async def test_nothing_happens_by_itself_once_it_is_stopped(node: GroupNode) -> None:
    node.hand_over()
    await node.coordinator.stop()
    await node.clock.advance(10 * TIMEOUT)
    assert node.shares() == [(0, 1), ()]


async def test_a_coordinator_that_was_never_started_can_be_stopped() -> None:
    node = GroupNode()
    await node.close()


# --- Sessions ------------------------------------------------------------------------------------


async def test_the_end_of_a_session(node: GroupNode) -> None:
    for key in (G, H):
        node.groups.join(key, b"A", 2, 0)
        node.groups.join(key, b"B", 2, 0)
    node.coordinator.end_session(Session(b"A", 1, 0))
    assert node.groups.memberships(b"A") == []
    assert node.shares(G) == node.shares(H) == [(0, 1)]


# --- Metadata ------------------------------------------------------------------------------------


async def test_partitions_come_and_go(node: GroupNode) -> None:
    node.groups.join(G, b"A", 2, 0)
    await node.do(c.CreatePartitions("s", "t", 2))
    assert node.shares() == [(0, 1, 2, 3)]
    await node.do(c.DeletePartitions("s", "t", 3))
    assert node.shares() == [(0,)]


@pytest.mark.parametrize("command", [c.PurgeTopic("s", "t"), c.PurgeStream("s")])
async def test_a_purge(node: GroupNode, command: c.Command) -> None:
    node.hand_over()
    await node.do(command)
    assert node.shares() == [(0,), (1,)]


@pytest.mark.parametrize("command", [c.DeleteTopic("s", "t"), c.DeleteStream("s")])
@pytest.mark.parametrize("partitions", [2, 0])
async def test_a_topic_is_deleted(node: GroupNode, command: c.Command, partitions: int) -> None:
    if not partitions:
        await node.do(c.DeletePartitions("s", "t", 2))
    node.groups.join(G, b"A", partitions, 0)
    await node.do(command)
    assert not node.groups.is_member(b"A")


async def test_a_group_is_deleted_with_its_members_and_offsets(node: GroupNode) -> None:
    node.groups.join(G, b"A", 2, 0)
    node.groups.join(H, b"A", 2, 0)
    logs = node.logs()
    for log in logs:
        append(log, b"x", b"y")
        log.offsets.groups.store(0, 1)
        log.offsets.groups.store(1, 0)
        log.offsets.consumers.store(0, 0)
    await node.do(c.DeleteConsumerGroup("s", "t", "g"))
    assert node.groups.memberships(b"A") == [H]
    assert [stored(log) for log in logs] == [{1: 0}] * 2
    assert [log.offsets.consumers.get(0) for log in logs] == [0, 0]


async def test_what_the_disk_does_not_let_go_of_goes_at_the_next_start(node: GroupNode) -> None:
    for log in node.logs():
        append(log, b"x")
        log.offsets.groups.store(0, 0)
        log.offsets.groups.store(1, 0)
    node.files.refuses = {"write": errno.EIO}
    await node.do(c.DeleteConsumerGroup("s", "t", "g"))
    assert [stored(log) for log in node.logs()] == [{0: 0, 1: 0}] * 2
    assert [event["group"] for event in node.events("deleted consumer group")] == [0, 0]
    node.files.refuses = {}
    await node.close()
    node.open()
    node.coordinator.start()
    assert [stored(log) for log in node.logs()] == [{1: 0}] * 2


async def test_what_a_crash_left_of_a_deleted_group_goes_at_the_start(node: GroupNode) -> None:
    for log in node.logs():
        append(log, b"x")
        log.offsets.groups.store(1, 0)
    node.machine.do(c.DeleteConsumerGroup("s", "t", "h"))  # and the server dies
    await node.close()
    node.open()
    assert [stored(log) for log in node.logs()] == [{1: 0}] * 2
    node.coordinator.start()
    assert [stored(log) for log in node.logs()] == [{}] * 2


async def test_partitions_that_could_not_be_opened_are_passed_over(node: GroupNode) -> None:
    _, opened = node.logs()
    append(opened, b"x")
    opened.offsets.groups.store(0, 0)
    opened.offsets.groups.store(1, 0)
    node.partitions.condemn(node.places()[0])
    await node.do(c.DeleteConsumerGroup("s", "t", "g"))
    assert stored(opened) == {1: 0}
    node.machine.do(c.DeleteConsumerGroup("s", "t", "h"))
    await node.coordinator.stop()
    node.coordinator.start()
    assert stored(opened) == {}
