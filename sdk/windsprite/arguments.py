"""What is wrong with the arguments of a call, in words that name them.

Arguments are compared with the annotations of their parameters, so that no method has checks of its
own for what its signature says already. That takes time: of a request it is done only once it has
failed, in a way that wrong arguments cause.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator, Mapping, Sequence
from functools import cache, wraps
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Any,
    Final,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from windsprite.errors import InvalidRequest
from windsprite_protocol.errors import EncodeError
from windsprite_protocol.model.identifiers import MAX_NAME_BYTES, PollingStrategy

P = ParamSpec("P")
R = TypeVar("R")

_ACCEPTED: Final[dict[Any, Any]] = {int: Integral, float: Real, Path: (str, os.PathLike)}
"""What may stand for a type besides itself."""

_CALLED: Final[dict[Any, str]] = {
    int: "an int",
    float: "a number",
    str: "a str",
    NoneType: "None",
    Path: "a path",
    PollingStrategy: "a From such as From.first()",
}

_WIDE: Final = frozenset({"offset", "start.value"})
"""Numbers of 64 bits on the wire; the others have 32."""


def explained(method: Callable[P, Awaitable[R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """The same coroutine function, which names the argument that made it fail, if it was one.

    Its `TypeError`s and `AttributeError`s become `InvalidRequest` then; and an `InvalidRequest`
    that tells what cannot be encoded tells which argument that is.
    """

    def explanation(error: Exception, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        cannot_be_encoded = type(error.__cause__) is EncodeError
        if isinstance(error, InvalidRequest) and not cannot_be_encoded:
            return None  # it was said already
        try:
            given = inspect.signature(method).bind(*args, **kwargs).arguments
        except TypeError:
            return None  # Python itself says which one is missing or too much
        tests = [_wrong_types, _out_of_bounds] if cannot_be_encoded else [_wrong_types]
        faults = (
            fault
            for test in tests
            for name, hint in _hints(method).items()
            if name in given
            for fault in test(name, given[name], hint)
        )
        return next(faults, None)

    @wraps(method)
    async def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await method(*args, **kwargs)
        except (TypeError, AttributeError, InvalidRequest) as error:
            fault = explanation(error, args, kwargs)
            if fault is None:
                raise
            code = error.code if isinstance(error, InvalidRequest) else None
            raise InvalidRequest(f"{method.__name__}: {fault}", code=code) from error

    return call


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, but arguments of wrong types are refused before it begins.

    For what is called rarely, and would not fail by itself, or only later.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = inspect.signature(function).bind(*args, **kwargs).arguments
        except TypeError:
            given = {}  # the call itself says which one is missing or too much
        for name, hint in _hints(function).items():
            if name in given and not _matches(given[name], hint):
                sentence = _sentence(name, given[name], hint)
                raise InvalidRequest(f"{function.__name__}: {sentence}")
        return function(*args, **kwargs)

    return call


def check_methods(cls: type) -> None:
    """Make the public methods of a class `explained`, or `checked` where they are no coroutines."""
    for name, method in tuple(vars(cls).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            is_async = inspect.iscoroutinefunction(method)
            setattr(cls, name, explained(method) if is_async else checked(method))


def wrong_field(instance: Any) -> tuple[str, str] | None:  # noqa: ANN401 - any dataclass
    """The first field of a dataclass that holds what its annotation does not allow.

    Returns:
        Its name, and what is wrong in words that do not repeat the value; None: all are right.
    """
    for name, hint in _hints(cast("Hashable", type(instance))).items():
        value = getattr(instance, name)
        if not _matches(value, hint):
            return name, _sentence(name, value, hint)
    return None


# --- Values and annotations ----------------------------------------------------------------------


@cache
def _hints(annotated: Hashable) -> Mapping[str, Any]:
    """The types of parameters or fields; none if they cannot be told."""
    try:
        hints = get_type_hints(cast("Any", annotated))
    except (NameError, TypeError):
        return {}
    return {name: hint for name, hint in hints.items() if name != "return"}


def _matches(value: Any, hint: Any) -> bool:  # noqa: ANN401 - any value, any annotation
    """Whether a value is what an annotation says; True where nobody can tell."""
    origin, choices = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType}:
        return any(_matches(value, choice) for choice in choices)
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in choices)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        is_one = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        return is_one and (not choices or all(_matches(item, choices[0]) for item in value))
    kind = origin or hint
    try:
        return isinstance(value, (kind, _ACCEPTED.get(kind, ())))
    except TypeError:  # not a class, or one that cannot be asked
        return True


def _described(hint: Any) -> Iterator[str]:  # noqa: ANN401 - any annotation
    """What values an annotation allows, one after the other."""
    origin, choices = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType}:
        for choice in choices:
            yield from _described(choice)
    elif origin is Literal:
        yield from map(repr, choices)
    elif isinstance(origin, type) and issubclass(origin, Sequence) and choices:
        yield f"a sequence of {' or '.join(_name(kind) for kind in _kinds(choices[0]))}"
    else:
        kind = origin or hint
        name = _name(kind)
        yield _CALLED.get(kind) or f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _kinds(hint: Any) -> Sequence[Any]:  # noqa: ANN401 - any annotation
    return get_args(hint) if get_origin(hint) in {Union, UnionType} else [hint]


def _name(kind: Any) -> str:  # noqa: ANN401 - any annotation
    return getattr(kind, "__name__", None) or str(kind)


def _sentence(name: str, value: Any, hint: Any) -> str:  # noqa: ANN401 - see _matches
    *others, last = dict.fromkeys(_described(hint))
    allowed = f"{', '.join(others)} or {last}" if others else last
    # Of a word that is none of several its type says nothing.
    is_word = isinstance(value, str) and any(get_origin(kind) is Literal for kind in _kinds(hint))
    return f"{name} has to be {allowed}" + ("" if is_word else f", not {_of(value)}")


def _of(value: Any) -> str:  # noqa: ANN401 - any value; it is not shown, since it may be a secret
    if value is None:
        return "None"
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        inside = " and ".join(sorted({type(item).__name__ for item in value}))
        return f"a {type(value).__name__} of {inside}" if inside else f"a {type(value).__name__}"
    return type(value).__name__


def _wrong_types(name: str, value: Any, hint: Any) -> Iterator[str]:  # noqa: ANN401 - see _matches
    if not _matches(value, hint):
        yield _sentence(name, value, hint)
    else:
        for inner, item, its_hint in _inside(name, value):
            yield from _wrong_types(inner, item, its_hint)


def _out_of_bounds(name: str, value: Any, hint: Any) -> Iterator[str]:  # noqa: ANN401 - see _matches
    """What no request can carry: a number below 0 or too large, a name of no or too many bytes."""
    kinds = {*_kinds(hint)} - {NoneType}
    if isinstance(value, Integral) and value < 0 and int in kinds:
        yield f"{name} has to be at least 0"
    elif isinstance(value, Integral) and kinds == {int}:
        bits = 64 if name in _WIDE else 32
        if int(value) >> bits:
            yield f"{name} has to be below 2^{bits}"
    elif isinstance(value, str) and kinds == {int, str} and not _is_name(value):
        yield f"{name} has to be a number or a name of 1 to {MAX_NAME_BYTES} bytes of UTF-8"
    for inner, item, its_hint in _inside(name, value):
        yield from _out_of_bounds(inner, item, its_hint)


def _is_name(text: str) -> bool:
    return 1 <= len(text.encode(errors="surrogatepass")) <= MAX_NAME_BYTES


def _inside(name: str, value: Any) -> Iterator[tuple[str, Any, Any]]:  # noqa: ANN401 - any value
    """The fields of a dataclass, or of those in a list, with their names and annotations."""
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            if dataclasses.is_dataclass(item):
                yield from _inside(f"{name}[{index}]", item)
    elif dataclasses.is_dataclass(value):
        for field, hint in _hints(cast("Hashable", type(value))).items():
            yield f"{name}.{field}", getattr(value, field), hint
