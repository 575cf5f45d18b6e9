"""The hashes that clients and servers must agree on (spec 04, 4.3 and 5.2)."""

from __future__ import annotations

from xxhash import xxh32_intdigest


def partition_index(key: bytes, partitions_count: int) -> int:
    """Which partition, of at least one in ascending order of their ids, a message key selects."""
    return xxh32_intdigest(key) % partitions_count


def consumer_number(name: str) -> int:
    """The 32-bit number under which the offsets of a named consumer are kept."""
    return xxh32_intdigest(name.encode())
