"""A logged-in connection as a plain socket, for those who build their own frames."""

import os
import socket
from typing import NamedTuple

from windsprite_protocol.model.sessions import ClientVersion, LoggedIn, Login
from windsprite_protocol.v0_11.calling import decode_reply, encode_request
from windsprite_protocol.v0_11.decoder import FrameDecoder
from windsprite_protocol.v0_11.frames import PROTOCOL_VERSION
from windsprite_protocol.v0_11.table import GENERATION


class Session(NamedTuple):
    """Where a session lives and how requests name it.

    Attributes:
        sock: Connected; blocking.
        client: The id of the client.
        number: The session.
    """

    sock: socket.socket
    client: bytes
    number: int


def dial(address: str) -> socket.socket:
    """A blocking socket connected to `host:port`."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)))


def log_in(address: str) -> Session:
    """Connect to a server and log in as its first user."""
    sock = dial(address)
    command = GENERATION.of(Login)
    client = os.urandom(16)
    request = Login(ClientVersion(PROTOCOL_VERSION, "bench", "1"), "iggy", "iggy")
    parts = encode_request(command, request, client=client, session=0, request=0, checksum=False)
    sock.sendall(b"".join(parts))
    decoder = FrameDecoder()
    frames = decoder.feed(sock.recv(4096))
    while not frames:
        frames = decoder.feed(sock.recv(4096))
    _, logged_in = decode_reply(frames[0], command)
    assert isinstance(logged_in, LoggedIn)
    return Session(sock, client, logged_in.session)
