"""What errors say about wrong calls: which argument, what it may be, and what was asked for."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import pytest

import windsprite
import windsprite.sync
import windsprite_server
from windsprite import From, InvalidRequest, Message, NotFound

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


WRONG: dict[str, Call] = {
    "send: stream has to be an int or a str, not None": lambda c: c.send(None, "t", [b""]),
    "send: topic has to be an int or a str, not float": lambda c: c.send("s", 1.5, [b""]),
    "send: topic has to be an int or a str, not a list of str": lambda c: c.send("s", ["t"], [b""]),
    "send: topic has to be a number or a name of 1 to 255 bytes": lambda c: c.send("s", "", [b""]),
    "send: messages has to be a sequence of bytes or str or Message, not None": (
        lambda c: c.send("s", "t", None)
    ),
    "send: partition has to be at least 0": lambda c: c.send("s", "t", [b""], partition=-1),
    "send: partition has to be an int or None, not str": (
        lambda c: c.send("s", "t", [b""], partition="0")
    ),
    "send: timeout has to be a number or None, not str": (
        lambda c: c.send("s", "t", [b""], timeout="5")
    ),
    r"send: messages\[1\]\.id has to be an int or None, not str": (
        lambda c: c.send("s", "t", [b"", Message("x", id="a")])  # type: ignore[arg-type]
    ),
    r"poll: start has to be a From such as From\.first\(\) or None, not str": (
        lambda c: c.poll("s", "t", start="first")
    ),
    r"poll: start\.value has to be at least 0": lambda c: c.poll("s", "t", start=From.offset(-1)),
    "poll: count has to be an int, not str": lambda c: c.poll("s", "t", count="5"),
    r"poll: count has to be below 2\^32": lambda c: c.poll("s", "t", count=1 << 32),
    "create_topic: partitions has to be an int, not str": lambda c: c.create_topic("s", "n", "3"),
    "create_topic: name has to be a str, not None": lambda c: c.create_topic("s", None),
    "store_consumer_offset: offset has to be at least 0": (
        lambda c: c.store_consumer_offset("s", "t", -1)
    ),
    r"store_consumer_offset: offset has to be below 2\^64": (
        lambda c: c.store_consumer_offset("s", "t", 1 << 64)
    ),
    "create_user: password has to be a str, not int": lambda c: c.create_user("name", 5),
    "login: password has to be a str, not int": lambda c: c.login("iggy", 5),
}


async def test_a_wrong_argument_is_named_with_what_it_may_be(client: windsprite.Client) -> None:
    for sentence, call in WRONG.items():
        with pytest.raises(InvalidRequest, match=f"^{sentence}"):
            await call(client)
    await client.send("s", "t", [b"fine"])
    assert (await client.poll("s", "t", start=From.first())).payloads == [b"fine"]


async def test_what_the_server_says_of_right_arguments_stays_as_it_is(
    client: windsprite.Client,
) -> None:
    with pytest.raises(InvalidRequest, match=r"^send: there is no message to send"):
        await client.send("s", "t", [])
    with pytest.raises(TypeError, match="unexpected keyword argument 'partitoin'"):
        await client.send("s", "t", [b""], partitoin=0)  # type: ignore[call-arg]


async def test_producers_and_consumers_refuse_wrong_arguments_at_once(
    client: windsprite.Client,
) -> None:
    producer: Any = client.producer
    with pytest.raises(InvalidRequest, match=r"^producer: topic has to be an int or a str, not N"):
        producer("s", None)
    with pytest.raises(InvalidRequest, match=r"^producer: linger has to be a number, not str"):
        producer("s", "t", linger="5ms")
    consumer: Any = client.consumer
    with pytest.raises(InvalidRequest, match=r"^consumer: stream has to be an int or a str, not f"):
        consumer(1.5, "t")


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


def test_options_of_the_wrong_type() -> None:
    connect: Any = windsprite.connect
    for options, sentence in (
        ({"request_timeout": "5s"}, r"request_timeout has to be a number, not str \(give seconds"),
        ({"tls": "yes"}, "tls has to be a bool, not str"),
        ({"max_in_flight": 2.0}, "max_in_flight has to be an int, not float"),
        ({"send_retry": "never"}, "send_retry has to be 'safe' or 'at-least-once'$"),
        ({"tls": True, "tls_ca_file": 5}, "tls_ca_file has to be a path or None, not int"),
    ):
        with pytest.raises(windsprite.InvalidConnectionString, match=sentence):
            connect("h", **options)
    for address in (5, None, [5]):
        with pytest.raises(InvalidRequest, match=r"^connect: servers has to be a str, an Address"):
            connect(address)
    with pytest.raises(InvalidRequest, match=r"^connect: username has to be a str or None"):
        connect("h", username=5, password="p")
    with pytest.raises(TypeError, match=r"^connect: there is no option 'tsl' \(did you mean tls\?"):
        connect("h", tsl=True)
    with pytest.raises(TypeError, match=r"^connect: there is no option 'foo' \(there are: tls, "):
        windsprite.sync.connect("h", foo=1)
    connect("h", request_timeout=5)


async def test_a_client_that_was_not_waited_for_says_how_to_get_it() -> None:
    connecting: Any = windsprite.connect("127.0.0.1")
    with pytest.raises(AttributeError, match=r"await windsprite\.connect\(.*async with"):
        await connecting.ping()
    with pytest.raises(AttributeError, match="'Connecting' object has no attribute 'pong'"):
        connecting.pong()
    assert not hasattr(connecting, "server")


def test_the_blocking_client_names_them_as_well() -> None:
    async def serve(use: Callable[[str], None]) -> None:
        async with windsprite_server.embedded() as server:
            await asyncio.to_thread(use, server.connection_string)

    def use(url: str) -> None:
        with windsprite.sync.connect(url) as client:
            poll: Any = client.poll
            with pytest.raises(InvalidRequest, match=r"^poll: start has to be a From"):
                poll("s", "t", start="first")
            with pytest.raises(NotFound, match=r"^send to 't' in 's': "):
                client.send("s", "t", [b""])

    asyncio.run(serve(use))
