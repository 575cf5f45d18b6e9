"""Writes docs/api/*.md: all public names of `windsprite`, from their signatures and docstrings.

`make docs-api` runs it; a test compares the files with what it would write. It reads the code and
runs none of it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

import griffe

DOCS: Final = Path(__file__).resolve().parent
FOLDER: Final = DOCS / "api"
SOURCES: Final = [DOCS.parent / "sdk", DOCS.parent / "protocol"]

PAGES: Final = {
    "client": ("The client", ("windsprite.client", "windsprite.connecting", "windsprite.address")),
    "producer": ("The producer", ("windsprite.producer", "windsprite.encryption")),
    "consumer": ("The consumer", ("windsprite.consumer",)),
    "messages": (
        "Messages",
        ("windsprite.messages", "windsprite_protocol.model.messages"),
    ),
    "errors": ("Errors", ("windsprite.errors", "windsprite_protocol.errors")),
    "values": ("Other values", ("windsprite", "windsprite_protocol")),
}
"""The name of a page, its title, and the modules whose names it has; the first that fits counts."""

FIRST: Final = ("connect", "Client", "WindspriteError", "Producer", "TopicConsumer", "Message")
"""Come first on their pages; the others by the alphabet."""

FOR_DEVELOPERS: Final = re.compile(r"\s+\(spec\s[^)]*\)")
"""What docstrings say to those who work on the client only."""

NOTE: Final = "*Made from the docstrings by `make docs-api`. All names are those of `windsprite`.*"

ENUMERATIONS: Final = {"Enum", "IntEnum", "IntFlag", "StrEnum"}
WIDTH: Final = 96
NAMED_SECTIONS: Final = (
    griffe.DocstringSectionKind.parameters,
    griffe.DocstringSectionKind.attributes,
)

Thing: TypeAlias = griffe.Object


def load() -> Thing:
    """The package, with what it takes from others."""
    loader = griffe.GriffeLoader(search_paths=SOURCES, docstring_parser=griffe.Parser.google)
    package = loader.load("windsprite")
    loader.load("windsprite_protocol")
    loader.resolve_aliases(implicit=False, external=True)
    return _target(package)


def public_names(package: Thing) -> dict[str, tuple[str, Thing]]:
    """Each public name, its page, and what it stands for."""
    public = package["public"]
    named = {name: _target(public[name]) for name in sorted(map(str, public.exports))}
    return {name: (page_of(thing), _renamed(thing)) for name, thing in named.items()}


def _target(member: griffe.Object | griffe.Alias) -> Thing:
    return member.final_target if isinstance(member, griffe.Alias) else member


def _renamed(thing: Thing) -> Thing:
    """The class behind `From = PollingStrategy`; anything else stays what it is."""
    if isinstance(thing, griffe.Attribute) and isinstance(
        thing.value, griffe.ExprName | griffe.ExprAttribute
    ):
        named = _target(thing.modules_collection[thing.value.canonical_path])
        if isinstance(named, griffe.Class):
            return named
    return thing


def page_of(thing: Thing) -> str:
    """On which page something stands."""
    return next(
        page
        for page, (_, modules) in PAGES.items()
        if any(f"{thing.path}.".startswith(f"{module}.") for module in modules)
    )


# --- Text ----------------------------------------------------------------------------------------


def prose(text: str) -> str:
    """The words of a docstring; what is indented there is code."""
    parts: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        if paragraph.startswith("    "):
            parts.append(code(textwrap.dedent(paragraph).rstrip()))
        else:
            parts.append(paragraph.strip())
    joined = "\n\n".join(parts)
    return joined.replace("\n```\n\n```py\n", "\n\n")


def code(text: str) -> str:
    """A block of Python that is not to be run: a signature, an excerpt."""
    return f"```py\n{text}\n```"


def one_line(text: str) -> str:
    """The words without their line breaks."""
    return " ".join(text.split())


def described(thing: Thing) -> Iterator[str]:
    """The docstring, section by section."""
    if thing.docstring is None:
        return
    for section in thing.docstring.parse("google", warnings=False):
        kind = section.kind
        if kind is griffe.DocstringSectionKind.text:
            yield prose(section.value)
        elif kind in NAMED_SECTIONS:
            yield _list(f"`{item.name}`: {one_line(item.description)}" for item in section.value)
        elif kind is griffe.DocstringSectionKind.returns:
            yield f"**Returns:** {' '.join(one_line(item.description) for item in section.value)}"
        elif kind is griffe.DocstringSectionKind.raises:
            raised = _list(
                f"`{item.annotation}`: {one_line(item.description)}" for item in section.value
            )
            yield f"**Raises:**\n\n{raised}"
        else:
            raise NotImplementedError(f"{thing.path}: a section of {kind}")


def _list(items: Iterator[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


# --- Signatures ----------------------------------------------------------------------------------


def parameters(function: griffe.Function) -> list[str]:
    """The parameters as they are written, without `self` and `cls`."""
    written: list[str] = []
    is_keyword_only = False
    for parameter in function.parameters:
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is griffe.ParameterKind.keyword_only and not is_keyword_only:
            written.append("*")
        star = {
            griffe.ParameterKind.var_positional: "*",
            griffe.ParameterKind.var_keyword: "**",
        }.get(parameter.kind or griffe.ParameterKind.positional_or_keyword, "")
        is_keyword_only |= star == "*" or parameter.kind is griffe.ParameterKind.keyword_only
        text = f"{star}{parameter.name}"
        if parameter.annotation is not None:
            text += f": {parameter.annotation}"
        if parameter.default is not None and not star:
            text += f" = {parameter.default}"
        written.append(text)
    return written


def signature(function: griffe.Function, name: str) -> str:
    """How a function is called, on one line or one for each parameter."""
    start = "async def " if "async" in function.labels else "def "
    end = f" -> {function.returns}" if function.returns is not None else ""
    written = parameters(function)
    line = f"{start}{name}({', '.join(written)}){end}"
    if len(line) > WIDTH:
        inner = "".join(f"    {parameter},\n" for parameter in written)
        line = f"{start}{name}(\n{inner}){end}"
    return code(line)


# --- Names ---------------------------------------------------------------------------------------


def members(thing: griffe.Class) -> list[tuple[str, Thing]]:
    """What a class offers, in the order of the code: its own, then what it inherits."""
    found: dict[str, Thing] = {}
    for owner in (thing, *thing.mro()):
        for name, member in owner.members.items():
            if not name.startswith("_"):
                found.setdefault(name, _target(member))
    return list(found.items())


def write_class(name: str, thing: griffe.Class) -> Iterator[str]:
    """A class, its fields, and each of its properties and methods."""
    bases = [str(base) for base in thing.bases if str(base) != "Exception"]
    yield f"## {name}"
    if bases and page_of(thing) == "errors":
        yield f"A kind of {', '.join(f'`{base}`' for base in bases)}."
    yield from described(thing)
    offered = members(thing)
    fields = [field for member, what in offered for field in _fields(thing, member, what)]
    if fields:
        yield code("\n".join(fields))
    for member, what in offered:
        if isinstance(what, griffe.Function):
            yield f"### {name}.{member}"
            yield signature(what, member)
            yield from described(what)
        elif isinstance(what, griffe.Attribute) and "property" in what.labels:
            yield f"### {name}.{member}"
            yield code(f"{member}: {what.annotation}")
            yield from described(what)


def _fields(owner: griffe.Class, member: str, thing: Thing) -> Iterator[str]:
    """What a value is made of: the fields of a dataclass or a named tuple, or an enumeration's."""
    if not isinstance(thing, griffe.Attribute) or "property" in thing.labels:
        return
    bases = {str(base) for base in owner.bases}
    if bases & ENUMERATIONS:
        yield f"{member} = {thing.value}"
    elif ("dataclass" in owner.labels or "NamedTuple" in bases) and thing.annotation is not None:
        yield f"{member}: {thing.annotation}" + ("" if thing.value is None else f" = {thing.value}")


def write_name(name: str, thing: Thing) -> Iterator[str]:
    """The part of a page that is about a public name."""
    if isinstance(thing, griffe.Class):
        yield from write_class(name, thing)
        return
    yield f"## {name}"
    if isinstance(thing, griffe.Function):
        yield signature(thing, name)
    elif isinstance(thing, griffe.Attribute):
        yield code(f"{name} = {thing.value}")
    yield from described(thing)


def render() -> dict[Path, str]:
    """Each page and its text."""
    names = public_names(load())
    written: dict[Path, str] = {}
    for page, (title, _) in PAGES.items():
        here = {name: thing for name, (where, thing) in names.items() if where == page}
        first = [name for name in FIRST if name in here]
        rest = [name for name in here if name not in FIRST]
        parts = [
            f"# {title}",
            NOTE,
            *(part for name in first + rest for part in write_name(name, here[name])),
        ]
        text = "\n\n".join(part for part in parts if part) + "\n"
        written[FOLDER / f"{page}.md"] = FOR_DEVELOPERS.sub("", text)
    return written


def main() -> None:
    """Write the pages."""
    FOLDER.mkdir(exist_ok=True)
    for path, text in render().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
