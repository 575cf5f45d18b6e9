"""How layouts are declared: `construct` definitions, and what this package adds to them.

Layouts say what bytes mean and are interpreted, never compiled: they read what strangers send.
What runs for every frame or message uses a `struct.Struct` derived from its layout by
`struct_twin`.
"""

from __future__ import annotations

import struct
from typing import Any

import construct as c


def struct_twin(layout: c.Construct[Any, Any]) -> struct.Struct:
    """The `struct.Struct` that reads and writes the same bytes as a layout of fixed size.

    Named fields become one value each, in their order; padding becomes none. Byte strings and
    integers without a format of their own (128 bits) become `bytes` of that size.

    Raises:
        TypeError: The layout holds something that has no such twin.
        ValueError: The sizes differ.
    """
    twin = struct.Struct("<" + _format(layout))
    if twin.size != layout.sizeof():
        message = f"{twin.format} has {twin.size} bytes, its layout {layout.sizeof()}"
        raise ValueError(message)
    return twin


def _format(part: c.Construct[Any, Any]) -> str:
    match part:
        case c.Struct():
            return "".join(_format(member) for member in part.subcons)
        case c.Renamed():
            return _format(part.subcon)
        case c.FormatField() if part.length == 1 or part.fmtstr[0] == "<":
            return part.fmtstr[-1]
        case c.BytesInteger() if not part.swapped:
            pass
        case c.Bytes() | c.BytesInteger() if isinstance(part.length, int):
            return f"{part.length}s"
        case c.Padded() if part.subcon is c.Pass:
            return f"{part.sizeof()}x"
    message = f"{part!r} has no twin in struct"
    raise TypeError(message)
