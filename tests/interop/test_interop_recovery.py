"""What the official client does when its server goes away and comes back (spec 07, 3 and 5.3)."""

import asyncio
import datetime as dt
import signal
from collections.abc import Iterator

import pytest
from apache_iggy import AutoLogin, IggyClient, PollingStrategy, TcpConfig, TcpReconnectionConfig

from support.official_client import fails_with, figures, messages, payloads, poll, stored_size
from support.server_process import RestartableServer

pytestmark = pytest.mark.covers("reconnecting")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestartableServer]:
    server = RestartableServer(tmp_path_factory.mktemp("recovery"))
    yield server
    server.end()


async def impatient(
    server: RestartableServer, *, login: bool = True, reconnects: bool = True
) -> IggyClient:
    """A client that comes back at once, and notices a loss only when it asks for something."""
    settings = TcpConfig(
        server_address=server.address,
        auto_login=AutoLogin.username_password("iggy", "iggy") if login else None,
        reconnection=TcpReconnectionConfig(
            enabled=reconnects,
            interval=dt.timedelta(milliseconds=50),
            reestablish_after=dt.timedelta(0),
        ),
        heartbeat_interval=dt.timedelta(minutes=5),
    )
    client = IggyClient(settings)
    await client.connect()
    # The first heartbeat is sent at once by a task of its own; if it were the one to notice the
    # loss, other calls would fail for as long as it takes to connect again.
    await asyncio.sleep(0.2)
    return client


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
async def test_everything_is_there_after_a_restart(
    server: RestartableServer, number: signal.Signals
) -> None:
    reader, writer = await impatient(server), await impatient(server)
    name = f"ended by {number.name}"
    await writer.create_stream(name)
    await writer.create_topic(name, "t", 2)
    stream, topic = await reader.get_stream(name), await reader.get_topic(name, "t")
    await writer.send_messages(name, "t", 1, messages("one", "two"))
    await poll(reader, name, "t", partition=1, consumer="me", count=1, commit=True)

    await asyncio.to_thread(server.restart, number)

    again = await reader.get_stream(name)  # a read heals by itself
    assert (again.id, again.created_at) == (stream.id, stream.created_at)
    with fails_with(8):  # a write says that it may have been lost
        await writer.send_messages(name, "t", 1, messages("lost"))
    sent = await writer.send_messages(name, "t", 1, messages("three"))
    assert sent.confirmations[0].base_offset == 2

    details = await reader.get_topic(name, "t")
    assert (details.id, details.created_at) == (topic.id, topic.created_at)
    assert figures(details) == (3, stored_size([3, 3], [5]))
    assert payloads(await poll(reader, name, "t", partition=1)) == [b"one", b"two", b"three"]
    start = PollingStrategy.Next()
    following = await poll(reader, name, "t", start, partition=1, consumer="me")
    assert payloads(following) == [b"two", b"three"]


async def test_the_last_of_many_writes_is_there_after_a_kill(server: RestartableServer) -> None:
    client, other = await impatient(server), await impatient(server)
    for number in range(20):
        await client.create_stream(f"number {number}")
        await client.delete_stream(f"number {number}")
    await client.create_stream("last")
    await asyncio.to_thread(server.restart)
    with fails_with(8):
        await client.create_stream("lost")
    await client.create_stream("after")
    names = [stream.name for stream in await other.get_streams()]
    assert {"last", "after"} <= set(names)
    assert "lost" not in names
    assert not any(name.startswith("number") for name in names)


async def test_which_clients_come_back_by_themselves(server: RestartableServer) -> None:
    by_hand = await impatient(server, login=False)
    await by_hand.login_user("iggy", "iggy")
    nobody = await impatient(server, login=False)
    stubborn = await impatient(server, reconnects=False)
    await asyncio.to_thread(server.restart)

    await by_hand.get_streams()  # it still knows the password

    with fails_with(8):
        await nobody.ping()
    with fails_with(61):
        await nobody.ping()
    await nobody.connect()
    await nobody.ping()
    with fails_with(40):
        await nobody.get_streams()

    for _ in range(2):
        with fails_with(8):
            await stubborn.get_streams()
    await stubborn.connect()
    await stubborn.get_streams()


async def test_who_waits_until_the_server_is_back(server: RestartableServer) -> None:
    reader, writer = await impatient(server), await impatient(server)
    quick = dt.timedelta(milliseconds=50)
    producer = await writer.producer("produced", "t", send_retry_interval=quick)
    await producer.send(messages("one"))
    await asyncio.to_thread(server.kill)
    reading = asyncio.ensure_future(reader.get_stream("produced"))
    producing = asyncio.ensure_future(producer.send(messages("two")))
    await asyncio.sleep(0.2)
    assert not reading.done()
    assert not producing.done()
    await asyncio.to_thread(server.start)
    assert (await reading).name == "produced"
    sent = await producing
    assert [confirmation.base_offset for confirmation in sent.confirmations] == [1]
    assert payloads(await poll(reader, "produced", "t")) == [b"one", b"two"]
    await producer.shutdown()
