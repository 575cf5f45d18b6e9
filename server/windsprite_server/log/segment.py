"""One segment: a file of batches back to back, and the index beside it."""

import os
from typing import Final, NamedTuple

from windsprite_protocol.model.messages import Buffer
from windsprite_server.log.descriptors import CLOSED, Descriptors, OpenFile
from windsprite_server.log.files import Files
from windsprite_server.log.index import (
    ENTRY,
    EndMark,
    SegmentIndex,
    encode_end_mark,
    encode_header,
)
from windsprite_server.log.scan import Gap

GAPS_MAX: Final = 1024
"""Gaps remembered per segment, so that a reader in front of one need not search again."""


class SegmentSync(NamedTuple):
    """The part of a sync that concerns one segment: made on the loop, run in a thread.

    Attributes:
        segment: The segment.
        file: Its file, pinned.
        cut_to: The size to cut reserved space to; `None`: leave it.
        is_last: Whether nothing will be appended for now.
        mark: The end mark to write after the sync; after all else if there is no index yet.
        index_file: Where to write it, pinned; `None`: don't.
        index_position: Where in that file.
    """

    segment: "Segment"
    file: OpenFile
    cut_to: int | None
    is_last: bool
    mark: bytes
    index_file: OpenFile | None
    index_position: int


class Segment:
    """What is known of a segment, and the way to its files.

    Its files are made with its first batch. Writing goes to the page cache.
    Belongs to one event loop, but for what says otherwise.

    Attributes:
        base_offset: Offset of its first message; also its name.
        next_offset: The offset after its last message.
        size: Bytes of its batches.
        last_timestamp: Append time of its newest batch in microseconds; 0 if there is none.
        index: The sparse index; `None`: not loaded.
        is_unsynced: Whether it holds bytes that no sync has covered.
        gaps: Damage that is known of, by its position.
    """

    __slots__ = (
        "_descriptors", "_directory", "_file", "_files", "_incarnation", "_index_file",
        "_index_size", "_is_reserved", "_is_writable", "_must_cut", "_next_entry", "base_offset",
        "gaps", "index", "index_path", "is_unsynced", "last_timestamp", "next_offset", "path",
        "size",
    )  # fmt: skip

    def __init__(
        self,
        files: Files,
        descriptors: Descriptors,
        directory: str,
        base_offset: int,
        incarnation: int,
    ) -> None:
        self._files = files
        self._descriptors = descriptors
        self._directory = directory
        self._incarnation = incarnation
        self._file: OpenFile | None = None
        self._is_writable = False
        self._is_reserved = False
        self._must_cut = False
        self._index_file: OpenFile | None = None
        self._index_size = 0
        self.path = f"{directory}/{base_offset:020}.log"
        self.index_path = f"{directory}/{base_offset:020}.index"
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size = 0
        self._next_entry = 0  # the index wants no entry before this position
        self.last_timestamp = 0
        self.index: SegmentIndex | None = None
        self.is_unsynced = False
        self.gaps: dict[int, Gap] = {}

    def append(self, batch: Buffer, count: int, timestamp: int) -> None:
        """Write a stamped batch behind the others.

        Raises:
            OSError: Nothing was appended; what was written of it is cut off, now or before the
                next batch.
        """
        length = len(batch)
        try:
            file = self._file
            if file is None or file.descriptor == CLOSED or not self._is_writable:
                file = self._writable_file()
            file.used = True
            descriptor = file.descriptor
            if self._must_cut:
                self._files.truncate(descriptor, self.size)
                self._must_cut = False
            written = self._files.write(descriptor, batch, self.size)
            while written < length:
                rest = memoryview(batch)[written:]
                written += self._files.write(descriptor, rest, self.size + written)
        except OSError:
            self._cut_back()
            raise
        if self.size >= self._next_entry:
            self._note(timestamp)
        self.size += length
        self.next_offset += count
        self.last_timestamp = timestamp
        self.is_unsynced = True

    def ensure_file(self) -> bool:
        """Make the file if there is none yet; tell whether it was made.

        Raises:
            OSError: It can't be made.
        """
        if self.size or self._file is not None:
            return False
        self._writable_file()
        return True

    def remember_time(self, timestamp: int) -> None:
        """Note the append time of the batch before this empty segment, which is to be removed."""
        self._write_index(self._end_mark(timestamp))

    def reserve(self, size: int) -> None:
        """Reserve disk space for the segment before its first batch, if the file system lets us."""
        try:
            self._files.allocate(self._writable_file().descriptor, size)
            self._is_reserved = True
        except OSError:
            # It only helps the layout on the disk. What came of it is cut off again.
            self._must_cut = True

    def file_for_reading(self) -> OpenFile:
        """The open file.

        Raises:
            OSError: It can't be opened.
        """
        file = self._file
        if file is None or file.descriptor == CLOSED:
            file = self._file = self._descriptors.open(self.path, os.O_RDONLY)
            self._is_writable = False
        file.used = True
        return file

    def prepare_sync(self, *, with_mark: bool) -> SegmentSync:
        """Begin a sync of all that was appended so far.

        Args:
            with_mark: Nothing will be appended for now, so that an end mark is worth writing.

        Raises:
            OSError: The file can't be opened.
        """
        file = self._writable_file()
        file.pins += 1
        self.is_unsynced = False
        index_file = self._writable_index() if with_mark else None
        if index_file is not None:
            index_file.pins += 1
        cut_to = self.size if with_mark and self._is_reserved else None
        mark = self._end_mark(self.last_timestamp)
        if not self._index_size:
            entries = b"" if self.index is None else self.index.encode()
            mark = self._index_header() + entries + mark
        return SegmentSync(self, file, cut_to, with_mark, mark, index_file, self._index_size)

    def run_sync(self, task: SegmentSync) -> None:
        """Do the work of a sync, in a thread.

        Raises:
            OSError: What the disk holds is not known.
        """
        descriptor = task.file.descriptor
        if task.cut_to is not None:
            self._files.truncate(descriptor, task.cut_to)
        self._files.sync(descriptor)
        if task.index_file is not None:
            try:
                self._files.write(task.index_file.descriptor, task.mark, task.index_position)
            except OSError:
                # Without its mark the segment is scanned at the next start, that is all.
                return

    def sync_index(self) -> None:
        """Make the index file durable, in a thread.

        Raises:
            OSError: There is none, or the disk failed.
        """
        descriptor = self._files.open(self.index_path, os.O_RDONLY)
        try:
            self._files.sync(descriptor)
        finally:
            self._files.close(descriptor)

    def end_sync(self, task: SegmentSync) -> None:
        """Let go of the files of a sync that has ended, on the loop; all of them if it is full."""
        self._descriptors.release(task.file)
        if task.index_file is not None:
            self._descriptors.release(task.index_file)
            self._index_size = task.index_position + len(task.mark)
        if task.is_last:
            self.close_files()

    def close_files(self) -> None:
        """Close what is open, as soon as no thread needs it."""
        for file in (self._file, self._index_file):
            if file is not None:
                self._descriptors.close(file)
        self._file = self._index_file = None

    def cut(self) -> bool:
        """Cut off what stands behind the batches; if that fails now, the next append does it."""
        try:
            self._files.truncate(self._writable_file().descriptor, self.size)
        except OSError:
            self._must_cut = True
            return False
        return True

    def take_over(
        self, index: SegmentIndex | None, index_size: int, mark: EndMark | None = None
    ) -> None:
        """Take over the index that was found at start.

        Args:
            index: All entries; `None`: they are in the file, and nobody needs them yet.
            index_size: Bytes of the index file; 0: it has to be written anew.
            mark: The end mark that still holds.
        """
        self.index = index
        self._index_size = index_size
        if index is not None and index_size == 0 and (len(index) or mark is not None):
            self._write_index(index.encode() + (b"" if mark is None else self._encode(mark)))

    def _end_mark(self, timestamp: int) -> bytes:
        return self._encode(EndMark(self.next_offset, timestamp, self.size))

    def _encode(self, mark: EndMark) -> bytes:
        return encode_end_mark(mark, self.base_offset, self._incarnation)

    def _index_header(self) -> bytes:
        return encode_header(self.base_offset, self._incarnation)

    def _note(self, timestamp: int) -> None:
        """Notes in the index the batch that was written at the end."""
        index = self.index
        if index is None:
            return
        if index.add(self.next_offset, timestamp, self.size):
            entry = ENTRY.pack(self.next_offset, timestamp, self.size)
            self._write_index(entry if self._index_size else index.encode())
        self._next_entry = index.next_position

    def _write_index(self, data: bytes) -> None:
        file = self._writable_index()
        if file is None:
            return
        if not self._index_size:
            data = self._index_header() + data
        try:
            if self._files.write(file.descriptor, data, self._index_size) == len(data):
                self._index_size += len(data)
        except OSError:
            # The index may miss entries: then more has to be scanned at the next start.
            return

    def _writable_file(self) -> OpenFile:
        file = self._file
        if file is None or file.descriptor == CLOSED or not self._is_writable:
            if file is not None:
                self._descriptors.close(file)
                self._file = None
            self._file = file = self._open(self.path, os.O_RDWR | os.O_CREAT)
            self._is_writable = True
        file.used = True
        return file

    def _writable_index(self) -> OpenFile | None:
        file = self._index_file
        if file is None or file.descriptor == CLOSED:
            # An index that was there before its segment is not of it.
            flags = os.O_RDWR | os.O_CREAT | (0 if self._index_size else os.O_TRUNC)
            try:
                self._index_file = file = self._open(self.index_path, flags)
            except OSError:
                return None
        file.used = True
        return file

    def _open(self, path: str, flags: int) -> OpenFile:
        try:
            return self._descriptors.open(path, flags)
        except FileNotFoundError:
            self._files.make_directory(self._directory)
            return self._descriptors.open(path, flags)

    def _cut_back(self) -> None:
        """Takes back a write that failed half-way, and opens the file anew for the next one.

        A file system that was mounted anew, or was out of descriptors, may take the next one.
        """
        file, self._file = self._file, None
        if file is None or file.descriptor == CLOSED:
            return
        try:
            self._files.truncate(file.descriptor, self.size)
        except OSError:
            self._must_cut = True
        self._descriptors.close(file)
