"""Writing small files so that a crash leaves the old one or the new one, never a half of each."""

import os
from pathlib import Path


def sync_directory(directory: Path) -> None:
    """Make the entries of a directory durable: files made, renamed or removed in it."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_durably(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Make `content` the content of `path`, atomically and durably.

    Written beside the file as `NAME.new` first: readers see the old content or the new, and when
    this returns, the new one survives a loss of power.

    Args:
        path: The file; its directory must exist. A `NAME.new` beside it is overwritten.
        content: All of the new content.
        mode: Permission bits of the file, whatever the umask is; by default for its owner only.

    Raises:
        OSError: The file keeps its old content.
    """
    fresh = path.with_name(path.name + ".new")
    # Removed and not overwritten: an old file may have wider permissions, or be a link.
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    fresh.replace(path)
    sync_directory(path.parent)


def overwrite_durably(path: Path, content: bytes) -> None:
    """Make `content` the content of a small file in its place, for when the disk is full.

    A file that fits into the blocks it has needs no new ones. A loss of power in the middle may
    leave a half of each, on a disk that does not write a sector at once.

    Args:
        path: The file; it must exist.
        content: All of the new content.

    Raises:
        OSError: The file may be damaged, unless it could not be opened.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, content, 0)
        os.ftruncate(descriptor, len(content))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
