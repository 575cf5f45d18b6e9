"""User headers: all ways there and back, and bytes of strangers."""

import math
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from windsprite_protocol import user_headers
from windsprite_protocol.errors import DecodeError
from windsprite_protocol.model.typed_values import FIXED_SIZES, TypedValue, ValueKind

PLAIN = (
    st.booleans()
    | st.integers(-(2**127), 2**128 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)
    | st.binary(min_size=1, max_size=255)
)


def typed(kind):
    size = FIXED_SIZES.get(kind)
    lowest, highest = (1, 255) if size is None else (size, size)
    return st.builds(TypedValue, st.just(kind), st.binary(min_size=lowest, max_size=highest))


TYPED = st.integers(1, 20).flatmap(typed)


@given(st.dictionaries(TYPED, TYPED, max_size=5))
def test_bytes(headers):
    data = user_headers.encode(headers)
    decoded = user_headers.decode(data)
    assert decoded == headers
    assert user_headers.encode(decoded) == data
    assert list(decoded) == sorted(headers, key=lambda key: (key.kind, key.data))


@given(PLAIN)
def test_plain_values(value):
    value_typed = TypedValue.of(value)
    back = value_typed.to_python()
    assert back == value
    assert type(back) is type(value)
    assert value_typed.kind in iter(ValueKind)
    assert TypedValue.of(back, ValueKind(value_typed.kind)) == value_typed


@given(st.dictionaries(PLAIN, PLAIN, max_size=5))
def test_plain_headers(headers):
    data = user_headers.encode(user_headers.from_python(headers))
    assert user_headers.to_python(user_headers.decode(data)) == headers


@given(st.sampled_from(ValueKind).flatmap(typed))
def test_every_kind_keeps_its_bytes(value):
    with suppress(DecodeError):
        plain = value.to_python()
        if not isinstance(plain, float) or math.isfinite(plain):
            assert TypedValue.of(plain, ValueKind(value.kind)) == value


FIELDS = st.builds(
    lambda kind, data: bytes([kind]) + len(data).to_bytes(4, "little") + data,
    st.integers(0, 20),
    st.binary(max_size=16),
)


@given(st.binary(max_size=100) | st.lists(FIELDS, max_size=6).map(b"".join))
def test_strange_bytes_end_in_headers_or_the_error_of_the_protocol(data):
    with suppress(DecodeError):
        user_headers.to_python(user_headers.decode(data))
