"""Where the servers are, who we are and how to behave: connection strings (spec 07, 1).

    iggy://user:password@host[:port][,host[:port]]...[?option=value[&option=value]...]
    iggy://token@host...

What differs from the official parser, each time towards fewer surprises:

- several servers, separated by commas; a missing port is 8090; IPv6 in brackets;
- user names, passwords, tokens and option values are percent-decoded, so that every character
  can be written (`%40` for `@`); the official clients take `%40` literally. A password with a
  plain `%` has to be written with `%25` here. `+` stays `+`;
- what the official parser ignores is refused: text behind the port, port 0, a repeated option,
  a boolean other than `true` or `false`, a host name that cannot be one. A client refuses options
  about TLS without `tls=true`.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

from windsprite.errors import InvalidConnectionString
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.text_forms import parse_interval, parse_size

DEFAULT_PORT: Final = 8090
DEFAULT_CONNECTION_STRING: Final = "iggy://iggy:iggy@127.0.0.1:8090"
MAX_ENDPOINTS: Final = 256
"""How many servers a client remembers at most."""

_OTHER_TRANSPORTS: Final = frozenset({"iggy+quic", "iggy+http", "iggy+ws"})
_LABEL: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")

RetryMode: TypeAlias = Literal["safe", "at-least-once"]
"""What happens to a send whose outcome is unknown: an error, or a repeat."""


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """A server as it is dialled: a host name in lower case or an IP address, and a TCP port."""

    host: str
    port: int = DEFAULT_PORT

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """An endpoint from `host`, `host:port`, `[ipv6]` or `[ipv6]:port`.

        Raises:
            InvalidConnectionString: It is none of these. The text is not repeated in the
                message, since it may be a misplaced password.
        """
        if text.startswith("["):
            host, bracket, rest = text[1:].partition("]")
            if not bracket or (rest and not rest.startswith(":")):
                raise _invalid("an IPv6 address is written as [address] or [address]:port")
            return cls(_ipv6(host), _port(rest[1:]) if rest else DEFAULT_PORT)
        host, colon, port = text.partition(":")
        if ":" in port:
            raise _invalid(
                "a server address has more than one colon",
                "write an IPv6 address in brackets, [::1]:8090",
            )
        return cls(_host(host), _port(port) if colon else DEFAULT_PORT)

    @classmethod
    def of(cls, host: str, port: int) -> Endpoint:
        """An endpoint from what a server says about a node; an IPv6 address needs no brackets.

        Raises:
            InvalidConnectionString: Nobody can dial that.
        """
        if ":" in host:
            return cls(_ipv6(host.removeprefix("[").removesuffix("]")), _port(str(port)))
        return cls(_host(host), _port(str(port)))


@dataclass(frozen=True, slots=True)
class Password:
    """A user name and its password."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Token:
    """A personal access token."""

    token: str = field(repr=False)


Credentials: TypeAlias = Password | Token


@dataclass(frozen=True, slots=True)
class Options:
    """How a client behaves; durations in seconds, sizes in bytes.

    Attributes:
        tls: Use TLS; certificates are always checked.
        tls_domain: The name to expect in the server's certificate; empty: the host dialled. Needs
            `tls`, or the `tls_context` of `connect`.
        tls_ca_file: PEM file with the only certificates to trust; None: those of the system. Needs
            `tls`.
        reconnection_retries: Further passes over all servers after a failed one; None: unlimited.
        reconnection_interval: The first reconnect waits a random time up to this one; the limit
            doubles with each failed pass.
        reconnection_max_interval: Where the doubling ends.
        reestablish_after: A server is dialled again this long after it was last connected to.
        heartbeat_interval: A connection that is idle for this long is pinged.
        nodelay: Accepted for the sake of official connection strings; it is always on.
        dial_timeout: For one server: TCP and TLS.
        connect_timeout: For `connect` altogether, all servers and passes.
        request_timeout: For a call altogether, with waiting, repeating and reconnecting. A server
            that takes as long for one answer is taken for dead, also if the `timeout` of the call
            would allow more.
        max_reply_size: Largest frame accepted from a server.
        max_in_flight: How many requests may be on their way at a time, 1 to 64, to a server that
            is known to answer them in their order (a Windsprite server); to others it is 1.
        send_retry: What becomes of a send whose outcome is unknown: `safe` raises
            `OutcomeUnknown`, `at-least-once` sends it again.
    """

    tls: bool = False
    tls_domain: str = ""
    tls_ca_file: Path | None = None
    reconnection_retries: int | None = None
    reconnection_interval: float = 1.0
    reconnection_max_interval: float = 10.0
    reestablish_after: float = 5.0
    heartbeat_interval: float = 5.0
    nodelay: bool = True
    dial_timeout: float = 5.0
    connect_timeout: float = 30.0
    request_timeout: float = 30.0
    max_reply_size: int = 64 * 1024 * 1024
    max_in_flight: int = 16
    send_retry: RetryMode = "safe"

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            value = getattr(self, name)
            if isinstance(value, str):
                raise _invalid(f"{name} has to be a number", _IN_SECONDS)
            if not 0 < value < float("inf"):
                raise _invalid(f"{name} has to be more than 0 and finite")
        if not 0 <= self.reestablish_after < float("inf"):
            raise _invalid("reestablish_after has to be at least 0 and finite")
        if self.reconnection_retries is not None and self.reconnection_retries < 0:
            raise _invalid("reconnection_retries has to be at least 0")
        if self.max_reply_size < _SMALLEST_REPLY_LIMIT:
            raise _invalid(f"max_reply_size has to be at least {_SMALLEST_REPLY_LIMIT} bytes")
        if self.max_in_flight not in _IN_FLIGHT:
            raise _invalid(f"max_in_flight is a number from 1 to {_IN_FLIGHT[-1]}")
        if self.send_retry not in RETRY_MODES:
            raise _invalid("send_retry is either safe or at-least-once")


_SMALLEST_REPLY_LIMIT: Final = 4096
_IN_FLIGHT: Final = range(1, 65)
RETRY_MODES: Final = frozenset({"safe", "at-least-once"})
_POSITIVE: Final = (
    "reconnection_interval",
    "reconnection_max_interval",
    "heartbeat_interval",
    "dial_timeout",
    "connect_timeout",
    "request_timeout",
)
_IN_SECONDS: Final = "give seconds; units such as 500ms are for connection strings"


@dataclass(frozen=True, slots=True)
class Address:
    """All that a connection string says.

    Attributes:
        endpoints: At least one server to start from.
        credentials: Who we are; None: nobody yet, the program logs in itself.
        options: How to behave.
    """

    endpoints: tuple[Endpoint, ...]
    credentials: Credentials | None = None
    options: Options = Options()

    def __post_init__(self) -> None:
        if not self.endpoints:
            raise _invalid("there is no server in it")
        if len(self.endpoints) > MAX_ENDPOINTS:
            raise _invalid(f"more than {MAX_ENDPOINTS} servers")

    @classmethod
    def parse(cls, text: str) -> Address:
        """An address from a connection string, or from bare `host[:port]`s without credentials.

        Raises:
            InvalidConnectionString: With what is wrong, and without any part of a secret.
        """
        if "://" not in text:
            return cls(_endpoints(text))
        scheme, rest = text.split("://", 1)
        _check_scheme(scheme)
        if "://" in rest:
            raise _invalid("it holds '://' twice", "write : in a password as %3A")
        pieces = rest.split("@")
        if len(pieces) == 1:
            raise _invalid(
                "it has no credentials",
                "write iggy://user:password@host or iggy://token@host",
            )
        if len(pieces) > 2:
            raise _invalid(
                "it holds more than one '@'", "write @ in a user name or password as %40"
            )
        credentials, location = pieces
        servers, question_mark, options = location.partition("?")
        return cls(
            _endpoints(servers),
            _credentials(credentials),
            _options(options) if question_mark else Options(),
        )

    @classmethod
    def gather(cls, servers: str | Address | Sequence[str]) -> Address:
        """One address from a connection string, or from several that agree in all but the servers.

        Raises:
            InvalidConnectionString: One of them is wrong, or two disagree.
        """
        if isinstance(servers, Address):
            return servers
        if isinstance(servers, str):
            return cls.parse(servers)
        addresses = [cls.parse(server) for server in servers]
        credentials = {address.credentials for address in addresses} - {None}
        options = {address.options for address in addresses} - {Options()}
        if len(credentials) > 1 or len(options) > 1:
            raise _invalid("two of the servers have different credentials or options")
        endpoints = (endpoint for address in addresses for endpoint in address.endpoints)
        return cls(
            tuple(dict.fromkeys(endpoints)),
            next(iter(credentials), None),
            next(iter(options), Options()),
        )

    def with_options(self, changes: Mapping[str, Any]) -> Address:
        """The same with some options changed, by their names in `Options`.

        Raises:
            TypeError: There is no such option.
            InvalidConnectionString: A value is out of bounds.
        """
        names = Options.__dataclass_fields__
        for name in changes:
            if name not in names:
                message = f"connect: there is no option {name!r} ({_meant(name, names)})"
                raise TypeError(message)
        return replace(self, options=replace(self.options, **changes))

    def __str__(self) -> str:
        """The connection string without the secret and the options."""
        servers = ",".join(map(str, self.endpoints))
        match self.credentials:
            case Password(username=username):
                return f"iggy://{quote(username, safe='')}:***@{servers}"
            case Token():
                return f"iggy://***@{servers}"
            case None:
                return servers


def _invalid(reason: str, hint: str = "") -> InvalidConnectionString:
    return InvalidConnectionString(
        f"invalid connection string: {reason}",
        code=ErrorCode.INVALID_CONNECTION_STRING,
        hint=hint,
    )


def _check_scheme(scheme: str) -> None:
    if scheme in {"iggy", "iggy+tcp"}:
        return
    if scheme in _OTHER_TRANSPORTS:
        raise _invalid(f"{scheme}:// is not supported", "use iggy:// (TCP)")
    raise _invalid("it does not begin with iggy:// or iggy+tcp://")


def _endpoints(text: str) -> tuple[Endpoint, ...]:
    return tuple(dict.fromkeys(map(Endpoint.parse, text.split(","))))


def _credentials(text: str) -> Credentials:
    pieces = text.split(":")
    if len(pieces) > 2:
        raise _invalid(
            "the credentials hold more than one ':'",
            "write : in a user name, password or token as %3A",
        )
    if len(pieces) == 1:
        if not text:
            raise _invalid("the token is empty")
        return Token(_decoded(text, "the token"))
    if not pieces[0]:
        raise _invalid("the user name is empty")
    if not pieces[1]:
        raise _invalid("the password is empty")
    return Password(_decoded(pieces[0], "the user name"), _decoded(pieces[1], "the password"))


def _decoded(text: str, what: str) -> str:
    """Percent-decoded text; what is wrong is never shown, since it may be a secret."""
    if _ESCAPE.search(text):
        raise _invalid(
            f"{what} holds a '%' without two hexadecimal digits",
            "write a plain % as %25",
        )
    raw = bytearray()
    try:
        head, *escaped = text.split("%")
        raw += head.encode()
        for piece in escaped:
            raw.append(int(piece[:2], 16))
            raw += piece[2:].encode()
        return raw.decode()
    except UnicodeError:
        # The cause would show the secret.
        raise _invalid(f"{what} is not UTF-8 text") from None


def _port(text: str) -> int:
    # int() would also take signs, blanks, underscores and digits of other scripts.
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 65535):
        raise _invalid("a port is a number from 1 to 65535")
    return int(text)


def _ipv6(text: str) -> str:
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        raise _invalid("what stands in brackets is not an IPv6 address") from None
    return str(address.ipv4_mapped or address)


def _host(text: str) -> str:
    if not text:
        raise _invalid("a host name is empty")
    labels = text.split(".")
    if all(label.isascii() and label.isdigit() for label in labels):
        try:
            return str(ipaddress.IPv4Address(text))
        except ValueError:
            raise _invalid("a host of digits and dots is not an IPv4 address") from None
    if len(text) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise _invalid(
            "a host is neither an IP address nor a host name",
            "names consist of letters, digits, '-', '_' and dots",
        )
    return text.lower()


# --- Options -----------------------------------------------------------------------------------


def _unknown_option(name: str) -> InvalidConnectionString:
    # The name itself is not shown: it may be a piece of a password with a plain '@' or '?'.
    return _invalid("it has an unknown option", _meant(name, _OPTION_PARSERS))


def _meant(name: str, known: Collection[str]) -> str:
    """The option that may have been meant, or all there are."""
    similar = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {similar[0]}?" if similar else f"there are: {', '.join(known)}"


def _options(text: str) -> Options:
    values: dict[str, Any] = {}
    for pair in text.split("&"):
        name, equals, value = pair.partition("=")
        if name not in _OPTION_PARSERS:
            raise _unknown_option(name)
        if not equals or not value or "=" in value:
            raise _invalid(f"option {name} is not written as {name}=value")
        if name in values:
            raise _invalid(f"option {name} is given twice")
        values[name] = _OPTION_PARSERS[name](name, _decoded(value, f"option {name}"))
    return Options(**values)


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise _invalid(f"option {name} is either true or false")
    return text.lower() == "true"


def _text(name: str, text: str) -> str:  # noqa: ARG001 - one signature for all kinds of options
    return text


def _path(name: str, text: str) -> Path:
    if "\0" in text:
        raise _invalid(f"option {name} is not a path")
    return Path(text)


def _retries(name: str, text: str) -> int | None:
    if text.lower() == "unlimited":
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) < 2**32):
        raise _invalid(f"option {name} is a number below 2^32 or unlimited")
    return int(text)


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise _invalid(f"option {name} is a number")
    return int(text)


def _duration(name: str, text: str) -> float:
    """Seconds."""
    try:
        return parse_interval(text) / 1_000_000
    except ValueError:
        raise _invalid(f"option {name} is not a duration", "write 500ms, 5s or 1m 30s") from None


def _size(name: str, text: str) -> int:
    try:
        return parse_size(text)
    except ValueError:
        raise _invalid(f"option {name} is not a size", "write 4096, 64 MiB or 1 GB") from None


_OPTION_PARSERS: Final[dict[str, Callable[[str, str], Any]]] = {
    "tls": _boolean,
    "tls_domain": _text,
    "tls_ca_file": _path,
    "reconnection_retries": _retries,
    "reconnection_interval": _duration,
    "reconnection_max_interval": _duration,
    "reestablish_after": _duration,
    "heartbeat_interval": _duration,
    "nodelay": _boolean,
    "dial_timeout": _duration,
    "connect_timeout": _duration,
    "request_timeout": _duration,
    "max_reply_size": _size,
    "max_in_flight": _number,
    "send_retry": _text,
}
"""How the text of each option becomes the value of the field of `Options` with the same name."""
