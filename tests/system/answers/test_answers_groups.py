"""Answers about consumer groups, 600 to 606, their polls and offsets (spec 02, 3; spec 05)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from support.bad_bodies import IDENT, NAME, spoiled
from support.by_hand import (
    NEXT,
    batch,
    flags,
    group,
    group_header,
    ident,
    member,
    message,
    name,
    partition,
    poll,
    polled,
    sealed,
    send,
    to_partition,
    u8,
    u32,
    u64,
)
from support.exchange import (
    EMPTY,
    Expected,
    Peer,
    Stage,
    answers,
    case,
    eviction,
    open_stage,
    result,
    status,
    success,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

MISSING = ident("missing")
S, T, G = ident(0), ident(0), ident(0)
ASK_AGAIN = success(polled(0xFFFFFFFF, 0))
HELD = 3
"""Messages that the first partition holds; the second is empty."""


def where(
    identifier: int | str = 0,
    stream: int | str = 0,
    topic: int | str = 0,
    partition_id: int | None = 0,
) -> bytes:
    return group(identifier) + ident(stream) + ident(topic) + partition(partition_id)


def store(target: bytes, offset: int = 0) -> bytes:
    return target + u64(offset) + u8(1)


def delete(target: bytes) -> bytes:
    return target + u8(1)


async def fill(stage: Stage) -> None:
    root = stage.root
    await root.ask(202, name("s"))
    for title in ("t", "empty"):
        await root.ask(302, S + u32(2) + name(title))
    await root.ask(602, S + T + name("kept"))
    await root.ask(101, send(0, 0, to_partition(0), HELD, batch(*(b"x",) * HELD)))
    # One who may poll, so that more than root can be a member.
    reader = name("reader") + name("secret") + b"\x01\x01"
    permissions = flags(10, 7) + b"\x00"
    await root.ask(33, reader + u32(len(permissions)) + permissions)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(empty_stage: Stage) -> AsyncIterator[Stage]:
    """A stream with the topics 0 and 1; on the first one three messages and a group, `kept`."""
    await fill(empty_stage)
    yield empty_stage


def of_one_topic() -> Iterator[Any]:
    """What all commands but 606 answer to a stream or topic that is missing, or not theirs."""
    for code, told in ((600, status), (601, status), *((code, result) for code in range(602, 606))):
        end = {601: b"", 602: name("new")}.get(code, G)
        missing = {601: b"", 602: name("kept")}.get(code, MISSING)
        yield case("no stream", code, MISSING + T + end, told(1009))
        yield case("no topic", code, S + MISSING + end, told(2010))
        yield case("before 41", code, ident(9) + T + end, told(1009), "nobody")
        yield case("before 41", code, S + ident(9) + end, told(2010), "nobody")
        yield case("not permitted", code, S + T + end, told(41), "nobody")
        yield case("before anything else", code, S + T + missing, told(41), "nobody")


@pytest.mark.parametrize(
    ("who", "code", "body", "expected"),
    [
        *(
            case(title, code, body, status(3))
            for code, fields in (
                (600, [IDENT, IDENT, IDENT]),
                (601, [IDENT, IDENT]),
                (602, [IDENT, IDENT, NAME]),
                (603, [IDENT, IDENT, IDENT]),
                (604, [IDENT, IDENT, IDENT]),
                (605, [IDENT, IDENT, IDENT]),
            )
            for title, body in spoiled(*fields)
        ),
        *(case("before 41", code, b"", status(3), "nobody") for code in range(600, 606)),
        *of_one_topic(),
        case("by its name", 600, S + T + MISSING, EMPTY, says="empty"),
        case("by its id", 600, S + T + ident(9), EMPTY, says="empty"),
        case("digits are a name", 600, S + T + ident("0"), EMPTY, says="empty"),
        case("no groups", 601, S + ident("empty"), EMPTY, says="empty"),
        case("the name is taken", 602, S + T + name("kept"), result(5004)),
        *(
            row
            for code in (603, 604, 605)
            for row in (
                case("by its name", code, S + T + MISSING, result(5000)),
                case("by its id", code, S + T + ident(9), result(5000)),
            )
        ),
        case("no member", 605, S + T + G, result(5006)),
        case("no stream", 606, MISSING + T + G, EMPTY, says="empty"),
        case("no topic", 606, S + MISSING + G, EMPTY, says="empty"),
        case("no group", 606, S + T + MISSING, EMPTY, says="empty"),
        case("no member", 606, S + T + G, EMPTY, says="empty"),
        case("whoever asks", 606, S + T + G, EMPTY, "nobody", says="empty"),
        *(
            case(title, 606, body, EMPTY, says="empty")
            for title, body in spoiled(IDENT, IDENT, IDENT)
        ),
        # Polls
        case("a group", 100, poll(group(0), 0, 0, None), status(6)),
        case("before the rest", 100, poll(group("missing"), 9, 9, None), status(6)),
        case("before 6", 100, poll(group(0), 0, 0, None), status(41), "nobody"),
        case("a group", 100, poll(group(0), 0, 0, 0), status(41), "nobody"),
        *(
            case(title, 100, poll(*target), ASK_AGAIN, who, says="sentinel")
            for title, target, who in (
                ("no stream", (group(0), "missing", 0, 0), "root"),
                ("no topic", (group(0), 0, "missing", 0), "root"),
                ("no group", (group("missing"), 0, 0, 0), "root"),
                ("no partition", (group(0), 0, 0, 9), "root"),
                ("no member", (group(0), 0, 0, 0), "root"),
                ("no stream, no permission", (group(0), "missing", 0, 0), "nobody"),
                ("no topic, no permission", (group(0), 0, "missing", 0), "nobody"),
            )
        ),
        # Offsets
        case("a group, no stream", 120, where(0, "missing"), status(1009)),
        case("a group, no topic", 120, where(0, 0, "missing"), status(2010)),
        case("a group, no partition", 120, where(partition_id=9), status(3007)),
        case("before emptiness", 120, where("missing", partition_id=9), status(3007)),
        case("a group", 120, where(), status(41), "nobody"),
        case("no group", 120, where("missing"), EMPTY, says="empty"),
        case("a group that stored nothing", 120, where(), EMPTY, says="empty"),
        *(
            row
            for code, request in ((121, store), (122, delete))
            for row in (
                case("a group", code, request(where(partition_id=None)), status(6)),
                case("before 20", code, request(where(0, 9, 9, None)), status(6)),
                case("no stream", code, request(where(0, "missing")), status(20)),
                case("no topic", code, request(where(0, 0, "missing")), status(20)),
                case("by its number", code, request(where(9)), status(5000)),
                case("by its name", code, request(where("missing")), status(5003)),
                case("no member", code, request(where()), status(5009)),
                case("no partition", code, request(where(partition_id=9)), status(5009)),
                case("before 41", code, request(where(0, 9)), status(20), "nobody"),
                case("before 41", code, request(where(9)), status(5000), "nobody"),
                case("before 41", code, request(where("missing")), status(5003), "nobody"),
                case("before 41", code, request(where()), status(5009), "nobody"),
            )
        ),
    ],
)
async def test_what_does_not_succeed(
    stage: Stage, who: str, code: int, body: bytes, expected: Expected
) -> None:
    await getattr(stage, who).expect(expected, code, body)
    await stage.root.expect(success(group_header(0, 2, 0, "kept")), 601, S + T)


@answers(600, "success")
@answers(601, "success")
@answers(602, "success")
@answers(603, "success")
async def test_create_list_and_delete(stage: Stage) -> None:
    topic = ident("s") + ident("empty")
    for number, title in ((0, "first"), (1, "0"), (2, "g" * 255)):
        header = group_header(number, 2, 0, title)
        await stage.root.expect(success(header), 602, topic + name(title) + b"more")
        await stage.root.expect(success(header), 600, topic + ident(title) + b"more")
        await stage.root.expect(success(header), 600, topic + ident(number))
    listed = [group_header(0, 2, 0, "first"), group_header(2, 2, 0, "g" * 255)]
    await stage.root.expect(EMPTY, 603, topic + ident("0") + b"more")
    await stage.root.expect(success(b"".join(listed)), 601, topic + b"more")
    # The id does not come again.
    await stage.root.expect(success(group_header(3, 2, 0, "0")), 602, topic + name("0"))
    for identifier in (0, 2, "0"):
        await stage.root.expect(EMPTY, 603, topic + ident(identifier))
    await stage.root.expect(EMPTY, 601, topic)


@asynccontextmanager
async def member_of(stage: Stage, body: bytes) -> AsyncIterator[Peer]:
    async with stage.another("iggy", "iggy") as peer:
        await peer.expect(EMPTY, 604, body)
        yield peer
        await peer.expect(EMPTY, 605, body)


@answers(600, "success")
@answers(604, "success")
@answers(605, "success", "result 5006")
@answers(606, "success")
async def test_join_sync_and_leave(stage: Stage) -> None:
    body = S + T + ident("kept")
    async with member_of(stage, body + b"more") as one:
        await one.expect(EMPTY, 604, S + T + G)  # once more, which changes nothing
        both = group_header(0, 2, 1, "kept") + member(0, 0, 1)
        await stage.root.expect(success(both), 600, body)
        await one.expect(success(u64(1) + u32(2) + u32(0) + u32(1)), 606, body + b"more")
        await stage.root.expect(success(group_header(0, 2, 1, "kept")), 601, S + T)
        async with stage.another("reader") as other:
            await other.expect(EMPTY, 604, body)
            told = (await stage.root.ask(600, body)).body
            assert told[: len(group_header(0, 2, 2, "kept"))] == group_header(0, 2, 2, "kept")
            await other.expect(EMPTY, 605, body)
            await other.expect(result(5006), 605, body)
            await other.expect(EMPTY, 606, body)
        await stage.root.expect(success(both), 600, body)
    await stage.root.expect(success(group_header(0, 2, 0, "kept")), 600, body)


@answers(100, "success")
@answers(120, "success")
@answers(121, "success", "status 4100")
@answers(122, "success", "status 3021")
async def test_what_members_may_do(stage: Stage) -> None:
    time = await stage.new_time()
    title = stage.new_name()
    await stage.root.ask(302, S + u32(2) + name(title))
    await stage.root.ask(602, S + ident(title) + name("g"))
    await stage.root.ask(101, send(0, title, to_partition(1), 2, batch(b"a", b"b")))
    frames = [message(b"a", 0), message(b"b", 1)]
    async with member_of(stage, S + ident(title) + ident("g")) as one:

        def part(first: int, end: int) -> Expected:
            record = sealed(frames[first:end], partition_id=1, time=time)
            return success(polled(1, 1, end - first, record))

        target = where("g", 0, title, 1)
        first = poll(group("g"), 0, title, 1, strategy=NEXT, count=1, commit=1)
        await one.expect(success(polled(0, 0)), 100, poll(group(0), 0, title, 0))
        await one.expect(part(0, 1), 100, first)
        await stage.root.expect(success(u32(1) + u64(1) + u64(0)), 120, target)
        await one.expect(part(1, 2), 100, first)
        await one.expect(success(polled(1, 1)), 100, first)
        await one.expect(EMPTY, 121, store(target, 0) + b"more")
        await stage.root.expect(success(u32(1) + u64(1) + u64(0)), 120, where(0, 0, title, 1))
        await one.expect(part(1, 2), 100, poll(group(0), "s", title, 1, strategy=NEXT))
        await one.expect(status(4100), 121, store(target, 2))
        await one.expect(status(4100), 121, store(where("g", 0, title, 0), 0))
        await stage.root.expect(status(5009), 121, store(target, 0))
        await one.expect(EMPTY, 122, delete(target) + b"more")
        await one.expect(status(3021), 122, delete(target))
        await stage.root.expect(EMPTY, 120, target)
    await stage.root.expect(EMPTY, 303, S + ident(title))


@answers(100, "status 3024")
@answers(121, "status 3024")
async def test_too_many_groups(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {"limits": {"max_consumer_offsets": 1}}) as stage:
        await fill(stage)
        await stage.root.ask(602, S + T + name("more"))
        async with member_of(stage, S + T + ident("kept")) as one:
            await one.expect(EMPTY, 604, S + T + ident("more"))
            await one.expect(EMPTY, 121, store(where("kept"), 1))
            await one.expect(status(3024), 121, store(where("more"), 1))
            await one.expect(status(3024), 100, poll(group("more"), 0, 0, 0, commit=1))
            await one.expect(EMPTY, 121, store(where("kept"), 2))


@answers(602, "result 3024")
async def test_a_topic_has_4096_groups(stage: Stage) -> None:
    await stage.root.ask(302, S + u32(0) + name("full"))
    topic = S + ident("full")

    async def fill(numbers: range) -> None:
        async with stage.another("reader") as peer:
            requests = [peer.request(602, topic + name(f"group {number}")) for number in numbers]
            await peer.wire.send(b"".join(requests))
            for request in requests:
                assert (await peer.answer(602, request)).answer[256:260] == bytes(4)

    await asyncio.gather(*(fill(range(start, start + 128)) for start in range(0, 4096, 128)))
    await stage.root.expect(result(3024), 602, topic + name("one more"))
    await stage.root.expect(result(5004), 602, topic + name("group 7"))
    await stage.root.expect(EMPTY, 603, topic + ident("group 7"))
    await stage.root.expect(success(group_header(4096, 0, 0, "again")), 602, topic + name("again"))
    await stage.root.expect(EMPTY, 303, topic)


@answers(121, "status 41")
@answers(122, "status 41")
async def test_a_member_that_may_not_poll_any_more(stage: Stage) -> None:
    """The membership stays, what it is for is refused (spec 05, 4.2)."""
    permissions = flags(10, 7) + b"\x00"
    async with stage.another("reader") as reader:
        await reader.expect(EMPTY, 604, S + T + G)
        await stage.root.expect(EMPTY, 36, ident("reader") + b"\x00")
        await reader.expect(status(41), 121, store(where(), 9))
        await reader.expect(status(41), 122, delete(where()))
        await reader.expect(status(41), 100, poll(group(0), 0, 0, 0))
        await reader.expect(result(41), 604, S + T + G)
        told = await reader.ask(606, S + T + G)
        told.expect(success(told.body))
        assert told.body[8:] == u32(2) + u32(0) + u32(1)
        granted = b"\x01" + u32(len(permissions)) + permissions
        await stage.root.expect(EMPTY, 36, ident("reader") + granted)
        await reader.expect(EMPTY, 605, S + T + G)


@answers(604, "eviction 13")
async def test_a_silent_member(tmp_path: Path) -> None:
    """Nothing was asked: the eviction comes by itself, and the socket stays open."""
    async with open_stage(tmp_path) as stage:
        await fill(stage)
        async with stage.another("reader") as reader:
            joined = reader.request(604, S + T + G)
            (await reader.exchange(604, joined)).expect(EMPTY)
            for _ in range(4):
                await stage.clock.advance(30)
            (await reader.answer(604, joined)).expect(eviction(13))
            await reader.expect(status(40), 606, S + T + G)
            await reader.log_in("reader", "secret")
            await reader.expect(EMPTY, 606, S + T + G)
