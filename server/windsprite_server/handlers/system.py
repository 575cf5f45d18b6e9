"""The server itself: ping, statistics, cluster metadata, connected clients (spec 06, 6)."""

from __future__ import annotations

from windsprite_protocol.model.cluster import ClusterMetadata, GetClusterMetadata
from windsprite_protocol.model.system import (
    NOT_LOGGED_IN,
    ClientDetails,
    ClientInfo,
    DescribeOptions,
    GetClient,
    GetClients,
    GetMe,
    GetStats,
    OptionScope,
    OptionSpec,
    Ping,
    Stats,
)
from windsprite_protocol.topic_options import describe
from windsprite_server.handlers.access import require
from windsprite_server.handlers.services import Services
from windsprite_server.metadata.authorization import Rule
from windsprite_server.session import Connection


def ping(_services: Services, _connection: Connection, _request: Ping) -> None:
    """Say that the server is there."""


def get_cluster_metadata(
    services: Services, connection: Connection, _: GetClusterMetadata
) -> ClusterMetadata:
    """Tell who is in the cluster, as the client of this connection should dial them."""
    return services.cluster.describe(connection.reached_host, connection.reached_port)


def get_me(_: Services, connection: Connection, __: GetMe) -> ClientDetails:
    """Tell a client how it is seen."""
    return _details(connection)


def get_client(
    services: Services, connection: Connection, request: GetClient
) -> ClientDetails | None:
    """Tell about one connection."""
    require(services, connection, Rule.SERVERS)
    other = services.sessions.get(request.client_id)
    return None if other is None else _details(other)


def get_clients(
    services: Services, connection: Connection, _: GetClients
) -> tuple[ClientInfo, ...]:
    """Tell about all connections."""
    require(services, connection, Rule.SERVERS)
    return tuple(_info(other) for other in services.sessions)


def describe_options(
    _services: Services, _connection: Connection, request: DescribeOptions
) -> tuple[OptionSpec, ...]:
    """Tell which options a resource accepts; only topics accept any."""
    return describe() if request.scope is OptionScope.TOPIC else ()


def get_stats(services: Services, connection: Connection, _: GetStats) -> Stats:
    """Tell the figures of the server."""
    require(services, connection, Rule.SERVERS)
    streams = services.state.streams.values()
    topics = [topic for stream in streams for topic in stream.topics.values()]
    held = services.partitions.totals()
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
        partitions_count=sum(len(topic.partitions) for topic in topics),
        segments_count=held.segments_count,
        messages_count=held.messages_count,
        clients_count=len(services.sessions),
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


def _info(connection: Connection) -> ClientInfo:
    session = connection.session
    return ClientInfo(
        client_id=connection.number,
        user_id=NOT_LOGGED_IN if session is None else session.user_id,
        transport=connection.transport,
        address=connection.peer,
        consumer_groups_count=0,
    )


def _details(connection: Connection) -> ClientDetails:
    return ClientDetails(_info(connection), ())


def _semver_number(version: str) -> int:
    """Major, minor and patch as decimal digits: 0.9.0 is 9000; 0 if it is no such version."""
    parts = version.split("-", maxsplit=1)[0].split(".")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        return 0
    major, minor, patch = map(int, parts)
    return major * 1_000_000 + minor * 1_000 + patch
