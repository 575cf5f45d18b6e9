"""Who is in the cluster and who leads it (spec 01, 8; spec 09, 2)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID


class NodeRole(IntEnum):
    """What a node does; a role that a reader does not know is UNKNOWN."""

    LEADER = 0
    FOLLOWER = 1
    UNKNOWN = 255


class NodeStatus(IntEnum):
    """How a node is; a status that a reader does not know is UNKNOWN."""

    HEALTHY = 0
    STARTING = 1
    STOPPING = 2
    UNREACHABLE = 3
    MAINTENANCE = 4
    UNKNOWN = 5


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """What tells one life of a node from another; identities compare in the order of the fields.

    Attributes:
        node_id: Unique in the cluster.
        generation: Grows by one at each start from the same data directory.
        instance_id: Random for each start of the process.
        zone: Where the node stands, for choosing near ones; empty when nobody said.
    """

    node_id: int
    generation: int
    instance_id: UUID
    zone: str = ""


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node as clients reach it; a port of 0 means that the transport is off.

    `identity` is `None` when the server does not tell (an official Iggy server).
    """

    name: str
    host: str
    tcp_port: int
    quic_port: int
    http_port: int
    websocket_port: int
    role: NodeRole
    status: NodeStatus
    identity: NodeIdentity | None = None


@dataclass(frozen=True, slots=True)
class GetClusterMetadata:
    """Ask who is in the cluster and who leads it."""


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """Who is in the cluster and who leads it.

    Attributes:
        name: The name of the cluster.
        nodes: At least one from a server that follows the protocol.
        cluster_id: `None` when the server does not tell.
        leader_epoch: Grows with every change of leader; 0: no leader known; `None`: not told.
        followers_serve_reads: Whether nodes that do not lead answer polls.
        trailer_error: What is wrong with what the server tells beyond the official metadata; the
            rest is usable (spec 09, 2).
    """

    name: str
    nodes: tuple[ClusterNode, ...]
    cluster_id: UUID | None = None
    leader_epoch: int | None = None
    followers_serve_reads: bool = False
    trailer_error: str | None = None

    @property
    def leader(self) -> ClusterNode | None:
        """The healthy leader, if there is one."""
        for node in self.nodes:
            if node.role is NodeRole.LEADER and node.status is NodeStatus.HEALTHY:
                return node
        return None


@dataclass(frozen=True, slots=True)
class Attachment:
    """A session to act for, and the metadata position a node must have reached to do it."""

    client: int
    session: int
    watermark: int


@dataclass(frozen=True, slots=True)
class AttachSession:
    """Make this connection act for the session of another one (spec 01, 8.4)."""

    attachment: Attachment


@dataclass(frozen=True, slots=True)
class Route:
    """The primary of a partition and the attachment to use there (spec 01, 8.4)."""

    attachment: Attachment
    node: ClusterNode
