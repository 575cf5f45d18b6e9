"""The sparse index: what it finds, and what it does not let itself be told."""

import pytest

from windsprite_server.log.index import (
    END_MARK_SIZE,
    ENTRY,
    EndMark,
    Entry,
    SegmentIndex,
    encode_end_mark,
    encode_header,
)

MARK = EndMark(next_offset=50, last_timestamp=9000, size=5000)


def index_of(*entries: tuple[int, int, int], interval: int = 1) -> SegmentIndex:
    index = SegmentIndex(interval)
    for entry in entries:
        index.add(*entry)
    return index


INDEX = index_of((10, 1000, 0), (20, 2000, 300), (30, 3000, 600))


def decode(data: bytes, base_offset: int = 10, incarnation: int = 7):
    return SegmentIndex.decode(data, base_offset=base_offset, incarnation=incarnation, interval=1)


def test_only_every_so_many_bytes_is_an_entry() -> None:
    index = SegmentIndex(100)
    assert [index.add(offset, offset, offset * 40) for offset in range(8)] == [
        True, False, False, True, False, False, True, False,
    ]  # fmt: skip


def test_offsets_are_found_from_both_sides() -> None:
    assert INDEX.at_or_before(9) is None
    assert INDEX.at_or_before(10) == Entry(10, 1000, 0)
    assert INDEX.at_or_before(29) == Entry(20, 2000, 300)
    assert INDEX.at_or_before(2**63) == Entry(30, 3000, 600)
    assert [INDEX.position_at_or_after(offset) for offset in (0, 11, 30, 31)] == [0, 300, 600, None]


def test_times_are_looked_for_from_an_earlier_batch_on() -> None:
    assert INDEX.before_time(2000) == Entry(10, 1000, 0)
    assert INDEX.before_time(2001) == Entry(20, 2000, 300)
    assert INDEX.before_time(1000) is None
    assert SegmentIndex(1).before_time(5) is None


def test_a_file_is_read_as_it_was_written() -> None:
    data = encode_header(10, 7) + INDEX.encode() + encode_end_mark(MARK, 10, 7)
    index, mark = decode(data)
    assert index.encode() == INDEX.encode()
    assert mark == MARK
    more = data + ENTRY.pack(50, 9001, 5000)
    index, mark = decode(more)
    assert len(index) == 4
    assert mark is None


@pytest.mark.parametrize("cut", range(1, ENTRY.size))
def test_a_torn_end_is_left_out(cut) -> None:
    index, mark = decode((encode_header(10, 7) + INDEX.encode())[:-cut])
    assert len(index) == 2
    assert mark is None


def test_a_mark_with_any_bit_flipped_is_none() -> None:
    data = encode_header(10, 7) + INDEX.encode() + encode_end_mark(MARK, 10, 7)
    for bit in range(8 * END_MARK_SIZE):
        flipped = bytearray(data)
        flipped[len(data) - END_MARK_SIZE + bit // 8] ^= 1 << bit % 8
        decoded = decode(bytes(flipped))
        assert decoded is None or decoded[1] is None


def test_the_index_of_another_segment_or_life_is_none() -> None:
    data = encode_header(10, 7) + INDEX.encode()
    assert decode(data, base_offset=11) is None
    assert decode(data, incarnation=8) is None
    assert decode(b"") is None
    assert decode(data[:20]) is None


def test_entries_out_of_order_are_none() -> None:
    rows = INDEX.encode()
    for disorder in (
        rows[24:48] + rows[:24] + rows[48:],
        rows[:24] + rows[:24],
        rows[24:],
        ENTRY.pack(10, 5000, 0) + rows[24:],
    ):
        assert decode(encode_header(10, 7) + disorder) is None
