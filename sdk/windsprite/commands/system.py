"""The server itself, the cluster, and who is connected."""

from __future__ import annotations

from windsprite.commands.base import Commands
from windsprite_protocol.model.cluster import ClusterMetadata, GetClusterMetadata
from windsprite_protocol.model.system import (
    ClientDetails,
    ClientInfo,
    GetClient,
    GetClients,
    GetMe,
    GetStats,
    Ping,
    Stats,
)


class SystemCommands(Commands):
    """The server itself, the cluster, and who is connected."""

    async def ping(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - covers more than a wait
        """See that the server answers; works without a login."""
        await self._caller.call(Ping(), "ping", time_limit=timeout)

    async def get_cluster_metadata(self) -> ClusterMetadata:
        """Who is in the cluster and who leads it.

        `cluster_id` and `leader_epoch` are None and nodes have no `identity` if the server is not
        a Windsprite server.
        """
        metadata: ClusterMetadata = await self._caller.call(
            GetClusterMetadata(), "get_cluster_metadata"
        )
        return metadata

    async def me(self) -> ClientDetails:
        """How the server sees this connection."""
        details: ClientDetails = await self._caller.call(GetMe(), "me")
        return details

    async def stats(self) -> Stats:
        """The figures of the server."""
        stats: Stats = await self._caller.call(GetStats(), "stats")
        return stats

    async def get_clients(self) -> tuple[ClientInfo, ...]:
        """All connections of the node."""
        clients: tuple[ClientInfo, ...] = await self._caller.call(GetClients(), "get_clients")
        return clients

    async def get_client(self, client_id: int) -> ClientDetails | None:
        """One connection by its number; None if there is none with this number."""
        details: ClientDetails | None = await self._caller.call(
            GetClient(client_id), f"get_client {client_id}"
        )
        return details
