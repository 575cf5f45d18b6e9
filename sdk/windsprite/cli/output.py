"""How results look: tables on a terminal, plain text in pipes, JSON for programs."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from uuid import UUID

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

OutputFormat: TypeAlias = Literal["table", "json"]

_SIZE_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


class Size(int):
    """A number of bytes: digits in a pipe, with a unit on a terminal."""

    def __str__(self) -> str:
        return human_size(self)


Cell: TypeAlias = str | int


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values, a line each."""

    items: Sequence[tuple[str, Cell]]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a line of names; numbers stand at the right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


Part: TypeAlias = Facts | Table


@dataclass(frozen=True, slots=True)
class View:
    """A result in both forms.

    Attributes:
        parts: For people.
        data: For programs; what `json.dumps` takes.
    """

    parts: Sequence[Part]
    data: Any


def human_size(size: int) -> str:
    """A number of bytes with three or four digits and a unit: `512 B`, `1.5 KiB`, `48.0 MiB`."""
    if size < 1024:
        return f"{int(size)} B"
    amount = float(size)
    for unit in _SIZE_UNITS:
        amount /= 1024
        if amount < 1000 or unit == _SIZE_UNITS[-1]:
            break
    return f"{amount:.1f} {unit}"


def printable(text: str) -> str:
    """A text without what moves a cursor, changes colours or ends a line; tabs are escaped, too."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in text
    )


def plain(parts: Sequence[Part]) -> str:
    """The form for pipes: fields separated by tabs, parts by an empty line."""
    return "\n".join("".join(f"{line}\n" for line in _plain_lines(part)) for part in parts)


def print_tables(parts: Sequence[Part], console: Console) -> None:
    """The form for a terminal: aligned columns with names above them."""
    for index, part in enumerate(parts):
        if index:
            console.print()
        console.print(_grid(part))


def dump_json(data: object) -> str:
    """One line of JSON; texts stay as they are."""
    return json.dumps(data, ensure_ascii=False) + "\n"


def to_json(value: object) -> Any:  # noqa: ANN401 - what JSON can hold
    """A domain value as JSON can hold it; integers stay integers, however large.

    Dataclasses become objects with the names of their fields, enumerations names in lower case,
    UUIDs texts; for bytes see `bytes_to_json`.

    Raises:
        TypeError: JSON cannot hold such a value.
    """
    match value:
        case Enum():
            return value.name.lower()
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return bytes_to_json(value)
        case UUID():
            return str(value)
        case list() | tuple():
            return [to_json(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: to_json(getattr(value, field.name)) for field in fields}
    message = f"{type(value).__name__} has no form in JSON"
    raise TypeError(message)


def bytes_to_json(data: bytes) -> str | dict[str, str]:
    """The text, if it is UTF-8; else an object with the only key `base64`."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _plain_lines(part: Part) -> Iterator[str]:
    if isinstance(part, Table):
        yield "\t".join(part.columns)
    for row in part.rows if isinstance(part, Table) else part.items:
        yield "\t".join(map(_plain_cell, row))


def _plain_cell(cell: Cell) -> str:
    return printable(cell) if isinstance(cell, str) else str(int(cell))


def _grid(part: Part) -> RichTable:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable

    grid = RichTable(
        box=SIMPLE_HEAD if isinstance(part, Table) else None,
        show_header=isinstance(part, Table),
        show_edge=False,
        pad_edge=False,
    )
    if isinstance(part, Facts):
        grid.add_column(style="bold")
        grid.add_column(overflow="fold")
        rows: Sequence[Sequence[Cell]] = part.items
    else:
        for index, name in enumerate(part.columns):
            numbers = all(isinstance(row[index], int) for row in part.rows)
            grid.add_column(name, justify="right" if numbers else "left", overflow="fold")
        rows = part.rows
    for row in rows:
        grid.add_row(*map(_shown_cell, row))
    return grid


def _shown_cell(cell: Cell) -> Text:
    from rich.text import Text

    return Text(printable(str(cell)))
