"""The layouts of the headers and what reads and writes them are the same."""

from typing import NamedTuple

import construct as c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windsprite_protocol.v0_11 import frames

KINDS = {
    "request": (
        frames.REQUEST_HEADER,
        frames.RequestHeader,
        frames.pack_request,
        frames.unpack_request,
    ),
    "reply": (frames.REPLY_HEADER, frames.ReplyHeader, frames.pack_reply, frames.unpack_reply),
    "eviction": (
        frames.EVICTION_HEADER,
        frames.EvictionHeader,
        frames.pack_eviction,
        frames.unpack_eviction,
    ),
}


every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def fields_of(layout: c.Construct) -> dict[str, c.Construct]:
    return {part.name: part.subcon for part in layout.subcons if part.name}


def values_of(field: c.Construct) -> st.SearchStrategy:
    size = field.sizeof()
    if isinstance(field, c.Bytes):
        return st.binary(min_size=size, max_size=size)
    return st.integers(0, 256**size - 1)


@every_kind
def test_fields_have_the_same_names_in_the_same_order(kind) -> None:
    layout, header_type, _, _ = kind
    assert tuple(fields_of(layout)) == header_type._fields
    assert layout.sizeof() == frames.HEADER_SIZE


@every_kind
@given(data=st.data())
def test_any_header_is_written_alike(kind, data) -> None:
    layout, header_type, pack, unpack = kind
    values = {name: data.draw(values_of(field), name) for name, field in fields_of(layout).items()}
    packed = pack(header_type(**values))
    assert packed == layout.build(values)
    assert unpack(packed) == header_type(**values)


@every_kind
@given(data=st.data(), before=st.integers(0, 300))
def test_any_bytes_are_read_alike(kind, data, before: int) -> None:
    layout, header_type, pack, unpack = kind
    packed = data.draw(st.binary(min_size=256, max_size=256))
    header: NamedTuple = unpack(bytes(before) + packed, before)
    parsed = layout.parse(packed)
    assert header._asdict() == {name: parsed[name] for name in header_type._fields}
    assert unpack(pack(header)) == header


@given(data=st.data())
def test_header_of_a_success_is_written_like_any_reply(data) -> None:
    fields = fields_of(frames.REPLY_HEADER)
    own = ("cluster", "size", "request_checksum", "client", "timestamp", "request", "operation")
    values = {name: data.draw(values_of(fields[name]), name) for name in own}
    position = data.draw(values_of(fields["commit"]), "position")
    header = frames.ReplyHeader(op=position, commit=position, **values)
    assert frames.pack_success(position=position, **values) == frames.pack_reply(header)


@given(st.tuples(*[st.integers(0, 1023)] * 3), st.tuples(*[st.integers(0, 1023)] * 3))
def test_packed_versions_are_ordered_as_versions(one, other) -> None:
    packed_one, packed_other = frames.pack_version(*one), frames.pack_version(*other)
    assert (packed_one < packed_other) == (one < other)
    assert frames.unpack_version(packed_one) == one
