"""What is found at start: whole logs, torn ends, damage, lost and foreign indexes."""

import errno

import pytest

from support.log import (
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
from windsprite_protocol.batches import stamp_batch
from windsprite_protocol.topic_options import Durability
from windsprite_server.log.keys import LogLimits, PartitionOptions

FIRST = f"{0:020}.log"
FIRST_INDEX = f"{0:020}.index"


async def closed_log(
    batches: int = 5, *, segment_size: int = 1 << 20, interval: int = 700, is_killed: bool = False
) -> tuple[Harness, list[int]]:
    """A log of batches with three messages each, closed; and where each batch begins."""
    harness = Harness(
        MemoryFiles(),
        options=PartitionOptions(segment_size=segment_size),
        limits=LogLimits(index_interval=interval, tail_bytes=0, read_threads=1, sync_threads=1),
    )
    log = harness.open()
    positions = []
    for number in range(batches):
        positions.append(log.size_bytes)
        append(log, *expected_of(number), now=NOW + 10 * number)
    positions.append(log.size_bytes)
    if is_killed:
        await harness.stop()
    else:
        await harness.store.close()
    return harness, positions


def expected_of(number: int) -> list[bytes]:
    return [b"%d.%d" % (number, delta) * 20 for delta in range(3)]


def expected(batches: range) -> list[tuple[int, bytes]]:
    return [
        (3 * number + delta, payload)
        for number in batches
        for delta, payload in enumerate(expected_of(number))
    ]


def content(harness: Harness, name: str = FIRST) -> bytearray:
    assert isinstance(harness.files, MemoryFiles)
    return harness.files.content(harness.path(name))


async def test_a_clean_end_needs_no_scan() -> None:
    harness, _ = await closed_log()
    log = harness.open()
    assert harness.recovery.is_clean
    assert harness.recovery.scanned_bytes == 0
    assert await read_all(log) == expected(range(5))
    assert log.last_timestamp == NOW + 40
    await harness.store.close()


async def test_after_a_kill_only_what_no_index_entry_covers_is_scanned() -> None:
    harness, positions = await closed_log(50, is_killed=True)
    harness.open()
    assert 0 < harness.recovery.scanned_bytes <= 700 + positions[1]
    assert harness.recovery.is_clean
    await harness.store.close()


class CountingFiles(MemoryFiles):
    bytes_read = 0

    def read(self, descriptor: int, length: int, position: int) -> bytes:
        data = super().read(descriptor, length, position)
        self.bytes_read += len(data)
        return data


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_start_reads_the_same_of_a_sealed_segment_however_large_it_is(is_killed) -> None:
    counts = []
    for batches in (10, 100):
        harness = Harness(
            CountingFiles(),
            options=PartitionOptions(segment_size=batches * 500),
            limits=LogLimits(index_interval=1, tail_bytes=0, read_threads=1, sync_threads=1),
        )
        log = harness.open()
        while log.segments_count < 11:
            append(log, b"x" * 196)
        append(log, b"x" * 196)
        await log.drain()
        before = harness.files.bytes_read
        await (harness.kill() if is_killed else harness.reopen())
        counts.append(harness.files.bytes_read - before)
        assert await read_all(harness.log) == [(n, b"x" * 196) for n in range(10 * batches + 1)]
        await harness.store.close()
    assert counts[0] == counts[1] <= 11 * (24 + 72 + 256 + 500)


async def test_bug_01_a_last_batch_cut_at_any_byte_is_dropped_whole() -> None:
    whole, positions = await closed_log(3, is_killed=True)
    index = bytes(content(whole, FIRST_INDEX))
    data = bytes(content(whole))
    for size in range(positions[2], positions[3]):
        harness = Harness(limits=whole.limits)
        harness.open()
        append(harness.log, b"makes the files")
        await harness.stop()
        content(harness)[:] = data[:size]
        content(harness, FIRST_INDEX)[:] = index
        log = harness.open()
        assert log.next_offset == 6
        assert len(content(harness)) == positions[2]
        assert not harness.recovery.damages
        if size == positions[2]:
            assert harness.recovery.torn is None
        else:
            torn = harness.recovery.torn
            assert (torn.position, torn.length) == (positions[2], size - positions[2])
            assert torn.saved_as is None
        assert append(log, b"next") == 6
        assert await read_all(log) == [*expected(range(2)), (6, b"next")]
        await harness.store.close()


@pytest.mark.parametrize("keep", ["index", "segment", "neither"])
async def test_bug_01_index_or_segment_alone(keep) -> None:
    harness, _ = await closed_log()
    if keep != "index":
        content(harness, FIRST_INDEX).clear()
    if keep != "segment":
        content(harness).clear()
    log = harness.open()
    assert log.next_offset == (15 if keep == "segment" else 0)
    assert await read_all(log) == (expected(range(5)) if keep == "segment" else [])
    assert append(log, b"next") == log.next_offset - 1
    await harness.store.close()


@pytest.mark.parametrize("name", [FIRST_INDEX, FIRST])
async def test_bug_01_a_missing_file(name) -> None:
    harness, _ = await closed_log()
    harness.files.unlink(harness.path(name))
    log = harness.open()
    assert await read_all(log) == (expected(range(5)) if name == FIRST_INDEX else [])
    await harness.reopen()
    assert harness.recovery.scanned_bytes == 0
    await harness.store.close()


@pytest.mark.parametrize(
    "garbage", [b"\1", b"g" * 255, b"g" * 303], ids=["byte", "header", "smallest batch"]
)
async def test_bug_03_garbage_too_short_for_a_batch_is_cut_off(garbage) -> None:
    harness, positions = await closed_log()
    content(harness).extend(garbage)
    log = harness.open()
    assert len(content(harness)) == positions[-1]
    assert harness.recovery.torn.length == len(garbage)
    append(log, b"next")
    assert await read_all(log) == [*expected(range(5)), (15, b"next")]
    await harness.store.close()


async def test_bug_03_an_end_that_is_no_beginning_of_a_batch_is_put_aside() -> None:
    harness, positions = await closed_log()
    content(harness).extend(b"g" * 5000)
    harness.open()
    torn = harness.recovery.torn
    assert torn.saved_as is not None
    assert harness.files.content(str(torn.saved_as)) == b"g" * 5000
    assert len(content(harness)) == positions[-1]
    await harness.store.close()


@pytest.mark.parametrize("is_killed", [False, True])
async def test_bug_03_and_05_a_flipped_bit_anywhere_in_a_middle_batch_hides_only_that(
    is_killed,
) -> None:
    whole, positions = await closed_log(4, interval=1 << 20, is_killed=is_killed)
    data = bytes(content(whole))
    index = bytes(content(whole, FIRST_INDEX))
    harness = Harness(limits=whole.limits)
    harness.open()
    append(harness.log, b"makes the files")
    await harness.stop()
    for position in range(positions[1], positions[2]):
        content(harness)[:] = data
        content(harness)[position] ^= 1 << position % 8
        content(harness, FIRST_INDEX)[:] = index
        log = harness.open()
        assert log.next_offset == 12
        assert harness.recovery.torn is None

        before = await fetch(log, 0, 100)
        assert messages_of(before) == expected(range(1))
        inside = await fetch(log, 4, 100)
        assert messages_of(inside) == []
        for damage in (before.damage, inside.damage):
            assert (damage.first_offset, damage.next_offset) == (3, 6)
            assert (damage.position, damage.length) == (positions[1], positions[2] - positions[1])
        assert await read(log, 6) == expected(range(2, 4))
        if is_killed:
            assert harness.recovery.damages == (before.damage,)
        await harness.stop()


async def test_damage_is_told_once_to_the_operator() -> None:
    harness, positions = await closed_log()
    content(harness)[positions[1] + 300] ^= 1
    log = harness.open()
    for _ in range(3):
        await fetch(log, 3, 1)
    assert harness.events.names == ["log_damaged"]
    await harness.store.close()


async def test_a_batch_inside_of_a_torn_message_is_no_batch() -> None:
    forged, _ = batch_of([b"forged"])
    harness = Harness(limits=LogLimits(tail_bytes=0, index_interval=1))
    log = harness.open()
    append(log, b"honest")
    # A producer that knows what the server will stamp, and a write that is cut behind it.
    stamp_batch(forged, partition_id=3, base_offset=2, base_timestamp=NOW + 9)
    append(log, b"!" * 100 + bytes(forged) + b"!" * 1000)
    await harness.stop()
    del content(harness)[-500:]
    log = harness.open()
    assert await read_all(log) == [(0, b"honest")]
    assert harness.recovery.torn.saved_as is None
    assert not harness.recovery.damages
    await harness.store.close()


@pytest.mark.parametrize("hit", ["the message after it", "its own message"])
async def test_a_batch_inside_of_a_message_of_a_damaged_batch_is_no_batch(hit) -> None:
    """A sound message hides nothing; nor do offsets count that so few bytes have no room for."""
    forged, _ = batch_of([b"forged"])
    offset = 2 if hit == "the message after it" else 1_000_000
    stamp_batch(forged, partition_id=3, base_offset=offset, base_timestamp=NOW + 9)
    harness = Harness(limits=LogLimits(tail_bytes=0, index_interval=1 << 20))
    log = harness.open()
    append(log, b"honest")
    start = log.size_bytes
    carrier = b"!" * 100 + bytes(forged) + b"!" * 100
    append(log, carrier, b"second")
    end = log.size_bytes
    append(log, b"third", now=NOW + 99)
    await harness.stop()
    content(harness)[end - 1 if offset == 2 else start + 256 + 48] ^= 1
    log = harness.open()
    (damage,) = harness.recovery.damages
    assert (damage.first_offset, damage.next_offset) == (1, 3)
    assert (damage.position, damage.length) == (start, end - start)
    assert await read(log, 3) == [(3, b"third")]
    await harness.store.close()


@pytest.mark.parametrize("kind", ["empty", "torn", "noise", "foreign", "ahead", "shuffled"])
async def test_an_index_that_is_not_true_is_not_believed(kind) -> None:
    harness, _ = await closed_log(20, segment_size=2000, interval=1)
    other, _ = await closed_log(9, segment_size=2000, interval=1)
    names = [name for name in harness.names() if name.endswith(".index")]
    assert len(names) > 3
    for name in names:
        index = content(harness, name)
        if kind == "empty":
            index.clear()
        elif kind == "torn":
            del index[-7:]
        elif kind == "noise":
            index[24:] = bytes(byte * 7 % 251 for byte in index[24:])
        elif kind == "foreign":
            index[24:] = content(other, FIRST_INDEX)[24:]
        elif kind == "ahead":
            del content(harness, name.replace("index", "log"))[-200:]
        else:
            index[24:72] = index[48:72] + index[24:48]
    log = harness.open()
    if kind == "ahead":
        # Each segment lost its last batch: nothing is made up, and nothing passed over in silence.
        result = await fetch(log, 0, 1000)
        assert result.damage is not None
        assert messages_of(result) == expected(range(result.messages_count // 3))
        assert harness.recovery.damages[0] == result.damage
    else:
        assert harness.recovery.is_clean
        assert await read_all(log) == expected(range(20))
        for number in range(20):
            assert await find_time(log, NOW + 10 * number) == 3 * number
        await harness.reopen()
        assert harness.recovery.scanned_bytes == 0
    await harness.store.close()


async def test_an_index_that_goes_bad_while_running_is_made_anew() -> None:
    harness, _ = await closed_log(20, segment_size=2000, interval=1)
    harness.limits = LogLimits(index_bytes=1, tail_bytes=0, index_interval=1)
    log = harness.open()
    for name in harness.names():
        if name.endswith(".index"):
            harness.files.unlink(harness.path(name))
    assert await read_all(log) == expected(range(20))
    await harness.store.close()


async def test_a_segment_missing_in_the_middle_is_named() -> None:
    harness, _ = await closed_log(20, segment_size=2000)
    names = [name for name in harness.names() if name.endswith(".log")]
    harness.files.unlink(harness.path(names[1]))
    log = harness.open()
    damage = harness.recovery.damages[0]
    assert damage.first_offset == int(names[1][:20])
    assert damage.next_offset == int(names[2][:20])
    result = await fetch(log, 0, 1000)
    assert result.last_offset == damage.first_offset - 1
    assert result.damage == damage
    rest = await read(log, damage.next_offset)
    assert rest == expected(range(damage.next_offset // 3, 20))
    await harness.store.close()


async def test_a_segment_emptied_by_a_loss_of_power_is_named_to_whoever_reads_it() -> None:
    harness, _ = await closed_log(20, segment_size=2000)
    names = [name for name in harness.names() if name.endswith(".log")]
    content(harness, names[1]).clear()
    log = harness.open()
    (damage,) = harness.recovery.damages
    for start in (damage.first_offset, damage.first_offset + 1, damage.next_offset - 1):
        result = await fetch(log, start, 1000)
        assert (result.messages_count, result.damage) == (0, damage)
    rest = await read(log, damage.next_offset)
    assert rest == expected(range(damage.next_offset // 3, 20))
    await harness.store.close()


async def test_a_persisted_log_is_synced_before_readers_see_it_again() -> None:
    harness = Harness(options=PartitionOptions(durability=Durability.PERSISTED))
    files = harness.files
    assert isinstance(files, MemoryFiles)
    log = harness.open()
    await log.drain()
    append(log, b"written, not synced yet")
    await harness.stop()
    files.content(harness.path(FIRST))
    log = harness.open()
    seen = await read_all(log)
    await harness.stop()
    files.crash(power=True)
    log = harness.open()
    assert await read_all(log) == seen
    await harness.store.close()


async def test_a_start_after_a_kill_does_not_wait_for_the_disk_under_the_other_policy() -> None:
    """What was not synced yet is synced with the next segment, or at the end."""
    harness = Harness(
        options=PartitionOptions(segment_size=1000),
        limits=LogLimits(index_interval=1, tail_bytes=0, sync_threads=1),
    )
    files = harness.files
    log = harness.open()
    # The end comes before any of the syncs does; a log would take their failure to heart.
    files.refuses = {"sync": errno.EIO}
    for number in range(20):
        append(log, b"%d" % number * 100)
        log._failure = None
    await harness.stop()
    log = harness.open()
    assert log.durable_end == 0
    files.refuses = {}
    assert await read_all(log) == [(n, b"%d" % n * 100) for n in range(20)]
    await harness.reopen()
    assert harness.recovery.scanned_bytes == 0
    assert harness.log.durable_end == 20
    # A segment in the middle whose index is lost is marked at once: the log would not come to it.
    await harness.store.close()
    files.unlink(harness.path(FIRST_INDEX))
    harness.open()
    assert harness.recovery.scanned_bytes > 0
    await harness.kill()
    assert harness.recovery.scanned_bytes == 0
    await harness.store.close()


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("batches", [1, 20])
async def test_bug_37_no_time_turns_back_although_all_messages_are_removed(batches, power) -> None:
    """Also after a loss of power: what remembers the time is synced before they go."""
    harness = Harness(
        MemoryFiles(),
        options=PartitionOptions(segment_size=1),
        limits=LogLimits(tail_bytes=0, read_threads=1, sync_threads=1),
    )
    log = harness.open()
    for turn in range(1, 4):
        for _ in range(batches):
            append(log, b"the clock is an hour fast", now=NOW + 3_600_000_000)
        newest = log.last_timestamp
        await trim(log, batches)
        assert log.messages_count == 0
        await harness.stop()
        harness.files.crash(power=power)
        log = harness.open()
        assert log.next_offset == turn * batches
        assert log.last_timestamp == newest
    append(log, b"the clock was set back", now=NOW)
    assert log.last_timestamp == newest + 1
    await harness.store.close()


async def test_a_read_only_disk_can_be_read() -> None:
    harness, _ = await closed_log(is_killed=True)
    files = harness.files
    assert isinstance(files, MemoryFiles)
    del content(harness)[-10:]
    size = len(content(harness))
    files.refuses = dict.fromkeys(["open_for_writing", "make_directory", "write"], 30)
    log = harness.open()
    assert await read_all(log) == expected(range(4))
    assert len(content(harness)) == size
    files.refuses = {}
    assert append(log, b"next") == 12
    assert await read_all(log) == [*expected(range(4)), (12, b"next")]
    await harness.reopen()
    assert await read_all(harness.log) == [*expected(range(4)), (12, b"next")]
    await harness.store.close()


async def test_bug_08_data_that_metadata_does_not_know_is_kept_and_named() -> None:
    harness, _ = await closed_log()
    files = harness.files
    assert isinstance(files, MemoryFiles)
    kept = dict.fromkeys(harness.names())
    harness.keys = [KEY.__class__(9, 9, 9, 99)]
    harness.open()
    assert [path.name for path in harness.report.unknown] == [KEY.directory_name]
    await harness.store.close()
    assert dict.fromkeys(harness.names()) == kept
    harness.keys = [KEY]
    assert await read_all(harness.open()) == expected(range(5))
    await harness.store.close()
