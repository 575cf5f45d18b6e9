"""The data directory as a whole: who owns it, which format it has, which cluster it belongs to.

Two files stand at its top. `lock` is locked (flock) by the one server that uses the directory and
is empty. `identity.json` is written anew at each start:

    {"format": 1, "cluster_id": "0b6f...", "generation": 3}

`format` tells later versions what they find; `generation` counts the starts, so that numbers which
must not come back after a restart (session numbers) can be built upon it.
"""

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from uuid import UUID

from windsprite_server.core.files import overwrite_durably, replace_durably, sync_directory
from windsprite_server.core.ids import Ids

FORMAT: Final = 1
JOURNAL_FILE: Final = "journal.db"
LOG_DIRECTORY: Final = "log"
MAX_GENERATION: Final = 2**31 - 1

_LOCK: Final = "lock"
_IDENTITY: Final = "identity.json"
_IDENTITY_LIMIT: Final = 4096
# What may stand in a directory that no server has used yet: our own files of a first start that
# was cut short, and what a file system puts into each mounted volume.
_HARMLESS: Final = frozenset({_LOCK, _IDENTITY + ".new", "lost+found"})


class DataDirectoryError(Exception):
    """The data directory cannot be used; the text is a sentence for people."""


class DirectoryInUseError(DataDirectoryError):
    """Another server has it."""


class NewerFormatError(DataDirectoryError):
    """A later version wrote it."""


class DamagedDirectoryError(DataDirectoryError):
    """It is not what a server left behind."""


class OtherClusterError(DataDirectoryError):
    """It belongs to another cluster than the settings say."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a data directory says about itself.

    Attributes:
        cluster_id: The cluster whose data it holds.
        generation: How many times a server was started on it, from 1 to 2**31 - 1.
    """

    cluster_id: UUID
    generation: int


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """An open data directory: nobody else can open it until it is closed.

    The lock ends with the process, so a killed server leaves nothing to clean up.

    Attributes:
        path: The directory.
        identity: Its cluster id, and the generation that began with this opening.
        is_new: Whether this is the first start on it.
    """

    path: Path
    identity: Identity
    is_new: bool
    _lock: int

    def close(self) -> None:
        """Let others open it. Call it once."""
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def open_data_directory(path: Path, *, ids: Ids, cluster_id: UUID | None = None) -> DataDirectory:
    """Lock a data directory, made if it is missing, and begin its next generation.

    Args:
        path: The directory. A relative path counts from the working directory.
        ids: Gives the cluster id at the first start, if none is asked for.
        cluster_id: The cluster it must belong to; `None` accepts what is stored.

    Raises:
        DirectoryInUseError: Another server has it open.
        NewerFormatError: A later version wrote it.
        DamagedDirectoryError: It holds other files, or its identity cannot be read.
        OtherClusterError: It belongs to another cluster.
        DataDirectoryError: The operating system refused.
    """
    path = path.absolute()
    try:
        _make(path)
        lock = _take_lock(path)
        try:
            return _begin(path, lock, ids, cluster_id)
        except BaseException:
            os.close(lock)
            raise
    except OSError as error:
        raise DataDirectoryError(f"cannot use data directory {path}: {error.strerror}") from error


def read_identity(path: Path) -> Identity | None:
    """Read what a data directory says about itself; changes nothing and needs no lock.

    Returns:
        `None` if no server has used the directory yet.

    Raises:
        NewerFormatError: A later version wrote it.
        DamagedDirectoryError: Its identity cannot be read, or is missing though it holds data.
        DataDirectoryError: There is no such directory, or the operating system refused.
    """
    try:
        if (path / _IDENTITY).exists():
            return _parse_identity(path)
        others = sorted(entry.name for entry in path.iterdir() if entry.name not in _HARMLESS)
    except OSError as error:
        raise DataDirectoryError(f"cannot read data directory {path}: {error.strerror}") from error
    if others:
        raise DamagedDirectoryError(
            f"{path} holds {others[0]!r} but no {_IDENTITY}: it is either no data directory, "
            f"or its {_IDENTITY} was lost"
        )
    return None


@contextmanager
def keep_servers_out(path: Path) -> Iterator[None]:
    """Let no server begin to use a data directory; changes nothing in it.

    Raises:
        DirectoryInUseError: A server has it open.
        DataDirectoryError: The operating system refused.
    """
    try:
        lock = os.open(path / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield  # a copy, or no server was ever there
        return
    except OSError as error:
        raise DataDirectoryError(f"cannot read data directory {path}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DirectoryInUseError(f"a server uses data directory {path}") from None
        yield
    finally:
        os.close(lock)


def _make(path: Path) -> None:
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in missing:
        sync_directory(each.parent)


def _take_lock(path: Path) -> int:
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise DirectoryInUseError(f"another server uses data directory {path}") from None
    except BaseException:
        os.close(lock)
        raise
    return lock


def _begin(path: Path, lock: int, ids: Ids, cluster_id: UUID | None) -> DataDirectory:
    stored = read_identity(path)
    if stored is None:
        identity = Identity(cluster_id or ids.uuid(), generation=1)
    elif cluster_id not in {None, stored.cluster_id}:
        raise OtherClusterError(
            f"data directory {path} belongs to cluster {stored.cluster_id}, "
            f"but the setting cluster.id says {cluster_id}"
        )
    elif stored.generation == MAX_GENERATION:
        raise DamagedDirectoryError(f"data directory {path} has no generation left")
    else:
        identity = Identity(stored.cluster_id, stored.generation + 1)
    _write_identity(path, identity)
    return DataDirectory(path, identity, is_new=stored is None, _lock=lock)


def _write_identity(path: Path, identity: Identity) -> None:
    values = {
        "format": FORMAT,
        "cluster_id": str(identity.cluster_id),
        "generation": identity.generation,
    }
    content = json.dumps(values).encode() + b"\n"
    try:
        replace_durably(path / _IDENTITY, content)
    except OSError as error:
        if error.errno != errno.ENOSPC or identity.generation == 1:
            raise
        # What is here must stay readable, and what can make room must be able to start.
        overwrite_durably(path / _IDENTITY, content)


def _parse_identity(path: Path) -> Identity:
    with (path / _IDENTITY).open("rb") as file:
        content = file.read(_IDENTITY_LIMIT)
    try:
        values = json.loads(content)
        written_format = _integer(values["format"])
        # Only `format` keeps its meaning for ever, so it is judged before the rest is looked at.
        if written_format <= FORMAT:
            return Identity(UUID(values["cluster_id"]), _generation(values["generation"]))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DamagedDirectoryError(f"{path / _IDENTITY} is damaged") from error
    raise NewerFormatError(
        f"data directory {path} has format {written_format}, "
        f"but this version knows formats up to {FORMAT}: use a newer Windsprite"
    )


def _integer(value: object) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(value)
    return value


def _generation(value: object) -> int:
    generation = _integer(value)
    if generation > MAX_GENERATION:
        raise ValueError(value)
    return generation
