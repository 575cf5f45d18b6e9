"""What is shown can be typed in again, and no text ends in anything but a value or a refusal."""

from contextlib import suppress

from hypothesis import example, given
from hypothesis import strategies as st

from windsprite_protocol.text_forms import (
    format_duration,
    format_size,
    parse_duration,
    parse_expiry,
    parse_interval,
    parse_max_topic_size,
    parse_optional_size,
    parse_size,
)

U64 = st.integers(0, 2**64 - 1)
TEXTS = st.text() | st.text("0123456789. \tsmhdMyuµnKGiBbit", max_size=12)


@given(U64)
@example(2**64 - 1)
def test_durations_are_read_as_they_are_shown(microseconds):
    assert parse_duration(format_duration(microseconds)) == microseconds


@given(U64)
def test_sizes_are_read_as_they_are_shown(size):
    assert parse_size(format_size(size)) == size


@given(TEXTS)
def test_any_text_ends_in_a_number_of_64_bits_or_a_refusal(text):
    for parse in (
        parse_duration,
        parse_interval,
        parse_expiry,
        parse_size,
        parse_optional_size,
        parse_max_topic_size,
    ):
        with suppress(ValueError):
            assert 0 <= parse(text) < 2**64
