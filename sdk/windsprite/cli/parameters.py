"""Parameters that several commands share, as cyclopts wants them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

from cyclopts import Parameter, Token

from windsprite import Identifier
from windsprite.cli.arguments import parse_identifier
from windsprite.cli.context import Context


def converter(parse: Callable[[str], Any]) -> Callable[[Any, tuple[Token, ...]], Any]:
    """What cyclopts calls to convert an argument, from a function of its text.

    A `ValueError` of the function becomes an error message that names the argument.
    """

    def convert(type_: Any, tokens: tuple[Token, ...]) -> Any:  # noqa: ANN401, ARG001
        return parse(tokens[0].value)

    return convert


def each(parse: Callable[[str], Any]) -> Callable[[Any, tuple[Token, ...]], Any]:
    """The same for an option that may be given several times: a list."""

    def convert(type_: Any, tokens: tuple[Token, ...]) -> Any:  # noqa: ANN401, ARG001
        return [parse(token.value) for token in tokens]

    return convert


def checked(parse: Callable[[str], Any]) -> Callable[[Any, tuple[Token, ...]], Any]:
    """A converter that keeps the text, once `parse` has taken it."""

    def check(text: str) -> str:
        parse(text)
        return text

    return converter(check)


def flag(text: str, *, name: str | None = None) -> Parameter:
    """A flag that is either given or not, with its help."""
    return Parameter(name=name, negative="", show_default=False, help=text)


CommandContext: TypeAlias = Annotated[Context, Parameter(parse=False)]
"""Given to each command by the application, not by the command line."""

StreamName: TypeAlias = Annotated[
    Identifier,
    Parameter(
        name="STREAM",
        converter=converter(parse_identifier),
        n_tokens=1,
        help="Its name, or its number; name:7 for a name of digits.",
    ),
]
TopicName: TypeAlias = Annotated[
    Identifier,
    Parameter(
        name="TOPIC",
        converter=converter(parse_identifier),
        n_tokens=1,
        help="Its name, or its number, in the stream.",
    ),
]
NewName: TypeAlias = Annotated[str, Parameter(name="NAME", help="1 to 255 bytes, as it is.")]
