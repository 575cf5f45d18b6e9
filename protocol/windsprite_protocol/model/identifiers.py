"""How resources, consumers and partitions are addressed (spec 03, 1.1-1.2; spec 04, 4.2 and 5)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

MAX_NAME_BYTES: Final = 255

Identifier: TypeAlias = int | str
"""A numeric id (0 to 2^32-1) or a name (1 to 255 bytes of UTF-8). `7` and `"7"` are different."""


class ConsumerKind(IntEnum):
    """Who reads: the two kinds have separate tables of stored offsets."""

    SINGLE = 1
    GROUP = 2


@dataclass(frozen=True, slots=True)
class Consumer:
    """The reader on whose behalf messages are polled or offsets are kept."""

    kind: ConsumerKind
    id: Identifier


@dataclass(frozen=True, slots=True)
class Balanced:
    """Partitioning: the server takes the partitions of the topic in turn."""


@dataclass(frozen=True, slots=True)
class ToPartition:
    """Partitioning: this partition."""

    partition_id: int


@dataclass(frozen=True, slots=True)
class ByKey:
    """Partitioning: the partition that the hash of the key (1 to 255 bytes) selects."""

    key: bytes


Partitioning: TypeAlias = Balanced | ToPartition | ByKey


class PollingKind(IntEnum):
    """Where a poll starts to read."""

    OFFSET = 1
    TIMESTAMP = 2
    FIRST = 3
    LAST = 4
    NEXT = 5


@dataclass(frozen=True, slots=True)
class PollingStrategy:
    """Where a poll starts to read; `value` is an offset, a timestamp, or unused (0)."""

    kind: PollingKind
    value: int = 0

    @classmethod
    def offset(cls, offset: int) -> PollingStrategy:
        """From this offset on."""
        return cls(PollingKind.OFFSET, offset)

    @classmethod
    def timestamp(cls, timestamp_us: int) -> PollingStrategy:
        """From the first batch appended at or after this time."""
        return cls(PollingKind.TIMESTAMP, timestamp_us)

    @classmethod
    def first(cls) -> PollingStrategy:
        """From the oldest message."""
        return cls(PollingKind.FIRST)

    @classmethod
    def last(cls) -> PollingStrategy:
        """The newest messages, as many as the poll asks for."""
        return cls(PollingKind.LAST)

    @classmethod
    def next(cls) -> PollingStrategy:
        """After the offset stored for the consumer; from the oldest message if none is stored."""
        return cls(PollingKind.NEXT)


class AckLevel(IntEnum):
    """When a change of a stored offset is acknowledged (spec 04, 7.3)."""

    NONE = 0
    QUORUM = 1
