"""Silent members of consumer groups are logged out; nobody else is (spec 01, 7.3; spec 05, 5.4)."""

import io
import json
from collections.abc import AsyncIterator
from math import inf

import pytest

from support.clock import ManualClock
from windsprite_protocol.model.sessions import EvictionReason
from windsprite_protocol.model.system import TransportKind
from windsprite_server.core.log_setup import make_logger
from windsprite_server.groups.registry import GroupKey, Groups
from windsprite_server.heartbeats import Heartbeats
from windsprite_server.session import Connection, Session, Sessions

ALICE = 7
GROUP = GroupKey(0, 0, 0)
INTERVAL = 30.0


class Node:
    """Connections, groups, and what clients were told."""

    def __init__(self, interval: float = INTERVAL) -> None:
        self.clock = ManualClock()
        self.log = io.StringIO()
        self.groups = Groups(30)
        self.sessions = Sessions(1, lambda session: self.groups.leave_all(session.client))
        self.told: list[tuple[int, bytes, EvictionReason]] = []
        logger = make_logger(log_format="json", level="debug", stream=self.log, clock=self.clock)
        self.heartbeats = Heartbeats(
            self.sessions, self.groups, self.clock, logger, interval=interval
        )

    def connect(self, number: int, *, log_in: bool = True, join: bool = True) -> Connection:
        connection = self.sessions.connect(TransportKind.TCP, "192.0.2.1:5", "192.0.2.9", 8090)

        def tell(session: Session, reason: EvictionReason) -> None:
            assert connection.session is None, "told when it is over"
            assert not self.groups.is_member(session.client)
            self.told.append((number, session.client, reason))

        connection.tell_evicted = tell
        self.hear(connection)
        if log_in:
            session = self.sessions.bind(connection, number.to_bytes(16, "little"), ALICE)
            if join:
                self.groups.join(GROUP, session.client, 3, self.clock.monotonic())
        return connection

    def hear(self, connection: Connection) -> None:
        connection.heard_at = self.clock.monotonic()

    @property
    def evicted(self) -> list[int]:
        return [number for number, _, _ in self.told]


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    node = Node()
    node.heartbeats.start()
    yield node
    await node.heartbeats.stop()
    assert "exception" not in node.log.getvalue()


async def test_a_silent_member_is_logged_out_and_told(node: Node) -> None:
    connection = node.connect(1)
    node.connect(2)
    session = connection.session
    assert session is not None
    await node.clock.advance(2 * INTERVAL)
    reason = EvictionReason.STALE_CLIENT
    assert node.told == [(1, session.client, reason), (2, (2).to_bytes(16, "little"), reason)]
    assert connection.session is None
    assert node.groups.members(GROUP) == ()
    assert node.sessions.get(connection.number) is connection, "the connection stays"
    event = json.loads(node.log.getvalue().splitlines()[0])
    assert (event["connection"], event["peer"]) == (connection.number, "192.0.2.1:5")
    assert event["silence"] == 60


async def test_its_partitions_go_to_who_is_alive(node: Node) -> None:
    node.connect(1)
    alive = node.connect(2)
    for _ in range(4):
        await node.clock.advance(20)
        node.hear(alive)
    assert node.evicted == [1]
    (member,) = node.groups.members(GROUP)
    assert member.partitions == (0, 1, 2)


async def test_who_is_no_member_may_be_silent(node: Node) -> None:
    stranger = node.connect(1, log_in=False)
    idle = node.connect(2, join=False)
    left = node.connect(3)
    node.groups.leave(GROUP, (3).to_bytes(16, "little"))
    await node.clock.advance(100 * INTERVAL)
    assert node.told == []
    assert stranger.session is None
    assert None not in (idle.session, left.session)


@pytest.mark.parametrize(("silence", "is_too_long"), [(36.0, False), (36.001, True)])
async def test_silence_is_too_long_after_more_than_1_2_intervals(
    node: Node, silence: float, *, is_too_long: bool
) -> None:
    await node.clock.advance(3 * INTERVAL - silence)
    node.connect(1)
    await node.clock.advance(silence - 0.0005)
    assert node.evicted == []
    await node.clock.advance(0.0005)
    assert node.evicted == ([1] if is_too_long else [])
    await node.clock.advance(INTERVAL)
    assert node.evicted == [1]


async def test_who_waits_for_an_answer_is_not_silent(node: Node) -> None:
    connection = node.connect(1)
    connection.heard_at = inf
    await node.clock.advance(10 * INTERVAL)
    assert node.told == []
    node.hear(connection)
    await node.clock.advance(2 * INTERVAL)
    assert node.evicted == [1]


async def test_what_was_said_while_the_server_stood_still_is_heard_first(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = node.connect(1)
    node.connect(2)
    sleep = node.clock.sleep

    async def read_between_turns(seconds: float) -> None:
        await sleep(seconds)
        if seconds <= 0:
            node.hear(connection)

    monkeypatch.setattr(node.clock, "sleep", read_between_turns)
    node.clock.tick(100 * INTERVAL)
    await node.clock.advance(0)
    assert node.evicted == [2]


async def test_the_wall_clock_makes_nobody_stale(node: Node) -> None:
    """Row 37 of the collected bug reports: the clock is set back an hour and forward a day."""
    connection = node.connect(1)
    for jump in (-3600, 86_400, 1, -1):
        node.clock.set_wall_clock(node.clock.now_us() + jump * 1_000_000)
        await node.clock.advance(INTERVAL)
        node.hear(connection)
    assert node.told == []
    node.clock.set_wall_clock(0)
    await node.clock.advance(2 * INTERVAL)
    assert node.evicted == [1]


async def test_a_session_of_a_new_login_is_judged_by_itself(node: Node) -> None:
    connection = node.connect(1)
    await node.clock.advance(2 * INTERVAL)
    assert node.evicted == [1]
    await node.clock.advance(10 * INTERVAL)
    node.hear(connection)
    session = node.sessions.bind(connection, (1).to_bytes(16, "little"), ALICE)
    node.groups.join(GROUP, session.client, 3, node.clock.monotonic())
    await node.clock.advance(INTERVAL)
    assert node.evicted == [1]
    await node.clock.advance(INTERVAL)
    assert node.evicted == [1, 1]


async def test_a_failure_does_not_end_the_looking() -> None:
    node = Node()

    class Failing:
        def is_member(self, client: bytes) -> bool:
            raise RuntimeError("not now")

    logger = make_logger(log_format="json", level="debug", stream=node.log, clock=node.clock)
    failing = Heartbeats(node.sessions, Failing(), node.clock, logger, interval=INTERVAL)
    node.connect(1)
    failing.start()
    await node.clock.advance(4 * INTERVAL)
    await failing.stop()
    events = [json.loads(line) for line in node.log.getvalue().splitlines()]
    assert [event["event"] for event in events] == ["silent clients could not be looked for"] * 3
    await failing.stop()
