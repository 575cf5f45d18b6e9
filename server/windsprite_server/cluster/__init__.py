"""Who is in the cluster, who leads it, and whether this node may serve a command.

`Cluster` is the seam that another implementation will fill: handlers and commit ask it and know
nothing of how the answer came about.
"""

from __future__ import annotations

from typing import Protocol

from windsprite_protocol.model.cluster import ClusterMetadata


class Cluster(Protocol):
    """What the layers above need to know about the cluster."""

    @property
    def leader_epoch(self) -> int:
        """Grows by one with every change of leader; 0 while no leader is known."""
        ...

    def may_write(self) -> bool:
        """Whether this node may change metadata and append messages now."""
        ...

    def describe(self, reached_host: str, reached_port: int) -> ClusterMetadata:
        """The nodes as a client that reached this node at that address should dial them."""
        ...
