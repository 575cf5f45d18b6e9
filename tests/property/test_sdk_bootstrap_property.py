from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from windsprite.address import Endpoint
from windsprite.bootstrap import (
    MAX_HOPS,
    Backoff,
    LastSeen,
    Location,
    Redirect,
    Roster,
    Stay,
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

HOSTS = st.sampled_from(["a", "b", "10.0.0.1", "::1", "localhost", "", "?", "x" * 300]) | st.text()
PORTS = st.sampled_from([0, 1, 8090, 65535])
UUIDS = st.sampled_from([UUID(int=1), UUID(int=2)])
IDENTITIES = st.builds(NodeIdentity, st.integers(0, 3), st.integers(0, 3), UUIDS, st.text())
NODES = st.builds(
    ClusterNode,
    name=st.text(),
    host=HOSTS,
    tcp_port=PORTS,
    quic_port=PORTS,
    http_port=PORTS,
    websocket_port=PORTS,
    role=st.sampled_from(NodeRole),
    status=st.sampled_from(NodeStatus),
    identity=st.none() | IDENTITIES,
)
METADATA = st.builds(
    ClusterMetadata,
    name=st.text(),
    nodes=st.lists(NODES, max_size=4).map(tuple),
    cluster_id=st.none() | UUIDS,
    leader_epoch=st.none() | st.integers(0, 4),
    followers_serve_reads=st.booleans(),
)
ENDPOINTS = st.builds(Endpoint, st.sampled_from(["a", "b", "10.0.0.1", "::1"]), st.just(8090))
LOCATIONS = st.builds(Location, ENDPOINTS, st.none() | ENDPOINTS, st.none() | st.integers(0, 3))
LAST_SEEN = st.builds(LastSeen, st.none() | UUIDS, st.integers(0, 4))


@given(METADATA, LOCATIONS, st.integers(0, 6), LAST_SEEN)
def test_every_metadata_leads_to_a_decision(
    metadata: ClusterMetadata, current: Location, hops: int, last_seen: LastSeen
) -> None:
    decision = decide(metadata, current, hops=hops, last_seen=last_seen)
    match decision:
        case Redirect(endpoint):
            assert hops < MAX_HOPS
            assert len(metadata.nodes) > 1
            assert 1 <= endpoint.port <= 65535
            assert endpoint.host
            assert metadata.leader is not None
            assert not last_seen.is_outdated(metadata)
        case WaitForLeader():
            assert metadata.leader is None
        case Stay():
            pass


@given(METADATA, ENDPOINTS, LAST_SEEN)
def test_who_follows_a_redirect_stays(
    metadata: ClusterMetadata, endpoint: Endpoint, last_seen: LastSeen
) -> None:
    decision = decide(metadata, Location(endpoint), hops=0, last_seen=last_seen)
    if isinstance(decision, Redirect):
        there = Location(decision.endpoint, node_id=decision.node_id)
        assert isinstance(decide(metadata, there, hops=1, last_seen=last_seen), Stay)


@given(LAST_SEEN, st.lists(METADATA))
def test_what_was_seen_is_never_unseen(last_seen: LastSeen, heard: list[ClusterMetadata]) -> None:
    for metadata in heard:
        after = last_seen.after(metadata)
        if after.cluster_id == last_seen.cluster_id:
            assert after.leader_epoch >= last_seen.leader_epoch
        last_seen = after


@given(
    st.lists(ENDPOINTS, min_size=1, max_size=4),
    st.lists(METADATA, max_size=3),
    st.none() | ENDPOINTS,
    st.floats(0, 20),
    st.randoms(use_true_random=False),
)
def test_every_plan_holds_the_whole_bootstrap_list(
    bootstrap: list[Endpoint],
    heard: list[ClusterMetadata],
    last: Endpoint | None,
    now: float,
    random: object,
) -> None:
    roster = Roster(bootstrap, 5.0)
    for metadata in heard:
        roster.learn(metadata)
    if last is not None:
        roster.connected(last, 0.0)
    plan = roster.plan(now, lambda count: random.sample(range(count), count))  # type: ignore[attr-defined]
    endpoints = [candidate.endpoint for candidate in plan]
    for endpoint in bootstrap:
        assert sum(same_server(endpoint, other) for other in endpoints) == 1
    for index, endpoint in enumerate(endpoints):
        assert not any(same_server(endpoint, other) for other in endpoints[index + 1 :])
    assert all(now <= candidate.not_before <= max(now, 5.0) for candidate in plan)
    waiting = [candidate.not_before > now for candidate in plan]
    assert waiting == sorted(waiting)


@given(st.floats(0.001, 100), st.floats(0.001, 1000), st.integers(0, 10**6))
def test_waits_are_bounded(base: float, cap: float, attempt: int) -> None:
    backoff = Backoff(base, cap)
    assert 0 < backoff.limit(attempt) <= cap
    assert backoff.limit(attempt) <= backoff.limit(attempt + 1)
    assert backoff.wait(attempt, lambda low, _: low) == 0
    assert backoff.wait(attempt, lambda _, high: high) == backoff.limit(attempt)
