"""The struct twin of a layout reads and writes the same bytes as the layout."""

import construct as c
import pytest

from windsprite_protocol.layout import struct_twin

INNER = c.Struct("small" / c.Int8ul, "ratio" / c.Float32l)
LAYOUT = c.Struct(
    "length" / c.Int32ul,
    c.Padding(4),
    "digest" / c.Bytes(16),
    "cluster" / c.BytesInteger(16, swapped=True),
    "inner" / INNER,
    "offset" / c.Int64ul,
)


def test_format_and_size():
    twin = struct_twin(LAYOUT)
    assert twin.format == "<L4x16s16sBfQ"
    assert twin.size == LAYOUT.sizeof()


def test_both_read_and_write_the_same():
    twin = struct_twin(LAYOUT)
    cluster = 0x0102030405060708090A0B0C0D0E0F10
    values = (7, b"d" * 16, cluster.to_bytes(16, "little"), 1, 0.5, 2**64 - 1)
    raw = twin.pack(*values)
    parsed = LAYOUT.parse(raw)
    assert (parsed.length, parsed.digest, parsed.cluster) == (7, b"d" * 16, cluster)
    assert (parsed.inner.small, parsed.inner.ratio, parsed.offset) == (1, 0.5, 2**64 - 1)
    assert LAYOUT.build(parsed) == raw
    assert twin.unpack(raw) == values


@pytest.mark.parametrize(
    "layout",
    [
        c.Int32ub,
        c.BytesInteger(16),
        c.Bytes(c.this.length),
        c.GreedyBytes,
        c.Struct("name" / c.PascalString(c.Int8ul, "utf8")),
    ],
)
def test_what_has_no_twin_is_refused(layout):
    with pytest.raises(TypeError, match="no twin"):
        struct_twin(layout)
