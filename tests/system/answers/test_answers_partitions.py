"""Answers about partitions and segments, 402, 403 and 503 (spec 02, 3; spec 03, 4.13 to 4.15)."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from support.bad_bodies import IDENT, NUMBER, spoiled
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
MISSING = ident("missing")
S, T = ident(0), ident(0)
SEGMENTS = option("segment_size", 12, u64(MIB))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(empty_stage: Stage) -> AsyncIterator[Stage]:
    """The stream 0 with the topic 0 of two partitions, the first of three segments."""
    root = empty_stage.root
    await root.ask(202, name("s"))
    await root.ask(302, S + u32(2) + name("t") + SEGMENTS)
    for _ in range(2):
        await root.ask(101, send(0, 0, to_partition(0), 1, batch(bytes(MIB))))
    yield empty_stage


@pytest.mark.parametrize(
    ("who", "code", "body", "expected"),
    [
        *(
            case(title, code, body, status(3))
            for code, fields in (
                (402, [IDENT, IDENT, NUMBER]),
                (403, [IDENT, IDENT, NUMBER]),
                (503, [IDENT, IDENT, NUMBER, NUMBER]),
            )
            for title, body in spoiled(*fields)
        ),
        *(
            row
            for code in (402, 403)
            for row in (
                case("none", code, S + T + u32(0), status(2015)),
                case("too many", code, S + T + u32(1001), status(2015)),
                case("before 1009", code, MISSING + T + u32(0), status(2015)),
                case("before 41", code, S + T + u32(1001), status(2015), "nobody"),
                case("no stream", code, MISSING + T + u32(1), result(1009)),
                case("no topic", code, S + MISSING + u32(1), result(2010)),
                case("before 41", code, MISSING + T + u32(1), result(1009), "nobody"),
                case("before 41", code, S + MISSING + u32(1), result(2010), "nobody"),
                case("not permitted", code, S + T + u32(1), result(41), "nobody"),
            )
        ),
        case("more than there are", 403, S + T + u32(3), result(2019)),
        case("before 2019", 403, S + T + u32(3), result(41), "nobody"),
        case("no stream", 503, MISSING + T + u32(0) + u32(1), result(1009)),
        case("no topic", 503, S + MISSING + u32(0) + u32(1), result(2010)),
        case("before 41", 503, MISSING + T + u32(0) + u32(1), result(1009), "nobody"),
        case("before 41", 503, S + MISSING + u32(0) + u32(1), result(2010), "nobody"),
        case("not permitted", 503, S + T + u32(0) + u32(1), result(41), "nobody"),
        case("before 3007", 503, S + T + u32(2) + u32(1), result(41), "nobody"),
        case("no partition", 503, S + T + u32(2) + u32(1), result(3007)),
    ],
)
async def test_what_does_not_succeed(
    stage: Stage, who: str, code: int, body: bytes, expected: Expected
) -> None:
    before = (await stage.root.ask(300, S + T)).body
    await getattr(stage, who).expect(expected, code, body)
    assert (await stage.root.ask(300, S + T)).body == before


@answers(402, "success")
@answers(403, "success")
async def test_add_and_remove(stage: Stage) -> None:
    root, topic = stage.root, S + ident("u")
    await stage.new_time()
    time = stage.time_of(await root.ask(302, S + u32(0) + name("u")))
    header = topic_header(1, time, "u", 0, derived=derived_options())
    first = await stage.new_time()
    await root.expect(EMPTY, 402, topic + u32(1))
    second = await stage.new_time()
    await root.expect(EMPTY, 402, topic + u32(2))
    header = topic_header(1, time, "u", 3, derived=derived_options())
    entries = [(0, first), (1, second), (2, second)]
    told = b"".join(partition_entry(*entry) for entry in entries)
    await root.expect(success(header + told), 300, topic)
    await root.expect(EMPTY, 403, topic + u32(2))
    header = topic_header(1, time, "u", 1, derived=derived_options())
    await root.expect(success(header + partition_entry(0, first)), 300, topic)
    await root.expect(EMPTY, 403, topic + u32(1))
    header = topic_header(1, time, "u", 0, derived=derived_options())
    await root.expect(success(header), 300, topic)
    await root.expect(result(2019), 403, topic + u32(1))
    for _ in range(2):
        await root.expect(EMPTY, 402, topic + u32(1000))
    await root.expect(EMPTY, 403, topic + u32(1000))
    await root.expect(EMPTY, 303, topic)


@answers(503, "success")
async def test_remove_segments(stage: Stage) -> None:
    await stage.new_time()
    time = stage.time_of(await stage.root.ask(302, S + u32(1) + name("u") + SEGMENTS))
    topic, size = S + ident("u"), 256 + 48 + MIB
    await stage.root.expect(EMPTY, 503, topic + u32(0) + u32(0xFFFFFFFF))  # nothing to remove
    for _ in range(3):
        await stage.root.ask(101, send(0, "u", to_partition(0), 1, batch(bytes(MIB))))
    for asked, left in ((0, 3), (1, 2), (0xFFFFFFFF, 0), (1, 0)):
        await stage.root.expect(EMPTY, 503, topic + u32(0) + u32(asked))
        header = topic_header(
            1,
            time,
            "u",
            1,
            size=left * size,
            messages=left,
            explicit=SEGMENTS,
            derived=derived_options("segment_size"),
        )
        entry = partition_entry(
            0, time, segments=left + 1, offset=2, size=left * size, messages=left
        )
        await stage.root.expect(success(header + entry), 300, topic)
    await stage.root.expect(EMPTY, 303, topic)
