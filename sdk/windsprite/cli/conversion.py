"""From functions of a text to parameters as cyclopts wants them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cyclopts import Parameter, Token


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
