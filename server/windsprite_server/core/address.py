"""Addresses as people write them: `HOST:PORT`, an IPv6 host in brackets."""

import ipaddress
import re
from typing import NamedTuple

_MAX_PORT = 65_535
_MAX_HOST_NAME = 253
_LABEL = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)", re.ASCII)


class Address(NamedTuple):
    """Where to listen. Port 0 lets the system choose a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        """As people write it."""
        return join_host_port(self.host, self.port)

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


class AdvertisedAddress(NamedTuple):
    """What clients are told to dial; `None` stands for the port of the listener."""

    host: str
    port: int | None

    def __str__(self) -> str:
        """As people write it."""
        if self.port is None:
            return self.host
        return join_host_port(self.host, self.port)


def join_host_port(host: str, port: int) -> str:
    """`HOST:PORT`, with brackets where the host has colons."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str) -> Address:
    """Read `HOST:PORT` of a listener.

    Raises:
        ValueError: With a sentence that says what is missing or wrong.
    """
    host, port = _split(text)
    if port is None:
        raise ValueError(f"{text!r} needs a port, as in 127.0.0.1:8090")
    return Address(host, port)


def parse_advertised_address(text: str) -> AdvertisedAddress:
    """Read `HOST` or `HOST:PORT` of an address that clients dial.

    Raises:
        ValueError: With a sentence that says what is missing or wrong.
    """
    host, port = _split(text)
    if port == 0:
        raise ValueError(f"{text!r}: clients cannot dial port 0")
    try:
        unspecified = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        unspecified = False
    if unspecified:
        raise ValueError(f"{text!r}: clients cannot dial {host}, it means every address")
    return AdvertisedAddress(host, port)


def _split(text: str) -> tuple[str, int | None]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"{text!r} is not an address: write [IPV6]:PORT")
        _check_ipv6(host)
        return host, _port(text, rest[1:]) if rest else None
    if text.count(":") > 1:
        _check_ipv6(text)
        return text, None
    host, colon, port = text.partition(":")
    _check_host(text, host)
    return host, _port(text, port) if colon else None


def _check_ipv6(host: str) -> None:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        raise ValueError(f"{host!r} is not an IPv6 address") from None


def _check_host(text: str, host: str) -> None:
    """Accept an IPv4 address or a host name of RFC 1123."""
    if not host:
        raise ValueError(f"{text!r} needs a host, as in 127.0.0.1:8090")
    labels = host.removesuffix(".").split(".")
    if labels[-1].isdecimal():
        # A name never ends in a number, so this is meant as an address: 10.0.0.256 is no name.
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            raise ValueError(f"{host!r} is not an IPv4 address") from None
    elif len(host) > _MAX_HOST_NAME or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError(f"{host!r} is not a host name")


def _port(text: str, port: str) -> int:
    if not (port.isascii() and port.isdecimal()) or len(port) > 5 or int(port) > _MAX_PORT:
        raise ValueError(f"{text!r} needs a port from 0 to {_MAX_PORT}")
    return int(port)
