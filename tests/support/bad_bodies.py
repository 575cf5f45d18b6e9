"""Bodies of requests that cannot be decoded (spec 03, 1; spec 04, the table of primitives)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from support.by_hand import ident, name, option, partition, single, u8, u32, u64


class Field(NamedTuple):
    """A part of a body.

    Attributes:
        title: What it is called.
        good: Bytes that can be decoded.
        wrong: Bytes of its whole length, or more, that cannot.
        may_be_missing: Whether its absence at the end of a body is no mistake.
    """

    title: str
    good: bytes
    wrong: dict[str, bytes]
    may_be_missing: bool = False


_WRONG_IDENTIFIERS = {
    "an unknown kind": b"\x03\x04\x00\x00\x00\x00",
    "no kind": b"\x00\x04\x00\x00\x00\x00",
    "a number of three bytes": b"\x01\x03\x00\x00\x00",
    "a number of five bytes": b"\x01\x05\x00\x00\x00\x00\x00",
    "a name without bytes": b"\x02\x00",
    "a name that is no UTF-8": b"\x02\x01\xff",
}
_COLOUR = option("colour", 2, b"red")

IDENT = Field("identifier", ident(0), _WRONG_IDENTIFIERS)
NAME = Field("name", name("x"), {"no bytes": b"\x00", "no UTF-8": b"\x01\xff"})
TEXT = Field("text", name("secret"), {"no UTF-8": b"\x01\xff"})
BYTE = Field("byte", u8(1), {})
NUMBER = Field("number", u32(1), {})
LONG_NUMBER = Field("long number", u64(1), {})
PARTITION = Field("partition", partition(0), {})
ACK = Field("acknowledgement", u8(1), {"unknown": u8(2)})
STRATEGY = Field("strategy", u8(1) + u64(0), {"none": u8(0) + u64(0), "unknown": u8(6) + u64(0)})
CONSUMER = Field(
    "consumer",
    single(7),
    {
        "no kind": u8(0) + ident(7),
        "an unknown kind": u8(3) + ident(7),
        **{title: u8(1) + bad for title, bad in _WRONG_IDENTIFIERS.items()},
    },
)
OPTIONS = Field(
    "options",
    b"",
    {
        "a key that is no string": b"\x01" + _COLOUR[1:],
        "cut short": _COLOUR[:-1],
        "the same key twice": _COLOUR + _COLOUR,
        "a key that is no UTF-8": _COLOUR[:5] + b"\xff" + _COLOUR[6:],
        "a value without a kind": option("colour", 0, b"red"),
        "a value without bytes": option("colour", 2, b""),
        "a value of 256 bytes": option("colour", 1, bytes(256)),
        "1025 of them": b"".join(option(f"{number:04}", 9, b"\x00") for number in range(1025)),
        "more than 100,000 bytes": b"".join(
            option(f"{number:04}", 1, bytes(255)) for number in range(372)
        ),
    },
    may_be_missing=True,
)


def spoiled(*fields: Field) -> Iterator[tuple[str, bytes]]:
    """Bodies of these fields with one mistake each, and what it is."""
    for index, field in enumerate(fields):
        before = b"".join(other.good for other in fields[:index])
        after = b"".join(other.good for other in fields[index + 1 :])
        for title, wrong in field.wrong.items():
            yield f"{field.title} {index}, {title}", before + wrong + after
        if not field.may_be_missing:
            yield f"{field.title} {index} is missing", before
            if len(field.good) > 1:
                yield f"{field.title} {index} is cut short", before + field.good[:-1]
