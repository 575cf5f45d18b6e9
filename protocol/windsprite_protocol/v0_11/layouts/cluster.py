"""Cluster metadata and ways to the primary of a partition (spec 01, 8; spec 09, 2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from uuid import UUID

import construct as c

from windsprite_protocol.errors import EncodeError
from windsprite_protocol.layout import (
    STR8,
    STR32,
    U8,
    U16,
    U32,
    U64,
    U128,
    Counted,
    Enumerated,
    Layout,
    Number,
    Record,
    explain,
)
from windsprite_protocol.model.cluster import (
    Attachment,
    AttachSession,
    ClusterMetadata,
    ClusterNode,
    NodeIdentity,
    NodeRole,
    NodeStatus,
    Route,
)

if TYPE_CHECKING:
    from construct.core import Context, PathType, StreamType

MAGIC: Final = b"WSP1"
FOLLOWERS_SERVE_READS: Final = 1


class NodeState(Enumerated[NodeRole | NodeStatus]):
    """A role or status: every number can be read, `UNKNOWN` is never written (spec 01, 8.1)."""

    def __init__(self, number: Number, members: type[NodeRole] | type[NodeStatus]) -> None:
        super().__init__(number, members)
        self.unknown = members.UNKNOWN

    def _parse(self, stream: StreamType, context: Context, path: PathType) -> NodeRole | NodeStatus:
        try:
            return super()._parse(stream, context, path)
        except c.MappingError:
            return self.unknown

    def _write(
        self, obj: NodeRole | NodeStatus, stream: StreamType, context: Context, path: PathType
    ) -> None:
        if obj == self.unknown:
            raise c.MappingError("official clients refuse an unknown role or status", path=path)
        super()._write(obj, stream, context, path)


class UuidLayout(Layout[UUID]):
    """16 bytes in the order of RFC 9562."""

    def _parse(self, stream: StreamType, context: Context, path: PathType) -> UUID:  # noqa: ARG002
        return UUID(bytes=c.stream_read(stream, 16, path))

    def _write(self, obj: UUID, stream: StreamType, context: Context, path: PathType) -> None:  # noqa: ARG002
        c.stream_write(stream, obj.bytes, 16, path)


NODE: Final = Record(
    ClusterNode,
    "name" / STR32,
    "host" / STR32,
    "tcp_port" / U16,
    "quic_port" / U16,
    "http_port" / U16,
    "websocket_port" / U16,
    "role" / NodeState(U8, NodeRole),
    "status" / NodeState(U8, NodeStatus),
)

OFFICIAL_METADATA: Final = Record(
    ClusterMetadata,
    "name" / STR32,
    "nodes" / Counted[ClusterNode](U32, NODE),
)


@dataclass(frozen=True, slots=True)
class Trailer:
    """What Windsprite tells beyond the official metadata."""

    cluster_id: UUID
    leader_epoch: int
    flags: int
    identities: tuple[NodeIdentity, ...]


IDENTITY: Final = Record(
    NodeIdentity,
    "node_id" / U32,
    "generation" / U64,
    "instance_id" / UuidLayout(),
    "zone" / STR8,
)

TRAILER: Final = c.Struct(
    c.Const(MAGIC),
    # What later versions add at the end of the trailer or of an entry is skipped by the lengths.
    "content"
    / c.Prefixed(
        U32,
        Record(
            Trailer,
            "cluster_id" / UuidLayout(),
            "leader_epoch" / U64,
            "flags" / U32,
            "identities" / Counted[NodeIdentity](U32, c.Prefixed(U16, IDENTITY)),
        ),
    ),
)


class MetadataLayout(Layout[ClusterMetadata]):
    """The official metadata, then the trailer if the server sends one (spec 09, 2).

    A malformed trailer does not take the official part with it: `trailer_error` tells of it, and
    all it would have told is not known.
    """

    def _parse(self, stream: StreamType, context: Context, path: PathType) -> ClusterMetadata:
        official: ClusterMetadata = OFFICIAL_METADATA._parsereport(stream, context, path)
        rest = stream.read()
        if not rest or rest[: len(MAGIC)] != MAGIC[: len(rest)]:
            return official
        try:
            trailer = TRAILER.parse(rest).content
        except c.ConstructError as error:
            return replace(official, trailer_error=explain(error))
        return _merged(official, trailer)

    def _write(
        self, obj: ClusterMetadata, stream: StreamType, context: Context, path: PathType
    ) -> None:
        OFFICIAL_METADATA._build(obj, stream, context, path)
        trailer = _trailer_of(obj)
        if trailer is not None:
            TRAILER._build({"content": trailer}, stream, context, path)


def _merged(official: ClusterMetadata, trailer: Trailer) -> ClusterMetadata:
    identities = trailer.identities
    if len(identities) != len(official.nodes):
        message = f"{len(identities)} identities for {len(official.nodes)} nodes"
        return replace(official, trailer_error=message)
    if len({identity.node_id for identity in identities}) != len(identities):
        return replace(official, trailer_error="two nodes have the same id")
    return replace(
        official,
        nodes=tuple(
            replace(node, identity=identity)
            for node, identity in zip(official.nodes, identities, strict=True)
        ),
        cluster_id=trailer.cluster_id,
        leader_epoch=trailer.leader_epoch,
        followers_serve_reads=bool(trailer.flags & FOLLOWERS_SERVE_READS),
    )


def _trailer_of(metadata: ClusterMetadata) -> Trailer | None:
    identities = tuple(node.identity for node in metadata.nodes if node.identity is not None)
    told = metadata.cluster_id, metadata.leader_epoch
    if told == (None, None) and not identities and not metadata.followers_serve_reads:
        return None
    if (
        metadata.cluster_id is None
        or metadata.leader_epoch is None
        or len(identities) != len(metadata.nodes)
    ):
        raise EncodeError("cluster id, leader epoch and identities are told together or not at all")
    flags = FOLLOWERS_SERVE_READS if metadata.followers_serve_reads else 0
    return Trailer(metadata.cluster_id, metadata.leader_epoch, flags, identities)


CLUSTER_METADATA: Final = MetadataLayout()

ATTACHMENT: Final = Record(
    Attachment,
    "client" / U128,
    "session" / U64,
    "watermark" / U64,
)
ATTACH_SESSION: Final = Record(AttachSession, "attachment" / ATTACHMENT)
ROUTE: Final = Record(Route, "attachment" / ATTACHMENT, "node" / NODE)
