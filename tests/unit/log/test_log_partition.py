"""A log while it lives: visibility, disk errors, reads, retention, memory."""

import asyncio
import errno
import threading
from pathlib import Path

import pytest

from support.log import (
    EVERYTHING,
    KEY,
    NOW,
    Harness,
    MemoryFiles,
    append,
    batch_of,
    fetch,
    find_time,
    messages_of,
    read,
    read_all,
    trim,
)
from windsprite_protocol.topic_options import Durability
from windsprite_server.log.errors import (
    LogClosedError,
    LogFailedError,
    LogUnavailableError,
)
from windsprite_server.log.files import Files
from windsprite_server.log.keys import LogLimits, PartitionOptions
from windsprite_server.log.results import ReadResult
from windsprite_server.log.tail import OVERHEAD, Tail, TailBudget

PERSISTED = PartitionOptions(
    durability=Durability.PERSISTED, consumer_offset_durability=Durability.PERSISTED
)


@pytest.fixture
async def opened():
    """Opens harnesses, and closes their stores at the end."""
    harnesses = []

    def open_(**arguments) -> Harness:
        harness = Harness(**arguments)
        harness.open()
        harnesses.append(harness)
        return harness

    yield open_
    for harness in harnesses:
        await harness.store.close()


async def test_a_new_log_is_empty(opened) -> None:
    log = opened().log
    assert log.is_empty
    assert (log.first_offset, log.next_offset, log.current_offset) == (0, 0, 0)
    assert (log.messages_count, log.size_bytes, log.segments_count) == (0, 0, 1)
    assert await read_all(log) == []
    assert await find_time(log, 0) == 0


async def test_counters_count_messages_and_stored_bytes(opened) -> None:
    log = opened().log
    append(log, b"0123456789", b"0123456789", b"0123456789")
    assert log.size_bytes == 430
    assert (log.messages_count, log.current_offset, log.is_empty) == (3, 2, False)


async def test_batches_are_stamped_and_served_as_they_are_stored(opened) -> None:
    harness = opened()
    batch, info = batch_of([b"a", b"b"])
    harness.log.append(batch, info, NOW)
    result = harness.log.read(0, 10, EVERYTHING)
    assert isinstance(result, ReadResult)
    assert result.records == (batch,)
    assert result.records[0] is batch
    assert bytes(batch) == bytes(harness.files.content(harness.path(f"{0:020}.log")))
    assert batch[0] == KEY.partition_id


async def test_many_small_batches_come_in_one_buffer(opened) -> None:
    for tail_bytes in (0, 1 << 20):
        harness = opened(limits=LogLimits(tail_bytes=tail_bytes))
        for number in range(50):
            append(harness.log, b"%d" % number)
        result = harness.log.read(0, 50, EVERYTHING)
        assert isinstance(result, ReadResult)
        assert len(result.records) == 1
        assert [offset for offset, _ in messages_of(result)] == list(range(50))


async def test_persisted_messages_are_seen_once_they_are_synced(opened) -> None:
    harness = opened(options=PERSISTED)
    log = harness.log
    append(log, b"one")
    assert (log.next_offset, log.visible_end, log.messages_count, log.size_bytes) == (1, 0, 0, 0)
    assert log.is_empty
    assert log.read(0, 1, EVERYTHING) == ReadResult((), 0, 0, -1)
    await log.wait_visible(1)
    assert (log.visible_end, log.durable_end, log.messages_count) == (1, 1, 1)
    assert await read_all(log) == [(0, b"one")]


async def test_those_who_wait_together_share_a_sync(opened) -> None:
    harness = opened(options=PERSISTED)
    log, files = harness.log, harness.files
    await asyncio.gather(*(wait_for_one(log) for _ in range(100)))
    syncs = files.changes - 100
    assert syncs < 20


async def wait_for_one(log) -> None:
    await log.wait_visible(append(log, b"x") + 1)


async def test_a_full_disk_refuses_writers_and_shows_nothing_partial(opened) -> None:
    harness = opened(limits=LogLimits(tail_bytes=0))
    log, files = harness.log, harness.files
    append(log, b"first")
    files.capacity = files.used() + 1000
    for _ in range(3):
        with pytest.raises(LogUnavailableError, match="no space"):
            append(log, b"x" * 5000)
    assert await read_all(log) == [(0, b"first")]
    assert len(files.content(harness.path(f"{0:020}.log"))) == log.size_bytes
    log.offsets.consumers.store(1, 0)
    files.capacity = None
    assert append(log, b"x" * 5000) == 1
    assert await read_all(log) == [(0, b"first"), (1, b"x" * 5000)]


async def test_what_could_not_be_cut_back_is_cut_before_the_next_batch(opened) -> None:
    harness = opened(limits=LogLimits(tail_bytes=0))
    log, files = harness.log, harness.files
    append(log, b"first")
    files.capacity = files.used() + 1000
    files.refuses = {"truncate": errno.EIO}
    with pytest.raises(LogUnavailableError):
        append(log, b"x" * 5000)
    with pytest.raises(LogUnavailableError):
        append(log, b"short")
    files.refuses = {}
    append(log, b"short")
    assert len(files.content(harness.path(f"{0:020}.log"))) == log.size_bytes
    assert await read_all(log) == [(0, b"first"), (1, b"short")]


async def test_after_a_failed_sync_a_log_takes_no_more_writes(opened) -> None:
    harness = opened(options=PERSISTED)
    log, files = harness.log, harness.files
    append(log, b"one")
    await log.wait_visible(1)
    files.refuses = {"sync": errno.EIO}
    append(log, b"two")
    append(log, b"three")
    with pytest.raises(LogFailedError):
        await log.wait_visible(2)
    files.refuses = {}
    with pytest.raises(LogFailedError):
        await log.wait_visible(3)
    with pytest.raises(LogFailedError):
        append(log, b"four")
    assert log.visible_end == 1
    assert await read_all(log) == [(0, b"one")]
    assert "log_failed" in harness.events.names
    await harness.kill()
    append(harness.log, b"after the restart")
    await harness.log.wait_visible(harness.log.next_offset)


async def test_a_failed_sync_of_offsets_stops_offsets_only(opened) -> None:
    harness = opened(options=PERSISTED)
    log, files = harness.log, harness.files
    append(log, b"one")
    await log.wait_visible(1)
    files.refuses = {"sync": errno.EIO}
    log.offsets.groups.store(1, 0)
    with pytest.raises(LogFailedError):
        await log.offsets.wait_durable()
    files.refuses = {}
    with pytest.raises(LogFailedError):
        log.offsets.groups.store(1, 0 + 1)
    append(log, b"two")
    await log.wait_visible(2)


async def test_a_cold_read_happens_in_a_thread_and_outlives_its_reader(opened) -> None:
    harness = opened(limits=LogLimits(tail_bytes=0, descriptors=1))
    log, files = harness.log, harness.files
    append(log, b"one", b"two")
    files.is_cold = True
    found = log.read(1, 5, EVERYTHING)
    assert not isinstance(found, ReadResult)
    assert messages_of(await found) == [(1, b"two")]
    reader = asyncio.ensure_future(fetch(log, 0, 5))
    await asyncio.sleep(0)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert await read_all(log) == [(0, b"one"), (1, b"two")]


async def test_a_large_batch_that_is_read_in_parts_is_read_from_disk_once(
    opened, monkeypatch
) -> None:
    monkeypatch.setattr("windsprite_protocol.message_frames.FRAMES_AT_ONCE", 16)
    limits = LogLimits(tail_bytes=0, index_interval=1, large_bytes=100_000)
    harness = opened(limits=limits, options=PartitionOptions(segment_size=60_000))
    log, expected = harness.log, []
    for size in (3, 500, 1, 500, 400):
        payloads = [b"%d %d" % (size, number) * (number % 3) for number in range(size)]
        append(log, *payloads)
        expected += payloads
    assert log.segments_count > 1
    large = harness.store._context.large
    for step in (7, 100):
        found: list[tuple[int, bytes]] = []
        while len(found) < len(expected):
            found += await read(log, len(found), step)
            assert large.size <= limits.large_bytes
        assert found == list(enumerate(expected))
    assert large.size > 50_000
    harness.files.refuses = {"read": errno.EIO}
    last = len(expected) - 1
    assert await read(log, last - 20, 5) == list(enumerate(expected))[last - 20 : last - 15]
    with pytest.raises(LogUnavailableError):
        await read(log, 0, 5)
    harness.files.refuses = {}


class StuckFiles(MemoryFiles):
    """Reads that have to wait for the disk wait until a test lets them go on."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.waiting = 0

    def read(self, descriptor: int, length: int, position: int) -> bytes:
        if self.is_cold:
            self.waiting += 1
            self.go_on.wait(10)
        return super().read(descriptor, length, position)


async def test_readers_of_cold_data_do_not_hold_up_the_tail(opened) -> None:
    """They keep all threads for reading busy; nothing else needs one of those."""
    options = PartitionOptions(segment_size=5000, durability=Durability.PERSISTED)
    files = StuckFiles()
    limits = LogLimits(tail_bytes=5000, read_threads=2)
    harness = opened(files=files, options=options, limits=limits)
    log = harness.log
    for number in range(40):
        append(log, b"%d" % number * 100)
    await log.wait_visible(40)
    files.is_cold = True
    readers = [asyncio.ensure_future(fetch(log, start, 3)) for start in range(6)]
    await asyncio.sleep(0.05)
    assert files.waiting == limits.read_threads
    for number in range(40, 80):
        base = append(log, b"%d" % number * 100)
        await asyncio.wait_for(log.wait_visible(base + 1), 5)
        found = log.read(base, 1, EVERYTHING)
        assert isinstance(found, ReadResult)
        assert messages_of(found) == [(number, b"%d" % number * 100)]
        log.offsets.consumers.store(1, base)
    assert files.waiting == limits.read_threads
    assert not any(reader.done() for reader in readers)
    files.go_on.set()
    for start, reader in enumerate(readers):
        expected = [(n, b"%d" % n * 100) for n in range(start, start + 3)]
        assert messages_of(await reader) == expected


async def test_who_reads_much_from_disk_finds_what_follows_in_memory(opened) -> None:
    harness = opened(limits=LogLimits(tail_bytes=0))
    log, files = harness.log, harness.files
    batch = [b"%d" % number * 10_000 for number in range(10)]
    for _ in range(12):
        append(log, *batch)
    files.is_cold = True
    assert len(await read(log, 0, 1)) == 1
    assert files.announced == []
    assert len(await read(log, 0, 40)) == 40
    (announced,) = files.announced
    size = log.size_bytes
    assert size // 3 <= announced.start < announced.stop
    assert len(announced) > size // 3
    files.is_cold = False
    assert len(await read(log, 40, 40)) == 40
    assert len(files.announced) == 1


async def test_a_disk_that_cannot_be_read_is_an_error_not_an_end(opened) -> None:
    harness = opened(limits=LogLimits(tail_bytes=0))
    append(harness.log, b"one")
    harness.files.refuses = {"read": errno.EIO}
    for is_cold in (False, True):
        harness.files.is_cold = is_cold
        with pytest.raises(LogUnavailableError):
            await fetch(harness.log, 0, 1)
    assert harness.events.names == ["log_unreadable"]
    harness.files.refuses = {}
    assert await read_all(harness.log) == [(0, b"one")]
    harness.files.refuses = {"open": errno.EIO}
    harness.store._context.descriptors.close_all()
    with pytest.raises(LogUnavailableError):
        await fetch(harness.log, 0, 1)
    assert harness.events.names == ["log_unreadable"] * 2
    harness.files.refuses = {}


async def test_removed_logs_refuse_everything_and_are_gone(opened) -> None:
    harness = opened(options=PERSISTED, limits=LogLimits(tail_bytes=0))
    log = harness.log
    append(log, b"one")
    waiting = asyncio.ensure_future(log.wait_visible(1))
    await asyncio.sleep(0)
    await harness.store.remove(KEY)
    with pytest.raises(LogClosedError):
        await waiting
    with pytest.raises(LogClosedError):
        append(log, b"two")
    assert harness.files.list_directory("/log") == []
    assert harness.store.get(KEY) is None
    await harness.store.remove(KEY)


async def test_a_removed_directory_that_stays_is_finished_at_the_next_start(opened) -> None:
    harness = opened()
    append(harness.log, b"one")
    harness.files.refuses = {"unlink": errno.EIO}
    await harness.store.remove(KEY)
    assert harness.events.names == ["log_directory_not_removed"]
    harness.files.refuses = {}
    harness.keys = [KEY.__class__(1, 2, 3, 41)]
    await harness.reopen()
    assert harness.files.list_directory("/log") == ["1-2-3.41"]
    assert not harness.report.unknown


async def test_few_files_stay_open_however_many_segments_there_are(opened) -> None:
    limits = LogLimits(tail_bytes=0, descriptors=4, index_bytes=1200)
    harness = opened(options=PartitionOptions(segment_size=1), limits=limits)
    for number in range(40):
        append(harness.log, b"%d" % number)
    await harness.log.drain()
    assert await read_all(harness.log) == [(number, b"%d" % number) for number in range(40)]
    assert harness.files.open_count <= 5


@pytest.mark.parametrize("durability", Durability)
async def test_full_segments_let_go_of_their_files(opened, durability) -> None:
    harness = opened(options=PartitionOptions(segment_size=1000, durability=durability))
    for number in range(40):
        append(harness.log, b"%d" % number * 100)
    await harness.log.drain()
    assert harness.log.segments_count > 10
    assert harness.files.open_count <= 2
    assert await read_all(harness.log) == [(n, b"%d" % n * 100) for n in range(40)]


async def test_the_tail_stays_within_its_budget(opened) -> None:
    harness = opened(limits=LogLimits(tail_bytes=20_000))
    budget = harness.store._context.tail_budget
    for _ in range(100):
        append(harness.log, b"x" * 700)
        assert budget.used <= 20_000
    assert budget.used > 10_000
    await harness.store.remove(KEY)
    assert budget.used == 0


async def test_batches_of_closed_tails_are_not_kept_account_of() -> None:
    """Purges again and again, none of which fills the budget."""
    budget = TailBudget(1 << 30)
    lasting = Tail(budget)
    lasting.add(0, 1, NOW, memoryview(b"x"))
    for _ in range(20):
        tail = Tail(budget)
        for number in range(1000):
            tail.add(number, 1, NOW, memoryview(b"x"))
        tail.close()
        assert len(budget) <= 2001
    assert budget.used == 1 + OVERHEAD
    assert lasting.covers(0)


async def test_indexes_of_sealed_segments_stay_within_their_budget(opened) -> None:
    limits = LogLimits(tail_bytes=0, index_interval=1, index_bytes=8000)
    harness = opened(limits=limits, options=PartitionOptions(segment_size=20_000))
    for number in range(1000):
        append(harness.log, b"%d" % number)
    indexes = harness.store._context.loaded_indexes
    for start in range(0, 1000, 10):
        assert await read(harness.log, start, 1) == [(start, b"%d" % start)]
        assert indexes.weight <= 8000
    loaded = [one.index.memory for one in harness.log._segments[:-1] if one.index is not None]
    assert 4000 < sum(loaded) <= 8000


async def test_a_small_batch_does_not_hold_a_large_receive_buffer(opened) -> None:
    harness = opened()
    batch, info = batch_of([b"small"])
    received = memoryview(bytearray(1 << 20))
    received[100 : 100 + len(batch)] = batch
    harness.log.append(received[100 : 100 + len(batch)], info, NOW)
    assert harness.store._context.tail_budget.used < 2000
    assert await read_all(harness.log) == [(0, b"small")]


async def test_a_message_larger_than_the_room_is_read_all_the_same(opened) -> None:
    for tail_bytes in (0, 1 << 20):
        log = opened(limits=LogLimits(tail_bytes=tail_bytes)).log
        append(log, b"x" * 3000, b"y" * 3000)
        append(log, b"z" * 3000)
        assert await read(log, 0, 10, room=100) == [(0, b"x" * 3000)]
        assert await read(log, 1, 10, room=100) == [(1, b"y" * 3000)]
        assert await read(log, 0, 10, room=6700) == [(0, b"x" * 3000), (1, b"y" * 3000)]
        assert len(await read(log, 0, 10, room=10_000)) == 3


@pytest.mark.parametrize("tail_bytes", [0, 1 << 30])
async def test_a_batch_of_very_many_messages_is_read_in_parts(
    opened, tail_bytes, monkeypatch
) -> None:
    """A part of a batch has a bound; batches after it do not follow before its end."""
    monkeypatch.setattr("windsprite_server.log.frames.SLICE_MAX", 50)
    monkeypatch.setattr("windsprite_protocol.message_frames.FRAMES_AT_ONCE", 16)
    log = opened(limits=LogLimits(tail_bytes=tail_bytes)).log
    expected = [b"x" * (number % 3) for number in range(400)]
    for start in range(0, 400, 200):
        append(log, *expected[start : start + 200])
    whole = await fetch(log, 0, 400)
    assert messages_of(whole) == list(enumerate(expected))
    for start in (1, 15, 16, 17, 130, 199, 201, 399):
        found = messages_of(await fetch(log, start, 400))
        assert len(found) == min(50, 400 - start) or start % 200 > 150
        assert found == list(enumerate(expected))[start : start + len(found)]
    for start in range(0, 400, 7):
        assert await read(log, start, 7) == list(enumerate(expected))[start : start + 7]
        few = await fetch(log, start, 400, 256 + 5 * 49)
        assert 1 <= few.messages_count <= 6


@pytest.mark.parametrize("tail_bytes", [0, 1 << 30])
@pytest.mark.parametrize("is_cold", [False, True])
async def test_reads_find_less_while_much_is_not_taken(opened, tail_bytes, is_cold) -> None:
    harness = opened(limits=LogLimits(tail_bytes=tail_bytes))
    harness.files.is_cold = is_cold
    for _ in range(10):
        append(harness.log, bytes(1000), bytes(1000))
    harness.reply_room = 5000
    assert (await fetch(harness.log, 0, 100)).messages_count == 4
    harness.reply_room = 1
    assert (await fetch(harness.log, 1, 100)).messages_count == 1
    harness.reply_room = EVERYTHING
    reading = harness.log.read(0, 100, EVERYTHING)
    if not isinstance(reading, ReadResult):  # when its turn comes, there may be less room
        harness.reply_room = 5000
        assert 4 <= (await reading).messages_count <= 20


async def test_retention_by_age_size_and_watermark_respects_the_barrier(opened) -> None:
    harness = opened(options=PartitionOptions(segment_size=1), limits=LogLimits(tail_bytes=0))
    log = harness.log
    for number in range(6):
        append(log, b"x", now=NOW + 100 * number)
    assert log.segments_count == 7
    log.offsets.consumers.store(1, 3)
    log.offsets.groups.store(1, 1)
    assert await log.enforce_retention(NOW + 150, expiry_us=100) == 1
    assert log.first_offset == 1
    assert await log.enforce_retention(NOW + 10_000, expiry_us=100) == 1
    assert log.first_offset == 2
    log.offsets.groups.delete(1)
    assert await log.enforce_retention(NOW, budget=3 * 305) == 1
    await trim(log, 100)
    assert log.first_offset == 4
    assert log.owes_removals
    assert (log.messages_count, log.size_bytes, log.segments_count) == (2, 610, 3)
    assert await read(log, 0) == [(4, b"x"), (5, b"x")]
    log.offsets.consumers.store(1, 5)
    assert await log.enforce_retention() == 2
    assert (log.first_offset, log.next_offset, log.segments_count) == (6, 6, 1)
    assert not log.owes_removals
    await harness.reopen()
    assert (harness.log.first_offset, harness.log.next_offset) == (6, 6)
    assert append(harness.log, b"y") == 6


async def test_a_request_that_could_not_be_stored_removes_nothing(opened) -> None:
    harness = opened(options=PartitionOptions(segment_size=1))
    for _ in range(4):
        append(harness.log, b"x")
    harness.files.refuses = {"write": errno.EIO}
    with pytest.raises(LogUnavailableError):
        await harness.log.request_removal(2)
    harness.files.refuses = {}
    assert not harness.log.owes_removals
    assert await harness.log.enforce_retention() == 0
    assert harness.log.first_offset == 0


async def test_a_request_does_not_reach_messages_that_come_after_a_lost_end(opened) -> None:
    harness = opened(options=PartitionOptions(segment_size=1))
    for _ in range(4):
        append(harness.log, b"x")
    harness.log.offsets.consumers.store(1, 0)
    await harness.log.request_removal(4)
    await harness.stop()
    for number in (2, 3, 4):
        for suffix in ("log", "index"):
            path = harness.path(f"{number:020}.{suffix}")
            if harness.files.exists(path):
                harness.files.unlink(path)
    log = harness.open()
    assert log.next_offset == 2
    assert [clamped.kind for clamped in harness.recovery.clamped] == ["watermark"]
    log.offsets.consumers.delete(1)
    for _ in range(4):
        append(log, b"y")
    while await log.enforce_retention():
        pass
    assert log.first_offset == 2


async def test_the_store_tells_whose_figures_changed(opened) -> None:
    harness = opened(options=PartitionOptions(segment_size=1, durability=Durability.PERSISTED))
    log, store = harness.log, harness.store
    assert list(store.take_changed()) == []
    append(log, b"x")
    assert list(store.take_changed()) == [log]
    assert list(store.take_changed()) == []
    await log.wait_visible(1)
    assert list(store.take_changed()) == [log]
    await trim(log, 1)
    assert list(store.take_changed()) == [log]
    append(log, b"x")
    await store.remove(KEY)
    assert list(store.take_changed()) == []


async def test_removals_that_the_disk_refused_are_made_up_for(opened) -> None:
    harness = opened(options=PartitionOptions(segment_size=1), limits=LogLimits(tail_bytes=0))
    log = harness.log
    for _ in range(4):
        append(log, b"x")
    harness.files.refuses = {"unlink": errno.EIO}
    with pytest.raises(LogUnavailableError):
        await trim(log, 2)
    assert log.first_offset == 2
    assert log.owes_removals
    harness.files.refuses = {}
    await log.enforce_retention()
    assert not log.owes_removals
    assert not any(name.startswith(f"{0:020}") for name in harness.names())
    assert await read(log, 0) == [(2, b"x"), (3, b"x")]


async def test_bug_07_removing_all_segments_never_resets_offsets(opened) -> None:
    harness = opened(options=PartitionOptions(segment_size=1))
    for turn in range(3):
        append(harness.log, b"x")
        await trim(harness.log, 10)
        await harness.kill()
        assert (harness.log.first_offset, harness.log.next_offset) == (turn + 1, turn + 1)


async def test_bug_13_a_reader_goes_from_disk_to_memory_without_a_jump(opened) -> None:
    harness = opened(limits=LogLimits(tail_bytes=1500))
    for number in range(20):
        append(harness.log, b"%d" % number)
    await harness.reopen()
    log = harness.log
    append(log, b"20")
    seen = []
    start = 0
    while start < 21:
        result = await fetch(log, start, 19)
        seen += messages_of(result)
        start = result.last_offset + 1
    assert seen == [(number, b"%d" % number) for number in range(21)]
    assert await read(log, 0, 1) == [(0, b"0")]


async def test_bug_14_no_jump_at_any_border_of_segments_and_index(opened) -> None:
    limits = LogLimits(tail_bytes=0, index_interval=900, index_bytes=1)
    harness = opened(options=PartitionOptions(segment_size=2500), limits=limits)
    log = harness.log
    for number in range(30):
        append(log, *[b"x"] * (number % 4 + 1))
    end = log.next_offset
    for start in range(end + 3):
        for count in (1, 2, 1000):
            found = [offset for offset, _ in await read(log, start, count)]
            assert found == list(range(start, min(start + count, end)))
    assert await read(log, 2**64 - 1, 2**32 - 1) == []


async def test_bug_37_a_clock_that_jumps_never_turns_times_back(opened) -> None:
    log = opened(options=PartitionOptions(segment_size=1)).log
    hour = 3_600_000_000
    times = []
    for now in (NOW, NOW - hour, NOW + 24 * hour, NOW, NOW + 24 * hour):
        append(log, b"x", now=now)
        times.append(log.last_timestamp)
    assert times == sorted(set(times))
    assert times[1] == NOW + 1
    assert await log.enforce_retention(NOW - hour, expiry_us=1) == 0


@pytest.mark.parametrize("tail_bytes", [0, 3000, 1 << 20])
async def test_bug_38_times_are_found_as_by_looking_at_all(opened, tail_bytes) -> None:
    limits = LogLimits(tail_bytes=tail_bytes, index_interval=600)
    harness = opened(options=PartitionOptions(segment_size=1500), limits=limits)
    log = harness.log
    batches = []
    for number, step in enumerate((0, 0, 5, 5, 5, 90, 3, 3, 1, 400, 400)):
        base = append(log, *[b"x"] * (number % 3 + 1), now=NOW + step)
        batches.append((log.last_timestamp, base))
    for time in range(NOW - 3, NOW + 410):
        expected = next((base for at, base in batches if at >= time), log.visible_end)
        assert await find_time(log, time) == expected
    assert await find_time(log, 0) == 0
    assert await find_time(log, 2**64 - 1) == log.visible_end


async def test_it_all_works_on_a_real_disk(opened, tmp_path: Path) -> None:
    for durability in Durability:
        options = PartitionOptions(
            segment_size=4000, durability=durability, preallocate_segments=True
        )
        limits = LogLimits(tail_bytes=0, index_interval=1000)
        directory = str(tmp_path / durability.value)
        harness = opened(files=Files(), directory=directory, options=options, limits=limits)
        for number in range(40):
            append(harness.log, b"%d" % number * 100)
        await harness.log.wait_visible(40)
        harness.log.offsets.consumers.store(1, 39)
        await harness.log.offsets.wait_durable()
        expected = [(number, b"%d" % number * 100) for number in range(40)]
        assert await read_all(harness.log) == expected
        await harness.reopen()
        assert harness.recovery.scanned_bytes == 0
        assert await read_all(harness.log) == expected
        assert harness.log.offsets.consumers.get(1) == 39
        await harness.store.remove(KEY)
        assert list(Path(directory).iterdir()) == []
