"""The one way in which logs touch the file system, so that a test can stand in its place."""

import contextlib
import os
import sys
from typing import Final

from windsprite_protocol.model.messages import Buffer

FILE_MODE: Final = 0o640
DIRECTORY_MODE: Final = 0o750

if sys.platform == "linux":
    _NOWAIT: Final = os.RWF_NOWAIT
else:
    _NOWAIT = 0


class Files:
    """The file operations of the logs, on the real file system.

    Thin on purpose: paths are strings, files are descriptors, errors are `OSError`.
    """

    __slots__ = ()

    def open(self, path: str, flags: int) -> int:
        """Open a file; with `os.O_CREAT` in `flags` it is made if it is missing."""
        return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)

    def close(self, descriptor: int) -> None:
        """Close a file."""
        os.close(descriptor)

    def size(self, descriptor: int) -> int:
        """Bytes of a file."""
        return os.fstat(descriptor).st_size

    def read(self, descriptor: int, length: int, position: int) -> bytes:
        """Up to `length` bytes from `position` on; fewer only at the end of the file."""
        data = os.pread(descriptor, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        missing = length - len(data)
        while missing:
            data = os.pread(descriptor, missing, position + length - missing)
            if not data:
                break
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def read_whole(self, path: str) -> bytes:
        """All bytes of a file."""
        descriptor = self.open(path, os.O_RDONLY)
        try:
            return self.read(descriptor, self.size(descriptor), 0)
        finally:
            self.close(descriptor)

    def read_cached(self, descriptor: int, length: int, position: int) -> Buffer | None:
        """`length` bytes from `position` on if all are in memory, else `None`. Never waits."""
        if not _NOWAIT:
            return None
        buffer = bytearray(length)
        try:
            if os.preadv(descriptor, [buffer], position, _NOWAIT) == length:
                return buffer
        except OSError:
            # Not in memory, or a file system that can't tell: the reader that may wait finds out.
            return None
        return None

    def read_ahead(self, descriptor: int, length: int, position: int) -> None:
        """Have the system begin to read what somebody is going to want. For threads: may wait."""
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # who reads it will be told
                os.posix_fadvise(descriptor, position, length, os.POSIX_FADV_WILLNEED)

    def write(self, descriptor: int, buffer: Buffer, position: int) -> int:
        """Write at `position`; like the system call, possibly fewer bytes than given."""
        return os.pwrite(descriptor, buffer, position)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut a file, or lengthen it with zeros."""
        os.ftruncate(descriptor, size)

    def allocate(self, descriptor: int, size: int) -> None:
        """Reserve the space of the first `size` bytes; the file reads as zeros up to there."""
        if sys.platform == "linux":
            os.posix_fallocate(descriptor, 0, size)

    def free_space(self, directory: str) -> int:
        """Bytes that can still be written on the file system of a directory."""
        found = os.statvfs(directory)
        return found.f_bavail * found.f_frsize

    def has_data(self, descriptor: int, position: int) -> bool:
        """Whether anything was ever written at `position` or later; may err towards yes."""
        if sys.platform == "linux":
            try:
                os.lseek(descriptor, position, os.SEEK_DATA)
            except OSError:
                return False
        return True

    def sync(self, descriptor: int) -> None:
        """Make the content and the size of a file durable."""
        if sys.platform == "linux":
            os.fdatasync(descriptor)
        else:
            os.fsync(descriptor)

    def sync_directory(self, path: str) -> None:
        """Make the entries of a directory durable."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, source: str, target: str) -> None:
        """Give a file or directory another name in the same directory."""
        os.rename(source, target)  # noqa: PTH104 - paths are strings here

    def unlink(self, path: str) -> None:
        """Remove a file."""
        os.unlink(path)  # noqa: PTH108 - paths are strings here

    def make_directory(self, path: str) -> None:
        """Make a directory in an existing one."""
        os.mkdir(path, DIRECTORY_MODE)  # noqa: PTH102 - paths are strings here

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        os.rmdir(path)  # noqa: PTH106 - paths are strings here

    def list_directory(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        return sorted(os.listdir(path))  # noqa: PTH208 - paths are strings here
