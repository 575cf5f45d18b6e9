"""Requests as bytes, for connections that keep no account of what they sent."""

from typing import Any

from support.wire_client import VERSION
from windsprite_protocol.model.sessions import Login
from windsprite_protocol.v0_11.calling import encode_request
from windsprite_protocol.v0_11.frames import RequestHeader, pack_request
from windsprite_protocol.v0_11.table import GENERATION

CLIENT = bytes(range(1, 17))
LOGIN = Login(VERSION, "iggy", "iggy")


def frame(body: bytes = b"", **fields: Any) -> bytes:
    """A request of any content; by default a ping with the number 1."""
    defaults = {"client": CLIENT, "operation": 2, "code": 1, "request": 1, "size": 256 + len(body)}
    return pack_request(RequestHeader(**{**defaults, **fields})) + body


def request(value: Any, number: int = 1) -> bytes:
    """A well-formed request; the server looks neither at its client nor at its session."""
    command = GENERATION.of(type(value))
    is_login = command.operation == 1
    parts = encode_request(
        command,
        value,
        client=CLIENT,
        session=0 if is_login else 1,
        request=0 if is_login else number,
        checksum=False,
    )
    return b"".join(parts)
