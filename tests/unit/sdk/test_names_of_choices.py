"""What is chosen by a name, and by one that does not exist; no server is asked."""

from collections.abc import Callable
from typing import Any

import pytest

import windsprite
from windsprite.address import Address
from windsprite.client import Client


@pytest.mark.parametrize(
    "call",
    [
        lambda client, name: client.describe_options(name),
        lambda client, name: client.snapshot(name),
        lambda client, name: client.snapshot("test", name),
        lambda client, name: client.snapshot(compression=name),
        lambda client, name: client.create_topic("s", "t", compression=name),
        lambda client, name: client.create_topic("s", "t", durability=name),
        lambda client, name: client.send("s", "t", [b"x"], retry=name),
    ],
)
@pytest.mark.parametrize("name", ["no such name", "", 7])
async def test_a_name_that_does_not_exist_is_refused(
    call: Callable[[Client, Any], Any], name: Any
) -> None:
    async with Client(Address.parse("127.0.0.1:1")) as client:
        with pytest.raises(windsprite.InvalidRequest):
            await call(client, name)
