"""The logs of the partitions that metadata knows, and how much they hold."""

import errno
from collections.abc import AsyncIterator

import pytest

from support.log import append, trim
from support.partitions import PartitionNode
from windsprite_server.metadata import commands as c
from windsprite_server.metadata.commands import PartitionPlace
from windsprite_server.metadata.views import PartitionFigures
from windsprite_server.partitions import Totals

BATCH = 256 + 48 + 1


@pytest.fixture
async def node() -> AsyncIterator[PartitionNode]:
    node = PartitionNode()
    yield node
    await node.close()


def held(node: PartitionNode, *topics: int) -> list[Totals]:
    """Everything, the stream, and topics of the stream."""
    partitions = node.partitions
    return [
        partitions.everything(),
        partitions.stream(0),
        *(partitions.topic(0, topic) for topic in topics),
    ]


def figures_at(node: PartitionNode, place: PartitionPlace) -> PartitionFigures:
    return node.partitions.partition(
        place.stream_id, place.topic_id, place.partition_id, place.incarnation
    )


async def test_totals_follow_what_happens_to_logs(node: PartitionNode) -> None:
    assert held(node, 0) == [Totals()] * 3
    logs = await node.topic(partitions=2)
    assert held(node, 0) == [Totals(2, 0, 0, 2)] * 3
    append(logs[0], b"x", b"y")
    append(logs[1], b"z")
    assert held(node, 0) == [Totals(2, 2 * BATCH + 49, 3, 4)] * 3
    await trim(logs[0], 1)
    assert held(node, 0) == [Totals(2, BATCH, 1, 3)] * 3


async def test_totals_are_kept_for_each_topic(node: PartitionNode) -> None:
    (first,) = await node.topic("a")
    second = (await node.topic("b", 3))[2]
    node.fill(first, 1)
    node.fill(second, 2)
    assert held(node, 0, 1) == [
        Totals(4, 3 * BATCH, 3, 7),
        Totals(4, 3 * BATCH, 3, 7),
        Totals(1, BATCH, 1, 2),
        Totals(3, 2 * BATCH, 2, 5),
    ]
    await node.do(c.DeleteTopic("s", "a"))
    assert held(node, 0, 1) == [
        Totals(3, 2 * BATCH, 2, 5),
        Totals(3, 2 * BATCH, 2, 5),
        Totals(),
        Totals(3, 2 * BATCH, 2, 5),
    ]
    await node.do(c.DeletePartitions("s", "b", 1))
    assert held(node, 1) == [Totals(2, 0, 0, 2)] * 3
    await node.do(c.DeleteStream("s"))
    assert held(node, 0, 1) == [Totals()] * 4


async def test_a_purge_shows_at_once_what_is_removed_later(node: PartitionNode) -> None:
    (log,) = await node.topic()
    (other,) = await node.topic("other")
    node.fill(log, 3)
    node.fill(other, 1)
    await node.do(c.PurgeTopic("s", "t"))
    assert held(node, 0, 1)[1:] == [
        Totals(2, BATCH, 1, 3),
        Totals(1, 0, 0, 1),
        Totals(1, BATCH, 1, 2),
    ]
    append(log, b"of somebody who has not heard of it")
    assert held(node, 0)[2] == Totals(1, 0, 0, 1)
    assert figures_at(node, node.places()[0]).current_offset == 0
    await node.remove_condemned()
    assert held(node, 0)[2] == Totals(1, 0, 0, 1)
    assert not node.partitions.holds(log)


async def test_totals_are_right_after_a_restart(node: PartitionNode) -> None:
    logs = await node.topic(partitions=2)
    node.fill(logs[0], 3)
    await trim(logs[0], 1)
    before = held(node, 0)
    assert before[0] == Totals(2, 2 * BATCH, 2, 4)
    await node.close()
    node.open()
    assert held(node, 0) == before


async def test_only_what_is_visible_counts(node: PartitionNode) -> None:
    (log,) = await node.topic()
    node.fill(log, 1)
    before = held(node, 0)
    node.files.refuses = {"write": errno.ENOSPC}
    with pytest.raises(Exception, match="can't be written"):
        append(log, b"x")
    assert held(node, 0) == before


async def test_a_partition_without_a_log_has_an_empty_segment(node: PartitionNode) -> None:
    await node.topic()
    (place,) = node.places()
    node.partitions.condemn(place)
    figures = figures_at(node, place)
    assert (figures.segments_count, figures.current_offset) == (1, 0)
    assert (figures.size_bytes, figures.messages_count) == (0, 0)
    node.partitions.condemn(place)
    assert held(node, 0) == [Totals()] * 3
