"""What people write on the command line, read into values; `ValueError` says what is wrong."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Final

from windsprite import Identifier
from windsprite_protocol.model.identifiers import MAX_NAME_BYTES
from windsprite_protocol.text_forms import format_size, parse_size
from windsprite_protocol.topic_options import (
    MAX_SEGMENT_SIZE,
    MIN_SEGMENT_SIZE,
    SEGMENT_SIZE_STEP,
)

_MAX_ID: Final = (1 << 32) - 1
_MAX_U64: Final = (1 << 64) - 1
_MAX_KEY_BYTES: Final = 255
_NAME_PREFIX: Final = "name:"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

# A number of seconds of these sizes lies beyond the year 5138, a number of microseconds before
# April 1973: whoever writes one means milliseconds, most likely.
_LARGEST_SECONDS: Final = 10**11
_SMALLEST_MICROSECONDS: Final = 10**14
_NUMBER: Final = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,9})?", re.ASCII)


class StartKind(Enum):
    """Where reading begins."""

    FIRST = "first"
    LAST = "last"
    NEXT = "next"
    OFFSET = "offset"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Start:
    """Where reading begins; `value` is an offset, or microseconds since the epoch, or 0."""

    kind: StartKind
    value: int = 0


def parse_identifier(text: str) -> Identifier:
    """A stream, topic or consumer: digits are its number, all else is its name.

    `name:7` is the name that consists of digits.

    Raises:
        ValueError: No number or name can be like this.
    """
    if text.isascii() and text.isdigit():
        if len(text) > 10 or int(text) > _MAX_ID:
            message = f"the number {text[:20]} is above {_MAX_ID}"
            raise ValueError(message)
        return int(text)
    name = text.removeprefix(_NAME_PREFIX)
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        raise ValueError("a name has to be UTF-8") from None
    if not 1 <= length <= MAX_NAME_BYTES:
        message = f"a name has 1 to {MAX_NAME_BYTES} bytes"
        raise ValueError(message)
    return name


def parse_start(text: str) -> Start:
    """Where to begin: `first`, `last`, `next`, `offset:N` or `time:T` (see `parse_time`).

    Raises:
        ValueError: It is none of these.
    """
    kind, colon, value = text.partition(":")
    match kind, bool(colon):
        case (("first" | "last" | "next"), False):
            return Start(StartKind(kind))
        case "offset", True:
            return Start(StartKind.OFFSET, parse_offset(value))
        case "time", True:
            return Start(StartKind.TIME, parse_time(value))
    message = f"{text!r} is none of first, last, next, offset:N and time:T"
    raise ValueError(message)


def parse_time(text: str) -> int:
    """Microseconds since the epoch from ISO 8601, seconds or microseconds since the epoch.

    ISO 8601 without a zone is local time. Numbers below 10^11 are seconds, possibly with a
    fraction; those from 10^14 on are microseconds. Times before 1970 are taken for 1970.

    Raises:
        ValueError: It is neither.
    """
    if _NUMBER.fullmatch(text):
        return _parse_epoch(text)
    try:
        moment = datetime.fromisoformat(text)
        # Only a time without a zone is taken for local time.
        moment = moment if moment.tzinfo else moment.astimezone()
        return max(0, (moment - _EPOCH) // _MICROSECOND)
    except (ValueError, OverflowError):
        message = (
            f"{text!r} is not a time such as 2026-11-29T14:00:00Z, "
            "nor seconds or microseconds since 1970"
        )
        raise ValueError(message) from None


def parse_offset(text: str) -> int:
    """An offset.

    Raises:
        ValueError: It is no number, or a negative or too large one.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 20 and int(text) <= _MAX_U64):
        message = f"{text!r} is not an offset: a number from 0 to 2^64-1"
        raise ValueError(message)
    return int(text)


def parse_key(text: str) -> bytes:
    """The bytes of a key, just as they were given to the process.

    Raises:
        ValueError: It has no or more than 255 bytes.
    """
    key = os.fsencode(text)
    if not 1 <= len(key) <= _MAX_KEY_BYTES:
        message = f"a key has 1 to {_MAX_KEY_BYTES} bytes"
        raise ValueError(message)
    return key


def parse_file(text: str) -> Path:
    """A file to read; `-` is the standard input.

    Raises:
        ValueError: It looks like an option whose file was forgotten.
    """
    if text.startswith("-") and text != "-":
        message = f"{text!r} looks like an option; write ./{text} if it is a file"
        raise ValueError(message)
    return Path(text)


def parse_segment_size(text: str) -> int:
    """The size of a segment, in bytes.

    Raises:
        ValueError: It is no size, or none that a segment can have.
    """
    size = parse_size(text)
    if not MIN_SEGMENT_SIZE <= size <= MAX_SEGMENT_SIZE or size % SEGMENT_SIZE_STEP:
        message = (
            f"{text!r} is not a multiple of {SEGMENT_SIZE_STEP} bytes "
            f"from {format_size(MIN_SEGMENT_SIZE)} to {format_size(MAX_SEGMENT_SIZE)}"
        )
        raise ValueError(message)
    return size


def _parse_epoch(text: str) -> int:
    whole, _, fraction = text.partition(".")
    number = int(whole)
    if number < _LARGEST_SECONDS:
        return number * 1_000_000 + int(fraction.ljust(6, "0")[:6])
    if number >= _SMALLEST_MICROSECONDS and not fraction and number <= _MAX_U64:
        return number
    message = f"{text} is neither seconds nor microseconds since 1970"
    raise ValueError(message)
