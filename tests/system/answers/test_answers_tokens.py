"""Answers about personal access tokens, 41 to 43 (spec 02, 3; spec 06, 5)."""

import base64
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from support.bad_bodies import LONG_NUMBER, NAME, spoiled
from support.by_hand import name, u8, u64
from support.exchange import EMPTY, Expected, Stage, answers, case, result, status, success

pytestmark = pytest.mark.asyncio(loop_scope="module")

FOREVER = 2**64 - 1
HOUR = 3_600_000_000
MAX_TOKENS = 100


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(empty_stage: Stage) -> AsyncIterator[Stage]:
    """A token of the root user, `kept`."""
    await empty_stage.root.ask(42, name("kept") + u64(0))
    yield empty_stage


@pytest.mark.parametrize(
    ("who", "code", "body", "expected"),
    [
        *(
            case(title, code, body, status(3))
            for code, fields in ((42, [NAME, LONG_NUMBER]), (43, [NAME]))
            for title, body in spoiled(*fields)
        ),
        case("the name is taken", 42, name("kept") + u64(FOREVER), result(51)),
        case("before 56", 42, name("kept") + u64(FOREVER - 1), result(51)),
        case("beyond the end of time", 42, name("x") + u64(FOREVER - 1), result(56)),
        case("no such token", 43, name("missing"), result(20)),
        case("of another user", 43, name("kept"), result(20), "nobody"),
        case("none", 41, b"", EMPTY, "nobody", says="empty"),
    ],
)
async def test_what_does_not_succeed(
    stage: Stage, who: str, code: int, body: bytes, expected: Expected
) -> None:
    before = (await stage.root.ask(41)).body
    await getattr(stage, who).expect(expected, code, body)
    assert (await stage.root.ask(41)).body == before


@answers(41, "success")
@answers(42, "success")
@answers(43, "success")
async def test_create_list_and_delete(stage: Stage) -> None:
    listed = (await stage.root.ask(41)).body
    assert listed == name("kept") + u64(0)
    secrets = set()
    # What is sent, and from when on it lasts until when: 0 means for ever.
    for expiry, lasts in ((0, None), (FOREVER, None), (HOUR, HOUR)):
        time = await stage.new_time()
        told = await stage.root.ask(42, name("new") + u64(expiry) + b"more")
        told.expect(success(told.body))
        assert told.body[:1] == u8(68)
        secret = told.body[1:]
        assert len(base64.b64decode(secret, validate=True)) == 50
        secrets.add(secret)
        until = 0 if lasts is None else time + lasts
        both = listed + name("new") + u64(until)
        await stage.root.expect(success(both), 41)
        await stage.root.expect(success(both), 41, b"is not looked at")
        await stage.root.expect(EMPTY, 43, name("new") + b"more")
        await stage.root.expect(success(listed), 41)
    assert len(secrets) == 3


@answers(42, "status 52", "result 51 again")
async def test_as_many_as_a_user_may_have(stage: Stage) -> None:
    """A repeated request is told once more that it is too much: that is checked before."""
    for number in range(MAX_TOKENS - 1):
        told = await stage.nobody.ask(42, name(f"token {number}") + u64(0))
        told.expect(success(told.body))
    last = stage.nobody.request(42, name("the last") + u64(0))
    told = await stage.nobody.exchange(42, last)
    told.expect(success(told.body))
    for body in (name("one more"), name("the last")):
        await stage.nobody.expect(status(52), 42, body + u64(0))
    await stage.nobody.expect(status(52), 42, name("one more") + u64(FOREVER - 1))
    (await stage.nobody.exchange(42, last)).expect(status(52))
    await stage.nobody.expect(EMPTY, 43, name("token 7"))
    again = stage.nobody.request(42, name("another") + u64(0))
    told = await stage.nobody.exchange(42, again)
    told.expect(success(told.body))
    for number in (1, 2):
        await stage.nobody.expect(EMPTY, 43, name(f"token {number}"))
    (await stage.nobody.exchange(42, again)).expect(result(51))
