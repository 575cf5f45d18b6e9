"""The official client while a server with TLS restarts, changes its certificate, sends a lot."""

import asyncio
import datetime as dt
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apache_iggy import AutoLogin, IggyClient, PollingStrategy, TcpConfig, TcpReconnectionConfig

from support.certificates import Authority
from support.official_client import fails_with, messages, payloads, poll
from support.tls_server import TlsServer

pytestmark = pytest.mark.covers("TLS")

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    server = TlsServer(tmp_path_factory.mktemp("tls"))
    yield server
    assert server.process.stop() == 0
    assert [event for event in server.process.events if event["level"] == "error"] == []


def settings(server: TlsServer, **changes: Any) -> TcpConfig:
    values = {
        "server_address": server.address,
        "auto_login": AutoLogin.username_password("iggy", "iggy"),
        "reconnection": TcpReconnectionConfig(
            enabled=True,
            max_retries=1,
            interval=dt.timedelta(milliseconds=50),
            reestablish_after=dt.timedelta(0),
        ),
        "tls_enabled": True,
        "tls_ca_file": str(server.ca_file),
    }
    return TcpConfig(**(values | changes))


async def test_forty_megabytes_in_one_reply(server: TlsServer) -> None:
    client = IggyClient(settings(server))
    await client.connect()
    await client.create_stream("large")
    await client.create_topic("large", "events", 1)
    sent = [bytes([number]) * MIB for number in range(40)]
    for start in range(0, 40, 10):
        await client.send_messages("large", "events", 0, messages(*sent[start : start + 10]))
    polled = await poll(client, "large", "events", PollingStrategy.Offset(0), 40)
    assert payloads(polled) == sent
    await client.delete_stream("large")


async def test_the_log_says_why_a_client_was_not_served(server: TlsServer, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(Authority().pem)
    with fails_with(9):
        await IggyClient(settings(server, tls_ca_file=str(other))).connect()
    plain = IggyClient(settings(server, tls_enabled=False, auto_login=None))
    await plain.connect()
    with fails_with(8):
        await plain.login_user("iggy", "iggy")

    wanted = {"the client refuses: unknown ca", "the client does not speak TLS"}
    async with asyncio.timeout(10):
        while not wanted <= {event.get("reason") for event in server.process.events}:
            await asyncio.sleep(0.01)


async def test_coming_back_after_a_restart(server: TlsServer) -> None:
    client = IggyClient(settings(server, heartbeat_interval=dt.timedelta(minutes=5)))
    await client.connect()
    await client.create_stream("stays")
    await asyncio.sleep(0.2)
    await asyncio.to_thread(server.restart)
    assert (await client.get_stream("stays")).name == "stays"
    await client.delete_stream("stays")


async def test_a_new_certificate_without_a_restart(tmp_path: Path) -> None:
    server = TlsServer(tmp_path)
    try:
        old = IggyClient(settings(server))
        await old.connect()
        ca_file = server.change_certificate()
        server.process.send(signal.SIGHUP)
        async with asyncio.timeout(10):
            while sum(one["event"] == "certificate loaded" for one in server.process.events) < 2:
                await asyncio.sleep(0.01)
        new = IggyClient(settings(server, tls_ca_file=str(ca_file)))
        await new.connect()
        await new.get_streams()
        await old.get_streams()
        with fails_with(9):
            await IggyClient(settings(server)).connect()
    finally:
        assert server.process.stop() == 0
