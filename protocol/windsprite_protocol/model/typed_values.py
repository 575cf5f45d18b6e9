"""Values with a kind: the keys and values of user headers and options (spec 03, 1.3; 04, 3)."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from windsprite_protocol.errors import DecodeError, EncodeError, ErrorCode

MAX_VALUE_BYTES: Final = 255


class ValueKind(IntEnum):
    """The kinds that generation 0.11 knows; a reader may meet higher numbers."""

    RAW = 1
    STRING = 2
    BOOL = 3
    INT8 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    INT128 = 8
    UINT8 = 9
    UINT16 = 10
    UINT32 = 11
    UINT64 = 12
    UINT128 = 13
    FLOAT32 = 14
    FLOAT64 = 15


PythonValue: TypeAlias = bytes | str | bool | int | float
"""What a typed value is in Python."""


_UNSIGNED: Final = (
    ValueKind.UINT8,
    ValueKind.UINT16,
    ValueKind.UINT32,
    ValueKind.UINT64,
    ValueKind.UINT128,
)
_SIGNED: Final = (
    ValueKind.INT8,
    ValueKind.INT16,
    ValueKind.INT32,
    ValueKind.INT64,
    ValueKind.INT128,
)
_FLOAT32: Final = struct.Struct("<f")
_FLOAT64: Final = struct.Struct("<d")

FIXED_SIZES: Final[dict[int, int]] = {
    ValueKind.BOOL: 1,
    ValueKind.FLOAT32: 4,
    ValueKind.FLOAT64: 8,
    **{kind: 1 << power for kinds in (_UNSIGNED, _SIGNED) for power, kind in enumerate(kinds)},
}
"""How many bytes the values of a kind have, for the kinds where all have the same number."""

_PYTHON_TYPES: Final[dict[ValueKind, type[PythonValue]]] = {
    ValueKind.RAW: bytes,
    ValueKind.STRING: str,
    ValueKind.BOOL: bool,
    ValueKind.FLOAT32: float,
    ValueKind.FLOAT64: float,
    **dict.fromkeys(_UNSIGNED + _SIGNED, int),
}


@dataclass(frozen=True, slots=True)
class TypedValue:
    """A value as it travels: its kind (1 to 255) and its encoded bytes (1 to 255 of them)."""

    kind: int
    data: bytes

    @classmethod
    def of(cls, value: PythonValue, kind: ValueKind | None = None) -> TypedValue:
        """The typed form of a Python value.

        Without a kind: `bytes` become RAW, `str` STRING, `bool` BOOL, an `int` the narrowest
        kind that holds it (unsigned unless it is negative), a `float` FLOAT32 if that is exact,
        else FLOAT64 (spec 07, 11.3).

        Raises:
            EncodeError: The value has no such form: it has no or more than 255 bytes, is an
                integer out of range, is a float that is not finite or not exact in 32 bits, or is
                of another type than the kind (4019).
        """
        if kind is None:
            kind = _narrowest(value)
        data = _encode(value, kind)
        if not 1 <= len(data) <= MAX_VALUE_BYTES:
            message = f"a value has 1 to {MAX_VALUE_BYTES} bytes, not {len(data)}"
            raise _unfit(message)
        return cls(kind, data)

    def to_python(self) -> PythonValue:
        """The Python value of this one; the reverse of `of`.

        Raises:
            DecodeError: The kind is unknown (4040), or its values look different (4019).
        """
        size = FIXED_SIZES.get(self.kind)
        if size is not None and len(self.data) != size:
            message = f"a value of kind {self.kind} has {size} bytes, not {len(self.data)}"
            raise _malformed(message)
        return _decode(self.kind, self.data)


UserHeaders: TypeAlias = dict[TypedValue, TypedValue]
"""The user headers of one message."""


@dataclass(frozen=True, slots=True)
class Option:
    """One entry of an option block."""

    key: str
    value: TypedValue


Options: TypeAlias = tuple[Option, ...]
"""An option block, in the order of the wire."""


def _narrowest(value: PythonValue) -> ValueKind:
    match value:
        case bool():
            return ValueKind.BOOL
        case int():
            for kind in _SIGNED if value < 0 else _UNSIGNED:
                if _fits(value, kind):
                    return kind
            raise _unfit("an integer is outside of the 128-bit range")
        case float():
            return ValueKind.FLOAT32 if _exact_in_32_bits(value) else ValueKind.FLOAT64
        case str():
            return ValueKind.STRING
        case bytes():
            return ValueKind.RAW
    message = f"a value must be bytes, str, bool, int or float, not {type(value).__name__}"
    raise _unfit(message)


def _encode(value: PythonValue, kind: ValueKind) -> bytes:
    if isinstance(value, bool) != (kind is ValueKind.BOOL) or not isinstance(
        value, _PYTHON_TYPES[kind]
    ):
        message = f"a {type(value).__name__} cannot be of the kind {kind.name}"
        raise _unfit(message)
    match value:
        case int():
            if not _fits(value, kind):
                message = f"{value} does not fit the kind {kind.name}"
                raise _unfit(message)
            return value.to_bytes(FIXED_SIZES[kind], "little", signed=kind in _SIGNED)
        case float():
            return _encode_float(value, kind)
        case str():
            try:
                return value.encode()
            except UnicodeEncodeError:
                raise _unfit("a text with lone surrogates has no UTF-8 form") from None
        case bytes():
            return bytes(value)


def _encode_float(value: float, kind: ValueKind) -> bytes:
    if not math.isfinite(value):
        raise _unfit("a float must be finite")
    if kind is ValueKind.FLOAT64:
        return _FLOAT64.pack(value)
    if not _exact_in_32_bits(value):
        message = f"{value} is not exact as a 32-bit float"
        raise _unfit(message)
    return _FLOAT32.pack(value)


def _decode(kind: int, data: bytes) -> PythonValue:
    match kind:
        case ValueKind.RAW:
            return data
        case ValueKind.STRING:
            try:
                return data.decode()
            except UnicodeDecodeError:
                raise _malformed("a text is not UTF-8") from None
        case ValueKind.BOOL:
            if data[0] > 1:
                message = f"a bool is 0 or 1, not {data[0]}"
                raise _malformed(message)
            return data[0] == 1
        case ValueKind.FLOAT32:
            return float(_FLOAT32.unpack(data)[0])
        case ValueKind.FLOAT64:
            return float(_FLOAT64.unpack(data)[0])
        case _ if kind in FIXED_SIZES:
            return int.from_bytes(data, "little", signed=kind in _SIGNED)
    message = f"the kind {kind} is not known"
    raise DecodeError(message, ErrorCode.INVALID_HEADER_KIND)


def _fits(number: int, kind: ValueKind) -> bool:
    bits = 8 * FIXED_SIZES[kind]
    if kind in _SIGNED:
        return -(1 << bits - 1) <= number < 1 << bits - 1
    return 0 <= number < 1 << bits


def _exact_in_32_bits(number: float) -> bool:
    try:
        return bool(_FLOAT32.unpack(_FLOAT32.pack(number))[0] == number)
    except OverflowError:
        return False


def _unfit(message: str) -> EncodeError:
    return EncodeError(message, ErrorCode.INVALID_HEADER_VALUE)


def _malformed(message: str) -> DecodeError:
    return DecodeError(message, ErrorCode.INVALID_HEADER_VALUE)
