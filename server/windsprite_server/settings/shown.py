"""Effective settings as TOML or JSON, each with its origin; secrets stay hidden."""

import json
from collections.abc import Iterable
from itertools import groupby

from windsprite_server.settings.model import EffectiveSetting


def render_toml(settings: Iterable[EffectiveSetting]) -> str:
    """A TOML file that gives the same settings, except for secrets, which it only mentions."""
    lines: list[str] = []
    for table, entries in groupby(settings, key=lambda entry: entry.key.rpartition(".")[0]):
        if table:
            lines += ["", f"[{table}]"]
        lines += [_line(entry) for entry in entries]
    return "\n".join(lines) + "\n"


def render_json(settings: Iterable[EffectiveSetting]) -> str:
    """A JSON object: for each dotted key its value, whether it is set, and its origin."""
    members = {
        entry.key: {
            "value": entry.value,
            "set": entry.is_hidden or entry.value is not None,
            "origin": entry.origin,
        }
        for entry in settings
    }
    return json.dumps(members, indent=2, ensure_ascii=False) + "\n"


def toml_value(value: str | int) -> str:
    """A value as TOML writes it; its basic strings need the escapes of JSON and one more."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _line(entry: EffectiveSetting) -> str:
    name = entry.key.rpartition(".")[2]
    if entry.is_hidden:
        return f"# {name} is set, and not shown  # {entry.origin}"
    if entry.value is None:
        return f"# {name} is not set"
    return f"{name} = {toml_value(entry.value)}  # {entry.origin}"
