"""Answers about going to the primary of a partition, 14, 103, 104 and 123 (spec 01, 8.4)."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from support.bad_bodies import (
    BYTE,
    CONSUMER,
    IDENT,
    LONG_NUMBER,
    NUMBER,
    PARTITION,
    STRATEGY,
    Field,
    spoiled,
)
from support.by_hand import (
    NEXT,
    batch,
    flags,
    group,
    ident,
    long_text,
    message,
    name,
    partition,
    poll,
    polled,
    sealed,
    send,
    single,
    to_partition,
    u8,
    u16,
    u32,
    u64,
)
from support.exchange import EMPTY, Expected, Peer, Stage, answers, case, status, success

pytestmark = pytest.mark.asyncio(loop_scope="module")

ME, HELD = single(7), 3
S, T, G = ident(0), ident(0), ident(0)
ASK_AGAIN = success(polled(0xFFFFFFFF, 0))
NO_MESSAGES = success(polled(1, 0))
CLIENT = Field("client", bytes(16), {})


def attachment(peer: Peer, watermark: int = 0, session: int | None = None) -> bytes:
    return peer.client + u64(peer.session if session is None else session) + u64(watermark)


def where(
    consumer: bytes = ME,
    stream: int | str = 0,
    topic: int | str = 0,
    partition_id: int | None = 0,
) -> bytes:
    return consumer + ident(stream) + ident(topic) + partition(partition_id)


def committing(
    consumer: bytes = ME,
    stream: int | str = 0,
    topic: int | str = 0,
    partition_id: int | None = 0,
) -> bytes:
    return poll(consumer, stream, topic, partition_id, strategy=NEXT, count=1, commit=1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(empty_stage: Stage) -> AsyncIterator[Stage]:
    """A topic of two partitions with three messages and a group, and one who may poll it."""
    root = empty_stage.root
    await root.ask(202, name("s"))
    await root.ask(302, S + u32(2) + name("t"))
    await root.ask(602, S + T + name("g"))
    await root.ask(101, send(0, 0, to_partition(0), HELD, batch(*(b"x",) * HELD)))
    yield empty_stage


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def data(stage: Stage) -> AsyncIterator[Peer]:
    """A second connection of root, attached to the first one."""
    async with stage.another("iggy", "iggy") as peer:
        await peer.expect(EMPTY, 14, attachment(stage.root))
        yield peer


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def powerless(stage: Stage) -> AsyncIterator[Peer]:
    """A second connection of the user without permissions, attached to the first one."""
    async with stage.another("nobody") as peer:
        await peer.expect(EMPTY, 14, attachment(stage.nobody))
        yield peer


POLL_BODY = (CONSUMER, IDENT, IDENT, PARTITION, STRATEGY, NUMBER, BYTE)
MISSES = [
    row
    for code, body in ((103, committing), (104, committing), (123, where))
    for row in (
        case("no stream", code, body(stream="missing"), status(1009)),
        case("no topic", code, body(topic="missing"), status(2010)),
        case("before 41", code, body(stream=9), status(1009), "nobody"),
        case("before 41", code, body(topic=9), status(2010), "nobody"),
        case("not permitted", code, body(), status(41), "nobody"),
        case("before 3007", code, body(partition_id=9), status(41), "nobody"),
        case("no partition", code, body(partition_id=2), status(3007)),
        case("a group", code, body(group(0), partition_id=None), status(6)),
    )
]


@pytest.mark.parametrize(
    ("who", "code", "body", "expected"),
    [
        *(
            case(title, code, body, status(3))
            for code, fields in (
                (14, [CLIENT, LONG_NUMBER, LONG_NUMBER]),
                (103, POLL_BODY),
                (104, POLL_BODY),
                (123, [CONSUMER, IDENT, IDENT, PARTITION]),
            )
            for title, body in spoiled(*fields)
        ),
        *(case("before 41", code, b"", status(3), "nobody") for code in (14, 103, 104, 123)),
        case("a poll that does not commit", 103, poll(ME, 0, 0, 0), status(3)),
        case("before 1009", 103, poll(ME, "missing", 0, 0), status(3)),
        *MISSES,
        *(
            row
            for code, body in ((103, committing), (123, where))
            for row in (
                case("before 1009", code, body(group(0), 9, 0, None), status(6)),
                case("no stream for a group", code, body(group(0), 9), status(1009)),
                case(
                    "no partition for a group", code, body(group(0), partition_id=9), status(3007)
                ),
                case("no group", code, body(group("missing")), status(5009)),
                case("no member", code, body(group(0)), status(5009)),
            )
        ),
        *(
            case(title, 104, committing(*target), ASK_AGAIN, says="sentinel")
            for title, target in (
                ("no stream", (group(0), "missing")),
                ("no topic", (group(0), 0, "missing")),
                ("no group", (group("missing"),)),
                ("no partition", (group(0), 0, 0, 9)),
                ("no member", (group(0),)),
            )
        ),
        case("an empty partition", 104, committing(partition_id=1), NO_MESSAGES, says="empty"),
        case("no such session", 14, bytes(15) + b"\x09" + u64(1) + u64(0), status(30)),
        case("no session at all", 14, bytes(32), status(30)),
    ],
)
async def test_what_does_not_succeed(
    stage: Stage, data: Peer, powerless: Peer, who: str, code: int, body: bytes, expected: Expected
) -> None:
    attached = {"root": data, "nobody": powerless}[who]
    peer = attached if code == 104 else getattr(stage, who)
    await peer.expect(expected, code, body)


@answers(14, "success", "status 30", "status 58")
async def test_attach(stage: Stage) -> None:
    async with stage.another("iggy", "iggy") as peer:
        root = stage.root
        await peer.expect(status(30), 14, attachment(root, session=root.session + 1))
        await peer.expect(status(30), 14, attachment(root, session=root.session - 1))
        await peer.expect(status(30), 14, attachment(stage.nobody))  # of another user
        await peer.expect(status(58), 14, attachment(root, watermark=2**64 - 1))
        await peer.expect(status(58), 14, attachment(root, watermark=stage.commit + 1000))
        await peer.expect(EMPTY, 14, attachment(root, watermark=stage.commit) + b"more")
        await peer.expect(EMPTY, 14, attachment(root))
        await peer.expect(EMPTY, 14, attachment(peer))


@answers(103, "success")
@answers(123, "success")
async def test_routes(stage: Stage) -> None:
    metadata = (await stage.root.ask(12)).body
    port = int(stage.server.address.rpartition(":")[2])
    cluster_name = metadata[4 : 4 + metadata[0]].decode()
    start = len(long_text(cluster_name)) + 4
    node_name = metadata[start + 4 : start + 4 + metadata[start]].decode()
    node = long_text(node_name) + long_text("127.0.0.1") + u16(port) + u16(0) * 3 + u8(0) * 2
    assert node in metadata
    for code, body in (
        (103, committing()),
        (103, committing(partition_id=None)),
        (103, poll(ME, "s", "t", 1, commit=0xFF) + b"more"),
        (123, where()),
        (123, where(partition_id=None)),
        (123, where(ME, "s", "t", 1) + b"more"),
    ):
        told = await stage.root.ask(code, body)
        watermark = int.from_bytes(told.body[24:32], "little")
        assert watermark == told.commit >= stage.commit
        told.expect(success(attachment(stage.root, watermark) + node))
    assert (await stage.root.ask(604, S + T + G)).body == b""
    for code, body in ((103, committing(group(0))), (123, where(group("g")))):
        told = await stage.root.ask(code, body)
        told.expect(success(attachment(stage.root, told.commit) + node))
    await stage.root.expect(EMPTY, 605, S + T + G)


@answers(104, "success", "status 40")
@answers(121, "success")
@answers(122, "success")
async def test_acting_for_another_session(stage: Stage) -> None:
    """Polls and writes of offsets are those of the session that was shown (spec 01, 2.1)."""
    time = await stage.new_time()
    title = stage.new_name()
    await stage.root.ask(302, S + u32(1) + name(title))
    await stage.root.ask(602, S + ident(title) + name("g"))
    frames = [message(b"a", 0), message(b"b", 1)]
    await stage.root.ask(101, send(0, title, to_partition(0), 2, sealed(frames)))
    permissions = flags(10, 8) + b"\x00"
    await stage.root.ask(36, ident("nobody") + b"\x01" + u32(len(permissions)) + permissions)
    async with stage.another("iggy", "iggy") as member, stage.another("iggy", "iggy") as peer:
        await member.expect(EMPTY, 604, S + ident(title) + G)
        body = poll(group(0), 0, title, 0, strategy=NEXT, count=1, commit=1)
        await peer.expect(status(40), 104, body)
        await peer.expect(status(40), 104, committing(stream="missing"))
        await peer.expect(ASK_AGAIN, 100, body)
        await peer.expect(EMPTY, 14, attachment(member))
        for index in range(2):
            record = sealed([frames[index]], time=time)
            await peer.expect(success(polled(0, 1, 1, record)), 104, body + b"more")
        target = where(group(0), 0, title, 0)
        await peer.expect(success(u32(0) + u64(1) + u64(1)), 120, target)
        await peer.expect(EMPTY, 121, target + u64(0) + u8(1))
        await peer.expect(success(u32(0) + u64(1) + u64(0)), 120, target)
        await peer.expect(EMPTY, 122, target + u8(1))
        await member.expect(EMPTY, 39)
        await peer.expect(status(40), 104, body)
        await peer.expect(status(30), 14, attachment(member))
    await stage.root.ask(36, ident("nobody") + b"\x00")
    await stage.root.expect(EMPTY, 303, S + ident(title))
