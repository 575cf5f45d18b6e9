import inspect
import subprocess
import sys

import windsprite
from windsprite.client import Client

LIGHT = {"construct", "xxhash", "windsprite", "windsprite_protocol"}


def test_all_is_complete_and_true() -> None:
    public = {name for name in vars(windsprite) if not name.startswith("_")}
    modules = {name for name in public if inspect.ismodule(getattr(windsprite, name))}
    assert public - modules == set(windsprite.__all__)
    assert len(windsprite.__all__) == len(set(windsprite.__all__))


def test_every_method_is_documented() -> None:
    for name, method in inspect.getmembers(Client, callable):
        if not name.startswith("_"):
            assert inspect.getdoc(method), name


def test_importing_it_loads_nothing_heavy() -> None:
    script = "import sys, windsprite; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    foreign = {
        module
        for module in output.split()
        if module not in sys.stdlib_module_names and not module.startswith(("_", "sitecustomize"))
    }
    assert foreign <= LIGHT
