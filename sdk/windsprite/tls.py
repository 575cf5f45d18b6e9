"""How to speak TLS, and what to do where that fails."""

from __future__ import annotations

import ssl
from typing import Final

from windsprite.address import Options
from windsprite.errors import InvalidConnectionString, InvalidRequest
from windsprite_protocol.errors import ErrorCode

_OTHER_NAME: Final = frozenset({62, 64})
"""What OpenSSL calls a certificate for another host name or IP address."""
_OTHER_TIME: Final = frozenset({9, 10})
"""What OpenSSL calls a certificate that is not valid yet, or not any more."""


def tls_context(options: Options) -> ssl.SSLContext | None:
    """A context that checks certificates and host names; None: no TLS is wanted.

    Raises:
        InvalidRequest: The file cannot be read or holds no certificate.
        InvalidConnectionString: Something is said about TLS, but not that it is to be used: the
            password would go over the wire for everybody to read.
    """
    ca_file = options.tls_ca_file
    if not options.tls:
        if ca_file is not None or options.tls_domain:
            name = "tls_domain" if ca_file is None else "tls_ca_file"
            raise InvalidConnectionString(
                f"invalid connection string: {name} is given without tls=true",
                code=ErrorCode.INVALID_CONNECTION_STRING,
                hint="add tls=true; without it nothing would be encrypted",
            )
        return None
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


def hint_of(error: BaseException | None) -> str:
    """What to do about a TLS connection that failed to open; empty where TLS is not to blame."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _OTHER_NAME:
            return (
                "use a host name or address that is in the certificate of the server, "
                "or give such a name as tls_domain"
            )
        if error.verify_code in _OTHER_TIME:
            return "the server needs a certificate that is valid now, if the clocks are right"
        return "name the file with the certificate of its issuer as tls_ca_file"
    if isinstance(error, ssl.SSLError | ConnectionResetError):
        return "check that the server speaks TLS at this port; without it, leave out tls=true"
    return ""
