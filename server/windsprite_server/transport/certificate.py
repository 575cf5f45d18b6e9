"""The certificate a server shows to its clients, from the two files that hold it and its key.

Everything that would make clients refuse it, or the handshake fail, is found here and told in a
sentence, before any client comes.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

_CERT_FILE: Final = "tcp.tls.cert_file"
_KEY_FILE: Final = "tcp.tls.key_file"

_PRIVATE_KEY: Final = re.compile(rb"-----BEGIN (\w+ )*PRIVATE KEY-----")
# How OpenSSL says that a key is another one than that of the certificate, or of another kind.
_MISMATCHES: Final = frozenset({"KEY_VALUES_MISMATCH", "NO_CERTIFICATE_ASSIGNED"})
# X509_V_FLAG_NO_CHECK_TIME of OpenSSL, which has no name in the standard library.
_NO_CHECK_TIME: Final = 0x200000
_MICROSECOND: Final = 1_000_000


class CertificateError(Exception):
    """The files hold nothing that clients could be shown; the text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate that is valid now.

    Attributes:
        context: Shows it to clients; TLS 1.2 or newer.
        not_after: When it stops being valid.
    """

    context: ssl.SSLContext
    not_after: datetime


def load_certificate(cert_file: Path, key_file: Path, now_us: int) -> Certificate:
    """Read a certificate with its key, and try a handshake with it in memory.

    Args:
        cert_file: PEM, the server's own certificate first, then those between it and the root.
        key_file: PEM, not encrypted. May be the same file.
        now_us: The time at which it has to be valid, in microseconds since the Unix epoch.

    Raises:
        CertificateError: A file is missing, unreadable or not what it should be, the two don't
            belong together, or the certificate is not valid now or not for servers.
    """
    pem = _read(_CERT_FILE, cert_file)
    if b"-----BEGIN CERTIFICATE-----" not in pem:
        raise CertificateError(f"{_CERT_FILE}: {cert_file} holds no certificate in PEM form")
    if not _PRIVATE_KEY.search(_read(_KEY_FILE, key_file)):
        raise CertificateError(f"{_KEY_FILE}: {key_file} holds no private key in PEM form")
    client = _trusting_context(pem, cert_file)
    context = _server_context(cert_file, key_file)
    shown = _rehearse(context, client, cert_file)
    try:
        not_before, not_after = _moment(shown["notBefore"]), _moment(shown["notAfter"])
    except (KeyError, ValueError) as error:
        raise _unusable(cert_file, "its dates make no sense") from error
    now = datetime.fromtimestamp(now_us / _MICROSECOND, UTC)
    if now < not_before:
        raise CertificateError(f"{_CERT_FILE}: {cert_file} is not valid before {not_before}")
    if now > not_after:
        raise CertificateError(f"{_CERT_FILE}: {cert_file} has expired: valid until {not_after}")
    return Certificate(context, not_after)


def _read(setting: str, file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise CertificateError(f"{setting}: cannot read {file}: {error.strerror}") from error


def _trusting_context(pem: bytes, cert_file: Path) -> ssl.SSLContext:
    """A client that trusts the certificates of a file and asks for no name or date."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    try:
        context.load_verify_locations(cadata=pem.decode("ascii", "ignore"))
    except ssl.SSLError as error:
        raise CertificateError(f"{_CERT_FILE}: {cert_file} is damaged") from error
    return context


def _server_context(cert_file: Path, key_file: Path) -> ssl.SSLContext:
    def password() -> str:
        raise CertificateError(f"{_KEY_FILE}: {key_file} is encrypted, which is not supported")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        context.load_cert_chain(cert_file, key_file, password)
    except ssl.SSLError as error:
        if error.reason in _MISMATCHES:
            raise CertificateError(
                f"{_KEY_FILE}: {key_file} is not the key of the first certificate in {cert_file}"
            ) from error
        if error.library == "PEM" or error.reason is None:
            raise CertificateError(f"{_KEY_FILE}: {key_file} is damaged") from error
        raise _unusable(cert_file, error.reason) from error
    except OSError as error:  # it was readable a moment ago
        raise CertificateError(
            f"{_CERT_FILE}: cannot read {cert_file} with {key_file}: {error.strerror}"
        ) from error
    return context


def _rehearse(
    context: ssl.SSLContext, client_context: ssl.SSLContext, cert_file: Path
) -> dict[str, Any]:
    """Shake hands with a client in memory; returns the certificate as the client sees it."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    try:
        # The client speaks first. It is done at its second turn, or with TLS 1.2 at its third.
        for side in (client, server, client, server, client):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    except ssl.SSLCertVerificationError as error:
        raise _unusable(cert_file, error.verify_message) from error
    except ssl.SSLError as error:
        raise _unusable(cert_file, error.reason) from error
    try:
        return client.getpeercert() or {}
    except ValueError as error:
        raise _unusable(cert_file, "its names make no sense") from error


def _unusable(cert_file: Path, reason: str | None) -> CertificateError:
    why = (reason or "the handshake fails").replace("_", " ").lower()
    return CertificateError(f"{_CERT_FILE}: {cert_file} cannot be used: {why}")


def _moment(text: str) -> datetime:
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC)
