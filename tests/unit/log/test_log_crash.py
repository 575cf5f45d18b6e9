"""A crash after each single change of the file system loses nothing that was acknowledged."""

import asyncio
import contextlib

import pytest

from support.log import KEY, NOW, Harness, MemoryFiles, append, read, read_all, trim
from windsprite_server.log.errors import LogError
from windsprite_server.log.keys import Durability, LogLimits, PartitionKey, PartitionOptions

BATCHES = 14
OTHER = PartitionKey(1, 2, 3, 41)


class History:
    """What was asked for, and what was acknowledged."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.acknowledged = 0
        self.offsets: dict[int, tuple[set[int | None], int | None]] = {}
        self.removed_below = 0

    def payloads(self, number: int) -> list[bytes]:
        return [b"%d-%d" % (number, delta) * (number % 7 + 1) for delta in range(number % 3 + 1)]


async def live(harness: Harness, history: History) -> None:
    """One short life: appends over several segments, offsets, retention, a clean end."""
    log = harness.log
    for number in range(BATCHES):
        payloads = history.payloads(number)
        history.asked.extend(payloads)
        base = append(log, *payloads, now=NOW + number)
        await log.wait_visible(base + len(payloads))
        history.acknowledged = len(history.asked)
        if number % 3 == 1:
            await store(log, history, number % 2, base)
        if number == 8:
            await store(log, history, 0, None)
        if number == 10:
            await trim(log, 2)
            history.removed_below = log.first_offset
    await harness.store.close()


async def store(log, history: History, number: int, offset: int | None) -> None:
    asked, acknowledged = history.offsets.get(number, ({None}, None))
    history.offsets[number] = asked | {offset}, acknowledged
    if offset is None:
        log.offsets.consumers.delete(number)
    else:
        log.offsets.consumers.store(number, offset)
    await log.offsets.wait_durable()
    history.offsets[number] = {offset}, offset


def harness_of(durability: Durability) -> Harness:
    options = PartitionOptions(
        segment_size=900, durability=durability, consumer_offset_durability=durability
    )
    limits = LogLimits(index_interval=300, tail_bytes=0, read_threads=1, sync_threads=1)
    return Harness(MemoryFiles(), options=options, limits=limits)


async def crash_at(durability: Durability, change: int, *, power: bool) -> bool:
    """Live until a change, die there, live again; tell whether the change was reached."""
    harness = harness_of(durability)
    history = History()
    files = harness.files
    assert isinstance(files, MemoryFiles)
    harness.open()
    files.crash_before(change)
    with contextlib.suppress(LogError):
        await live(harness, history)
    is_reached = files.is_dead
    await harness.stop()
    files.crash(power=power)
    log = harness.open()

    assert not harness.recovery.damages
    assert log.next_offset >= history.acknowledged
    messages = await read_all(log)
    assert [offset for offset, _ in messages] == list(range(log.first_offset, log.next_offset))
    assert [payload for _, payload in messages] == history.asked[log.first_offset : log.next_offset]
    assert log.first_offset <= max(history.removed_below, log.next_offset)
    for number, (asked, _) in history.offsets.items():
        assert log.offsets.consumers.get(number) in asked

    base = append(log, b"after the crash")
    assert base == len(messages) + log.first_offset
    await log.wait_visible(base + 1)
    assert await read(log, base) == [(base, b"after the crash")]
    await harness.reopen()
    assert harness.recovery.is_clean
    await harness.store.close()
    return is_reached


@pytest.mark.parametrize(
    ("durability", "power"),
    [
        (Durability.REPLICATED, False),
        (Durability.PERSISTED, False),
        (Durability.PERSISTED, True),
    ],
    ids=["replicated-killed", "persisted-killed", "persisted-without-power"],
)
async def test_a_crash_after_each_change_loses_nothing_acknowledged(durability, power) -> None:
    change = 0
    while await crash_at(durability, change, power=power):
        change += 1
    assert change > 2 * BATCHES


@pytest.mark.parametrize("power", [False, True])
async def test_a_removal_is_finished_or_reported_wherever_it_is_cut_short(power) -> None:
    change = 0
    is_reached = True
    while is_reached:
        harness = harness_of(Durability.REPLICATED)
        files = harness.files
        assert isinstance(files, MemoryFiles)
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


async def test_what_dies_while_it_is_made_begins_empty() -> None:
    for change in range(4):
        harness = harness_of(Durability.PERSISTED)
        files = harness.files
        assert isinstance(files, MemoryFiles)
        harness.open()
        files.crash_before(change)
        harness.store.create(OTHER, harness.options)
        await harness.stop()
        files.crash(power=True)
        harness.keys = [KEY, OTHER]
        harness.open()
        other = harness.store.get(OTHER)
        assert other is not None
        assert other.is_empty
        assert append(other, b"first") == 0
        await asyncio.wait_for(other.wait_visible(1), 5)
        await harness.store.close()
