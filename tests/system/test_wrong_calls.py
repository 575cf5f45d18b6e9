"""What errors say about calls that cannot succeed: what was asked for, and what to do instead."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import pytest

import windsprite
import windsprite.sync
import windsprite_server
from windsprite import NotFound

Call: TypeAlias = Callable[[Any], Awaitable[object]]


@pytest.fixture
async def client() -> AsyncIterator[windsprite.Client]:
    async with (
        windsprite_server.embedded() as server,
        windsprite.connect(server.connection_string) as client,
    ):
        await client.create_stream("s")
        await client.create_topic("s", "t")
        yield client


MISSING: dict[str, Call] = {
    "send to 't' in 'none'": lambda c: c.send("none", "t", [b""]),
    "send to 'none' in 's'": lambda c: c.send("s", "none", [b""]),
    "poll 'none' in 's'": lambda c: c.poll("s", "none"),
    "create_topic 't' in 'none'": lambda c: c.create_topic("none", "t"),
    "update_topic 7 in 's'": lambda c: c.update_topic("s", 7, "new"),
    "purge_topic 'none' in 's'": lambda c: c.purge_topic("s", "none"),
    "delete_topic 'none' in 's'": lambda c: c.delete_topic("s", "none"),
    "create_partitions 'none' in 's'": lambda c: c.create_partitions("s", "none", 1),
    "delete_partitions 'none' in 's'": lambda c: c.delete_partitions("s", "none", 1),
    "delete_segments 'none' in 's'": lambda c: c.delete_segments("s", "none", 0, 1),
    "store_consumer_offset 'none' in 's'": lambda c: c.store_consumer_offset("s", "none", 0),
    "delete_consumer_offset 'none' in 's'": lambda c: c.delete_consumer_offset("s", "none"),
    "create_consumer_group 'g' of 't' in 'none'": (
        lambda c: c.create_consumer_group("none", "t", "g")
    ),
    "delete_consumer_group 'g' of 't' in 's'": lambda c: c.delete_consumer_group("s", "t", "g"),
    "join_consumer_group 'g' of 't' in 's'": lambda c: c.join_consumer_group("s", "t", "g"),
    "leave_consumer_group 'g' of 't' in 's'": lambda c: c.leave_consumer_group("s", "t", "g"),
    "purge_stream 'none'": lambda c: c.purge_stream("none"),
}


async def test_what_is_missing_is_named_with_where_it_was_looked_for(
    client: windsprite.Client,
) -> None:
    for doing, call in MISSING.items():
        with pytest.raises(NotFound, match=f"^{doing}: "):
            await call(client)


async def test_a_producer_names_where_it_sends_to(client: windsprite.Client) -> None:
    async with client.producer("s", "t", mode="direct", linger=0) as producer:
        await producer.send(b"")
        await client.delete_topic("s", "t")
        with pytest.raises(NotFound, match="'t' in 's'"):
            await producer.send(b"")


def test_options_that_cannot_be() -> None:
    connect: Any = windsprite.connect
    with pytest.raises(windsprite.InvalidConnectionString, match=r"a number \(give seconds; units"):
        connect("h", request_timeout="5s")
    with pytest.raises(TypeError, match=r"^connect: there is no option 'tsl' \(did you mean tls\?"):
        connect("h", tsl=True)
    with pytest.raises(TypeError, match=r"^connect: there is no option 'foo' \(there are: tls, "):
        windsprite.sync.connect("h", foo=1)


async def test_a_client_that_was_not_waited_for_says_how_to_get_it() -> None:
    connecting: Any = windsprite.connect("127.0.0.1")
    with pytest.raises(AttributeError, match=r"await windsprite\.connect\(.*async with"):
        await connecting.ping()
    with pytest.raises(AttributeError, match="'Connecting' object has no attribute 'pong'"):
        connecting.pong()
    assert not hasattr(connecting, "server")
