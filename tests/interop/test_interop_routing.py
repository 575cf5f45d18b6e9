"""The official client going straight to the primary of a partition (spec 01, 8.4).

It does so when the cluster metadata name several nodes. The server of these tests is alone, and
names a second one that is never there: it leads all partitions itself.
"""

import dataclasses
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from apache_iggy import AutoCommit, AutoCommitWhen, IggyClient, PollingStrategy

from support.official_client import fails_with, logged_in, messages, offsets, poll
from support.real_server import real_server
from windsprite_protocol.model.cluster import (
    AttachSession,
    ClusterMetadata,
    GetClusterMetadata,
    NodeRole,
)
from windsprite_protocol.model.messages import GetPollRouting, PollMessages, PollPrimary
from windsprite_protocol.model.offsets import (
    DeleteConsumerOffset,
    GetConsumerOffsetRouting,
    StoreConsumerOffset,
)
from windsprite_server.handlers import system
from windsprite_server.handlers.dispatcher import Handler
from windsprite_server.handlers.services import Services
from windsprite_server.handlers.table import HANDLERS
from windsprite_server.session import Connection

covers = pytest.mark.covers

ROUTED = {
    AttachSession,
    GetPollRouting,
    PollPrimary,
    PollMessages,
    GetConsumerOffsetRouting,
    StoreConsumerOffset,
    DeleteConsumerOffset,
}
PLACE = "orders", "events"


def two_nodes(
    services: Services, connection: Connection, request: GetClusterMetadata
) -> ClusterMetadata:
    """What the server says of itself, and a follower where nobody listens."""
    metadata = system.get_cluster_metadata(services, connection, request)
    absent = dataclasses.replace(
        metadata.nodes[0], name="absent", tcp_port=1, role=NodeRole.FOLLOWER
    )
    return dataclasses.replace(metadata, nodes=(*metadata.nodes, absent))


class Node:
    """A server, a client of it, and what the client asked for, each with its connection."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, str]] = []
        self.client: IggyClient

    def noting(self, handler: Handler) -> Handler:
        def noted(services: Services, connection: Connection, request: Any) -> Any:
            if type(request) in ROUTED:
                self.asked.append((connection.number, type(request).__name__))
            return handler(services, connection, request)

        return noted

    def take(self) -> list[tuple[int, str]]:
        """What was asked for since the last time."""
        asked, self.asked = self.asked, []
        return asked


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    node = Node()
    table = {kind: node.noting(handler) for kind, handler in HANDLERS.items()}
    table[GetClusterMetadata] = two_nodes
    async with real_server(tmp_path, handlers=table) as server:
        node.client = await logged_in(server.address)
        await node.client.create_stream("orders")
        await node.client.create_topic(*PLACE, 2)
        await node.client.send_messages(*PLACE, 0, messages("a", "b", "c"))
        node.take()
        yield node
        events = server.events()
        assert [event for event in events if event["level"] in ("error", "critical")] == []


NEXT = PollingStrategy.Next()


@covers("poll_messages")
async def test_a_poll_that_commits_goes_to_the_primary(node: Node) -> None:
    polled = await poll(node.client, *PLACE, NEXT, 2, commit=True)
    assert offsets(polled) == [0, 1]
    assert node.take() == [(1, "GetPollRouting"), (2, "AttachSession"), (2, "PollPrimary")]
    # The route and the connection are kept, and what was committed is.
    assert offsets(await poll(node.client, *PLACE, NEXT, commit=True)) == [2]
    assert node.take() == [(2, "PollPrimary")]
    # Other polls stay where they were.
    assert offsets(await poll(node.client, *PLACE, NEXT)) == []
    assert node.take() == [(1, "PollMessages")]


@covers("poll_messages")
async def test_after_a_change_of_metadata_the_client_attaches_again(node: Node) -> None:
    await poll(node.client, *PLACE, NEXT, 1, commit=True)
    node.take()
    await node.client.create_stream("another")
    assert offsets(await poll(node.client, *PLACE, NEXT, 1, commit=True)) == [1]
    assert node.take() == [(1, "GetPollRouting"), (2, "AttachSession"), (2, "PollPrimary")]


@covers("poll_messages")
async def test_what_cannot_be_routed_is_told_to_the_caller(node: Node) -> None:
    for stream, topic, partition, error in (
        ("missing", "events", 0, 1009),
        ("orders", "missing", 0, 2010),
        ("orders", "events", 9, 3007),
    ):
        with fails_with(error):
            await poll(node.client, stream, topic, NEXT, partition=partition, commit=True)
    assert offsets(await poll(node.client, *PLACE, NEXT, 1, commit=True)) == [0]


@covers("consumer_group", "IggyConsumer.iter_messages")
async def test_a_member_that_commits_by_polling_polls_at_the_primary(node: Node) -> None:
    consumer = await node.client.consumer_group(
        "g",
        *PLACE,
        polling_strategy=NEXT,
        batch_length=2,
        auto_commit=AutoCommit.When(AutoCommitWhen.PollingMessages()),
        poll_interval=timedelta(milliseconds=10),
    )
    found = []
    async for message in consumer.iter_messages():
        found.append(message.offset())
        if len(found) == 3:
            break
    assert found == [0, 1, 2]
    asked = node.take()
    assert asked[:3] == [(1, "GetPollRouting"), (2, "AttachSession"), (2, "PollPrimary")]
    assert "PollMessages" not in [name for _, name in asked]
    names = b"".join(b"\x02" + bytes([len(name)]) + name.encode() for name in ("g", *PLACE))
    stored = await node.client.send_binary_request(120, b"\x02" + names + b"\x01" + bytes(4))
    assert stored[12:] == b"\x02" + bytes(7)


@covers(
    "consumer_group",
    "IggyConsumer.iter_messages",
    "IggyConsumer.store_offset",
    "IggyConsumer.delete_offset",
)
async def test_a_member_of_a_group_acts_through_its_second_connection(node: Node) -> None:
    consumer = await node.client.consumer_group(
        "g",
        *PLACE,
        polling_strategy=NEXT,
        batch_length=10,
        auto_commit=AutoCommit.Disabled(),
        poll_interval=timedelta(milliseconds=10),
    )
    found = []
    async for message in consumer.iter_messages():
        found.append(message.offset())
        if len(found) == 3:
            break
    assert found == [0, 1, 2]
    node.take()
    await consumer.store_offset(1, 0)
    assert [name for _, name in node.take()] == [
        "GetConsumerOffsetRouting",
        "AttachSession",
        "StoreConsumerOffset",
    ]
    await consumer.store_offset(2, 0)
    await consumer.delete_offset(0)
    asked = node.take()
    assert [name for _, name in asked] == ["StoreConsumerOffset", "DeleteConsumerOffset"]
    assert {number for number, _ in asked} == {2}, "as the member, on the second connection"
    with fails_with(3021):
        await consumer.delete_offset(0)


@covers("poll_messages")
async def test_a_new_login_has_a_route_of_its_own(node: Node) -> None:
    await poll(node.client, *PLACE, NEXT, 1, commit=True)
    node.take()
    await node.client.login_user("iggy", "iggy")
    assert offsets(await poll(node.client, *PLACE, NEXT, 1, commit=True)) == [1]
    assert [name for _, name in node.take()] == ["GetPollRouting", "AttachSession", "PollPrimary"]
