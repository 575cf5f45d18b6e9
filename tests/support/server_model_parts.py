"""What the model of a server is made of: what clients can see, and what only the server knows."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields
from typing import Any

from support.topic_option_choices import Effective
from support.wire_client import Told
from windsprite_protocol.batches import BATCH_HEADER
from windsprite_protocol.message_frames import FRAME_HEADER
from windsprite_protocol.model import groups
from windsprite_protocol.model.identifiers import Identifier
from windsprite_protocol.model.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from windsprite_protocol.model.typed_values import TypedValue


class No(Exception):  # noqa: N818 - says it best
    """A request does not succeed.

    Attributes:
        told: What the client is told.
    """

    def __init__(self, told: Told) -> None:
        super().__init__(told)
        self.told = told


class Learned:
    """A number that only the server knows: the first that it tells must be one of `possible`.

    From then on it is that one.
    """

    def __init__(self, possible: range) -> None:
        self.possible = possible
        self.value: int | None = None

    def __eq__(self, other: object) -> bool:
        if self.value is None and other in self.possible:
            self.value = int(str(other))
        return self.value == other

    def __hash__(self) -> int:
        raise TypeError

    def __repr__(self) -> str:
        return f"<{self.possible if self.value is None else self.value}>"


def a_time_from_now(after_us: int = 0) -> Any:
    """The time at which a server carries out what it is asked now, and something after it."""
    now = time.time_ns() // 1000 + after_us
    return Learned(range(now, now + 60_000_000))


# What there is


@dataclass
class Partition:
    created_at: Any
    segment_size: int
    messages: list[bytes] = field(default_factory=list)
    segments: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    """First offset and bytes of each."""
    offsets: dict[Identifier, int] = field(default_factory=dict)
    group_offsets: dict[int, int] = field(default_factory=dict)
    watermark: int = -1

    @property
    def first(self) -> int:
        return self.segments[0][0]

    @property
    def current_offset(self) -> int:
        return max(0, len(self.messages) - 1)

    @property
    def size(self) -> int:
        return sum(size for _, size in self.segments)

    @property
    def count(self) -> int:
        return len(self.messages) - self.first

    def append(self, payloads: list[bytes]) -> int:
        base_offset = len(self.messages)
        self.messages += payloads
        start, size = self.segments.pop()
        size += BATCH_HEADER.size + sum(FRAME_HEADER.size + len(payload) for payload in payloads)
        self.segments.append((start, size))
        if size >= self.segment_size:
            self.segments.append((len(self.messages), 0))
        return base_offset

    def sealed_ends(self) -> list[int]:
        """The last offset of each segment but the active one."""
        return [start - 1 for start, _ in self.segments[1:]]

    def trim(self) -> bool:
        """Remove the segments that are to go, as far as no consumer needs them."""
        up_to = min([self.watermark, *self.offsets.values(), *self.group_offsets.values()])
        going = sum(end <= up_to for end in self.sealed_ends())
        del self.segments[:going]
        return going > 0


@dataclass
class Group:
    name: str
    members: dict[int, int] = field(default_factory=dict)
    """The slots of connections that joined."""
    assigned: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """What connections were told since the last change of members or partitions."""


@dataclass
class Topic:
    id: int
    name: str
    created_at: Any
    chosen: dict[str, TypedValue]
    derived: dict[str, TypedValue]
    effective: Effective
    partitions: list[Partition] = field(default_factory=list)
    groups: dict[int, Group] = field(default_factory=dict)
    groups_made: int = 0
    turn: int = 0


@dataclass
class Stream:
    id: int
    name: str
    created_at: Any
    topics: list[Topic] = field(default_factory=list)


@dataclass
class Grants:
    """Permissions as words, such as `read_streams`."""

    everywhere: set[str]
    on_stream: dict[int, set[str]]
    on_topic: dict[tuple[int, int], set[str]]


@dataclass
class Token:
    secret: Any
    expiry: Any
    is_expired: bool


@dataclass
class User:
    id: int
    name: str
    created_at: Any
    password: str
    status: int = 1
    grants: Grants | None = None
    tokens: dict[str, Token] = field(default_factory=dict)


class Assignment:
    """What a member is told that it may poll; the same until members or partitions change."""

    def __init__(self, group: Group, connection: int, partitions_count: int) -> None:
        self._group = group
        self._connection = connection
        self._partitions = range(partitions_count)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, groups.GroupAssignment):
            return False
        assigned = self._group.assigned
        others = {
            number
            for connection, numbers in assigned.items()
            if connection != self._connection
            for number in numbers
        }
        told = assigned.setdefault(self._connection, other.partitions)
        return told == other.partitions and set(told) <= set(self._partitions) - others

    def __hash__(self) -> int:
        raise TypeError


class Shares:
    """What members own: each partition belongs to one, and shares differ by one at most.

    So it is as long as nobody leaves messages uncommitted (spec 05, 6.1).
    """

    def __init__(self, slots: list[int], partitions_count: int) -> None:
        self._slots = slots
        self._partitions = range(partitions_count if slots else 0)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple):
            return False
        sizes = [len(member.partitions) for member in other]
        owned = [number for member in other for number in member.partitions]
        return (
            [member.id for member in other] == self._slots
            and sorted(owned) == list(self._partitions)
            and max(sizes, default=0) - min(sizes, default=0) <= 1
        )

    def __hash__(self) -> int:
        raise TypeError

    def __repr__(self) -> str:
        return f"<equal shares of {self._partitions} for the slots {self._slots}>"


class Secret:
    """A token: whatever the server makes it, once."""

    def __init__(self) -> None:
        self.text: str | None = None

    def __eq__(self, other: object) -> bool:
        if self.text is None and isinstance(other, str) and len(other) == 68:
            self.text = other
        return self.text == other

    def __hash__(self) -> int:
        raise TypeError


def find(rows: list[Any], identifier: Identifier) -> Any:
    key = "name" if isinstance(identifier, str) else "id"
    return next((row for row in rows if getattr(row, key) == identifier), None)


def lowest_unused(rows: list[Any]) -> int:
    return min(set(range(len(rows) + 1)) - {row.id for row in rows})


def insert(rows: list[Any], row: Any) -> None:
    rows.append(row)
    rows.sort(key=lambda row: row.id)


# Permissions, as words and as they travel


def _words(grants: Any) -> set[str]:
    return {flag.name for flag in fields(grants) if getattr(grants, flag.name) is True}


def grants_of(permissions: Permissions | None) -> Grants | None:
    """The last entry of a stream counts, and in it the last of a topic."""
    if permissions is None:
        return None
    last = {stream.stream_id: stream for stream in permissions.streams}
    return Grants(
        _words(permissions.root),
        {stream_id: _words(stream) for stream_id, stream in last.items()},
        {
            (stream_id, topic.topic_id): _words(topic)
            for stream_id, stream in last.items()
            for topic in stream.topics
        },
    )


def permissions_of(grants: Grants | None) -> Permissions | None:
    """By ascending ids."""
    if grants is None:
        return None
    return Permissions(
        GlobalPermissions(**dict.fromkeys(grants.everywhere, True)),
        tuple(
            StreamPermissions(
                stream_id,
                **dict.fromkeys(words, True),
                topics=tuple(
                    TopicPermissions(topic_id, **dict.fromkeys(topic_words, True))
                    for (its_stream, topic_id), topic_words in sorted(grants.on_topic.items())
                    if its_stream == stream_id
                ),
            )
            for stream_id, words in sorted(grants.on_stream.items())
        ),
    )
