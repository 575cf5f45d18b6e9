"""TLS between the client and scripted servers."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import windsprite
from support.environment import SeededEnvironment
from support.scripted_server import Cut, ScriptedCluster
from support.virtual_time import in_virtual_time
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.streams import GetStreams

# Its own issuer, for localhost, broker.test and 127.0.0.1, with its key; made with
#   openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 36500
#     -subj "/CN=windsprite test"
#     -addext "subjectAltName=DNS:localhost,DNS:broker.test,IP:127.0.0.1"
#     -addext "keyUsage=critical,digitalSignature,keyCertSign"
CERTIFICATE = Path(__file__).parent.parent / "support" / "server_certificate.pem"


OTHER_NAME = (
    "use a host name or address that is in the certificate of the server, "
    "or give such a name as tls_domain"
)
PERHAPS_TLS = "an Iggy or Windsprite server, and that tls=true is given if it speaks TLS"


async def tls_cluster(count: int = 1) -> ScriptedCluster:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE)
    return await ScriptedCluster(tls=context).start(count)


def connect(url: str, **options: float) -> windsprite.Connecting:
    options = {"reestablish_after": 0.0, "reconnection_retries": 0, **options}
    return windsprite.connect(url, environment=SeededEnvironment(), **options)


@pytest.mark.parametrize("domain", ["", "&tls_domain=broker.test"])
@in_virtual_time
async def test_redirects_and_reconnects_over_tls(domain: str) -> None:
    async with await tls_cluster(2) as cluster:
        url = cluster.url(1, options=f"tls=true&tls_ca_file={CERTIFICATE}{domain}")
        async with connect(url) as client:
            await client.create_stream("orders")
            cluster.nodes[0].script(GetStreams, [Cut(), Cut(after=100, reset=True)])
            assert len(await client.get_streams()) == 1
            await client.send("orders", "t", [bytes(300_000)])
        assert cluster.payloads == [bytes(300_000)]


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ("tls=true", "name the file with the certificate of its issuer as tls_ca_file"),
        (
            f"tls=true&tls_ca_file={CERTIFICATE}&tls_domain=other.test",
            OTHER_NAME,
        ),
    ],
    ids=["unknown issuer", "other name"],
)
@in_virtual_time
async def test_a_certificate_that_cannot_be_trusted(options: str, hint: str) -> None:
    async with await tls_cluster() as cluster:
        with pytest.raises(windsprite.ConnectionFailed, match=r"(?i)certificate") as caught:
            await connect(cluster.url(options=options))
        assert caught.value.hint == hint
        assert not cluster.nodes[0].requests


@in_virtual_time
async def test_a_plain_client_on_a_tls_port_and_the_reverse() -> None:
    async with await tls_cluster() as cluster:
        with pytest.raises(windsprite.ConnectionFailed, match=PERHAPS_TLS):
            await connect(cluster.url())
    async with await ScriptedCluster().start() as cluster:
        with pytest.raises(windsprite.ConnectionFailed):
            await connect(cluster.url(options=f"tls=true&tls_ca_file={CERTIFICATE}"))


@asynccontextmanager
async def refusing(said: bytes) -> AsyncIterator[str]:
    """A server that closes every connection once anything was sent to it; its address."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1 << 16)
        writer.write(said)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 400 Bad Request"], ids=["nothing", "text"])
@in_virtual_time
async def test_a_server_that_ends_a_tls_handshake_may_not_speak_tls(said: bytes) -> None:
    async with refusing(said) as place:
        with pytest.raises(windsprite.ConnectionFailed, match="check that the server speaks TLS"):
            await connect(f"iggy://iggy:iggy@{place}?tls=true")


@pytest.mark.parametrize("said", [b"", bytes.fromhex("15030300020232")], ids=["nothing", "alert"])
@pytest.mark.parametrize("credentials", ["iggy:iggy@", None])
@in_virtual_time
async def test_a_server_that_ends_a_new_connection_may_speak_tls(
    said: bytes, credentials: str | None
) -> None:
    async with refusing(said) as place:
        if credentials:
            with pytest.raises(windsprite.ConnectionFailed, match=PERHAPS_TLS):
                await connect(f"iggy://{credentials}{place}")
        else:
            async with connect(place) as client:
                with pytest.raises(windsprite.ConnectionLost, match=PERHAPS_TLS):
                    await client.ping()


@in_virtual_time
async def test_a_server_that_has_answered_needs_no_such_hint() -> None:
    async with await ScriptedCluster().start() as cluster, connect(cluster.url()) as client:
        cluster.nodes[0].script(GetStreams, [Cut()] * 9)
        with pytest.raises(windsprite.ConnectionLost) as caught:
            await client.get_streams()
        assert not caught.value.hint


@asynccontextmanager
async def between(port: int) -> AsyncIterator[tuple[int, Callable[[bytes], None]]]:
    """Somebody between client and server, who can say something to the client, too."""
    clients: list[asyncio.StreamWriter] = []
    tasks: list[asyncio.Task[None]] = []

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clients.append(writer)
        from_server, to_server = await asyncio.open_connection("127.0.0.1", port)
        tasks.append(asyncio.create_task(forward(from_server, writer)))
        await forward(reader, to_server)

    def inject(data: bytes) -> None:
        clients[-1].write(data)

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], inject
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("level", [1, 2], ids=["warning", "fatal"])
@in_virtual_time
async def test_bug_28_a_broken_record_of_tls_is_a_lost_connection(level: int) -> None:
    """An alert in plain text, as whoever is in between sends it: the record cannot be read."""
    alert = bytes([21, 3, 3, 0, 2, level, 40])
    async with await tls_cluster() as cluster:
        (node,) = cluster.nodes
        async with between(node.port) as (port, inject):
            url = f"iggy://iggy:iggy@127.0.0.1:{port}?tls=true&tls_ca_file={CERTIFICATE}"
            async with connect(url, reconnection_retries=3) as client:
                inject(alert)
                assert await client.get_streams() == ()
                inject(alert)
                with pytest.raises(windsprite.OutcomeUnknown):
                    await client.create_stream("orders")
                assert len(await client.get_streams()) <= 1
        assert len(node.connects) == 3


def test_a_file_without_certificates(tmp_path: Path) -> None:
    file = tmp_path / "no.pem"
    file.write_text("nothing")
    with pytest.raises(windsprite.InvalidRequest) as failure:
        windsprite.connect(f"iggy://u:p@h?tls=true&tls_ca_file={file}")
    assert failure.value.code is ErrorCode.INVALID_TLS_CERTIFICATE
