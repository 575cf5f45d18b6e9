"""Programs under test: started, killed, asked what they cost."""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

_PIECE = 1024 * 1024
_LEFT_FREE = 500_000_000


class System(Protocol):
    """A program that is measured.

    Attributes:
        durability: What an acknowledgement means, for the table.
        address: `host:port`; changes with every start.
        pid: Of the running process.
        folder: Where its data is.
    """

    durability: str
    address: str
    pid: int
    folder: Path

    def start(self) -> None:
        """Start it, on the data it has; returns when it answers."""
        ...

    def kill(self) -> None:
        """End it as a crash would: SIGKILL."""
        ...


def free_port() -> int:
    """A port that nobody uses at the moment."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


class Program:
    """A child process that is ready as soon as it answers on its port."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.address = ""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def launch(
        self,
        command: Callable[[int], Sequence[str]],
        answers: Callable[[socket.socket], bool],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Run a command that listens on the port it is given, and wait until it answers."""
        port = free_port()
        with (self.folder / "output.log").open("ab") as log:
            self._process = subprocess.Popen(
                command(port),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | dict(environment or {}),
            )
        deadline = time.monotonic() + 30
        while not self._is_answering(port, answers):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "output.log").read_text(encoding="utf-8"))
            time.sleep(0.01)
        self.address = f"127.0.0.1:{port}"

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(30)

    @staticmethod
    def _is_answering(port: int, answers: Callable[[socket.socket], bool]) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
                return answers(sock)
        except OSError:
            return False


def processor_ns(pid: int) -> int:
    """Nanoseconds that the threads of a process, alive now, have been running."""
    total = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((thread / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
    return total


def private_bytes(pid: int) -> int:
    """Memory that a process shares with nobody."""
    kib = 0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(("Private_Clean:", "Private_Dirty:")):
            kib += int(line.split()[1])
    return kib * 1024


def recycle_page_cache(folder: Path, size: int) -> None:
    """Have as much page cache at hand as somebody is about to fill, whoever that is.

    Where memory is taken from a host only when it is first touched, new page cache costs ten times
    as much as to write into it. Who came after somebody who deleted a file would be spared that.

    Args:
        folder: On the disk that is written to.
        size: Bytes; the pages are those of a file that is written and deleted.
    """
    path = folder / "recycled"
    piece = bytes(_PIECE)
    with path.open("wb", buffering=0) as file:
        for _ in range(size // _PIECE + 1):
            file.write(piece)
    path.unlink()


def fill_page_cache(path: Path) -> None:
    """Put all free memory to use, as on a machine that has been up for a while.

    From then on who writes takes pages that were used before, as it is in the long run.

    Args:
        path: A file without content of its own, as large as the memory; it is made, and has to be
            kept as long as memory is to stay in use.
    """
    with path.open("ab") as file:
        file.truncate(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    buffer = bytearray(4 * _PIECE)
    with path.open("rb", buffering=0) as file:
        while _free_bytes() > _LEFT_FREE and file.readinto(buffer):
            pass


def _free_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


def forget_cached(folder: Path) -> None:
    """Write the files below a folder to the disk and drop them from the page cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
