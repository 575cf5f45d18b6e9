"""The figures of the server with the official client (spec 06, 6.2)."""

import datetime as dt
import io
import os
import socket
import time
import zipfile
from typing import Any

import pytest
from apache_iggy import IggyClient

from support.official_client import fails_with, logged_in, messages, stored_size

covers = pytest.mark.covers

COUNTS = (
    "streams_count",
    "topics_count",
    "partitions_count",
    "segments_count",
    "messages_count",
    "messages_size_bytes",
    "consumer_groups_count",
)


def counts(stats: Any) -> dict[str, int]:
    return {name: getattr(stats, name) for name in COUNTS}


@covers("get_stats")
async def test_the_process_and_its_machine(client: IggyClient) -> None:
    stats = await client.get_stats()
    os.kill(stats.process_id, 0)
    assert stats.process_id != os.getpid()
    assert stats.cpu_usage >= 0
    assert 0 <= stats.total_cpu_usage <= 100
    assert 1 << 20 < stats.memory_usage < stats.total_memory
    assert 0 < stats.available_memory <= stats.total_memory
    assert dt.timedelta(0) <= stats.run_time < dt.timedelta(hours=1)
    assert stats.run_time.microseconds == 0
    assert stats.start_time % 1_000_000 == 0
    assert 0 <= time.time() - stats.start_time / 1_000_000 < 3600
    assert stats.read_bytes >= 0
    assert stats.written_bytes >= 0
    assert stats.hostname == socket.gethostname()
    assert stats.os_name
    assert stats.os_version
    assert stats.kernel_version == os.uname().release
    assert stats.iggy_server_version
    major, minor, patch = map(int, stats.iggy_server_version.split("-")[0].split("."))
    assert stats.iggy_server_semver == major * 1_000_000 + minor * 1000 + patch
    assert stats.cache_metrics == {}
    assert stats.threads_count >= 1
    assert 0 < stats.free_disk_space <= stats.total_disk_space


@covers("get_stats")
async def test_what_the_server_holds(fresh_address: str) -> None:
    client = await logged_in(fresh_address)
    assert counts(await client.get_stats()) == dict.fromkeys(COUNTS, 0)
    for name in ("a", "b"):
        await client.create_stream(name)
    await client.create_topic("a", "t", 3)
    await client.create_topic("b", "t", 2)
    await client.create_topic("b", "u", 0)
    await client.send_messages("a", "t", 0, messages("x", "yy"))
    await client.send_messages("a", "t", 2, messages("zzz"))
    await client.send_messages("b", "t", 1, messages("w"))
    held = {
        "streams_count": 2,
        "topics_count": 3,
        "partitions_count": 5,
        "segments_count": 5,
        "messages_count": 4,
        "messages_size_bytes": stored_size([1, 2], [3], [1]),
        "consumer_groups_count": 0,
    }
    assert counts(await client.get_stats()) == held
    await client.purge_topic("b", "t")
    held |= {"messages_count": 3, "messages_size_bytes": stored_size([1, 2], [3])}
    assert counts(await client.get_stats()) == held
    await client.delete_partitions("a", "t", 1)
    held |= {"partitions_count": 4, "segments_count": 4}
    held |= {"messages_count": 2, "messages_size_bytes": stored_size([1, 2])}
    assert counts(await client.get_stats()) == held
    await client.delete_stream("a")
    held = dict.fromkeys(COUNTS, 0) | {
        "streams_count": 1,
        "topics_count": 2,
        "partitions_count": 2,
        "segments_count": 2,
    }
    assert counts(await client.get_stats()) == held


@covers("get_stats")
async def test_who_is_connected(fresh_address: str) -> None:
    clients = [await logged_in(fresh_address)]
    for count in range(1, 4):
        assert (await clients[0].get_stats()).clients_count == count
        clients.append(await logged_in(fresh_address))
    waiting = IggyClient(fresh_address)
    await waiting.connect()
    await waiting.ping()
    assert (await clients[0].get_stats()).clients_count == 5  # logged in or not


@pytest.mark.parametrize(
    ("compression", "method"),
    [(1, zipfile.ZIP_STORED), (2, zipfile.ZIP_DEFLATED), (3, zipfile.ZIP_BZIP2)],
)
@covers("11 by send_binary_request")
async def test_a_snapshot(client: IggyClient, compression: int, method: int) -> None:
    archive = await client.send_binary_request(11, bytes([compression, 2, 4, 6]))
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        assert opened.testzip() is None
        assert opened.namelist() == ["test.txt", "server_config.txt"]
        assert {entry.compress_type for entry in opened.infolist()} == {method}
        assert opened.read("test.txt").strip() == b"test"
        assert b"tail_memory" in opened.read("server_config.txt")


@covers("11 by send_binary_request")
async def test_a_snapshot_of_everything_and_of_nothing(client: IggyClient) -> None:
    everything = await client.send_binary_request(11, b"\x02\x01\x64")
    with zipfile.ZipFile(io.BytesIO(everything)) as opened:
        assert {"resource_usage.txt", "server_logs.txt", "server_config.txt"} <= set(
            opened.namelist()
        )
        assert "test.txt" not in opened.namelist()
    nothing = await client.send_binary_request(11, b"\x02\x00")
    with zipfile.ZipFile(io.BytesIO(nothing)) as opened:
        assert opened.namelist() == []


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x02",
        b"\x02\x01",
        b"\x00\x01\x04",
        b"\x07\x01\x04",
        b"\x02\x01\x07",
        b"\x02\x02\x64\x04",
    ],
)
@covers("11 by send_binary_request")
async def test_a_snapshot_that_nobody_can_make(client: IggyClient, payload: bytes) -> None:
    with fails_with(3):
        await client.send_binary_request(11, payload)


@covers("11 by send_binary_request")
async def test_who_may_have_a_snapshot(address: str, client: IggyClient) -> None:
    await client.create_user("nosy", "secret")
    own = await logged_in(address, "nosy", "secret")
    for payload in (b"\x02\x01\x04", b"\x02\x01\x07", b""):
        with fails_with(41):
            await own.send_binary_request(11, payload)
    await client.delete_user("nosy")
