"""Answers to sends, polls and flushes, 100 to 102 (spec 02, 3; spec 04, 4 to 6)."""

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from support.bad_bodies import BYTE, CONSUMER, IDENT, NUMBER, PARTITION, STRATEGY, spoiled
from support.by_hand import (
    BALANCED,
    FIRST,
    LAST,
    NEXT,
    OFFSET,
    TIMESTAMP,
    batch,
    by_key,
    ident,
    message,
    name,
    poll,
    polled,
    sealed,
    send,
    single,
    to_partition,
    u8,
    u32,
    u64,
)
from support.exchange import (
    EMPTY,
    Expected,
    Stage,
    answers,
    case,
    open_stage,
    result,
    status,
    success,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

ME = single(7)
HELD = 3
"""Messages that the first partition holds."""


def sent(
    stream: int | str = 0,
    topic: int | str = 0,
    partitioning: bytes = to_partition(1),
    count: int = 2,
    messages: bytes = batch(b"one", b"two"),
) -> bytes:
    return send(stream, topic, partitioning, count, messages)


def damaged(at: int, by: bytes) -> bytes:
    """A send of a batch of two messages some bytes of which are others."""
    whole = bytearray(batch(b"one", b"two"))
    whole[at : at + len(by)] = by
    return sent(messages=bytes(whole))


def with_metadata(metadata: bytes, length: int | None = None) -> bytes:
    size = len(metadata) if length is None else length
    return u32(size) + metadata + batch(b"one", b"two")


SENT = ident(0) + ident(0) + to_partition(1) + u32(2)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(empty_stage: Stage) -> AsyncIterator[Stage]:
    """A stream with a topic of three partitions, one without, and a group; some messages."""
    root = empty_stage.root
    await root.ask(202, name("s"))
    for partitions, title in ((3, "t"), (0, "none")):
        await root.ask(302, ident(0) + u32(partitions) + name(title))
    await root.ask(602, ident(0) + ident(0) + name("g"))
    payloads = [f"message {number}".encode() for number in range(HELD)]
    await root.ask(101, send(0, 0, to_partition(0), HELD, batch(*payloads)))
    yield empty_stage


@pytest.mark.parametrize(
    ("who", "code", "body", "expected"),
    [
        # 100
        *(
            case(title, 100, body, status(3))
            for title, body in spoiled(CONSUMER, IDENT, IDENT, PARTITION, STRATEGY, NUMBER, BYTE)
        ),
        case("before 41", 100, b"", status(3), "nobody"),
        case("no stream", 100, poll(ME, "missing", 0, 0), status(1009)),
        case("no stream of this id", 100, poll(ME, 9, 0, 0), status(1009)),
        case("before 41", 100, poll(ME, 9, 0, 0), status(1009), "nobody"),
        case("no topic", 100, poll(ME, 0, "missing", 0), status(2010)),
        case("before 41", 100, poll(ME, 0, 9, 0), status(2010), "nobody"),
        case("not permitted", 100, poll(ME, 0, 0, 0), status(41), "nobody"),
        case("before 3007", 100, poll(ME, 0, 0, 9), status(41), "nobody"),
        case("no partition", 100, poll(ME, 0, 0, 9), status(3007)),
        case("no partitions at all", 100, poll(ME, 0, "none", None), status(3007)),
        *(
            case(title, 100, poll(ME, 0, 0, *place, **wanted), success(polled(*told)), says="empty")
            for title, place, wanted, told in (
                ("an empty partition", (1,), {}, (1, 0)),
                ("no messages wanted", (0,), {"count": 0}, (0, HELD - 1)),
                ("from the end", (0,), {"strategy": OFFSET, "value": HELD}, (0, HELD - 1)),
                ("far away", (0,), {"strategy": OFFSET, "value": 2**64 - 1}, (0, HELD - 1)),
                ("later", (0,), {"strategy": TIMESTAMP, "value": 2**64 - 1}, (0, HELD - 1)),
            )
        ),
        # 101
        *(
            case(title, 101, body, status(20))
            for title, body in (
                ("nothing", b""),
                ("metadata cut short", sent()[:9]),
                ("metadata longer than the body", u32(2**32 - 1) + sent()[4:]),
                ("metadata of the whole body", u32(len(sent()) - 4) + sent()[4:]),
                ("metadata that end too early", with_metadata(SENT, len(SENT) - 1)),
                ("a stream of an unknown kind", with_metadata(b"\x03" + SENT[1:])),
                ("a partitioning of no kind", with_metadata(SENT[:12] + b"\x00\x00" + u32(2))),
                ("an unknown partitioning", with_metadata(SENT[:12] + b"\x04\x00" + u32(2))),
                ("a turn with a length", with_metadata(SENT[:12] + b"\x01\x01\x00" + u32(2))),
                ("a short partition", with_metadata(SENT[:12] + b"\x02\x03\x01\x00\x00" + u32(2))),
                ("an empty key", with_metadata(SENT[:12] + b"\x03\x00" + u32(2))),
                ("no stream", sent("missing")),
                ("no topic", sent(topic="missing")),
                ("no partition", sent(partitioning=to_partition(3))),
                ("no partitions at all", sent(topic="none", partitioning=BALANCED)),
                ("no partitions for a key", sent(topic="none", partitioning=by_key(b"key"))),
            )
        ),
        case("before 41", 101, b"", status(20), "nobody"),
        case("before 41", 101, sent("missing"), status(20), "nobody"),
        case("before 41", 101, sent(partitioning=to_partition(3)), status(20), "nobody"),
        case("not permitted", 101, sent(), status(41), "nobody"),
        case("before 3", 101, sent(messages=b""), status(41), "nobody"),
        *(
            case(title, 101, body, status(3))
            for title, body in (
                ("another number of messages", sent(count=3)),
                ("no batch", sent(messages=b"")),
                ("no messages", sent(count=0, messages=batch())),
                ("bytes after the batch", sent(messages=batch(b"one", b"two") + b"x")),
                ("a batch cut short", sent()[:-1]),
                ("a batch without its header", sent()[: 4 + len(SENT) + 255]),
                ("a batch shorter than a header", damaged(32, u64(255))),
                ("a huge batch", damaged(32, u64(2**63))),
                ("something reserved", damaged(255, b"\x01")),
                ("a first message that is none", sent(messages=batch(b"one", b"two", first=1))),
            )
        ),
        case("the checksum of the batch", 101, damaged(40, bytes(8)), status(4039)),
        case("the checksum of a message", 101, damaged(256, bytes(8)), status(4027)),
        case("a byte of a message", 101, damaged(256 + 48, b"O"), status(4027)),
        # 102
        case("a valid partition", 102, ident(0) + ident(0) + u32(0) + u8(1), status(5)),
        case("nothing", 102, b"", status(5)),
        case("before 1009", 102, ident(9) + ident(0) + u32(0) + u8(1), status(5)),
        case("before 41", 102, ident(0) + ident(0) + u32(0) + u8(1), status(5), "nobody"),
    ],
)
async def test_what_does_not_succeed(
    stage: Stage, who: str, code: int, body: bytes, expected: Expected
) -> None:
    before = (await stage.root.ask(300, ident(0) + ident(0))).body
    await getattr(stage, who).expect(expected, code, body)
    assert (await stage.root.ask(300, ident(0) + ident(0))).body == before


@pytest_asyncio.fixture(loop_scope="module")
async def topic(stage: Stage) -> AsyncIterator[str]:
    """The name of an empty topic of three partitions."""
    title = stage.new_name()
    await stage.root.ask(302, ident(0) + u32(3) + name(title))
    yield title
    await stage.root.ask(303, ident(0) + ident(title))


def confirmed(partition_id: int, offset: int, topic_id: int = 2) -> Expected:
    return success(u32(1) + u32(0) + u32(topic_id) + u32(partition_id) + u64(offset))


@answers(101, "success")
async def test_send(stage: Stage, topic: str) -> None:
    root = stage.root
    for number, stream in enumerate((0, "s")):
        for partition_id in range(3):
            body = sent(stream, topic, to_partition(partition_id))
            await root.expect(confirmed(partition_id, 2 * number), 101, body)
    turns = itertools.islice(itertools.cycle(range(3)), 4)
    for turn, partition_id in enumerate(turns):
        body = sent(0, topic, BALANCED)
        await root.expect(confirmed(partition_id, 4 + 2 * (turn // 3)), 101, body)
    # XXH32 of the key, modulo the number of partitions (spec 04, 4.3).
    for key, partition_id, offset in (
        (b"user-42", 2, 6),
        (b"a", 0, 8),
        (b"order-1", 2, 8),
        (b"\x01\x00\x00\x00", 2, 10),
    ):
        await root.expect(confirmed(partition_id, offset), 101, sent(0, topic, by_key(key)))
    empty = sent(0, topic, to_partition(1), messages=batch(b"", b""))
    await root.expect(confirmed(1, 6), 101, empty)


@answers(101, "success again")
async def test_a_repeated_send_is_not_carried_out_again(stage: Stage, topic: str) -> None:
    frame = stage.root.request(101, sent(0, topic, to_partition(0)))
    (await stage.root.exchange(101, frame)).expect(confirmed(0, 0))
    for _ in range(2):
        (await stage.root.exchange(101, frame)).expect(success(u32(0)))
    await stage.root.expect(confirmed(0, 2), 101, sent(0, topic, to_partition(0)))
    (await stage.root.exchange(101, frame)).expect(success(u32(0)))


@answers(100, "success")
async def test_poll(stage: Stage, topic: str) -> None:
    """Whole batches as they are stored, parts of others under a new header (spec 04, 5.5)."""
    root = stage.root
    batches = []
    for start in (0, 3):
        frames = [message(f"number {start + index}".encode(), index) for index in range(3)]
        time = await stage.new_time()
        await root.expect(
            confirmed(2, start), 101, sent(0, topic, to_partition(2), 3, sealed(frames))
        )
        batches.append((start, time, frames))

    def part(number: int, first: int = 0, end: int = 3) -> bytes:
        start, time, frames = batches[number]
        return sealed(frames[first:end], partition_id=2, offset=start, time=time)

    later = batches[1][1]
    for wanted, count, records in (
        ({"strategy": FIRST}, 6, part(0) + part(1)),
        ({"strategy": FIRST, "count": 3}, 3, part(0)),
        ({"strategy": FIRST, "count": 2}, 2, part(0, 0, 2)),
        ({"strategy": FIRST, "count": 2**32 - 1}, 6, part(0) + part(1)),
        ({"strategy": OFFSET, "value": 1}, 5, part(0, 1) + part(1)),
        ({"strategy": OFFSET, "value": 2, "count": 2}, 2, part(0, 2) + part(1, 0, 1)),
        ({"strategy": OFFSET, "value": 5}, 1, part(1, 2)),
        ({"strategy": LAST, "count": 4}, 4, part(0, 2) + part(1)),
        ({"strategy": LAST, "count": 100}, 6, part(0) + part(1)),
        ({"strategy": TIMESTAMP}, 6, part(0) + part(1)),
        ({"strategy": TIMESTAMP, "value": later}, 3, part(1)),
        ({"strategy": TIMESTAMP, "value": later - 1, "count": 1}, 1, part(1, 0, 1)),
        ({"strategy": NEXT, "count": 4}, 4, part(0) + part(1, 0, 1)),
    ):
        told = success(polled(2, 5, count, records))
        for stream, commit in ((0, 0), ("s", 0)):
            body = poll(ME, stream, topic, 2, commit=commit, **wanted)
            await root.expect(told, 100, body)
            await root.expect(told, 100, body + b"more")


@answers(100, "success")
async def test_poll_and_store(stage: Stage, topic: str) -> None:
    root = stage.root
    frames = [message(b"a", 0), message(b"b", 1)]
    time = await stage.new_time()
    await root.ask(101, sent(0, topic, to_partition(0), 2, sealed(frames)))

    def part(first: int, end: int) -> Expected:
        record = sealed(frames[first:end], time=time)
        return success(polled(0, 1, end - first, record))

    def stored(offset: int) -> Expected:
        return success(u32(0) + u64(1) + u64(offset))

    where = ME + ident(0) + ident(topic) + b"\x01" + u32(0)
    # Any value but 0 asks for it; without a flag of exactly 1 the partition is 0.
    body = poll(ME, 0, topic, None, strategy=NEXT, count=1, commit=0xFF)
    await root.expect(part(0, 1), 100, body)
    await root.expect(stored(0), 120, where)
    odd_flag = body.replace(b"\x00" + u32(0) + u8(NEXT), b"\x02" + u32(9) + u8(NEXT))
    assert odd_flag != body
    await root.expect(part(1, 2), 100, odd_flag)
    await root.expect(stored(1), 120, where)
    await root.expect(success(polled(0, 1)), 100, body)
    # Never back.
    await root.expect(part(0, 1), 100, poll(ME, 0, topic, 0, count=1, commit=1))
    await root.expect(stored(1), 120, where)


@answers(100, "status 3024")
@answers(104, "status 3024")
async def test_too_many_consumers(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {"limits": {"max_consumer_offsets": 2}}) as stage:
        root = stage.root
        await root.ask(202, name("s"))
        await root.ask(302, ident(0) + u32(1) + name("t"))
        time = await stage.new_time()
        await root.ask(101, sent(partitioning=to_partition(0), count=1, messages=batch(b"x")))
        told = success(polled(0, 0, 1, sealed([message(b"x")], time=time)))
        for number in (1, 2, 1):
            await root.expect(told, 100, poll(single(number), 0, 0, 0, commit=1))
        await root.expect(status(3024), 100, poll(single(3), 0, 0, 0, commit=1))
        await root.expect(told, 100, poll(single(3), 0, 0, 0))
        await root.expect(EMPTY, 14, root.client + u64(root.session) + u64(0))
        await root.expect(told, 104, poll(single(1), 0, 0, 0, commit=1))
        await root.expect(status(3024), 104, poll(single(3), 0, 0, 0, commit=1))


@answers(101, "eviction 1")
async def test_the_account_of_a_stranger(stage: Stage) -> None:
    before = (await stage.root.ask(300, ident(0) + ident(0))).body
    assert (await stage.stranger.ask(101, sent(), session=1)).answer[255] == 1
    assert (await stage.root.ask(300, ident(0) + ident(0))).body == before
    await stage.root.expect(result(2013), 302, ident(0) + u32(1) + name("t"))
    await stage.root.expect(EMPTY, 31, ident("missing"))
