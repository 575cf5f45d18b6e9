"""The server itself, the cluster, and who is connected."""

# ruff: noqa: ASYNC109 - a timeout covers more than one wait, with repeats and new connections

from __future__ import annotations

from enum import IntEnum
from typing import Literal, TypeAlias, TypeVar

from windsprite.commands.base import Commands
from windsprite.errors import InvalidRequest
from windsprite.order import Whole
from windsprite.retries import Safety
from windsprite_protocol.model.cluster import ClusterMetadata, GetClusterMetadata
from windsprite_protocol.model.system import (
    ClientDetails,
    ClientInfo,
    DescribeOptions,
    GetClient,
    GetClients,
    GetMe,
    GetSnapshot,
    GetStats,
    OptionScope,
    OptionSpec,
    Ping,
    Snapshot,
    SnapshotCompression,
    SnapshotKind,
    Stats,
)
from windsprite_protocol.v0_11.calling import RawRequest

OptionScopeName: TypeAlias = Literal["topic", "stream", "user"]
SnapshotCompressionName: TypeAlias = Literal["stored", "deflated", "bzip2", "zstd", "lzma", "xz"]
SnapshotSection: TypeAlias = Literal[
    "filesystem_overview",
    "process_list",
    "resource_usage",
    "test",
    "server_logs",
    "server_config",
]

T = TypeVar("T", bound=IntEnum)


class SystemCommands(Commands):
    """The server itself, the cluster, and who is connected."""

    async def ping(self, *, timeout: float | None = None) -> None:
        """See that the server answers; works without a login."""
        await self._caller.call(Ping(), "ping", time_limit=timeout)

    async def get_cluster_metadata(self, *, timeout: float | None = None) -> ClusterMetadata:
        """Who is in the cluster and who leads it.

        `cluster_id` and `leader_epoch` are None and nodes have no `identity` if the server is not
        a Windsprite server.
        """
        metadata: ClusterMetadata = await self._caller.call(
            GetClusterMetadata(), "get_cluster_metadata", time_limit=timeout
        )
        return metadata

    async def me(self, *, timeout: float | None = None) -> ClientDetails:
        """How the server sees this connection."""
        details: ClientDetails = await self._caller.call(GetMe(), "me", time_limit=timeout)
        return details

    async def stats(self, *, timeout: float | None = None) -> Stats:
        """The figures of the server."""
        stats: Stats = await self._caller.call(GetStats(), "stats", time_limit=timeout)
        return stats

    async def describe_options(
        self, scope: OptionScopeName = "topic", *, timeout: float | None = None
    ) -> tuple[OptionSpec, ...]:
        """The options that topics, streams or users may be given when they are created."""
        doing = f"describe_options {scope!r}"
        specs: tuple[OptionSpec, ...] = await self._caller.call(
            DescribeOptions(_choice(doing, scope, OptionScope)), doing, time_limit=timeout
        )
        return specs

    async def snapshot(
        self,
        *sections: SnapshotSection,
        compression: SnapshotCompressionName = "deflated",
        timeout: float | None = None,
    ) -> bytes:
        """A ZIP archive that describes the state of the server, for whoever helps with it.

            Path("snapshot.zip").write_bytes(await client.snapshot())

        Args:
            sections: What it is to hold, a file for each; without any: all but `test`. What the
                server cannot collect is left out.
            compression: How the files are compressed; few programs read `zstd` and `xz` in a ZIP
                archive.
            timeout: Seconds that it may take; None: the client's `request_timeout`, which has to be
                raised for a server that needs longer.

        Raises:
            InvalidRequest: There is no such section or compression.
            PermissionDenied: The user may not look at the server.
            ServerError: Somebody else has a snapshot made at the moment, or it is too large.
        """
        kinds = tuple(_choice("snapshot", section, SnapshotKind) for section in sections)
        packing = _choice("snapshot", compression, SnapshotCompression)
        snapshot: Snapshot = await self._caller.call(
            GetSnapshot(packing, kinds or (SnapshotKind.ALL,)), "snapshot", time_limit=timeout
        )
        return snapshot.archive

    async def send_binary_request(
        self, code: int, payload: bytes = b"", *, timeout: float | None = None
    ) -> bytes:
        """Send a request that was encoded elsewhere; for commands that have no method here.

        It waits for all calls before it, and all after it wait for it. It is not repeated once it
        may have been executed.

        Args:
            code: The command code (docs/protocol.md). Logins and logouts have methods.
            payload: The body of the request.
            timeout: Seconds that it may take; None: the client's `request_timeout`.

        Returns:
            The body of the reply.

        Raises:
            InvalidRequest: The code belongs to a login or a logout, or the server does not know it.
        """
        reply: bytes = await self._caller.call(
            RawRequest(code, payload),
            f"send_binary_request {code}",
            time_limit=timeout,
            safety=Safety.WRITE,
            rank=Whole.BARRIER,
        )
        return reply

    async def get_clients(self, *, timeout: float | None = None) -> tuple[ClientInfo, ...]:
        """All connections of the node."""
        clients: tuple[ClientInfo, ...] = await self._caller.call(
            GetClients(), "get_clients", time_limit=timeout
        )
        return clients

    async def get_client(
        self, client_id: int, *, timeout: float | None = None
    ) -> ClientDetails | None:
        """One connection by its number; None if there is none with this number."""
        details: ClientDetails | None = await self._caller.call(
            GetClient(client_id), f"get_client {client_id}", time_limit=timeout
        )
        return details


def _choice(doing: str, name: str, choices: type[T]) -> T:
    """The member of an enumeration that has a name."""
    for member in choices:
        if member.name == str(name).upper():
            return member
    names = ", ".join(member.name.lower() for member in choices)
    raise InvalidRequest(f"{doing}: {name!r} is none of {names}")
