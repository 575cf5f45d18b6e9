"""Statistics and snapshots, answer by answer (spec 06, 6.2, 6.3 and 9)."""

import asyncio
import io
import os
import struct
import time
import zipfile
from collections.abc import AsyncIterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from support.log import batch_of
from support.real_server import RealServer, real_server
from support.wire_client import WireClient, status, success
from windsprite_protocol.model.groups import CreateConsumerGroup
from windsprite_protocol.model.identifiers import ToPartition
from windsprite_protocol.model.messages import SendMessages
from windsprite_protocol.model.permissions import GlobalPermissions, Permissions
from windsprite_protocol.model.streams import CreateStream
from windsprite_protocol.model.topics import CreateTopic
from windsprite_protocol.model.users import CreateUser

STATS, SNAPSHOT = 10, 11
INVALID, UNAUTHENTICATED, UNAUTHORIZED, NO_SNAPSHOT = 3, 40, 41, 9000

TEST, LOGS, CONFIG, ALL = 4, 5, 6, 100
STORED, DEFLATED = 1, 2


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RealServer]:
    async with real_server(tmp_path) as server:
        yield server


@pytest.fixture
async def root(server: RealServer) -> AsyncIterator[WireClient]:
    async with server.client("iggy", "iggy") as client:
        yield client


# --- Statistics ----------------------------------------------------------------------------------

FIXED = struct.Struct("<IffQQQQQQQQIIIIQII")
NAMES = (
    *("process_id", "cpu_usage", "total_cpu_usage", "memory_usage", "total_memory"),
    *("available_memory", "run_time", "start_time", "read_bytes", "written_bytes"),
    *("messages_size_bytes", "streams_count", "topics_count", "partitions_count"),
    *("segments_count", "messages_count", "clients_count", "consumer_groups_count"),
)
TEXTS = ("hostname", "os_name", "os_version", "kernel_version", "iggy_server_version")


def fields(payload: bytes) -> dict[str, Any]:
    """The fields of a reply with statistics, taken apart by hand."""
    found: dict[str, Any] = dict(zip(NAMES, FIXED.unpack_from(payload), strict=True))
    at = FIXED.size
    for name in TEXTS:
        (length,) = struct.unpack_from("<I", payload, at)
        found[name] = payload[at + 4 : at + 4 + length].decode()
        at += 4 + length
    ends = struct.Struct("<IIIQQ")
    found["semver"], found["caches"], found["threads"], found["free"], found["total"] = (
        ends.unpack_from(payload, at)
    )
    assert at + ends.size == len(payload)
    return found


async def stats(client: WireClient) -> dict[str, Any]:
    answer = await client.ask_code(STATS)
    assert answer.told.channel == "success"
    return fields(answer.body)


async def test_every_figure_is_there_and_real(root: WireClient, tmp_path: Path) -> None:
    assert FIXED.size == 108
    await root.call(CreateStream("a"))
    await root.call(CreateStream("b"))
    await root.call(CreateTopic("a", 3, "t"))
    await root.call(CreateTopic("a", 0, "empty"))
    await root.call(CreateConsumerGroup("a", "t", "g"))
    for number in range(2):
        batch, _ = batch_of([b"ten bytes!"] * 3)
        await root.call(SendMessages("a", "t", ToPartition(number), 3, batch))
    figures = await stats(root)
    assert figures["process_id"] == os.getpid()
    assert figures["cpu_usage"] == 0, "of the first call"
    assert 0 <= figures["total_cpu_usage"] <= 100
    assert 10 << 20 < figures["memory_usage"] < figures["total_memory"]
    assert 0 < figures["available_memory"] <= figures["total_memory"]
    assert figures["run_time"] % 1_000_000 == figures["start_time"] % 1_000_000 == 0
    assert abs(figures["start_time"] / 1_000_000 - time.time()) < 60
    held = (860, 2, 2, 3, 3, 6, 1, 1)
    assert tuple(figures[name] for name in NAMES[10:]) == held
    assert all(figures[name] for name in TEXTS)
    assert figures["iggy_server_version"] == version("windsprite")
    major, minor, patch = map(int, version("windsprite").split("."))
    assert figures["semver"] == major * 1_000_000 + minor * 1_000 + patch
    assert figures["caches"] == 0
    assert figures["threads"] >= 1
    disk = os.statvfs(tmp_path)
    assert figures["total"] == disk.f_blocks * disk.f_frsize
    assert 0 < figures["free"] < figures["total"]


async def test_processor_use_is_that_since_the_call_before(root: WireClient) -> None:
    await stats(root)
    sum(number * number for number in range(3_000_000))
    assert (await stats(root))["cpu_usage"] > 0


async def test_connections_count_logged_in_or_not(server: RealServer, root: WireClient) -> None:
    assert (await stats(root))["clients_count"] == 1
    async with server.client() as stranger:
        assert (await stranger.ask_code(1)).told == success()
        assert (await stats(root))["clients_count"] == 2
    async with asyncio.timeout(30):
        while (await stats(root))["clients_count"] != 1:
            await asyncio.sleep(0.01)


async def test_who_may_see_statistics_and_snapshots(server: RealServer, root: WireClient) -> None:
    for name, permissions in {
        "reader": GlobalPermissions(read_servers=True),
        "manager": GlobalPermissions(manage_servers=True),
        "other": GlobalPermissions(manage_users=True, manage_streams=True, manage_topics=True),
    }.items():
        await root.call(CreateUser(name, "secret", permissions=Permissions(permissions)))
    for name in ("reader", "manager"):
        async with server.client(name, "secret") as client:
            assert (await client.ask_code(STATS)).told.channel == "success"
            assert (await client.ask_code(SNAPSHOT, snapshot(STORED))).told.channel == "success"
    async with server.client("other", "secret") as other:
        assert (await other.ask_code(STATS)).told == status(UNAUTHORIZED)
        for body in (snapshot(STORED, TEST), *UNREADABLE):
            assert (await other.ask_code(SNAPSHOT, body)).told == status(UNAUTHORIZED), body
    async with server.client() as stranger:
        assert (await stranger.ask_code(STATS)).told == status(UNAUTHENTICATED)
        assert (await stranger.ask_code(SNAPSHOT, b"")).told == status(UNAUTHENTICATED)


# --- Snapshots -----------------------------------------------------------------------------------


def snapshot(compression: int, *kinds: int) -> bytes:
    return bytes([compression, len(kinds), *kinds])


UNREADABLE = (
    b"",
    b"\x02",
    b"\x02\x01",
    snapshot(0, TEST),
    snapshot(7, TEST),
    snapshot(DEFLATED, 0),
    snapshot(DEFLATED, 7),
    snapshot(DEFLATED, 99),
    snapshot(DEFLATED, ALL, TEST),
    snapshot(DEFLATED, TEST, ALL),
    snapshot(DEFLATED, ALL, ALL),
)


async def names(client: WireClient, body: bytes) -> list[str]:
    answer = await client.ask_code(SNAPSHOT, body)
    assert answer.told.channel == "success"
    return zipfile.ZipFile(io.BytesIO(answer.body)).namelist()


async def test_the_example_of_a_request_for_everything(root: WireClient) -> None:
    # Nobody keeps the log of this server.
    assert await names(root, b"\x02\x01\x64") == [
        "filesystem_overview.txt",
        "process_list.txt",
        "resource_usage.txt",
        "server_config.txt",
    ]


async def test_files_come_in_the_order_asked_for(root: WireClient) -> None:
    assert await names(root, snapshot(STORED, CONFIG, 2, TEST)) == [
        "server_config.txt",
        "process_list.txt",
        "test.txt",
    ]
    assert await names(root, snapshot(STORED, TEST, TEST)) == ["test.txt"]
    assert await names(root, snapshot(STORED)) == []


@pytest.mark.parametrize(
    ("compression", "method"), [(1, 0), (2, 8), (3, 12), (4, 93), (5, 14), (6, 95)]
)
async def test_every_compression(root: WireClient, compression: int, method: int) -> None:
    answer = await root.ask_code(SNAPSHOT, snapshot(compression, TEST))
    (entry,) = zipfile.ZipFile(io.BytesIO(answer.body)).infolist()
    assert (entry.filename, entry.compress_type, entry.file_size) == ("test.txt", method, 5)


async def test_requests_that_make_no_sense(root: WireClient) -> None:
    for body in UNREADABLE:
        assert (await root.ask_code(SNAPSHOT, body)).told == status(INVALID), body


async def test_no_secret_is_in_the_configuration(tmp_path: Path) -> None:
    settings = {"root": {"username": "boss", "password": "very-secret"}}
    async with (
        real_server(tmp_path, settings=settings) as server,
        server.client("boss", "very-secret") as root,
    ):
        archive = (await root.ask_code(SNAPSHOT, snapshot(STORED, ALL))).body
    assert b"boss" in archive
    assert b"very-secret" not in archive


async def test_one_at_a_time_and_others_are_served_meanwhile(
    server: RealServer, root: WireClient
) -> None:
    async with server.client("iggy", "iggy") as other:
        slow = asyncio.create_task(root.ask_code(SNAPSHOT, snapshot(DEFLATED, ALL)))
        await asyncio.sleep(0.05)
        assert (await other.ask_code(SNAPSHOT, snapshot(STORED))).told == status(NO_SNAPSHOT)
        assert (await other.ask_code(1)).told == success()
        assert not slow.done()
        assert (await slow).told.channel == "success"
        assert await names(other, snapshot(STORED)) == []


async def test_what_does_not_fit_into_a_frame(tmp_path: Path) -> None:
    limits = {"max_frame_size": 4096, "max_frame_size_before_login": 4096}
    async with (
        real_server(tmp_path, settings={"limits": limits}) as server,
        server.client("iggy", "iggy") as root,
    ):
        told = (await root.ask_code(SNAPSHOT, snapshot(STORED, 1, 2, 3, CONFIG))).told
        assert told == status(NO_SNAPSHOT)
        assert await names(root, snapshot(STORED, TEST)) == ["test.txt"]
        assert server.events("failed") == []
