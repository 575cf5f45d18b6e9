"""A crash before any single change of the file system loses nothing that was acknowledged.

Each test lives a short life over and over again, dies before its first, second, third change and
so on, and looks at what a new life finds. Power that fails takes along what was not synced; what
else reached the disk is a matter of luck, which is tried several times for each change.
"""

import asyncio
import contextlib
import secrets
from dataclasses import dataclass, field
from random import Random

import pytest

from support.log import (
    KEY,
    NOW,
    Harness,
    MemoryFiles,
    append,
    fetch,
    messages_of,
    read,
    trim,
)
from windsprite_protocol.topic_options import Durability
from windsprite_server.log.errors import LogError
from windsprite_server.log.keys import LogLimits, PartitionKey, PartitionOptions

BATCHES = 14
OTHER = PartitionKey(1, 2, 3, 41)
REPLICATED, PERSISTED = Durability.REPLICATED, Durability.PERSISTED
NO_LUCK = None


@dataclass
class History:
    """What was asked for, and what was acknowledged.

    Attributes:
        asked: Payloads by their offsets.
        acknowledged: How many of them were.
        offsets: By table and number: what may be stored, the last acknowledged one included.
        wanted_below: Removal of what is below may have been asked for.
        removed_below: It was acknowledged that what is below is removed.
    """

    asked: list[bytes] = field(default_factory=list)
    acknowledged: int = 0
    offsets: dict[tuple[str, int], set[int | None]] = field(default_factory=dict)
    wanted_below: int = 0
    removed_below: int = 0

    def payloads(self, number: int) -> list[bytes]:
        return [b"%d-%d" % (number, delta) * (number % 7 + 1) for delta in range(number % 3 + 1)]


async def live(harness: Harness, history: History, burst: int) -> None:
    """One short life: appends over several segments, offsets, removals of each kind, an end.

    Args:
        harness: The store, open.
        history: What happens is noted here.
        burst: Batches that are appended before an acknowledgement is waited for.
    """
    log = harness.log
    for number in range(BATCHES):
        payloads = history.payloads(number)
        history.asked.extend(payloads)
        base = append(log, *payloads, now=NOW + number)
        if number % burst == burst - 1:
            await log.wait_visible(base + len(payloads))
            history.acknowledged = len(history.asked)
        if number % 3 == 1 and log.visible_end:
            seen = log.visible_end - 1
            await store(log, history, "consumers", number % 2, seen)
            await store(log, history, "groups", 7, seen)
        if number == 8:
            await store(log, history, "consumers", 0, None)
        if number == 10:
            history.wanted_below = log.visible_end
            await trim(log, 2)
            history.removed_below = log.first_offset
    history.wanted_below = log.next_offset
    await log.enforce_retention(now_us=NOW + BATCHES, expiry_us=5)
    await log.enforce_retention(budget=300)
    history.removed_below = log.first_offset
    await harness.store.close()


async def store(log, history: History, kind: str, number: int, offset: int | None) -> None:
    before = history.offsets.get((kind, number), {None})
    history.offsets[kind, number] = before | {offset}
    table = getattr(log.offsets, kind)
    if offset is None:
        table.delete(number)
    else:
        table.store(number, offset)
    await log.offsets.wait_durable()
    history.offsets[kind, number] = {offset}


def harness_of(durability: Durability, *, preallocate: bool = False) -> Harness:
    options = PartitionOptions(
        segment_size=900,
        durability=durability,
        consumer_offset_durability=durability,
        preallocate_segments=preallocate,
    )
    limits = LogLimits(index_interval=300, tail_bytes=0, read_threads=1, sync_threads=1)
    return Harness(MemoryFiles(), options=options, limits=limits)


def files_of(harness: Harness) -> MemoryFiles:
    assert isinstance(harness.files, MemoryFiles)
    return harness.files


async def die_at(harness: Harness, change: int, burst: int = 1) -> tuple[History, bool]:
    """Live until a change, and die there; also tells whether that many changes were made."""
    history = History()
    harness.open()
    files_of(harness).crash_before(change)
    with contextlib.suppress(LogError):
        await live(harness, history, burst)
    is_reached = files_of(harness).is_dead
    await harness.stop()
    return history, is_reached


async def check(
    harness: Harness, history: History, *, power: bool, lost_from: int | None = None
) -> None:
    """A new life agrees with what was acknowledged in the one before.

    Args:
        harness: The store, closed.
        history: The life before.
        power: Whether it failed: then what was not promised may lack its beginning as well, if the
            name of a segment did not reach the disk and that of the next one did.
        lost_from: What was acknowledged from this offset on may be lost; `None`: nothing.
    """
    log = harness.open()
    promised = history.acknowledged if lost_from is None else lost_from
    assert log.next_offset >= promised
    oldest = min(history.wanted_below, log.next_offset)
    assert log.first_offset <= oldest or (power and promised <= oldest)
    gaps = harness.recovery.damages
    assert all(gap.first_offset >= promised for gap in gaps), f"{gaps} before {promised}"
    messages = await readable(log, promised)
    for offset, payload in messages:
        assert history.asked[offset] == payload
    readers = dict(messages)
    assert all(offset in readers for offset in range(log.first_offset, promised))
    for (kind, number), expected in history.offsets.items():
        stored = getattr(log.offsets, kind).get(number)
        assert stored is None or stored < log.next_offset
        assert lost_from is not None or stored in expected

    base = append(log, b"after the crash")
    assert base >= promised
    await log.wait_visible(base + 1)
    assert await read(log, base) == [(base, b"after the crash")]
    await log.offsets.wait_durable()
    await harness.reopen()
    assert not harness.recovery.torn
    await harness.store.close()


async def readable(log, promised: int) -> list[tuple[int, bytes]]:
    """Every message; damage is passed by where nothing was promised."""
    messages: list[tuple[int, bytes]] = []
    start = log.first_offset
    while start < log.next_offset:
        found = await fetch(log, start, 1000)
        messages += messages_of(found)
        if found.damage is None:
            assert found.messages_count
            start = found.last_offset + 1
        else:
            assert found.damage.first_offset >= promised
            start = found.damage.next_offset
    return messages


def lost_from(harness: Harness, *, power: bool) -> int | None:
    """From where on messages may be lost: without power only what was synced is promised."""
    if power and harness.options.durability is REPLICATED:
        return harness.log.durable_end
    return None


async def die_before_each_change(
    durability: Durability, *, power: bool, tries: int, preallocate: bool, burst: int, seed: int = 0
) -> None:
    change = 0
    is_reached = True
    while is_reached:
        harness = harness_of(durability, preallocate=preallocate)
        history, is_reached = await die_at(harness, change, burst)
        promised = lost_from(harness, power=power)
        dead = files_of(harness)
        for attempt in range(tries):
            harness.files = dead.copy()
            luck = Random(f"{seed} {change} {attempt}") if attempt else NO_LUCK
            harness.files.crash(power=power, luck=luck)
            await check(harness, history, power=power, lost_from=promised)
        change += 1
    assert change > 3 * BATCHES


@pytest.mark.parametrize("burst", [1, 4])
@pytest.mark.parametrize("preallocate", [False, True], ids=["", "preallocated"])
@pytest.mark.parametrize("durability", [REPLICATED, PERSISTED])
async def test_a_kill_before_any_change_loses_nothing_acknowledged(
    durability, preallocate, burst
) -> None:
    await die_before_each_change(
        durability, power=False, tries=1, preallocate=preallocate, burst=burst
    )


async def test_the_directory_of_all_logs_outlives_a_loss_of_power_as_well() -> None:
    harness = Harness(MemoryFiles(), "log/made", PartitionOptions(durability=Durability.PERSISTED))
    base = append(harness.open(), b"promised")
    await harness.log.wait_visible(base + 1)
    await harness.stop()
    files_of(harness).crash(power=True)
    assert [payload for _, payload in await readable(harness.open(), 1)] == [b"promised"]
    await harness.store.close()


@pytest.mark.parametrize("burst", [1, 4])
@pytest.mark.parametrize("preallocate", [False, True], ids=["", "preallocated"])
@pytest.mark.parametrize("durability", [REPLICATED, PERSISTED])
async def test_bug_06_and_16_no_power_before_any_change_loses_nothing_that_was_promised(
    durability, preallocate, burst
) -> None:
    await die_before_each_change(
        durability, power=True, tries=2, preallocate=preallocate, burst=burst
    )


@pytest.mark.soak
@pytest.mark.parametrize("burst", [1, 4])
@pytest.mark.parametrize("preallocate", [False, True], ids=["", "preallocated"])
@pytest.mark.parametrize("durability", [REPLICATED, PERSISTED])
async def test_bug_06_and_16_whatever_else_reached_the_disk(durability, preallocate, burst) -> None:
    seed = secrets.randbelow(1 << 32)
    print(f"seed {seed}")
    await die_before_each_change(
        durability, power=True, tries=60, preallocate=preallocate, burst=burst, seed=seed
    )


@pytest.mark.parametrize("durability", [REPLICATED, PERSISTED])
@pytest.mark.parametrize("power", [False, True], ids=["killed", "without-power"])
async def test_a_crash_before_any_change_of_a_recovery_loses_nothing_acknowledged(
    durability, power
) -> None:
    """The power fails first, so that there is something to recover from."""
    change = recoveries = 0
    is_reached = True
    while is_reached:
        harness = harness_of(durability)
        history, is_reached = await die_at(harness, change)
        promised = lost_from(harness, power=True)
        crashed = files_of(harness)
        crashed.crash(power=True, luck=Random(change))
        step = 0
        while True:
            harness.files = files = crashed.copy()
            files.crash_before(step)
            with contextlib.suppress(OSError):
                harness.open()
                await harness.stop()
            if not files.is_dead:
                break
            files.crash(power=power, luck=Random(f"{change} {step}"))
            await check(harness, history, power=True, lost_from=promised)
            step += 1
            recoveries += 1
        change += 3
    assert recoveries > BATCHES


@pytest.mark.parametrize("power", [False, True])
async def test_a_removal_is_finished_or_reported_wherever_it_is_cut_short(power) -> None:
    change = 0
    is_reached = True
    while is_reached:
        harness = harness_of(REPLICATED)
        files = files_of(harness)
        log = harness.open()
        for number in range(4):
            append(log, b"x" * 400, now=NOW + number)
        log.offsets.consumers.store(1, 0)
        await log.drain()
        files.settle()
        files.crash_before(change)
        is_removed = False
        try:
            await harness.store.remove(KEY)
            is_removed = not files.is_dead
        except LogError:
            pass
        is_reached = files.is_dead
        await harness.stop()
        files.crash(power=power)

        # Metadata condemned the first life, and began a second one under the same ids.
        harness.keys = [OTHER]
        log = harness.open()
        assert log.is_empty
        assert log.offsets.consumers.get(1) is None
        names = files.list_directory("/log")
        unknown = [path.name for path in harness.report.unknown]
        assert sorted([*unknown, OTHER.directory_name]) == names
        assert unknown in ([], [KEY.directory_name])
        if is_removed:
            assert not unknown
        await harness.store.close()
        change += 1
    assert change > 5


@pytest.mark.parametrize("durability", [REPLICATED, PERSISTED])
async def test_what_dies_while_it_is_made_begins_empty(durability) -> None:
    """The first batch is a part of making a log: its directory and file are made with it."""
    change = 0
    is_reached = True
    while is_reached:
        harness = harness_of(durability)
        files = files_of(harness)
        harness.open()
        files.crash_before(change)
        is_acknowledged = False
        other = harness.store.create(OTHER, harness.options)
        with contextlib.suppress(LogError):
            append(other, b"first")
            await other.wait_visible(1)
            is_acknowledged = True
        is_reached = files.is_dead
        await harness.stop()
        files.crash(power=True)
        harness.keys = [KEY, OTHER]
        harness.open()
        log = harness.store.get(OTHER)
        assert log is not None
        if is_acknowledged and durability is PERSISTED:
            assert await read(log) == [(0, b"first")]
        else:
            assert log.next_offset <= 1
        base = append(log, b"next")
        assert base == log.next_offset - 1
        await asyncio.wait_for(log.wait_visible(base + 1), 5)
        await harness.store.close()
        change += 1
    assert change > 2
