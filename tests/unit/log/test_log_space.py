"""Messages leave some room on the disk to everything else."""

import errno
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from support.log import Harness, MemoryFiles, append, read_all, trim
from windsprite_server.log.errors import DiskFullError, LogUnavailableError
from windsprite_server.log.keys import LogLimits, PartitionOptions

RESERVE = 40_000
PAYLOAD = bytes(1000)


class CountingFiles(MemoryFiles):
    asked = 0

    def free_space(self, directory: str) -> int:
        self.asked += 1
        return super().free_space(directory)


@pytest_asyncio.fixture
async def opened() -> AsyncIterator[Callable[..., Harness]]:
    harnesses = []

    def open_one(capacity: int | None = 100_000, **options: int | bool) -> Harness:
        files = CountingFiles()
        files.capacity = capacity
        limits = LogLimits(tail_bytes=0, free_bytes=RESERVE)
        harness = Harness(files, options=PartitionOptions(**options), limits=limits)
        harness.open()
        harnesses.append(harness)
        return harness

    yield open_one
    for harness in harnesses:
        await harness.store.close()


def fill(harness: Harness) -> int:
    """Append until it is refused; how many batches were taken."""
    for count in range(1000):
        try:
            append(harness.log, PAYLOAD)
        except DiskFullError:
            return count
    raise AssertionError("it is never refused")


async def test_messages_stop_at_the_reserve_and_offsets_do_not(opened) -> None:
    harness = opened()
    files, log = harness.files, harness.log
    count = fill(harness)
    assert RESERVE - 2000 <= files.free_space("/log") <= RESERVE + 2000
    for _ in range(3):
        with pytest.raises(DiskFullError, match=r"storage\.min_free"):
            append(log, PAYLOAD)
    for number in range(20):
        log.offsets.consumers.store(number, 0)
    assert harness.events.names.count("log_writes_refused") == 1
    files.capacity += 10_000
    assert append(log, PAYLOAD) == count
    assert harness.events.names[-1] == "log_writes_go_on"
    assert len(await read_all(log)) == count + 1


async def test_the_system_is_asked_once_in_a_while_only(opened) -> None:
    harness = opened(capacity=None)
    for _ in range(500):
        append(harness.log, PAYLOAD)
    assert harness.files.asked <= 12


async def test_no_space_is_reserved_for_segments_that_would_take_the_rest(opened) -> None:
    harness = opened(segment_size=70_000, preallocate_segments=True)
    append(harness.log, PAYLOAD)
    assert harness.files.used() < 2000
    harness.files.capacity = 1_000_000
    for _ in range(60):
        append(harness.log, PAYLOAD)
    assert harness.files.used() > 140_000


async def test_what_can_be_removed_at_once_is_removed_although_nothing_can_be_noted(opened) -> None:
    harness = opened(segment_size=4000)
    files, log = harness.files, harness.log
    count = fill(harness)
    log.offsets.consumers.store(1, log.first_offset + 3)
    files.capacity = files.used()
    with pytest.raises(DiskFullError):  # a consumer holds some of it back, and nobody would know
        await log.request_removal(2)
    assert not log.owes_removals
    await trim(log, 1)
    assert log.first_offset == 4
    files.capacity += RESERVE
    assert append(log, PAYLOAD) == count


async def test_other_errors_refuse_a_request(opened) -> None:
    harness = opened(segment_size=1)
    append(harness.log, PAYLOAD)
    harness.files.refuses = {"write": errno.EIO}
    with pytest.raises(LogUnavailableError) as caught:
        await harness.log.request_removal(1)
    assert not isinstance(caught.value, DiskFullError)
    assert not harness.log.owes_removals
    harness.files.refuses = {}
