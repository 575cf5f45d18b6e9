"""The server itself: ping, statistics, snapshot, connected clients (spec 06, 6)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final


@dataclass(frozen=True, slots=True)
class Ping:
    """Ask whether the server answers; works without a login."""


@dataclass(frozen=True, slots=True)
class GetStats:
    """Ask for the figures of the server."""


@dataclass(frozen=True, slots=True)
class CacheMetrics:
    """How often reads of one partition were served from memory."""

    stream_id: int
    topic_id: int
    partition_id: int
    hits: int
    misses: int
    hit_ratio: float


@dataclass(frozen=True, slots=True)
class Stats:
    """The figures of the server; times in microseconds, sizes in bytes, CPU in percent."""

    process_id: int
    cpu_usage: float
    total_cpu_usage: float
    memory_usage: int
    total_memory: int
    available_memory: int
    run_time: int
    start_time: int
    read_bytes: int
    written_bytes: int
    messages_size_bytes: int
    streams_count: int
    topics_count: int
    partitions_count: int
    segments_count: int
    messages_count: int
    clients_count: int
    consumer_groups_count: int
    hostname: str
    os_name: str
    os_version: str
    kernel_version: str
    server_version: str
    server_semver: int
    cache_metrics: tuple[CacheMetrics, ...]
    threads_count: int
    free_disk_space: int
    total_disk_space: int


class SnapshotCompression(IntEnum):
    """How the entries of a snapshot archive are compressed."""

    STORED = 1
    DEFLATED = 2
    BZIP2 = 3
    ZSTD = 4
    LZMA = 5
    XZ = 6


class SnapshotKind(IntEnum):
    """What a snapshot archive can hold."""

    FILESYSTEM_OVERVIEW = 1
    PROCESS_LIST = 2
    RESOURCE_USAGE = 3
    TEST = 4
    SERVER_LOGS = 5
    SERVER_CONFIG = 6
    ALL = 100


@dataclass(frozen=True, slots=True)
class GetSnapshot:
    """Ask for a ZIP archive that describes the state of the server for support."""

    compression: SnapshotCompression
    kinds: tuple[SnapshotKind, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The bytes of a ZIP archive."""

    archive: bytes


class OptionScope(IntEnum):
    """Whose options are described."""

    TOPIC = 1
    STREAM = 2
    USER = 3


@dataclass(frozen=True, slots=True)
class DescribeOptions:
    """Ask which options a resource accepts when it is created."""

    scope: OptionScope


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """One option that a resource accepts; an empty default means that there is none."""

    key: str
    kind: int
    default: bytes
    description: str


NOT_LOGGED_IN: Final = 0xFFFF_FFFF
"""The user id that stands for nobody in a list of clients."""


class TransportKind(IntEnum):
    """How a client is connected."""

    TCP = 1
    QUIC = 2
    HTTP = 3
    WEBSOCKET = 4


@dataclass(frozen=True, slots=True)
class GetMe:
    """Ask how the server sees this connection."""


@dataclass(frozen=True, slots=True)
class GetClient:
    """Ask for one connection by its number."""

    client_id: int


@dataclass(frozen=True, slots=True)
class GetClients:
    """Ask for all connections of the node."""


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """A connection; `user_id` is `NOT_LOGGED_IN` while nobody has logged in on it."""

    client_id: int
    user_id: int
    transport: TransportKind
    address: str
    consumer_groups_count: int


@dataclass(frozen=True, slots=True)
class GroupMembership:
    """A consumer group that a connection belongs to."""

    stream_id: int
    topic_id: int
    group_id: int


@dataclass(frozen=True, slots=True)
class ClientDetails:
    """A connection and the consumer groups it belongs to."""

    info: ClientInfo
    memberships: tuple[GroupMembership, ...]
