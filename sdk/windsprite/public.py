"""All that `import windsprite` offers; the names are those of `windsprite` itself."""

from windsprite.address import (
    DEFAULT_CONNECTION_STRING,
    Address,
    Credentials,
    Endpoint,
    Options,
    Password,
    RetryMode,
    Token,
)
from windsprite.client import Client
from windsprite.commands.system import (
    OptionScopeName,
    SnapshotCompressionName,
    SnapshotSection,
)
from windsprite.commands.topics import CompressionName
from windsprite.connecting import Connecting, connect
from windsprite.consumer.commits import Commit
from windsprite.consumer.consumer import TopicConsumer
from windsprite.consumer.progress import Start
from windsprite.encryption import Encryptor
from windsprite.errors import (
    AlreadyExists,
    AuthenticationError,
    BufferFull,
    ClientClosed,
    ConnectionFailed,
    ConnectionLost,
    DecryptionFailed,
    IncompatibleServer,
    InvalidConnectionString,
    InvalidRequest,
    LimitReached,
    NotFound,
    OutcomeUnknown,
    PartitionNotOwned,
    PermissionDenied,
    ProducerClosed,
    ProtocolViolation,
    RequestTimedOut,
    ServerError,
    Unavailable,
    Unsupported,
    WindspriteError,
)
from windsprite.messages import Batch, From, Headers, Message, ReceivedMessage
from windsprite.producer import (
    Delivered,
    Delivery,
    FailedBatch,
    NewTopic,
    OnError,
    Partitioner,
    Producer,
    ProducerMode,
    WhenFull,
)
from windsprite.topic_options import Durability, Duration, Size
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.cluster import (
    ClusterMetadata,
    ClusterNode,
    NodeIdentity,
    NodeRole,
    NodeStatus,
)
from windsprite_protocol.model.groups import (
    ConsumerGroup,
    ConsumerGroupDetails,
    GroupAssignment,
    GroupMember,
)
from windsprite_protocol.model.identifiers import Consumer, ConsumerKind, Identifier
from windsprite_protocol.model.messages import Confirmation
from windsprite_protocol.model.offsets import ConsumerOffset
from windsprite_protocol.model.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from windsprite_protocol.model.streams import Stream, StreamDetails
from windsprite_protocol.model.system import (
    ClientDetails,
    ClientInfo,
    GroupMembership,
    OptionSpec,
    Stats,
)
from windsprite_protocol.model.tokens import TokenInfo
from windsprite_protocol.model.topics import Compression, Partition, Topic, TopicDetails
from windsprite_protocol.model.typed_values import PythonValue, TypedValue, ValueKind
from windsprite_protocol.model.users import User, UserDetails, UserStatus

__all__ = [
    "DEFAULT_CONNECTION_STRING",
    "Address",
    "AlreadyExists",
    "AuthenticationError",
    "Batch",
    "BufferFull",
    "Client",
    "ClientClosed",
    "ClientDetails",
    "ClientInfo",
    "ClusterMetadata",
    "ClusterNode",
    "Commit",
    "Compression",
    "CompressionName",
    "Confirmation",
    "Connecting",
    "ConnectionFailed",
    "ConnectionLost",
    "Consumer",
    "ConsumerGroup",
    "ConsumerGroupDetails",
    "ConsumerKind",
    "ConsumerOffset",
    "Credentials",
    "DecryptionFailed",
    "Delivered",
    "Delivery",
    "Durability",
    "Duration",
    "Encryptor",
    "Endpoint",
    "ErrorCode",
    "FailedBatch",
    "From",
    "GlobalPermissions",
    "GroupAssignment",
    "GroupMember",
    "GroupMembership",
    "Headers",
    "Identifier",
    "IncompatibleServer",
    "InvalidConnectionString",
    "InvalidRequest",
    "LimitReached",
    "Message",
    "NewTopic",
    "NodeIdentity",
    "NodeRole",
    "NodeStatus",
    "NotFound",
    "OnError",
    "OptionScopeName",
    "OptionSpec",
    "Options",
    "OutcomeUnknown",
    "Partition",
    "PartitionNotOwned",
    "Partitioner",
    "Password",
    "PermissionDenied",
    "Permissions",
    "Producer",
    "ProducerClosed",
    "ProducerMode",
    "ProtocolViolation",
    "PythonValue",
    "ReceivedMessage",
    "RequestTimedOut",
    "RetryMode",
    "ServerError",
    "Size",
    "SnapshotCompressionName",
    "SnapshotSection",
    "Start",
    "Stats",
    "Stream",
    "StreamDetails",
    "StreamPermissions",
    "Token",
    "TokenInfo",
    "Topic",
    "TopicConsumer",
    "TopicDetails",
    "TopicPermissions",
    "TypedValue",
    "Unavailable",
    "Unsupported",
    "User",
    "UserDetails",
    "UserStatus",
    "ValueKind",
    "WhenFull",
    "WindspriteError",
    "connect",
]
