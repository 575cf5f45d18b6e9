"""Which segments are removed, when, and what happens to the others."""

import asyncio
import errno
from collections.abc import AsyncIterator

import pytest

from support.log import NOW, append, read
from support.partitions import MAX_FRAME_SIZE, PartitionNode
from support.waiting import until
from windsprite_server.log.errors import LogUnavailableError
from windsprite_server.metadata import commands as c
from windsprite_server.metadata.commands import Command

SECOND = 1_000_000
HOUR = 3600 * SECOND
BATCH = 256 + 48 + 1
"""Bytes of a batch with one message of one byte."""


@pytest.fixture
async def node() -> AsyncIterator[PartitionNode]:
    node = PartitionNode()
    yield node
    await node.close()


def update(**changes: int) -> Command:
    values: dict[str, int | None] = {"message_expiry": None, "max_topic_size": None, **changes}
    return c.UpdateTopic("s", "t", "t", options=(), compression=None, **values)


# --- What is due ---------------------------------------------------------------------------------


async def test_segments_go_when_their_newest_message_has_expired(node: PartitionNode) -> None:
    (log,) = await node.topic(message_expiry=10 * SECOND)
    for _ in range(4):
        node.fill(log, 1)
        await node.clock.advance(1)
    await node.clock.advance(5)
    assert await node.cleaner.clean() == 0
    await node.clock.advance(1)
    assert await node.cleaner.clean() == 1
    await node.clock.advance(1)
    assert await node.cleaner.clean() == 1
    assert (log.first_offset, log.messages_count, log.size_bytes) == (2, 2, 2 * BATCH)
    assert await read(log, 0) == [(2, b"x"), (3, b"x")]
    await node.clock.advance(HOUR)
    assert await node.cleaner.clean() == 2
    assert (log.first_offset, log.next_offset, log.current_offset) == (4, 4, 3)
    assert (log.messages_count, log.size_bytes, log.segments_count) == (0, 0, 1)
    assert append(log, b"y") == 4


async def test_the_active_segment_stays_however_old_it_is(node: PartitionNode) -> None:
    (log,) = await node.topic(segment_size=10_000, message_expiry=1)
    node.fill(log, 5)
    await node.clock.advance(HOUR)
    assert await node.cleaner.clean() == 0
    assert len(await read(log, 0)) == 5


async def test_without_limits_everything_stays(node: PartitionNode) -> None:
    (log,) = await node.topic()
    node.fill(log, 50)
    await node.clock.advance(HOUR)
    assert await node.cleaner.clean() == 0
    assert log.segments_count == 51


@pytest.mark.parametrize(
    ("partitions", "max_topic_size", "kept"),
    [
        (1, 10 * BATCH, 10),
        (1, 10 * BATCH - 1, 9),
        (2, 20 * BATCH, 10),
        (2, 20 * BATCH - 1, 9),
        (3, 20 * BATCH, 6),
        (4, 20 * BATCH, 5),
        # At least one segment and one frame: 1,001 bytes here.
        (10, 10 * BATCH, 3),
        (1, 1, 3),
    ],
)
async def test_each_partition_keeps_its_share_of_the_size(
    node: PartitionNode, partitions: int, max_topic_size: int, kept: int
) -> None:
    assert 3 * BATCH <= 1 + MAX_FRAME_SIZE < 4 * BATCH
    logs = await node.topic(partitions=partitions, max_topic_size=max_topic_size)
    node.fill(logs[0], 12)
    node.fill(logs[-1], 12 if partitions > 1 else 0)
    await node.cleaner.clean()
    assert logs[0].segments_count == logs[-1].segments_count == kept + 1
    assert (logs[0].size_bytes, logs[0].messages_count) == (kept * BATCH, kept)


async def test_the_active_segment_does_not_count(node: PartitionNode) -> None:
    (log,) = await node.topic(segment_size=3 * BATCH, max_topic_size=6 * BATCH)
    node.fill(log, 8)
    assert log.segments_count == 3
    assert await node.cleaner.clean() == 0
    node.fill(log, 1)
    assert await node.cleaner.clean() == 1
    assert log.first_offset == 3


async def test_both_limits_hold_together(node: PartitionNode) -> None:
    (log,) = await node.topic(message_expiry=HOUR, max_topic_size=5 * BATCH)
    node.fill(log, 8)
    await node.cleaner.clean()
    assert log.first_offset == 3
    await node.clock.advance(3601)
    node.fill(log, 1)
    await node.cleaner.clean()
    assert log.first_offset == 8


async def test_more_than_one_round_is_done_in_one_look(node: PartitionNode) -> None:
    (log,) = await node.topic(message_expiry=1)
    node.fill(log, 100)
    await node.clock.advance(1)
    assert await node.cleaner.clean() == 100


async def test_an_expiry_beyond_all_time_never_comes(node: PartitionNode) -> None:
    (log,) = await node.topic(message_expiry=2**64 - 2)
    node.fill(log, 2)
    await node.clock.advance(HOUR)
    assert await node.cleaner.clean() == 0


# --- What consumers hold back --------------------------------------------------------------------


async def test_a_slow_consumer_holds_back_what_comes_after_its_offset(node: PartitionNode) -> None:
    (log,) = await node.topic(message_expiry=1, max_topic_size=BATCH)
    node.fill(log, 10)
    await node.clock.advance(1)
    log.offsets.consumers.store(1, 2)
    log.offsets.consumers.store(2, 8)
    log.offsets.groups.store(1, 5)
    assert await node.cleaner.clean() == 3
    assert await node.cleaner.clean() == 0
    log.offsets.consumers.store(1, 9)
    assert await node.cleaner.clean() == 3
    assert log.offsets.groups.delete(1)
    assert await node.cleaner.clean() == 3
    assert log.first_offset == 9


async def test_a_segment_goes_only_as_a_whole(node: PartitionNode) -> None:
    (log,) = await node.topic(segment_size=3 * BATCH, message_expiry=1)
    node.fill(log, 6)
    await node.clock.advance(1)
    log.offsets.consumers.store(1, 1)
    assert await node.cleaner.clean() == 0
    log.offsets.consumers.store(1, 2)
    assert await node.cleaner.clean() == 1
    assert log.first_offset == 3


# --- Changes meanwhile ---------------------------------------------------------------------------


async def test_changed_limits_hold_at_the_next_look(node: PartitionNode) -> None:
    (log,) = await node.topic()
    node.fill(log, 10)
    await node.clock.advance(60)
    await node.do(update(message_expiry=HOUR, max_topic_size=8 * BATCH))
    assert await node.cleaner.clean() == 2
    await node.do(update(message_expiry=SECOND))
    assert await node.cleaner.clean() == 8


async def test_more_partitions_have_smaller_shares(node: PartitionNode) -> None:
    (log,) = await node.topic(max_topic_size=12 * BATCH)
    node.fill(log, 12)
    assert await node.cleaner.clean() == 0
    await node.do(c.CreatePartitions("s", "t", 1))
    assert await node.cleaner.clean() == 6


async def test_what_a_topic_wants_to_keep_by_now_is_not_removed_any_more(
    node: PartitionNode,
) -> None:
    (log,) = await node.topic(message_expiry=1)
    node.fill(log, 200)
    await node.clock.advance(1)
    look = asyncio.create_task(node.cleaner.clean())
    await until(lambda: log.first_offset)
    await node.do(update(message_expiry=2**64 - 1))
    removed = await look
    assert 0 < removed < 200
    assert removed % 16 == 0
    assert log.first_offset == removed


async def test_partitions_may_be_purged_and_removed_during_a_look(node: PartitionNode) -> None:
    (log,) = await node.topic(message_expiry=1)
    (other,) = await node.topic("other", message_expiry=1)
    for each in (log, other):
        node.fill(each, 200)
    await node.clock.advance(1)
    look = asyncio.create_task(node.cleaner.clean())
    await until(lambda: log.first_offset)
    await node.do(c.PurgeTopic("s", "t"))
    await node.do(c.DeleteTopic("s", "other"))
    await node.remove_condemned()
    assert await look < 400
    assert node.events() == []
    assert node.log().first_offset == 0


# --- Errors --------------------------------------------------------------------------------------


async def test_a_failing_partition_is_told_once_and_does_not_keep_others(
    node: PartitionNode,
) -> None:
    logs = await node.topic(partitions=3, message_expiry=1)
    for log in logs:
        node.fill(log, 2)
    await node.clock.advance(1)
    failing, unlink = logs[1], node.files.unlink

    def refuse(path: str) -> None:
        if f"/{failing.key.directory_name}/" in path:
            raise OSError(errno.EIO, "broken")
        unlink(path)

    node.files.unlink = refuse  # type: ignore[method-assign]
    await node.cleaner.clean()
    await node.cleaner.clean()
    assert [log.segments_count for log in logs] == [1, 1, 1]
    (event,) = node.events("could not be removed")
    assert event["partition"] == failing.key.directory_name
    assert "broken" in event["reason"]
    assert "exception" not in event
    assert node.files.exists(f"/log/{failing.key.directory_name}/{0:020}.log")
    node.files.unlink = unlink  # type: ignore[method-assign]
    await node.cleaner.settle()
    assert not node.files.exists(f"/log/{failing.key.directory_name}/{0:020}.log")
    node.fill(failing, 1)
    await node.clock.advance(1)
    node.files.refuses = {"unlink": errno.EIO}
    await node.cleaner.clean()
    assert len(node.events("could not be removed")) == 2


async def test_looks_go_on_after_a_failure(node: PartitionNode) -> None:
    (log,) = await node.topic(message_expiry=1)
    node.cleaner.start()
    node.fill(log, 1)
    node.files.refuses = {"unlink": errno.EIO}
    await node.clock.advance(60)
    await until(lambda: node.events("could not be removed"))
    node.files.refuses = {}
    node.fill(log, 1)
    await node.clock.advance(60)
    await until(lambda: log.first_offset == 2)


# --- Time ----------------------------------------------------------------------------------------


async def test_looks_begin_one_interval_after_the_start(node: PartitionNode) -> None:
    (log,) = await node.topic(message_expiry=1)
    node.fill(log, 3)
    node.cleaner.start()
    await node.clock.advance(59)
    assert log.first_offset == 0
    await node.clock.advance(1)
    await until(lambda: node.events("segments were removed"))
    assert log.first_offset == 3
    assert node.events("segments were removed")[0]["count"] == 3
    node.fill(log, 1)
    await node.clock.advance(60)
    await until(lambda: log.first_offset == 4)


async def test_bug_37_nothing_expires_early_when_the_clock_is_set_back(node: PartitionNode) -> None:
    (log,) = await node.topic(message_expiry=2 * HOUR)
    node.fill(log, 2)
    node.clock.set_wall_clock(NOW - HOUR)
    node.fill(log, 2)
    assert log.last_timestamp > NOW
    assert await node.cleaner.clean() == 0
    await node.clock.advance(3 * 3600 - 1)
    assert await node.cleaner.clean() == 0
    await node.clock.advance(2)
    assert await node.cleaner.clean() == 4


async def test_bug_37_a_clock_that_is_set_forward_for_a_moment_costs_nothing(
    node: PartitionNode,
) -> None:
    (log,) = await node.topic(message_expiry=HOUR)
    node.fill(log, 3)
    assert await node.cleaner.clean() == 0
    await node.clock.advance(60)
    node.clock.set_wall_clock(NOW + 24 * HOUR)
    assert await node.cleaner.clean() == 0
    (event,) = node.events("the clock was set forward")
    assert event["seconds"] == 24 * 3600 - 60
    await node.clock.advance(60)
    node.clock.set_wall_clock(NOW + 120 * SECOND)
    assert await node.cleaner.clean() == 0
    assert log.messages_count == 3


async def test_bug_37_a_clock_that_stays_forward_is_believed(node: PartitionNode) -> None:
    (log,) = await node.topic(message_expiry=HOUR, max_topic_size=4 * BATCH)
    node.fill(log, 5)
    node.clock.set_wall_clock(NOW + 24 * HOUR)
    assert await node.cleaner.clean() == 1, "sizes have nothing to do with time"
    assert await node.cleaner.clean() == 4


# --- Requests of clients -------------------------------------------------------------------------


async def test_requested_segments_go_at_once(node: PartitionNode) -> None:
    (log,) = await node.topic()
    node.fill(log, 50)
    await node.cleaner.delete_segments(log, 0)
    assert log.first_offset == 0
    await node.cleaner.delete_segments(log, 2)
    assert log.first_offset == 2
    await node.cleaner.delete_segments(log, 2**32 - 1)
    assert (log.first_offset, log.next_offset, log.segments_count) == (50, 50, 1)
    await node.cleaner.delete_segments(log, 1)
    assert log.first_offset == 50


async def test_the_first_message_alone_can_be_removed(node: PartitionNode) -> None:
    (log,) = await node.topic()
    node.fill(log, 1)
    await node.cleaner.delete_segments(log, 1)
    assert (log.first_offset, log.current_offset) == (1, 0)


async def test_what_consumers_hold_back_goes_within_a_second_of_their_moving_on(
    node: PartitionNode,
) -> None:
    node.interval = None
    node.open()
    node.cleaner.start()
    (log,) = await node.topic()
    node.fill(log, 40)
    log.offsets.consumers.store(1, 3)
    await node.cleaner.delete_segments(log, 30)
    assert log.first_offset == 4
    await node.clock.advance(5)
    assert log.first_offset == 4
    log.offsets.consumers.store(1, 39)
    await node.clock.advance(1)
    await until(lambda: log.first_offset == 30)
    await until(lambda: not log.owes_removals)
    await node.clock.advance(5)
    assert log.first_offset == 30


async def test_requests_outlive_a_restart_but_not_a_purge(node: PartitionNode) -> None:
    logs = await node.topic(partitions=2)
    for log in logs:
        node.fill(log, 5)
        log.offsets.consumers.store(1, 0)
        await node.cleaner.delete_segments(log, 3)
        assert log.first_offset == 1
    await node.close()
    node.open()
    node.cleaner.start()
    first, second = node.logs()
    first.offsets.consumers.delete(1)
    await node.clock.advance(1)
    await until(lambda: first.first_offset == 3)
    assert second.first_offset == 1
    await node.do(c.PurgeTopic("s", "t"))
    reborn = node.log(partition_id=1)
    node.fill(reborn, 5)
    await node.clock.advance(2)
    await node.cleaner.settle()
    assert reborn.first_offset == 0


async def test_a_request_that_the_disk_refuses_is_told_to_the_client(node: PartitionNode) -> None:
    (log,) = await node.topic()
    node.fill(log, 5)
    node.files.refuses = {"write": errno.EIO}
    with pytest.raises(LogUnavailableError):
        await node.cleaner.delete_segments(log, 3)
    node.files.refuses = {}
    await node.cleaner.settle()
    assert log.first_offset == 0


async def test_a_request_succeeds_when_only_its_files_cannot_be_removed_yet(
    node: PartitionNode,
) -> None:
    (log,) = await node.topic()
    node.cleaner.start()
    node.fill(log, 5)
    node.files.refuses = {"unlink": errno.EIO}
    await node.cleaner.delete_segments(log, 3)
    assert log.first_offset == 3
    for _ in range(5):
        await node.clock.advance(1)
    assert len(node.events("could not be removed")) == 1
    node.files.refuses = {}
    await node.clock.advance(1)
    await until(lambda: not log.owes_removals)
    assert not node.files.exists(f"/log/{log.key.directory_name}/{0:020}.log")


# --- Fairness ------------------------------------------------------------------------------------


async def test_others_have_their_turn_during_a_look_at_very_many_partitions(
    node: PartitionNode,
) -> None:
    for number in range(3):
        await node.topic(f"t{number}", 1000, message_expiry=1)
    turns = 0
    look = asyncio.create_task(node.cleaner.clean())
    while not look.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 6
