"""Consumer offsets: tables, their file, what a crash leaves of it."""

import errno

import pytest

from support.log import Harness, MemoryFiles, append, read_all
from windsprite_server.log.errors import (
    LogFailedError,
    LogUnavailableError,
    TooManyOffsetsError,
)
from windsprite_server.log.keys import LogLimits


@pytest.fixture
async def harness():
    harness = Harness(limits=LogLimits(consumer_offsets=3))
    harness.open()
    for _ in range(10):
        append(harness.log, b"x")
    yield harness
    await harness.store.close()


def stored(harness: Harness) -> dict[int, int | None]:
    consumers = harness.log.offsets.consumers
    return {number: consumers.get(number) for number in consumers}


async def test_stores_overwrite_or_only_grow(harness) -> None:
    consumers = harness.log.offsets.consumers
    consumers.store(1, 5)
    consumers.store(1, 2)
    assert consumers.get(1) == 2
    consumers.store_max(1, 1)
    assert consumers.get(1) == 2
    consumers.store_max(1, 7)
    assert consumers.get(1) == 7
    assert not consumers.delete(2)
    assert consumers.delete(1)
    assert consumers.get(1) is None


async def test_consumers_and_groups_do_not_share_numbers(harness) -> None:
    offsets = harness.log.offsets
    offsets.consumers.store(1, 5)
    offsets.groups.store(1, 3)
    assert offsets.barrier() == 3
    await harness.kill()
    offsets = harness.log.offsets
    assert (offsets.consumers.get(1), offsets.groups.get(1)) == (5, 3)


async def test_a_new_key_beyond_the_limit_is_refused(harness) -> None:
    consumers = harness.log.offsets.consumers
    for number in range(3):
        consumers.store(number, 0)
    with pytest.raises(TooManyOffsetsError):
        consumers.store(3, 0)
    consumers.store(2, 1)
    harness.log.offsets.groups.store(3, 0)
    consumers.delete(0)
    consumers.store(3, 0)
    assert len(consumers) == 3


async def test_the_file_never_outgrows_its_keys(harness) -> None:
    consumers = harness.log.offsets.consumers
    for turn in range(200):
        consumers.store(turn % 3, turn % 10)
        if turn % 5 == 0:
            consumers.delete(turn % 3)
    assert len(harness.files.content(harness.path("offsets"))) <= 3 * 64
    expected = stored(harness)
    await harness.kill()
    assert stored(harness) == expected


async def test_bug_17_zero_is_an_offset(harness) -> None:
    harness.log.offsets.consumers.store(0, 0)
    harness.log.offsets.groups.store(0, 0)
    assert harness.log.offsets.barrier() == 0
    await harness.reopen()
    assert harness.log.offsets.consumers.get(0) == 0
    assert harness.log.offsets.groups.get(0) == 0
    assert harness.log.offsets.consumers.get(1) is None


@pytest.mark.parametrize("kept", [0, 1, 10])
async def test_bug_15_and_16_offsets_beyond_a_lost_end_are_lowered_and_named(harness, kept) -> None:
    offsets = harness.log.offsets
    offsets.consumers.store(1, 9)
    offsets.groups.store(2, 0)
    await harness.stop()
    segment = harness.files.content(harness.path(f"{0:020}.log"))
    del segment[kept * 305 :]
    harness.open()
    clamped = harness.recovery.clamped
    consumers, groups = harness.log.offsets.consumers, harness.log.offsets.groups
    if kept == 10:
        assert not clamped
        assert (consumers.get(1), groups.get(2)) == (9, 0)
    elif kept == 1:
        assert [(each.kind, each.stored, each.lowered_to) for each in clamped] == [
            ("consumer", 9, 0)
        ]
        assert (consumers.get(1), groups.get(2)) == (0, 0)
    else:
        assert {(each.kind, each.lowered_to) for each in clamped} == {
            ("consumer", None),
            ("group", None),
        }
        assert (consumers.get(1), groups.get(2)) == (None, None)
    await harness.kill()
    assert not harness.recovery.clamped


@pytest.mark.parametrize("kept", [0, 1])
async def test_a_lowered_offset_is_not_back_when_new_messages_have_taken_its_place(
    harness, kept
) -> None:
    """Or a consumer would skip them."""
    harness.log.offsets.consumers.store(1, 9)
    await harness.stop()
    harness.files.settle()
    segment = harness.files.content(harness.path(f"{0:020}.log"))
    del segment[kept * 305 :]
    harness.open()
    lowered = harness.log.offsets.consumers.get(1)
    for _ in range(20):
        append(harness.log, b"y")
    await harness.log.wait_durable(20)
    await harness.stop()
    harness.files.crash(power=True)
    harness.open()
    assert harness.log.next_offset == 20 + kept
    assert harness.log.offsets.consumers.get(1) == lowered
    assert not harness.recovery.clamped


@pytest.mark.parametrize("refused", ["write", "sync"])
async def test_nothing_is_appended_while_an_offset_cannot_be_lowered_for_good(
    harness, refused
) -> None:
    harness.log.offsets.consumers.store(1, 9)
    await harness.stop()
    segment = harness.files.content(harness.path(f"{0:020}.log"))
    del segment[5 * 305 :]
    harness.files.refuses = {refused: errno.EIO}
    harness.open()
    harness.files.refuses = {}
    assert harness.log.offsets.consumers.get(1) == 4
    assert len(await read_all(harness.log)) == 5
    with pytest.raises(LogFailedError, match="lowered for good"):
        append(harness.log, b"y")
    await harness.kill()
    assert harness.log.offsets.consumers.get(1) == 4
    append(harness.log, b"y")


async def test_a_record_cut_or_flipped_anywhere_leaves_the_one_before(harness) -> None:
    consumers = harness.log.offsets.consumers
    consumers.store(7, 1)
    consumers.store(7, 2)
    whole = bytes(harness.files.content(harness.path("offsets")))
    await harness.stop()
    assert len(whole) == 64
    for position in range(64):
        harness.files.content(harness.path("offsets"))[:] = whole
        harness.files.content(harness.path("offsets"))[position] ^= 16
        harness.open()
        assert harness.log.offsets.consumers.get(7) == (2 if position < 32 else 1)
        assert harness.recovery.lost_offsets == 0
        await harness.stop()
    for size in range(64):
        harness.files.content(harness.path("offsets"))[:] = whole[:size]
        harness.open()
        assert harness.log.offsets.consumers.get(7) == (1 if size >= 32 else None)
        await harness.stop()
    harness.open()


async def test_a_slot_that_is_damaged_in_both_halves_is_reported(harness) -> None:
    harness.log.offsets.consumers.store(7, 1)
    harness.log.offsets.consumers.store(8, 1)
    await harness.stop()
    harness.files.content(harness.path("offsets"))[20] ^= 1
    harness.open()
    assert harness.recovery.lost_offsets == 1
    assert not harness.recovery.is_clean
    assert stored(harness) == {8: 1}


async def test_offsets_of_another_life_are_not_taken_over(harness) -> None:
    harness.log.offsets.consumers.store(7, 1)
    old = bytes(harness.files.content(harness.path("offsets")))
    other = Harness(MemoryFiles())
    other.keys = [harness.keys[0].__class__(1, 2, 3, 41)]
    other.open()
    descriptor = other.files.open("/log/1-2-3.41/offsets", 0o102)
    other.files.write(descriptor, old, 0)
    await other.kill()
    assert stored(other) == {}
    await other.store.close()


async def test_a_stale_slot_of_a_key_never_comes_back(harness) -> None:
    consumers, path = harness.log.offsets.consumers, harness.path("offsets")
    consumers.store(1, 1)
    stale = bytes(harness.files.content(path))
    consumers.delete(1)
    consumers.store(2, 2)
    consumers.store(1, 3)
    await harness.stop()
    # The end of key 1's first slot never reached the disk, its new slot did.
    harness.files.content(path)[:64] = bytes(64)
    harness.files.content(path)[: len(stale)] = stale
    harness.open()
    assert harness.log.offsets.consumers.get(1) == 3
    harness.log.offsets.consumers.delete(1)
    await harness.kill()
    assert harness.log.offsets.consumers.get(1) is None


async def test_a_full_disk_refuses_new_keys_and_keeps_the_old(harness) -> None:
    consumers = harness.log.offsets.consumers
    consumers.store(1, 1)
    harness.files.capacity = harness.files.used()
    for _ in range(3):
        with pytest.raises(LogUnavailableError):
            consumers.store(2, 1)
    assert consumers.get(2) is None
    harness.files.refuses = {"write": errno.EIO}
    with pytest.raises(LogUnavailableError):
        consumers.store(1, 2)
    with pytest.raises(LogUnavailableError):
        consumers.delete(1)
    assert consumers.get(1) == 1
    harness.files.refuses, harness.files.capacity = {}, None
    consumers.store(2, 1)
    assert len(harness.files.content(harness.path("offsets"))) <= 2 * 64
    await harness.kill()
    assert stored(harness) == {1: 1, 2: 1}
