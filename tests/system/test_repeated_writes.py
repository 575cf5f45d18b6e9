"""Writes to partitions that a client repeats, byte by byte (spec 01, 6.6; spec 04, 1)."""

import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.by_hand import (
    BALANCED,
    batch,
    by_key,
    group,
    ident,
    login,
    long_text,
    name,
    option,
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
from support.exchange import EMPTY, Exchange, Peer, Stage, eviction, open_stage, status, success
from support.waiting import until

S, T = ident("s"), ident("t")
NOT_REPEATED = success(u32(0))
ME = single("me")


@asynccontextmanager
async def stage_of(folder: Path, **settings: Any) -> AsyncIterator[Stage]:
    """The stream `s` with the topic `t` of three partitions."""
    async with open_stage(folder, settings or None) as stage:
        await stage.root.ask(202, name("s"))
        await stage.root.ask(302, S + u32(3) + name("t"))
        yield stage


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with stage_of(tmp_path) as stage:
        yield stage


@pytest.fixture
async def peer(stage: Stage) -> AsyncIterator[Peer]:
    async with stage.another("iggy", "iggy") as peer:
        yield peer


def message_to(number: int, text: bytes = b"x") -> bytes:
    return send("s", "t", to_partition(number), 1, batch(text))


async def sent(peer: Peer, body: bytes, *, offset: int, to: int = 0, **fields: Any) -> Exchange:
    """A send that is appended."""
    done = await peer.ask(101, body, **fields)
    done.expect(success(u32(1) + u32(0) + u32(0) + u32(to) + u64(offset)))
    return done


async def repeat(peer: Peer, code: int, first: Exchange) -> Exchange:
    return await peer.exchange(code, first.request)


async def count(stage: Stage, number: int = 0, topic: str = "t") -> int:
    """Messages of a partition."""
    polled = await stage.root.ask(100, poll(ME, "s", topic, number, count=10_000))
    return int.from_bytes(polled.body[12:16], "little")


async def stored(stage: Stage, consumer: bytes = ME) -> int | None:
    body = (await stage.root.ask(120, consumer + S + T + partition(0))).body
    return int.from_bytes(body[12:20], "little") if body else None


def store(offset: int, *, consumer: bytes = ME, ack: int = 1) -> bytes:
    return consumer + S + T + partition(0) + u64(offset) + u8(ack)


def delete(*, ack: int = 1) -> bytes:
    return ME + S + T + partition(0) + u8(ack)


# --- Sends ---------------------------------------------------------------------------------------


async def test_a_repeated_send_is_not_appended_and_its_place_is_not_told(
    stage: Stage, peer: Peer
) -> None:
    first = await sent(peer, message_to(0), offset=0)
    for _ in range(3):
        (await repeat(peer, 101, first)).expect(NOT_REPEATED)
    second = await sent(peer, message_to(0), offset=1)
    for each in (first, second):
        (await repeat(peer, 101, each)).expect(NOT_REPEATED)
    assert await count(stage) == 2


async def test_a_number_is_recognised_whatever_is_sent_under_it(stage: Stage, peer: Peer) -> None:
    await sent(peer, message_to(0), offset=0, request=7)
    for body in (message_to(0, b"another"), send("s", "t", to_partition(0), 1, b"no batch")):
        (await peer.ask(101, body, request=7)).expect(NOT_REPEATED)
    assert await count(stage) == 1


async def test_each_partition_counts_for_itself(stage: Stage, peer: Peer) -> None:
    for number in (0, 1, 2):
        await sent(peer, message_to(number), offset=0, to=number, request=7)
    for number in (0, 1, 2):
        (await peer.ask(101, message_to(number), request=7)).expect(NOT_REPEATED)
        assert await count(stage, number) == 1


async def test_a_key_leads_to_the_same_partition(stage: Stage, peer: Peer) -> None:
    body = send("s", "t", by_key(b"user-42"), 1, batch(b"x"))
    await sent(peer, body, offset=0, to=2, request=7)
    (await peer.ask(101, body, request=7)).expect(NOT_REPEATED)


async def test_128_numbers_are_told_apart(stage: Stage, peer: Peer) -> None:
    await sent(peer, message_to(0), offset=0, request=1000)
    for old in (1, 871, 872):
        (await peer.ask(101, message_to(0), request=old)).expect(NOT_REPEATED)
    for offset, late in enumerate((873, 999, 900, 1001, 874), start=1):
        await sent(peer, message_to(0), offset=offset, request=late)
        (await peer.ask(101, message_to(0), request=late)).expect(NOT_REPEATED)
    (await peer.ask(101, message_to(0), request=873)).expect(NOT_REPEATED)
    await sent(peer, message_to(0), offset=6, request=2**64 - 1)
    (await peer.ask(101, message_to(0), request=1002)).expect(NOT_REPEATED)
    assert await count(stage) == 7


async def test_clients_do_not_disturb_each_other(stage: Stage, peer: Peer) -> None:
    await sent(peer, message_to(0), offset=0, request=7)
    async with stage.another("iggy", "iggy") as other:
        await sent(other, message_to(0), offset=1, request=7)
        # What a frame says of its client is not believed.
        (await other.ask(101, message_to(0), request=7, client=b"\x09" * 16)).expect(NOT_REPEATED)
    # The same client id of another user: it is free, since its session has ended.
    async with stage.another() as nobody:
        await stage.root.ask(36, ident("nobody") + u8(1) + u32(11) + bytes(9) + b"\x01\x00")
        await peer.expect(EMPTY, 39)
        nobody.client = peer.client
        told = await nobody.ask(40, login("nobody", "secret"))
        nobody.session = int.from_bytes(told.answer[264:272], "little")
        await sent(nobody, message_to(0), offset=2, request=7)


async def test_a_client_id_that_goes_on_elsewhere_is_recognised(stage: Stage, peer: Peer) -> None:
    first = await sent(peer, message_to(0), offset=0)
    async with stage.another() as new:
        new.client, new.next_request = peer.client, peer.next_request
        told = await new.ask(40, login("iggy", "iggy"))
        new.session = int.from_bytes(told.answer[264:272], "little")
        (await repeat(new, 101, first)).expect(NOT_REPEATED)
        (await repeat(peer, 101, first)).expect(eviction(1))
        await sent(new, message_to(0), offset=1)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (message_to(9), 20),
        (send("s", "missing", to_partition(0), 1, batch(b"x")), 20),
        (send("s", "t", to_partition(0), 1, b"no batch"), 3),
        (b"", 20),
    ],
)
async def test_what_was_refused_may_be_sent_under_the_same_number(
    stage: Stage, peer: Peer, body: bytes, error: int
) -> None:
    for _ in range(2):
        (await peer.ask(101, body, request=7)).expect(status(error))
    await sent(peer, message_to(0), offset=0, request=7)
    (await peer.ask(101, body, request=7)).expect(status(error) if error == 20 else NOT_REPEATED)


async def test_whoever_may_not_send_hears_that_first(stage: Stage) -> None:
    permit = ident("nobody") + u8(1) + u32(11)
    await stage.root.ask(36, permit + bytes(9) + b"\x01\x00")
    first = await sent(stage.nobody, message_to(0), offset=0)
    await stage.root.ask(36, ident("nobody") + u8(0))
    (await repeat(stage.nobody, 101, first)).expect(status(41))


async def test_a_purge_and_a_new_topic_of_the_same_id_begin_anew(stage: Stage, peer: Peer) -> None:
    first = await sent(peer, message_to(0), offset=0)
    for code, body in ((305, S + T), (205, S)):
        assert (await stage.root.ask(code, body)).body == b""
        (await repeat(peer, 101, first)).expect(success(u32(1) + bytes(12) + u64(0)))
        (await repeat(peer, 101, first)).expect(NOT_REPEATED)
        assert await count(stage) == 1
    await stage.root.ask(303, S + T)
    await stage.root.ask(302, S + u32(1) + name("t"))
    (await repeat(peer, 101, first)).expect(success(u32(1) + bytes(12) + u64(0)))


async def test_changes_of_metadata_and_sends_share_numbers_and_no_memory(
    stage: Stage, peer: Peer
) -> None:
    await sent(peer, message_to(0), offset=0, request=9)
    assert (await peer.ask(202, name("a"), request=3)).answer[256:260] == u32(0)
    await sent(peer, message_to(1), offset=0, to=1, request=2)
    (await peer.ask(101, message_to(0), request=9)).expect(NOT_REPEATED)


# --- Offsets -------------------------------------------------------------------------------------


async def test_a_repeated_offset_is_not_stored_again(stage: Stage, peer: Peer) -> None:
    for offset in range(5):
        await sent(peer, message_to(0), offset=offset)
    first = await peer.ask(121, store(4))
    first.expect(EMPTY)
    (await peer.ask(121, store(2))).expect(EMPTY)
    (await repeat(peer, 121, first)).expect(EMPTY)
    assert await stored(stage) == 2
    deleted = await peer.ask(122, delete())
    deleted.expect(EMPTY)
    for each in ((121, first), (122, deleted)):
        (await repeat(peer, *each)).expect(EMPTY)
    assert await stored(stage) is None
    (await peer.ask(122, delete())).expect(status(3021))
    (await peer.ask(121, store(1))).expect(EMPTY)
    (await repeat(peer, 122, deleted)).expect(EMPTY)
    assert await stored(stage) == 1


async def test_what_nobody_acknowledges_is_not_remembered(stage: Stage, peer: Peer) -> None:
    for offset in range(3):
        await sent(peer, message_to(0), offset=offset)
    first = await peer.ask(121, store(2, ack=0))
    first.expect(EMPTY)
    (await peer.ask(121, store(1, ack=0))).expect(EMPTY)
    (await repeat(peer, 121, first)).expect(EMPTY)
    assert await stored(stage) == 2
    deleted = await peer.ask(122, delete(ack=0))
    deleted.expect(EMPTY)
    (await repeat(peer, 122, deleted)).expect(status(3021))


async def test_refused_offsets_may_come_again(stage: Stage, peer: Peer) -> None:
    (await peer.ask(121, store(0), request=7)).expect(status(4100))
    (await peer.ask(122, delete(), request=7)).expect(status(3021))
    await sent(peer, message_to(0), offset=0, request=8)
    (await peer.ask(121, store(0), request=7)).expect(EMPTY)
    (await peer.ask(121, store(9), request=7)).expect(EMPTY)  # that number was carried out
    assert await stored(stage) == 0


async def test_sends_and_offsets_share_their_numbers(stage: Stage, peer: Peer) -> None:
    """All writes to a partition are known by one number, whichever they are."""
    await sent(peer, message_to(0), offset=0, request=7)
    (await peer.ask(121, store(0), request=7)).expect(EMPTY)
    assert await stored(stage) is None


async def test_a_member_that_lost_its_partition_hears_that_first(stage: Stage, peer: Peer) -> None:
    await stage.root.ask(602, S + T + name("g"))
    await sent(peer, message_to(0), offset=0)
    await peer.ask(604, S + T + ident("g"))
    first = await peer.ask(121, store(0, consumer=group("g")))
    first.expect(EMPTY)
    (await repeat(peer, 121, first)).expect(EMPTY)
    await peer.ask(605, S + T + ident("g"))
    (await repeat(peer, 121, first)).expect(status(5009))


# --- Waiting for the disk ------------------------------------------------------------------------


class Disk:
    """Holds up everything that is to be synced, or lets it fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_open = threading.Event()
        self.is_open.set()
        self.failure: OSError | None = None
        self.syncs = 0
        sync = os.fdatasync

        def held(descriptor: int) -> None:
            self.syncs += 1
            assert self.is_open.wait(10)
            if self.failure is not None:
                raise self.failure
            sync(descriptor)

        monkeypatch.setattr(os, "fdatasync", held)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk(monkeypatch)
    yield disk
    disk.is_open.set()


PERSISTED = option("consumer_offset_durability", 2, b"persisted") + option(
    "durability", 2, b"persisted"
)


@asynccontextmanager
async def moving(stage: Stage) -> AsyncIterator[tuple[Peer, Callable[[], Awaitable[Peer]]]]:
    """A client, and what moves it to another connection without a password to be verified."""
    token = (await stage.root.ask(42, name("token") + u64(2**64 - 1))).body[1:].decode()
    async with stage.another("iggy", "iggy") as old, stage.another() as new:

        async def move() -> Peer:
            new.client, new.next_request = old.client, old.next_request
            told = await new.ask(45, token_login(token))
            new.session = int.from_bytes(told.answer[264:272], "little")
            return new

        yield old, move


@pytest.mark.parametrize("fails", [False, True], ids=["synced", "failed"])
async def test_who_repeats_a_send_waits_for_the_disk_as_well(
    stage: Stage, disk: Disk, *, fails: bool
) -> None:
    await stage.root.ask(302, S + u32(1) + name("safe") + PERSISTED)
    body = send("s", "safe", to_partition(0), 1, batch(b"x"))
    async with moving(stage) as (old, move):
        disk.is_open.clear()
        disk.syncs = 0
        request = old.request(101, body)
        await old.wire.send(request)
        await until(lambda: disk.syncs == 1)
        new = await move()
        await new.wire.send(request)
        with pytest.raises(TimeoutError):
            await new.wire.receive(0.1)
        assert await count(stage, topic="safe") == 0
        disk.failure = OSError(5, "Input/output error") if fails else None
        disk.is_open.set()
        first, second = await old.answer(101, request), await new.answer(101, request)
        if fails:
            for each in (first, second, await new.exchange(101, request)):
                each.expect(status(4010))
            return
        first.expect(success(u32(1) + u32(0) + u32(1) + u32(0) + u64(0)))
        second.expect(NOT_REPEATED)
        (await new.exchange(101, request)).expect(NOT_REPEATED)
        assert await count(stage, topic="safe") == 1


async def test_who_repeats_an_offset_waits_for_the_disk_as_well(stage: Stage, disk: Disk) -> None:
    await stage.root.ask(302, S + u32(1) + name("safe") + PERSISTED)
    await stage.root.ask(101, send("s", "safe", to_partition(0), 1, batch(b"x")))
    body = ME + S + ident("safe") + partition(0) + u64(0) + u8(1)
    async with moving(stage) as (old, move):
        disk.is_open.clear()
        disk.syncs = 0
        request = old.request(121, body)
        await old.wire.send(request)
        await until(lambda: disk.syncs == 1)
        new = await move()
        await new.wire.send(request)
        with pytest.raises(TimeoutError):
            await new.wire.receive(0.1)
        disk.is_open.set()
        (await old.answer(121, request)).expect(EMPTY)
        (await new.answer(121, request)).expect(EMPTY)


# --- Settings, and clients that number nothing ---------------------------------------------------


async def test_without_memory_everything_is_appended(tmp_path: Path) -> None:
    async with stage_of(tmp_path, partition={"dedup_clients": 0}) as stage:
        first = await sent(stage.root, message_to(0), offset=0)
        for offset in (1, 2):
            (await repeat(stage.root, 101, first)).expect(success(u32(1) + bytes(12) + u64(offset)))


async def test_who_was_idle_longest_is_forgotten(tmp_path: Path) -> None:
    async with stage_of(tmp_path, partition={"dedup_clients": 1}) as stage:
        first = await sent(stage.root, message_to(0), offset=0)
        (await repeat(stage.root, 101, first)).expect(NOT_REPEATED)
        async with stage.another("iggy", "iggy") as other:
            await sent(other, message_to(0), offset=1)
        (await repeat(stage.root, 101, first)).expect(success(u32(1) + bytes(12) + u64(2)))


async def test_clients_from_before_the_release_send_all_under_one_number(stage: Stage) -> None:
    """As the Python client 0.9.0.dev6 does, which tells the version `0.11.0-edge.6`."""
    async with stage.another() as early:
        version = u32(11 << 10) + name("rust-sdk") + name("0.11.0-edge.6")
        body = version + name("iggy") + name("iggy") + long_text("")
        early.session = int.from_bytes((await early.ask(40, body)).answer[264:272], "little")
        for offset in range(3):
            await sent(early, message_to(0), offset=offset, request=3)
        assert await count(stage) == 3
        for offset in (2, 1):
            (await early.ask(121, store(offset), request=3)).expect(EMPTY)
            assert await stored(stage) == offset
        # Its changes of metadata are numbered as everybody's are.
        first = await early.ask(202, name("new"), request=4)
        assert (await early.exchange(202, first.request)).answer == first.answer


async def test_round_robin_takes_the_next_partition_whatever_the_number(stage: Stage) -> None:
    """Each partition knows its own writes only; official clients choose partitions themselves."""
    body = send("s", "t", BALANCED, 1, batch(b"x"))
    for number in (0, 1, 2):
        await sent(stage.root, body, offset=0, to=number, request=50)
    (await stage.root.ask(101, body, request=50)).expect(NOT_REPEATED)
