"""Listening sockets."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from windsprite_server.core.address import Address

SocketAddress: TypeAlias = tuple[socket.AddressFamily, tuple[Any, ...]]

_ATTEMPTS: Final = 32
_KEEP_ALIVE: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
"""Seconds of silence, then so many seconds from one question to the next, and so many of them."""

_MAPPED: Final = "::ffff:"


async def listen(address: Address, backlog: int) -> list[socket.socket]:
    """Listen on all addresses that a host stands for, at the same port of each.

    `::` includes all IPv4 addresses where the system can do that. Connections end when the machine
    of their client does not answer for two minutes: it was switched off, or the network was.

    Raises:
        OSError: None of them can be listened on, or one of them is taken.
    """
    try:
        # That of uvloop forgets the interface of an address such as fe80::1%eth0.
        found = await asyncio.to_thread(
            socket.getaddrinfo,
            address.host,
            address.port,
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        )
    except socket.gaierror as error:
        raise socket.gaierror(error.errno, f"{address.host}: {error.strerror}") from error
    return bind_all([(family, where) for family, _, _, _, where in found], backlog)


def bind_all(addresses: Sequence[SocketAddress], backlog: int) -> list[socket.socket]:
    """Listen on several addresses; port 0 in all of them stands for one port that is free in all.

    Raises:
        OSError: None of them can be listened on, or one of them is taken.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return _bind_all(addresses, backlog)
        except OSError as error:
            # The port that was free at the first address may be taken at another.
            is_our_choice = len(addresses) > 1 and addresses[0][1][1] == 0
            if error.errno != errno.EADDRINUSE or not is_our_choice:
                raise
    return _bind_all(addresses, backlog)


def _bind_all(addresses: Sequence[SocketAddress], backlog: int) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    for family, where in addresses:
        port = sockets[0].getsockname()[1] if sockets else where[1]
        try:
            sockets.append(_bind(family, (where[0], port, *where[2:]), backlog))
        except OSError as error:
            # A name may stand for an address of a family that this machine has not switched on.
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                for opened in sockets:
                    opened.close()
                raise
            missing = error
    if missing is not None and not sockets:
        raise missing
    return sockets


def _bind(family: socket.AddressFamily, where: tuple[Any, ...], backlog: int) -> socket.socket:
    every = where[0] == "::" and socket.has_dualstack_ipv6()
    sock = socket.create_server(where, family=family, backlog=backlog, dualstack_ipv6=every)
    # Connections inherit it from the socket that accepts them.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE:
        if hasattr(socket, name):  # not on every platform
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return sock


def host_and_port(address: Sequence[Any] | None) -> tuple[str, int] | None:
    """Host and port of one side of a connection; `None` if the system does not know any more.

    An IPv4 address that came in through an IPv6 socket is an IPv4 address.
    """
    if not address:
        return None
    host: str = address[0]
    return host.removeprefix(_MAPPED) if "." in host else host, address[1]
