"""A state as bytes: what stands for all commands up to a position.

The form is JSON Lines, one array of tag and object a line, with the rules of `encoding`:

    ["header",{"format":1,"position":7,"timestamp_us":1700000000000000,"streams":1,...}]
    ["stream",{"id":0,"name":"orders","created_at":...,"topics":[...]}]
    ["user",{"id":0,"username":"iggy",...}]
    ["condemned",{"places":[...]}]

Streams and users stand by ascending id, condemned places in ascending order in lines of up to 1000.
Partitions that began together are one entry: created_at, incarnation, how many. So the same state
always has the same bytes. Whatever follows from the rest (names to ids, grants) is not written.

Many short lines and not one document: the bytes are made in a thread, and the event loop gets
its turn between any two lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError

from windsprite_protocol.model.permissions import Permissions
from windsprite_protocol.model.topics import Compression
from windsprite_protocol.model.typed_values import Options
from windsprite_server.metadata.authorization import compile_grants
from windsprite_server.metadata.commands import PartitionPlace
from windsprite_server.metadata.encoding import explain, tagged_union
from windsprite_server.metadata.state import (
    MAX_PARTITIONS,
    MAX_STREAMS,
    MAX_TOPICS,
    MAX_USERS,
    ConsumerGroup,
    Partition,
    State,
    Stream,
    Token,
    Topic,
    User,
)

FORMAT: Final = 1

_PLACES_IN_LINE: Final = 1000


class SnapshotError(ValueError):
    """Bytes are not a snapshot that this version writes."""


@dataclass(frozen=True, slots=True)
class FrozenState:
    """What a state held at one moment, safe to be read in another thread."""

    position: int
    timestamp_us: int
    streams: list[Stream]
    users: list[User]
    condemned: list[PartitionPlace]


@dataclass(frozen=True, slots=True)
class _Header:
    format: int
    position: int
    timestamp_us: int
    streams: int
    users: int
    condemned: int


@dataclass(frozen=True, slots=True)
class _TopicRecord:
    id: Annotated[int, Field(ge=0, lt=MAX_TOPICS)]
    name: str
    created_at: int
    message_expiry: int
    compression: Compression
    max_topic_size: int
    options: Options
    derived_options: Options
    partitions: tuple[tuple[int, int, Annotated[int, Field(ge=1, le=MAX_PARTITIONS)]], ...]
    groups: tuple[ConsumerGroup, ...]
    next_group_id: int


@dataclass(frozen=True, slots=True)
class _StreamRecord:
    id: Annotated[int, Field(ge=0, lt=MAX_STREAMS)]
    name: str
    created_at: int
    topics: tuple[_TopicRecord, ...]


@dataclass(frozen=True, slots=True)
class _UserRecord:
    id: Annotated[int, Field(ge=0, lt=MAX_USERS)]
    username: str
    created_at: int
    status: int
    password_hash: str = field(repr=False)
    permissions: Permissions | None
    tokens: tuple[Token, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _CondemnedRecord:
    places: tuple[PartitionPlace, ...]


_RECORDS: Final = tagged_union(
    {
        "header": _Header,
        "stream": _StreamRecord,
        "user": _UserRecord,
        "condemned": _CondemnedRecord,
    }
)

_by_id: Final = attrgetter("id")
_by_place: Final = attrgetter("stream_id", "topic_id", "partition_id", "incarnation")


def freeze(state: State) -> FrozenState:
    """Hold what a state is now, in a time that a large state hardly notices."""
    return FrozenState(
        state.position,
        state.timestamp_us,
        list(state.streams.values()),
        list(state.users.values()),
        list(state.condemned),
    )


def encode(frozen: FrozenState) -> bytes:
    """The bytes of a snapshot; the same state always has the same bytes."""
    return b"\n".join(_RECORDS.dump_json(record) for record in _records(frozen)) + b"\n"


def restore(data: bytes) -> State:
    """The state of these bytes.

    Raises:
        SnapshotError: They were damaged, or written by a later version.
    """
    lines = iter(data.splitlines())
    header = _read(next(lines, b""), 1)
    if not isinstance(header, _Header):
        raise SnapshotError("a snapshot begins with its header")
    if header.format != FORMAT:
        raise SnapshotError(
            f"the snapshot has format {header.format}, but this version knows format {FORMAT} only"
        )
    streams: list[Stream] = []
    users: list[User] = []
    condemned: list[PartitionPlace] = []
    for number, line in enumerate(lines, start=2):
        record = _read(line, number)
        if isinstance(record, _StreamRecord):
            streams.append(_stream(record))
        elif isinstance(record, _UserRecord):
            users.append(_user(record))
        elif isinstance(record, _CondemnedRecord):
            condemned += record.places
        else:
            raise SnapshotError(f"line {number} is a second header")
    if (len(streams), len(users), len(condemned)) != (
        header.streams,
        header.users,
        header.condemned,
    ):
        raise SnapshotError("the snapshot does not hold what its header says")
    state = State(
        position=header.position,
        timestamp_us=header.timestamp_us,
        streams=streams,
        users=users,
        condemned=condemned,
    )
    _require_unique(streams, state.streams, state.stream_ids)
    _require_unique(users, state.users, state.user_ids)
    return state


def _records(frozen: FrozenState) -> Iterator[tuple[str, Any]]:
    header = _Header(
        FORMAT,
        frozen.position,
        frozen.timestamp_us,
        len(frozen.streams),
        len(frozen.users),
        len(frozen.condemned),
    )
    yield "header", header
    for stream in sorted(frozen.streams, key=_by_id):
        yield "stream", _stream_record(stream)
    for user in sorted(frozen.users, key=_by_id):
        yield "user", _user_record(user)
    places = sorted(frozen.condemned, key=_by_place)
    for start in range(0, len(places), _PLACES_IN_LINE):
        yield "condemned", _CondemnedRecord(tuple(places[start : start + _PLACES_IN_LINE]))


def _stream_record(stream: Stream) -> _StreamRecord:
    return _StreamRecord(
        stream.id,
        stream.name,
        stream.created_at,
        tuple(_topic_record(topic) for topic in sorted(stream.topics.values(), key=_by_id)),
    )


def _topic_record(topic: Topic) -> _TopicRecord:
    return _TopicRecord(
        id=topic.id,
        name=topic.name,
        created_at=topic.created_at,
        message_expiry=topic.message_expiry,
        compression=topic.compression,
        max_topic_size=topic.max_topic_size,
        options=topic.options,
        derived_options=topic.derived_options,
        partitions=tuple(
            (partition.created_at, partition.incarnation, sum(1 for _ in run))
            for partition, run in groupby(topic.partitions)
        ),
        groups=tuple(sorted(topic.groups.values(), key=_by_id)),
        next_group_id=topic.next_group_id,
    )


def _user_record(user: User) -> _UserRecord:
    return _UserRecord(
        user.id,
        user.username,
        user.created_at,
        user.status,
        user.password_hash,
        user.permissions,
        tuple(token for _, token in sorted(user.tokens.items())),
    )


def _read(line: bytes, number: int) -> object:
    try:
        _, record = _RECORDS.validate_json(line)
    except ValidationError as error:
        raise SnapshotError(f"line {number}: {explain(error)}") from error
    return record


def _stream(record: _StreamRecord) -> Stream:
    stream = Stream(
        record.id,
        record.name,
        record.created_at,
        {topic.id: _topic(topic) for topic in record.topics},
        {topic.name: topic.id for topic in record.topics},
    )
    _require_unique(record.topics, stream.topics, stream.topic_ids)
    return stream


def _topic(record: _TopicRecord) -> Topic:
    partitions: list[Partition] = []
    for created_at, incarnation, count in record.partitions:
        partitions += (Partition(created_at, incarnation),) * count
    topic = Topic(
        id=record.id,
        name=record.name,
        created_at=record.created_at,
        message_expiry=record.message_expiry,
        compression=record.compression,
        max_topic_size=record.max_topic_size,
        options=record.options,
        derived_options=record.derived_options,
        partitions=tuple(partitions),
        groups={group.id: group for group in record.groups},
        group_ids={group.name: group.id for group in record.groups},
        next_group_id=record.next_group_id,
    )
    _require_unique(record.groups, topic.groups, topic.group_ids)
    return topic


def _user(record: _UserRecord) -> User:
    user = User(
        id=record.id,
        username=record.username,
        created_at=record.created_at,
        status=record.status,
        password_hash=record.password_hash,
        permissions=record.permissions,
        grants=compile_grants(record.permissions),
        tokens={token.name: token for token in record.tokens},
    )
    _require_unique(record.tokens, user.tokens)
    return user


def _require_unique(records: Sequence[object], *indexes: Sized) -> None:
    if any(len(index) != len(records) for index in indexes):
        raise SnapshotError("an id or a name stands twice in the snapshot")
