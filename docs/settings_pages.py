"""Writes config/windsprite.toml and docs/settings.md from the model of the settings.

`make docs-settings` runs it; a test compares both files with what it would write.
"""

import textwrap
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel

from windsprite_server.settings import Settings
from windsprite_server.settings.model import fields
from windsprite_server.settings.shown import toml_value
from windsprite_server.settings.sources import variable_name

ROOT = Path(__file__).resolve().parent.parent

TOML_HEAD = """\
# Every setting of windsprite-server with its default. A line that begins with `# key =` shows a
# key that is not set by default. Copy what you change, and start with
#
#     windsprite-server run --config FILE
#
# The environment overrides this file: WINDSPRITE_ and the key in capitals, with two underscores
# for each dot (WINDSPRITE_TCP__ADDRESS). The command line overrides both. Unknown keys are refused.
#
# Times are texts with a unit: "500 ms", "10 s", "1h 30m". Sizes are texts such as "64 KiB" or
# "1 GB", or a number of bytes.
#
# This file is made from the code by `make docs-settings`.
"""

MARKDOWN_HEAD = """\
# Settings

*Made from the code by `make docs-settings`. `config/windsprite.toml` has the same as a file to copy
from.*

A setting comes from, later ones winning: its default, a TOML file (`--config FILE`), the
environment (`WINDSPRITE_` and the key in capitals, two underscores for each dot), the command line.
What nobody knows is refused wherever it stands, with a hint at what may have been meant; the server
then ends with exit code 2 and one sentence for each mistake. `windsprite-server config` shows the
settings in force and where each comes from; secrets stay hidden.

An environment variable with an empty value counts as not set. Times are texts with a unit:
`500 ms`, `10 s`, `1h 30m`. Sizes are texts such as `64 KiB` or `1 GB`, or a number of bytes.
"""


class Key(NamedTuple):
    """One key as the pages show it; `default` is `None` where nothing is set."""

    name: str
    default: str | int | None
    description: str

    @property
    def table(self) -> str:
        """The TOML table it stands in; empty for the top."""
        return self.name.rpartition(".")[0]


def described() -> list[Key]:
    """Every key, in the order of the model."""
    defaults = {entry.key: entry.value for entry in Settings().effective()}
    return [
        Key(name, None if field.default_factory else defaults[name], field.description or "")
        for name, field in fields(Settings)
    ]


def sections(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The dotted name of every table, with the first line of what its class says."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield prefix + name, (field.annotation.__doc__ or "").splitlines()[0]
            yield from sections(field.annotation, f"{prefix}{name}.")


def toml_page() -> str:
    """The content of config/windsprite.toml."""
    titles = dict(sections(Settings))
    lines = [TOML_HEAD]
    for table, members in groupby(described(), key=lambda key: key.table):
        if table:
            lines += [f"# {titles[table]}", f"[{table}]", ""]
        for key in members:
            name = key.name.rpartition(".")[2]
            lines += [f"# {line}" for line in textwrap.wrap(key.description, 96)]
            lines += [
                f'# {name} = ""' if key.default is None else f"{name} = {toml_value(key.default)}",
                "",
            ]
    return "\n".join(lines)


def markdown_page() -> str:
    """The content of docs/settings.md."""
    titles = dict(sections(Settings))
    lines = [MARKDOWN_HEAD]
    for table, members in groupby(described(), key=lambda key: key.table):
        if table:
            lines += [f"## {table}", "", titles[table], ""]
        lines += ["| key, environment variable | default | for |", "|---|---|---|"]
        for key in members:
            names = f"`{key.name}`<br>`{variable_name(key.name)}`"
            default = "" if key.default is None else f"`{toml_value(key.default)}`"
            lines.append(f"| {names} | {default} | {key.description} |")
        lines.append("")
    return "\n".join(lines)


PAGES = {
    ROOT / "config" / "windsprite.toml": toml_page,
    ROOT / "docs" / "settings.md": markdown_page,
}

if __name__ == "__main__":
    for path, page in PAGES.items():
        path.write_text(page(), encoding="utf-8")
