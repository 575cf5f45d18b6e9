"""Which segments may go: decisions only, made of numbers (spec 03, 6.2 and 6.3)."""

from collections.abc import Sequence
from typing import NamedTuple


class SealedSegment(NamedTuple):
    """What retention needs to know of a sealed segment.

    Attributes:
        end_offset: Offset of its last message.
        size: Bytes.
        last_timestamp: Append time of its newest batch; 0 if it is not known.
    """

    end_offset: int
    size: int
    last_timestamp: int


def size_budget(
    max_topic_size: int, partitions_count: int, segment_size: int, max_frame_size: int
) -> int:
    """Bytes of sealed segments that each partition of a topic may keep.

    Args:
        max_topic_size: Bytes for the whole topic.
        partitions_count: How many partitions share them, at least 1.
        segment_size: Bytes at which the topic's segments are sealed.
        max_frame_size: The largest request a client may send.
    """
    return max(max_topic_size // partitions_count, segment_size + max_frame_size)


def expired(segments: Sequence[SealedSegment], now_us: int, expiry_us: int) -> int:
    """How many of the oldest segments hold only messages older than `expiry_us`.

    A segment whose newest append time is not known, or lies in the future of a clock that was set
    back, is not expired.
    """
    count = 0
    for segment in segments:
        if not segment.last_timestamp or segment.last_timestamp + expiry_us > now_us:
            break
        count += 1
    return count


def oversized(segments: Sequence[SealedSegment], budget: int) -> int:
    """How many of the oldest segments must go so that the rest fits into `budget` bytes."""
    excess = sum(segment.size for segment in segments) - budget
    count = 0
    while excess > 0:
        excess -= segments[count].size
        count += 1
    return count


def removable(segments: Sequence[SealedSegment], wanted: int, barrier: int | None) -> int:
    """How many of the `wanted` oldest segments no consumer still needs.

    Args:
        segments: All sealed segments, oldest first.
        wanted: How many of them somebody wants removed.
        barrier: The smallest stored offset of all consumers and groups; `None`: nothing is stored.
    """
    if barrier is None:
        return min(wanted, len(segments))
    count = 0
    for segment in segments[:wanted]:
        if segment.end_offset > barrier:
            break
        count += 1
    return count


def up_to(segments: Sequence[SealedSegment], end_offset: int) -> int:
    """How many of the oldest segments end at `end_offset` or before."""
    count = 0
    for segment in segments:
        if segment.end_offset > end_offset:
            break
        count += 1
    return count
