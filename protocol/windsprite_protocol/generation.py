"""What a generation of the wire is: a table of commands and how each of them travels.

A command is declared once per generation. From its declaration come encoding and decoding in SDK
and server, dispatch, the property tests, the fuzz targets and the generated reference. Handlers
and clients see the values of `windsprite_protocol.model` only; another generation is another
table with its own layouts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from windsprite_protocol.model.messages import Buffer

T = TypeVar("T")


class Codec(Protocol[T]):
    """Turns the values of one request or reply into a body and back."""

    def encode(self, value: T) -> Sequence[Buffer]:
        """The body as parts to be written one after the other.

        Raises:
            EncodeError: The value cannot be carried.
        """
        ...

    def decode(self, body: memoryview) -> T:
        """The value of a body; batches stay views into it.

        Raises:
            DecodeError: The bytes are not such a body.
        """
        ...


class Plane(Enum):
    """Which part of a server a command concerns (spec 01, 2.3)."""

    SESSION = "session"
    READ = "read"
    METADATA = "metadata"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True)
class Command(Generic[T]):
    """One command in one generation of the wire.

    Attributes:
        code: The command code (spec 01, 2.4).
        name: The registered name, for people.
        plane: Which part of a server it concerns.
        request_type: The class of the requests.
        request: How requests travel.
        reply: How the value of a success travels (without a result section).
        operation: What a request's header says.
        committed_operation: What the header of a reply to an executed request says.
        framed: Whether successful replies begin with a result section.
        needs_login: Whether it is served only to a connection that has logged in.
    """

    code: int
    name: str
    plane: Plane
    request_type: type[T]
    request: Codec[T]
    reply: Codec[Any]
    operation: int
    committed_operation: int
    framed: bool
    needs_login: bool = True


class Generation:
    """The commands of one generation of the wire."""

    def __init__(self, name: str, packed_version: int, commands: Iterable[Command[Any]]) -> None:
        self.name = name
        self.packed_version = packed_version
        self._by_code: dict[int, Command[Any]] = {}
        self._by_request: dict[type[Any], Command[Any]] = {}
        for command in commands:
            if command.code in self._by_code or command.request_type in self._by_request:
                message = f"command {command.code} ({command.name}) is declared twice"
                raise ValueError(message)
            self._by_code[command.code] = command
            self._by_request[command.request_type] = command

    def __iter__(self) -> Iterator[Command[Any]]:
        return iter(self._by_code.values())

    def by_code(self, code: int) -> Command[Any] | None:
        """The command with this code, if there is one."""
        return self._by_code.get(code)

    def of(self, request_type: type[T]) -> Command[T]:
        """The command whose requests are of this class.

        Raises:
            KeyError: This generation does not have the command.
        """
        return self._by_request[request_type]
