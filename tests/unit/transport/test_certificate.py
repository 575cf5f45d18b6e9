"""Certificates from files: good ones, and a sentence for each way to be bad."""

import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from support.certificates import Authority, Files, Pair
from windsprite_server.transport.certificate import (
    Certificate,
    CertificateError,
    load_certificate,
)

NOW = datetime(2030, 6, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
CA = Authority()
GOOD = CA.issue()


def load(files: Files, now: datetime = NOW) -> Certificate:
    return load_certificate(files.cert, files.key, int(now.timestamp()) * 1_000_000)


def problem(folder: Path, pair: Pair) -> str:
    files = Files(folder, pair)
    with pytest.raises(CertificateError) as failure:
        load(files)
    sentence = str(failure.value)
    assert "\n" not in sentence
    return sentence.replace(f"{folder}/", "")


def encrypted(key: bytes, form: serialization.PrivateFormat) -> bytes:
    return serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM, form, serialization.BestAvailableEncryption(b"secret")
    )


def shake_hands(context: ssl.SSLContext) -> ssl.SSLObject:
    """Let a client that trusts the issuer connect; returns its side."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = CA.client_context().wrap_bio(to_client, to_server, server_hostname="localhost")
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    client.do_handshake()
    return client


def self_signed(purpose: x509.ObjectIdentifier) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, NOW - DAY, NOW + DAY)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


@pytest.mark.parametrize("kind", trustme.KeyType)
def test_a_good_certificate_serves_clients_that_trust_its_issuer(
    tmp_path: Path, kind: trustme.KeyType
) -> None:
    certificate = load(Files(tmp_path, CA.issue_until(NOW + DAY, key_type=kind)))
    assert certificate.not_after == NOW + DAY
    client = shake_hands(certificate.context)
    assert client.version() in ("TLSv1.3", "TLSv1.2")
    assert client.selected_alpn_protocol() is None


def test_tls_1_2_and_nothing_older(tmp_path: Path) -> None:
    context = load(Files(tmp_path, GOOD)).context
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_NONE, "clients need no certificates"


def test_both_may_be_in_one_file_with_text_around_them(tmp_path: Path) -> None:
    file = tmp_path / "both.pem"
    file.write_bytes("Schlüssel und Zertifikat\n".encode() + GOOD.key + b"text\n" + GOOD.cert)
    load_certificate(file, file, int(NOW.timestamp()) * 1_000_000)


def test_a_chain_is_sent_whole(tmp_path: Path) -> None:
    shake_hands(load(Files(tmp_path, CA.child().issue())).context)


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    files = Files(tmp_path, GOOD)
    files.key.unlink()
    with pytest.raises(CertificateError) as failure:
        load(files)
    assert str(failure.value) == (
        f"tcp.tls.key_file: cannot read {files.key}: No such file or directory"
    )
    files.put(GOOD)
    files.cert.unlink()
    files.cert.mkdir()
    with pytest.raises(CertificateError) as failure:
        load(files)
    assert str(failure.value) == f"tcp.tls.cert_file: cannot read {files.cert}: Is a directory"


@pytest.mark.parametrize(
    ("pair", "sentence"),
    [
        (Pair(b"", GOOD.key), "tcp.tls.cert_file: cert.pem holds no certificate in PEM form"),
        (Pair(GOOD.key, GOOD.key), "tcp.tls.cert_file: cert.pem holds no certificate in PEM form"),
        (
            Pair(ssl.PEM_cert_to_DER_cert(CA.pem.decode()), GOOD.key),
            "tcp.tls.cert_file: cert.pem holds no certificate in PEM form",
        ),
        (Pair(GOOD.cert[:200], GOOD.key), "tcp.tls.cert_file: cert.pem is damaged"),
        (
            Pair(GOOD.cert.replace(b"\nM", b"\n*"), GOOD.key),
            "tcp.tls.cert_file: cert.pem is damaged",
        ),
        (Pair(GOOD.cert, b"\0\xff"), "tcp.tls.key_file: key.pem holds no private key in PEM form"),
        (
            Pair(GOOD.cert, GOOD.cert),
            "tcp.tls.key_file: key.pem holds no private key in PEM form",
        ),
        (Pair(GOOD.cert, GOOD.key[:80]), "tcp.tls.key_file: key.pem is damaged"),
        (Pair(GOOD.cert, GOOD.key.replace(b"\nM", b"\n*")), "tcp.tls.key_file: key.pem is damaged"),
        (
            Pair(GOOD.cert, CA.issue().key),
            "tcp.tls.key_file: key.pem is not the key of the first certificate in cert.pem",
        ),
        (
            Pair(GOOD.cert, CA.issue(key_type=trustme.KeyType.RSA).key),
            "tcp.tls.key_file: key.pem is not the key of the first certificate in cert.pem",
        ),
        (
            Pair(CA.pem + GOOD.cert, GOOD.key),
            "tcp.tls.key_file: key.pem is not the key of the first certificate in cert.pem",
        ),
        (
            Pair(GOOD.cert, encrypted(GOOD.key, serialization.PrivateFormat.PKCS8)),
            "tcp.tls.key_file: key.pem is encrypted, which is not supported",
        ),
        (
            Pair(GOOD.cert, encrypted(GOOD.key, serialization.PrivateFormat.TraditionalOpenSSL)),
            "tcp.tls.key_file: key.pem is encrypted, which is not supported",
        ),
    ],
)
def test_each_mistake_has_a_sentence(tmp_path: Path, pair: Pair, sentence: str) -> None:
    assert problem(tmp_path, pair) == sentence


def test_a_certificate_that_is_not_for_servers(tmp_path: Path) -> None:
    assert problem(tmp_path, self_signed(ExtendedKeyUsageOID.CLIENT_AUTH)) == (
        "tcp.tls.cert_file: cert.pem cannot be used: unsuitable certificate purpose"
    )


def test_a_certificate_that_is_its_own_issuer(tmp_path: Path) -> None:
    assert load(Files(tmp_path, self_signed(ExtendedKeyUsageOID.SERVER_AUTH)))


@pytest.mark.parametrize(
    ("now", "sentence"),
    [
        (NOW - DAY - timedelta(seconds=1), "is not valid before 2030-05-31 12:00:00+00:00"),
        (NOW + DAY + timedelta(seconds=1), "has expired: valid until 2030-06-02 12:00:00+00:00"),
    ],
)
def test_a_certificate_is_good_within_its_dates_only(
    tmp_path: Path, now: datetime, sentence: str
) -> None:
    files = Files(tmp_path, CA.issue(not_before=NOW - DAY, not_after=NOW + DAY))
    for good in (NOW - DAY, NOW, NOW + DAY):
        load(files, good)
    with pytest.raises(CertificateError) as failure:
        load(files, now)
    assert str(failure.value) == f"tcp.tls.cert_file: {files.cert} {sentence}"


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    der = ssl.PEM_cert_to_DER_cert(GOOD.cert.decode())
    pem = ssl.DER_cert_to_PEM_cert(der.replace(b"localhost", b"local\xffost"))
    assert problem(tmp_path, Pair(pem.encode(), GOOD.key)) == (
        "tcp.tls.cert_file: cert.pem cannot be used: its names make no sense"
    )
