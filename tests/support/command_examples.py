"""Worked examples of the bodies of commands (spec 01, 11; 03, 10; 04, 10; 05, 15; 06, 9).

Replies are without the result section that stands in front of some of them. Where the
specification has no example of a command, there is one made by hand after its layout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from windsprite_protocol.generation import Codec
from windsprite_protocol.model.cluster import (
    Attachment,
    AttachSession,
    ClusterMetadata,
    ClusterNode,
    GetClusterMetadata,
    NodeIdentity,
    NodeRole,
    NodeStatus,
    Route,
)
from windsprite_protocol.model.groups import (
    ConsumerGroup,
    ConsumerGroupDetails,
    CreateConsumerGroup,
    DeleteConsumerGroup,
    GetConsumerGroup,
    GetConsumerGroups,
    GroupAssignment,
    GroupMember,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    SyncConsumerGroup,
)
from windsprite_protocol.model.identifiers import (
    AckLevel,
    Balanced,
    ByKey,
    Consumer,
    ConsumerKind,
    PollingStrategy,
    ToPartition,
)
from windsprite_protocol.model.messages import (
    NO_PARTITION,
    Confirmation,
    Confirmations,
    FlushUnsavedBuffer,
    GetPollRouting,
    PolledMessages,
    PollMessages,
    PollPrimary,
    SendMessages,
)
from windsprite_protocol.model.offsets import (
    ConsumerOffset,
    DeleteConsumerOffset,
    GetConsumerOffset,
    GetConsumerOffsetRouting,
    StoreConsumerOffset,
)
from windsprite_protocol.model.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from windsprite_protocol.model.sessions import (
    ClientVersion,
    LoggedIn,
    Login,
    LoginWithToken,
    Logout,
)
from windsprite_protocol.model.streams import (
    CreateStream,
    DeleteStream,
    GetStream,
    GetStreams,
    PurgeStream,
    Stream,
    StreamDetails,
    UpdateStream,
)
from windsprite_protocol.model.system import (
    NOT_LOGGED_IN,
    CacheMetrics,
    ClientDetails,
    ClientInfo,
    DescribeOptions,
    GetClient,
    GetClients,
    GetMe,
    GetSnapshot,
    GetStats,
    GroupMembership,
    OptionScope,
    OptionSpec,
    Ping,
    Snapshot,
    SnapshotCompression,
    SnapshotKind,
    Stats,
    TransportKind,
)
from windsprite_protocol.model.tokens import (
    CreateToken,
    DeleteToken,
    GetTokens,
    RawToken,
    TokenInfo,
)
from windsprite_protocol.model.topics import (
    NEVER_EXPIRES,
    UNLIMITED_SIZE,
    Compression,
    CreatePartitions,
    CreateTopic,
    DeletePartitions,
    DeleteSegments,
    DeleteTopic,
    GetTopic,
    GetTopics,
    Partition,
    PurgeTopic,
    Topic,
    TopicDetails,
    UpdateTopic,
)
from windsprite_protocol.model.typed_values import Option, TypedValue, ValueKind
from windsprite_protocol.model.users import (
    ChangePassword,
    CreateUser,
    DeleteUser,
    GetUser,
    GetUsers,
    UpdatePermissions,
    UpdateUser,
    User,
    UserDetails,
    UserStatus,
)
from windsprite_protocol.v0_11.table import GENERATION


@dataclass(frozen=True)
class Example:
    """One body and what it means."""

    code: int
    side: str
    about: str
    body: bytes
    value: Any

    @property
    def codec(self) -> Codec[Any]:
        command = GENERATION.by_code(self.code)
        assert command is not None
        return command.request if self.side == "request" else command.reply

    def __str__(self) -> str:
        return f"{self.code}-{self.side}-{self.about}"


def _hex(text: str) -> bytes:
    return bytes.fromhex(text)


def request(code: int, about: str, body: str | bytes, value: Any) -> Example:
    return Example(code, "request", about, _hex(body) if isinstance(body, str) else body, value)


def reply(code: int, about: str, body: str | bytes, value: Any) -> Example:
    return Example(code, "reply", about, _hex(body) if isinstance(body, str) else body, value)


T0 = 1_786_000_000_000_000
T1 = T0 + 1_500_000
T2 = T0 + 9_000_000
SEVEN_DAYS = 604_800_000_000
HOUR = 3_600_000_000
NEW_YEAR = 1_767_225_600_000_000


def text(key: str, value: str) -> Option:
    return Option(key, TypedValue(ValueKind.STRING, value.encode()))


def u64(key: str, value: int) -> Option:
    return Option(key, TypedValue(ValueKind.UINT64, value.to_bytes(8, "little")))


def u32(key: str, value: int) -> Option:
    return Option(key, TypedValue(ValueKind.UINT32, value.to_bytes(4, "little")))


def flag(key: str, value: bool) -> Option:
    return Option(key, TypedValue(ValueKind.BOOL, bytes((value,))))


# --- Streams and topics ----------------------------------------------------------------------

EVENTS_OPTIONS = (
    text("consumer_offset_durability", "replicated"),
    text("durability", "persisted"),
    u64("message_expiry", SEVEN_DAYS),
)
EVENTS = Topic(
    id=0,
    created_at=T1,
    partitions_count=2,
    message_expiry=SEVEN_DAYS,
    compression=Compression.NONE,
    max_topic_size=UNLIMITED_SIZE,
    size_bytes=0,
    messages_count=0,
    name="events",
    options=(*EVENTS_OPTIONS, u64("segment_size", 128 * 1024 * 1024)),
    derived_options=(
        text("compression_algorithm", "none"),
        u64("max_topic_size", UNLIMITED_SIZE),
        u32("messages_required_to_save", 1024),
        flag("preallocate_segments", False),
        u64("size_of_messages_required_to_save", 1024 * 1024),
    ),
)
_EVENTS_TAIL = """
    06 65 76 65 6e 74 73 89 00 00 00
    02 1a 00 00 00 63 6f 6e 73 75 6d 65 72 5f 6f 66 66 73 65 74 5f 64 75 72 61 62 69 6c 69 74 79
    02 0a 00 00 00 72 65 70 6c 69 63 61 74 65 64
    02 0a 00 00 00 64 75 72 61 62 69 6c 69 74 79 02 09 00 00 00 70 65 72 73 69 73 74 65 64
    02 0e 00 00 00 6d 65 73 73 61 67 65 5f 65 78 70 69 72 79
    0c 08 00 00 00 00 a0 e3 d0 8c 00 00 00
    02 0c 00 00 00 73 65 67 6d 65 6e 74 5f 73 69 7a 65 0c 08 00 00 00 00 00 00 08 00 00 00 00
    bc 00 00 00
    02 15 00 00 00 63 6f 6d 70 72 65 73 73 69 6f 6e 5f 61 6c 67 6f 72 69 74 68 6d
    02 04 00 00 00 6e 6f 6e 65
    02 0e 00 00 00 6d 61 78 5f 74 6f 70 69 63 5f 73 69 7a 65
    0c 08 00 00 00 ff ff ff ff ff ff ff ff
    02 19 00 00 00 6d 65 73 73 61 67 65 73 5f 72 65 71 75 69 72 65 64 5f 74 6f 5f 73 61 76 65
    0b 04 00 00 00 00 04 00 00
    02 14 00 00 00 70 72 65 61 6c 6c 6f 63 61 74 65 5f 73 65 67 6d 65 6e 74 73 03 01 00 00 00 00
    02 21 00 00 00 73 69 7a 65 5f 6f 66 5f 6d 65 73 73 61 67 65 73 5f 72 65 71 75 69 72 65 64 5f
    74 6f 5f 73 61 76 65 0c 08 00 00 00 00 00 10 00 00 00 00 00
"""
_ORDERS_BYTES = """
    00 00 00 00 00 a0 91 87 5b 58 06 00 01 00 00 00 ae 01 00 00 00 00 00 00
    03 00 00 00 00 00 00 00 06 6f 72 64 65 72 73 00 00 00 00
"""
_AUDIT_BYTES = """
    01 00 00 00 40 f4 1a 88 5b 58 06 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 05 61 75 64 69 74 00 00 00 00
"""
ORDERS = Stream(0, T0, 1, 430, 3, "orders")
AUDIT = Stream(1, T2, 0, 0, 0, "audit")

EVENTS_AFTER_SEND = Topic(
    id=0,
    created_at=T1,
    partitions_count=2,
    message_expiry=SEVEN_DAYS,
    compression=Compression.NONE,
    max_topic_size=UNLIMITED_SIZE,
    size_bytes=430,
    messages_count=3,
    name="events",
    options=EVENTS.options,
    derived_options=EVENTS.derived_options,
)
_EVENTS_AFTER_SEND_BYTES = (
    """
    00 00 00 00 60 83 a8 87 5b 58 06 00 02 00 00 00 00 a0 e3 d0 8c 00 00 00 01
    ff ff ff ff ff ff ff ff ae 01 00 00 00 00 00 00 03 00 00 00 00 00 00 00
    """
    + _EVENTS_TAIL
)

STREAMS_AND_TOPICS = (
    request(200, "by-name", "02 05 61 75 64 69 74", GetStream("audit")),
    reply(200, "no-topics", _AUDIT_BYTES, StreamDetails(AUDIT, ())),
    reply(
        200,
        "one-topic",
        _ORDERS_BYTES + _EVENTS_AFTER_SEND_BYTES,
        StreamDetails(ORDERS, (EVENTS_AFTER_SEND,)),
    ),
    reply(200, "missing", "", None),
    request(201, "all", "", GetStreams()),
    reply(201, "two", _ORDERS_BYTES + _AUDIT_BYTES, (ORDERS, AUDIT)),
    reply(201, "none", "", ()),
    request(202, "orders", "06 6f 72 64 65 72 73", CreateStream("orders")),
    reply(
        202,
        "created",
        """
        00 00 00 00 00 a0 91 87 5b 58 06 00 00 00 00 00 00 00 00 00 00 00 00 00
        00 00 00 00 00 00 00 00 06 6f 72 64 65 72 73 00 00 00 00
        """,
        StreamDetails(Stream(0, T0, 0, 0, 0, "orders"), ()),
    ),
    request(203, "by-id", "01 04 07 00 00 00", DeleteStream(7)),
    request(
        204,
        "rename",
        "01 04 00 00 00 00 09 6f 72 64 65 72 73 2d 76 32",
        UpdateStream(0, "orders-v2"),
    ),
    request(205, "by-digits", "02 01 37", PurgeStream("7")),
    request(300, "by-ids", "01 04 00 00 00 00 01 04 00 00 00 00", GetTopic(0, 0)),
    request(
        300,
        "by-names",
        "02 06 6f 72 64 65 72 73 02 06 65 76 65 6e 74 73",
        GetTopic("orders", "events"),
    ),
    reply(
        300,
        "after-a-send",
        _EVENTS_AFTER_SEND_BYTES
        + """
        00 00 00 00 60 83 a8 87 5b 58 06 00 01 00 00 00 02 00 00 00 00 00 00 00
        ae 01 00 00 00 00 00 00 03 00 00 00 00 00 00 00
        01 00 00 00 60 83 a8 87 5b 58 06 00 01 00 00 00 00 00 00 00 00 00 00 00
        00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        """,
        TopicDetails(
            EVENTS_AFTER_SEND, (Partition(0, T1, 1, 2, 430, 3), Partition(1, T1, 1, 0, 0, 0))
        ),
    ),
    reply(300, "missing", "", None),
    request(301, "by-id", "01 04 00 00 00 00", GetTopics(0)),
    reply(301, "no-such-stream", "00 00 00 00", ()),
    reply(301, "one", "01 00 00 00" + _EVENTS_AFTER_SEND_BYTES, (EVENTS_AFTER_SEND,)),
    request(
        302,
        "options",
        """
        02 06 6f 72 64 65 72 73 02 00 00 00 06 65 76 65 6e 74 73
        02 1a 00 00 00 63 6f 6e 73 75 6d 65 72 5f 6f 66 66 73 65 74 5f 64 75 72 61 62 69 6c 69 74
        79 02 0a 00 00 00 72 65 70 6c 69 63 61 74 65 64
        02 0a 00 00 00 64 75 72 61 62 69 6c 69 74 79 02 09 00 00 00 70 65 72 73 69 73 74 65 64
        02 0e 00 00 00 6d 65 73 73 61 67 65 5f 65 78 70 69 72 79
        0c 08 00 00 00 00 a0 e3 d0 8c 00 00 00
        02 0c 00 00 00 73 65 67 6d 65 6e 74 5f 73 69 7a 65 02 07 00 00 00 31 32 38 20 4d 69 42
        """,
        CreateTopic("orders", 2, "events", (*EVENTS_OPTIONS, text("segment_size", "128 MiB"))),
    ),
    reply(
        302,
        "created",
        """
        00 00 00 00 60 83 a8 87 5b 58 06 00 02 00 00 00 00 a0 e3 d0 8c 00 00 00 01
        ff ff ff ff ff ff ff ff 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        """
        + _EVENTS_TAIL
        + """
        00 00 00 00 60 83 a8 87 5b 58 06 00 00 00 00 00 00 00 00 00 00 00 00 00
        00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        01 00 00 00 60 83 a8 87 5b 58 06 00 00 00 00 00 00 00 00 00 00 00 00 00
        00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        """,
        TopicDetails(EVENTS, (Partition(0, T1, 0, 0, 0, 0), Partition(1, T1, 0, 0, 0, 0))),
    ),
    request(303, "by-ids", "01 04 00 00 00 00 01 04 01 00 00 00", DeleteTopic(0, 1)),
    request(
        304,
        "expiry",
        """
        01 04 00 00 00 00 01 04 00 00 00 00 06 65 76 65 6e 74 73
        02 0e 00 00 00 6d 65 73 73 61 67 65 5f 65 78 70 69 72 79
        0c 08 00 00 00 00 a4 93 d6 00 00 00 00
        """,
        UpdateTopic(0, 0, "events", (u64("message_expiry", HOUR),)),
    ),
    request(
        305,
        "id-and-name",
        "01 04 00 00 00 00 02 06 65 76 65 6e 74 73",
        PurgeTopic(0, "events"),
    ),
    request(
        402,
        "three-more",
        "01 04 00 00 00 00 01 04 00 00 00 00 03 00 00 00",
        CreatePartitions(0, 0, 3),
    ),
    request(
        403,
        "one-less",
        "01 04 00 00 00 00 01 04 00 00 00 00 01 00 00 00",
        DeletePartitions(0, 0, 1),
    ),
    request(
        503,
        "two-segments",
        "01 04 00 00 00 00 02 06 65 76 65 6e 74 73 01 00 00 00 02 00 00 00",
        DeleteSegments(0, "events", 1, 2),
    ),
)

# --- Messages and offsets --------------------------------------------------------------------

_FRAME_A = """
    8e 5c a5 9e db bd bf b9 01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 05 00 00 00 00 00 00 00 00 00 00 00
    68 65 6c 6c 6f
"""
_FRAME_B = """
    5e 4d b4 45 c3 65 75 47 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f
    01 00 00 00 fa 00 00 00 12 00 00 00 06 00 00 00 00 00 00 00 00 00 00 00
    77 6f 72 6c 64 21 02 05 00 00 00 63 6f 6c 6f 72 02 03 00 00 00 72 65 64
"""
PRODUCED_BATCH = _hex(
    """
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 40 1e 18 24 0a 06 00
    7d 01 00 00 00 00 00 00 49 a8 db c7 4e fe 84 d5 02 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    """
    + "00" * 192
    + _FRAME_A
    + _FRAME_B
)
STORED_BATCH = _hex(
    """
    03 00 00 00 00 00 00 00 0a 00 00 00 00 00 00 00 60 23 35 18 24 0a 06 00 00 40 1e 18 24 0a 06 00
    7d 01 00 00 00 00 00 00 67 4c cc f6 a4 92 4f 1f 02 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    """
    + "00" * 192
    + _FRAME_A
    + _FRAME_B
)
SLICED_RECORD = _hex(
    """
    03 00 00 00 00 00 00 00 0a 00 00 00 00 00 00 00 60 23 35 18 24 0a 06 00 00 40 1e 18 24 0a 06 00
    48 01 00 00 00 00 00 00 e6 2c 48 23 bc 9b 2c 7a 01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    """
    + "00" * 192
    + _FRAME_B
)
POLL = PollMessages(
    Consumer(ConsumerKind.SINGLE, 1), 1, 2, 3, PollingStrategy.offset(11), 5, auto_commit=True
)
_POLL_BYTES = """
    01 01 04 01 00 00 00 01 04 01 00 00 00 01 04 02 00 00 00 01 03 00 00 00
    01 0b 00 00 00 00 00 00 00 05 00 00 00 01
"""
BILLING = Consumer(ConsumerKind.SINGLE, "billing")
_BILLING_KEY = """
    01 02 07 62 69 6c 6c 69 6e 67 01 04 01 00 00 00 01 04 02 00 00 00 01 03 00 00 00
"""
_GROUP_KEY = """
    02 02 07 62 69 6c 6c 69 6e 67 02 06 6f 72 64 65 72 73 01 04 00 00 00 00 01 02 00 00 00
"""
_ATTACHMENT_BYTES = """
    10 0f 0e 0d 0c 0b 0a 09 08 07 06 05 04 03 02 01
    2a 00 00 00 00 00 00 00 2c 00 00 00 00 00 00 00
"""
ATTACHMENT = Attachment(0x0102030405060708090A0B0C0D0E0F10, 42, 44)


def node(name: str, host: str, role: NodeRole, **changes: Any) -> ClusterNode:
    ports = {"tcp_port": 8090, "quic_port": 8080, "http_port": 3000, "websocket_port": 8092}
    return ClusterNode(
        name=name, host=host, role=role, status=NodeStatus.HEALTHY, **{**ports, **changes}
    )


ROUTE = Route(ATTACHMENT, node("iggy-node-2", "10.0.0.2", NodeRole.FOLLOWER))
_ROUTE_BYTES = (
    _ATTACHMENT_BYTES
    + """
    0b 00 00 00 69 67 67 79 2d 6e 6f 64 65 2d 32 08 00 00 00 31 30 2e 30 2e 30 2e 32
    9a 1f 90 1f b8 0b 9c 1f 01 00
    """
)

MESSAGES_AND_OFFSETS = (
    request(14, "attachment", _ATTACHMENT_BYTES, AttachSession(ATTACHMENT)),
    request(100, "from-an-offset", _POLL_BYTES, POLL),
    request(
        100,
        "of-a-group",
        """
        02 02 04 67 72 70 31 01 04 01 00 00 00 01 04 02 00 00 00 01 02 00 00 00
        05 00 00 00 00 00 00 00 00 64 00 00 00 00
        """,
        PollMessages(
            Consumer(ConsumerKind.GROUP, "grp1"),
            1,
            2,
            2,
            PollingStrategy.next(),
            100,
            auto_commit=False,
        ),
    ),
    request(
        100,
        "without-partition",
        """
        02 02 07 62 69 6c 6c 69 6e 67 02 06 6f 72 64 65 72 73 01 04 00 00 00 00 00 00 00 00 00
        05 00 00 00 00 00 00 00 00 0a 00 00 00 01
        """,
        PollMessages(
            Consumer(ConsumerKind.GROUP, "billing"),
            "orders",
            0,
            None,
            PollingStrategy.next(),
            10,
            auto_commit=True,
        ),
    ),
    reply(
        100,
        "sliced",
        _hex("03 00 00 00 0b 00 00 00 00 00 00 00 01 00 00 00") + SLICED_RECORD,
        PolledMessages(3, 11, 1, (SLICED_RECORD,)),
    ),
    reply(
        100,
        "whole",
        _hex("03 00 00 00 0b 00 00 00 00 00 00 00 02 00 00 00") + STORED_BATCH,
        PolledMessages(3, 11, 2, (STORED_BATCH,)),
    ),
    reply(
        100,
        "beyond-the-end",
        "03 00 00 00 0b 00 00 00 00 00 00 00 00 00 00 00",
        PolledMessages(3, 11, 0, ()),
    ),
    reply(
        100,
        "sync-again",
        "ff ff ff ff 00 00 00 00 00 00 00 00 00 00 00 00",
        PolledMessages(NO_PARTITION, 0, 0, ()),
    ),
    request(
        101,
        "to-a-partition",
        _hex("16 00 00 00 01 04 01 00 00 00 01 04 02 00 00 00 02 04 03 00 00 00 02 00 00 00")
        + PRODUCED_BATCH,
        SendMessages(1, 2, ToPartition(3), 2, PRODUCED_BATCH),
    ),
    request(
        101,
        "by-key",
        _hex(
            """
            1d 00 00 00 02 06 6f 72 64 65 72 73 02 06 65 76 65 6e 74 73
            03 07 75 73 65 72 2d 34 32 02 00 00 00
            """
        )
        + PRODUCED_BATCH,
        SendMessages("orders", "events", ByKey(b"user-42"), 2, PRODUCED_BATCH),
    ),
    request(
        101,
        "balanced",
        _hex("12 00 00 00 01 04 01 00 00 00 01 04 02 00 00 00 01 00 02 00 00 00") + PRODUCED_BATCH,
        SendMessages(1, 2, Balanced(), 2, PRODUCED_BATCH),
    ),
    reply(
        101,
        "confirmed",
        "01 00 00 00 01 00 00 00 02 00 00 00 03 00 00 00 0a 00 00 00 00 00 00 00",
        Confirmations((Confirmation(1, 2, 3, 10),)),
    ),
    reply(101, "offsets-unknown", "00 00 00 00", Confirmations(())),
    request(
        102,
        "fsync",
        "01 04 01 00 00 00 01 04 02 00 00 00 03 00 00 00 01",
        FlushUnsavedBuffer(1, 2, 3, fsync=True),
    ),
    request(103, "committing-poll", _POLL_BYTES, GetPollRouting(POLL)),
    reply(103, "route", _ROUTE_BYTES, ROUTE),
    request(104, "committing-poll", _POLL_BYTES, PollPrimary(POLL)),
    reply(
        104,
        "sliced",
        _hex("03 00 00 00 0b 00 00 00 00 00 00 00 01 00 00 00") + SLICED_RECORD,
        PolledMessages(3, 11, 1, (SLICED_RECORD,)),
    ),
    request(120, "billing", _BILLING_KEY, GetConsumerOffset(BILLING, 1, 2, 3)),
    reply(
        120,
        "stored",
        "03 00 00 00 0b 00 00 00 00 00 00 00 0b 00 00 00 00 00 00 00",
        ConsumerOffset(3, 11, 11),
    ),
    reply(120, "nothing-stored", "", None),
    request(
        121,
        "billing",
        _BILLING_KEY + "0b 00 00 00 00 00 00 00 01",
        StoreConsumerOffset(BILLING, 1, 2, 3, 11),
    ),
    request(
        121,
        "of-a-group",
        _GROUP_KEY + "29 00 00 00 00 00 00 00 01",
        StoreConsumerOffset(Consumer(ConsumerKind.GROUP, "billing"), "orders", 0, 2, 41),
    ),
    request(
        121,
        "without-acknowledgement",
        _BILLING_KEY + "0b 00 00 00 00 00 00 00 00",
        StoreConsumerOffset(BILLING, 1, 2, 3, 11, AckLevel.NONE),
    ),
    request(122, "billing", _BILLING_KEY + "01", DeleteConsumerOffset(BILLING, 1, 2, 3)),
    request(123, "billing", _BILLING_KEY, GetConsumerOffsetRouting(BILLING, 1, 2, 3)),
    reply(123, "route", _ROUTE_BYTES, ROUTE),
)

# --- Consumer groups -------------------------------------------------------------------------

_TOPIC_OF_ORDERS = "02 06 6f 72 64 65 72 73 01 04 00 00 00 00"
_BILLING_GROUP = _TOPIC_OF_ORDERS + "02 07 62 69 6c 6c 69 6e 67"

GROUPS = (
    request(600, "billing", _BILLING_GROUP, GetConsumerGroup("orders", 0, "billing")),
    reply(
        600,
        "two-members",
        """
        00 00 00 00 03 00 00 00 02 00 00 00 07 62 69 6c 6c 69 6e 67 00 00 00 00 02 00 00 00
        00 00 00 00 01 00 00 00 01 00 00 00 01 00 00 00 02 00 00 00
        """,
        ConsumerGroupDetails(
            ConsumerGroup(0, 3, 2, "billing"), (GroupMember(0, (0, 1)), GroupMember(1, (2,)))
        ),
    ),
    reply(600, "missing", "", None),
    request(601, "orders", _TOPIC_OF_ORDERS, GetConsumerGroups("orders", 0)),
    reply(
        601,
        "two",
        """
        00 00 00 00 03 00 00 00 02 00 00 00 07 62 69 6c 6c 69 6e 67
        02 00 00 00 03 00 00 00 00 00 00 00 05 61 75 64 69 74
        """,
        (ConsumerGroup(0, 3, 2, "billing"), ConsumerGroup(2, 3, 0, "audit")),
    ),
    reply(601, "none", "", ()),
    request(
        602,
        "billing",
        _TOPIC_OF_ORDERS + "07 62 69 6c 6c 69 6e 67",
        CreateConsumerGroup("orders", 0, "billing"),
    ),
    reply(
        602,
        "created",
        "00 00 00 00 03 00 00 00 00 00 00 00 07 62 69 6c 6c 69 6e 67",
        ConsumerGroupDetails(ConsumerGroup(0, 3, 0, "billing"), ()),
    ),
    request(603, "billing", _BILLING_GROUP, DeleteConsumerGroup("orders", 0, "billing")),
    request(604, "billing", _BILLING_GROUP, JoinConsumerGroup("orders", 0, "billing")),
    request(605, "billing", _BILLING_GROUP, LeaveConsumerGroup("orders", 0, "billing")),
    request(606, "billing", _BILLING_GROUP, SyncConsumerGroup("orders", 0, "billing")),
    reply(
        606,
        "two-partitions",
        "03 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 01 00 00 00",
        GroupAssignment(3, (0, 1)),
    ),
    reply(606, "none", "04 00 00 00 00 00 00 00 00 00 00 00", GroupAssignment(4, ())),
    reply(606, "no-member", "", None),
)

# --- Users, tokens, sessions -----------------------------------------------------------------

PERMISSIONS = Permissions(
    GlobalPermissions(read_streams=True),
    (
        StreamPermissions(
            3,
            read_stream=True,
            poll_messages=True,
            topics=(
                TopicPermissions(7, send_messages=True),
                TopicPermissions(9, read_topic=True, poll_messages=True),
            ),
        ),
        StreamPermissions(5, manage_stream=True),
    ),
)
PERMISSIONS_BYTES = """
    00 00 00 00 00 01 00 00 00 00 01 03 00 00 00 00 01 00 00 01 00 01 07 00 00 00 00 00 00 01
    01 09 00 00 00 00 01 01 00 00 01 05 00 00 00 01 00 00 00 00 00 00 00
"""
ALL_GRANTS = Permissions(GlobalPermissions(*[True] * 10))
ROOT = User(0, 1, UserStatus.ACTIVE, "iggy")
ALICE = User(1, NEW_YEAR, UserStatus.ACTIVE, "alice")
BOB = User(2, NEW_YEAR + 1_000_000, UserStatus.INACTIVE, "bob")
_ALICE_BYTES = (
    """
    01 00 00 00 00 40 20 46 48 47 06 00 01 05 61 6c 69 63 65 00 00 00 00 01 35 00 00 00
    """
    + PERMISSIONS_BYTES
)
RUST_SDK = ClientVersion(11264, "rust-sdk", "0.11.0")
_RUST_SDK_BYTES = "00 2c 00 00 08 72 75 73 74 2d 73 64 6b 06 30 2e 31 31 2e 30"
LOGGED_IN = LoggedIn(0, 42, 11264, "0.9.0")
_LOGGED_IN_BYTES = "00 00 00 00 2a 00 00 00 00 00 00 00 00 2c 00 00 05 30 2e 39 2e 30"
TOKEN = "t" * 67 + "="

USERS = (
    request(31, "by-name", "02 05 61 6c 69 63 65", GetUser("alice")),
    request(31, "root", "01 04 00 00 00 00", GetUser(0)),
    reply(31, "alice", _ALICE_BYTES, UserDetails(ALICE, PERMISSIONS)),
    reply(
        31,
        "root",
        """
        00 00 00 00 01 00 00 00 00 00 00 00 01 04 69 67 67 79 00 00 00 00
        01 0b 00 00 00 01 01 01 01 01 01 01 01 01 01 00
        """,
        UserDetails(ROOT, ALL_GRANTS),
    ),
    reply(
        31,
        "bob",
        "02 00 00 00 40 82 2f 46 48 47 06 00 02 03 62 6f 62 00 00 00 00 00 00 00 00",
        UserDetails(BOB, None),
    ),
    reply(31, "missing", "", None),
    request(32, "all", "", GetUsers()),
    reply(
        32,
        "three",
        """
        00 00 00 00 01 00 00 00 00 00 00 00 01 04 69 67 67 79 00 00 00 00
        01 00 00 00 00 40 20 46 48 47 06 00 01 05 61 6c 69 63 65 00 00 00 00
        02 00 00 00 40 82 2f 46 48 47 06 00 02 03 62 6f 62 00 00 00 00
        """,
        (ROOT, ALICE, BOB),
    ),
    request(
        33,
        "alice",
        "05 61 6c 69 63 65 09 73 33 63 72 65 74 2d 70 77 01 01 35 00 00 00" + PERMISSIONS_BYTES,
        CreateUser("alice", "s3cret-pw", UserStatus.ACTIVE, PERMISSIONS),
    ),
    request(
        33,
        "bob",
        "03 62 6f 62 07 68 75 6e 74 65 72 32 02 00",
        CreateUser("bob", "hunter2", UserStatus.INACTIVE),
    ),
    reply(33, "alice", _ALICE_BYTES, UserDetails(ALICE, PERMISSIONS)),
    request(34, "bob", "02 03 62 6f 62", DeleteUser("bob")),
    request(
        35,
        "rename",
        "01 04 01 00 00 00 01 06 61 6c 69 63 65 32 01 02",
        UpdateUser(1, "alice2", UserStatus.INACTIVE),
    ),
    request(35, "nothing", "01 04 01 00 00 00 00 00", UpdateUser(1)),
    request(36, "remove", "02 03 62 6f 62 00", UpdatePermissions("bob", None)),
    request(
        36,
        "read-servers",
        "02 03 62 6f 62 01 0b 00 00 00 00 01 00 00 00 00 00 00 00 00 00",
        UpdatePermissions("bob", Permissions(GlobalPermissions(read_servers=True))),
    ),
    request(
        37,
        "alice",
        "01 04 01 00 00 00 09 73 33 63 72 65 74 2d 70 77 0a 6e 33 77 2d 73 65 63 72 65 74",
        ChangePassword(1, "s3cret-pw", "n3w-secret"),
    ),
    request(39, "logout", "", Logout()),
    request(
        40,
        "iggy",
        _RUST_SDK_BYTES + "04 69 67 67 79 04 69 67 67 79 00 00 00 00",
        Login(RUST_SDK, "iggy", "iggy"),
    ),
    reply(40, "root", _LOGGED_IN_BYTES, LOGGED_IN),
    request(41, "own", "", GetTokens()),
    reply(
        41,
        "two",
        """
        08 63 69 2d 74 6f 6b 65 6e 00 e4 b3 1c 49 47 06 00
        07 66 6f 72 65 76 65 72 00 00 00 00 00 00 00 00
        """,
        (TokenInfo("ci-token", NEW_YEAR + HOUR), TokenInfo("forever", 0)),
    ),
    reply(41, "none", "", ()),
    request(
        42,
        "one-hour",
        "08 63 69 2d 74 6f 6b 65 6e 00 a4 93 d6 00 00 00 00",
        CreateToken("ci-token", HOUR),
    ),
    request(
        42,
        "never",
        "08 63 69 2d 74 6f 6b 65 6e ff ff ff ff ff ff ff ff",
        CreateToken("ci-token", NEVER_EXPIRES),
    ),
    reply(42, "secret", b"\x44" + TOKEN.encode(), RawToken(TOKEN)),
    request(43, "ci-token", "08 63 69 2d 74 6f 6b 65 6e", DeleteToken("ci-token")),
    request(
        45,
        "token",
        _hex(_RUST_SDK_BYTES) + b"\x44" + TOKEN.encode() + bytes(4),
        LoginWithToken(RUST_SDK, TOKEN),
    ),
    reply(45, "root", _LOGGED_IN_BYTES, LOGGED_IN),
)

# --- The server ------------------------------------------------------------------------------

STATS = Stats(
    process_id=4242,
    cpu_usage=12.5,
    total_cpu_usage=37.25,
    memory_usage=128 * 1024**2,
    total_memory=16 * 1024**3,
    available_memory=8 * 1024**3,
    run_time=HOUR,
    start_time=NEW_YEAR,
    read_bytes=1_048_576,
    written_bytes=4_194_304,
    messages_size_bytes=65_536,
    streams_count=2,
    topics_count=3,
    partitions_count=6,
    segments_count=6,
    messages_count=1000,
    clients_count=2,
    consumer_groups_count=1,
    hostname="node-a",
    os_name="Linux",
    os_version="Debian 12",
    kernel_version="6.1.0",
    server_version="0.9.0",
    server_semver=9000,
    cache_metrics=(),
    threads_count=17,
    free_disk_space=50_000_000_000,
    total_disk_space=100_000_000_000,
)
_STATS_HEAD = """
    92 10 00 00 00 00 48 41 00 00 15 42 00 00 00 08 00 00 00 00 00 00 00 00 04 00 00 00
    00 00 00 00 02 00 00 00 00 a4 93 d6 00 00 00 00 00 40 20 46 48 47 06 00
    00 00 10 00 00 00 00 00 00 00 40 00 00 00 00 00 00 00 01 00 00 00 00 00
    02 00 00 00 03 00 00 00 06 00 00 00 06 00 00 00 e8 03 00 00 00 00 00 00
    02 00 00 00 01 00 00 00
    06 00 00 00 6e 6f 64 65 2d 61 05 00 00 00 4c 69 6e 75 78
    09 00 00 00 44 65 62 69 61 6e 20 31 32 05 00 00 00 36 2e 31 2e 30
    05 00 00 00 30 2e 39 2e 30 28 23 00 00
"""
_STATS_TAIL = "11 00 00 00 00 74 3b a4 0b 00 00 00 00 e8 76 48 17 00 00 00"
CLIENT = ClientDetails(
    ClientInfo(7, 0, TransportKind.TCP, "127.0.0.1:54321", 2),
    (GroupMembership(0, 0, 0), GroupMembership(0, 1, 4)),
)
_CLIENT_BYTES = """
    07 00 00 00 00 00 00 00 01 0f 00 00 00 31 32 37 2e 30 2e 30 2e 31 3a 35 34 33 32 31
    02 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01 00 00 00 04 00 00 00
"""
STAND_ALONE = ClusterMetadata("single-node", (node("iggy-node", "127.0.0.1", NodeRole.LEADER),))
STAND_ALONE_BYTES = _hex(
    """
    0b 00 00 00 73 69 6e 67 6c 65 2d 6e 6f 64 65 01 00 00 00 09 00 00 00 69 67 67 79 2d 6e 6f 64 65
    09 00 00 00 31 32 37 2e 30 2e 30 2e 31 9a 1f 90 1f b8 0b 9c 1f 00 00
    """
)
IDENTITY = NodeIdentity(5, 2, UUID("a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf"), "eu-1")
TRAILER_BYTES = _hex(
    """
    57 53 50 31 43 00 00 00
    00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 09 00 00 00 00 00 00 00 01 00 00 00 01 00 00 00
    21 00 05 00 00 00 02 00 00 00 00 00 00 00
    a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 aa ab ac ad ae af 04 65 75 2d 31
    """
)
WITH_TRAILER = ClusterMetadata(
    "single-node",
    (node("iggy-node", "127.0.0.1", NodeRole.LEADER, identity=IDENTITY),),
    cluster_id=UUID("00010203-0405-0607-0809-0a0b0c0d0e0f"),
    leader_epoch=9,
    followers_serve_reads=True,
)
THREE_NODES_BYTES = _hex(
    """
    0c000000696767792d636c7573746572030000000b000000696767792d6e6f64
    652d310800000031302e302e302e319a1f901fb80b9c1f00000b000000696767
    792d6e6f64652d320800000031302e302e302e329a1f901fb80b9c1f01000b00
    0000696767792d6e6f64652d33120000006e6f64652d332e6578616d706c652e
    636f6d9a1f0000b80b00000100
    """
)
THREE_NODES = ClusterMetadata(
    "iggy-cluster",
    (
        node("iggy-node-1", "10.0.0.1", NodeRole.LEADER),
        node("iggy-node-2", "10.0.0.2", NodeRole.FOLLOWER),
        node(
            "iggy-node-3",
            "node-3.example.com",
            NodeRole.FOLLOWER,
            quic_port=0,
            websocket_port=0,
        ),
    ),
)

SYSTEM = (
    request(1, "ping", "", Ping()),
    request(10, "stats", "", GetStats()),
    reply(10, "no-cache", _STATS_HEAD + "00 00 00 00" + _STATS_TAIL, STATS),
    reply(
        10,
        "one-cache",
        _STATS_HEAD
        + """
        01 00 00 00 00 00 00 00 01 00 00 00 02 00 00 00
        5a 00 00 00 00 00 00 00 0a 00 00 00 00 00 00 00 66 66 66 3f
        """
        + _STATS_TAIL,
        Stats(
            **{
                **{name: getattr(STATS, name) for name in Stats.__dataclass_fields__},
                "cache_metrics": (CacheMetrics(0, 1, 2, 90, 10, 0.8999999761581421),),
            }
        ),
    ),
    request(
        11,
        "everything",
        "02 01 64",
        GetSnapshot(SnapshotCompression.DEFLATED, (SnapshotKind.ALL,)),
    ),
    reply(11, "archive", b"PK\x05\x06" + bytes(18), Snapshot(b"PK\x05\x06" + bytes(18))),
    request(12, "metadata", "", GetClusterMetadata()),
    reply(12, "stand-alone", STAND_ALONE_BYTES, STAND_ALONE),
    reply(12, "three-nodes", THREE_NODES_BYTES, THREE_NODES),
    reply(12, "no-nodes", "01 00 00 00 63 00 00 00 00", ClusterMetadata("c", ())),
    reply(12, "trailer", STAND_ALONE_BYTES + TRAILER_BYTES, WITH_TRAILER),
    request(13, "topics", "01", DescribeOptions(OptionScope.TOPIC)),
    request(13, "users", "03", DescribeOptions(OptionScope.USER)),
    reply(13, "none", "00 00 00 00", ()),
    reply(
        13,
        "two",
        """
        02 00 00 00
        0c 73 65 67 6d 65 6e 74 5f 73 69 7a 65 0c 08 00 00 00 00 00 00 40 00 00 00 00
        15 00 00 00 73 65 67 6d 65 6e 74 20 73 69 7a 65 20 69 6e 20 62 79 74 65 73
        0e 6d 65 73 73 61 67 65 5f 65 78 70 69 72 79 0c 08 00 00 00 ff ff ff ff ff ff ff ff
        04 00 00 00 74 65 78 74
        """,
        (
            OptionSpec(
                "segment_size",
                ValueKind.UINT64,
                (1024**3).to_bytes(8, "little"),
                "segment size in bytes",
            ),
            OptionSpec("message_expiry", ValueKind.UINT64, b"\xff" * 8, "text"),
        ),
    ),
    request(20, "me", "", GetMe()),
    reply(20, "me", _CLIENT_BYTES, CLIENT),
    request(21, "by-number", "07 00 00 00", GetClient(7)),
    reply(21, "found", _CLIENT_BYTES, CLIENT),
    reply(21, "missing", "", None),
    request(22, "all", "", GetClients()),
    reply(
        22,
        "not-logged-in",
        """
        08 00 00 00 ff ff ff ff 04 0b 00 00 00 5b 3a 3a 31 5d 3a 34 30 30 30 30 00 00 00 00
        """,
        (ClientInfo(8, NOT_LOGGED_IN, TransportKind.WEBSOCKET, "[::1]:40000", 0),),
    ),
)

NOTHING_SAID: Final = (
    1, 14, 34, 35, 36, 37, 39, 43, 102, 121, 122, 203, 204, 205, 303, 304, 305, 402, 403, 503,
    603, 604, 605,
)  # fmt: skip
"""Commands whose success says nothing."""

EXAMPLES: Final[tuple[Example, ...]] = (
    *STREAMS_AND_TOPICS,
    *MESSAGES_AND_OFFSETS,
    *GROUPS,
    *USERS,
    *SYSTEM,
    *[reply(code, "nothing", "", None) for code in NOTHING_SAID],
)
