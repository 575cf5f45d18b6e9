"""Random logs, limits and consumers: the cleaner removes what a plain model removes."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from support.log import append
from support.partitions import MAX_FRAME_SIZE, PartitionNode
from windsprite_server.metadata import commands as c
from windsprite_server.partitions import Totals

FOREVER = 2**64 - 1


@dataclass
class Model:
    """One partition; a segment is its offset, size and time, since each has one message."""

    first: int = 0
    segments: list[tuple[int, int, int]] = field(default_factory=list)
    consumers: dict[int, int] = field(default_factory=dict)
    groups: dict[int, int] = field(default_factory=dict)
    requested: int = -1

    def clean(self, now: int, expiry: int, budget: int) -> None:
        barrier = min([*self.consumers.values(), *self.groups.values()], default=FOREVER)
        while self.segments:
            offset, _, time = self.segments[0]
            is_wanted = (
                (expiry != FOREVER and time + expiry <= now)
                or sum(size for _, size, _ in self.segments) > budget
                or offset <= self.requested
            )
            if not is_wanted or offset > barrier:
                return
            del self.segments[0]
            self.first = offset + 1


limits = st.tuples(
    st.sampled_from([FOREVER, 1, 5_000_000, 20_000_000]),
    st.sampled_from([FOREVER, 1, 5_000, 20_000]),
)
numbers = st.integers(0, 2)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), numbers, st.integers(1, 2000)),
        st.tuples(st.just("append"), numbers, st.integers(1, 2000)),
        st.tuples(st.just("store"), numbers, st.booleans(), numbers, st.integers(0, 100)),
        st.tuples(st.just("forget"), numbers, st.booleans(), numbers),
        st.tuples(st.just("delete"), numbers, st.integers(0, 5)),
        st.tuples(st.just("wait"), st.integers(0, 20)),
        st.tuples(st.just("update"), limits),
        st.tuples(st.just("restart")),
        st.tuples(st.just("clean")),
    ),
    max_size=60,
)


@given(limits, steps)
@settings(deadline=None, max_examples=60)
def test_the_cleaner_is_as_good_as_a_plain_model(
    first_limits: tuple[int, int], steps: list[tuple[Any, ...]]
) -> None:
    asyncio.run(check(first_limits, steps))


async def check(first_limits: tuple[int, int], steps: list[tuple[Any, ...]]) -> None:
    expiry, size = first_limits
    node = PartitionNode()
    models = [Model() for _ in range(3)]
    await node.topic(partitions=3, message_expiry=expiry, max_topic_size=size)
    for kind, *values in [*steps, ("clean",)]:
        logs = node.logs()
        match kind, values:
            case "append", [number, length]:
                log, model = logs[number], models[number]
                offset = append(log, b"x" * length, now=node.clock.now_us())
                model.segments.append((offset, 256 + 48 + length, log.last_timestamp))
            case "store", [number, is_group, key, offset]:
                offset = min(offset, logs[number].next_offset - 1)
                if offset >= 0:
                    offsets = logs[number].offsets
                    (offsets.groups if is_group else offsets.consumers).store(key, offset)
                    model = models[number]
                    (model.groups if is_group else model.consumers)[key] = offset
            case "forget", [number, is_group, key]:
                offsets, model = logs[number].offsets, models[number]
                (offsets.groups if is_group else offsets.consumers).delete(key)
                (model.groups if is_group else model.consumers).pop(key, None)
            case "delete", [number, count]:
                model = models[number]
                for offset, _, _ in model.segments[:count]:
                    model.requested = max(model.requested, offset)
                await node.cleaner.delete_segments(logs[number], count)
                model.clean(0, FOREVER, FOREVER)
            case "wait", [seconds]:
                await node.clock.advance(seconds)
            case "update", [(expiry, size)]:
                await node.do(c.UpdateTopic("s", "t", "t", (), expiry, None, size))
            case "restart", []:
                await node.close()
                node.open()
                for log, model in zip(node.logs(), models, strict=True):
                    await node.cleaner.delete_segments(log, 0)
                    model.clean(0, FOREVER, FOREVER)
            case "clean", []:
                await node.cleaner.clean()
                await node.cleaner.settle()
                budget = FOREVER if size == FOREVER else max(size // 3, 1 + MAX_FRAME_SIZE)
                for model in models:
                    if (expiry, size) != (FOREVER, FOREVER):
                        model.clean(node.clock.now_us(), expiry, budget)
                    model.clean(0, FOREVER, FOREVER)
        compare(node, models)
    await node.close()


def compare(node: PartitionNode, models: list[Model]) -> None:
    total = Totals()
    for log, model in zip(node.logs(), models, strict=True):
        size = sum(size for _, size, _ in model.segments)
        assert (log.first_offset, log.messages_count) == (model.first, len(model.segments))
        assert (log.size_bytes, log.segments_count) == (size, len(model.segments) + 1)
        total.partitions_count += 1
        total.size_bytes += size
        total.messages_count += len(model.segments)
        total.segments_count += len(model.segments) + 1
    assert node.partitions.everything() == total
    assert node.partitions.topic(0, 0) == node.partitions.stream(0) == total
