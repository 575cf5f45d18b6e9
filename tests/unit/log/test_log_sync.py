"""Syncs of very many logs: files and turns they share, and what is left when a log goes."""

import asyncio
import errno
import threading

import pytest

from support.log import KEY, Harness, MemoryFiles, append
from windsprite_protocol.topic_options import Durability
from windsprite_server.log.errors import LogClosedError, LogFailedError
from windsprite_server.log.keys import LogLimits, PartitionKey, PartitionOptions

PERSISTED = PartitionOptions(
    durability=Durability.PERSISTED, consumer_offset_durability=Durability.PERSISTED
)
LOGS = 100


class SlowFiles(MemoryFiles):
    """Syncs of files wait until a test lets them go on; so many files may be open."""

    def __init__(self, open_limit: int = 1 << 20) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.open_limit = open_limit
        self.most_open = 0
        self.syncs = 0

    def open(self, path: str, flags: int) -> int:
        if self.open_count >= self.open_limit:
            raise OSError(errno.EMFILE, "too many open files", path)
        descriptor = super().open(path, flags)
        self.most_open = max(self.most_open, self.open_count)
        return descriptor

    def sync(self, descriptor: int) -> None:
        assert self.go_on.wait(30)
        self.syncs += 1
        super().sync(descriptor)


def many_logs(files: SlowFiles, *, descriptors: int, segment_size: int = 1 << 20) -> Harness:
    options = PartitionOptions(segment_size, Durability.PERSISTED, Durability.PERSISTED)
    limits = LogLimits(tail_bytes=0, descriptors=descriptors, read_threads=1, sync_threads=2)
    harness = Harness(files, options=options, limits=limits)
    harness.keys = [KEY, *(PartitionKey(1, 2, 4 + n, 41 + n) for n in range(LOGS - 1))]
    harness.open()
    return harness


@pytest.mark.parametrize("segment_size", [1, 1 << 20], ids=["each seals a segment", "not full"])
async def test_logs_that_wait_for_the_disk_do_not_keep_files_open(segment_size) -> None:
    files = SlowFiles(open_limit=40)
    harness = many_logs(files, descriptors=8, segment_size=segment_size)
    for log in harness.store:
        append(log, b"first")
    assert files.most_open <= 24
    files.go_on.set()
    for log in harness.store:
        await asyncio.wait_for(log.wait_visible(1), 30)
    files.go_on.clear()
    for log in harness.store:
        log.offsets.consumers.store(1, 0)
        append(log, b"second")
    assert files.most_open <= 24
    files.go_on.set()
    for log in harness.store:
        await asyncio.wait_for(log.wait_visible(2), 30)
        await asyncio.wait_for(log.offsets.wait_durable(), 30)
    await harness.store.close()
    assert harness.events.names == []


async def test_who_comes_while_a_log_waits_for_its_turn_shares_its_sync() -> None:
    files = SlowFiles()
    harness = many_logs(files, descriptors=1000)
    logs = list(harness.store)
    for log in logs:
        append(log, b"first")
    for _ in range(20):
        append(logs[-1], b"one more")
    files.go_on.set()
    for log in logs:
        await log.wait_visible(log.next_offset)
    assert files.syncs == LOGS
    await harness.store.close()


async def test_a_log_that_is_removed_while_it_waits_for_its_turn_is_not_synced_any_more() -> None:
    files = SlowFiles()
    harness = many_logs(files, descriptors=1000)
    for log in harness.store:
        append(log, b"first")
    last = harness.keys[-1]
    removed = harness.store.get(last)
    waiting = asyncio.ensure_future(removed.wait_visible(1))
    removal = asyncio.ensure_future(harness.store.remove(last))
    await asyncio.sleep(0)
    files.go_on.set()
    await removal
    with pytest.raises(LogClosedError):
        await waiting
    for log in harness.store:
        await log.wait_visible(1)
    assert files.syncs == LOGS - 1
    assert f"{last.directory_name}" not in files.list_directory("/log")
    await harness.store.close()


async def test_a_log_that_is_removed_amid_syncs_leaves_no_file_open() -> None:
    harness = Harness(options=PERSISTED)
    log = harness.open()
    for number in range(3):
        append(log, b"first of a sync, or later")
        log.offsets.consumers.store(number, 0)
    await harness.store.remove(KEY)
    assert harness.files.open_count == 0
    assert harness.files.list_directory("/log") == []
    await harness.store.close()


async def test_a_sync_that_cannot_get_ready_lets_go_of_its_files() -> None:
    options = PartitionOptions(segment_size=400, durability=Durability.PERSISTED)
    files = SlowFiles()
    limits = LogLimits(tail_bytes=0, descriptors=4, sync_threads=1)
    harness = Harness(files, options=options, limits=limits)
    log = harness.open()
    append(log, b"its sync is under way" * 20)
    for _ in range(3):
        append(log, b"seals a segment" * 30)
    append(log, b"its file is open, the others are closed")
    files.refuses = {"open_for_writing": errno.EROFS}
    files.go_on.set()
    with pytest.raises(LogFailedError):
        await log.wait_visible(log.next_offset)
    files.refuses = {}
    await harness.store.remove(KEY)
    assert files.open_count == 0
    await harness.store.close()


async def test_very_many_logs_that_fail_at_once_are_told_so() -> None:
    files = SlowFiles()
    harness = many_logs(files, descriptors=1)
    logs = list(harness.store)
    waiting = []
    for log in logs:
        append(log, b"first")
        waiting.append(asyncio.ensure_future(log.wait_visible(1)))
    await asyncio.sleep(0)
    files.refuses = {"open": errno.EIO, "sync": errno.EIO}
    files.go_on.set()
    for result in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(result, LogFailedError)
    await harness.store.close()
