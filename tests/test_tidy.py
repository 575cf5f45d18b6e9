"""House rules that no other tool checks."""

import ast
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.pages import anchors, blocks, links
from windsprite_server.settings.sources import keys, variable_name

ROOT = Path(__file__).resolve().parent.parent
SOURCE_ROOTS = (
    "protocol/windsprite_protocol",
    "sdk/windsprite",
    "server/windsprite_server",
    "testing/windsprite_testing",
)
PARTS = ("protocol", "sdk", "server", "testing", "tests", "docs", "config", ".ci")
TEXT_SUFFIXES = {".py", ".pyi", ".md", ".toml", ".yaml", ".hex", ""}

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 80

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
SOMEBODYS_MACHINE = re.compile(r"(?<![\w.~-])/(home|root|work|Users)/\w")


def texts() -> Iterator[Path]:
    yield from (path for path in ROOT.iterdir() if path.is_file() and path.name != "LICENSE")
    depth = len(ROOT.parts) + 1
    for part in PARTS:
        for path in (ROOT / part).rglob("*"):
            is_cache = any(folder.startswith((".", "__")) for folder in path.parent.parts[depth:])
            if path.is_file() and not is_cache and path.suffix in TEXT_SUFFIXES:
                yield path


def modules() -> Iterator[Path]:
    for root in SOURCE_ROOTS:
        yield from (ROOT / root).rglob("*.py")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            start = node.body[0]
            is_documented = isinstance(start, ast.Expr) and isinstance(start.value, ast.Constant)
            docstring = (start.end_lineno or 0) - start.lineno + 1 if is_documented else 0
            yield node.name, node.end_lineno - node.lineno + 1 - docstring


def test_no_file_is_too_long_to_read() -> None:
    lengths = {name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}
    assert {file: lines for file, lines in lengths.items() if lines > MAX_FILE_LINES} == {}


def test_no_function_is_too_long_to_read() -> None:
    too_long = {
        f"{name(path)}: {function}": lines
        for path in modules()
        for function, lines in functions(path)
        if lines > MAX_FUNCTION_LINES
    }
    assert too_long == {}


@pytest.mark.parametrize("pattern", [UNFINISHED, SOMEBODYS_MACHINE], ids=["unfinished", "paths"])
def test_nothing_is_left_lying_about(pattern: re.Pattern[str]) -> None:
    found = [
        f"{name(path)}:{number}: {line.strip()}"
        for path in texts()
        if path != Path(__file__).resolve()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if pattern.search(line)
    ]
    assert found == []


def test_the_table_of_packages_is_the_tree() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `((?:protocol|sdk|server|testing)/[^`]+)` \|", page, re.MULTILINE)
    packages = {f"{name(init.parent)}/" for init in modules() if init.name == "__init__.py"}
    server = ROOT / "server" / "windsprite_server"
    expected = {
        package
        for package in packages
        if package.startswith(("protocol/", "sdk/", "testing/")) or package.count("/") == 3
    } | {name(module) for module in server.glob("*.py") if module.name != "__init__.py"}
    assert sorted(rows) == sorted(expected)


def markdown() -> list[Path]:
    return [path for path in texts() if path.suffix == ".md"]


def test_pages_refer_to_nothing_that_their_readers_do_not_have() -> None:
    found = [
        f"{name(page)}: {reference}"
        for page in markdown()
        for reference in re.findall(r"\bspec\s+\d+", page.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{name(page)}: {link}"
        for page in markdown()
        for link in links(page)
        if "://" not in link and not leads_somewhere(page, link)
    ]
    assert broken == []


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    return target.exists() and (not anchor or anchor in anchors(target))


def test_the_navigation_of_the_site_has_every_page() -> None:
    site = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    docs = ROOT / "docs"
    pages = [path.relative_to(docs).as_posix() for path in docs.rglob("*.md")]
    assert sorted(targets(site["nav"])) == sorted(pages)


def targets(entries: list[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        for target in entry.values():
            yield from [target] if isinstance(target, str) else targets(target)


def test_commands_in_pages_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    told = {
        command
        for page in markdown()
        for text in (
            *re.findall(r"`make [^`]+`", page.read_text(encoding="utf-8")),
            *(block.text for block in blocks(page)),
        )
        for command in re.findall(r"^`?make ([a-z-]+)", text, re.MULTILINE)
    }
    assert {"run", "test", "check", "bench"} <= targets
    assert told - targets == set()


def test_variables_in_pages_are_settings() -> None:
    known = {variable_name(key) for key in keys()} | {"WINDSPRITE_SERVER", "WINDSPRITE_"}
    pages = [*markdown(), ROOT / "Dockerfile", ROOT / "config" / "windsprite.toml"]
    told = {
        (name(page), variable)
        for page in pages
        for variable in re.findall(r"\bWINDSPRITE_[A-Z_]*", page.read_text(encoding="utf-8"))
    }
    assert [pair for pair in sorted(told) if pair[1] not in known] == []


def test_what_the_image_copies_is_there_and_not_ignored() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = [
        source
        for line in re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile, re.MULTILINE)
        for source in line.split()
    ]
    assert copied != []
    for source in copied:
        assert (ROOT / source).exists()
        assert f"!{source}" in ignore


def build_targets() -> dict[str, Any]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    targets: dict[str, Any] = project["tool"]["hatch"]["build"]["targets"]
    return targets


def test_the_source_distribution_is_made_of_what_stands_at_the_root() -> None:
    """A name without a slash before it is any file or folder of that name, in tests as well."""
    included = build_targets()["sdist"]["include"]
    assert [path for path in included if not (ROOT / path.removeprefix("/")).exists()] == []
    assert [path for path in included if not path.startswith("/")] == []


def test_packages_say_that_they_are_typed() -> None:
    packages = build_targets()["wheel"]["packages"]
    assert sorted(packages) == sorted(SOURCE_ROOTS)
    assert [package for package in packages if not (ROOT / package / "py.typed").exists()] == []


def test_ci_can_be_run() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
