"""The real program with TLS: files that are wrong, new certificates, our own client."""

import asyncio
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import windsprite
from support.certificates import Authority, Files, Pair
from support.pages import blocks
from support.server_process import server_process
from support.tls_server import TlsServer
from support.waiting import until

ROOT = Path(__file__).resolve().parents[2]
MIB = 1024 * 1024
YESTERDAY = datetime.now(UTC) - timedelta(days=1)
CA = Authority()
GOOD = CA.issue()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TlsServer]:
    server = TlsServer(tmp_path, reload_interval="100ms")
    yield server
    assert server.process.stop() == 0


def environment(cert: Path, key: Path) -> dict[str, str]:
    return {
        "WINDSPRITE_TCP__TLS__ENABLED": "true",
        "WINDSPRITE_TCP__TLS__CERT_FILE": str(cert),
        "WINDSPRITE_TCP__TLS__KEY_FILE": str(key),
    }


# --- Starting -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pair", "sentence"),
    [
        (Pair(GOOD.cert, b"nothing"), "tcp.tls.key_file: key.pem holds no private key"),
        (Pair(GOOD.cert, CA.issue().key), "tcp.tls.key_file: key.pem is not the key of"),
        (CA.issue_until(YESTERDAY), "tcp.tls.cert_file: cert.pem has expired: valid until"),
    ],
    ids=["no key", "another key", "expired"],
)
def test_bad_files_end_it_with_2_before_anything_is_made(
    tmp_path: Path, pair: Pair, sentence: str
) -> None:
    files = Files(tmp_path, pair)
    with server_process(tmp_path, environment=environment(files.cert, files.key)) as server:
        assert server.wait_end() == 2
        (line,) = server.output.splitlines()
        assert line.replace(f"{tmp_path}/", "").startswith(f"windsprite-server: {sentence}")
    assert not (tmp_path / "data").exists()


def test_files_that_are_not_named_or_not_there(tmp_path: Path) -> None:
    with server_process(tmp_path, environment={"WINDSPRITE_TCP__TLS__ENABLED": "true"}) as server:
        assert server.wait_end() == 2
        assert "enabled needs cert_file and key_file" in server.output
    missing = environment(tmp_path / "no.pem", tmp_path / "no.pem")
    with server_process(tmp_path / "second", environment=missing) as server:
        assert server.wait_end() == 2
        assert "tcp.tls.cert_file: cannot read" in server.output


def test_tls_does_not_make_the_default_password_safe(tmp_path: Path) -> None:
    files = Files(tmp_path, GOOD)
    options = ("--tcp-address", "0.0.0.0:0")
    settings = environment(files.cert, files.key)
    with server_process(tmp_path, *options, environment=settings) as server:
        server.wait_ready()
        assert (tmp_path / "data" / "root-password").exists()
        assert server.stop() == 0


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the recipe needs openssl")
async def test_the_recipe_of_the_page(tmp_path: Path) -> None:
    page = blocks(ROOT / "docs" / "tls.md")
    (recipe,) = [block.text for block in page if "openssl" in block.text]
    subprocess.run(["sh", "-e", "-c", recipe], cwd=tmp_path, check=True, capture_output=True)
    context = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    context.verify_flags |= ssl.VERIFY_X509_STRICT  # the default of newer Pythons
    settings = environment(tmp_path / "cert.pem", tmp_path / "key.pem")
    with server_process(tmp_path, environment=settings) as server:
        host, _, port = server.wait_ready()["tcp"].rpartition(":")
        for name in ("broker.example.com", "localhost", "127.0.0.1"):
            _, writer = await asyncio.open_connection(
                host, int(port), ssl=context, server_hostname=name
            )
            writer.close()
            await writer.wait_closed()
        assert server.stop() == 0


# --- Our own client -----------------------------------------------------------------------------


async def test_our_client_sends_and_polls_forty_megabytes(server: TlsServer) -> None:
    sent = [bytes([number]) * MIB for number in range(40)]
    async with windsprite.connect(server.url()) as client:
        metadata = await client.get_cluster_metadata()
        assert metadata.leader is not None
        await client.create_stream("s")
        await client.create_topic("s", "t", 1)
        for start in range(0, 40, 10):
            await client.send("s", "t", sent[start : start + 10], partition=0)
        batch = await client.poll("s", "t", start=windsprite.From.first(), count=40)
        assert [message.payload for message in batch] == sent


async def test_our_client_comes_back_after_a_restart(server: TlsServer) -> None:
    url = server.url(reconnection_interval="50ms", reestablish_after="0")
    async with asyncio.timeout(30), windsprite.connect(url) as client:
        await client.create_stream("s")
        await client.create_topic("s", "t", 1)
        await client.send("s", "t", [b"before"], partition=0)
        await asyncio.to_thread(server.restart)
        await client.send("s", "t", [b"after"], partition=0)
        batch = await client.poll("s", "t", start=windsprite.From.first(), count=9)
        assert [message.payload for message in batch] == [b"before", b"after"]


async def test_our_client_is_refused_with_a_reason(server: TlsServer) -> None:
    with pytest.raises(windsprite.ConnectionFailed, match=r"(?i)certificate.*as tls_domain"):
        await windsprite.connect(server.url(reconnection_retries=0, tls_domain="other.test"))
    plain = f"iggy://iggy:iggy@{server.address}?reconnection_retries=0"
    with pytest.raises(windsprite.ConnectionFailed, match=r"(closed|reset).*tls=true"):
        await windsprite.connect(plain)


def test_the_command_line(server: TlsServer) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "windsprite.cli", "--server", server.url(), "me"],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    assert "127.0.0.1" in done.stdout


# --- New certificates ---------------------------------------------------------------------------


async def until_told(server: TlsServer, event: str, count: int) -> None:
    async with asyncio.timeout(20):
        while sum(one["event"] == event for one in server.process.events) < count:
            await asyncio.sleep(0.02)


async def test_files_that_change_are_noticed(server: TlsServer) -> None:
    async with windsprite.connect(server.url()) as old:
        ca_file = server.change_certificate()
        await until_told(server, "certificate loaded", 2)
        async with windsprite.connect(server.url(tls_ca_file=ca_file)) as new:
            await new.ping()
        await old.ping()


@pytest.mark.parametrize("through", [[], ["nohup"]], ids=["with a terminal", "nohup"])
async def test_sighup_reads_the_files_and_stops_nothing(tmp_path: Path, through: list[str]) -> None:
    files = Files(tmp_path, GOOD)
    settings = environment(files.cert, files.key)
    with server_process(tmp_path, environment=settings, through=through) as server:
        server.wait_ready()
        server.send(signal.SIGHUP)
        await until(lambda: sum(one["event"] == "certificate loaded" for one in server.events) == 2)
        assert server.stop() == 0
        assert [one["signal"] for one in server.events if one["event"] == "stopping"] == ["SIGTERM"]


async def test_files_that_are_broken_change_nothing(server: TlsServer) -> None:
    server.files.put(CA.issue_until(YESTERDAY))
    await until_told(server, "the certificate before stays in force", 1)
    server.process.send(signal.SIGHUP)
    await until_told(server, "the certificate before stays in force", 2)
    async with windsprite.connect(server.url()) as client:
        await client.ping()
