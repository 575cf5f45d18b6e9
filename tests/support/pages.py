"""The pages of the documentation: scripts that make some, code and links in all of them."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"

_MARKDOWN = MarkdownIt("commonmark").enable("table")


def load_page_script(name: str) -> ModuleType:
    """A script of the folder `docs` as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code in a page.

    Attributes:
        page: The path of the page, from the root of the project.
        line: Where the block begins, from 1.
        language: What stands behind the fence; empty for an indented block.
        title: The name of a file that the reader is to make of it, or empty.
        text: The code.
        remarks: The comments right before the block, of which readers see nothing.
    """

    page: str
    line: int
    language: str
    title: str
    text: str
    remarks: tuple[str, ...]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def pages() -> list[Path]:
    """The pages for users: those of the site, and the ones that a repository shows."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def tokens(path: Path) -> list[Token]:
    return _MARKDOWN.parse(path.read_text(encoding="utf-8"))


def blocks(path: Path) -> Iterator[Block]:
    """All blocks of code of a page."""
    remarks: list[str] = []
    for token in tokens(path):
        if token.type == "html_block":
            remarks += re.findall(r"<!--\s*(.*?)\s*-->", token.content, re.DOTALL)
            continue
        if token.type in ("fence", "code_block"):
            language, _, rest = token.info.partition(" ")
            title = re.search(r'title="([^"]+)"', rest)
            yield Block(
                name_of(path),
                (token.map or [0])[0] + 1,
                language,
                title[1] if title else "",
                token.content,
                tuple(remarks),
            )
        remarks = []


# --- Links ---------------------------------------------------------------------------------------


@functools.cache
def anchors(path: Path) -> set[str]:
    """What can stand behind the `#` of a link to a page, on the site and on GitHub."""
    found: set[str] = set()
    parsed = tokens(path)
    for token, inline in itertools.pairwise(parsed):
        if token.type == "heading_open":
            found.add(_anchor(inline, found))
        found.update(re.findall(r'(?:id|name)="([^"]+)"', token.content))
    return found


def _anchor(heading: Token, taken: set[str]) -> str:
    children = heading.children or []
    shown = "".join(child.content for child in children if child.type in ("text", "code_inline"))
    anchor = re.sub(r"[^\w\- ]", "", shown.lower()).strip().replace(" ", "-")
    return next(
        name
        for number in range(len(taken) + 1)
        if (name := f"{anchor}-{number}" if number else anchor) not in taken
    )


def links(path: Path) -> Iterator[str]:
    """The targets of all links of a page."""
    for token in tokens(path):
        for child in token.children or []:
            if child.type in ("link_open", "image"):
                yield str(child.attrs["href" if child.type == "link_open" else "src"])
