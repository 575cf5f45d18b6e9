"""The user headers of a message, as bytes, typed values and plain Python values (spec 04, 3)."""

from __future__ import annotations

from collections.abc import Mapping

from windsprite_protocol.batches import MAX_USER_HEADERS_BYTES
from windsprite_protocol.errors import DecodeError, EncodeError, ErrorCode
from windsprite_protocol.model.messages import Buffer
from windsprite_protocol.model.typed_values import (
    FIXED_SIZES,
    MAX_VALUE_BYTES,
    PythonValue,
    TypedValue,
    UserHeaders,
)
from windsprite_protocol.tlv import encode_fields, iter_pairs


def encode(headers: Mapping[TypedValue, TypedValue]) -> bytes:
    """The bytes of user headers, in ascending order of the keys' kinds, then bytes.

    Raises:
        EncodeError: A key (4018) or a value (4019) has no or more than 255 bytes or not the size
            of its kind, or all together take more than 100,000 bytes (4017).
    """
    fields: list[TypedValue] = []
    for key, value in sorted(headers.items(), key=_order):
        _check(key, ErrorCode.INVALID_HEADER_KEY)
        _check(value, ErrorCode.INVALID_HEADER_VALUE)
        fields += (key, value)
    data = encode_fields(fields)
    if len(data) > MAX_USER_HEADERS_BYTES:
        message = f"user headers take {len(data):,} bytes, at most {MAX_USER_HEADERS_BYTES:,} go"
        raise EncodeError(message, ErrorCode.TOO_BIG_USER_HEADERS)
    return data


def decode(data: Buffer) -> UserHeaders:
    """The user headers that fill `data`; of a repeated key the last value counts.

    Only the structure is checked: kinds may be unknown and values malformed. Encrypted headers
    look like malformed ones, so a reader treats a failure as "no user headers".

    Raises:
        DecodeError: The bytes do not have the structure of user headers.
    """
    return dict(iter_pairs(data))


def from_python(
    headers: Mapping[TypedValue | PythonValue, TypedValue | PythonValue],
) -> UserHeaders:
    """User headers from plain values, each in the narrowest kind; typed values stay as they are.

    Raises:
        EncodeError: A key (4018) or a value (4019) cannot be typed (see `TypedValue.of`), or two
            keys are the same once they are typed (4018).
    """
    typed: UserHeaders = {}
    for key, value in headers.items():
        try:
            typed_key = key if isinstance(key, TypedValue) else TypedValue.of(key)
        except EncodeError as error:
            raise EncodeError(str(error), ErrorCode.INVALID_HEADER_KEY) from error
        if typed_key in typed:
            message = f"the key {key!r} is given twice"
            raise EncodeError(message, ErrorCode.INVALID_HEADER_KEY)
        typed[typed_key] = value if isinstance(value, TypedValue) else TypedValue.of(value)
    return typed


def to_python(headers: UserHeaders) -> dict[PythonValue, PythonValue]:
    """User headers as plain values.

    Raises:
        DecodeError: A kind is unknown (4040), a key (4018) or a value (4019) is malformed, or two
            typed keys are equal in Python, as the number 1 and `True` are (4018).
    """
    plain: dict[PythonValue, PythonValue] = {}
    for key, value in headers.items():
        try:
            plain_key = key.to_python()
        except DecodeError as error:
            if error.code is ErrorCode.INVALID_HEADER_VALUE:
                raise DecodeError(str(error), ErrorCode.INVALID_HEADER_KEY) from error
            raise
        if plain_key in plain:
            message = f"two keys are {plain_key!r} as plain values"
            raise DecodeError(message, ErrorCode.INVALID_HEADER_KEY)
        plain[plain_key] = value.to_python()
    return plain


def _order(item: tuple[TypedValue, TypedValue]) -> tuple[int, bytes]:
    key, _ = item
    return key.kind, key.data


def _check(field: TypedValue, code: ErrorCode) -> None:
    size = len(field.data)
    if not 1 <= size <= MAX_VALUE_BYTES or FIXED_SIZES.get(field.kind, size) != size:
        message = f"{size} bytes are too few or too many for the kind {field.kind}"
        raise EncodeError(message, code)
