"""The forms in which polled messages are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from windsprite import ReceivedMessage
from windsprite.cli.output import bytes_to_json, dump_json, printable
from windsprite.cli.views import show_time, value_to_json

Messages: TypeAlias = Sequence[ReceivedMessage]
Format: TypeAlias = Callable[[Messages], bytes]

_COLUMNS: Final = ("partition", "offset", "timestamp", "headers", "payload")
_ALIGNED: Final = "{:>9}  {:>12}  {:27}  {}  {}\n"


def raw(messages: Messages) -> bytes:
    """Each payload and a newline, and nothing else."""
    lines = [message.payload for message in messages]
    lines.append(b"")
    return b"\n".join(lines)


def json_lines(messages: Messages) -> bytes:
    """A line of JSON for each message."""
    return "".join(dump_json(message_to_json(message)) for message in messages).encode()


def tabbed_lines(messages: Messages) -> bytes:
    """For pipes: a line for each message, with fields separated by tabs."""
    return "".join("\t".join(_fields(message)) + "\n" for message in messages).encode()


def aligned_lines(messages: Messages) -> bytes:
    """For a terminal: a line for each message."""
    return "".join(_ALIGNED.format(*_fields(message)) for message in messages).encode()


def tabbed_header() -> bytes:
    """The names of the fields of `tabbed_lines`."""
    return ("\t".join(_COLUMNS) + "\n").encode()


def aligned_header() -> bytes:
    """The names above `aligned_lines`."""
    return _ALIGNED.format(*(name.upper() for name in _COLUMNS)).encode()


def message_to_json(message: ReceivedMessage) -> dict[str, Any]:
    """All of a message; times are microseconds since the epoch."""
    return {
        "partition": message.partition_id,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "origin_timestamp": message.origin_timestamp,
        "id": message.id,
        "headers": _headers_to_json(message),
        "payload": bytes_to_json(message.payload),
    }


def _headers_to_json(message: ReceivedMessage) -> dict[str, Any]:
    headers = {}
    for key, value in message.user_headers.items():
        name = value_to_json(key)
        headers[name["base64"] if isinstance(name, dict) else str(name)] = value_to_json(value)
    return headers


def _fields(message: ReceivedMessage) -> tuple[str, ...]:
    headers = ",".join(f"{key}={value}" for key, value in _headers_to_json(message).items())
    return (
        str(message.partition_id),
        str(message.offset),
        show_time(message.timestamp, precision="microseconds"),
        printable(headers) or "-",
        printable(message.payload.decode(errors="replace")),
    )
