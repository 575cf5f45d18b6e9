"""Generation 0.11: every command, once (spec 01, 2.4).

The two legacy logins of that list are no commands: no server of this generation serves them,
whatever they carry. Logins by password and by token share an operation, and the shape of the body
tells them apart (`layouts.sessions.decode_login_shapes`).
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, TypeVar

from windsprite_protocol.body import (
    ConstructCodec,
    EmptyBody,
    FixedCodec,
    LeftOut,
    OptionalBody,
    StructCodec,
)
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.generation import Codec, Command, Generation, Plane
from windsprite_protocol.layout import Layout, Record
from windsprite_protocol.model.cluster import GetClusterMetadata
from windsprite_protocol.model.sessions import Logout
from windsprite_protocol.model.streams import GetStreams
from windsprite_protocol.model.system import GetClients, GetMe, GetStats, Ping
from windsprite_protocol.model.tokens import GetTokens
from windsprite_protocol.model.topics import Topic
from windsprite_protocol.model.users import GetUsers
from windsprite_protocol.v0_11.frames import PROTOCOL_VERSION, is_framed, is_partition
from windsprite_protocol.v0_11.frames import Operation as Op
from windsprite_protocol.v0_11.layouts import (
    cluster,
    groups,
    messages,
    offsets,
    sessions,
    streams,
    system,
    tokens,
    topics,
    users,
)

T = TypeVar("T")

RequestBody: TypeAlias = Record[T] | StructCodec[T] | EmptyBody[T]
"""What knows both the class of the requests and how they travel."""

LEGACY_LOGIN_CODES: Final = frozenset({38, 44})
"""`user.login` and `personal_access_token.login` of older generations: always malformed."""

NOTHING: Final = EmptyBody[None](None)
LOGGED_IN: Final = ConstructCodec(sessions.LOGGED_IN, code=ErrorCode.INVALID_FORMAT)
POLLED: Final = messages.PolledMessagesCodec()


def _row(
    code: int,
    name: str,
    request: RequestBody[T],
    reply: Layout[Any] | Codec[Any] = NOTHING,
    operation: Op = Op.NON_REPLICATED,
    *,
    committed: Op | None = None,
    needs_login: bool = True,
) -> Command[T]:
    committed = operation if committed is None else committed
    return Command(
        code,
        name,
        _plane(operation),
        request.cls,
        ConstructCodec(request) if isinstance(request, Record) else request,
        ConstructCodec(reply) if isinstance(reply, Layout) else reply,
        operation,
        committed,
        framed=is_framed(committed) or operation is Op.REGISTER,
        needs_login=needs_login,
    )


def _plane(operation: Op) -> Plane:
    if operation in (Op.REGISTER, Op.LOGOUT):
        return Plane.SESSION
    if operation is Op.NON_REPLICATED:
        return Plane.READ
    return Plane.PARTITION if is_partition(operation) else Plane.METADATA


def _if_found(reply: Layout[Any], *, exact: bool = False) -> OptionalBody[Any]:
    """A reply that is empty when there is no such thing."""
    return OptionalBody(ConstructCodec(reply, exact=exact))


# A row: code, registered name, request, reply, operation. Without a reply: success says nothing.
# Without an operation: not replicated, the code travels in the header.
COMMANDS: Final[tuple[Command[Any], ...]] = (
    _row(1, "ping", EmptyBody(Ping()), needs_login=False),
    _row(10, "stats", EmptyBody(GetStats()), system.STATS),
    _row(11, "snapshot", system.GET_SNAPSHOT, system.SNAPSHOT),
    _row(12, "cluster.metadata", EmptyBody(GetClusterMetadata()), cluster.CLUSTER_METADATA),
    _row(13, "options.describe", system.DESCRIBE_OPTIONS, system.OPTION_SPECS),
    _row(14, "consumer_session.attach", cluster.ATTACH_SESSION),
    _row(20, "me", EmptyBody(GetMe()), system.CLIENT_DETAILS),
    _row(21, "client.get", system.GET_CLIENT, _if_found(system.CLIENT_DETAILS)),
    _row(22, "client.list", EmptyBody(GetClients()), system.CLIENTS),
    _row(31, "user.get", users.GET_USER, _if_found(users.USER_DETAILS)),
    _row(32, "user.list", EmptyBody(GetUsers()), users.USERS),
    _row(33, "user.create", users.CREATE_USER, users.USER_DETAILS, Op.CREATE_USER),
    _row(34, "user.delete", users.DELETE_USER, NOTHING, Op.DELETE_USER),
    _row(35, "user.update", users.UPDATE_USER, NOTHING, Op.UPDATE_USER),
    _row(36, "user.permissions", users.UPDATE_PERMISSIONS, NOTHING, Op.UPDATE_PERMISSIONS),
    _row(37, "user.password", users.CHANGE_PASSWORD, NOTHING, Op.CHANGE_PASSWORD),
    _row(39, "user.logout", EmptyBody(Logout()), NOTHING, Op.LOGOUT, needs_login=False),
    _row(40, "user.login_register", sessions.LOGIN, LOGGED_IN, Op.REGISTER, needs_login=False),
    _row(41, "personal_access_token.list", EmptyBody(GetTokens()), tokens.TOKENS),
    _row(
        42,
        "personal_access_token.create",
        tokens.CREATE_TOKEN,
        tokens.RAW_TOKEN,
        Op.CREATE_PERSONAL_ACCESS_TOKEN,
    ),
    _row(
        43,
        "personal_access_token.delete",
        tokens.DELETE_TOKEN,
        NOTHING,
        Op.DELETE_PERSONAL_ACCESS_TOKEN,
    ),
    _row(
        45,
        "user.login_register_with_pat",
        sessions.LOGIN_WITH_TOKEN,
        LOGGED_IN,
        Op.REGISTER,
        needs_login=False,
    ),
    _row(100, "message.poll", messages.PollMessagesCodec(), POLLED),
    _row(
        101,
        "message.send",
        messages.SendMessagesCodec(),
        messages.ConfirmationsCodec(),
        Op.SEND_MESSAGES,
    ),
    _row(102, "message.flush_unsaved_buffer", messages.FLUSH_UNSAVED_BUFFER),
    _row(103, "message.poll_routing", messages.GET_POLL_ROUTING, cluster.ROUTE),
    _row(104, "message.poll_primary", messages.POLL_PRIMARY, POLLED),
    _row(
        120,
        "consumer_offset.get",
        offsets.GET_OFFSET,
        OptionalBody(FixedCodec(offsets.CONSUMER_OFFSET)),
    ),
    _row(
        121,
        "consumer_offset.store",
        offsets.StoreOffsetCodec(),
        NOTHING,
        Op.STORE_CONSUMER_OFFSET,
    ),
    _row(122, "consumer_offset.delete", offsets.DELETE_OFFSET, NOTHING, Op.DELETE_CONSUMER_OFFSET),
    _row(123, "consumer_offset.routing", offsets.GET_OFFSET_ROUTING, cluster.ROUTE),
    _row(200, "stream.get", streams.GET_STREAM, _if_found(streams.STREAM_DETAILS)),
    _row(201, "stream.list", EmptyBody(GetStreams()), streams.STREAMS),
    _row(202, "stream.create", streams.CREATE_STREAM, streams.STREAM_DETAILS, Op.CREATE_STREAM),
    _row(203, "stream.delete", streams.DELETE_STREAM, NOTHING, Op.DELETE_STREAM),
    _row(204, "stream.update", streams.UPDATE_STREAM, NOTHING, Op.UPDATE_STREAM),
    _row(205, "stream.purge", streams.PURGE_STREAM, NOTHING, Op.PURGE_STREAM),
    _row(300, "topic.get", topics.GET_TOPIC, _if_found(topics.TOPIC_DETAILS)),
    _row(
        301,
        "topic.list",
        topics.GET_TOPICS,
        LeftOut[tuple[Topic, ...]](ConstructCodec(topics.TOPICS), ()),
    ),
    _row(
        302,
        "topic.create",
        topics.CREATE_TOPIC,
        topics.TOPIC_DETAILS,
        Op.CREATE_TOPIC,
        committed=Op.CREATE_TOPIC_WITH_ASSIGNMENTS,
    ),
    _row(303, "topic.delete", topics.DELETE_TOPIC, NOTHING, Op.DELETE_TOPIC),
    _row(304, "topic.update", topics.UPDATE_TOPIC, NOTHING, Op.UPDATE_TOPIC),
    _row(305, "topic.purge", topics.PURGE_TOPIC, NOTHING, Op.PURGE_TOPIC),
    _row(
        402,
        "partition.create",
        topics.CREATE_PARTITIONS,
        NOTHING,
        Op.CREATE_PARTITIONS,
        committed=Op.CREATE_PARTITIONS_WITH_ASSIGNMENTS,
    ),
    _row(403, "partition.delete", topics.DELETE_PARTITIONS, NOTHING, Op.DELETE_PARTITIONS),
    _row(
        503,
        "segment.delete",
        topics.DELETE_SEGMENTS,
        NOTHING,
        Op.DELETE_SEGMENTS,
        committed=Op.TRUNCATE_PARTITION,
    ),
    _row(600, "consumer_group.get", groups.GET_GROUP, _if_found(groups.GROUP_DETAILS)),
    _row(601, "consumer_group.list", groups.GET_GROUPS, groups.GROUPS),
    _row(
        602,
        "consumer_group.create",
        groups.CREATE_GROUP,
        groups.GROUP_DETAILS,
        Op.CREATE_CONSUMER_GROUP,
    ),
    _row(603, "consumer_group.delete", groups.DELETE_GROUP, NOTHING, Op.DELETE_CONSUMER_GROUP),
    _row(604, "consumer_group.join", groups.JOIN_GROUP, NOTHING, Op.JOIN_CONSUMER_GROUP),
    _row(605, "consumer_group.leave", groups.LEAVE_GROUP, NOTHING, Op.LEAVE_CONSUMER_GROUP),
    _row(606, "consumer_group.sync", groups.SYNC_GROUP, _if_found(groups.ASSIGNMENT, exact=True)),
)

GENERATION: Final = Generation("0.11", PROTOCOL_VERSION, COMMANDS)
