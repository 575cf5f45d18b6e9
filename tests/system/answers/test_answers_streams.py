"""Answers to the commands of streams, 200 to 205 (spec 02, 3; spec 03, 4.1 to 4.6)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from support.bad_bodies import IDENT, NAME, OPTIONS, spoiled
from support.by_hand import (
    batch,
    derived_options,
    ident,
    name,
    option,
    send,
    stream_header,
    to_partition,
    topic_header,
    u32,
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

OPTION = option("colour", 2, b"red")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(empty_stage: Stage) -> AsyncIterator[Stage]:
    """The streams 0, `kept`, and 1, `other`."""
    for title in ("kept", "other"):
        await empty_stage.root.ask(202, name(title))
    yield empty_stage


@pytest.mark.parametrize(
    ("who", "code", "body", "expected"),
    [
        *(
            case(title, code, body, status(3))
            for code, fields in (
                (200, [IDENT]),
                (202, [NAME, OPTIONS]),
                (203, [IDENT]),
                (204, [IDENT, NAME, OPTIONS]),
                (205, [IDENT]),
            )
            for title, body in spoiled(*fields)
        ),
        case("before 41", 200, b"\x01", status(3), "nobody"),
        case("by its name", 200, ident("missing"), EMPTY, says="empty"),
        case("by its id", 200, ident(999_999), EMPTY, says="empty"),
        case("digits are a name", 200, ident("0"), EMPTY, says="empty"),
        case("before 41", 200, ident("missing"), EMPTY, "nobody", says="empty"),
        case("not permitted", 200, ident("kept"), status(41), "nobody"),
        case("not permitted", 201, b"", status(41), "nobody"),
        case("no option is known", 202, name("x") + OPTION, status(4041)),
        case("before 1012", 202, name("kept") + OPTION, status(4041)),
        case("before 41", 202, name("x") + OPTION, status(4041), "nobody"),
        case("not permitted", 202, name("x"), result(41), "nobody"),
        case("before 1012", 202, name("kept"), result(41), "nobody"),
        case("the name is taken", 202, name("kept"), result(1012)),
        case("no option is known", 204, ident(0) + name("x") + OPTION, status(4041)),
        case("before 1009", 204, ident(9) + name("x") + OPTION, status(4041)),
        case("by its id", 204, ident(9) + name("x"), result(1009)),
        case("by its name", 204, ident("missing") + name("x"), result(1009)),
        case("before 41", 204, ident(9) + name("x"), result(1009), "nobody"),
        case("not permitted", 204, ident(0) + name("x"), result(41), "nobody"),
        case("before 1012", 204, ident(0) + name("other"), result(41), "nobody"),
        case("the name is taken", 204, ident(0) + name("other"), result(1012)),
        *(
            row
            for code in (203, 205)
            for row in (
                case("by its id", code, ident(9), result(1009)),
                case("by its name", code, ident("missing"), result(1009)),
                case("before 41", code, ident(9), result(1009), "nobody"),
                case("not permitted", code, ident(0), result(41), "nobody"),
            )
        ),
    ],
)
async def test_what_does_not_succeed(
    stage: Stage, who: str, code: int, body: bytes, expected: Expected
) -> None:
    before = (await stage.root.ask(201)).body
    await getattr(stage, who).expect(expected, code, body)
    assert (await stage.root.ask(201)).body == before


@answers(202, "success")
@answers(203, "success")
async def test_create_and_delete(stage: Stage) -> None:
    for title in ("x", "x" * 255, "é" * 127, " a/b:c\x00\n "):
        await stage.new_time()
        told = await stage.root.ask(202, name(title))
        told.expect(success(stream_header(2, stage.time_of(told), title)))
        await stage.root.expect(EMPTY, 203, ident(title))


@answers(200, "success")
@answers(201, "success")
async def test_what_is_told(stage: Stage) -> None:
    await stage.new_time()
    time = stage.time_of(await stage.root.ask(202, name("third")))
    header = stream_header(2, time, "third")
    listed = (await stage.root.ask(201)).body
    assert listed.endswith(header)
    await stage.root.expect(success(header), 200, ident(2))
    await stage.root.expect(success(header), 200, ident("third"))
    await stage.new_time()
    first_at = stage.time_of(await stage.root.ask(302, ident(2) + u32(2) + name("t")))
    second_at = stage.time_of(await stage.root.ask(302, ident(2) + u32(0) + name("u")))
    await stage.root.ask(101, send(2, 0, to_partition(1), 1, batch(b"0123456789")))
    first = topic_header(0, first_at, "t", 2, size=314, messages=1, derived=derived_options())
    second = topic_header(1, second_at, "u", 0, derived=derived_options())
    header = stream_header(2, time, "third", topics=2, size=314, messages=1)
    await stage.root.expect(success(header + first + second), 200, ident("third"))
    await stage.root.expect(success(listed[: -len(header)] + header), 201)
    await stage.root.expect(success(listed[: -len(header)] + header), 201, b"is not looked at")
    await stage.root.expect(EMPTY, 203, ident(2))
    await stage.root.expect(success(listed[: -len(header)]), 201)


@answers(201, "empty")
async def test_no_streams(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        await stage.root.expect(EMPTY, 201)


@answers(204, "success")
async def test_rename(stage: Stage) -> None:
    await stage.new_time()
    time = stage.time_of(await stage.root.ask(202, name("before")))
    for identifier, title in ((2, "after"), ("after", "after"), (2, "before")):
        await stage.root.expect(EMPTY, 204, ident(identifier) + name(title))
        await stage.root.expect(success(stream_header(2, time, title)), 200, ident(title))
    await stage.root.expect(EMPTY, 200, ident("after"))
    await stage.root.expect(EMPTY, 203, ident(2))


@answers(205, "success")
async def test_purge(stage: Stage) -> None:
    await stage.new_time()
    time = stage.time_of(await stage.root.ask(202, name("full")))
    await stage.root.expect(EMPTY, 205, ident("full"))
    await stage.new_time()
    at = stage.time_of(await stage.root.ask(302, ident(2) + u32(1) + name("t")))
    for _ in range(2):
        await stage.root.ask(101, send(2, 0, to_partition(0), 1, batch(b"0123456789")))
        await stage.root.expect(EMPTY, 205, ident(2))
        stream = stream_header(2, time, "full", topics=1)
        topic = topic_header(0, at, "t", 1, derived=derived_options())
        await stage.root.expect(success(stream + topic), 200, ident(2))
    await stage.root.expect(EMPTY, 203, ident(2))
