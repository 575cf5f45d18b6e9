"""Redis with an append-only file; the server is Debian's package `redis-server`."""

import shutil
import socket
from pathlib import Path

from bench.processes import Program

MISSING = "redis-server is not installed (Debian: apt-get install redis-server)"


def executable() -> str | None:
    return shutil.which("redis-server")


class Redis(Program):
    """One server without snapshots and rewrites, which would only slow it down."""

    def __init__(self, folder: Path, *, fsync: bool = False) -> None:
        super().__init__(folder)
        self.durability = "AOF always" if fsync else "AOF everysec"
        self._policy = "always" if fsync else "everysec"

    def start(self) -> None:
        program = executable()
        assert program is not None, MISSING
        self.launch(
            lambda port: [
                *(program, "--bind", "127.0.0.1", "--port", str(port), "--save", ""),
                *("--dir", str(self.folder), "--appendonly", "yes"),
                *("--appendfsync", self._policy, "--auto-aof-rewrite-percentage", "0"),
            ],
            _is_ready,
        )


def _is_ready(sock: socket.socket) -> bool:
    sock.sendall(b"PING\r\n")
    return sock.recv(64).startswith(b"+PONG")
