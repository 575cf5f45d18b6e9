"""The server itself and its clients (spec 06, 6)."""

from __future__ import annotations

from typing import Final

import construct as c

from windsprite_protocol.layout import (
    F32,
    NAME8,
    STR32,
    U8,
    U32,
    U64,
    Counted,
    Enumerated,
    Headed,
    Record,
    UntilEnd,
)
from windsprite_protocol.model.system import (
    CacheMetrics,
    ClientDetails,
    ClientInfo,
    DescribeOptions,
    GetClient,
    GetSnapshot,
    GroupMembership,
    OptionScope,
    OptionSpec,
    Snapshot,
    SnapshotCompression,
    SnapshotKind,
    Stats,
    TransportKind,
)

CACHE_METRICS: Final = Record(
    CacheMetrics,
    "stream_id" / U32,
    "topic_id" / U32,
    "partition_id" / U32,
    "hits" / U64,
    "misses" / U64,
    "hit_ratio" / F32,
)

STATS: Final = Record(
    Stats,
    "process_id" / U32,
    "cpu_usage" / F32,
    "total_cpu_usage" / F32,
    "memory_usage" / U64,
    "total_memory" / U64,
    "available_memory" / U64,
    "run_time" / U64,
    "start_time" / U64,
    "read_bytes" / U64,
    "written_bytes" / U64,
    "messages_size_bytes" / U64,
    "streams_count" / U32,
    "topics_count" / U32,
    "partitions_count" / U32,
    "segments_count" / U32,
    "messages_count" / U64,
    "clients_count" / U32,
    "consumer_groups_count" / U32,
    "hostname" / STR32,
    "os_name" / STR32,
    "os_version" / STR32,
    "kernel_version" / STR32,
    "server_version" / STR32,
    "server_semver" / U32,
    "cache_metrics" / Counted[CacheMetrics](U32, CACHE_METRICS),
    "threads_count" / U32,
    "free_disk_space" / U64,
    "total_disk_space" / U64,
)

GET_SNAPSHOT: Final = Record(
    GetSnapshot,
    "compression" / Enumerated(U8, SnapshotCompression),
    "kinds" / Counted[SnapshotKind](U8, Enumerated(U8, SnapshotKind)),
)
SNAPSHOT: Final = Record(Snapshot, "archive" / c.GreedyBytes)

DESCRIBE_OPTIONS: Final = Record(DescribeOptions, "scope" / Enumerated(U8, OptionScope))
OPTION_SPECS: Final = Counted[OptionSpec](
    U32,
    Record(
        OptionSpec,
        "key" / NAME8,
        "kind" / U8,
        "default" / c.Prefixed(U32, c.GreedyBytes),
        "description" / STR32,
    ),
)

CLIENT: Final = Record(
    ClientInfo,
    "client_id" / U32,
    "user_id" / U32,
    "transport" / Enumerated(U8, TransportKind),
    "address" / STR32,
    "consumer_groups_count" / U32,
)
MEMBERSHIP: Final = Record(
    GroupMembership,
    "stream_id" / U32,
    "topic_id" / U32,
    "group_id" / U32,
)
CLIENT_DETAILS: Final = Headed(
    ClientDetails, "info" / CLIENT, "consumer_groups_count", "memberships" / MEMBERSHIP
)
CLIENTS: Final = UntilEnd[ClientInfo](CLIENT)

GET_CLIENT: Final = Record(GetClient, "client_id" / U32)
