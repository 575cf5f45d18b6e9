"""Changes of metadata that a client asks for again, byte by byte (spec 01, 6.3 to 6.5).

Every request of this module is repeated as the same frame. What was carried out answers with the
same bytes; everything else as the specification says for it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.by_hand import (
    COMMITTED,
    OPERATIONS,
    batch,
    checksum,
    flags,
    ident,
    login,
    name,
    option,
    send,
    to_partition,
    token_login,
    u8,
    u32,
    u64,
)
from support.exchange import EMPTY, Exchange, Peer, Stage, eviction, open_stage, result, status
from support.password_gate import PasswordGate
from support.waiting import until
from windsprite_server.journal import Entry
from windsprite_server.journal.sqlite import SqliteJournal

MIB = 1 << 20
S, T, G = ident("s"), ident("t"), ident("g")
NOTHING = u8(0)
FOREVER = u64(2**64 - 1)
UNCODED = u32(0)


@asynccontextmanager
async def stage_of(folder: Path, **settings: Any) -> AsyncIterator[Stage]:
    async with open_stage(folder, settings or None) as stage:
        yield stage


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """The stream `s` with the topic `t` of two partitions and the group `g`."""
    async with open_stage(tmp_path) as stage:
        root = stage.root
        await changed(root, 202, name("s"))
        await changed(root, 302, S + u32(2) + name("t") + option("segment_size", 12, u64(MIB)))
        await changed(root, 602, S + T + name("g"))
        for _ in range(3):
            await root.ask(101, send("s", "t", to_partition(0), 1, batch(bytes(MIB))))
        yield stage


async def changed(peer: Peer, code: int, body: bytes, **fields: Any) -> Exchange:
    """A change that succeeds."""
    done = await peer.ask(code, body, **fields)
    assert (done.answer[60], done.answer[216:220], done.answer[256:260]) == (8, UNCODED, UNCODED)
    return done


async def again(peer: Peer, code: int, first: Exchange) -> bytes:
    """The answer to the same frame."""
    return (await peer.exchange(code, first.request)).answer


async def position(peer: Peer) -> int:
    """Up to where metadata is applied: it does not move if nothing is executed."""
    return (await peer.ask(201)).commit


# --- What was carried out is answered again with the same bytes ----------------------------------

CHANGES = [
    (202, name("new")),
    (204, S + name("renamed")),
    (203, S),
    (205, S),
    (302, S + u32(3) + name("new")),
    (304, S + T + name("renamed")),
    (303, S + T),
    (305, S + T),
    (402, S + T + u32(3)),
    (403, S + T + u32(1)),
    (503, S + T + u32(0) + u32(1)),
    (602, S + T + name("new")),
    (603, S + T + G),
    (604, S + T + G),
    (33, name("new") + name("secret") + u8(1) + NOTHING),
    (35, ident("nobody") + u8(1) + name("somebody") + NOTHING),
    (36, ident("nobody") + u8(1) + u32(11) + flags(11, 0, 5)),
    (34, ident("nobody")),
    (37, ident("nobody") + name("secret") + name("secret-2")),
    (43, name("token")),
]

REJECTIONS = [
    (202, name("s"), 1012),
    (204, ident("missing") + name("x"), 1009),
    (203, ident("missing"), 1009),
    (205, ident("missing"), 1009),
    (302, S + u32(1) + name("t"), 2013),
    (304, S + ident("missing") + name("x"), 2010),
    (303, S + ident("missing"), 2010),
    (305, S + ident("missing"), 2010),
    (402, S + ident("missing") + u32(1), 2010),
    (403, S + T + u32(9), 2019),
    (503, S + T + u32(9) + u32(1), 3007),
    (602, S + T + name("g"), 5004),
    (603, S + T + ident("missing"), 5000),
    (604, S + T + ident("missing"), 5000),
    (605, S + T + G, 5006),
    (33, name("nobody") + name("secret") + u8(1) + NOTHING, 46),
    (33, name("xy") + name("secret") + u8(1) + NOTHING, 43),
    (35, ident("missing") + NOTHING + NOTHING, 20),
    (36, ident(0) + NOTHING, 49),
    (34, ident(0), 48),
    (37, ident("nobody") + name("wrong") + name("secret-2"), 42),
    (37, ident("missing") + name("wrong") + name("secret-2"), 20),
    (42, name("token") + FOREVER, 51),
    (42, name("other") + u64(2**64 - 2), 56),
    (43, name("missing"), 20),
]


def test_every_change_is_tried() -> None:
    codes = {code for code, operation in OPERATIONS.items() if 128 <= operation < 160}
    assert codes - {42, 605} == {code for code, _ in CHANGES}  # these have tests of their own
    assert codes == {code for code, _, _ in REJECTIONS}


@pytest.mark.parametrize(("code", "body"), CHANGES, ids=lambda value: str(value)[:20])
async def test_a_change_is_made_once(stage: Stage, code: int, body: bytes) -> None:
    root = stage.root
    await changed(root, 42, name("token") + FOREVER)
    first = await changed(root, code, body, checksum=checksum(body))
    tables = [(await root.ask(code)).body for code in (201, 32, 41)]
    topic = (await root.ask(300, S + T)).body
    for _ in range(3):
        assert await again(root, code, first) == first.answer
    assert [(await root.ask(code)).body for code in (201, 32, 41)] == tables
    assert (await root.ask(300, S + T)).body == topic
    assert first.answer[208] == COMMITTED.get(OPERATIONS[code], OPERATIONS[code])


@pytest.mark.parametrize(("code", "body", "error"), REJECTIONS)
async def test_a_rejection_is_repeated_as_it_was(
    stage: Stage, code: int, body: bytes, error: int
) -> None:
    root = stage.root
    await changed(root, 42, name("token") + FOREVER)
    first = await root.ask(code, body)
    first.expect(result(error))
    before = await position(root)
    for _ in range(2):
        assert await again(root, code, first) == first.answer
    assert await position(root) == before


async def test_a_rejection_stays_one_when_it_would_be_none_any_more(stage: Stage) -> None:
    root, nobody = stage.root, stage.nobody
    taken = await root.ask(202, name("s"))
    denied = await nobody.ask(202, name("x"))
    denied.expect(result(41))
    await changed(root, 203, S)
    await changed(root, 36, ident("nobody") + u8(1) + u32(11) + flags(11, 4))
    assert await again(root, 202, taken) == taken.answer
    assert await again(nobody, 202, denied) == denied.answer
    await changed(nobody, 202, name("x"))
    await changed(root, 202, name("s"))


async def test_a_success_stays_one_when_it_would_fail_now(stage: Stage) -> None:
    root = stage.root
    joined = await changed(root, 604, S + T + G)
    left = await changed(root, 605, S + T + G)
    assert await again(root, 605, left) == left.answer
    assert await again(root, 604, joined) == joined.answer
    (await root.ask(605, S + T + G)).expect(result(5006))  # it did not join again


async def test_the_largest_reply_is_repeated_whole(stage: Stage) -> None:
    root = stage.root
    first = await changed(root, 302, S + u32(1000) + name("large"))
    assert len(first.answer) > 40_000
    assert await again(root, 302, first) == first.answer


async def test_the_secret_of_a_token_is_told_once(stage: Stage) -> None:
    root = stage.root
    body = name("token") + FOREVER
    first = await changed(root, 42, body, checksum=checksum(body))
    assert first.body[1:].isascii()
    before = await position(root)
    for _ in range(2):
        (await root.exchange(42, first.request)).expect(result(51))
    assert await position(root) == before
    for n in range(4):
        await changed(root, 202, name(f"more {n}"))
    (await root.exchange(42, first.request)).expect(result(51))
    await changed(root, 202, name("one more"))
    (await root.exchange(42, first.request)).expect(result(59))


# --- Numbers -------------------------------------------------------------------------------------


async def test_numbers_may_have_gaps_and_reads_use_none_up(stage: Stage) -> None:
    root = stage.root
    for number in (50, 51, 1000, 2**63, 2**64 - 1):
        await changed(root, 202, name(f"n {number}"), request=number)
        await root.expect(EMPTY, 31, ident("missing"), request=1)


async def test_the_last_five_replies_are_kept_and_the_login_is_one_of_them(stage: Stage) -> None:
    async with stage.another("iggy", "iggy") as peer:
        done = [await changed(peer, 202, name(f"n {n}")) for n in range(5)]
        for each in done:
            assert await again(peer, 202, each) == each.answer
        done.append(await changed(peer, 202, name("n 5")))
        (await peer.exchange(202, done[0].request)).expect(result(59))
        for each in done[1:]:
            assert await again(peer, 202, each) == each.answer


@pytest.mark.parametrize("code", [202, 302, 402, 503, 33, 604])
async def test_what_was_applied_is_told_although_its_reply_is_forgotten(
    stage: Stage, code: int
) -> None:
    """The operation of the reply is that of the request, except for segments (spec 01, 3.3)."""
    root = stage.root
    body = dict(CHANGES)[code]
    first = await changed(root, code, body)
    for n in range(5):
        await changed(root, 202, name(f"n {n}"))
    told = await root.exchange(code, first.request)
    told.expect(result(59))
    assert told.answer[208] == {138: 68}.get(OPERATIONS[code], OPERATIONS[code])
    # So is a number that was passed over.
    skipped = await root.ask(202, name("late"), request=root.next_request + 5)
    assert skipped.answer[256:260] == UNCODED
    (await root.ask(202, name("never"))).expect(result(59))


async def test_another_body_under_the_same_number_is_refused(stage: Stage) -> None:
    root = stage.root
    one, other = name("one"), name("other")
    first = await changed(root, 202, one, checksum=checksum(one))
    number = root.next_request - 1
    second = await changed(root, 202, name("two"), checksum=checksum(name("two")))
    for same in (number, number + 1):
        refused = await root.ask(202, other, request=same, checksum=checksum(other))
        refused.expect(status(3))
    # Whoever tells no checksum is trusted.
    assert (await root.ask(202, other, request=number)).answer[256:] == first.answer[256:]
    assert await again(root, 202, second) == second.answer
    for _ in range(4):
        await changed(root, 602, S + T + name(f"g {root.next_request}"))
    await changed(root, 202, name("last"), checksum=checksum(name("last")))
    # Of the newest number the checksum is known even if its reply were not.
    refused = await root.ask(202, other, request=root.next_request - 1, checksum=checksum(other))
    refused.expect(status(3))


# --- What was not carried out is not remembered --------------------------------------------------


@pytest.mark.parametrize(
    ("code", "bad", "error", "good"),
    [
        (202, b"\xff", 3, name("new")),
        (202, name("new") + option("x", 2, b"y"), 4041, name("new")),
        (302, S + u32(1001) + name("new"), 2015, S + u32(1) + name("new")),
        (402, S + T + u32(0), 2015, S + T + u32(1)),
        (503, S, 3, S + T + u32(0) + u32(1)),
        (604, S, 3, S + T + G),
        (33, name("new") + name("xy") + u8(1) + NOTHING, 44, name("new") + name("xyz") + u8(1)),
    ],
)
async def test_a_refusal_leaves_the_number_free_and_comes_before_all_else(
    stage: Stage, code: int, bad: bytes, error: int, good: bytes
) -> None:
    root = stage.root
    good += NOTHING if code == 33 else b""
    number = root.next_request
    for _ in range(2):
        (await root.ask(code, bad, request=number)).expect(status(error))
    first = await changed(root, code, good, request=number)
    # Also where the number was used meanwhile, and where it is long gone.
    (await root.ask(code, bad, request=number)).expect(status(error))
    assert await again(root, code, first) == first.answer
    for n in range(5):
        await changed(root, 202, name(f"n {n}"), request=number + 1 + n)
    (await root.ask(code, bad, request=number)).expect(status(error))
    (await root.exchange(code, first.request)).expect(result(59))


async def test_a_full_number_of_tokens_is_told_also_to_who_asks_again(tmp_path: Path) -> None:
    tokens = {"max_tokens_per_user": 1}
    async with stage_of(tmp_path, personal_access_token=tokens) as stage:
        first = await changed(stage.root, 42, name("token") + FOREVER)
        for _ in range(2):
            (await stage.root.exchange(42, first.request)).expect(status(52))
        await changed(stage.root, 43, name("token"))
        (await stage.root.exchange(42, first.request)).expect(result(51))


async def test_a_wrong_checksum_is_told_before_the_number_is_looked_at(stage: Stage) -> None:
    first = await changed(stage.root, 202, name("new"))
    number = stage.root.next_request - 1
    (await stage.root.ask(202, name("new"), request=number, checksum=1)).expect(status(4))
    assert await again(stage.root, 202, first) == first.answer


async def test_what_has_to_wait_for_its_turn_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More passwords to be hashed than may wait: 58, and the same frame works later."""
    limits = {"login_threads": 1, "max_waiting_logins": 0}
    async with stage_of(tmp_path, limits=limits) as stage:
        gate = PasswordGate(monkeypatch)
        gate.close()
        body = name("first") + name("secret") + u8(1) + NOTHING
        async with stage.another() as other:
            busy = login_of(other)
            await other.wire.send(busy)
            await until(lambda: gate.count == 1)
            turned_away = await stage.root.ask(33, body)
            turned_away.expect(result(58))
            (await stage.root.exchange(33, turned_away.request)).expect(result(58))
            gate.open()
            await other.answer(40, busy)
            done = await stage.root.exchange(33, turned_away.request)
            assert done.answer[256:264] == u32(0) + u32(2)
            assert await again(stage.root, 33, done) == done.answer


def login_of(peer: Peer) -> bytes:
    return peer.request(40, login("iggy", "iggy"))


# --- A client id that moves, and one that ends ---------------------------------------------------


class JournalGate:
    """Holds up what is about to be made durable."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.arrived = 0
        self._is_open = asyncio.Event()
        append = SqliteJournal.append

        async def held(journal: SqliteJournal, entries: Sequence[Entry]) -> int:
            self.arrived += 1
            await self._is_open.wait()
            return await append(journal, entries)

        monkeypatch.setattr(SqliteJournal, "append", held)

    def open(self) -> None:
        self._is_open.set()

    def close(self) -> None:
        self.arrived = 0
        self._is_open.clear()


@pytest.fixture
def gate(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Iterator[JournalGate]:
    gate = JournalGate(monkeypatch)
    yield gate
    gate.open()


async def token_of(peer: Peer) -> str:
    return (await changed(peer, 42, name("to move") + FOREVER)).body[1:].decode()


async def move(new: Peer, old: Peer, token: str) -> None:
    """Log in on another connection under the same client id."""
    new.client, new.next_request = old.client, old.next_request
    told = await new.ask(45, token_login(token))
    assert told.answer[256:264] == u32(0) + u32(0)
    new.session = int.from_bytes(told.answer[264:272], "little")
    assert new.session > old.session


async def test_what_was_done_is_known_on_the_new_connection(stage: Stage) -> None:
    token = await token_of(stage.root)
    async with stage.another() as new:
        async with stage.another("iggy", "iggy") as old:
            first = await changed(old, 202, name("new"))
            await move(new, old, token)
            assert await again(new, 202, first) == first.answer
            (await old.exchange(202, first.request)).expect(eviction(1))
            await changed(new, 202, name("newer"))
        await stage.root.expect(EMPTY, 31, ident("missing"))
        assert await again(new, 202, first) == first.answer
        await changed(new, 202, name("newest"))


@pytest.mark.parametrize("leaves", [False, True], ids=["it stays", "it goes"])
async def test_a_change_in_progress_is_not_begun_a_second_time(
    stage: Stage, gate: JournalGate, *, leaves: bool
) -> None:
    """The connection is lost, or only thought to be, and the client asks again on a new one."""
    gate.open()
    token = await token_of(stage.root)
    gate.close()
    async with stage.another() as new, stage.another("iggy", "iggy") as old:
        request = old.request(202, name("slow"))
        await old.wire.send(request)
        await until(lambda: gate.arrived == 1)
        if leaves:
            old.wire.reset()
            await until(lambda: stage.server.events("disconnected"))
        await move(new, old, token)
        for code, frame in ((202, request), (203, new.request(203, S))):
            for _ in range(2):
                (await new.exchange(code, frame)).expect(result(57))
        gate.open()
        if not leaves:
            reply = (await old.answer(202, request)).answer
        else:
            reply = await settled(new, request)
        assert reply[256:260] == UNCODED
        assert await again(new, 202, Exchange(stage, 202, request, reply)) == reply
        assert gate.arrived == 1
        await changed(new, 202, name("next"))


async def settled(peer: Peer, request: bytes) -> bytes:
    """What is said to a request once it is no longer in progress."""
    while True:
        answer = (await peer.exchange(202, request)).answer
        if answer[264:268] != u32(57):
            return answer


async def test_another_user_does_not_get_a_client_id_while_something_is_in_progress(
    stage: Stage, gate: JournalGate
) -> None:
    gate.open()
    token = (await changed(stage.nobody, 42, name("t") + FOREVER)).body[1:].decode()
    gate.close()
    async with stage.another() as other:
        async with stage.another("iggy", "iggy") as old:
            other.client = old.client
            await old.wire.send(old.request(202, name("slow")))
            await until(lambda: gate.arrived == 1)
            old.wire.reset()
        await until(lambda: stage.server.events("disconnected"))
        await other.expect(eviction(12), 45, token_login(token))
        gate.open()
        async with asyncio.timeout(10):
            while (await other.ask(45, token_login(token))).answer[60] == 13:
                await asyncio.sleep(0)


@pytest.mark.parametrize("ending", ["logout", "disconnection"])
async def test_after_the_end_of_its_session_a_client_id_begins_anew(
    stage: Stage, ending: str
) -> None:
    async with stage.another() as new:
        async with stage.another("iggy", "iggy") as old:
            first = await changed(old, 202, name("new"))
            client = old.client
            if ending == "logout":
                await old.expect(EMPTY, 39)
        await until(lambda: stage.server.events("disconnected"))
        new.client = client
        told = await new.ask(40, login("iggy", "iggy"))
        new.session = int.from_bytes(told.answer[264:272], "little")
        (await new.exchange(202, first.request)).expect(result(1012))


# --- Room for sessions ---------------------------------------------------------------------------


async def test_who_got_no_answer_for_longest_makes_room(tmp_path: Path) -> None:
    """Two clients may change metadata; a third one logs in (spec 01, 6.4)."""
    async with stage_of(tmp_path, sessions={"max_clients": 2}) as stage:
        root, nobody = stage.root, stage.nobody
        first = await changed(root, 202, name("s"))
        async with stage.another("iggy", "iggy") as third:
            await changed(third, 302, S + u32(1) + name("t"))
            for code, body in ((43, name("token")), (42, name("token") + FOREVER)):
                (await nobody.ask(code, body)).expect(eviction(1))
            # The connection is still logged in: it reads and writes, and logs in anew.
            await nobody.expect(status(41), 201)
            token = (await changed(root, 42, name("token") + FOREVER)).body[1:].decode()
            assert await again(root, 202, first) == first.answer
            async with stage.another() as moved:
                await changed(third, 202, name("third"))
                await move(moved, third, token)  # takes no more room than it had
                assert await again(root, 202, first) == first.answer
                await nobody.log_in("nobody", "secret")  # the same session: it is bound already
                (await nobody.ask(43, name("token"))).expect(eviction(1))


async def test_a_client_that_lost_its_session_sends_on_and_runs_nothing_twice(
    tmp_path: Path,
) -> None:
    async with stage_of(tmp_path, sessions={"max_clients": 2}) as stage:
        root = stage.root
        first = await changed(root, 202, name("s"))
        token = (await changed(root, 42, name("token") + FOREVER)).body[1:].decode()
        await changed(root, 302, S + u32(1) + name("t"))
        async with stage.another("iggy", "iggy"), stage.another("iggy", "iggy"):
            (await root.exchange(202, first.request)).expect(eviction(1))
            sent = await root.ask(101, send("s", "t", to_partition(0), 1, batch(b"x")))
            assert sent.body[:4] == u32(1)
            assert len((await root.ask(201)).body) > 0
            async with stage.another() as moved:
                await move(moved, root, token)
                (await moved.exchange(202, first.request)).expect(result(59))
                await changed(moved, 202, name("next"))


async def test_replies_take_no_more_memory_than_they_may(tmp_path: Path) -> None:
    async with stage_of(tmp_path, sessions={"reply_memory": 10_000}) as stage:
        root = stage.root
        first = await changed(root, 202, name("s"))
        assert await again(root, 202, first) == first.answer
        large = await changed(root, 302, S + u32(1000) + name("t"))
        for done in (first, large):
            (await root.exchange(202, done.request)).expect(result(59))
        after = await changed(root, 202, name("after"))
        assert await again(root, 202, after) == after.answer
