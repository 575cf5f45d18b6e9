"""Every method of the official Python client has a counterpart, which the page on moving names."""

import re
from pathlib import Path

import apache_iggy
import pytest

import windsprite

PAGE = Path(__file__).parents[2] / "docs" / "moving-from-iggy.md"
ROW = re.compile(r"^\| `(Iggy\w+(?:\.\w+|\(\)))` \| `([\w.]+)`", re.MULTILINE)
CLASSES = (apache_iggy.IggyClient, apache_iggy.IggyConsumer, apache_iggy.IggyProducer)


@pytest.fixture(scope="module")
def named() -> dict[str, str]:
    return dict(ROW.findall(PAGE.read_text(encoding="utf-8")))


def test_every_official_method_is_in_the_table(named: dict[str, str]) -> None:
    methods = {
        f"{one.__name__}.{name}" for one in CLASSES for name in dir(one) if not name.startswith("_")
    }
    assert methods | {"IggyClient()"} == set(named)


def test_every_counterpart_is_there(named: dict[str, str]) -> None:
    for counterpart in named.values():
        found: object = windsprite
        for name in counterpart.split("."):
            found = getattr(found, name)
        assert found is not None
