from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windsprite.cli.lines import Batcher, LineSplitter, LineTooLongError

FRAME_HEADER = 48


def split(blocks: list[bytes], max_line: int = 1000) -> list[bytes]:
    splitter = LineSplitter(max_line)
    lines = [line for block in blocks for line in splitter.feed(block)]
    return lines + splitter.finish()


@pytest.mark.parametrize(
    ("blocks", "lines"),
    [
        ([], []),
        ([b""], []),
        ([b"a\nb\n"], [b"a", b"b"]),
        ([b"a\nb"], [b"a", b"b"]),
        ([b"a", b"b", b"\n", b"c"], [b"ab", b"c"]),
        ([b"\n\n", b"\n"], [b"", b"", b""]),
        ([b"a\r\n", b"\r", b"\n"], [b"a\r", b"\r"]),
        ([b"\x00\xff\x0b\x0c\x1c\x85\n"], [b"\x00\xff\x0b\x0c\x1c\x85"]),
    ],
)
def test_only_a_newline_ends_a_line(blocks: list[bytes], lines: list[bytes]) -> None:
    assert split(blocks) == lines


@st.composite
def cut_bytes(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """Bytes with many newlines, and the same bytes in blocks."""
    data = draw(st.lists(st.sampled_from([b"\n", b"\r", b"a", b"\xff", b"bb"])).map(b"".join))
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    bounds = [0, *cuts, len(data)]
    return data, [data[start:end] for start, end in pairwise(bounds)]


@given(cut_bytes())
def test_where_blocks_are_cut_does_not_matter(case: tuple[bytes, list[bytes]]) -> None:
    data, blocks = case
    lines = split(blocks)
    assert b"\n".join([*lines, b""] if data.endswith(b"\n") else lines) == data
    assert not any(b"\n" in line for line in lines)


@given(cut_bytes(), st.integers(1, 6))
def test_the_first_line_that_is_too_long_is_named(
    case: tuple[bytes, list[bytes]], max_line: int
) -> None:
    data, blocks = case
    too_long = [number for number, line in enumerate(data.split(b"\n"), 1) if len(line) > max_line]
    if not too_long:
        split(blocks, max_line)
        return
    with pytest.raises(LineTooLongError) as caught:
        split(blocks, max_line)
    assert caught.value.number == too_long[0]


def test_a_long_line_is_refused_before_all_of_it_was_read() -> None:
    splitter = LineSplitter(10)
    assert splitter.feed(b"one\ntwo\nthree") == [b"one", b"two"]
    assert splitter.feed(b"12345") == []
    with pytest.raises(LineTooLongError) as caught:
        splitter.feed(b"6")
    assert caught.value.number == 3


def collect(batcher: Batcher, pieces: list[list[bytes]]) -> list[list[bytes]]:
    batches = [batch for piece in pieces for batch in batcher.add(piece)]
    rest = batcher.take()
    return [*batches, rest] if rest else batches


def test_a_batch_is_full_by_its_messages() -> None:
    batches = collect(Batcher(2, 10_000), [[b"a", b"b", b"c"], [b"d"], [b"e"]])
    assert batches == [[b"a", b"b"], [b"c", b"d"], [b"e"]]


def test_a_batch_is_full_by_its_bytes() -> None:
    batches = collect(Batcher(100, 2 * (FRAME_HEADER + 10)), [[b"x" * 10] * 5, [b"y" * 500, b"z"]])
    assert batches == [[b"x" * 10] * 2, [b"x" * 10] * 2, [b"x" * 10], [b"y" * 500], [b"z"]]


@given(
    st.lists(st.lists(st.binary(max_size=200), max_size=20), max_size=10),
    st.integers(1, 10),
    st.integers(1, 1000),
)
def test_batches_keep_all_messages_in_order_and_their_bounds(
    pieces: list[list[bytes]], max_messages: int, max_bytes: int
) -> None:
    batches = collect(Batcher(max_messages, max_bytes), pieces)
    assert [message for batch in batches for message in batch] == [
        message for piece in pieces for message in piece
    ]
    for batch in batches:
        assert 1 <= len(batch) <= max_messages
        size = sum(FRAME_HEADER + len(message) for message in batch)
        assert len(batch) == 1 or size <= max_bytes
