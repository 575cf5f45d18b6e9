"""Keeping a bounded number of files open."""

import errno
from collections import deque
from typing import Final

from windsprite_server.log.files import Files

CLOSED = -1
_TOO_MANY: Final = frozenset({errno.EMFILE, errno.ENFILE})


class OpenFile:
    """An open file, until `Descriptors` closes it because others are used more.

    Attributes:
        descriptor: The file descriptor; `CLOSED` once it is closed.
        used: Whether it was used since it was last considered for closing.
        pins: How many users need it to stay open.
        is_given_up: Whether the last of them closes it.
    """

    __slots__ = ("descriptor", "is_given_up", "pins", "used")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.used = True
        self.pins = 0
        self.is_given_up = False


class Descriptors:
    """Opens files, and closes those not used lately when there are more than `limit`.

    Who keeps an `OpenFile` looks at its `descriptor` before each use, sets `used`, and opens the
    file anew if it is closed. A file in use by a thread is pinned: it stays open until released.
    Where the system allows fewer than `limit`, that becomes the limit.
    Belongs to one event loop.
    """

    __slots__ = ("_files", "_limit", "_queue")

    def __init__(self, files: Files, limit: int) -> None:
        self._files = files
        self._limit = max(1, limit)
        # Second chance: the file at the head is closed, or sent to the end if it was used.
        self._queue: deque[OpenFile] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def open(self, path: str, flags: int) -> OpenFile:
        """Open a file.

        Raises:
            OSError: The file can't be opened.
        """
        while len(self._queue) >= self._limit and self._close_one():
            pass
        try:
            descriptor = self._files.open(path, flags)
        except OSError as error:
            if error.errno not in _TOO_MANY or not self._give_way():
                raise
            descriptor = self._files.open(path, flags)
        file = OpenFile(descriptor)
        self._queue.append(file)
        return file

    def close(self, file: OpenFile) -> None:
        """Close a file that is not pinned, or let the last release do it."""
        file.is_given_up = True
        if file.descriptor != CLOSED and not file.pins:
            self._queue.remove(file)
            self._shut(file)

    def release(self, file: OpenFile) -> None:
        """Take back a pin."""
        file.pins -= 1
        if file.is_given_up:
            self.close(file)
        elif len(self._queue) > self._limit:
            self._close_one()

    def close_all(self) -> None:
        """Close every file, pinned or not."""
        while self._queue:
            self._shut(self._queue.popleft())

    def _give_way(self) -> bool:
        """Keeps fewer files open from now on: sockets need some too; tells whether any closed."""
        before = len(self._queue)
        self._limit = max(1, before * 3 // 4)
        while len(self._queue) > self._limit and self._close_one():
            pass
        return len(self._queue) < before or self._close_one()

    def _close_one(self) -> bool:
        for _ in range(2 * len(self._queue)):
            file = self._queue.popleft()
            if file.used or file.pins:
                file.used = False
                self._queue.append(file)
                continue
            self._shut(file)
            return True
        return False

    def _shut(self, file: OpenFile) -> None:
        self._files.close(file.descriptor)
        file.descriptor = CLOSED
