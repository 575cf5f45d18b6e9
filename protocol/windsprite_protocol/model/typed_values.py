"""Values with a kind: the keys and values of user headers and options (spec 03, 1.3; 04, 3)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias


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


@dataclass(frozen=True, slots=True)
class TypedValue:
    """A value as it travels: its kind (1 to 255) and its encoded bytes (1 to 255 of them)."""

    kind: int
    data: bytes


UserHeaders: TypeAlias = dict[TypedValue, TypedValue]
"""The user headers of one message."""


@dataclass(frozen=True, slots=True)
class Option:
    """One entry of an option block."""

    key: str
    value: TypedValue


Options: TypeAlias = tuple[Option, ...]
"""An option block, in the order of the wire."""
