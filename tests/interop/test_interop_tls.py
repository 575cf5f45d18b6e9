"""TLS with the official client (spec 01, 9; spec 06, 8.5; spec 07, 2.1)."""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from apache_iggy import AutoLogin, IggyClient, TcpConfig, TcpReconnectionConfig

from support.certificates import Authority, Files
from support.official_client import fails_with, messages, payloads, poll
from support.server_process import server_process

pytestmark = pytest.mark.covers("TLS")


@dataclass
class Secure:
    """A server that speaks TLS, and the file that says whom to trust."""

    port: str
    ca: Path


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority()
    files = Files(folder, authority.issue())
    ca = folder / "ca.pem"
    ca.write_bytes(authority.pem)
    settings = {
        "WINDSPRITE_TCP__TLS__ENABLED": "true",
        "WINDSPRITE_TCP__TLS__CERT_FILE": str(files.cert),
        "WINDSPRITE_TCP__TLS__KEY_FILE": str(files.key),
    }
    with server_process(folder, environment=settings) as server:
        yield Secure(server.wait_ready()["tcp"].rpartition(":")[2], ca)


def client_of(secure: Secure, **settings: Any) -> IggyClient:
    """A client that trusts the server unless told otherwise, and gives up at once."""
    usual = {
        "server_address": f"localhost:{secure.port}",
        "auto_login": AutoLogin.username_password("iggy", "iggy"),
        "reconnection": TcpReconnectionConfig(
            max_retries=0, interval=dt.timedelta(milliseconds=10), reestablish_after=dt.timedelta(0)
        ),
        "tls_enabled": True,
        "tls_ca_file": str(secure.ca),
    }
    return IggyClient(TcpConfig(**usual | settings))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"tls_domain": "localhost"},
        {"tls_ca_file": None, "tls_validate_certificate": False},
    ],
    ids=["by its address", "by its domain", "whoever it is"],
)
async def test_everything_over_tls(secure: Secure, settings: dict[str, Any]) -> None:
    client = client_of(secure, **settings)
    await client.connect()
    await client.ping()
    name = f"over TLS {len(await client.get_streams())}"
    producer = await client.producer(name, "t")
    large = b"x" * 5_000_000
    await producer.send(messages("small", large))
    assert payloads(await poll(client, name, "t")) == [b"small", large]
    await producer.shutdown()


async def test_a_connection_string(secure: Secure) -> None:
    address = f"localhost:{secure.port}"
    options = f"tls=true&tls_ca_file={secure.ca}"
    client = IggyClient.from_connection_string(f"iggy://iggy:iggy@{address}?{options}")
    await client.connect()
    await client.get_streams()
    by_number = f"127.0.0.1:{secure.port}?{options}&tls_domain=localhost"
    client = IggyClient.from_connection_string(f"iggy+tcp://iggy:iggy@{by_number}")
    await client.connect()
    await client.get_streams()


@pytest.mark.parametrize(
    "settings",
    [{"tls_ca_file": None}, {"tls_domain": "other.test"}],
    ids=["unknown issuer", "other name"],
)
async def test_a_server_that_is_not_trusted(secure: Secure, settings: dict[str, Any]) -> None:
    with fails_with(9):
        await client_of(secure, **settings).connect()


async def test_a_client_without_tls(secure: Secure) -> None:
    with pytest.raises(RuntimeError):
        await client_of(secure, tls_enabled=False).connect()
    trusted = client_of(secure)
    await trusted.connect()
    await trusted.ping()


async def test_a_server_without_tls(address: str, secure: Secure) -> None:
    with fails_with(9):
        await client_of(secure, server_address=address).connect()
