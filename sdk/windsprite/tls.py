"""How to speak TLS."""

from __future__ import annotations

import ssl
from pathlib import Path

from windsprite.errors import InvalidRequest
from windsprite_protocol.errors import ErrorCode


def tls_context(ca_file: Path | None) -> ssl.SSLContext:
    """A context that checks certificates and host names.

    Args:
        ca_file: PEM file with the only certificates to trust; None: those of the system.

    Raises:
        InvalidRequest: The file cannot be read or holds no certificate.
    """
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError as error:
        raise InvalidRequest(
            f"tls_ca_file: {ca_file} holds no certificate in PEM form",
            code=ErrorCode.INVALID_TLS_CERTIFICATE,
        ) from error
    except OSError as error:
        raise InvalidRequest(
            f"tls_ca_file: cannot read {ca_file}: {error.strerror}",
            code=ErrorCode.INVALID_TLS_CERTIFICATE_PATH,
        ) from error
