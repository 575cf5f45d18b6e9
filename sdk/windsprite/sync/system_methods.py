"""The methods of `SystemCommands`, blocking; written by docs/sync_modules.py."""

from __future__ import annotations

from windsprite.client import Client as Target
from windsprite.commands.system import OptionScopeName, SnapshotCompressionName, SnapshotSection
from windsprite.sync.base import Blocking
from windsprite_protocol.model.cluster import ClusterMetadata
from windsprite_protocol.model.system import ClientDetails, ClientInfo, OptionSpec, Stats


class SystemCommands(Blocking[Target]):
    """The server itself, the cluster, and who is connected."""

    def ping(self, *, timeout: float | None = None) -> None:
        """See that the server answers; works without a login."""
        self._thread.run(self._target.ping(timeout=timeout))

    def get_cluster_metadata(self, *, timeout: float | None = None) -> ClusterMetadata:
        """Who is in the cluster and who leads it.

        `cluster_id` and `leader_epoch` are None and nodes have no `identity` if the server is not
        a Windsprite server.
        """
        return self._thread.run(self._target.get_cluster_metadata(timeout=timeout))

    def me(self, *, timeout: float | None = None) -> ClientDetails:
        """How the server sees this connection."""
        return self._thread.run(self._target.me(timeout=timeout))

    def stats(self, *, timeout: float | None = None) -> Stats:
        """The figures of the server."""
        return self._thread.run(self._target.stats(timeout=timeout))

    def describe_options(
        self, scope: OptionScopeName = "topic", *, timeout: float | None = None
    ) -> tuple[OptionSpec, ...]:
        """The options that topics, streams or users may be given when they are created."""
        return self._thread.run(self._target.describe_options(scope, timeout=timeout))

    def snapshot(
        self,
        *sections: SnapshotSection,
        compression: SnapshotCompressionName = "deflated",
        timeout: float | None = None,
    ) -> bytes:
        """A ZIP archive that describes the state of the server, for whoever helps with it.

            Path("snapshot.zip").write_bytes(client.snapshot())

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
        return self._thread.run(
            self._target.snapshot(*sections, compression=compression, timeout=timeout)
        )

    def send_binary_request(
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
        return self._thread.run(self._target.send_binary_request(code, payload, timeout=timeout))

    def get_clients(self, *, timeout: float | None = None) -> tuple[ClientInfo, ...]:
        """All connections of the node."""
        return self._thread.run(self._target.get_clients(timeout=timeout))

    def get_client(self, client_id: int, *, timeout: float | None = None) -> ClientDetails | None:
        """One connection by its number; None if there is none with this number."""
        return self._thread.run(self._target.get_client(client_id, timeout=timeout))
