"""Which server to go to, and when: all decisions of bootstrap and redirect, and nothing else.

Nothing here waits, dials, or reads a clock: functions take what is known and say what to do.

- `Roster` remembers the servers: those we were told at the start, which are never forgotten, and
  those that the latest cluster metadata named. It plans in which order to dial them.
- `decide` is the one place that knows when to move to another server (spec 07, 6).
- `Backoff` is the one way to wait between attempts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias
from uuid import UUID

from windsprite.address import MAX_ENDPOINTS, Endpoint
from windsprite.errors import InvalidConnectionString
from windsprite_protocol.model.cluster import ClusterMetadata, ClusterNode

MAX_HOPS: Final = 3
"""How often in a row a client lets itself be sent elsewhere."""

LEADER_POLL_INTERVAL: Final = 0.25
"""Seconds between two questions for the leader while there is none."""

LEADER_WAIT: Final = 5.0
"""Seconds after which a client stays with a server that knows no leader."""

_THIS_MACHINE: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def same_server(one: Endpoint, other: Endpoint) -> bool:
    """Whether two endpoints are the same address, however it is written.

    Names are not looked up: of two names, or a name and an IP address, only equal ones are the
    same. All ways to write "this machine" are.
    """
    if one.port != other.port:
        return False
    return one.host == other.host or {one.host, other.host} <= _THIS_MACHINE


def endpoint_of(node: ClusterNode) -> Endpoint | None:
    """Where to dial a node; None when its TCP transport is off or nobody can dial what it says."""
    try:
        return Endpoint.of(node.host, node.tcp_port)
    except InvalidConnectionString:
        return None


@dataclass(frozen=True, slots=True)
class Location:
    """The server we are connected to, in all the ways by which it can be recognised.

    Attributes:
        dialled: What was dialled: perhaps a name, a balancer, a forwarded port.
        peer: The IP address that answered; None if it cannot be told.
        node_id: The node it is, if that was learnt from the metadata that led us here.
    """

    dialled: Endpoint
    peer: Endpoint | None = None
    node_id: int | None = None

    def is_node(self, node: ClusterNode, endpoint: Endpoint) -> bool:
        """Whether this is where a node is; its id decides if we know it, its address if not."""
        if self.node_id is not None and node.identity is not None:
            return self.node_id == node.identity.node_id
        return same_server(self.dialled, endpoint) or (
            self.peer is not None and same_server(self.peer, endpoint)
        )


@dataclass(frozen=True, slots=True)
class LastSeen:
    """The newest leadership we have heard of; epochs of different clusters cannot be compared."""

    cluster_id: UUID | None = None
    leader_epoch: int = 0

    def is_outdated(self, metadata: ClusterMetadata) -> bool:
        """Whether metadata tells of a leadership that we know to be over."""
        same_cluster = metadata.cluster_id == self.cluster_id
        return same_cluster and 0 < (metadata.leader_epoch or 0) < self.leader_epoch

    def after(self, metadata: ClusterMetadata) -> LastSeen:
        """What is known once this metadata was heard, too."""
        if not metadata.leader_epoch or self.is_outdated(metadata):
            return self
        return LastSeen(metadata.cluster_id, metadata.leader_epoch)


# --- The redirect decision -----------------------------------------------------------------------


class StayReason(Enum):
    """Why a client stays where it is."""

    ONLY_NODE = "the cluster has one node"
    AT_LEADER = "this is the leader"
    OUTDATED = "the metadata is older than what we know"
    HOP_LIMIT = "too many redirects in a row"
    NO_TCP = "the leader has no TCP address that can be dialled"


@dataclass(frozen=True, slots=True)
class Stay:
    """Stay with the current server."""

    reason: StayReason


@dataclass(frozen=True, slots=True)
class Redirect:
    """Move to the leader."""

    endpoint: Endpoint
    node_id: int | None


@dataclass(frozen=True, slots=True)
class WaitForLeader:
    """Nobody leads at the moment: ask again after `LEADER_POLL_INTERVAL`."""


Decision: TypeAlias = Stay | Redirect | WaitForLeader


def decide(  # noqa: PLR0911 - a list of cases, one after the other
    metadata: ClusterMetadata, current: Location, *, hops: int, last_seen: LastSeen
) -> Decision:
    """What cluster metadata means for a client (spec 07, 6).

    Args:
        metadata: What the current server answered.
        current: Where the client is.
        hops: How often it was redirected in a row.
        last_seen: The newest leadership it has heard of before.
    """
    if len(metadata.nodes) == 1:
        return Stay(StayReason.ONLY_NODE)
    if last_seen.is_outdated(metadata):
        return Stay(StayReason.OUTDATED)
    leader = metadata.leader
    if leader is None:
        return WaitForLeader()
    endpoint = endpoint_of(leader)
    if endpoint is None:
        return Stay(StayReason.NO_TCP)
    if current.is_node(leader, endpoint):
        return Stay(StayReason.AT_LEADER)
    if hops >= MAX_HOPS:
        return Stay(StayReason.HOP_LIMIT)
    return Redirect(endpoint, leader.identity.node_id if leader.identity else None)


# --- Which server next ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidate:
    """A server to dial.

    Attributes:
        endpoint: Where.
        node_id: Which node it is, if metadata told.
        not_before: The time before which it must not be dialled.
    """

    endpoint: Endpoint
    node_id: int | None = None
    not_before: float = 0.0


class Roster:
    """The servers a client knows.

    Args:
        bootstrap: Those it was told at the start; they are never forgotten.
        reestablish_after: Seconds that have to pass between two connections to one server.
    """

    def __init__(self, bootstrap: Sequence[Endpoint], reestablish_after: float) -> None:
        self._bootstrap = tuple(bootstrap)
        self._reestablish_after = reestablish_after
        self._learnt: dict[Endpoint, int | None] = {}
        self._leader: Endpoint | None = None
        self._last_connection: tuple[Endpoint, float] | None = None
        self._doubtful: set[Endpoint] = set()
        self.last_seen = LastSeen()
        self.metadata: ClusterMetadata | None = None

    def learn(self, metadata: ClusterMetadata) -> None:
        """Take note of the nodes and the leader, unless the news is older than what is known.

        Nodes that are no longer named are forgotten, so that credentials are not offered to
        whoever has their address now. What an only node says about itself is not learnt: often
        it is the address behind a forwarded port, or that of every machine to itself.
        """
        if self.last_seen.is_outdated(metadata):
            return
        self.last_seen = self.last_seen.after(metadata)
        self.metadata = metadata
        self._learnt.clear()
        self._leader = None
        if len(metadata.nodes) <= 1:
            return
        for node in metadata.nodes[:MAX_ENDPOINTS]:
            endpoint = endpoint_of(node)
            if endpoint is not None:
                self._learnt[endpoint] = node.identity.node_id if node.identity else None
        if metadata.leader is not None:
            self._leader = endpoint_of(metadata.leader)
        self._doubtful.intersection_update((*self._bootstrap, *self._learnt))

    @property
    def leader(self) -> Endpoint | None:
        """The leader of several nodes, as it was told last; None if nobody leads."""
        return self._leader

    def connected(self, endpoint: Endpoint, now: float) -> None:
        """Take note that a connection to this server was established."""
        self._last_connection = (endpoint, now)

    def doubt(self, endpoint: Endpoint) -> None:
        """Take note that a server may be of no use; the next plans put it behind others."""
        self._doubtful.add(endpoint)

    def trust(self, endpoint: Endpoint) -> None:
        """Take note that a server was of use."""
        self._doubtful.discard(endpoint)

    def plan(self, now: float, shuffled: Callable[[int], list[int]]) -> list[Candidate]:
        """The servers to dial in one pass: the known leader, then all others in random order.

        Those that were of no use when they were tried last come after all others: where only a
        balancer reaches the nodes, to dial each of them takes its time.

        The server of the last connection waits until `reestablish_after` has passed since that
        connection was made, and others come before it meanwhile.

        Args:
            now: The time, in seconds.
            shuffled: Gives the numbers below its argument in random order.
        """
        known: list[Endpoint] = []
        for endpoint in (*self._bootstrap, *self._learnt):
            if not any(same_server(endpoint, other) for other in known):
                known.append(endpoint)
        order = [known[index] for index in shuffled(len(known))]
        if self._leader is not None:
            leader = self._leader
            order.sort(key=lambda endpoint: not same_server(endpoint, leader))
        order.sort(key=self._is_doubtful)
        candidates = [
            Candidate(endpoint, self._learnt.get(endpoint), self._not_before(endpoint, now))
            for endpoint in order
        ]
        candidates.sort(key=lambda candidate: candidate.not_before > now)
        return candidates

    def _is_doubtful(self, endpoint: Endpoint) -> bool:
        return any(same_server(endpoint, doubtful) for doubtful in self._doubtful)

    def _not_before(self, endpoint: Endpoint, now: float) -> float:
        if self._last_connection is None or not same_server(endpoint, self._last_connection[0]):
            return now
        return max(now, self._last_connection[1] + self._reestablish_after)


# --- Waiting between attempts --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Backoff:
    """Full-jitter exponential backoff: a random wait below a limit that doubles up to a cap.

    The first wait is random, too: many clients that lose one server at the same time must not
    come back at the same time.
    """

    base: float
    cap: float

    def limit(self, attempt: int) -> float:
        """The longest wait before attempt number `attempt`, counted from 0."""
        # 2.0**attempt is finite below this; nobody waits for the difference.
        return min(self.cap, self.base * 2.0 ** min(attempt, 64))

    def wait(self, attempt: int, uniform: Callable[[float, float], float]) -> float:
        """Seconds to wait before attempt number `attempt`, counted from 0."""
        return uniform(0.0, self.limit(attempt))
