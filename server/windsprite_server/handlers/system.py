"""The server itself: ping, figures, snapshots, cluster metadata, connected clients (spec 06, 6)."""

from __future__ import annotations

import re
from collections.abc import Coroutine
from typing import Any, Final

from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.cluster import ClusterMetadata, GetClusterMetadata
from windsprite_protocol.model.system import (
    NOT_LOGGED_IN,
    ClientDetails,
    ClientInfo,
    DescribeOptions,
    GetClient,
    GetClients,
    GetMe,
    GetSnapshot,
    GetStats,
    GroupMembership,
    OptionScope,
    OptionSpec,
    Ping,
    Snapshot,
    SnapshotCompression,
    SnapshotKind,
    Stats,
)
from windsprite_protocol.topic_options import describe
from windsprite_server.core.diagnostics import DiagnosticsBusyError
from windsprite_server.groups.registry import GroupKey
from windsprite_server.handlers.access import require
from windsprite_server.handlers.answers import refused
from windsprite_server.handlers.services import Services
from windsprite_server.metadata.authorization import Rule
from windsprite_server.session import Connection

_ALL_OF_A_SNAPSHOT: Final = (
    SnapshotKind.FILESYSTEM_OVERVIEW,
    SnapshotKind.PROCESS_LIST,
    SnapshotKind.RESOURCE_USAGE,
    SnapshotKind.SERVER_LOGS,
    SnapshotKind.SERVER_CONFIG,
)


def ping(_services: Services, _connection: Connection, _request: Ping) -> None:
    """Say that the server is there."""


def get_cluster_metadata(
    services: Services, connection: Connection, _: GetClusterMetadata
) -> ClusterMetadata:
    """Tell who is in the cluster, as the client of this connection should dial them."""
    return services.cluster.describe(connection.reached_host, connection.reached_port)


def get_me(services: Services, connection: Connection, _: GetMe) -> ClientDetails:
    """Tell a client how it is seen."""
    return _details(services, connection)


def get_client(
    services: Services, connection: Connection, request: GetClient
) -> ClientDetails | None:
    """Tell about one connection."""
    require(services, connection, Rule.SERVERS)
    other = services.sessions.get(request.client_id)
    if other is None or not other.is_listed:
        return None
    return _details(services, other)


def get_clients(
    services: Services, connection: Connection, _: GetClients
) -> tuple[ClientInfo, ...]:
    """Tell about all connections."""
    require(services, connection, Rule.SERVERS)
    return tuple(_details(services, other).info for other in services.sessions.listed())


def describe_options(
    _services: Services, _connection: Connection, request: DescribeOptions
) -> tuple[OptionSpec, ...]:
    """Tell which options a resource accepts; only topics accept any."""
    return describe() if request.scope is OptionScope.TOPIC else ()


def get_snapshot(
    services: Services, connection: Connection, request: GetSnapshot
) -> Coroutine[Any, Any, Snapshot]:
    """Make an archive that describes the state of the server."""
    require(services, connection, Rule.SERVERS)
    kinds = request.kinds
    if kinds == (SnapshotKind.ALL,):
        kinds = _ALL_OF_A_SNAPSHOT
    elif SnapshotKind.ALL in kinds:
        raise refused(ErrorCode.INVALID_COMMAND)
    return _snapshot(services, request.compression, kinds)


async def _snapshot(
    services: Services, compression: SnapshotCompression, kinds: tuple[SnapshotKind, ...]
) -> Snapshot:
    try:
        archive = await services.diagnostics.archive(compression, kinds)
    except DiagnosticsBusyError as error:
        raise refused(ErrorCode.SNAPSHOT_FILE_COMPLETION_FAILED) from error
    if len(archive) > services.max_reply_body:
        raise refused(ErrorCode.SNAPSHOT_FILE_COMPLETION_FAILED)
    return Snapshot(archive)


def get_stats(services: Services, connection: Connection, _: GetStats) -> Stats:
    """Tell the figures of the server."""
    require(services, connection, Rule.SERVERS)
    streams = services.state.streams.values()
    topics = [topic for stream in streams for topic in stream.topics.values()]
    partitions_count = sum(len(topic.partitions) for topic in topics)
    held = services.partitions.everything()
    figures = services.meter.read()
    names = services.meter.names
    return Stats(
        process_id=figures.process_id,
        cpu_usage=figures.cpu_usage,
        total_cpu_usage=figures.total_cpu_usage,
        memory_usage=figures.memory_usage,
        total_memory=figures.total_memory,
        available_memory=figures.available_memory,
        run_time=figures.run_time,
        start_time=figures.start_time,
        read_bytes=figures.read_bytes,
        written_bytes=figures.written_bytes,
        messages_size_bytes=held.size_bytes,
        streams_count=len(services.state.streams),
        topics_count=len(topics),
        partitions_count=partitions_count,
        # A partition has a segment even before its log could be opened.
        segments_count=held.segments_count + partitions_count - held.partitions_count,
        messages_count=held.messages_count,
        clients_count=len(services.sessions.listed()),
        consumer_groups_count=sum(len(topic.groups) for topic in topics),
        hostname=names.hostname,
        os_name=names.os_name,
        os_version=names.os_version,
        kernel_version=names.kernel_version,
        server_version=services.server_version,
        server_semver=_semver_number(services.server_version),
        cache_metrics=(),
        threads_count=figures.threads_count,
        free_disk_space=figures.free_disk_space,
        total_disk_space=figures.total_disk_space,
    )


def _details(services: Services, connection: Connection) -> ClientDetails:
    session = connection.session
    groups = () if session is None else services.groups.memberships(session.client)
    info = ClientInfo(
        client_id=connection.number,
        user_id=NOT_LOGGED_IN if session is None else session.user_id,
        transport=connection.transport,
        address=connection.peer,
        consumer_groups_count=len(groups),
    )
    return ClientDetails(info, tuple(_membership(key) for key in groups))


def _membership(key: GroupKey) -> GroupMembership:
    return GroupMembership(key.stream_id, key.topic_id, key.group_id & 0xFFFF_FFFF)


def _semver_number(version: str) -> int:
    """Major, minor and patch as digits: 0.9.0 and 0.9.0rc1 are 9000; 0 if there are none."""
    parts = re.match(r"(\d+)\.(\d+)\.(\d+)", version, re.ASCII)
    if parts is None:
        return 0
    major, minor, patch = map(int, parts.groups())
    return major * 1_000_000 + minor * 1_000 + patch
