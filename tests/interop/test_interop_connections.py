"""Connecting, logging in and out with the official client (spec 07, 3 and 4; spec 06, 8.1)."""

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from apache_iggy import (
    AutoLogin,
    Consumer,
    IggyClient,
    Partitioning,
    PollingStrategy,
    TcpConfig,
    TcpReconnectionConfig,
)

from support.official_client import fails_with, logged_in, messages, number_of
from support.wire_client import WireClient, wire_client
from windsprite_protocol.model.sessions import Logout
from windsprite_protocol.model.system import NOT_LOGGED_IN, GetClients, Ping

covers = pytest.mark.covers

Call = Callable[[IggyClient], Awaitable[Any]]

GATED: dict[str, Call] = {
    "logout_user": lambda client: client.logout_user(),
    "get_user": lambda client: client.get_user(0),
    "get_users": lambda client: client.get_users(),
    "create_user": lambda client: client.create_user("somebody", "password"),
    "update_user": lambda client: client.update_user("somebody", "other"),
    "delete_user": lambda client: client.delete_user("somebody"),
    "update_permissions": lambda client: client.update_permissions("somebody", None),
    "change_password": lambda client: client.change_password(0, "iggy", "iggy2"),
    "get_stream": lambda client: client.get_stream("x"),
    "get_streams": lambda client: client.get_streams(),
    "create_stream": lambda client: client.create_stream("x"),
    "update_stream": lambda client: client.update_stream("x", "y"),
    "delete_stream": lambda client: client.delete_stream("x"),
    "purge_stream": lambda client: client.purge_stream("x"),
    "describe_options": lambda client: client.describe_options("topic"),
    "get_topic": lambda client: client.get_topic("x", "y"),
    "get_topics": lambda client: client.get_topics("x"),
    "create_topic": lambda client: client.create_topic("x", "y", 1),
    "update_topic": lambda client: client.update_topic("x", "y", "z"),
    "delete_topic": lambda client: client.delete_topic("x", "y"),
    "purge_topic": lambda client: client.purge_topic("x", "y"),
    "create_partitions": lambda client: client.create_partitions("x", "y", 1),
    "delete_partitions": lambda client: client.delete_partitions("x", "y", 1),
    "create_consumer_group": lambda client: client.create_consumer_group("x", "y", "z"),
    "get_consumer_group": lambda client: client.get_consumer_group("x", "y", "z"),
    "get_consumer_groups": lambda client: client.get_consumer_groups("x", "y"),
    "delete_consumer_group": lambda client: client.delete_consumer_group("x", "y", "z"),
    "join_consumer_group": lambda client: client.join_consumer_group("x", "y", "z"),
    "leave_consumer_group": lambda client: client.leave_consumer_group("x", "y", "z"),
    "send_messages": lambda client: client.send_messages("x", "y", 0, messages("a")),
    "send_messages by key": lambda client: client.send_messages(
        "x", "y", Partitioning.messages_key("k"), messages("a")
    ),
    "producer": lambda client: client.producer("x", "y"),
    "consumer_group": lambda client: client.consumer_group("g", "x", "y"),
    "poll_messages": lambda client: client.poll_messages(
        "x",
        "y",
        consumer=Consumer.Single(1),
        polling_strategy=PollingStrategy.First(),
        count=1,
        auto_commit=False,
    ),
}


async def connections(wire: WireClient) -> dict[int, int]:
    """The connections of the server and who is logged in on them."""
    return {info.client_id: info.user_id for info in await wire.call(GetClients())}


@covers("connect", "ping")
async def test_connecting_again_and_pinging_before_a_login(address: str) -> None:
    client = IggyClient(address)
    for _ in range(3):
        await client.connect()
        await client.ping()
        await client.ping()
    await client.login_user("iggy", "iggy")
    await client.connect()
    await client.ping()
    assert await client.get_stream("no such stream") is None


@covers("connect")
async def test_connecting_again_uses_one_connection(address: str, wire: WireClient) -> None:
    before = await connections(wire)
    client = IggyClient(address)
    for _ in range(3):
        await client.connect()
    await client.ping()
    assert len((await connections(wire)).keys() - before.keys()) == 1


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=covers(name.split()[0])) for name in GATED]
)
async def test_nothing_works_before_connecting_and_before_a_login(address: str, name: str) -> None:
    client = IggyClient(address)
    with fails_with(8):
        await GATED[name](client)
    await client.connect()
    with fails_with(40):
        await GATED[name](client)
    await client.login_user("iggy", "iggy")
    await client.logout_user()
    with fails_with(40):
        await GATED[name](client)


@covers("ping", "get_stats", "send_binary_request")
async def test_what_the_client_asks_without_a_login(address: str) -> None:
    client = IggyClient(address)
    with fails_with(61):
        await client.ping()
    with fails_with(61):
        await client.get_stats()
    with fails_with(61):
        await client.send_binary_request(20, b"")
    await client.connect()
    await client.ping()
    with fails_with(40):
        await client.get_stats()
    with fails_with(40):
        await client.send_binary_request(20, b"")
    assert await client.send_binary_request(1, b"") == b""


@covers("login_user")
async def test_a_login_connects_by_itself(address: str) -> None:
    client = IggyClient(address)
    await client.login_user("iggy", "iggy")
    assert (await client.get_stats()).clients_count >= 1


@covers("login_user")
async def test_logging_in_again_on_one_connection(address: str) -> None:
    client = IggyClient(address)
    numbers = set()
    for _ in range(3):
        await client.login_user("iggy", "iggy")
        await client.create_stream("mine for now")
        await client.delete_stream("mine for now")
        numbers.add(await number_of(client))
    assert len(numbers) == 1


@pytest.mark.parametrize(
    ("username", "password"),
    [
        ("iggy", "wrong"),
        ("nobody", "iggy"),
        ("IGGY", "iggy"),
        ("iggy", "iggy "),
        ("n" * 50, "p" * 100),
        ("iggy", "päss"),
    ],
)
@covers("login_user")
async def test_a_refused_login_leaves_the_connection_usable(
    address: str, wire: WireClient, username: str, password: str
) -> None:
    client = IggyClient(address)
    await client.connect()
    await client.ping()
    before = await connections(wire)
    for _ in range(2):
        with fails_with(42):
            await client.login_user(username, password)
    with fails_with(40):
        await client.get_streams()
    await client.login_user("iggy", "iggy")
    number = await number_of(client)
    assert before[number] == NOT_LOGGED_IN
    assert (await connections(wire))[number] == 0


@covers("login_user")
async def test_a_refused_login_after_a_good_one_ends_the_session(address: str) -> None:
    client = IggyClient(address)
    await client.login_user("iggy", "iggy")
    with fails_with(42):
        await client.login_user("iggy", "wrong")
    with fails_with(40):
        await client.get_streams()
    await client.login_user("iggy", "iggy")
    await client.get_streams()


@pytest.mark.parametrize(
    ("username", "password", "code"),
    [
        ("", "iggy", 43),
        ("ab", "iggy", 43),
        ("a" * 51, "iggy", 43),
        ("ä" * 26, "iggy", 43),
        ("iggy", "", 44),
        ("iggy", "ab", 44),
        ("iggy", "a" * 101, 44),
    ],
)
@covers("login_user")
async def test_names_out_of_bounds_are_not_sent(
    address: str, username: str, password: str, code: int
) -> None:
    client = IggyClient(address)
    await client.connect()
    with fails_with(code):
        await client.login_user(username, password)
    await client.login_user("iggy", "iggy")


@covers("logout_user")
async def test_a_logout_ends_the_session_and_no_other(address: str) -> None:
    client, other = await logged_in(address), await logged_in(address)
    await client.logout_user()
    with fails_with(40):
        await client.get_streams()
    with fails_with(40):
        await client.logout_user()
    await client.ping()
    await other.get_streams()
    await client.login_user("iggy", "iggy")
    await client.get_streams()


@covers("logout_user")
async def test_a_logout_leaves_a_connection_without_user(address: str, wire: WireClient) -> None:
    client = await logged_in(address)
    number = await number_of(client)
    assert (await connections(wire))[number] == 0
    await client.logout_user()
    await client.ping()
    assert (await connections(wire))[number] == NOT_LOGGED_IN


async def test_connections_are_listed_from_their_first_frame_until_their_logout(
    address: str, wire: WireClient
) -> None:
    before = (await connections(wire)).keys()
    async with wire_client(address) as other:
        assert (await connections(wire)).keys() == before
        await other.call(Ping())
        assert len((await connections(wire)).keys() - before) == 1
        await other.login()
        await other.call(Logout())
        assert (await connections(wire)).keys() == before


@covers("IggyClient()")
async def test_a_client_from_settings(address: str) -> None:
    quick = TcpReconnectionConfig(
        enabled=True,
        max_retries=3,
        interval=dt.timedelta(milliseconds=50),
        reestablish_after=dt.timedelta(0),
    )
    settings = TcpConfig(
        server_address=address,
        auto_login=AutoLogin.username_password("iggy", "iggy"),
        reconnection=quick,
        heartbeat_interval=dt.timedelta(milliseconds=20),
        nodelay=True,
    )
    client = IggyClient(settings)
    await client.connect()
    await client.get_streams()
    await asyncio.sleep(0.2)  # some heartbeats
    await client.get_streams()


@covers("IggyClient()")
async def test_settings_without_a_login(address: str) -> None:
    client = IggyClient(TcpConfig(server_address=address))
    await client.connect()
    with fails_with(40):
        await client.get_streams()
    await client.login_user("iggy", "iggy")
    await client.get_streams()


@covers("IggyClient()")
async def test_a_host_by_its_name(address: str) -> None:
    client = IggyClient(f"localhost:{address.rpartition(':')[2]}")
    await client.login_user("iggy", "iggy")
    await client.get_streams()


@pytest.mark.parametrize(
    "form",
    [
        "iggy://iggy:iggy@{address}",
        "iggy+tcp://iggy:iggy@{address}",
        "iggy://iggy:iggy@localhost:{port}",
        "iggy://iggy:iggy@{address}?nodelay=true",
        "iggy://iggy:iggy@{address}?heartbeat_interval=20ms&reconnection_retries=5",
        "iggy://iggy:iggy@{address}?reconnection_retries=unlimited&reconnection_interval=50ms",
        "iggy://iggy:iggy@{address}?reestablish_after=0&tls=false",
    ],
)
@covers("from_connection_string")
async def test_a_client_from_a_connection_string(address: str, form: str) -> None:
    text = form.format(address=address, port=address.rpartition(":")[2])
    client = IggyClient.from_connection_string(text)
    await client.connect()
    await client.get_streams()
    await client.ping()


@pytest.mark.parametrize(
    ("credentials", "code"),
    [("iggy:wrong", 42), ("nobody:iggy", 42), ("c29tZXRva2Vu", 53), ("a/b+c=", 53)],
)
@covers("from_connection_string")
async def test_a_connection_string_with_wrong_credentials(
    address: str, credentials: str, code: int
) -> None:
    client = IggyClient.from_connection_string(f"iggy://{credentials}@{address}")
    with fails_with(code):
        await client.connect()


@covers("connect")
async def test_many_clients_at_once(address: str) -> None:
    clients = [IggyClient(address) for _ in range(20)]
    await asyncio.gather(*(client.login_user("iggy", "iggy") for client in clients))
    found = await asyncio.gather(*(client.get_stream(999_999) for client in clients))
    assert found == [None] * 20
