import os
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windsprite.cli.arguments import (
    Start,
    StartKind,
    parse_identifier,
    parse_key,
    parse_segment_size,
    parse_start,
    parse_time,
)

NOON = 1_795_953_600_000_000  # 2026-11-29T12:00:00Z


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "EST+5")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "identifier"),
    [
        ("orders", "orders"),
        ("7", 7),
        ("0", 0),
        ("4294967295", 4_294_967_295),
        ("007", 7),
        ("name:7", "7"),
        ("name:name:7", "name:7"),
        ("-7", "-7"),
        ("7a", "7a"),
        ("1_000", "1_000"),
        (" 7", " 7"),
        ("٣", "٣"),
        ("ü" * 127, "ü" * 127),
    ],
)
def test_digits_are_a_number_and_all_else_is_a_name(text: str, identifier: int | str) -> None:
    assert parse_identifier(text) == identifier


@pytest.mark.parametrize("text", ["", "name:", "4294967296", "9" * 5000, "ü" * 128, "\udcff"])
def test_what_no_stream_is_called(text: str) -> None:
    with pytest.raises(ValueError, match=r"number|name"):
        parse_identifier(text)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("first", Start(StartKind.FIRST)),
        ("last", Start(StartKind.LAST)),
        ("next", Start(StartKind.NEXT)),
        ("offset:0", Start(StartKind.OFFSET, 0)),
        ("offset:18446744073709551615", Start(StartKind.OFFSET, 2**64 - 1)),
        ("time:2026-11-29T12:00:00Z", Start(StartKind.TIME, NOON)),
    ],
)
def test_starts(text: str, start: Start) -> None:
    assert parse_start(text) == start


@pytest.mark.parametrize(
    "text",
    [
        *("", "First", "first:", "next:1", "offset", "offset:", "offset:-1", "offset:1e3", "time"),
        *("time:", "time:yesterday", "offset:18446744073709551616", "offset:" + "9" * 5000),
    ],
)
def test_what_is_no_start(text: str) -> None:
    with pytest.raises(ValueError, match=r"none of|not an offset|not a time"):
        parse_start(text)


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("0", 0),
        ("1795953600", NOON),
        ("1795953600.5", NOON + 500_000),
        ("1795953600.0000019", NOON + 1),
        ("1795953600000000", NOON),
        ("99999999999", 99_999_999_999_000_000),
        ("100000000000000", 100_000_000_000_000),
        ("2026-11-29T12:00:00Z", NOON),
        ("2026-11-29T13:00:00.000001+01:00", NOON + 1),
        ("2026-11-29 12:00+00:00", NOON),
        ("1969-12-31T23:59:59Z", 0),
        ("0001-01-01T00:00:00Z", 0),
    ],
)
def test_times(text: str, microseconds: int) -> None:
    assert parse_time(text) == microseconds


@pytest.mark.usefixtures("new_york")
def test_a_time_without_a_zone_is_local() -> None:
    assert parse_time("2026-11-29T07:00:00") == NOON
    assert parse_time("2026-11-29") == NOON - 7 * 3600 * 1_000_000


@pytest.mark.parametrize(
    "text",
    [
        *("", "noon", "-1", "1e9", "2026-13-01", "1795953600000", "1795953600000000.5"),
        *("99999999999999999999", "9" * 5000, "0001-01-01T00:00:00"),
    ],
)
@pytest.mark.usefixtures("new_york")
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"time|since 1970"):
        parse_time(text)


@given(st.text(max_size=30))
def test_any_text_is_a_start_or_a_complaint(text: str) -> None:
    for prefix in ("", "time:", "offset:"):
        with suppress(ValueError):
            assert 0 <= parse_start(prefix + text).value < 2**64


def test_a_key_is_the_bytes_that_were_typed() -> None:
    assert parse_key("user-42") == b"user-42"
    assert parse_key("ü") == "ü".encode()
    assert parse_key(os.fsdecode(b"\xff\x00")) == b"\xff\x00"
    assert parse_key("x" * 255) == b"x" * 255
    for text in ("", "x" * 256):
        with pytest.raises(ValueError, match="1 to 255 bytes"):
            parse_key(text)


def test_sizes_of_segments() -> None:
    assert parse_segment_size("128 MiB") == 128 << 20
    assert parse_segment_size("1GiB") == 1 << 30
    for text in ("5", "1 MB", "1048577", "2 GiB", "big"):
        with pytest.raises(ValueError, match="is not a"):
            parse_segment_size(text)
