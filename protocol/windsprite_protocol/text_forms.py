"""Durations and byte sizes as people write them (spec 03, 5.2; spec 07, 1.8).

Durations are whole microseconds, sizes whole bytes. What cannot be parsed raises `ValueError`
with a sentence for the person who wrote it.
"""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil
from typing import Final

from windsprite_protocol.model.topics import NEVER_EXPIRES, SERVER_DEFAULT, UNLIMITED_SIZE

_LONGEST_TEXT: Final = 255
_U64_MAX: Final = 0xFFFF_FFFF_FFFF_FFFF
_MAX_EXPIRY_SECONDS: Final = 0xFFFF_FFFF
_MICROSECOND: Final = 1_000
_SECOND: Final = 1_000_000_000

_NANOSECONDS: Final = {
    unit: length
    for units, length in (
        ("ns nsec nanos", 1),
        ("us usec µs", _MICROSECOND),
        ("ms msec millis", 1_000_000),
        ("s sec secs second seconds", _SECOND),
        ("m min mins minute minutes", 60 * _SECOND),
        ("h hr hrs hour hours", 3_600 * _SECOND),
        ("d day days", 86_400 * _SECOND),
        ("w wk wks week weeks", 604_800 * _SECOND),
        ("M month months", 2_630_016 * _SECOND),
        ("y yr yrs year years", 31_557_600 * _SECOND),
    )
    for unit in units.split()
}
"""Each spelling of a unit of time, in nanoseconds."""

# Possessive quantifiers: a text that does not match is found out in one pass.
_TERM: Final = re.compile(
    r"\s*+(?P<whole>[0-9][0-9\s]*+)(?:\.(?P<part>[0-9][0-9\s]*+))?(?P<unit>[a-zA-Zµ]++)"
)
_SIZE: Final = re.compile(
    r"(?P<number>[0-9]++(?:\.[0-9]++)?) *+"
    r"(?:(?P<prefix>[KMGTPE])(?P<binary>I)?)?(?-i:(?P<unit>B|b|bits?)?)",
    re.ASCII | re.IGNORECASE,
)
_PREFIXES: Final = "KMGTPE"

_SHOWN_DURATIONS: Final = (
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
)
_SHOWN_SIZES: Final = tuple(
    (f"{prefix}{suffix}", base**power)
    for power, prefix in reversed(tuple(enumerate(_PREFIXES, start=1)))
    for suffix, base in (("iB", 1024), ("B", 1000))
)


def parse_duration(text: str) -> int:
    """The microseconds of a duration such as `500ms`, `1.5h`, `1h 30m`, `0`; fractions are cut.

    A number with a fraction must be a whole number of nanoseconds, from hours upwards of seconds.

    Raises:
        ValueError: The text is not a duration, or does not fit 64 bits.
    """
    return _in_range(_parse_nanoseconds(text) // _MICROSECOND, text)


def parse_interval(text: str) -> int:
    """A duration, or one of the words for none: `0`, `unlimited`, `disabled`, `none` in any case.

    Raises:
        ValueError: The text is neither.
    """
    if text.lower() in {"unlimited", "disabled", "none"}:
        return 0
    return parse_duration(text)


def parse_expiry(text: str) -> int:
    """How long something is kept: a duration of at most 2^32-1 seconds, or a word.

    Returns:
        Microseconds; `NEVER_EXPIRES` for never, `SERVER_DEFAULT` (0) for what the server takes.

    Raises:
        ValueError: The text is not such a form.
    """
    if text in {"unlimited", "Unlimited", "none", "None", "never_expire"}:
        return NEVER_EXPIRES
    if text in {"default", "Default", "server_default", "Server_default"}:
        return SERVER_DEFAULT
    nanoseconds = _parse_nanoseconds(text)
    if nanoseconds // _SECOND > _MAX_EXPIRY_SECONDS:
        message = f"{text!r} is longer than {_MAX_EXPIRY_SECONDS} seconds"
        raise ValueError(message)
    return nanoseconds // _MICROSECOND


def parse_size(text: str) -> int:
    """The bytes of a size such as `4096`, `1 GB`, `1.5 GiB`, `8 Mbit`, rounded up.

    Prefixes may have any case; `B` is for bytes, `b`, `bit` and `bits` are for bits.

    Raises:
        ValueError: The text is not a size, or does not fit 64 bits.
    """
    match = _SIZE.fullmatch(_short(text))
    if match is None:
        message = f"{text!r} is not a size such as 512, 64 KiB or 1.5 GB"
        raise ValueError(message)
    size = Fraction(match["number"])
    if match["prefix"]:
        power = 1 + _PREFIXES.index(match["prefix"].upper())
        size *= (1024 if match["binary"] else 1000) ** power
    if match["unit"] not in {None, "B"}:
        size /= 8
    return _in_range(ceil(size), text)


def parse_optional_size(text: str) -> int:
    """A size, or 0 for one of the words that mean none: `unlimited`, `none`, capitalised or not.

    Raises:
        ValueError: The text is neither.
    """
    if text in {"unlimited", "Unlimited", "none", "None"}:
        return 0
    return parse_size(text)


def parse_max_topic_size(text: str) -> int:
    """How big a topic may grow: a size or a word.

    Returns:
        Bytes; `UNLIMITED_SIZE` for `unlimited`, `SERVER_DEFAULT` (0) for what the server takes.

    Raises:
        ValueError: The text is neither.
    """
    if text == "unlimited":
        return UNLIMITED_SIZE
    if text == "server_default":
        return SERVER_DEFAULT
    return parse_optional_size(text)


def format_duration(microseconds: int) -> str:
    """A duration in the form that `parse_duration` reads, `1d 2h 30m` for instance, and exact."""
    terms = []
    for unit, length in _SHOWN_DURATIONS:
        count, microseconds = divmod(microseconds, length)
        if count:
            terms.append(f"{count}{unit}")
    return " ".join(terms) or "0"


def format_size(size: int) -> str:
    """A size in the largest unit that shows it exactly with up to three decimals (spec 08, 4.2)."""
    for unit, length in _SHOWN_SIZES:
        thousandths, rest = divmod(size * 1000, length)
        if size >= length and not rest:
            whole, decimals = divmod(thousandths, 1000)
            return f"{whole}.{decimals:03}".rstrip("0").rstrip(".") + f" {unit}"
    return f"{size} B"


def _parse_nanoseconds(text: str) -> int:
    terms = _short(text)
    if terms == "0":
        return 0
    nanoseconds = 0
    position = 0
    while True:
        term = _TERM.match(terms, position)
        if term is None or term["unit"] not in _NANOSECONDS:
            message = f"{text!r} is not a duration such as 500ms, 1.5h or 1h 30m"
            raise ValueError(message)
        nanoseconds += _term_nanoseconds(term)
        position = term.end()
        if position == len(terms):
            return nanoseconds


def _term_nanoseconds(term: re.Match[str]) -> int:
    unit = _NANOSECONDS[term["unit"]]
    whole = unit * int(_without_spaces(term["whole"]))
    if term["part"] is None:
        return whole
    granule, name = (1, "nanoseconds") if unit <= 60 * _SECOND else (_SECOND, "seconds")
    decimals = _without_spaces(term["part"])
    part = Fraction(unit * int(decimals), 10 ** len(decimals))
    if unit == 1 or part % granule:
        message = f"{term[0].strip()!r} is not a whole number of {name}"
        raise ValueError(message)
    return whole + int(part)


def _without_spaces(text: str) -> str:
    return "".join(text.split())


def _short(text: str) -> str:
    """A text without the spaces around it, if it is of a length that people write."""
    if len(text) > _LONGEST_TEXT:
        message = f"{text[:20]!r}... is too long"
        raise ValueError(message)
    return text.strip()


def _in_range(number: int, text: str) -> int:
    if number > _U64_MAX:
        message = f"{text!r} does not fit 64 bits"
        raise ValueError(message)
    return number
