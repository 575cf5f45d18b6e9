"""Options of topics, from what Python programs write to what travels (spec 03, 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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
from windsprite_protocol.topic_options import (
    MIN_SEGMENT_SIZE,
    TopicOptionError,
    describe,
    resolve_for_create,
    resolve_for_update,
)

Duration: TypeAlias = timedelta | str
"""A `timedelta`, or a text such as `"500ms"`, `"1h 30m"`, `"7 days"`."""

Size: TypeAlias = int | str
"""Bytes, or a text such as `"128 MiB"`."""

Durability: TypeAlias = Literal["replicated", "persisted"]
"""When something is acknowledged."""

OptionValue: TypeAlias = PythonValue | timedelta


def options_for_create(
    doing: str,
    known: Mapping[str, OptionValue | None],
    others: Mapping[str, PythonValue],
    partitions: int,
) -> Options:
    """The option block of a new topic; what is None is left out.

    A server that refuses an option does not tell which one. So those that every server of this
    generation knows are checked here, by the same rules; others are left to the server.

    Args:
        doing: What it is for, for error messages.
        known: Options with a keyword argument of their own.
        others: Whatever else the caller wants the server to see.
        partitions: How many the topic is to have.

    Raises:
        InvalidRequest: An option makes no sense or is given in both ways, or there are too many
            partitions.
    """
    options = _options(known, others)
    with _refusing(doing):
        resolve_for_create(_of_catalog(options), partitions)
    return options


def options_for_update(
    doing: str, known: Mapping[str, OptionValue | None], others: Mapping[str, PythonValue]
) -> Options:
    """The option block of a change of a topic; see `options_for_create`.

    Raises:
        InvalidRequest: An option makes no sense, cannot be changed, or is given in both ways.
    """
    options = _options(known, others)
    with _refusing(doing):
        # Only the server knows the size of the segments.
        resolve_for_update(_of_catalog(options), MIN_SEGMENT_SIZE)
    return options


def _options(known: Mapping[str, OptionValue | None], others: Mapping[str, PythonValue]) -> Options:
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


def _of_catalog(options: Options) -> Options:
    return tuple(option for option in options if option.key in _CATALOG)


@contextmanager
def _refusing(doing: str) -> Iterator[None]:
    try:
        yield
    except TopicOptionError as error:
        raise InvalidRequest(
            f"{doing}: {error}", code=error.code, hint=_HINTS.get(error.code, "")
        ) from error


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


_HINTS: Final = {
    ErrorCode.INVALID_TOPIC_SIZE: "choose smaller segments with segment_size as well",
    ErrorCode.UNSUPPORTED_OPTION_KEY: "it can be chosen for new topics only",
}
_CATALOG: Final = frozenset(spec.key for spec in describe())

_NUMBERS: Final[dict[str, tuple[ValueKind, Callable[[str], int]]]] = {
    "message_expiry": (ValueKind.UINT64, parse_expiry),
    "max_topic_size": (ValueKind.UINT64, parse_max_topic_size),
    "segment_size": (ValueKind.UINT64, parse_size),
    "messages_required_to_save": (ValueKind.UINT32, int),
    "size_of_messages_required_to_save": (ValueKind.UINT64, parse_size),
}
"""The options that are numbers on the wire, and how their text is read."""
