"""Which segments may go: the rules, in numbers."""

from windsprite_server.log.retention import (
    SealedSegment,
    expired,
    oversized,
    removable,
    size_budget,
    up_to,
)

SEGMENTS = [SealedSegment(9, 100, 1000), SealedSegment(19, 100, 2000), SealedSegment(29, 50, 3000)]


def test_a_segment_expires_with_its_newest_message() -> None:
    assert expired(SEGMENTS, 1999, 1000) == 0
    assert expired(SEGMENTS, 2000, 1000) == 1
    assert expired(SEGMENTS, 10_000, 1000) == 3
    assert expired([], 10_000, 1000) == 0


def test_bug_37_nothing_expires_early_when_the_clock_goes_back() -> None:
    assert expired(SEGMENTS, 0, 0) == 0
    assert expired([SealedSegment(9, 100, 0)], 10_000, 1) == 0


def test_the_oldest_go_until_the_rest_fits() -> None:
    assert [oversized(SEGMENTS, budget) for budget in (250, 249, 150, 149, 50, 49, 0)] == [
        0, 1, 1, 2, 2, 3, 3,
    ]  # fmt: skip


def test_a_budget_has_room_for_one_segment_and_one_frame() -> None:
    assert size_budget(1000, 3, 100, 50) == 333
    assert size_budget(1000, 10, 100, 50) == 150


def test_the_barrier_stops_at_the_first_segment_still_needed() -> None:
    assert removable(SEGMENTS, 3, None) == 3
    assert removable(SEGMENTS, 9, None) == 3
    assert removable(SEGMENTS, 3, 8) == 0
    assert removable(SEGMENTS, 3, 9) == 1
    assert removable(SEGMENTS, 1, 100) == 1
    assert removable(SEGMENTS, 0, None) == 0


def test_a_watermark_covers_whole_segments_only() -> None:
    assert [up_to(SEGMENTS, offset) for offset in (0, 8, 9, 18, 19, 100)] == [0, 0, 1, 1, 2, 3]
