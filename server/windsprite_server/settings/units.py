"""Sizes and times of settings as people write them, in the grammar of topic options (spec 03)."""

from windsprite_protocol.text_forms import parse_duration, parse_size

_SIZE_UNITS = ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))
_TIME_UNITS = (
    (86_400_000_000, "d"),
    (3_600_000_000, "h"),
    (60_000_000, "min"),
    (1_000_000, "s"),
    (1_000, "ms"),
)


def read_size(value: object) -> object:
    """Bytes from a text such as `64 MiB`; numbers are bytes already."""
    return parse_size(value) if isinstance(value, str) else value


def read_duration(value: object) -> object:
    """Seconds from a text such as `10 s`."""
    if isinstance(value, str):
        return parse_duration(value) / 1_000_000
    raise ValueError("needs a time with its unit, as in '10 s'")


def format_size(size: int) -> str:
    """The shortest exact text for a number of bytes."""
    for factor, unit in _SIZE_UNITS:
        if size and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"


def format_duration(seconds: float) -> str:
    """The shortest exact text for a number of seconds, to the microsecond."""
    microseconds = round(seconds * 1_000_000)
    for factor, unit in _TIME_UNITS:
        if microseconds and microseconds % factor == 0:
            return f"{microseconds // factor} {unit}"
    return f"{microseconds} us" if microseconds else "0 s"
