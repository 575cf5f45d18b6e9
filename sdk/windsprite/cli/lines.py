"""From blocks of a file to lines, and from lines to batches; no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from windsprite_protocol.message_frames import FRAME_HEADER


class LineTooLongError(Exception):
    """A line is longer than a message may be.

    Attributes:
        number: Which line, counted from 1.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class LineSplitter:
    r"""Cuts a file into lines, whatever blocks it comes in; `\n` ends a line, nothing else does.

    Args:
        max_line: Bytes of the longest line, without its end. No more than this and one block
            is ever held.
    """

    def __init__(self, max_line: int) -> None:
        self._max_line = max_line
        self._lines = 0
        self._begun: list[bytes] = []
        self._begun_size = 0

    def feed(self, block: bytes) -> list[bytes]:
        """The lines that end in this block, without their ends.

        Raises:
            LineTooLongError: A line is too long; the splitter is of no use any more.
        """
        *lines, rest = block.split(b"\n")
        if lines:
            self._begun.append(lines[0])
            lines[0] = b"".join(self._begun)
            self._begun.clear()
            self._begun_size = 0
            self._check(lines)
        if rest:
            self._begun.append(rest)
            self._begun_size += len(rest)
            if self._begun_size > self._max_line:
                raise LineTooLongError(self._lines + 1)
        return lines

    def finish(self) -> list[bytes]:
        """The last line, if the file does not end with the end of a line."""
        last = [b"".join(self._begun)] if self._begun else []
        self._begun.clear()
        self._lines += len(last)
        return last

    def _check(self, lines: Sequence[bytes]) -> None:
        if max(map(len, lines)) > self._max_line:
            too_long = next(index for index, line in enumerate(lines) if len(line) > self._max_line)
            raise LineTooLongError(self._lines + too_long + 1)
        self._lines += len(lines)


class Batcher:
    """Collects messages until a batch is full.

    Args:
        max_messages: Messages of a batch.
        max_bytes: Bytes that the messages of a batch take on the wire; only a batch of one
            message may take more.
    """

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._messages: list[bytes] = []
        self._bytes = 0

    def add(self, messages: Sequence[bytes]) -> Iterator[list[bytes]]:
        """The batches that get full by these messages; the iterator has to be run to its end."""
        for message in messages:
            size = FRAME_HEADER.size + len(message)
            if self._messages and self._bytes + size > self._max_bytes:
                yield self.take()
            self._messages.append(message)
            self._bytes += size
            if len(self._messages) == self._max_messages:
                yield self.take()

    def take(self) -> list[bytes]:
        """What has been collected so far, possibly nothing."""
        messages, self._messages, self._bytes = self._messages, [], 0
        return messages
