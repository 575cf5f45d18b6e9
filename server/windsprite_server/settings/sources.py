"""Where settings come from: defaults < TOML file < environment < command line.

Each source is read by itself, so that every key knows its origin and every mistake can be named
where it was made. A key that nobody knows is a mistake in each of them.
"""

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from pydantic import PlainSerializer, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import EnvSettingsSource, TomlConfigSettingsSource

from windsprite_server.settings.model import Origin, Settings, fields, leaves

_PREFIX: Final = "WINDSPRITE_"
_DELIMITER: Final = "__"
# Variables of our prefix that mean something to other programs.
_FOREIGN: Final = frozenset({"WINDSPRITE_SERVER"})
# Kubernetes tells each container so about the services of its namespace, and one of them may well
# be called "windsprite".
_SERVICE_LINK: Final = re.compile(
    r"WINDSPRITE\w*?_(SERVICE_HOST|SERVICE_PORT\w*|PORT_\d+_(TCP|UDP|SCTP)\w*)", re.ASCII
)
# What programs for Iggy servers set. Ours win.
_BORROWED: Final = {
    "IGGY_ROOT_USERNAME": "WINDSPRITE_ROOT__USERNAME",
    "IGGY_ROOT_PASSWORD": "WINDSPRITE_ROOT__PASSWORD",
}
# What pydantic says in words of Python, by the type of its error.
_SENTENCES: Final = {
    "model_type": "needs a table",
    "path_type": "needs a text",
    "uuid_parsing": "needs a UUID",
    "uuid_type": "needs a UUID",
}
# What is said of a limit, by the type of the error, and where the error has it.
_LIMITS: Final = {
    "greater_than": ("must be more than", "gt"),
    "greater_than_equal": ("must be at least", "ge"),
    "less_than": ("must be less than", "lt"),
    "less_than_equal": ("must be at most", "le"),
}


class SettingsError(Exception):
    """Settings that cannot be used.

    Attributes:
        problems: One sentence for each mistake.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def load_settings(
    *,
    file: Path | None = None,
    environment: Mapping[str, str],
    command_line: Mapping[str, object] | None = None,
) -> Settings:
    """Read and combine all sources.

    Args:
        file: A TOML file; it must exist.
        environment: All variables of the process; those of other programs are passed over.
        command_line: Values by dotted key, such as `{"tcp.address": "127.0.0.1:0"}`.

    Raises:
        SettingsError: With every mistake that was found.
    """
    borrowed = {  # mistakes are told of the variable that somebody did set
        ours: name
        for name, ours in _BORROWED.items()
        if environment.get(name) and not environment.get(ours)
    }
    variables, problems = _variables(environment, borrowed)
    sources: list[tuple[Origin, dict[str, Any]]] = [
        ("file", _read_file(file)),
        ("environment", _Environment(Settings, variables)()),
        ("command line", _nested(command_line or {})),
    ]
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for origin, given in sources:
        _merge(values, given)
        origins.update((key, origin) for key, _ in leaves(given))
    try:
        settings = Settings.build(values, origins)
    except ValidationError as error:
        found = (_sentence(details, origins, file, borrowed) for details in error.errors())
        raise SettingsError([*problems, *found]) from None
    if problems:
        raise SettingsError(problems)
    return settings


def keys() -> list[str]:
    """Every dotted key there is, in the order of the model."""
    return [key for key, _ in fields(Settings)]


def variable_name(key: str) -> str:
    """The environment variable for a dotted key."""
    return _PREFIX + key.replace(".", _DELIMITER).upper()


class _Environment(EnvSettingsSource):
    """Reads the variables it is given instead of those of the process."""

    def __init__(self, settings: type[Settings], variables: Mapping[str, str]) -> None:
        super().__init__(settings)
        self.env_vars = {name.lower(): text for name, text in variables.items()}


def _variables(
    environment: Mapping[str, str], borrowed: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """The variables that set something, and a sentence for each that is misspelt."""
    known = {variable_name(key) for key in keys()}
    variables = {ours: environment[name] for ours, name in borrowed.items()}
    problems = []
    for name, text in environment.items():
        if name in known:
            if text:
                variables[name] = text
        elif name.startswith(_PREFIX) and not _belongs_to_others(name, text):
            problems.append(f"environment variable {name} is unknown{_hint(name, known, _PREFIX)}")
    return variables, problems


def _belongs_to_others(name: str, text: str) -> bool:
    return (
        name in _FOREIGN
        or _SERVICE_LINK.fullmatch(name) is not None
        or (name.endswith("_PORT") and "://" in text)
    )


def _read_file(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        file.open("rb").close()  # the source takes a missing file for an empty one
        return TomlConfigSettingsSource(Settings, file).toml_data
    except OSError as error:
        raise SettingsError([f"cannot read {file}: {error.strerror}"]) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError([f"{file} is not TOML: {error}"]) from None


def _nested(values: Mapping[str, object]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in values.items():
        *tables, name = key.split(".")
        table = nested
        for part in tables:
            table = table.setdefault(part, {})
        table[name] = value
    return nested


def _merge(values: dict[str, Any], stronger: Mapping[str, Any]) -> None:
    """Lay one source over another, table by table."""
    for name, value in stronger.items():
        current = values.get(name)
        if isinstance(value, Mapping) and isinstance(current, dict):
            _merge(current, value)
        elif isinstance(value, Mapping):
            values[name] = {}
            _merge(values[name], value)
        else:
            values[name] = value


def _sentence(
    details: ErrorDetails,
    origins: Mapping[str, Origin],
    file: Path | None,
    borrowed: Mapping[str, str],
) -> str:
    key = ".".join(str(part) for part in details["loc"])
    variable = variable_name(key)
    place = {
        "file": f"{file}: {key}",
        "environment": f"environment variable {borrowed.get(variable, variable)}",
    }.get(_origin(key, origins), key)
    if details["type"] == "extra_forbidden":
        return f"{place} is unknown{_hint(key, [*keys(), *_tables()])}"
    context = details.get("ctx", {})
    if details["type"] in _LIMITS:
        words, name = _LIMITS[details["type"]]
        return f"{place}: {words} {_shown(key, context[name])}"
    ours = _SENTENCES.get(details["type"]) or context.get("error")
    theirs = details["msg"]
    return f"{place}: {ours or theirs[:1].lower() + theirs[1:]}"


def _shown(key: str, limit: float) -> str:
    """A limit of a setting in the form in which its value is written: a size, a duration."""
    for each in dict(fields(Settings))[key].metadata:
        if isinstance(each, PlainSerializer):
            return cast("Callable[[float], str]", each.func)(limit)
    return str(limit)


def _origin(key: str, origins: Mapping[str, Origin]) -> Origin:
    """Where a key comes from, or a table in the place of one or that nobody knows.

    What is wrong with a table of ours as a whole may come from several places.
    """
    if key in origins or key in _tables():
        return origins.get(key, "default")
    return next(
        (origin for each, origin in origins.items() if each.startswith(f"{key}.")), "default"
    )


def _tables() -> set[str]:
    """The dotted name of every table there is."""
    return {
        ".".join(key.split(".")[:depth]) for key in keys() for depth in range(1, key.count(".") + 1)
    }


def _hint(name: str, known: Iterable[str], prefix: str = "") -> str:
    """What may have been meant; a prefix that all names have makes none of them alike."""
    endings = [each.removeprefix(prefix) for each in known]
    close = difflib.get_close_matches(name.removeprefix(prefix), endings, n=1, cutoff=0.7)
    return f"; did you mean {prefix}{close[0]}?" if close else ""
