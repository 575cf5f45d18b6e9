"""The histogram of latencies, compared with the sorted latencies themselves."""

import math

from hypothesis import given
from hypothesis import strategies as st

from windsprite.cli.latencies import Histogram


@given(
    st.lists(st.integers(0, 10**9), min_size=1, max_size=300),
    st.sampled_from([0.1, 1, 50, 90, 99, 99.9, 100]),
)
def test_a_percentile_is_that_of_the_values_or_a_little_more(
    micros: list[int], percent: float
) -> None:
    histogram = Histogram()
    for value in micros:
        histogram.record(value / 1_000_000)
    rank = max(1, math.ceil(len(micros) * percent / 100 - 1e-9))
    exact = sorted(micros)[rank - 1]
    assert exact <= histogram.percentile(percent) <= exact * 129 / 128
    assert histogram.largest == max(micros)
    assert histogram.count == len(micros)


def test_very_many_values_take_a_few_counters() -> None:
    histogram = Histogram()
    for value in range(0, 10_000_000, 100):
        histogram.record(value / 1_000_000)
    assert abs(histogram.percentile(50) - 5_000_000) < 50_000
    assert len(histogram._counts) < 128 * 25


def test_nothing_was_recorded() -> None:
    assert Histogram().percentile(99) == 0


def test_a_clock_that_goes_back_counts_as_no_time() -> None:
    histogram = Histogram()
    histogram.record(-1.0)
    assert (histogram.percentile(50), histogram.largest) == (0, 0)
