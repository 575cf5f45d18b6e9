"""Parameters that several commands share."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from cyclopts import Parameter

from windsprite import Identifier
from windsprite.cli.arguments import parse_file, parse_identifier
from windsprite.cli.context import Context
from windsprite.cli.conversion import converter

CommandContext: TypeAlias = Annotated[Context, Parameter(parse=False)]
"""Given to each command by the application, not by the command line."""


def identifier(text: str, *, name: str | None = None, metavar: str | None = None) -> Parameter:
    """An argument or option that is the name of something or its number, with its help."""
    return Parameter(
        name=name,
        converter=converter(parse_identifier),
        n_tokens=1,
        metavar=metavar,
        help=text,
    )


StreamName: TypeAlias = Annotated[
    Identifier, identifier("Its name, or its number; name:7 for a name of digits.", name="STREAM")
]
TopicName: TypeAlias = Annotated[
    Identifier, identifier("Its name, or its number, in the stream.", name="TOPIC")
]
NewName: TypeAlias = Annotated[str, Parameter(name="NAME", help="1 to 255 bytes, as it is.")]


def file_option(text: str) -> Parameter:
    """An option for a file to be read, `-` for the standard input, with its help."""
    return Parameter(
        converter=converter(parse_file),
        n_tokens=1,
        accepts_keys=False,
        allow_leading_hyphen=True,
        metavar="FILE",
        help=text,
    )
