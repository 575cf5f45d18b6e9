"""Options of topics, from what Python programs write to what travels (spec 03, 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final, Literal, TypeAlias

from windsprite.errors import InvalidRequest
from windsprite_protocol.errors import EncodeError, ErrorCode
from windsprite_protocol.model.typed_values import (
    Option,
    Options,
    PythonValue,
    TypedValue,
    ValueKind,
)
from windsprite_protocol.text_forms import parse_expiry, parse_max_topic_size, parse_size

Duration: TypeAlias = timedelta | str
"""A `timedelta`, or a text such as `"500ms"`, `"1h 30m"`, `"7 days"`."""

Size: TypeAlias = int | str
"""Bytes, or a text such as `"128 MiB"`."""

Durability: TypeAlias = Literal["replicated", "persisted"]
"""When something is acknowledged."""

OptionValue: TypeAlias = PythonValue | timedelta


def topic_options(
    known: Mapping[str, OptionValue | None], others: Mapping[str, PythonValue]
) -> Options:
    """The option block of a topic; what is None is left out.

    Args:
        known: Options with a keyword argument of their own.
        others: Whatever else the caller wants the server to see.

    Raises:
        InvalidRequest: A value cannot be understood, or an option is given in both ways.
    """
    given = {key: value for key, value in known.items() if value is not None}
    twice = given.keys() & others.keys()
    if twice:
        raise _invalid(min(twice), "it is given twice")
    return tuple(Option(key, _typed(key, value)) for key, value in {**given, **others}.items())


def expiry_of(duration: Duration) -> int:
    """Microseconds until something expires; words may stand for 0 or `NEVER_EXPIRES`.

    Raises:
        ValueError: It is no duration, or none that lies ahead.
    """
    if isinstance(duration, str):
        return parse_expiry(duration)
    if duration <= timedelta(0):
        message = f"{duration} is not a positive duration"
        raise ValueError(message)
    return duration // timedelta(microseconds=1)


def _typed(key: str, value: OptionValue) -> TypedValue:
    try:
        if key in _NUMBERS:
            kind, parse = _NUMBERS[key]
            return TypedValue.of(_number(value, parse), kind)
        if isinstance(value, timedelta):
            raise _invalid(key, "it is no duration")
        return TypedValue.of(value)
    except (EncodeError, ValueError) as error:
        if isinstance(error, InvalidRequest):
            raise
        raise _invalid(key, str(error)) from error


def _number(value: OptionValue, parse: Callable[[str], int]) -> PythonValue:
    if isinstance(value, str):
        return parse(value)
    if isinstance(value, timedelta):
        if parse is not parse_expiry:
            raise ValueError("no size")
        return expiry_of(value)
    return value


def _invalid(key: str, reason: str) -> InvalidRequest:
    return InvalidRequest(f"option {key}: {reason}", code=ErrorCode.INVALID_OPTION_VALUE)


_NUMBERS: Final[dict[str, tuple[ValueKind, Callable[[str], int]]]] = {
    "message_expiry": (ValueKind.UINT64, parse_expiry),
    "max_topic_size": (ValueKind.UINT64, parse_max_topic_size),
    "segment_size": (ValueKind.UINT64, parse_size),
    "messages_required_to_save": (ValueKind.UINT32, int),
    "size_of_messages_required_to_save": (ValueKind.UINT64, parse_size),
}
"""The options that are numbers on the wire, and how their text is read."""
