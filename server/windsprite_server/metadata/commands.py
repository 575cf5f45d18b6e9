"""The commands that change metadata, as they are journaled.

Whatever was decided when a command was admitted is part of it: options are resolved, passwords
and tokens are hashed, nothing secret is in plain text. So a command means the same for ever,
whatever defaults or settings come later. Streams, topics, groups and users are named as the
client named them and are looked up when the command is applied.

The names of classes and fields are persisted (see `encoding`): rename none of them. A new field
needs a default that means what its absence meant.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from windsprite_protocol.model.identifiers import Identifier
from windsprite_protocol.model.permissions import Permissions
from windsprite_protocol.model.topics import Compression
from windsprite_protocol.model.typed_values import Options


@dataclass(frozen=True, slots=True, order=True)
class PartitionPlace:
    """One life of a partition: what the files of its log are named after.

    Attributes:
        stream_id: The stream.
        topic_id: The topic in the stream.
        partition_id: The partition in the topic.
        incarnation: The journal position of the command that began this life, by creating the
            partition or by purging it. No two lives share all four numbers, so what a
            deleted partition left behind is never taken for its successor's.
    """

    stream_id: int
    topic_id: int
    partition_id: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class NoOperation:
    """Takes a position in the journal and changes nothing."""


@dataclass(frozen=True, slots=True)
class CreateStream:
    """Create a stream. Reply: `StreamDetails`."""

    name: str


@dataclass(frozen=True, slots=True)
class UpdateStream:
    """Rename a stream."""

    stream: Identifier
    name: str


@dataclass(frozen=True, slots=True)
class DeleteStream:
    """Delete a stream with all it holds."""

    stream: Identifier


@dataclass(frozen=True, slots=True)
class PurgeStream:
    """Begin a new life of every partition of the stream."""

    stream: Identifier


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Create a topic. Reply: `TopicDetails`.

    Attributes:
        stream: Where.
        name: Unique in the stream.
        partitions_count: 0 to 1000.
        message_expiry: Effective lifetime of messages in microseconds, never 0.
        compression: Effective, noted for clients.
        max_topic_size: Effective limit in bytes, never 0.
        options: What the client chose, in canonical form (spec 03, 5.3).
        derived_options: Every other key with the default of that moment.
    """

    stream: Identifier
    name: str
    partitions_count: int
    message_expiry: int
    compression: Compression
    max_topic_size: int
    options: Options = ()
    derived_options: Options = ()


@dataclass(frozen=True, slots=True)
class UpdateTopic:
    """Rename a topic and change some of its options (spec 03, 5.4).

    Attributes:
        stream: Where.
        topic: Which.
        name: The new name, or the current one to keep it.
        options: The options to store among the chosen ones; other keys keep their values.
        message_expiry: New effective value; `None` keeps the old one.
        compression: New effective value; `None` keeps the old one.
        max_topic_size: New effective value; `None` keeps the old one.
    """

    stream: Identifier
    topic: Identifier
    name: str
    options: Options = ()
    message_expiry: int | None = None
    compression: Compression | None = None
    max_topic_size: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Delete a topic with all it holds."""

    stream: Identifier
    topic: Identifier


@dataclass(frozen=True, slots=True)
class PurgeTopic:
    """Begin a new life of every partition of the topic."""

    stream: Identifier
    topic: Identifier


@dataclass(frozen=True, slots=True)
class CreatePartitions:
    """Add 1 to 1000 partitions after the last one."""

    stream: Identifier
    topic: Identifier
    partitions_count: int


@dataclass(frozen=True, slots=True)
class DeletePartitions:
    """Remove the 1 to 1000 partitions with the highest ids."""

    stream: Identifier
    topic: Identifier
    partitions_count: int


@dataclass(frozen=True, slots=True)
class CreateConsumerGroup:
    """Create a consumer group. Reply: `ConsumerGroupDetails`."""

    stream: Identifier
    topic: Identifier
    name: str


@dataclass(frozen=True, slots=True)
class DeleteConsumerGroup:
    """Delete a consumer group."""

    stream: Identifier
    topic: Identifier
    group: Identifier


@dataclass(frozen=True, slots=True)
class CreateRoot:
    """Create the root user; only for a server that has no users yet. Reply: `UserDetails`."""

    username: str
    password_hash: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class CreateUser:
    """Create a user. Reply: `UserDetails`, with status and permissions as they were sent."""

    username: str
    password_hash: str = field(repr=False)
    status: int
    permissions: Permissions | None = None


@dataclass(frozen=True, slots=True)
class UpdateUser:
    """Change the name or the status of a user; `None` and unknown states change nothing."""

    user: Identifier
    username: str | None = None
    status: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteUser:
    """Delete a user with its permissions and tokens."""

    user: Identifier


@dataclass(frozen=True, slots=True)
class UpdatePermissions:
    """Replace all permissions of a user; `None` takes them away."""

    user: Identifier
    permissions: Permissions | None


@dataclass(frozen=True, slots=True)
class ChangePassword:
    """Replace the password of a user.

    Attributes:
        user: Whose.
        verified_hash: The stored hash that the given current password was found to match when
            the command was admitted; `None`: it matched nothing. The change is made only if
            that hash is still the stored one.
        password_hash: The hash of the new password.
    """

    user: Identifier
    verified_hash: str | None = field(repr=False)
    password_hash: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class CreateToken:
    """Create a personal access token of the acting user. Reply: `TokenInfo`.

    Attributes:
        name: Unique among the tokens of the user.
        token_hash: A strong hash of the secret.
        expiry: Lifetime in microseconds; 0 and 2^64-1 mean for ever.
        limit: How many tokens the user may have, this one included; `None`: any number. Expired
            ones make room.
    """

    name: str
    token_hash: str = field(repr=False)
    expiry: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteToken:
    """Delete a personal access token of the acting user."""

    name: str


@dataclass(frozen=True, slots=True)
class OwnedToken:
    """Names a token: its name is unique among the tokens of its owner."""

    user_id: int
    name: str


@dataclass(frozen=True, slots=True)
class DeleteExpiredTokens:
    """Delete those of these tokens that have expired; unknown ones are ignored.

    Whether they have is decided when the command is applied, so that a token that was made again
    under the same name meanwhile lives on.
    """

    tokens: tuple[OwnedToken, ...]


@dataclass(frozen=True, slots=True)
class ForgetCondemned:
    """The files of these condemned partitions are gone; unknown places are ignored."""

    places: tuple[PartitionPlace, ...]


Command: TypeAlias = (
    NoOperation
    | CreateStream
    | UpdateStream
    | DeleteStream
    | PurgeStream
    | CreateTopic
    | UpdateTopic
    | DeleteTopic
    | PurgeTopic
    | CreatePartitions
    | DeletePartitions
    | CreateConsumerGroup
    | DeleteConsumerGroup
    | CreateRoot
    | CreateUser
    | UpdateUser
    | DeleteUser
    | UpdatePermissions
    | ChangePassword
    | CreateToken
    | DeleteToken
    | DeleteExpiredTokens
    | ForgetCondemned
)
