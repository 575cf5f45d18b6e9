"""A server process that speaks TLS, with a certificate that only those who are told to trust it."""

from pathlib import Path

from support.certificates import Authority, Files
from support.server_process import RestartableServer


class TlsServer(RestartableServer):
    """A server that keeps its address, its data and its files.

    Attributes:
        ca_file: What clients have to trust.
        files: The certificate of the server and its key.
    """

    def __init__(self, folder: Path, *, reload_interval: str = "1h") -> None:
        authority = Authority()
        self.ca_file = folder / "ca.pem"
        self.ca_file.write_bytes(authority.pem)
        self.files = Files(folder, authority.issue())
        settings = {
            "WINDSPRITE_TCP__TLS__ENABLED": "true",
            "WINDSPRITE_TCP__TLS__CERT_FILE": str(self.files.cert),
            "WINDSPRITE_TCP__TLS__KEY_FILE": str(self.files.key),
            "WINDSPRITE_TCP__TLS__RELOAD_INTERVAL": reload_interval,
        }
        super().__init__(folder, environment=settings)

    def change_certificate(self) -> Path:
        """Put one of another issuer into place; returns what clients have to trust then."""
        authority = Authority()
        self.files.put(authority.issue())
        ca_file = self._folder / "other-ca.pem"
        ca_file.write_bytes(authority.pem)
        return ca_file

    def url(self, **options: object) -> str:
        """A connection string; without options, one that works."""
        options = {"tls": "true", "tls_ca_file": self.ca_file} | options
        text = "&".join(f"{name}={value}" for name, value in options.items())
        return f"iggy://iggy:iggy@{self.address}?{text}"
