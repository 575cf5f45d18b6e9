"""The state: streams, topics, partitions, groups, users, tokens.

Everything in it is immutable but the `State` itself, so whoever holds a `Topic` across a wait holds
what was true when it was looked up, and a snapshot can be written while commands go on.
Only `apply` changes a `State`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from windsprite_protocol.model.permissions import Permissions
from windsprite_protocol.model.topics import Compression
from windsprite_protocol.model.typed_values import Options
from windsprite_server.metadata.authorization import NOTHING_GRANTED, Grants
from windsprite_server.metadata.commands import PartitionPlace

# Limits of the protocol (spec 03, 1.8), not settings: a replay must decide as the first time.
MAX_STREAMS: Final = 1 << 20
MAX_TOPICS: Final = 4096
MAX_PARTITIONS: Final = 1_000_000
MAX_PARTITIONS_IN_COMMAND: Final = 1000
MAX_USERS: Final = 1 << 20
# In one topic. The protocol has no such limit, but as many can store an offset on a partition, and
# whoever may read a topic may create groups.
MAX_GROUPS: Final = 4096


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition; its id is its index in the topic.

    Attributes:
        created_at: When it was created; a purge does not change it.
        incarnation: The journal position of the command that began its present life.
    """

    created_at: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class ConsumerGroup:
    """A consumer group without its members."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic.

    Attributes:
        id: Unique in the stream; may come again after a deletion.
        name: Unique in the stream.
        created_at: When it was created.
        message_expiry: Effective lifetime of messages in microseconds.
        compression: Noted for clients.
        max_topic_size: Effective limit in bytes.
        options: Those the client chose, by ascending key.
        derived_options: Those the server filled in, by ascending key; no key is in both.
        partitions: By their ids, which are dense.
        groups: Consumer groups by id, ascending.
        group_ids: Ids of groups by name.
        next_group_id: Never given back, so that no group inherits another's offsets.
    """

    id: int
    name: str
    created_at: int
    message_expiry: int
    compression: Compression
    max_topic_size: int
    options: Options = ()
    derived_options: Options = ()
    partitions: tuple[Partition, ...] = ()
    groups: Mapping[int, ConsumerGroup] = field(default_factory=dict)
    group_ids: Mapping[str, int] = field(default_factory=dict)
    next_group_id: int = 0


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream.

    Attributes:
        id: May come again after a deletion.
        name: Unique on the server.
        created_at: When it was created.
        topics: By id, in no order.
        topic_ids: Ids of topics by name.
    """

    id: int
    name: str
    created_at: int
    topics: Mapping[int, Topic] = field(default_factory=dict)
    topic_ids: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Token:
    """A personal access token; expiry: timestamp in microseconds, 0 for never."""

    name: str
    token_hash: str = field(repr=False)
    expiry: int

    def has_expired(self, now_us: int) -> bool:
        """Whether its time is over at this time; the moment of its expiry is no longer in it."""
        return self.expiry != 0 and self.expiry <= now_us


@dataclass(frozen=True, slots=True)
class User:
    """A user.

    Attributes:
        id: 0 is root; another may come again after a deletion.
        username: Unique on the server.
        created_at: When it was created; 1 for root.
        status: A `UserStatus` (a number, as in the protocol's values).
        password_hash: In PHC string format.
        permissions: By ascending ids; `None`: nothing granted.
        grants: The permissions, compiled.
        tokens: Personal access tokens by name.
    """

    id: int
    username: str
    created_at: int
    status: int
    password_hash: str = field(repr=False)
    permissions: Permissions | None = None
    grants: Grants = field(default=NOTHING_GRANTED, repr=False)
    tokens: Mapping[str, Token] = field(default_factory=dict)


class LowestUnused:
    """Hands out the lowest number that is not in use; numbers given back come again."""

    __slots__ = ("_free", "_next")

    def __init__(self, used: Iterable[int] = ()) -> None:
        taken = set(used)
        self._next = max(taken, default=-1) + 1
        # Ascending, so it is a heap already.
        self._free = [number for number in range(self._next) if number not in taken]

    def take(self) -> int:
        """A number that is in use from now on."""
        if self._free:
            return heapq.heappop(self._free)
        self._next += 1
        return self._next - 1

    def give_back(self, number: int) -> None:
        """A number that was taken is not in use any more."""
        heapq.heappush(self._free, number)


class State:
    """All metadata as of one position of the journal.

    Attributes:
        position: That of the last command applied; 0 before the first.
        timestamp_us: That of the last command applied; 0 before the first.
        streams: By id, in no order.
        stream_ids: Ids of streams by name.
        users: By id, in no order.
        user_ids: Ids of users by name.
        token_owners: User id and name of each token, by its hash.
        condemned: Places whose files may still exist though no partition is there any more.
        free_stream_ids: Follows from `streams`.
        free_user_ids: Follows from `users`.
    """

    __slots__ = (
        "condemned",
        "free_stream_ids",
        "free_user_ids",
        "position",
        "stream_ids",
        "streams",
        "timestamp_us",
        "token_owners",
        "user_ids",
        "users",
    )

    def __init__(
        self,
        *,
        position: int = 0,
        timestamp_us: int = 0,
        streams: Iterable[Stream] = (),
        users: Iterable[User] = (),
        condemned: Iterable[PartitionPlace] = (),
    ) -> None:
        self.position = position
        self.timestamp_us = timestamp_us
        self.streams: dict[int, Stream] = {stream.id: stream for stream in streams}
        self.stream_ids: dict[str, int] = {
            stream.name: stream.id for stream in self.streams.values()
        }
        self.users: dict[int, User] = {user.id: user for user in users}
        self.user_ids: dict[str, int] = {user.username: user.id for user in self.users.values()}
        self.token_owners: dict[str, tuple[int, str]] = {
            token.token_hash: (user.id, token.name)
            for user in self.users.values()
            for token in user.tokens.values()
        }
        self.condemned: set[PartitionPlace] = set(condemned)
        self.free_stream_ids = LowestUnused(self.streams)
        self.free_user_ids = LowestUnused(self.users)
