"""The official client over TLS (spec 01, 9; spec 06, 8.5; spec 07, 2.1)."""

import asyncio
import datetime as dt
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apache_iggy import AutoLogin, IggyClient, PollingStrategy, TcpConfig, TcpReconnectionConfig

from support.certificates import Authority
from support.official_client import fails_with, messages, payloads, poll
from support.tls_server import TlsServer

covers = pytest.mark.covers

MIB = 1024 * 1024
CANNOT_CONNECT = "Cannot establish connection"


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


async def is_refused(settings: TcpConfig) -> bool:
    client = IggyClient(settings)
    with pytest.raises(RuntimeError, match=re.escape(CANNOT_CONNECT)):
        await client.connect()
    return True


@pytest.mark.parametrize("domain", [None, "", "localhost", "127.0.0.1"])
@covers("from_connection_string")
async def test_a_connection_string(server: TlsServer, domain: str | None) -> None:
    options = {} if domain is None else {"tls_domain": domain}
    client = IggyClient.from_connection_string(server.url(**options))
    await client.connect()
    await client.ping()
    assert await client.get_stream("no such stream") is None


@covers("IggyClient()")
async def test_everything_works_as_without(server: TlsServer) -> None:
    client = IggyClient(settings(server, tls_domain="localhost"))
    await client.connect()
    await client.create_stream("tls")
    await client.create_topic("tls", "events", 2)
    await client.send_messages("tls", "events", 1, messages("one", b"\0two"))
    assert payloads(await poll(client, "tls", "events", partition=1)) == [b"one", b"\0two"]
    me = await client.send_binary_request(20, b"")
    assert b"127.0.0.1:" in me
    await client.delete_stream("tls")


@covers("poll_messages", "send_messages")
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


@covers("IggyClient()")
async def test_certificates_that_cannot_be_trusted(server: TlsServer, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(Authority().pem)
    assert await is_refused(settings(server, tls_ca_file=str(other)))
    assert await is_refused(settings(server, tls_ca_file=None))
    assert await is_refused(settings(server, tls_domain="other.test"))
    refused = [event for event in server.process.events if "TLS failed" in event["event"]]
    assert "the client refuses: unknown ca" in {event["reason"] for event in refused}
    trusting = IggyClient(settings(server, tls_ca_file=None, tls_validate_certificate=False))
    await trusting.connect()
    await trusting.get_streams()


@covers("IggyClient()")
async def test_a_plain_client_is_not_served(server: TlsServer) -> None:
    before = len(server.process.events)
    client = IggyClient(settings(server, tls_enabled=False, auto_login=None))
    await client.connect()
    with fails_with(8):
        await client.login_user("iggy", "iggy")
    await asyncio.sleep(0.1)
    told = {event.get("reason") for event in server.process.events[before:]}
    assert "the client does not speak TLS" in told


@covers("IggyClient()")
async def test_where_no_tls_is_spoken_a_client_with_tls_is_not_served(
    server: TlsServer, address: str
) -> None:
    assert await is_refused(settings(server, server_address=address))


@covers("reconnecting")
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
        assert await is_refused(settings(server))
    finally:
        assert server.process.stop() == 0
