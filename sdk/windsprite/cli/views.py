"""What commands found out, as tables for people and data for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from windsprite import (
    ClientDetails,
    ClientInfo,
    ClusterMetadata,
    ClusterNode,
    ConsumerGroup,
    ConsumerGroupDetails,
    Endpoint,
    OptionSpec,
    Partition,
    Permissions,
    Stats,
    Stream,
    StreamDetails,
    Token,
    TokenInfo,
    Topic,
    TopicDetails,
    TypedValue,
    User,
    UserDetails,
    UserStatus,
)
from windsprite.cli.grants import granted
from windsprite.cli.output import Cell, Facts, Part, Size, Table, View, bytes_to_json, to_json
from windsprite_protocol.errors import DecodeError
from windsprite_protocol.model.system import NOT_LOGGED_IN
from windsprite_protocol.model.topics import NEVER_EXPIRES, UNLIMITED_SIZE
from windsprite_protocol.model.typed_values import Options
from windsprite_protocol.text_forms import format_duration

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
TimePrecision: TypeAlias = Literal["seconds", "microseconds"]

_NOT_TOLD: Final = "not told by this server"


@dataclass(slots=True)
class OffsetRow:
    """How far a consumer or a group is on a partition.

    Attributes:
        partition: Which.
        newest: The offset of the newest message; None: there is none, or nobody told.
        stored: The stored offset; None: nothing is stored.
    """

    partition: int
    newest: int | None = None
    stored: int | None = None

    @property
    def behind(self) -> int | None:
        """How many offsets lie ahead; None if nothing is stored."""
        if self.stored is None or self.newest is None:
            return None
        return self.newest - self.stored


def show_cluster(metadata: ClusterMetadata) -> View:
    """Who is in the cluster and who leads it."""
    leader = metadata.leader
    facts = Facts(
        [
            ("name", metadata.name),
            ("id", str(metadata.cluster_id or _NOT_TOLD)),
            ("leader", f"{leader.name} at {_tcp(leader)}" if leader else "none"),
            ("epoch", _NOT_TOLD if metadata.leader_epoch is None else metadata.leader_epoch),
        ]
    )
    nodes = Table(
        ("node", "id", "role", "status", "tcp", "zone", "generation"),
        [
            (
                node.name,
                node.identity.node_id if node.identity else "",
                node.role.name.lower(),
                node.status.name.lower(),
                _tcp(node),
                node.identity.zone if node.identity else "",
                node.identity.generation if node.identity else "",
            )
            for node in metadata.nodes
        ],
    )
    data = {**to_json(metadata), "leader": to_json(leader)}
    return View([facts, nodes], data)


def show_clients(clients: Sequence[ClientInfo]) -> View:
    """A list of connections."""
    table = Table(
        ("client", "user", "transport", "address", "groups"),
        [
            (
                info.client_id,
                _user_of(info),
                info.transport.name.lower(),
                info.address,
                info.consumer_groups_count,
            )
            for info in clients
        ],
    )
    return View([table], to_json(list(clients)))


def show_client(details: ClientDetails) -> View:
    """How the server sees a connection."""
    info = details.info
    facts = Facts(
        [
            ("client", info.client_id),
            ("user", _user_of(info)),
            ("transport", info.transport.name.lower()),
            ("address", info.address),
            ("groups", info.consumer_groups_count),
        ]
    )
    memberships = Table(
        ("stream", "topic", "group"),
        [(each.stream_id, each.topic_id, each.group_id) for each in details.memberships],
    )
    parts: list[Part] = [facts, *([memberships] if memberships.rows else [])]
    return View(parts, {**to_json(info), "memberships": to_json(details.memberships)})


def show_groups(groups: Sequence[ConsumerGroup]) -> View:
    """A list of consumer groups."""
    table = Table(
        ("id", "name", "members", "partitions"),
        [(group.id, group.name, group.members_count, group.partitions_count) for group in groups],
    )
    return View([table], to_json(list(groups)))


def show_group(details: ConsumerGroupDetails) -> View:
    """A consumer group and its members."""
    group = details.group
    facts = Facts(
        [
            ("id", group.id),
            ("name", group.name),
            ("partitions of the topic", group.partitions_count),
            ("members", group.members_count),
        ]
    )
    members = Table(
        ("member", "partitions"),
        [(member.id, ", ".join(map(str, member.partitions))) for member in details.members],
    )
    parts: list[Part] = [facts, *([members] if members.rows else [])]
    return View(parts, {**to_json(group), "members": to_json(details.members)})


def show_offsets(rows: Sequence[OffsetRow]) -> View:
    """How far a consumer or a group is, partition by partition."""
    table = Table(
        ("partition", "stored", "newest", "behind"),
        [
            (row.partition, _or_blank(row.stored), _or_blank(row.newest), _or_blank(row.behind))
            for row in rows
        ],
    )
    data = [
        {
            "partition": row.partition,
            "stored_offset": row.stored,
            "current_offset": row.newest,
            "behind": row.behind,
        }
        for row in rows
    ]
    return View([table], data)


def show_stats(stats: Stats) -> View:
    """The figures of a server."""
    facts = Facts(
        [
            ("server", f"{stats.server_version} on {stats.hostname}, process {stats.process_id}"),
            ("system", f"{stats.os_name} {stats.os_version}, kernel {stats.kernel_version}"),
            ("started", show_time(stats.start_time)),
            ("running for", format_duration(stats.run_time)),
            ("cpu of the server, %", f"{stats.cpu_usage:.1f}"),
            ("cpu altogether, %", f"{stats.total_cpu_usage:.1f}"),
            ("threads", stats.threads_count),
            ("memory of the server", Size(stats.memory_usage)),
            ("memory available", Size(stats.available_memory)),
            ("memory altogether", Size(stats.total_memory)),
            ("disk free", Size(stats.free_disk_space)),
            ("disk altogether", Size(stats.total_disk_space)),
            ("read", Size(stats.read_bytes)),
            ("written", Size(stats.written_bytes)),
            ("streams", stats.streams_count),
            ("topics", stats.topics_count),
            ("partitions", stats.partitions_count),
            ("segments", stats.segments_count),
            ("messages", stats.messages_count),
            ("size of messages", Size(stats.messages_size_bytes)),
            ("clients", stats.clients_count),
            ("consumer groups", stats.consumer_groups_count),
        ]
    )
    return View([facts], to_json(stats))


def show_streams(streams: Sequence[Stream]) -> View:
    """A list of streams."""
    table = Table(
        ("id", "name", "topics", "messages", "size", "created"),
        [
            (
                stream.id,
                stream.name,
                stream.topics_count,
                stream.messages_count,
                Size(stream.size_bytes),
                show_time(stream.created_at),
            )
            for stream in streams
        ],
    )
    return View([table], [_stream_to_json(stream) for stream in streams])


def show_stream(details: StreamDetails) -> View:
    """A stream and its topics."""
    stream = details.stream
    facts = Facts(
        [
            ("id", stream.id),
            ("name", stream.name),
            ("created", show_time(stream.created_at)),
            ("messages", stream.messages_count),
            ("size", Size(stream.size_bytes)),
            ("topics", stream.topics_count),
        ]
    )
    topics = show_topics(details.topics)
    data = {**_stream_to_json(stream), "topics": topics.data}
    return View([facts, *(topics.parts if details.topics else ())], data)


def show_option_specs(specs: Sequence[OptionSpec]) -> View:
    """The options that something may be given."""
    table = Table(
        ("option", "default", "what it is"),
        [
            (spec.key, _option_cell(spec.key, value), spec.description)
            for spec, value in ((spec, TypedValue(spec.kind, spec.default)) for spec in specs)
        ],
    )
    data = [
        {
            "key": spec.key,
            "default": value_to_json(TypedValue(spec.kind, spec.default)),
            "description": spec.description,
        }
        for spec in specs
    ]
    return View([table], data)


def show_topics(topics: Sequence[Topic]) -> View:
    """A list of topics."""
    table = Table(
        ("id", "name", "partitions", "messages", "size", "expiry", "created"),
        [
            (
                topic.id,
                topic.name,
                topic.partitions_count,
                topic.messages_count,
                Size(topic.size_bytes),
                _expiry(topic.message_expiry),
                show_time(topic.created_at),
            )
            for topic in topics
        ],
    )
    return View([table], [_topic_to_json(topic) for topic in topics])


def show_topic(details: TopicDetails) -> View:
    """A topic, its options and its partitions."""
    topic = details.topic
    facts = Facts(
        [
            ("id", topic.id),
            ("name", topic.name),
            ("created", show_time(topic.created_at)),
            ("messages", topic.messages_count),
            ("size", Size(topic.size_bytes)),
            ("message expiry", _expiry(topic.message_expiry)),
            ("max topic size", _max_size(topic.max_topic_size)),
            ("compression", topic.compression.name.lower()),
            *_other_options(topic),
        ]
    )
    partitions = Table(
        ("partition", "messages", "newest offset", "size", "segments", "created"),
        [
            (
                partition.id,
                partition.messages_count,
                newest_offset(partition),
                Size(partition.size_bytes),
                partition.segments_count,
                show_time(partition.created_at),
            )
            for partition in details.partitions
        ],
    )
    data = {**_topic_to_json(topic), "partitions": to_json(details.partitions)}
    return View([facts, partitions], data)


def show_users(users: Sequence[User]) -> View:
    """A list of users."""
    table = Table(
        ("id", "name", "status", "created"),
        [
            (user.id, user.username, _status(user.status), show_time(user.created_at))
            for user in users
        ],
    )
    return View([table], [_user_to_json(user) for user in users])


def show_user(details: UserDetails) -> View:
    """A user and what it may do."""
    user, permissions = details.user, details.permissions
    facts = Facts(
        [
            ("id", user.id),
            ("name", user.username),
            ("status", _status(user.status)),
            ("created", show_time(user.created_at)),
        ]
    )
    grants = Table(("stream", "topic", "may"), _grant_rows(permissions))
    data = {**_user_to_json(user), "permissions": _permissions_to_json(permissions)}
    return View([facts, *([grants] if grants.rows else [])], data)


def show_tokens(tokens: Sequence[TokenInfo]) -> View:
    """A list of tokens."""
    table = Table(
        ("name", "expires"),
        [(token.name, show_time(token.expiry) if token.expiry else "never") for token in tokens],
    )
    return View([table], to_json(list(tokens)))


def show_new_token(name: str, token: Token) -> View:
    """A token with its secret."""
    facts = Facts([("name", name), ("token", token.token)])
    return View([facts], {"name": name, "token": token.token})


def show_time(microseconds: int, *, precision: TimePrecision = "seconds") -> str:
    """A time in UTC, as ISO 8601."""
    try:
        moment = _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return str(microseconds)
    return moment.replace(tzinfo=None).isoformat(timespec=precision) + "Z"


def value_to_json(value: TypedValue) -> Any:  # noqa: ANN401 - what JSON can hold
    """A header or an option; where it makes no sense in its kind, its bytes."""
    try:
        plain_value = value.to_python()
    except DecodeError:
        plain_value = value.data
    return bytes_to_json(plain_value) if isinstance(plain_value, bytes) else plain_value


def newest_offset(partition: Partition) -> Cell:
    """The offset of the newest message; nothing while there is none."""
    return partition.current_offset if partition.messages_count else ""


_COLUMNS_OF_TOPICS: Final = frozenset({"message_expiry", "max_topic_size", "compression_algorithm"})
"""Options that are fields of a topic, too."""


def _other_options(topic: Topic) -> list[tuple[str, Cell]]:
    options = {option.key: option.value for option in (*topic.derived_options, *topic.options)}
    return [
        (key.replace("_", " "), _option_cell(key, value))
        for key, value in sorted(options.items())
        if key not in _COLUMNS_OF_TOPICS
    ]


def _option_cell(key: str, value: TypedValue) -> Cell:
    shown = value_to_json(value)
    if isinstance(shown, bool):
        return "yes" if shown else "no"
    if not isinstance(shown, int):
        return str(shown)
    match key:
        case "message_expiry":
            return _expiry(shown)
        case "max_topic_size":
            return _max_size(shown)
        case _:
            return Size(shown) if "size" in key else shown


def _or_blank(number: int | None) -> Cell:
    return "" if number is None else number


def _user_of(info: ClientInfo) -> Cell:
    return "not logged in" if info.user_id == NOT_LOGGED_IN else info.user_id


def _expiry(microseconds: int) -> str:
    return "never" if microseconds == NEVER_EXPIRES else format_duration(microseconds)


def _max_size(size: int) -> Cell:
    return "unlimited" if size == UNLIMITED_SIZE else Size(size)


def _tcp(node: ClusterNode) -> str:
    return str(Endpoint(node.host, node.tcp_port)) if node.tcp_port else ""


def _stream_to_json(stream: Stream) -> dict[str, Any]:
    return {**to_json(stream), "options": _options_to_json(stream.options)}


def _topic_to_json(topic: Topic) -> dict[str, Any]:
    return {
        **to_json(topic),
        "options": _options_to_json(topic.options),
        "derived_options": _options_to_json(topic.derived_options),
    }


def _status(status: int) -> str:
    known = {each.value: each.name.lower() for each in UserStatus}
    return known.get(status, f"unknown ({status})")


def _grant_rows(permissions: Permissions | None) -> list[tuple[Cell, ...]]:
    """What is granted, on everything first; * stands for every stream or topic."""
    if permissions is None:
        return []
    rows: list[tuple[Cell, ...]] = [("*", "*", ", ".join(granted(permissions.root)))]
    for stream in permissions.streams:
        rows.append((str(stream.stream_id), "*", ", ".join(granted(stream))))
        rows += (
            (str(stream.stream_id), str(topic.topic_id), ", ".join(granted(topic)))
            for topic in stream.topics
        )
    return [row for row in rows if row[-1]]


def _permissions_to_json(permissions: Permissions | None) -> dict[str, Any] | None:
    if permissions is None:
        return None
    return {
        "global": granted(permissions.root),
        "streams": [
            {
                "stream_id": stream.stream_id,
                "granted": granted(stream),
                "topics": [
                    {"topic_id": topic.topic_id, "granted": granted(topic)}
                    for topic in stream.topics
                ],
            }
            for stream in permissions.streams
        ],
    }


def _user_to_json(user: User) -> dict[str, Any]:
    return {
        **to_json(user),
        "status": _status(user.status),
        "options": _options_to_json(user.options),
    }


def _options_to_json(options: Options) -> dict[str, Any]:
    return {option.key: value_to_json(option.value) for option in options}
