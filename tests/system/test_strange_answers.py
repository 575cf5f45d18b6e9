"""Answers that a server of another version, or a broken one, may give; on real sockets.

In common: the frame is whole, so the connection stays in use. Time is virtual.
"""

import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import pytest

import windsprite
from support.environment import SeededEnvironment
from support.scripted_server import Mangled, ScriptedCluster, ScriptedNode
from support.virtual_time import in_virtual_time
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.cluster import GetClusterMetadata
from windsprite_protocol.model.messages import PollMessages, SendMessages
from windsprite_protocol.model.sessions import LoginAttempt
from windsprite_protocol.model.streams import CreateStream, GetStreams
from windsprite_protocol.model.system import Ping

HEADER = 256
UNKNOWN = 54_321

Call: TypeAlias = Callable[[windsprite.Client], Awaitable[Any]]

READS: list[tuple[type[Any], Call]] = [
    (Ping, lambda client: client.ping()),
    (GetStreams, lambda client: client.get_streams()),
    (PollMessages, lambda client: client.poll("s", "t", start=windsprite.From.first())),
]
WRITES: list[tuple[type[Any], Call]] = [
    (CreateStream, lambda client: client.create_stream("orders")),
    (SendMessages, lambda client: client.send("s", "t", [b"x"])),
]


def resized(data: bytearray) -> bytearray:
    """A frame whose header tells the size that it has."""
    struct.pack_into("<I", data, 48, len(data))
    return data


def with_status(number: int) -> Mangled:
    def change(data: bytearray) -> bytearray:
        del data[HEADER:]
        struct.pack_into("<I", data, 216, number)
        return resized(data)

    return Mangled(change)


def with_result(number: int) -> Mangled:
    return Mangled(lambda data: resized(data[:HEADER] + struct.pack("<III", 1, 0, number)))


def with_body(body: bytes) -> Mangled:
    return Mangled(lambda data: resized(data[:HEADER] + body))


@asynccontextmanager
async def setting() -> AsyncIterator[tuple[ScriptedNode, windsprite.Client]]:
    async with await ScriptedCluster().start() as cluster:
        (node,) = cluster.nodes
        url = cluster.url()
        async with windsprite.connect(url, environment=SeededEnvironment()) as client:
            yield node, client
            await client.get_streams()
            assert len(node.connects) == 1


@pytest.mark.parametrize(("kind", "call"), [*READS, *WRITES])
@in_virtual_time
async def test_a_refusal_that_nobody_knows_here_is_told_by_its_number(
    kind: type[Any], call: Call
) -> None:
    async with setting() as (node, client):
        node.script(kind, [with_status(UNKNOWN)])
        with pytest.raises(windsprite.ServerError, match=str(UNKNOWN)) as raised:
            await call(client)
        assert raised.value.code is ErrorCode.ERROR


@in_virtual_time
async def test_a_result_that_nobody_knows_here_is_told_by_its_number() -> None:
    async with setting() as (node, client):
        node.script(CreateStream, [with_result(UNKNOWN)])
        with pytest.raises(windsprite.ServerError, match=str(UNKNOWN)):
            await client.create_stream("orders")


@in_virtual_time
async def test_a_login_refused_for_what_nobody_knows_is_told_by_its_number() -> None:
    async with await ScriptedCluster().start() as cluster:
        cluster.nodes[0].always(LoginAttempt, with_result(UNKNOWN))
        with pytest.raises(windsprite.ConnectionFailed, match=str(UNKNOWN)):
            await windsprite.connect(cluster.url(), reconnection_retries=0)


@pytest.mark.parametrize(
    "kind", [Ping, CreateStream, GetClusterMetadata, LoginAttempt], ids=lambda kind: kind.__name__
)
@in_virtual_time
async def test_what_follows_the_known_fields_is_ignored(kind: type[Any]) -> None:
    async with setting() as (node, client):
        node.always(kind, Mangled(lambda data: resized(data + b"later")))
        await client.ping()
        assert (await client.create_stream("orders")).stream.name == "orders"
        metadata = await client.get_cluster_metadata()
        assert metadata.leader_epoch == 1
        await client.login("iggy", "iggy")
        node.connects.pop()


@pytest.mark.parametrize("body", [b"", b"\x05", b"\xff" * 40])
@pytest.mark.parametrize(("kind", "call"), READS[2:])
@in_virtual_time
async def test_a_body_that_is_none_fails_a_read_alone(
    kind: type[Any], call: Call, body: bytes
) -> None:
    async with setting() as (node, client):
        node.script(kind, [with_body(body)])
        with pytest.raises(windsprite.ProtocolViolation):
            await call(client)


@pytest.mark.parametrize("body", [b"\0\0\0\0", b"\0\0\0\0\x05"])
@in_virtual_time
async def test_a_body_that_is_none_leaves_a_write_in_doubt(body: bytes) -> None:
    async with setting() as (node, client):
        node.script(CreateStream, [with_body(body)])
        with pytest.raises(windsprite.OutcomeUnknown):
            await client.create_stream("orders")


@pytest.mark.parametrize("retry", ["safe", "at-least-once"])
@pytest.mark.parametrize("body", [b"", b"\0\0\0\0"])
@in_virtual_time
async def test_a_send_may_be_confirmed_without_a_place(body: bytes, retry: Any) -> None:
    async with setting() as (node, client):
        node.script(SendMessages, [with_body(body)])
        assert await client.send("s", "t", [b"x"], retry=retry) is None
        assert node.cluster.payloads == [b"x"]
