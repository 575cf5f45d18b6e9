"""Answers to the commands of topics, 300 to 305 (spec 02, 3; spec 03, 4.7 to 4.12)."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from support.bad_bodies import IDENT, NAME, NUMBER, OPTIONS, spoiled
from support.by_hand import (
    batch,
    derived_options,
    ident,
    name,
    option,
    partition_entry,
    send,
    to_partition,
    topic_header,
    u32,
    u64,
)
from support.exchange import EMPTY, Expected, Stage, answers, case, result, status, success

pytestmark = pytest.mark.asyncio(loop_scope="module")

MIB = 1 << 20
GIB = 1 << 30
MISSING = ident("missing")
S, T = ident(0), ident(0)
UNKNOWN = option("colour", 2, b"red")
GZIP = option("compression_algorithm", 2, b"gzip")
FORMER_KEY = option("enforce_fsync", 3, b"\x01")
BAD_VALUE = option("compression_algorithm", 2, b"zip")
SMALL_TOPIC = option("max_topic_size", 12, u64(MIB))
PREALLOCATED = option("preallocate_segments", 3, b"\x01")


def segment_size(size: int) -> bytes:
    return option("segment_size", 12, u64(size))


def create(stream: bytes = S, partitions: int = 1, title: str = "x", options: bytes = b"") -> bytes:
    return stream + u32(partitions) + name(title) + options


def update(topic: bytes = S + T, title: str = "x", options: bytes = b"") -> bytes:
    return topic + name(title) + options


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(empty_stage: Stage) -> AsyncIterator[Stage]:
    """The stream 0 with the topics 0, `kept`, of two partitions, and 1, `other`; the stream 1."""
    for title in ("s", "empty"):
        await empty_stage.root.ask(202, name(title))
    await empty_stage.root.ask(302, create(S, 2, "kept", segment_size(2 * MIB)))
    await empty_stage.root.ask(302, create(S, 1, "other"))
    yield empty_stage


@pytest.mark.parametrize(
    ("who", "code", "body", "expected"),
    [
        *(
            case(title, code, body, status(3))
            for code, fields in (
                (300, [IDENT, IDENT]),
                (301, [IDENT]),
                (302, [IDENT, NUMBER, NAME, OPTIONS]),
                (303, [IDENT, IDENT]),
                (304, [IDENT, IDENT, NAME, OPTIONS]),
                (305, [IDENT, IDENT]),
            )
            for title, body in spoiled(*fields)
        ),
        case("before 41", 300, S, status(3), "nobody"),
        case("before 41", 301, b"", status(3), "nobody"),
        # 300
        case("no stream", 300, MISSING + T, EMPTY, says="empty"),
        case("no topic", 300, S + MISSING, EMPTY, says="empty"),
        case("no topic of this id", 300, S + ident(9), EMPTY, says="empty"),
        case("before 41", 300, S + MISSING, EMPTY, "nobody", says="empty"),
        case("not permitted", 300, S + T, status(41), "nobody"),
        # 301
        case("no stream", 301, MISSING, success(u32(0)), says="empty"),
        case("before 41", 301, MISSING, success(u32(0)), "nobody", says="empty"),
        case("no topics", 301, ident("empty"), success(u32(0)), says="empty"),
        case("not permitted", 301, S, status(41), "nobody"),
        # 302
        case("an unknown key", 302, create(options=UNKNOWN), status(4041)),
        case("a field", 302, create(options=option("partitions_count", 11, u32(1))), status(4041)),
        case(
            "a former key", 302, create(options=option("enforce_fsync", 3, b"\x01")), status(4041)
        ),
        case("it came first", 302, create(options=UNKNOWN + BAD_VALUE), status(4041)),
        case("it came first", 302, create(options=BAD_VALUE + UNKNOWN), status(4042)),
        case("an unknown value", 302, create(options=BAD_VALUE), status(4042)),
        case("a kind", 302, create(options=option("segment_size", 11, u32(MIB))), status(4042)),
        case("a length", 302, create(options=option("segment_size", 12, u32(MIB))), status(4042)),
        case("too small", 302, create(options=segment_size(MIB - 512)), status(4042)),
        case("too large", 302, create(options=segment_size(GIB + 512)), status(4042)),
        case("no multiple of 512", 302, create(options=segment_size(MIB + 1)), status(4042)),
        case("above 64 GiB", 302, create(partitions=65, options=PREALLOCATED), status(4042)),
        case("before 2015", 302, create(partitions=1001, options=PREALLOCATED), status(4042)),
        case("too many", 302, create(partitions=1001), status(2015)),
        case("before 1019", 302, create(partitions=1001, options=SMALL_TOPIC), status(2015)),
        case("before 1009", 302, create(MISSING, 1001), status(2015)),
        case("before 41", 302, create(partitions=1001), status(2015), "nobody"),
        case("less than a segment", 302, create(options=SMALL_TOPIC), status(1019)),
        case("before 1009", 302, create(MISSING, options=SMALL_TOPIC), status(1019)),
        case("no stream", 302, create(MISSING), result(1009)),
        case("before 41", 302, create(MISSING), result(1009), "nobody"),
        case("not permitted", 302, create(), result(41), "nobody"),
        case("before 2013", 302, create(title="kept"), result(41), "nobody"),
        case("the name is taken", 302, create(title="kept"), result(2013)),
        # 303, 305
        *(
            row
            for code in (303, 305)
            for row in (
                case("no stream", code, MISSING + T, result(1009)),
                case("no topic", code, S + MISSING, result(2010)),
                case("before 41", code, MISSING + T, result(1009), "nobody"),
                case("before 41", code, S + MISSING, result(2010), "nobody"),
                case("not permitted", code, S + T, result(41), "nobody"),
            )
        ),
        # 304
        case("an unknown key", 304, update(options=UNKNOWN), status(4041)),
        case("a key of creation", 304, update(options=segment_size(MIB)), status(4041)),
        case("keys come first", 304, update(options=BAD_VALUE + UNKNOWN), status(4041)),
        case("an unknown value", 304, update(options=BAD_VALUE), status(4042)),
        case("before 1009", 304, update(MISSING + T, options=BAD_VALUE), status(4042)),
        case("before 41", 304, update(options=BAD_VALUE), status(4042), "nobody"),
        case("less than its segment", 304, update(options=SMALL_TOPIC), status(1019)),
        case("less than 1 GiB", 304, update(S + MISSING, options=SMALL_TOPIC), status(1019)),
        case("no stream", 304, update(MISSING + T), result(1009)),
        case("no topic", 304, update(S + MISSING), result(2010)),
        case("before 41", 304, update(MISSING + T), result(1009), "nobody"),
        case("before 41", 304, update(S + MISSING), result(2010), "nobody"),
        case("not permitted", 304, update(), result(41), "nobody"),
        case("before 2013", 304, update(title="other"), result(41), "nobody"),
        case("the name is taken", 304, update(title="other"), result(2013)),
    ],
)
async def test_what_does_not_succeed(
    stage: Stage, who: str, code: int, body: bytes, expected: Expected
) -> None:
    before = (await stage.root.ask(200, S)).body
    await getattr(stage, who).expect(expected, code, body)
    assert (await stage.root.ask(200, S)).body == before


@answers(302, "success")
@answers(303, "success")
@pytest.mark.parametrize("partitions", [0, 1, 3, 1000])
async def test_create_and_delete(stage: Stage, partitions: int) -> None:
    await stage.new_time()
    created = await stage.root.ask(302, create(S, partitions, "new"))
    time = stage.time_of(created)
    header = topic_header(2, time, "new", partitions, derived=derived_options())
    # In this reply, and only there, no segments are counted (spec 03, 3.6).
    entries = [partition_entry(number, time, segments=0) for number in range(partitions)]
    created.expect(success(header + b"".join(entries)))
    await stage.root.expect(EMPTY, 303, S + ident("new"))
    await stage.root.expect(EMPTY, 300, S + ident("new"))


@answers(302, "success")
@answers(300, "success")
@answers(301, "success")
async def test_the_worked_example_of_options(stage: Stage) -> None:
    week = u64(7 * 86_400 * 1_000_000)
    durability = option("durability", 2, b"persisted")
    of_offsets = option("consumer_offset_durability", 2, b"replicated")
    expiry = option("message_expiry", 12, week)
    text = option("segment_size", 2, b"128 MiB")
    await stage.new_time()
    sent = create(ident("empty"), 2, "events", of_offsets + durability + expiry + text)
    created = await stage.root.ask(302, sent)
    time = stage.time_of(created)
    chosen = ("consumer_offset_durability", "durability", "message_expiry", "segment_size")
    header = topic_header(
        0,
        time,
        "events",
        2,
        expiry=int.from_bytes(week, "little"),
        explicit=of_offsets + durability + expiry + segment_size(128 * MIB),
        derived=derived_options(*chosen),
    )
    assert len(header) == 473 - 4 - 2 * 40
    entries = partition_entry(0, time, segments=0) + partition_entry(1, time, segments=0)
    created.expect(success(header + entries))
    entries = partition_entry(0, time) + partition_entry(1, time)
    await stage.root.expect(success(header + entries), 300, ident("empty") + ident("events"))
    await stage.root.expect(success(u32(1) + header), 301, ident("empty"))
    await stage.root.expect(EMPTY, 303, ident("empty") + T)


@answers(300, "success")
@answers(301, "success")
async def test_what_is_told_of_messages(stage: Stage) -> None:
    await stage.new_time()
    time = stage.time_of(await stage.root.ask(302, create(ident(1), 2, "t")))
    payloads = (b"0123456789",) * 3
    await stage.root.ask(101, send(1, 0, to_partition(1), 3, batch(*payloads)))
    header = topic_header(0, time, "t", 2, size=430, messages=3, derived=derived_options())
    entries = partition_entry(0, time) + partition_entry(1, time, offset=2, size=430, messages=3)
    for topic in (ident(0), ident("t")):
        await stage.root.expect(success(header + entries), 300, ident(1) + topic)
    await stage.root.expect(success(u32(1) + header), 301, ident("empty"))
    await stage.new_time()
    at = stage.time_of(await stage.root.ask(302, create(ident(1), 0, "u")))
    second = topic_header(1, at, "u", 0, derived=derived_options())
    await stage.root.expect(success(second), 300, ident(1) + ident(1))
    await stage.root.expect(success(u32(2) + header + second), 301, ident(1))
    await stage.root.ask(303, ident(1) + ident(1))
    await stage.root.ask(303, ident(1) + ident(0))


@answers(304, "success")
async def test_update(stage: Stage) -> None:
    await stage.new_time()
    time = stage.time_of(await stage.root.ask(302, create(ident(1), 0, "t")))
    topic = ident(1) + ident(0)
    await stage.root.expect(EMPTY, 304, update(topic, "u"))
    header = topic_header(0, time, "u", 0, derived=derived_options())
    await stage.root.expect(success(header), 300, topic)
    expiry = option("message_expiry", 12, u64(3_600_000_000))
    await stage.root.expect(EMPTY, 304, update(topic, "u", expiry + GZIP))
    header = topic_header(
        0,
        time,
        "u",
        0,
        expiry=3_600_000_000,
        compression=2,
        explicit=GZIP + expiry,
        derived=derived_options("compression_algorithm", "message_expiry"),
    )
    await stage.root.expect(success(header), 300, topic)
    # What is not sent is kept.
    await stage.root.expect(EMPTY, 304, update(topic, "u"))
    await stage.root.expect(success(header), 300, topic)
    await stage.root.ask(303, topic)


@answers(305, "success")
async def test_purge(stage: Stage) -> None:
    await stage.new_time()
    time = stage.time_of(await stage.root.ask(302, create(ident(1), 2, "t")))
    topic = ident(1) + ident(0)
    header = topic_header(0, time, "t", 2, derived=derived_options())
    entries = partition_entry(0, time) + partition_entry(1, time)
    for _ in range(2):
        await stage.root.ask(101, send(1, 0, to_partition(1), 1, batch(b"x")))
        await stage.root.expect(EMPTY, 305, topic)
        await stage.root.expect(success(header + entries), 300, topic)
    await stage.root.ask(303, topic)


@answers(302, "result 2021")
async def test_a_stream_has_4096_topics(stage: Stage) -> None:
    await stage.root.ask(202, name("full"))

    async def fill(numbers: range) -> None:
        async with stage.another("nobody") as peer:
            requests = [
                peer.request(302, create(ident(2), 0, f"topic {number}")) for number in numbers
            ]
            await peer.wire.send(b"".join(requests))
            for request in requests:
                assert (await peer.answer(302, request)).answer[256:260] == bytes(4)

    permissions = b"\x01" + u32(11) + bytes([0, 0, 0, 0, 0, 0, 1, 0, 0, 0]) + b"\x00"
    await stage.root.expect(EMPTY, 36, ident("nobody") + permissions)
    await asyncio.gather(*(fill(range(start, start + 128)) for start in range(0, 4096, 128)))
    await stage.root.expect(EMPTY, 36, ident("nobody") + b"\x00")
    await stage.root.expect(result(2021), 302, create(ident(2), 0, "one more"))
    await stage.root.expect(result(2013), 302, create(ident(2), 0, "topic 7"))
    await stage.root.expect(EMPTY, 203, ident(2))
