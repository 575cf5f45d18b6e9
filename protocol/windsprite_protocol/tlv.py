"""Typed fields in a row: the encoding of user headers and option blocks (spec 03, 1.3; 04, 3).

A field is a kind (1 byte, not 0), a length (4 bytes, 1 to 255) and so many bytes. Fields follow
each other without count or terminator. Pairs of a key and a value are two fields in a row.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from windsprite_protocol.errors import DecodeError, EncodeError, ErrorCode
from windsprite_protocol.model.messages import Buffer
from windsprite_protocol.model.typed_values import (
    FIXED_SIZES,
    MAX_VALUE_BYTES,
    Option,
    Options,
    TypedValue,
    ValueKind,
)

MAX_OPTIONS: Final = 1024
MAX_OPTIONS_BYTES: Final = 100_000
_OPTIONS_REMEMBERED: Final = 1024

_HEAD: Final = struct.Struct("<BL")
_LAST_KIND: Final = max(ValueKind)


def encode_fields(fields: Iterable[TypedValue]) -> bytes:
    """The bytes of fields, in the given order.

    Raises:
        EncodeError: A kind is not 1 to 255, or the data of a field is not 1 to 255 bytes.
    """
    parts: list[bytes] = []
    for field in fields:
        kind, data = field.kind, field.data
        size = len(data)
        if not 1 <= kind <= 255:
            message = f"the kind of a field is 1 to 255, not {kind}"
            raise EncodeError(message, ErrorCode.INVALID_HEADER_KIND)
        if not 1 <= size <= MAX_VALUE_BYTES:
            message = f"a field takes 1 to {MAX_VALUE_BYTES} bytes, not {size}"
            raise EncodeError(message, ErrorCode.INVALID_HEADER_VALUE)
        parts += (_HEAD.pack(kind, size), data)
    return b"".join(parts)


def iter_fields(data: Buffer) -> Iterator[TypedValue]:
    """The fields that fill `data`, one by one.

    Raises:
        DecodeError: A kind is 0, a length is not 1 to 255, or the last field is cut.
    """
    at, end = 0, len(data)
    while at < end:
        if end - at < _HEAD.size:
            message = f"{end - at} bytes where the head of a field belongs"
            raise DecodeError(message)
        kind, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        if kind == 0:
            raise DecodeError("the kind of a field is 0")
        if not 1 <= length <= min(MAX_VALUE_BYTES, end - at):
            message = f"a field of {length} bytes with {end - at} bytes left"
            raise DecodeError(message)
        yield TypedValue(kind, bytes(data[at : at + length]))
        at += length


def iter_pairs(data: Buffer) -> Iterator[tuple[TypedValue, TypedValue]]:
    """The pairs of a key and a value that fill `data`, one by one.

    Raises:
        DecodeError: As for `iter_fields`, or the last key has no value.
    """
    fields = iter_fields(data)
    for key in fields:
        value = next(fields, None)
        if value is None:
            raise DecodeError("the last key has no value")
        yield key, value


def encode_options(options: Options) -> bytes:
    """The bytes of an option block, in the given order.

    Raises:
        EncodeError: More than 1024 options or 100000 bytes, a key twice, or a key or value that
            is not 1 to 255 bytes.
    """
    if len({option.key for option in options}) != len(options):
        raise EncodeError("an option is given twice", ErrorCode.INVALID_OPTION_VALUE)
    parts = []
    for option in options:
        value = option.value
        parts.append(_encode_option(option.key, value.kind, value.data))
    block = b"".join(parts)
    if len(options) > MAX_OPTIONS or len(block) > MAX_OPTIONS_BYTES:
        message = f"{len(options)} options of {len(block)} bytes are too many"
        raise EncodeError(message, ErrorCode.OPTIONS_BLOCK_TOO_LARGE)
    return block


@lru_cache(_OPTIONS_REMEMBERED)
def _encode_option(key: str, kind: int, data: bytes) -> bytes:
    """The bytes of one option. Most topics have the same ones, and each is in many replies."""
    try:
        name = key.encode()
    except UnicodeEncodeError:
        raise EncodeError("an option key cannot be UTF-8") from None
    return encode_fields((TypedValue(ValueKind.STRING, name), TypedValue(kind, data)))


def decode_options(data: Buffer) -> Options:
    """The options of a request; values of any kind and size pass, the catalog judges them.

    Raises:
        DecodeError: The block breaks a structural rule (spec 03, 1.3).
    """
    if len(data) > MAX_OPTIONS_BYTES:
        message = f"an option block of {len(data)} bytes; at most {MAX_OPTIONS_BYTES} are allowed"
        raise DecodeError(message)
    options: dict[str, TypedValue] = {}
    for key, value in iter_pairs(data):
        if key.kind != ValueKind.STRING:
            message = f"an option key of kind {key.kind}"
            raise DecodeError(message)
        try:
            text = key.data.decode()
        except UnicodeDecodeError:
            raise DecodeError("an option key is not UTF-8") from None
        if text in options:
            raise DecodeError("an option is given twice")
        if len(options) == MAX_OPTIONS:
            message = f"more than {MAX_OPTIONS} options"
            raise DecodeError(message)
        options[text] = value
    return tuple(Option(key, value) for key, value in options.items())


def decode_reported_options(data: Buffer) -> Options:
    """The options of a reply; values of kinds of later generations are left out.

    Raises:
        DecodeError: The block breaks a structural rule, or a value has not the size of its kind.
    """
    known = []
    for option in decode_options(data):
        kind, size = option.value.kind, len(option.value.data)
        if kind > _LAST_KIND:
            continue
        if FIXED_SIZES.get(kind, size) != size:
            message = f"a value of {ValueKind(kind).name} with {size} bytes"
            raise DecodeError(message)
        known.append(option)
    return tuple(known)
