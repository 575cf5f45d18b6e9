"""Certificates for tests, made on the spot: good ones, and bad ones of every kind."""

import ssl
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import trustme


class Pair(NamedTuple):
    """A certificate chain and its key, in PEM."""

    cert: bytes
    key: bytes


class Authority:
    """An issuer that nobody trusts unless told to."""

    def __init__(self) -> None:
        self._ca = trustme.CA(key_type=trustme.KeyType.ECDSA)

    def issue(self, *names: str, **options: Any) -> Pair:
        """A certificate for servers, for `localhost` and 127.0.0.1 unless named otherwise."""
        made = self._ca.issue_cert(*(names or ("localhost", "127.0.0.1")), **options)
        chain = b"".join(blob.bytes() for blob in made.cert_chain_pems)
        return Pair(chain, made.private_key_pem.bytes())

    def issue_until(self, moment: datetime, **options: Any) -> Pair:
        return self.issue(not_after=moment, **options)

    def child(self) -> "Authority":
        """An issuer whose certificates carry its own with them."""
        child = Authority.__new__(Authority)
        child._ca = self._ca.create_child_ca()
        return child

    @property
    def pem(self) -> bytes:
        """What clients have to trust."""
        return self._ca.cert_pem.bytes()

    def client_context(self) -> ssl.SSLContext:
        """What a client needs that trusts this issuer and nobody else."""
        return ssl.create_default_context(cadata=self.pem.decode())


class Files:
    """The files of a server: replace their content with `put`."""

    def __init__(self, folder: Path, pair: Pair) -> None:
        self.cert = folder / "cert.pem"
        self.key = folder / "key.pem"
        self.put(pair)

    def put(self, pair: Pair) -> None:
        """Replace both, one after the other, as tools do."""
        for file, content in ((self.cert, pair.cert), (self.key, pair.key)):
            new = file.with_suffix(".new")
            new.write_bytes(content)
            new.replace(file)
