"""What values of settings look like, and the sentences for those that don't.

Sizes are texts such as `64 MiB` or a number of bytes; times are texts such as `10 s`; both are
plain numbers once they are read.
"""

from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, SecretStr, Strict

from windsprite_protocol.model.users import PASSWORD_BYTES, USERNAME_BYTES
from windsprite_protocol.text_forms import format_duration, format_size, parse_duration, parse_size
from windsprite_server.core.address import (
    Address,
    AdvertisedAddress,
    parse_address,
    parse_advertised_address,
)

_LONGEST_WAIT: Final = 366 * 86_400
_SECOND: Final = 1_000_000


def _number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("needs a number")  # noqa: TRY004 pydantic's way
    return value


def _path(value: object) -> object:
    if value == "":
        raise ValueError("must not be empty")
    if isinstance(value, str) and "\0" in value:
        raise ValueError("must not hold the character NUL")
    return value


def _size(value: object) -> object:
    return parse_size(value) if isinstance(value, str) else value


def _seconds(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("needs a text with a unit, such as '10 s'")  # noqa: TRY004 pydantic's way
    seconds = parse_duration(value) / _SECOND
    if seconds > _LONGEST_WAIT:
        raise ValueError(f"{value!r} is longer than a year")
    return seconds


def _duration(seconds: float) -> str:
    return format_duration(round(seconds * _SECOND))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("needs a text")  # noqa: TRY004 pydantic's way
    return value


def _address(value: object) -> object:
    return parse_address(_text(value))


def _advertised_address(value: object) -> object:
    return parse_advertised_address(_text(value))


def _label(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return _printable(text)


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must have printable characters only")
    if len(text.encode()) > 255:
        raise ValueError("must not be longer than 255 bytes")
    return text


def _username(text: str) -> str:
    if len(text.encode()) not in USERNAME_BYTES:
        raise ValueError(f"needs {USERNAME_BYTES[0]} to {USERNAME_BYTES[-1]} bytes")
    return text


def _password(secret: SecretStr) -> SecretStr:
    if len(secret.get_secret_value().encode()) not in PASSWORD_BYTES:
        raise ValueError(f"needs {PASSWORD_BYTES[0]} to {PASSWORD_BYTES[-1]} bytes")
    return secret


Number = Annotated[int, BeforeValidator(_number)]
"""A number of things; `true` is none."""

File = Annotated[Path, BeforeValidator(_path)]
"""A file or directory."""

Size = Annotated[
    int,
    Strict(),
    BeforeValidator(_size),
    PlainSerializer(format_size, return_type=str, when_used="json"),
]
"""A number of bytes."""

Duration = Annotated[
    float, BeforeValidator(_seconds), PlainSerializer(_duration, return_type=str, when_used="json")
]
"""A number of seconds."""

Listener = Annotated[
    Address, BeforeValidator(_address), PlainSerializer(str, return_type=str, when_used="json")
]
Advertised = Annotated[
    AdvertisedAddress,
    BeforeValidator(_advertised_address),
    PlainSerializer(str, return_type=str, when_used="json"),
]
Label = Annotated[str, AfterValidator(_label)]
Printable = Annotated[str, AfterValidator(_printable)]
Username = Annotated[str, AfterValidator(_username)]
Password = Annotated[SecretStr, AfterValidator(_password)]
