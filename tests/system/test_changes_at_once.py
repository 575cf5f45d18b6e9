"""Many clients change metadata at once; what is there afterwards fits together and outlives a kill.

Which of them comes first is up to the server, so no model says what each request is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from support.random_requests import RandomRequests
from support.replay import check_replay
from support.server_model import ServerModel
from support.server_process import RestartableServer
from support.wire_client import WireClient, status, wire_client
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.groups import (
    CreateConsumerGroup,
    GetConsumerGroup,
    GetConsumerGroups,
    JoinConsumerGroup,
)
from windsprite_protocol.model.identifiers import Consumer, ConsumerKind
from windsprite_protocol.model.offsets import GetConsumerOffset
from windsprite_protocol.model.permissions import GlobalPermissions, Permissions
from windsprite_protocol.model.streams import CreateStream, GetStream, GetStreams
from windsprite_protocol.model.system import GetStats
from windsprite_protocol.model.tokens import GetTokens
from windsprite_protocol.model.topics import CreateTopic, DeleteSegments, GetTopic
from windsprite_protocol.model.users import CreateUser, GetUser, GetUsers

ROOT = 0
CLIENTS_OF = {"iggy": ("iggy", 4), "alice": ("secret-1", 3), "bob": ("secret-2", 1)}
"""Passwords, and how many clients each user has."""
REQUESTS = 60
SECONDS_TO_SETTLE = 20
MANAGER = Permissions(GlobalPermissions(manage_streams=True, manage_users=True))
BEGINNING = (
    *(CreateStream(name) for name in "ab"),
    *(CreateTopic(stream, 3, topic) for stream in "ab" for topic in "ab"),
    *(CreateConsumerGroup(stream, topic, "a") for stream in "ab" for topic in "ab"),
    CreateUser("alice", "secret-1", permissions=MANAGER),
    CreateUser("bob", "secret-2"),
)
"""Random requests are mostly about these, or about what has got their names and numbers since."""
SETTINGS = {
    "WINDSPRITE_RETENTION__ENABLED": "false",
    "WINDSPRITE_PERSONAL_ACCESS_TOKEN__CLEANER__ENABLED": "false",
}


@contextlib.asynccontextmanager
async def logged_in(address: str, username: str, password: str) -> AsyncIterator[WireClient]:
    async with wire_client(address) as client:
        await client.login(username, password)
        yield client


async def ask_at_random(client: WireClient, model: ServerModel, seed: str) -> None:
    """Whatever becomes of the user meanwhile."""
    random = Random(seed)
    requests = RandomRequests(random, model)
    for _ in range(REQUESTS):
        request = requests.any()
        if random.random() < 0.2:
            place, group = random.choice([("a", "a"), ("b", "a")]), random.choice([0, 1, "a"])
            request = JoinConsumerGroup(*place, group)
        if isinstance(request, DeleteSegments):
            continue  # segments may go long after that was answered
        answer = await client.answer_to(request)
        assert answer.told != status(ErrorCode.ERROR), request


async def everything(root: WireClient) -> dict[Any, Any]:
    """All that root can see; fails where one thing does not fit another."""
    found: dict[Any, Any] = {}

    async def look(request: Any) -> Any:
        found[request] = await root.call(request)
        return found[request]

    await look(GetTokens())
    for user in await look(GetUsers()):
        assert (await look(GetUser(user.id))).user == user
    streams = await look(GetStreams())
    partitions_count = groups_count = 0
    for stream in streams:
        topics = (await look(GetStream(stream.id))).topics
        assert stream.topics_count == len(topics)
        assert stream.messages_count == sum(topic.messages_count for topic in topics)
        assert stream.size_bytes == sum(topic.size_bytes for topic in topics)
        for topic in topics:
            place = stream.id, topic.id
            details = await look(GetTopic(*place))
            assert details.topic == topic
            numbers = list(range(topic.partitions_count))
            assert [partition.id for partition in details.partitions] == numbers
            assert topic.messages_count == sum(p.messages_count for p in details.partitions)
            assert topic.size_bytes == sum(p.size_bytes for p in details.partitions)
            partitions_count += len(numbers)
            for group in await look(GetConsumerGroups(*place)):
                groups_count += 1
                members = (await look(GetConsumerGroup(*place, group.id))).members
                owned = sorted(number for member in members for number in member.partitions)
                assert owned == (numbers if members else [])
                for number in numbers:
                    consumer = Consumer(ConsumerKind.GROUP, group.id)
                    await look(GetConsumerOffset(consumer, *place, number))
    stats = await root.call(GetStats())
    assert stats.streams_count == len(streams)
    assert stats.topics_count == sum(stream.topics_count for stream in streams)
    assert (stats.partitions_count, stats.consumer_groups_count) == (partitions_count, groups_count)
    assert stats.messages_count == sum(stream.messages_count for stream in streams)
    return found


async def at_rest(root: WireClient) -> dict[Any, Any]:
    """All there is, once clients that have gone are no members any more."""
    async with asyncio.timeout(SECONDS_TO_SETTLE):
        while True:
            found = await everything(root)
            has_members = any(getattr(value, "members", ()) for value in found.values())
            if not has_members and found == await everything(root):
                return found
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("snapshot_every", [20, 10_000])
async def test_what_is_left_is_sound_and_outlives_a_kill(
    tmp_path: Path, snapshot_every: int
) -> None:
    environment = {**SETTINGS, "WINDSPRITE_JOURNAL__SNAPSHOT_EVERY": str(snapshot_every)}
    server = RestartableServer(tmp_path, environment=environment)
    try:
        async with logged_in(server.address, "iggy", "iggy") as root:
            model = ServerModel()
            model.sessions[ROOT] = ROOT
            for request in BEGINNING:
                model.answer(ROOT, request)
                await root.call(request)
            async with contextlib.AsyncExitStack() as stack:
                clients = [
                    await stack.enter_async_context(logged_in(server.address, name, password))
                    for name, (password, count) in CLIENTS_OF.items()
                    for _ in range(count)
                ]
                await asyncio.gather(
                    *(
                        ask_at_random(client, model, f"{snapshot_every} {number}")
                        for number, client in enumerate(clients)
                    )
                )
                await everything(root)
            before = await at_rest(root)
        server.restart(signal.SIGKILL)
        name = before[GetUser(ROOT)].user.username
        async with logged_in(server.address, name, "iggy") as root:
            assert await at_rest(root) == before
        server.stop()
        await check_replay(tmp_path / "data")
        assert [event for event in server.process.events if event["level"] == "error"] == []
    finally:
        server.end()
