"""Which writes a partition has seen (spec 01, 6.6)."""

import os
import timeit
import tracemalloc

import pytest

from windsprite_server.session import DuplicateWindows, Writer

PLACE = (1, 2, 0, 7)
ELSEWHERE = (1, 2, 1, 7)
ALICE: Writer = (b"a" * 16, 1)
BOB: Writer = (b"b" * 16, 2)


def writer(number: int) -> Writer:
    return number.to_bytes(16, "little"), 1


@pytest.fixture
def windows() -> DuplicateWindows:
    return DuplicateWindows()


def seen(windows: DuplicateWindows, who: Writer, *requests: int) -> list[int]:
    return [request for request in requests if windows.has(PLACE, who, request)]


def test_nothing_is_known_at_first(windows: DuplicateWindows) -> None:
    assert seen(windows, ALICE, 1, 2, 2**64 - 1) == []
    assert len(windows) == 0


def test_numbers_are_seen_once_they_were_added_whatever_their_order(
    windows: DuplicateWindows,
) -> None:
    for request in (5, 9, 7, 100, 6):
        assert seen(windows, ALICE, request) == []
        windows.add(PLACE, ALICE, request)
    assert seen(windows, ALICE, *range(120)) == [5, 6, 7, 9, 100]


def test_128_numbers_below_the_highest_count_as_seen(windows: DuplicateWindows) -> None:
    windows.add(PLACE, ALICE, 500)
    assert seen(windows, ALICE, 1, 371, 372, 373, 499, 500, 501) == [1, 371, 372, 500]
    windows.add(PLACE, ALICE, 373)
    windows.add(PLACE, ALICE, 501)
    assert seen(windows, ALICE, 372, 373, 374, 500, 501) == [372, 373, 500, 501]
    assert seen(windows, ALICE, *range(374, 500)) == []


@pytest.mark.parametrize("ahead", [1, 2, 126, 127, 128, 129, 2**63])
def test_a_jump_ahead_forgets_what_falls_out_of_the_window(
    windows: DuplicateWindows, ahead: int
) -> None:
    windows.add(PLACE, ALICE, 10)
    windows.add(PLACE, ALICE, 10 + ahead)
    assert seen(windows, ALICE, 10, 10 + ahead) == [10, 10 + ahead]
    between = {10 + ahead - 1, 11} - {10, 10 + ahead}
    assert seen(windows, ALICE, *(n for n in between if n > ahead - 118)) == []


def test_a_number_from_far_below_changes_nothing_and_costs_nothing(
    windows: DuplicateWindows,
) -> None:
    windows.add(PLACE, ALICE, 2**64 - 1)
    windows.add(PLACE, ALICE, 1)
    assert seen(windows, ALICE, 2**64 - 2, 2**64 - 1) == [2**64 - 1]


def test_clients_users_and_partitions_are_kept_apart(windows: DuplicateWindows) -> None:
    windows.add(PLACE, ALICE, 3)
    assert not windows.has(PLACE, BOB, 3)
    assert not windows.has(PLACE, (ALICE[0], BOB[1]), 3)
    assert not windows.has(PLACE, (BOB[0], ALICE[1]), 3)
    assert not windows.has(ELSEWHERE, ALICE, 3)
    windows.add(ELSEWHERE, ALICE, 3)
    assert windows.has(ELSEWHERE, ALICE, 3)
    assert len(windows) == 2


def test_a_partition_that_is_gone_is_forgotten(windows: DuplicateWindows) -> None:
    windows.add(PLACE, ALICE, 3)
    windows.add(PLACE, BOB, 3)
    windows.add(ELSEWHERE, ALICE, 3)
    windows.forget(PLACE)
    windows.forget(PLACE)
    assert not windows.has(PLACE, ALICE, 3)
    assert windows.has(ELSEWHERE, ALICE, 3)
    assert len(windows) == 1


def test_beyond_its_bound_a_partition_forgets_who_was_idle_longest() -> None:
    windows = DuplicateWindows(writers=3)
    for number in (1, 2, 3):
        windows.add(PLACE, writer(number), 5)
    windows.add(PLACE, writer(1), 6)
    assert windows.has(PLACE, writer(2), 5), "asking is not writing"
    windows.add(PLACE, writer(4), 5)
    known = [number for number in range(1, 5) if windows.has(PLACE, writer(number), 5)]
    assert known == [1, 3, 4]
    assert len(windows) == 3
    windows.add(ELSEWHERE, writer(5), 5)
    assert len(windows) == 4


def test_beyond_the_bound_of_all_the_idlest_partition_forgets_a_writer() -> None:
    windows = DuplicateWindows(total=4)
    for place in (PLACE, ELSEWHERE):
        for number in (1, 2):
            windows.add(place, writer(number), 5)
    windows.add(PLACE, writer(1), 6)
    windows.add((9, 9, 9, 9), ALICE, 1)
    assert len(windows) == 4
    assert windows.has(PLACE, writer(2), 5)
    assert not windows.has(ELSEWHERE, writer(1), 5)
    assert windows.has(ELSEWHERE, writer(2), 5)
    windows.add((9, 9, 9, 9), BOB, 1)
    assert not windows.has(ELSEWHERE, writer(2), 5)
    assert len(windows) == 4


def test_both_bounds_at_once() -> None:
    windows = DuplicateWindows(writers=1, total=1)
    for place in (PLACE, ELSEWHERE):
        for number in (1, 2):
            windows.add(place, writer(number), 5)
            assert len(windows) == 1
            assert windows.has(place, writer(number), 5)


def test_without_room_nothing_is_a_repetition() -> None:
    windows = DuplicateWindows(writers=0)
    windows.add(PLACE, ALICE, 3)
    assert not windows.has(PLACE, ALICE, 3)
    assert len(windows) == 0


def test_memory_is_what_is_said() -> None:
    windows = DuplicateWindows(writers=10_000, total=10_000)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(30_000):
            place = (1, 2, number % 4, 7)
            for request in range(3):
                windows.add(place, (os.urandom(16), 1), 2**40 + request)
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(windows) == 10_000
    assert used / 10_000 < 400


def test_a_writer_that_goes_on_and_on_takes_no_more_memory(windows: DuplicateWindows) -> None:
    windows.add(PLACE, ALICE, 1)
    tracemalloc.start()
    try:
        for request in range(2, 20_000):
            windows.add(PLACE, ALICE, request)
        # Other threads of the process are counted, too; a byte for each write would be more.
        assert tracemalloc.get_traced_memory()[0] < 10_000
    finally:
        tracemalloc.stop()


def test_a_write_costs_little(windows: DuplicateWindows) -> None:
    requests = iter(range(1, 10**9))

    def write() -> None:
        request = next(requests)
        assert not windows.has(PLACE, ALICE, request)
        windows.add(PLACE, ALICE, request)

    # Around 0.4 us by itself; others may be running, so that only what is far off shows.
    best = min(timeit.repeat(write, number=2000, repeat=20)) / 2000
    assert best < 5e-6
