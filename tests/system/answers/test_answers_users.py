"""Answers about users, 31 to 37 (spec 02, 3; spec 06, 3)."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from support.bad_bodies import BYTE, IDENT, NAME, OPTIONS, TEXT, Field, spoiled
from support.by_hand import flags, ident, login, name, option, u8, u32, user_header
from support.exchange import (
    EMPTY,
    Expected,
    Stage,
    answers,
    case,
    eviction,
    result,
    status,
    success,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROOT, NOBODY, ALICE = 0, 1, 2
MISSING = ident("missing")
OPTION = option("colour", 2, b"red")
NOTHING_GRANTED = bytes(4)
ACTIVE, INACTIVE = 1, 2
MANAGE_USERS, READ_SERVERS = 2, 1
ABSENT, PRESENT = b"\x00", b"\x01"


def granted(permissions: bytes) -> bytes:
    return PRESENT + u32(len(permissions)) + permissions


def create(
    username: str = "new", password: str = "secret", status: int = ACTIVE, rest: bytes = ABSENT
) -> bytes:
    return name(username) + name(password) + u8(status) + rest


def update(user: bytes, username: str | None = None, status: int | None = None) -> bytes:
    new_name = ABSENT if username is None else PRESENT + name(username)
    return user + new_name + (ABSENT if status is None else PRESENT + u8(status))


def change(user: bytes, current: str = "secret", new: str = "secret-2") -> bytes:
    return user + name(current) + name(new)


ONE_STREAM = (
    flags(10, READ_SERVERS)
    + PRESENT
    + (u32(3) + flags(6, 1) + PRESENT + (u32(7) + flags(4, 3) + ABSENT) + ABSENT)
)
PERMISSIONS = Field(
    "permissions",
    granted(ONE_STREAM),
    {
        "a length that is too small": PRESENT + u32(len(ONE_STREAM) - 1) + ONE_STREAM,
        "a length that is too large": PRESENT + u32(len(ONE_STREAM) + 1) + ONE_STREAM + b"\x00",
        "streams that are announced and missing": granted(flags(10) + PRESENT),
        "a topic cut short": granted(ONE_STREAM[:-3]),
    },
)
IF_NAME = Field("name that may be left out", PRESENT + name("new"), {"empty": PRESENT + b"\x00"})
IF_STATUS = Field("status that may be left out", PRESENT + u8(1), {})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(empty_stage: Stage) -> AsyncIterator[Stage]:
    """One more user, `alice`, with the id 2."""
    await empty_stage.root.ask(33, create("alice"))
    yield empty_stage


@pytest.mark.parametrize(
    ("who", "code", "body", "expected"),
    [
        *(
            case(title, code, body, status(3))
            for code, fields in (
                (31, [IDENT]),
                (33, [NAME, TEXT, BYTE, PERMISSIONS, OPTIONS]),
                (34, [IDENT]),
                (35, [IDENT, IF_NAME, IF_STATUS, OPTIONS]),
                (36, [IDENT, PERMISSIONS]),
                (37, [IDENT, TEXT, TEXT]),
            )
            for title, body in spoiled(*fields)
        ),
        *(
            case("before 41", code, b"\x00", status(3), "nobody")
            for code in (31, 33, 34, 35, 36, 37)
        ),
        case("by its name", 31, MISSING, EMPTY, says="empty"),
        case("by its id", 31, ident(9), EMPTY, says="empty"),
        case("before 41", 31, MISSING, EMPTY, "nobody", says="empty"),
        case("not permitted", 31, ident(ROOT), status(41), "nobody"),
        case("not permitted", 32, b"", status(41), "nobody"),
        # 33
        case("no option is known", 33, create(rest=ABSENT + OPTION), status(4041)),
        case("before 41", 33, create(rest=ABSENT + OPTION), status(4041), "nobody"),
        case("before 43", 33, create("ab", rest=ABSENT + OPTION), status(4041)),
        case("too short", 33, create(password="ab"), status(44)),
        case("too long", 33, create(password="p" * 101), status(44)),
        case("before 41", 33, create(password=""), status(44), "nobody"),
        case("not permitted", 33, create(), result(41), "nobody"),
        case("before 43", 33, create("ab"), result(41), "nobody"),
        case("before 46", 33, create("alice"), result(41), "nobody"),
        case("too short", 33, create("ab"), result(43)),
        case("too long", 33, create("n" * 51), result(43)),
        case("too long in bytes", 33, create("é" * 26), result(43)),
        case("the name is taken", 33, create("alice"), result(46)),
        # 34
        case("not permitted", 34, ident(ALICE), result(41), "nobody"),
        case("before 20", 34, MISSING, result(41), "nobody"),
        case("before 48", 34, ident(ROOT), result(41), "nobody"),
        case("not even itself", 34, ident(NOBODY), result(41), "nobody"),
        case("by its name", 34, MISSING, result(20)),
        case("by its id", 34, ident(9), result(20)),
        case("the root user", 34, ident(ROOT), result(48)),
        # 35
        case("no option is known", 35, update(ident(ALICE)) + OPTION, status(4041)),
        case("before 41", 35, update(ident(ALICE)) + OPTION, status(4041), "nobody"),
        case("before 20", 35, update(MISSING) + OPTION, status(4041)),
        case("not permitted", 35, update(ident(ALICE)), result(41), "nobody"),
        case("before 20", 35, update(MISSING), result(41), "nobody"),
        case("no user", 35, update(MISSING), result(20)),
        case("before 43", 35, update(MISSING, "ab"), result(20)),
        case("too short", 35, update(ident(ALICE), "ab"), result(43)),
        case("too long", 35, update(ident(ALICE), "n" * 51, INACTIVE), result(43)),
        case("the name is taken", 35, update(ident(ALICE), "nobody", INACTIVE), result(46)),
        # 36
        case("not permitted", 36, ident(ALICE) + ABSENT, result(41), "nobody"),
        case("before 20", 36, MISSING + ABSENT, result(41), "nobody"),
        case("before 49", 36, ident(ROOT) + ABSENT, result(41), "nobody"),
        case("no user", 36, MISSING + ABSENT, result(20)),
        case("the root user", 36, ident(ROOT) + ABSENT, result(49)),
        # 37
        case("too short", 37, change(ident(ALICE), new="ab"), status(44)),
        case("before 20", 37, change(MISSING, new="p" * 101), status(44)),
        case("before 41", 37, change(ident(ALICE), new=""), status(44), "nobody"),
        case("no user", 37, change(MISSING), result(20)),
        case("before 41", 37, change(MISSING), result(20), "nobody"),
        case("not permitted", 37, change(ident(ALICE)), result(41), "nobody"),
        case("before 42", 37, change(ident(ALICE), "wrong"), result(41), "nobody"),
        case("of another", 37, change(ident(ALICE), "wrong"), result(42)),
        case("its own", 37, change(ident(NOBODY), "wrong"), result(42), "nobody"),
    ],
)
async def test_what_does_not_succeed(
    stage: Stage, who: str, code: int, body: bytes, expected: Expected
) -> None:
    before = (await stage.root.ask(32)).body, (await stage.root.ask(31, ident(ALICE))).body
    await getattr(stage, who).expect(expected, code, body)
    after = (await stage.root.ask(32)).body, (await stage.root.ask(31, ident(ALICE))).body
    assert after == before


@answers(31, "success")
async def test_get(stage: Stage) -> None:
    root = user_header(ROOT, 1, "iggy") + granted(flags(10, *range(10)) + ABSENT)
    for identifier in (ROOT, "iggy"):
        await stage.root.expect(success(root), 31, ident(identifier))
    told = (await stage.root.ask(31, ident(NOBODY))).body
    created_at = int.from_bytes(told[4:12], "little")
    nobody = user_header(NOBODY, created_at, "nobody") + NOTHING_GRANTED
    await stage.root.expect(success(nobody), 31, ident("nobody"))
    # The own user is told to everybody.
    await stage.nobody.expect(success(nobody), 31, ident(NOBODY))
    await stage.nobody.expect(success(nobody), 31, ident("nobody") + b"more")


@answers(32, "success")
@answers(33, "success")
@answers(34, "success")
async def test_create_list_and_delete(stage: Stage) -> None:
    listed = (await stage.root.ask(32)).body
    time = await stage.new_time()
    header = user_header(3, time, "new")
    await stage.root.expect(success(header + NOTHING_GRANTED), 33, create())
    await stage.root.expect(success(listed + header), 32)
    await stage.root.expect(success(listed + header), 32, b"is not looked at")
    await stage.root.expect(EMPTY, 34, ident("new"))
    await stage.root.expect(success(listed), 32)
    time = await stage.new_time()
    header = user_header(3, time, "n" * 50, INACTIVE)
    sent = create("n" * 50, "p" * 100, INACTIVE, granted(ONE_STREAM))
    await stage.root.expect(success(header + granted(ONE_STREAM)), 33, sent)
    await stage.root.expect(success(header + granted(ONE_STREAM)), 31, ident(3))
    await stage.root.expect(EMPTY, 34, ident(3))


@answers(33, "success")
async def test_odd_values_of_a_new_user(stage: Stage) -> None:
    """An unknown status is echoed and stored as active; an odd flag means absent."""
    time = await stage.new_time()
    sent = user_header(3, time, "odd", 77) + NOTHING_GRANTED
    await stage.root.expect(success(sent), 33, create("odd", status=77, rest=b"\x02"))
    stored = user_header(3, time, "odd", ACTIVE) + NOTHING_GRANTED
    await stage.root.expect(success(stored), 31, ident("odd"))
    await stage.root.expect(EMPTY, 34, ident("odd"))


@answers(33, "success")
@answers(36, "success")
async def test_permissions_are_sent_in_any_order(stage: Stage) -> None:
    """A reply to the creation shows them as they came, later ones in order, the last one wins."""
    five = u32(5) + flags(6, 0) + ABSENT
    three = u32(3) + flags(6, 1) + ABSENT
    last = u32(5) + flags(6, 2) + ABSENT
    sent = flags(10) + PRESENT + five + PRESENT + three + PRESENT + last + ABSENT
    stored = flags(10) + PRESENT + three + PRESENT + last + ABSENT
    time = await stage.new_time()
    header = user_header(3, time, "order")
    body = create("order", rest=granted(sent))
    await stage.root.expect(success(header + granted(sent)), 33, body)
    await stage.root.expect(success(header + granted(stored)), 31, ident("order"))
    await stage.root.expect(EMPTY, 36, ident(3) + granted(ONE_STREAM) + b"more")
    await stage.root.expect(success(header + granted(ONE_STREAM)), 31, ident(3))
    await stage.root.expect(EMPTY, 36, ident(3) + granted(flags(10) + ABSENT))
    # Nothing granted is something else than no permissions.
    told = (await stage.root.ask(31, ident(3))).body
    assert told in (header + NOTHING_GRANTED, header + granted(flags(10) + ABSENT))
    for absent in (ABSENT, b"\x02", b"\xff" + granted(sent)):
        await stage.root.expect(EMPTY, 36, ident(3) + granted(ONE_STREAM))
        await stage.root.expect(EMPTY, 36, ident(3) + absent)
        await stage.root.expect(success(header + NOTHING_GRANTED), 31, ident(3))
    await stage.root.expect(EMPTY, 34, ident(3))


@answers(35, "success")
async def test_update(stage: Stage) -> None:
    time = await stage.new_time()
    await stage.root.ask(33, create("first"))
    for body, username, state in (
        (update(ident(3)), "first", ACTIVE),
        (update(ident(3), "second"), "second", ACTIVE),
        (update(ident("second"), "second", INACTIVE), "second", INACTIVE),
        (update(ident(3), status=77), "second", INACTIVE),
        (ident(3) + b"\x02\xff", "second", INACTIVE),
        (update(ident(3), "n" * 50, ACTIVE), "n" * 50, ACTIVE),
    ):
        await stage.root.expect(EMPTY, 35, body)
        stored = user_header(3, time, username, state) + NOTHING_GRANTED
        await stage.root.expect(success(stored), 31, ident(3))
    await stage.root.expect(EMPTY, 34, ident(3))


@answers(37, "success")
async def test_change_password(stage: Stage) -> None:
    await stage.root.ask(33, create("carol", "before"))
    async with stage.another("carol", "before") as carol:
        await carol.expect(EMPTY, 37, change(ident("carol"), "before", "after") + b"more")
    await stage.root.expect(EMPTY, 37, change(ident("carol"), "after", "later"))
    async with stage.another() as carol:
        await carol.expect(eviction(9), 40, login("carol", "after"))
        await carol.log_in("carol", "later")
    await stage.root.expect(EMPTY, 34, ident("carol"))
