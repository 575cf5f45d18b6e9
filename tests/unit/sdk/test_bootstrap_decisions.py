from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from windsprite.address import Endpoint
from windsprite.bootstrap import (
    MAX_HOPS,
    Backoff,
    Decision,
    LastSeen,
    Location,
    Redirect,
    Roster,
    Stay,
    StayReason,
    WaitForLeader,
    decide,
    same_server,
)
from windsprite_protocol.model.cluster import (
    ClusterMetadata,
    ClusterNode,
    NodeIdentity,
    NodeRole,
    NodeStatus,
)

CLUSTER = UUID(int=7)


def node(number: int, role: NodeRole = NodeRole.FOLLOWER, **changes: Any) -> ClusterNode:
    identity = NodeIdentity(number, 1, UUID(int=number + 1))
    made = ClusterNode(
        f"n{number}", f"10.0.0.{number}", 8090, 0, 0, 0, role, NodeStatus.HEALTHY, identity
    )
    return replace(made, **changes)


def metadata(*nodes: ClusterNode, epoch: int | None = 5) -> ClusterMetadata:
    return ClusterMetadata("c", nodes, CLUSTER, epoch)


LEADER = node(1, NodeRole.LEADER)
PAIR = metadata(LEADER, node(2))
NOTHING_SEEN = LastSeen()
AT_2 = Location(Endpoint("10.0.0.2"))


def judge(
    about: ClusterMetadata,
    current: Location = AT_2,
    *,
    hops: int = 0,
    last_seen: LastSeen = NOTHING_SEEN,
) -> Decision:
    return decide(about, current, hops=hops, last_seen=last_seen)


def test_go_to_the_leader() -> None:
    assert judge(PAIR) == Redirect(Endpoint("10.0.0.1"), 1)
    iggy = metadata(replace(LEADER, identity=None), node(2, identity=None), epoch=None)
    assert judge(iggy) == Redirect(Endpoint("10.0.0.1"), None)


def test_stay_with_the_leader() -> None:
    for current in (
        Location(Endpoint("10.0.0.1")),
        Location(Endpoint("balancer"), peer=Endpoint("10.0.0.1")),
        Location(Endpoint("forwarded", 9), peer=Endpoint("192.0.2.1", 9), node_id=1),
    ):
        assert judge(PAIR, current) == Stay(StayReason.AT_LEADER)


def test_a_known_node_id_says_more_than_an_address() -> None:
    moved = Location(Endpoint("10.0.0.1"), node_id=2)
    assert judge(PAIR, moved) == Redirect(Endpoint("10.0.0.1"), 1)


def test_an_only_node_is_never_left() -> None:
    for role in NodeRole:
        for status in NodeStatus:
            alone = metadata(node(1, role, status=status, tcp_port=0))
            assert judge(alone, hops=9) == Stay(StayReason.ONLY_NODE)


@pytest.mark.parametrize(
    "status", [status for status in NodeStatus if status is not NodeStatus.HEALTHY]
)
def test_a_leader_that_is_not_healthy_is_none(status: NodeStatus) -> None:
    assert judge(metadata(replace(LEADER, status=status), node(2))) == WaitForLeader()


def test_wait_while_nobody_leads() -> None:
    assert judge(metadata(node(1), node(2), epoch=0)) == WaitForLeader()
    assert judge(metadata(node(1, NodeRole.UNKNOWN), node(2))) == WaitForLeader()
    assert judge(metadata()) == WaitForLeader()


@pytest.mark.parametrize("changes", [{"tcp_port": 0}, {"host": ""}, {"host": "not a host"}])
def test_a_leader_that_nobody_can_dial_is_not_dialled(changes: dict[str, Any]) -> None:
    assert judge(metadata(replace(LEADER, **changes), node(2))) == Stay(StayReason.NO_TCP)


def test_at_most_three_hops() -> None:
    assert isinstance(judge(PAIR, hops=MAX_HOPS - 1), Redirect)
    assert judge(PAIR, hops=MAX_HOPS) == Stay(StayReason.HOP_LIMIT)


def test_old_news_is_ignored() -> None:
    assert judge(PAIR, last_seen=LastSeen(CLUSTER, 6)) == Stay(StayReason.OUTDATED)
    assert isinstance(judge(PAIR, last_seen=LastSeen(CLUSTER, 5)), Redirect)
    assert isinstance(judge(PAIR, last_seen=LastSeen(UUID(int=8), 6)), Redirect)
    assert isinstance(
        judge(replace(PAIR, leader_epoch=None), last_seen=LastSeen(CLUSTER, 6)), Redirect
    )


def test_epochs_only_grow() -> None:
    seen = LastSeen().after(PAIR)
    assert seen == LastSeen(CLUSTER, 5)
    assert seen.after(replace(PAIR, leader_epoch=4)) == seen
    assert seen.after(replace(PAIR, leader_epoch=0)) == seen
    assert seen.after(replace(PAIR, leader_epoch=6)) == LastSeen(CLUSTER, 6)
    other = replace(PAIR, cluster_id=UUID(int=8), leader_epoch=1)
    assert seen.after(other) == LastSeen(UUID(int=8), 1)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("localhost:1", "127.0.0.1:1", True),
        ("LOCALHOST:1", "[::1]:1", True),
        ("[::ffff:127.0.0.1]:1", "localhost:1", True),
        ("127.0.0.2:1", "127.0.0.1:1", False),
        ("localhost:1", "localhost:2", False),
        ("a.example:1", "A.EXAMPLE:1", True),
        ("a.example:1", "b.example:1", False),
    ],
)
def test_one_server_has_several_addresses(one: str, other: str, same: bool) -> None:
    assert same_server(Endpoint.parse(one), Endpoint.parse(other)) is same
    assert same_server(Endpoint.parse(other), Endpoint.parse(one)) is same


# --- Roster ----------------------------------------------------------------------------------


def in_order(count: int) -> list[int]:
    return list(range(count))


def backwards(count: int) -> list[int]:
    return list(reversed(range(count)))


def planned(roster: Roster, now: float = 0.0, order: Any = in_order) -> list[str]:
    return [candidate.endpoint.host for candidate in roster.plan(now, order)]


def test_the_order_of_the_bootstrap_list_is_random() -> None:
    roster = Roster([Endpoint("a"), Endpoint("b")], 5.0)
    assert planned(roster) == ["a", "b"]
    assert planned(roster, order=backwards) == ["b", "a"]


def test_the_known_leader_comes_first_and_nobody_comes_twice() -> None:
    roster = Roster([Endpoint("a"), Endpoint("10.0.0.2")], 5.0)
    roster.learn(metadata(node(1), node(2), node(3, NodeRole.LEADER)))
    assert planned(roster) == ["10.0.0.3", "a", "10.0.0.2", "10.0.0.1"]
    assert [candidate.node_id for candidate in roster.plan(0.0, in_order)] == [3, None, 2, 1]


def test_the_bootstrap_list_stays_and_nodes_that_left_are_forgotten() -> None:
    roster = Roster([Endpoint("a")], 5.0)
    roster.learn(metadata(node(1), node(2)))
    roster.learn(metadata(node(2), node(3), epoch=6))
    assert planned(roster) == ["a", "10.0.0.2", "10.0.0.3"]
    roster.learn(metadata(node(4), node(5), epoch=5))
    assert planned(roster) == ["a", "10.0.0.2", "10.0.0.3"]


def test_what_an_only_node_says_of_itself_is_not_learnt() -> None:
    roster = Roster([Endpoint("a")], 5.0)
    roster.learn(metadata(node(1, NodeRole.LEADER, host="127.0.0.1")))
    assert planned(roster) == ["a"]


def test_nodes_that_nobody_can_dial_are_not_learnt() -> None:
    roster = Roster([Endpoint("a")], 5.0)
    roster.learn(metadata(node(1, tcp_port=0), node(2, host="?"), node(3)))
    assert planned(roster) == ["a", "10.0.0.3"]


def test_the_roster_is_bounded() -> None:
    roster = Roster([Endpoint("a")], 5.0)
    many = [node(1, host=f"h{number}") for number in range(10_000)]
    roster.learn(metadata(*many))
    assert len(planned(roster)) == 257


def test_servers_that_were_of_no_use_come_last_until_they_are() -> None:
    roster = Roster([Endpoint("localhost"), Endpoint("b")], 5.0)
    roster.learn(metadata(node(1), node(2, NodeRole.LEADER)))
    for host in ("127.0.0.1", "10.0.0.2"):
        roster.doubt(Endpoint(host))
    assert planned(roster) == ["b", "10.0.0.1", "10.0.0.2", "localhost"]
    roster.trust(Endpoint("10.0.0.2"))
    assert planned(roster) == ["10.0.0.2", "b", "10.0.0.1", "localhost"]
    roster.doubt(Endpoint("10.0.0.1"))
    roster.learn(metadata(node(2, NodeRole.LEADER), node(3), epoch=6))
    roster.learn(metadata(node(2, NodeRole.LEADER), node(1), epoch=7))
    assert planned(roster) == ["10.0.0.2", "localhost", "b", "10.0.0.1"], "forgotten with the node"


def test_the_last_server_waits_and_the_others_come_first() -> None:
    roster = Roster([Endpoint("a"), Endpoint("b")], 5.0)
    roster.connected(Endpoint("a"), 100.0)
    plan = roster.plan(102.0, in_order)
    assert [(c.endpoint.host, c.not_before) for c in plan] == [("b", 102.0), ("a", 105.0)]
    assert planned(roster, 105.0) == ["a", "b"]


# --- Backoff ---------------------------------------------------------------------------------


def test_backoff_doubles_up_to_its_cap_and_is_random_from_the_start() -> None:
    backoff = Backoff(base=1.0, cap=10.0)
    assert [backoff.limit(attempt) for attempt in range(6)] == [1, 2, 4, 8, 10, 10]
    assert backoff.limit(10**9) == 10
    assert backoff.wait(0, lambda low, high: (low + high) / 2) == 0.5
