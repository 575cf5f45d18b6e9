"""Answers to logins and logouts, 38 to 40, 44 and 45 (spec 01, 5; spec 02, 3.4; spec 06, 2)."""

import struct
from collections.abc import AsyncIterator
from importlib.metadata import version

import pytest
import pytest_asyncio

from support.by_hand import (
    LOGOUT,
    PROTOCOL,
    READ,
    checksum,
    ident,
    login,
    long_text,
    name,
    token_login,
    u8,
    u32,
    u64,
    version_info,
)
from support.exchange import EMPTY, Expected, Peer, Stage, answers, case, eviction, status, success

pytestmark = pytest.mark.asyncio(loop_scope="module")

CREDENTIALS, TOKEN, INACTIVE, SESSION, VERSION, MALFORMED = 9, 10, 11, 12, 14, 15
GOOD = login("iggy", "iggy")
FOREVER = 2**64 - 1


def logged_in(user: int, session: int) -> Expected:
    server_version = version("windsprite")
    return success(u32(user) + u64(session) + u32(PROTOCOL) + name(server_version))


def session_of(frame: bytes) -> int:
    (session,) = struct.unpack_from("<Q", frame, 264)
    assert 0 < session < 1 << 63
    return session


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(empty_stage: Stage) -> AsyncIterator[Stage]:
    """An inactive user, `asleep`."""
    asleep = name("asleep") + name("secret") + u8(2) + b"\x00"
    await empty_stage.root.ask(33, asleep)
    yield empty_stage


@pytest_asyncio.fixture(loop_scope="module")
async def peer(stage: Stage) -> AsyncIterator[Peer]:
    """A connection without a login."""
    async with stage.another() as peer:
        yield peer


def cuts(body: bytes) -> list[bytes]:
    return [body[:end] for end in range(len(body))]


@pytest.mark.parametrize(
    ("who", "code", "body", "expected"),
    [
        case("a wrong password", 40, login("iggy", "wrong"), eviction(CREDENTIALS)),
        case("no such user", 40, login("missing", "iggy"), eviction(CREDENTIALS)),
        case("another case", 40, login("IGGY", "iggy"), eviction(CREDENTIALS)),
        case("an inactive user", 40, login("asleep", "secret"), eviction(CREDENTIALS)),
        case("a short name", 40, login("ig", "iggy"), eviction(CREDENTIALS)),
        case("a long name", 40, login("n" * 51, "iggy"), eviction(CREDENTIALS)),
        case("a short password", 40, login("iggy", "ig"), eviction(CREDENTIALS)),
        case("a long password", 40, login("iggy", "p" * 101), eviction(CREDENTIALS)),
        case("an empty password", 40, login("iggy", ""), eviction(TOKEN), says="eviction 10"),
        case("an unknown token", 45, token_login("t" * 68), eviction(TOKEN)),
        case("an empty token", 45, token_login(""), eviction(TOKEN)),
        *(
            case(f"version {major}.{minor}", code, body, eviction(VERSION))
            for major, minor in ((0, 10), (0, 12), (1, 11), (0, 0))
            for packed in (major << 20 | minor << 10,)
            for code, body in (
                (40, login("iggy", "iggy", packed)),
                (40, login("iggy", "wrong", packed)),
                (45, token_login("wrong", packed)),
            )
        ),
        case("nothing", 40, b"", eviction(MALFORMED)),
        case("nothing", 45, b"", eviction(MALFORMED)),
        case("no version", 40, GOOD[:3], eviction(MALFORMED)),
        case("no name of a library", 40, u32(PROTOCOL) + u8(0) + GOOD[12:], eviction(MALFORMED)),
        case("no more than a version", 45, version_info(), eviction(MALFORMED)),
        case("no user", 40, version_info() + u8(0) + name("iggy") + u32(0), eviction(MALFORMED)),
        case("no UTF-8", 40, version_info() + b"\x01\xff\x01x" + u32(0), eviction(MALFORMED)),
        case("no context", 40, GOOD[:-4], eviction(MALFORMED)),
        case("a context cut short", 40, GOOD[:-4] + u32(9), eviction(MALFORMED)),
        case("no context", 45, token_login("t" * 68)[:-4], eviction(MALFORMED)),
        *(
            case("a former login", code, body, eviction(MALFORMED), who)
            for code in (38, 44)
            for body in (b"", GOOD)
            for who in ("root", "nobody")
        ),
    ],
)
async def test_what_does_not_succeed(
    stage: Stage, peer: Peer, who: str, code: int, body: bytes, expected: Expected
) -> None:
    # The connection stays what it was: without a login, or with one.
    for one in (peer, getattr(stage, who)):
        await one.expect(expected, code, body)
    await peer.expect(status(40), 20)
    await getattr(stage, who).expect(EMPTY, 31, ident("missing"))


@answers(40, "success", "status 4")
@answers(39, "success", "success unbound", "status 4")
async def test_in_and_out(stage: Stage, peer: Peer) -> None:
    last = 0
    for body in (GOOD, GOOD + b"more", GOOD[:-4] + long_text("context"), version_7()):
        peer.renew()
        await peer.expect(status(4), 40, body, checksum=1)
        told = await peer.ask(40, body, checksum=checksum(body))
        peer.session = session_of(told.answer)
        told.expect(logged_in(0, peer.session))
        assert peer.session > last
        last = peer.session
        await peer.expect(status(4), 39, checksum=1)
        await peer.expect(EMPTY, 31, ident("missing"))
        await peer.expect(EMPTY, 39, checksum=checksum(b""))
        await peer.expect(status(40), 31, ident("missing"))
        await peer.expect(EMPTY, 39)
        await peer.expect(status(4), 39, checksum=1)


def version_7() -> bytes:
    return login("iggy", "iggy", PROTOCOL + 7)


@answers(39, "status 5")
@answers(40, "status 5")
@answers(45, "status 5")
async def test_sent_as_reads(stage: Stage, peer: Peer) -> None:
    """They do nothing, and nobody is told otherwise (spec 01, 2.4)."""
    for code in (39, 40, 45):
        await stage.root.expect(status(5), code, GOOD, operation=READ)
        await peer.expect(status(40), code, GOOD, operation=READ)
        await stage.root.expect(EMPTY, 31, ident("missing"))


@answers(40, "success again")
async def test_a_second_login_changes_nothing(stage: Stage, peer: Peer) -> None:
    await peer.log_in("nobody", "secret")
    session, client = peer.session, peer.client
    await peer.expect(logged_in(0, session), 40, GOOD)
    await peer.expect(eviction(CREDENTIALS), 40, login("iggy", "wrong"))
    peer.renew()
    await peer.expect(logged_in(0, session), 40, GOOD)
    peer.client, peer.session = client, session
    await peer.expect(status(41), 201)  # still the user of the first login


@answers(40, "eviction 12")
@answers(45, "eviction 12")
async def test_the_client_id_of_another_user(stage: Stage, peer: Peer) -> None:
    await peer.log_in("nobody", "secret")
    secret = (await stage.root.ask(42, name("of root") + u64(FOREVER))).body[1:].decode()
    async with stage.another() as other:
        other.client = peer.client
        await other.expect(eviction(SESSION), 40, GOOD)
        await other.expect(eviction(SESSION), 45, token_login(secret))
        await other.log_in()
    await peer.expect(EMPTY, 31, ident("missing"))
    await stage.root.expect(EMPTY, 43, name("of root"))


@answers(40, "success again")
async def test_the_client_id_of_the_same_user(stage: Stage, peer: Peer) -> None:
    """Who had it before is not told, and finds nobody logged in (spec 01, 5.3)."""
    await peer.log_in()
    async with stage.another() as other:
        other.client = peer.client
        told = await other.ask(40, GOOD)
        other.session = session_of(told.answer)
        told.expect(logged_in(0, other.session))
        assert other.session > peer.session
        await peer.expect(status(40), 31, ident("missing"))
        await peer.expect(eviction(1), 202, name("x"))
        await other.expect(EMPTY, 31, ident("missing"))


@answers(45, "success", "status 4", "eviction 10", "eviction 11")
async def test_tokens(stage: Stage, peer: Peer) -> None:
    user = name("carol") + name("secret") + u8(1) + b"\x00"
    number = int.from_bytes((await stage.root.ask(33, user)).body[:4], "little")
    async with stage.another("carol") as carol:
        second = u64(1_000_000)
        forever = (await carol.ask(42, name("forever") + u64(FOREVER))).body[1:].decode()
        for_now = (await carol.ask(42, name("for now") + second)).body[1:].decode()
    for secret in (forever, for_now):
        peer.renew()
        body = token_login(secret)
        await peer.expect(status(4), 45, body, checksum=1)
        told = await peer.ask(45, body + b"more", checksum=checksum(body + b"more"))
        told.expect(logged_in(number, session_of(told.answer)))
        peer.session = session_of(told.answer)
        await peer.expect(EMPTY, 39)
    await stage.clock.advance(2)
    await peer.expect(eviction(TOKEN), 45, token_login(for_now))
    await stage.root.ask(35, ident("carol") + b"\x00\x01\x02")
    await peer.expect(eviction(INACTIVE), 45, token_login(forever))
    await stage.root.ask(34, ident("carol"))
    await peer.expect(eviction(TOKEN), 45, token_login(forever))


@answers(39, "status 3")
async def test_logouts_without_their_numbers(stage: Stage) -> None:
    for fields in ({"session": 0}, {"request": 0}, {"client": bytes(16)}):
        await stage.root.expect(status(3), 39, operation=LOGOUT, **fields)
    await stage.root.expect(EMPTY, 31, ident("missing"))
