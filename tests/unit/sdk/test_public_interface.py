import inspect
import subprocess
import sys

import pytest

import windsprite
from windsprite import public
from windsprite.client import Client

LIGHT = {"construct", "xxhash", "windsprite", "windsprite_protocol"}


def test_all_is_complete_and_true() -> None:
    for module in (windsprite, public):
        names = {name for name in vars(module) if not name.startswith("_")}
        foreign = {name for name in names if inspect.ismodule(getattr(module, name))}
        assert names - foreign - {"TYPE_CHECKING", "import_module"} == set(module.__all__)
    assert len(windsprite.__all__) == len(set(windsprite.__all__))
    assert set(windsprite.__all__) <= set(dir(windsprite))


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'windsprite' has no attribute 'Consummer'"):
        windsprite.Consummer  # type: ignore[attr-defined]  # noqa: B018


def run(script: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout


def test_it_is_loaded_when_it_is_used() -> None:
    loaded = "print('windsprite.client' in sys.modules)"
    for use in (
        "windsprite.Client",
        "windsprite.errors.NotFound",
        "dir(windsprite)",
        "from windsprite import connect",
        "from windsprite import *; connect",
    ):
        assert run(f"import sys, windsprite; {loaded}; {use}; {loaded}") == "False\nTrue\n"


def test_every_method_is_documented() -> None:
    for name, method in inspect.getmembers(Client, callable):
        if not name.startswith("_"):
            assert inspect.getdoc(method), name


def test_importing_it_loads_nothing_heavy() -> None:
    output = run(
        "import sys, windsprite; windsprite.Client; "
        "print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    )
    foreign = {
        module
        for module in output.split()
        if module not in sys.stdlib_module_names and not module.startswith(("_", "sitecustomize"))
    }
    assert foreign <= LIGHT
