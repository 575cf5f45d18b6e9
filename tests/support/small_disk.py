"""A real file system of a few MiB, to be filled to the last byte. Needs root."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MIB = 1 << 20
_JUNK = "junk"


class SmallDisk:
    """A mounted file system; the data of somebody goes into its directory `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def free(self) -> int:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def fill(self, leave: int = 0) -> None:
        """Let something else take the room, all but `leave` bytes."""
        descriptor = os.open(self.path / _JUNK, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            while self.free > leave:
                os.write(descriptor, bytes(min(MIB, max(1, self.free - leave))))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        finally:
            os.close(descriptor)
        assert self.free <= leave

    def make_room(self) -> None:
        """Give back what `fill` took."""
        (self.path / _JUNK).unlink(missing_ok=True)


@contextmanager
def small_disk(path: Path, size: int = 32 * MIB) -> Iterator[SmallDisk]:
    """A tmpfs on an empty directory, as long as the test runs; skips where it can't be mounted."""
    path.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", path]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", path], check=True)
