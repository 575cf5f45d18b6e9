"""Answers about the server itself, 1 and 10 to 22 (spec 02, 3.3; spec 06, 6)."""

import asyncio
import io
import os
import struct
import zipfile
from collections.abc import AsyncIterator
from uuid import UUID

import pytest
import pytest_asyncio

from support.bad_bodies import NUMBER, spoiled
from support.by_hand import (
    TOPIC_OPTIONS,
    batch,
    client_header,
    ident,
    long_text,
    name,
    send,
    to_partition,
    u8,
    u16,
    u32,
)
from support.exchange import EMPTY, Expected, Stage, answers, case, status, success

pytestmark = pytest.mark.asyncio(loop_scope="module")

STORED, DEFLATED = 1, 2
TEST_LINE, ALL = 4, 100
NOT_LOGGED_IN = 0xFFFFFFFF
ROOT, NOBODY = 0, 1


def snapshot(compression: int, *kinds: int) -> bytes:
    return bytes([compression, len(kinds), *kinds])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(empty_stage: Stage) -> AsyncIterator[Stage]:
    """A stream with a topic of two partitions, a group and three messages."""
    root = empty_stage.root
    await root.ask(202, name("s"))
    await root.ask(302, ident(0) + u32(2) + name("t"))
    await root.ask(602, ident(0) + ident(0) + name("g"))
    await root.ask(101, send(0, 0, to_partition(0), 3, batch(*(b"0123456789",) * 3)))
    yield empty_stage


@pytest.mark.parametrize(
    ("who", "code", "body", "expected"),
    [
        case("not permitted", 10, b"", status(41), "nobody"),
        case("nothing", 11, b"", status(3)),
        case("no number of kinds", 11, u8(STORED), status(3)),
        case("kinds cut short", 11, b"\x01\x02\x04", status(3)),
        case("a compression", 11, snapshot(0, TEST_LINE), status(3)),
        case("a compression", 11, snapshot(7, TEST_LINE), status(3)),
        case("a kind", 11, snapshot(STORED, 0), status(3)),
        case("a kind", 11, snapshot(STORED, 6 + 1), status(3)),
        case("all and more", 11, snapshot(STORED, ALL, TEST_LINE), status(3)),
        case("more and all", 11, snapshot(STORED, TEST_LINE, ALL), status(3)),
        case("all twice", 11, snapshot(STORED, ALL, ALL), status(3)),
        case("not permitted", 11, snapshot(STORED, TEST_LINE), status(41), "nobody"),
        case("before 3", 11, b"", status(41), "nobody"),
        case("before 3", 11, snapshot(STORED, ALL, ALL), status(41), "nobody"),
        case("nothing", 13, b"", status(3)),
        *(case(f"scope {scope}", 13, u8(scope), status(3)) for scope in (0, 4, 255)),
        case("no such connection", 21, u32(999_999), EMPTY, says="empty"),
        case("no connection", 21, u32(0), EMPTY, says="empty"),
        *(case(title, 21, body, EMPTY, says="empty") for title, body in spoiled(NUMBER)),
        case("not permitted", 21, u32(1), status(41), "nobody"),
        case("before emptiness", 21, u32(999_999), status(41), "nobody"),
        case("before emptiness", 21, b"\x01", status(41), "nobody"),
        case("not permitted", 22, b"", status(41), "nobody"),
    ],
)
async def test_what_does_not_succeed(
    stage: Stage, who: str, code: int, body: bytes, expected: Expected
) -> None:
    await getattr(stage, who).expect(expected, code, body)


@answers(1, "success", "success unbound")
async def test_ping(stage: Stage) -> None:
    for peer in (stage.root, stage.nobody):
        await peer.expect(EMPTY, 1)
        await peer.expect(EMPTY, 1, b"is not looked at", request=2**64 - 1)
    await stage.stranger.expect(EMPTY, 1)


@answers(10, "success")
async def test_stats(stage: Stage) -> None:
    told = await stage.root.ask(10)
    told.expect(success(told.body))
    body = told.body
    process, _, _, memory, total, available = struct.unpack_from("<IffQQQ", body)
    assert process == os.getpid()
    assert 0 < memory < total
    assert available <= total
    run_time, start_time, _, written = struct.unpack_from("<QQQQ", body, 36)
    assert (run_time % 1_000_000, start_time % 1_000_000) == (0, 0)
    assert written >= 0
    # size, streams, topics, partitions, segments, messages, clients, groups
    counts = struct.unpack_from("<QIIIIQII", body, 68)
    assert counts[:6] == (430, 1, 1, 2, 2, 3)
    assert counts[6:] == (await clients(stage), 1)
    at = 108
    texts = []
    for _ in range(5):
        length = int.from_bytes(body[at : at + 4], "little")
        texts.append(body[at + 4 : at + 4 + length].decode())
        at += 4 + length
    assert all(texts)
    numbers = [int(number) for number in texts[4].split(".")[:3]]
    semver, caches, threads = struct.unpack_from("<III", body, at)
    assert semver == numbers[0] * 1_000_000 + numbers[1] * 1_000 + numbers[2]
    assert (caches, threads > 0) == (0, True)
    free, disk = struct.unpack_from("<QQ", body, at + 12)
    assert 0 < free <= disk
    assert at + 12 + 16 == len(body)


async def clients(stage: Stage) -> int:
    """How many connections are listed."""
    return len(addresses(await listed(stage)))


async def listed(stage: Stage) -> bytes:
    told = await stage.root.ask(22)
    told.expect(success(told.body))
    return told.body


def addresses(headers: bytes) -> dict[int, str]:
    """The addresses of clients by their numbers."""
    found = {}
    at = 0
    while at < len(headers):
        (number,) = struct.unpack_from("<I", headers, at)
        (length,) = struct.unpack_from("<I", headers, at + 9)
        found[number] = headers[at + 13 : at + 13 + length].decode()
        at += 13 + length + 4
    return found


@answers(11, "success")
async def test_snapshot(stage: Stage) -> None:
    told = await stage.root.ask(11, snapshot(STORED, TEST_LINE))
    told.expect(success(told.body))
    archive = zipfile.ZipFile(io.BytesIO(told.body))
    assert archive.read("test.txt") == b"test\n"
    told = await stage.root.ask(11, snapshot(DEFLATED, ALL))
    told.expect(success(told.body))
    assert {"process_list.txt", "server_config.txt"} < set(
        zipfile.ZipFile(io.BytesIO(told.body)).namelist()
    )
    told = await stage.root.ask(11, snapshot(STORED))
    told.expect(success(told.body))
    assert zipfile.ZipFile(io.BytesIO(told.body)).namelist() == []


@answers(11, "status 9000")
async def test_one_snapshot_at_a_time(stage: Stage) -> None:
    async with stage.another("iggy", "iggy") as other:
        slow = stage.root.request(11, snapshot(DEFLATED, ALL))
        await stage.root.wire.send(slow)
        await asyncio.sleep(0.005)
        await other.expect(status(9000), 11, snapshot(STORED, TEST_LINE))
        told = await stage.root.answer(11, slow)
        told.expect(success(told.body))


@answers(12, "success")
async def test_cluster_metadata(stage: Stage) -> None:
    for peer in (stage.root, stage.nobody):
        told = await peer.ask(12)
        port = int(stage.server.address.rpartition(":")[2])
        official, trailer = told.body.split(b"WSP1")
        told.expect(success(told.body))
        cluster = official[4 : 4 + official[0]].decode()
        at = 4 + len(cluster) + 4
        node = official[at + 4 : at + 4 + official[at]].decode()
        assert official == (
            long_text(cluster)
            + u32(1)
            + long_text(node)
            + long_text("127.0.0.1")
            + u16(port)
            + u16(0) * 3
            + u8(0)
            + u8(0)
        )
        # Ours, which official clients do not read (spec 09, 2).
        length, cluster_id, epoch, _, count = struct.unpack_from("<I16sQII", trailer)
        assert (length, epoch, count) == (len(trailer) - 4, 1, 1)
        assert cluster_id == UUID(stage.server.cluster_id).bytes


@answers(13, "success")
async def test_options(stage: Stage) -> None:
    told = await stage.nobody.ask(13, u8(1))
    told.expect(success(told.body))
    body = told.body
    assert body[:4] == u32(9)
    at = 4
    found = {}
    while at < len(body):
        key = body[at + 1 : at + 1 + body[at]].decode()
        at += 1 + len(key)
        kind, length = struct.unpack_from("<BI", body, at)
        at += 5
        found[key] = (kind, body[at : at + length])
        at += length
        (length,) = struct.unpack_from("<I", body, at)
        assert length == len(body[at + 4 : at + 4 + length].decode().encode()) > 0
        at += 4 + length
    assert list(found) == [
        "compression_algorithm",
        "message_expiry",
        "max_topic_size",
        "segment_size",
        "durability",
        "consumer_offset_durability",
        "messages_required_to_save",
        "size_of_messages_required_to_save",
        "preallocate_segments",
    ]
    assert found == TOPIC_OPTIONS
    for scope in (2, 3):
        await stage.nobody.expect(success(u32(0)), 13, u8(scope))
    await stage.nobody.expect(success(body), 13, u8(1) + b"more")


@answers(20, "success")
@answers(21, "success")
@answers(22, "success")
async def test_clients(stage: Stage) -> None:
    known = await listed(stage)
    async with stage.another("iggy", "iggy") as other:
        found = addresses(await listed(stage))
        number = max(found)
        address = other.wire.address
        assert found[number] == address
        me = client_header(number, ROOT, address)
        await other.expect(success(me), 20)
        await other.expect(success(me), 21, u32(number))
        await other.expect(success(known + me), 22)
        # As a member of a group.
        assert (await other.ask(604, ident(0) + ident(0) + ident(0))).body == b""
        me = client_header(number, ROOT, address, groups=1)
        membership = u32(0) * 3
        await other.expect(success(me + membership), 20)
        await stage.root.expect(success(me + membership), 21, u32(number))
        await stage.root.expect(success(known + me), 22)


@answers(22, "success")
async def test_who_is_listed(stage: Stage) -> None:
    """From the first request until a logout, and from the next one on (spec 06, 2.1 and 6.6)."""
    known = await listed(stage)
    count = await clients(stage)
    async with stage.another() as other:
        assert await listed(stage) == known
        await other.expect(EMPTY, 1)
        number = max(addresses(await listed(stage)))
        unbound = client_header(number, NOT_LOGGED_IN, other.wire.address)
        assert await listed(stage) == known + unbound
        await stage.root.expect(success(unbound), 21, u32(number))
        await other.log_in("nobody", "secret")
        assert await listed(stage) == known + client_header(number, NOBODY, other.wire.address)
        await other.expect(EMPTY, 39)
        assert await listed(stage) == known
        await stage.root.expect(EMPTY, 21, u32(number))
        assert struct.unpack_from("<I", (await stage.root.ask(10)).body, 100) == (count,)
        await other.expect(EMPTY, 1)
        assert len(addresses(await listed(stage))) == count + 1
    async with asyncio.timeout(30):
        while await listed(stage) != known:
            await asyncio.sleep(0.001)
