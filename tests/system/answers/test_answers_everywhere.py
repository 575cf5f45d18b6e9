"""Answers that many commands have in common (spec 01, 1.3, 5.7 and 6; spec 02, 3)."""

import resource
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
import pytest_asyncio

from support.by_hand import (
    READ,
    batch,
    checksum,
    group,
    ident,
    login,
    name,
    partition,
    poll,
    send,
    single,
    to_partition,
    token_login,
    u8,
    u32,
    u64,
)
from support.exchange import (
    EMPTY,
    Peer,
    Stage,
    answers,
    eviction,
    open_stage,
    result,
    status,
    success,
)
from support.password_gate import PasswordGate
from support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

S, T, G = ident("s"), ident("t"), ident("g")
TOPIC = S + T
WHERE = single(7) + TOPIC + partition(0)
POLL = poll(single(7), "s", "t", 0, commit=1)

READS = {
    1: b"",
    10: b"",
    11: bytes([1, 1, 4]),
    12: b"",
    13: u8(1),
    14: bytes(32),
    20: b"",
    21: u32(1),
    22: b"",
    31: ident("iggy"),
    32: b"",
    41: b"",
    100: POLL,
    102: TOPIC + u32(0) + u8(1),
    103: POLL,
    104: POLL,
    120: WHERE,
    123: WHERE,
    200: S,
    201: b"",
    300: TOPIC,
    301: S,
    600: TOPIC + G,
    601: TOPIC,
    606: TOPIC + G,
}
PARTITION_WRITES = {
    101: send("s", "t", to_partition(0), 1, batch(b"x")),
    121: WHERE + u64(0) + u8(1),
    122: WHERE + u8(1),
}
USER = name("secret") + u8(1) + b"\x00"
Test = TypeVar("Test", bound=Callable[..., Any])
Requests = list[tuple[int, bytes]]
CHANGES: dict[int, tuple[Requests, bytes]] = {
    33: ([], name("user 33") + USER),
    34: ([(33, name("user 34") + USER)], ident("user 34")),
    35: ([(33, name("user 35") + USER)], ident("user 35") + b"\x01" + name("was 35") + b"\x00"),
    36: ([(33, name("user 36") + USER)], ident("user 36") + b"\x00"),
    37: ([(33, name("user 37") + USER)], ident("user 37") + name("secret") + name("secret 2")),
    42: ([], name("token 42") + u64(0)),
    43: ([(42, name("token 43") + u64(0))], name("token 43")),
    202: ([], name("stream 202")),
    203: ([(202, name("stream 203"))], ident("stream 203")),
    204: ([(202, name("stream 204"))], ident("stream 204") + name("was 204")),
    205: ([], S),
    302: ([], S + u32(2) + name("topic 302")),
    303: ([(302, S + u32(2) + name("topic 303"))], S + ident("topic 303")),
    304: ([(302, S + u32(0) + name("topic 304"))], S + ident("topic 304") + name("was 304")),
    305: ([], TOPIC),
    402: ([], TOPIC + u32(1)),
    403: ([], TOPIC + u32(1)),
    503: ([], TOPIC + u32(0) + u32(1)),
    602: ([], TOPIC + name("group 602")),
    603: ([(602, TOPIC + name("group 603"))], TOPIC + ident("group 603")),
    604: ([], TOPIC + G),
    605: ([(604, TOPIC + G)], TOPIC + G),
}
"""Changes of metadata that can be made once, and what has to be done before."""

WRITES = PARTITION_WRITES | {code: body for code, (_, body) in CHANGES.items()}
IN_MEMORY = {503, 604, 605}
"""Changes that leave no trace in the journal."""


def each(codes: Iterable[int], *texts: str) -> pytest.MarkDecorator:
    """Run a test for each command; it proves these answers of each."""
    params = [pytest.param(code, marks=answers(code, *texts), id=str(code)) for code in codes]
    return pytest.mark.parametrize("code", params)


def all_of(codes: Iterable[int], *texts: str) -> Callable[[Test], Test]:
    """Say that a test proves these answers of all these commands."""

    def mark(test: Test) -> Test:
        for code in codes:
            test = answers(code, *texts)(test)
        return test

    return mark


async def fill(stage: Stage) -> None:
    root = stage.root
    await root.ask(202, name("s"))
    await root.ask(302, S + u32(3) + name("t"))
    await root.ask(602, TOPIC + name("g"))
    await root.ask(101, PARTITION_WRITES[101])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(empty_stage: Stage) -> AsyncIterator[Stage]:
    """A stream `s` with a topic `t` with a group `g` and one message."""
    await fill(empty_stage)
    yield empty_stage


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def writer(stage: Stage) -> AsyncIterator[Peer]:
    """Another connection of root, which numbers its requests as it likes."""
    async with stage.another("iggy", "iggy") as peer:
        yield peer


# --- Before a login ------------------------------------------------------------------------------


@each(READS.keys() - {1}, "status 40")
async def test_reads_of_strangers(stage: Stage, code: int) -> None:
    for body in (READS[code], b""):
        await stage.stranger.expect(status(40), code, body)
    await stage.stranger.expect(EMPTY, 1)


@each(WRITES, "eviction 1")
async def test_writes_of_strangers(stage: Stage, code: int) -> None:
    for body in (WRITES[code], b""):
        await stage.stranger.expect(eviction(1), code, body, session=1)
    await stage.stranger.expect(EMPTY, 1)


@pytest.mark.parametrize("code", [0, 2, 15, 16, 17, 46, 105, 106, 9000, 9100, 60_000, 2**32 - 1])
async def test_codes_that_mean_nothing(stage: Stage, code: int) -> None:
    await stage.stranger.expect(status(40), code)
    await stage.root.expect(status(3), code, b"whatever")
    await stage.nobody.expect(status(3), code)


@pytest.mark.parametrize("operation", [64, 65, 66, 67, 68])
async def test_operations_of_the_server_itself(stage: Stage, operation: int) -> None:
    await stage.stranger.expect(eviction(1), 0, name("x"), operation=operation, session=1)
    await stage.root.expect(eviction(4), 0, name("x"), operation=operation)
    await stage.root.expect(EMPTY, 1)


# --- Frames (spec 01, 1.3) -----------------------------------------------------------------------


@each(READS.keys() | WRITES.keys(), "status 4")
async def test_a_checksum_of_something_else(stage: Stage, code: int) -> None:
    body = (READS | WRITES)[code]
    wrong = checksum(body) ^ 1
    for peer in (stage.root, stage.nobody, stage.stranger):
        await peer.expect(status(4), code, body, checksum=wrong, session=1)
        await peer.expect(status(4), code, b"\xff", checksum=wrong, session=1)


@each(WRITES, "status 5")
async def test_writes_sent_as_reads(stage: Stage, code: int) -> None:
    for peer in (stage.root, stage.nobody):
        await peer.expect(status(5), code, WRITES[code], operation=READ)
    await stage.stranger.expect(status(40), code, WRITES[code], operation=READ)


@each(WRITES, "status 3")
async def test_writes_without_their_numbers(stage: Stage, code: int) -> None:
    for fields in ({"session": 0}, {"request": 0}, {"client": bytes(16)}):
        await stage.root.expect(status(3), code, WRITES[code], **fields)
        await stage.stranger.expect(status(3), code, WRITES[code], **({"session": 1} | fields))


@pytest.mark.parametrize("operation", [0, 4, 63, 69, 127, 150, 159, 163, 255])
async def test_operations_that_mean_nothing(stage: Stage, operation: int) -> None:
    for peer in (stage.root, stage.stranger):
        await peer.expect(status(3), 0, b"whatever", operation=operation, session=1)


async def test_logins_with_numbers(stage: Stage) -> None:
    for fields in ({"session": 1}, {"request": 1}, {"client": bytes(16)}):
        await stage.stranger.expect(status(3), 40, login("iggy", "iggy"), **fields)
    await stage.stranger.expect(status(40), 20)


@pytest.mark.parametrize("kind", [*range(5), *range(6, 30)])
async def test_frames_of_replicas_are_dropped(stage: Stage, kind: int) -> None:
    for peer in (stage.root, stage.stranger):
        await peer.wire.send(peer.request(202, name("dropped"), kind=kind, session=1))
        await peer.expect(EMPTY, 1)
    await stage.root.expect(EMPTY, 200, ident("dropped"))


@pytest.mark.parametrize(
    "fields", [{"kind": 30}, {"kind": 255}, {"size": 0}, {"size": 255}, {"size": (64 << 20) + 1}]
)
async def test_frames_that_end_the_connection(stage: Stage, fields: dict[str, int]) -> None:
    async with stage.another("iggy", "iggy") as peer:
        await peer.wire.send(peer.request(1, **fields))
        with pytest.raises(EOFError):
            await peer.wire.receive()


# --- Repeated changes (spec 01, 6.5) -------------------------------------------------------------


async def prepared(peer: Peer, code: int) -> bytes:
    """A change whose way is free."""
    before, body = CHANGES[code]
    for other, other_body in before:
        told = await peer.ask(other, other_body)
        told.expect(success(told.body))
    return body


@each(CHANGES, "replay")
async def test_a_repeated_change(writer: Peer, code: int) -> None:
    """The same bytes come again, and nothing is done; but a secret is told only once."""
    body = await prepared(writer, code)
    frame = writer.request(code, body, checksum=checksum(body))
    first = await writer.exchange(code, frame)
    first.expect(success(first.body))
    for _ in range(2):
        again = await writer.exchange(code, frame)
        if code == 42:
            again.expect(result(51))
        else:
            assert again.answer == first.answer
    # The same number for something else.
    number = writer.next_request - 1
    other = name("something else")
    await writer.expect(status(3), 202, other, request=number, checksum=checksum(other))


@each(CHANGES, "replay of a rejection")
async def test_a_repeated_rejection(stage: Stage, code: int) -> None:
    body = {
        **{code: ident("missing") for code in (34, 203, 205)},
        33: name("nobody") + USER,
        35: ident("missing") + bytes(2),
        36: ident("missing") + bytes(1),
        37: ident("missing") + name("secret") + name("secret"),
        42: name("x") + u64(2**64 - 2),
        43: name("missing"),
        202: name("s"),
        204: ident("missing") + name("x"),
        302: S + u32(1) + name("t"),
        602: TOPIC + name("g"),
    }.get(code, ident("missing") + T)
    if code == 304:
        body += name("x")
    elif code > 400 and code != 602:
        body += {402: u32(1), 403: u32(1), 503: bytes(8)}.get(code, G)
    frame = stage.root.request(code, body)
    first = await stage.root.exchange(code, frame)
    told = int.from_bytes(first.answer[264:], "little")
    first.expect(result(told))
    assert (await stage.root.exchange(code, frame)).answer == first.answer


@each(CHANGES, "result 59")
async def test_an_old_number_whose_reply_is_gone(writer: Peer, code: int) -> None:
    writer.next_request += 2
    old = writer.next_request - 1
    await writer.expect(result(1012), 202, name("s"))
    await writer.expect(result(59), code, CHANGES[code][1], request=old)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def dropped(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """A server with room for two clients, where root had to make way for others."""
    settings = {"sessions": {"max_clients": 2}}
    async with AsyncExitStack() as stack:
        folder = tmp_path_factory.mktemp("crowded")
        stage = await stack.enter_async_context(open_stage(folder, settings))
        await fill(stage)
        for _ in range(2):
            await stack.enter_async_context(stage.another("iggy", "iggy"))
        yield stage


@each(CHANGES, "eviction 1 when dropped")
async def test_a_client_that_had_to_make_way(dropped: Stage, code: int) -> None:
    await dropped.root.expect(eviction(1), code, CHANGES[code][1])
    # That is about changes of metadata only.
    await dropped.root.expect(status(5009), 123, group("g") + TOPIC + partition(0))
    told = await dropped.root.ask(101, PARTITION_WRITES[101])
    told.expect(success(told.body))


@all_of(CHANGES, "result 57")
async def test_changes_while_another_is_being_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a client that takes its own id over meets itself (spec 01, 6.5, step 2)."""
    async with open_stage(tmp_path) as stage:
        await fill(stage)
        token = (await stage.root.ask(42, name("take over") + u64(0))).body[1:].decode()
        async with stage.another("iggy", "iggy") as first, stage.another() as second:
            slow = first.request(33, name("too late") + USER)
            with passwords_held_up(monkeypatch) as gate:
                await first.wire.send(slow)
                await until(lambda: gate.count == 1)
                second.client = first.client
                told = await second.ask(45, token_login(token))
                second.session = int.from_bytes(told.answer[264:272], "little")
                second.next_request = first.next_request
                for code, (_, body) in CHANGES.items():
                    await second.expect(result(57), code, body)
            (await first.answer(33, slow)).expect(eviction(1))
            await second.expect(result(1012), 202, name("s"))
            await second.expect(EMPTY, 31, ident("too late"))


@contextmanager
def passwords_held_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[PasswordGate]:
    gate = PasswordGate(monkeypatch)
    gate.close()
    try:
        yield gate
    finally:
        gate.open()


# --- When the server cannot ----------------------------------------------------------------------


@contextmanager
def a_full_disk() -> Iterator[None]:
    """No file of this process can be written."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@all_of([100, 101, 104, 121, 122], "status 58")
@answers(503, "result 58")
async def test_a_full_disk(stage: Stage) -> None:
    """Nothing is done, and all of it can be repeated once there is room."""
    root = stage.root
    topic = S + ident("long")
    segments = b"\x02" + u32(12) + b"segment_size\x0c" + u32(8) + u64(1 << 20)
    await root.ask(302, S + u32(2) + name("long") + segments)
    for partition_id in range(2):
        messages = batch(bytes(1 << 20))
        await root.ask(101, send("s", "long", to_partition(partition_id), 1, messages))
    await root.ask(14, root.client + u64(root.session) + u64(0))
    place = partition(1)
    await root.expect(EMPTY, 121, single(1) + topic + place + u64(0) + u8(1))
    requests = [
        (code, root.request(code, body), expected)
        for code, body, expected in (
            (100, poll(single(2), "s", "long", 1, commit=1), status(58)),
            (101, send("s", "long", to_partition(1), 1, batch(b"x")), status(58)),
            (104, poll(single(3), "s", "long", 1, commit=1), status(58)),
            (121, single(4) + topic + place + u64(0) + u8(1), status(58)),
            (122, single(1) + topic + place + u8(1), status(58)),
            (503, topic + u32(0) + u32(1), result(58)),
        )
    ]
    with a_full_disk():
        for code, frame, expected in requests * 2:
            (await root.exchange(code, frame)).expect(expected)
    for code, frame, _ in requests:
        told = await root.exchange(code, frame)
        told.expect(success(told.body))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stuck(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """A server whose journal failed half-way: it takes no changes until it is started anew."""
    async with open_stage(tmp_path_factory.mktemp("stuck")) as stage:
        await fill(stage)
        for code in CHANGES:
            await prepared(stage.root, code)
        with a_full_disk():
            await stage.root.expect(status(1), 202, name("x"))
        yield stage


@each(CHANGES.keys() - IN_MEMORY, "result 58")
async def test_a_journal_that_failed(stuck: Stage, code: int) -> None:
    frame = stuck.root.request(code, CHANGES[code][1])
    for _ in range(2):  # not executed, so it may be repeated as it is
        (await stuck.root.exchange(code, frame)).expect(result(58))


@answers(40, "result 58")
@answers(33, "result 58")
async def test_too_many_passwords_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"limits": {"login_threads": 1, "max_waiting_logins": 1}}
    async with open_stage(tmp_path, settings) as stage, AsyncExitStack() as stack:
        crowd = [await stack.enter_async_context(stage.another()) for _ in range(4)]
        frames = [peer.request(40, login("iggy", "wrong")) for peer in crowd]
        with passwords_held_up(monkeypatch) as gate:
            await crowd[0].wire.send(frames[0])
            await until(lambda: gate.count == 1)
            await crowd[1].wire.send(frames[1])  # waits
            for _ in range(2):  # what was sent before is begun when the second of them is answered
                await stage.root.expect(EMPTY, 1)
            for peer, frame in zip(crowd[2:], frames[2:], strict=True):
                (await peer.exchange(40, frame)).expect(result(58))
            user = stage.root.request(33, name("new") + USER)
            (await stage.root.exchange(33, user)).expect(result(58))
        for peer, frame in zip(crowd[:2], frames[:2], strict=True):
            (await peer.answer(40, frame)).expect(eviction(9))
        (await stage.root.exchange(33, user)).expect(
            success((await stage.root.ask(31, ident("new"))).body)
        )
