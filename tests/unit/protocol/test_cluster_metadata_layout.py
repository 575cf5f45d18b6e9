"""Cluster metadata: the official part, and the trailer that only Windsprite sends."""

from dataclasses import replace
from uuid import UUID

import pytest

from support.command_examples import (
    IDENTITY,
    STAND_ALONE,
    STAND_ALONE_BYTES,
    THREE_NODES,
    THREE_NODES_BYTES,
    TRAILER_BYTES,
    WITH_TRAILER,
    node,
)
from windsprite_protocol.errors import DecodeError, EncodeError
from windsprite_protocol.model.cluster import (
    ClusterMetadata,
    GetClusterMetadata,
    NodeIdentity,
    NodeRole,
    NodeStatus,
)
from windsprite_protocol.v0_11.table import GENERATION

CODEC = GENERATION.of(GetClusterMetadata).reply
CLUSTER = UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")


def decode(body: bytes) -> ClusterMetadata:
    return CODEC.decode(memoryview(body))


def trailer(content: bytes, length: int | None = None) -> bytes:
    size = len(content) if length is None else length
    return b"WSP1" + size.to_bytes(4, "little") + content


def content(*entries: bytes, count: int | None = None, flags: int = 0) -> bytes:
    return (
        CLUSTER.bytes
        + (9).to_bytes(8, "little")
        + flags.to_bytes(4, "little")
        + (len(entries) if count is None else count).to_bytes(4, "little")
        + b"".join(len(entry).to_bytes(2, "little") + entry for entry in entries)
    )


def entry(node_id: int = 5, zone: bytes = b"eu-1") -> bytes:
    return (
        node_id.to_bytes(4, "little")
        + (2).to_bytes(8, "little")
        + IDENTITY.instance_id.bytes
        + bytes((len(zone),))
        + zone
    )


class TestOfficialPart:
    @pytest.mark.parametrize("number", [2, 7, 254, 255])
    def test_a_role_nobody_knows(self, number):
        body = STAND_ALONE_BYTES[:-2] + bytes((number, 0))
        assert decode(body).nodes[0].role is NodeRole.UNKNOWN
        assert decode(body).leader is None

    @pytest.mark.parametrize("number", [5, 6, 255])
    def test_a_status_nobody_knows(self, number):
        body = STAND_ALONE_BYTES[:-1] + bytes((number,))
        assert decode(body).nodes[0].status is NodeStatus.UNKNOWN
        assert decode(body).leader is None

    @pytest.mark.parametrize("change", [{"role": NodeRole.UNKNOWN}, {"status": NodeStatus.UNKNOWN}])
    def test_what_official_clients_refuse_is_never_sent(self, change):
        unknown = replace(STAND_ALONE, nodes=(replace(STAND_ALONE.nodes[0], **change),))
        with pytest.raises(EncodeError):
            CODEC.encode(unknown)

    def test_no_nodes(self):
        metadata = decode(b"\x01\x00\x00\x00c\x00\x00\x00\x00")
        assert metadata == ClusterMetadata("c", ())
        assert metadata.leader is None

    @pytest.mark.timeout(5)
    def test_a_count_of_nodes_that_lies(self):
        with pytest.raises(DecodeError):
            decode(b"\x01\x00\x00\x00c\xff\xff\xff\xff" + STAND_ALONE_BYTES[19:])

    def test_the_leader(self):
        assert decode(THREE_NODES_BYTES).leader == THREE_NODES.nodes[0]

    @pytest.mark.parametrize("rest", [b"\x00", b"WSP2" + bytes(40), b"something else"])
    def test_what_is_no_trailer_is_ignored(self, rest):
        assert decode(STAND_ALONE_BYTES + rest) == STAND_ALONE

    def test_a_port_that_does_not_fit(self):
        with pytest.raises(EncodeError):
            CODEC.encode(ClusterMetadata("c", (node("n", "h", NodeRole.LEADER, tcp_port=65536),)))


class TestTrailer:
    def test_it_is_what_the_specification_says(self):
        assert trailer(content(entry(), flags=1)) == TRAILER_BYTES
        assert decode(STAND_ALONE_BYTES + TRAILER_BYTES) == WITH_TRAILER

    def test_an_official_server_sends_none(self):
        metadata = decode(STAND_ALONE_BYTES)
        assert (metadata.cluster_id, metadata.leader_epoch) == (None, None)
        assert metadata.nodes[0].identity is None
        assert metadata.trailer_error is None

    def test_no_leader_is_known(self):
        epochless = bytearray(TRAILER_BYTES)
        epochless[24:32] = bytes(8)
        assert decode(STAND_ALONE_BYTES + epochless).leader_epoch == 0

    def test_unknown_flags_are_ignored(self):
        metadata = decode(STAND_ALONE_BYTES + trailer(content(entry(), flags=0xFFFF_FFFE)))
        assert metadata.trailer_error is None
        assert not metadata.followers_serve_reads

    def test_later_versions_may_add_to_entries_and_to_the_end(self):
        longer = trailer(content(entry() + b"new", flags=1) + b"and more")
        assert decode(STAND_ALONE_BYTES + longer) == WITH_TRAILER
        assert decode(STAND_ALONE_BYTES + longer + b"after it") == WITH_TRAILER

    @pytest.mark.parametrize("size", range(1, len(TRAILER_BYTES)))
    def test_a_cut_trailer_leaves_the_official_part(self, size):
        metadata = decode(STAND_ALONE_BYTES + TRAILER_BYTES[:size])
        assert metadata.trailer_error
        assert replace(metadata, trailer_error=None) == STAND_ALONE

    @pytest.mark.timeout(5)
    @pytest.mark.parametrize(
        "wrong",
        [
            pytest.param(trailer(content()), id="no identities for one node"),
            pytest.param(trailer(content(entry(1), entry(2))), id="two identities for one node"),
            pytest.param(trailer(content(entry(), count=2)), id="count says one more"),
            pytest.param(trailer(content(entry(), count=2**32 - 1)), id="count lies"),
            pytest.param(trailer(content(entry(), count=0)), id="count says none"),
            pytest.param(trailer(content(entry()[:-1])), id="entry shorter than its zone"),
            pytest.param(trailer(content(b"")), id="empty entry"),
            pytest.param(trailer(content(entry(zone=b"\xff"))), id="zone is not UTF-8"),
            pytest.param(trailer(content(entry()), length=1000), id="length says more"),
            pytest.param(trailer(content(entry()), length=2**32 - 1), id="length lies"),
            pytest.param(trailer(content(entry()), length=40), id="length says less"),
            pytest.param(trailer(b""), id="empty"),
        ],
    )
    def test_a_trailer_that_contradicts_itself(self, wrong):
        metadata = decode(STAND_ALONE_BYTES + wrong)
        assert metadata.trailer_error
        assert "\n" not in metadata.trailer_error
        assert replace(metadata, trailer_error=None) == STAND_ALONE

    def test_two_nodes_with_one_id(self):
        body = THREE_NODES_BYTES + trailer(content(entry(1), entry(2), entry(1)))
        assert decode(body).trailer_error == "two nodes have the same id"

    def test_identities_come_in_the_order_of_the_nodes(self):
        metadata = decode(THREE_NODES_BYTES + trailer(content(entry(7), entry(3, b""), entry(5))))
        identities = [node.identity for node in metadata.nodes]
        assert [identity.node_id for identity in identities] == [7, 3, 5]
        assert [identity.zone for identity in identities] == ["eu-1", "", "eu-1"]

    @pytest.mark.parametrize(
        "half",
        [
            replace(WITH_TRAILER, cluster_id=None),
            replace(WITH_TRAILER, leader_epoch=None),
            replace(WITH_TRAILER, nodes=STAND_ALONE.nodes),
            replace(STAND_ALONE, followers_serve_reads=True),
        ],
    )
    def test_half_a_trailer_cannot_be_written(self, half):
        with pytest.raises(EncodeError):
            CODEC.encode(half)

    def test_a_zone_that_is_too_long(self):
        identity = NodeIdentity(1, 1, CLUSTER, "z" * 256)
        told = replace(WITH_TRAILER, nodes=(replace(STAND_ALONE.nodes[0], identity=identity),))
        with pytest.raises(EncodeError):
            CODEC.encode(told)
