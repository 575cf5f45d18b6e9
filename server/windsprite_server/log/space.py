"""Room on the disk: messages leave some of it to everything else."""

import errno
from typing import Final

from windsprite_server.core.log_setup import Logger
from windsprite_server.log.files import Files

_SHARE: Final = 4
_LEAST: Final = 64 * 1024


class DiskSpace:
    """Keeps messages from taking the last of the disk.

    Deletions need room as well before they make some: for the journal, for stored offsets, for new
    files. So batches are refused while there is less than a reserve. That there is more is asked
    of the system only once in a while.

    Belongs to one event loop.

    Attributes:
        is_refusing: Whether the system refused the last write.
    """

    __slots__ = ("_directory", "_files", "_left", "_logger", "_reserve", "is_refusing")

    def __init__(self, files: Files, directory: str, reserve: int, logger: Logger) -> None:
        """Ask nothing yet.

        Args:
            files: The way to the file system.
            directory: A directory on it.
            reserve: Bytes that messages leave free; 0: none.
            logger: Told when writes are refused, and when they go on.
        """
        self._files = files
        self._directory = directory
        self._reserve = reserve
        self._logger = logger
        self._left = 0
        self.is_refusing = False

    def take(self, size: int) -> None:
        """Say that so many bytes of messages are to be written.

        Raises:
            OSError: There is no room for them.
        """
        self._left -= size
        if self._left < 0 and self._reserve:
            self._look(size)

    def has_room(self, size: int) -> bool:
        """Whether so many bytes can be reserved."""
        return not self._reserve or self._free() >= size

    def refused(self, error: OSError) -> None:
        """Take note that the system refused a write; told once until one succeeds."""
        if not self.is_refusing:
            self.is_refusing = True
            self._logger.error("log_writes_refused", reason=error.strerror)

    def accepted(self) -> None:
        """Take note that a batch was written, after one was refused."""
        self.is_refusing = False
        self._logger.info("log_writes_go_on")

    def _look(self, size: int) -> None:
        free = self._free()
        if free < size:
            self._left = 0
            reason = f"less than {self._reserve} bytes (storage.min_free) would be left on the disk"
            raise OSError(errno.ENOSPC, reason)
        # Others write to the same disk.
        self._left = min(free, max(_LEAST, self._reserve // _SHARE)) - size

    def _free(self) -> int:
        return self._files.free_space(self._directory) - self._reserve
