"""A cluster of one node, which always leads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from windsprite_protocol.model.cluster import (
    ClusterMetadata,
    ClusterNode,
    NodeIdentity,
    NodeRole,
    NodeStatus,
)

FIRST_EPOCH: Final = 1


@dataclass(frozen=True, slots=True)
class SingleNode:
    """A cluster of one node.

    Attributes:
        cluster_id: Kept in the data directory for its whole life.
        cluster_name: For people.
        node_name: For people.
        identity: Tells this life of the node from its others.
        advertised_host: Where clients should dial; `None`: where they reached the node.
        advertised_port: The port to it; `None`: the one they reached.
    """

    cluster_id: UUID
    cluster_name: str
    node_name: str
    identity: NodeIdentity
    advertised_host: str | None = None
    advertised_port: int | None = None

    @property
    def leader_epoch(self) -> int:
        """The leader never changes."""
        return FIRST_EPOCH

    def may_write(self) -> bool:
        """The only node always may."""
        return True

    def describe(self, reached_host: str, reached_port: int) -> ClusterMetadata:
        """One node, leader and healthy, so that no client looks for another (spec 01, 8.1)."""
        node = ClusterNode(
            name=self.node_name,
            host=self.advertised_host or reached_host,
            tcp_port=self.advertised_port or reached_port,
            quic_port=0,
            http_port=0,
            websocket_port=0,
            role=NodeRole.LEADER,
            status=NodeStatus.HEALTHY,
            identity=self.identity,
        )
        return ClusterMetadata(
            name=self.cluster_name,
            nodes=(node,),
            cluster_id=self.cluster_id,
            leader_epoch=FIRST_EPOCH,
        )
