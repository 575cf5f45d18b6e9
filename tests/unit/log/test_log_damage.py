"""Damage hides what it hit and nothing else, and an acknowledged offset is never given again."""

import asyncio
import errno
from pathlib import Path

import pytest

from support.log import (
    DIRECTORY,
    KEY,
    NOW,
    Harness,
    MemoryFiles,
    append,
    fetch,
    find_time,
    messages_of,
    read,
    read_all,
)
from windsprite_server.log.inspection import inspect
from windsprite_server.log.keys import LogLimits, PartitionOptions

PER_BATCH = 3


class Life:
    """A log of batches, and where they stand; its files can be changed between two lives."""

    def __init__(self, *, segment_size: int = 1 << 20, interval: int = 1 << 16) -> None:
        limits = LogLimits(tail_bytes=0, index_interval=interval, read_threads=1, sync_threads=1)
        options = PartitionOptions(segment_size=segment_size)
        self.harness = Harness(MemoryFiles(), options=options, limits=limits)
        self.log = self.harness.open()
        self.places: list[tuple[str, int, int]] = []

    def append(self, number: int) -> None:
        segment = self.log._active
        start = segment.size
        append(self.log, *self.payloads(number), now=NOW + 10 * number)
        self.places.append((segment.path, start, segment.size))

    def payloads(self, number: int) -> list[bytes]:
        return [b"%d.%d" % (number, delta) * 7 for delta in range(PER_BATCH)]

    def flip(self, batch: int, position: int, bit: int) -> None:
        """Change a bit of a batch."""
        path, start, _ = self.places[batch]
        self.harness.files.content(path)[start + position] ^= 1 << bit

    def length(self, batch: int) -> int:
        _, start, end = self.places[batch]
        return end - start

    async def check(self, damaged: int) -> None:
        """All batches but one can be read, one message at a time and from any offset on."""
        for number in range(len(self.places)):
            for delta, payload in enumerate(self.payloads(number)):
                offset = PER_BATCH * number + delta
                found = await fetch(self.log, offset, 1)
                if number != damaged:
                    assert messages_of(found) == [(offset, payload)]
                    continue
                assert messages_of(found) == []
                assert found.damage is not None
                assert found.damage.first_offset == PER_BATCH * damaged
                assert found.damage.next_offset == PER_BATCH * (damaged + 1)

    def inspect(self):
        return inspect(Path(DIRECTORY), KEY, files=self.harness.files)


COUNT = range(48, 52)
HEADER_BITS = [
    (position, bit)
    for position in range(56)
    for bit in (range(8) if position in COUNT else [position % 8])
]


@pytest.mark.parametrize("interval", [1, 1 << 16])
@pytest.mark.parametrize("damaged", [0, 1, 2])
async def test_bug_05_whatever_a_damaged_header_says_the_others_are_read_at_once(
    damaged, interval
) -> None:
    """Also the first time: nobody has found out yet where the damage ends."""
    life = Life(interval=interval)
    for number in range(4):
        life.append(number)
    await life.harness.store.close()
    for position, bit in HEADER_BITS:
        for offset in range(PER_BATCH * damaged, PER_BATCH * 4):
            life.flip(damaged, position, bit)
            log = life.harness.open()
            found = await fetch(log, offset, 1)
            if offset < PER_BATCH * (damaged + 1):
                assert found.messages_count == 0
                assert found.damage.first_offset <= offset < found.damage.next_offset
            else:
                assert [offset for offset, _ in messages_of(found)] == [offset]
            await life.harness.store.close()
            life.flip(damaged, position, bit)


@pytest.mark.parametrize("lives", ["stop stop more kill", "kill more stop", "torn more torn kill"])
@pytest.mark.parametrize("interval", [1, 1 << 16])
@pytest.mark.parametrize(
    ("batches", "segment_size"), [(1, 1 << 20), (3, 1 << 20), (4, 900)], ids=str
)
async def test_bug_05_damage_to_what_a_clean_stop_left_is_no_unfinished_write(
    batches, segment_size, interval, lives
) -> None:
    """Not even to the last batch, and whatever comes later: its offsets were acknowledged."""
    for position in (0, 8, 16, 33, 48, 60, 255, 256, 290, -1):
        life = Life(segment_size=segment_size, interval=interval)
        for number in range(batches):
            life.append(number)
        await life.harness.store.close()
        damaged = batches - 1
        life.flip(damaged, position % life.length(damaged), 4)
        torn = 0
        for end in lives.split():
            inspection = life.inspect()
            assert not inspection.is_sound
            assert inspection.next_offset == PER_BATCH * len(life.places)
            assert inspection.messages_count == PER_BATCH * (len(life.places) - 1)
            life.log = life.harness.open()
            assert life.log.next_offset == PER_BATCH * len(life.places)
            found = life.harness.recovery.torn
            assert torn == (0 if found is None else found.length)
            await life.check(damaged)
            if end == "more":
                life.append(len(life.places))
                await life.check(damaged)
            await (life.harness.stop() if end == "kill" else life.harness.store.close())
            torn = 50 if end == "torn" else 0
            path = life.places[-1][0]
            life.harness.files.content(path).extend(b"t" * torn)
            life.harness.files.settle()


class MeasuringFiles(MemoryFiles):
    """Notes how many bytes were read at once at most."""

    most = 0

    def read(self, descriptor: int, length: int, position: int) -> bytes:
        data = super().read(descriptor, length, position)
        self.most = max(self.most, len(data))
        return data


async def test_a_length_that_is_damaged_does_not_make_all_of_a_segment_be_loaded(
    monkeypatch,
) -> None:
    mib = 1 << 20
    monkeypatch.setattr("windsprite_server.log.scan._LOADED_MAX", 2 * mib)
    files = MeasuringFiles()
    limits = LogLimits(tail_bytes=0, read_threads=1, sync_threads=1)
    harness = Harness(files, limits=limits)
    log = harness.open()
    payloads = [b"a" * mib, b"b" * mib, b"c" * mib]
    for _ in range(8):
        append(log, *payloads)
    await harness.store.close()
    content = files.content(harness.path(f"{0:020}.log"))
    content[32 + 2] ^= 0xC0  # 3 MiB become 15
    files.unlink(harness.path(f"{0:020}.index"))
    files.most = 0
    inspection = inspect(Path(DIRECTORY), KEY, files=files)
    assert [(damage.first_offset, damage.next_offset) for damage in inspection.damages] == [(0, 3)]
    assert files.most <= 4 * mib
    log = harness.open()
    assert [(damage.first_offset, damage.next_offset) for damage in harness.recovery.damages] == [
        (0, 3)
    ]
    for segment in log._segments:
        segment.gaps.clear()  # as if a reader were the first to come there
    files.most = 0
    assert (await fetch(log, 0, 1)).messages_count == 0
    assert await read(log, 3, 3) == [(3 + n, payload) for n, payload in enumerate(payloads)]
    assert files.most <= 4 * mib
    await harness.store.close()


@pytest.mark.parametrize("interval", [1, 1 << 16])
async def test_a_file_that_is_cut_short_while_it_is_read_is_damaged_there(interval) -> None:
    life = Life(segment_size=1500, interval=interval)
    for number in range(12):
        life.append(number)
    first, second = life.log._segments[:2]
    content = life.harness.files.content(first.path)
    whole = bytes(content)
    for size in (0, 1, 255, 256, 303, 304, 700, len(whole) - 300, len(whole) - 1):
        content[:] = whole[:size]
        first.gaps.clear()
        sound = sum(end <= size for path, _, end in life.places if path == first.path)
        for offset in range(second.base_offset + 1):
            found = await asyncio.wait_for(fetch(life.log, offset, 1), 30)
            is_sound = offset < PER_BATCH * sound or offset == second.base_offset
            assert found.messages_count == is_sound
            if not is_sound:
                assert found.damage.first_offset == PER_BATCH * sound
                assert found.damage.next_offset == second.base_offset
        for number in range(12):
            await asyncio.wait_for(find_time(life.log, NOW + 10 * number), 30)
    content[:] = whole
    await life.harness.store.close()


async def test_what_was_never_synced_may_be_an_unfinished_write() -> None:
    life = Life()
    life.append(0)
    await life.harness.store.close()
    life.log = life.harness.open()
    life.append(1)
    await life.harness.stop()
    life.flip(1, -1 % life.length(1), 0)
    assert life.inspect().is_sound
    life.log = life.harness.open()
    assert life.log.next_offset == PER_BATCH
    assert life.harness.recovery.torn.length == life.length(1)
    await life.harness.store.close()


@pytest.mark.parametrize("lost", ["end", "segment", "both"])
async def test_a_time_that_may_be_lost_at_the_end_of_a_segment_is_not_passed_over(lost) -> None:
    life = Life(segment_size=900, interval=1)
    for number in range(12):
        life.append(number)
    await life.harness.store.close()
    segments = [name for name in life.harness.names() if name.endswith(".log")]
    first, second, third = (int(name[:20]) // PER_BATCH for name in segments[:3])
    if lost in ("end", "both"):
        del life.harness.files.content(life.harness.path(segments[0]))[-10:]
    if lost in ("segment", "both"):
        life.harness.files.content(life.harness.path(segments[1])).clear()
    log = life.harness.open()
    gone = range(second if lost == "segment" else second - 1, second if lost == "end" else third)
    for number in range(first, 12):
        for time in (NOW + 10 * number - 5, NOW + 10 * number):
            found = await find_time(log, time)
            is_lost = number in gone or (number - 1 in gone and time % 10)
            assert found == PER_BATCH * (gone.start if is_lost else number)
            assert (await fetch(log, found, 1)).messages_count == (0 if is_lost else 1)
    await life.harness.store.close()


async def test_segments_before_a_damaged_one_are_synced_all_the_same() -> None:
    life = Life(segment_size=900)
    files = life.harness.files
    files.refuses = {"sync": errno.EIO}
    for number in range(12):
        life.append(number)
        life.log._failure = None
    await life.harness.stop()
    files.refuses = {}
    segments = [name for name in life.harness.names() if name.endswith(".log")]
    del files.content(life.harness.path(segments[2]))[-10:]
    log = life.harness.open()
    before = await read(log)
    await log.wait_durable(log.next_offset)
    await life.harness.stop()
    files.crash(power=True)
    assert await read(life.harness.open()) == before
    await life.harness.store.close()


async def test_only_what_has_the_name_of_a_removed_log_is_deleted_at_start() -> None:
    life = Life()
    life.append(0)
    await life.harness.store.close()
    files = life.harness.files
    for name in ("9-9-9.9.removed", "backup.removed", ".removed", "9-9-9.9.removed.removed"):
        files.make_directory(f"/log/{name}")
        files.open(f"/log/{name}/file", 0o102)
    life.harness.open()
    kept = [".removed", "9-9-9.9.removed.removed", "backup.removed"]
    assert files.list_directory("/log") == sorted([*kept, KEY.directory_name])
    assert [path.name for path in life.harness.report.unknown] == kept
    assert len(await read_all(life.harness.log)) == PER_BATCH
    await life.harness.store.close()
