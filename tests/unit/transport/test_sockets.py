"""Listening sockets: several addresses, one port."""

import errno
import socket
from collections.abc import Iterator

import pytest

from windsprite_server.core.address import Address
from windsprite_server.transport.sockets import bind_all, host_and_port, listen

V4 = socket.AF_INET
V6 = socket.AF_INET6


@pytest.fixture
def opened() -> Iterator[list[socket.socket]]:
    sockets: list[socket.socket] = []
    yield sockets
    for sock in sockets:
        sock.close()


def ports(sockets: list[socket.socket]) -> set[int]:
    return {sock.getsockname()[1] for sock in sockets}


def test_all_addresses_of_a_name_get_the_same_free_port(opened: list[socket.socket]) -> None:
    opened += bind_all([(V4, ("127.0.0.1", 0)), (V6, ("::1", 0, 0, 0))], 5)
    assert len(opened) == 2
    assert len(ports(opened)) == 1
    assert ports(opened) != {0}


def test_a_family_that_the_machine_does_not_have_is_left_out(opened: list[socket.socket]) -> None:
    missing = (V4, ("203.0.113.7", 0))
    opened += bind_all([missing, (V4, ("127.0.0.1", 0))], 5)
    assert len(opened) == 1
    with pytest.raises(OSError, check=lambda error: error.errno == errno.EADDRNOTAVAIL):
        bind_all([missing], 5)


def test_a_taken_port_is_an_error_and_leaves_nothing_open(opened: list[socket.socket]) -> None:
    opened += bind_all([(V6, ("::1", 0, 0, 0))], 5)
    (port,) = ports(opened)
    with pytest.raises(OSError, check=lambda error: error.errno == errno.EADDRINUSE):
        bind_all([(V4, ("127.0.0.1", port)), (V6, ("::1", port, 0, 0))], 5)
    opened += bind_all([(V4, ("127.0.0.1", port))], 5)


def test_the_system_notices_when_the_machine_of_a_client_is_gone(
    opened: list[socket.socket],
) -> None:
    opened += bind_all([(V4, ("127.0.0.1", 0))], 5)
    with socket.create_connection(opened[0].getsockname()):
        connection, _ = opened[0].accept()
        with connection:
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            idle, interval, count = (
                connection.getsockopt(socket.IPPROTO_TCP, option) for option in options
            )
            assert idle + interval * count <= 120


async def test_a_name_that_nobody_knows() -> None:
    with pytest.raises(socket.gaierror):
        await listen(Address("no-such-host.invalid", 0), 5)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("192.0.2.1", 5), ("192.0.2.1", 5)),
        (("::1", 5, 0, 0), ("::1", 5)),
        (("::ffff:192.0.2.1", 5, 0, 0), ("192.0.2.1", 5)),
        (("fe80::1%eth0.1", 5, 0, 2), ("fe80::1%eth0.1", 5)),
        (None, None),
        ((), None),
    ],
)
def test_addresses_of_connections(given: tuple | None, expected: tuple | None) -> None:
    assert host_and_port(given) == expected
