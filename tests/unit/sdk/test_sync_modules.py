"""The blocking classes have what the asyncio classes have."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import windsprite
import windsprite.sync
from support.pages import load_page_script

PAIRS = [
    (windsprite.Client, windsprite.sync.Client, {"connect"}),
    (windsprite.Producer, windsprite.sync.Producer, {"aclose"}),
    (windsprite.EventStream, windsprite.sync.EventStream, {"put"}),
    (windsprite.Deliveries, windsprite.sync.Deliveries, set()),
    (windsprite.Delivery, windsprite.sync.Delivery, set()),
    (windsprite.TopicConsumer, windsprite.sync.TopicConsumer, set()),
]
BY_HAND = {
    (windsprite.sync.Delivery, "result"): {"timeout"},
    (windsprite.sync.Delivery, "wait"): {"timeout"},
    (windsprite.sync.Deliveries, "wait"): {"timeout"},
    (windsprite.sync.TopicConsumer, "get"): {"timeout"},
    (windsprite.sync.TopicConsumer, "run"): {"stop"},
}
"""What has other parameters where calls block: those that only one of the two has."""


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("asynchronous", "blocking", "without"), PAIRS, ids=[pair[0].__name__ for pair in PAIRS]
)
def test_names_and_parameters_are_the_same(
    asynchronous: type, blocking: type, without: set[str]
) -> None:
    assert public(asynchronous) - without <= public(blocking)
    for name in public(asynchronous) - without:
        ours, theirs = getattr(blocking, name), getattr(asynchronous, name)
        assert isinstance(ours, property) == isinstance(theirs, property)
        if callable(ours):
            only_one_has = parameters(ours).keys() ^ parameters(theirs).keys()
            assert only_one_has == BY_HAND.get((blocking, name), set()), name
            assert all(
                default == parameters(theirs)[parameter]
                for parameter, default in parameters(ours).items()
                if parameter not in only_one_has
            )


def parameters(function: Callable[..., Any]) -> dict[str, Any]:
    return {name: each.default for name, each in inspect.signature(function).parameters.items()}


def test_no_method_of_a_blocking_class_returns_a_coroutine() -> None:
    for _, blocking, _ in PAIRS:
        for name in public(blocking):
            assert not inspect.iscoroutinefunction(getattr(blocking, name)), name


def test_the_modules_are_what_the_script_writes() -> None:
    texts = load_page_script("sync_modules").modules()
    assert texts
    for path, text in texts.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run `make sync-client`"
