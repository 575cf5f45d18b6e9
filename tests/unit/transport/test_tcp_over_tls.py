"""What holds for a plain connection holds for one with TLS: the same tests, other clients."""

import importlib.util
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support.tls_client import TlsClient
from support.tls_node import AUTHORITY, TlsNode, tls_node


def load(name: str) -> ModuleType:
    """Another copy of a module beside this one, with clients and servers of its own."""
    place = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"{name}_over_tls", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


plain: Any = load("test_tcp")


@pytest.fixture(autouse=True)
def _over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def secure_node(handlers: Any = None, **options: Any) -> AsyncIterator[TlsNode]:
        async with tls_node(tmp_path, handlers, **options) as node:
            monkeypatch.setattr(node, "client", node.tls_client)
            yield node

    monkeypatch.setattr(plain, "tcp_node", secure_node)
    secure_client = partial(TlsClient, context=AUTHORITY.client_context())
    monkeypatch.setattr(plain, "WireClient", secure_client)


_OTHERWISE = {
    # A connection too many is cut before its handshake, which `test_tls` has a test for.
    "test_one_connection_too_many_is_closed_and_the_others_are_not",
    # Nobody answers a handshake before anybody is served.
    "test_who_connects_before_anybody_is_served_waits_for_that",
    "test_who_waits_to_be_served_learns_that_nobody_will_be",
}

globals().update(
    (name, value)
    for name, value in vars(plain).items()
    if name.startswith("test_") and name not in _OTHERWISE
)
