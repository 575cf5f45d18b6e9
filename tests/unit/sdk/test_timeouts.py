"""Every method of the client that waits takes a time limit, and keeps to it."""

import asyncio
import inspect
from typing import Any

import pytest

import windsprite
from support.environment import SeededEnvironment
from support.virtual_time import in_virtual_time

METHODS = sorted(
    name
    for name, method in inspect.getmembers(windsprite.Client, inspect.iscoroutinefunction)
    if not name.startswith("_")
)

ARGUMENTS: dict[str, Any] = {
    "stream": "s",
    "topic": "t",
    "group": "g",
    "user": "u",
    "name": "n",
    "username": "user",
    "password": "password",
    "current_password": "password",
    "new_password": "password",
    "token": "token",
    "permissions": None,
    "count": 1,
    "code": 10,
    "partition": 0,
    "offset": 0,
    "messages": [b"x"],
    "client_id": 1,
}


def test_all_methods_are_looked_at() -> None:
    assert {"connect", "close", "login", "logout", "send", "poll", "create_topic"} <= set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_it_takes_a_timeout(name: str) -> None:
    parameter = inspect.signature(getattr(windsprite.Client, name)).parameters["timeout"]
    assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
    assert parameter.default is None
    assert parameter.annotation == "float | None"


@pytest.mark.parametrize("name", METHODS)
@in_virtual_time
async def test_it_keeps_to_it(name: str) -> None:
    """With a server that accepts connections and never says anything."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            pass
        writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        address = windsprite.Address.gather(f"iggy://iggy:iggy@127.0.0.1:{port}")
        client = windsprite.Client(address, environment=SeededEnvironment())
        method = getattr(client, name)
        parameters = inspect.signature(method).parameters.values()
        given = {
            each.name: ARGUMENTS[each.name]
            for each in parameters
            if each.default is inspect.Parameter.empty
            and each.kind is not inspect.Parameter.VAR_POSITIONAL
        }
        began = asyncio.get_running_loop().time()
        if name == "close":
            await client.close(timeout=3)
        else:
            with pytest.raises(windsprite.WindspriteError):
                await method(**given, timeout=3)
        assert asyncio.get_running_loop().time() - began <= 3.001
        await client.close()
