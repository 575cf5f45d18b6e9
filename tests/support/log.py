"""Partition logs for tests: batches, a file system in memory that can lose power, events."""

import errno
import os
import threading
from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

from windsprite_protocol.batches import (
    BatchInfo,
    NewMessage,
    build_batch,
    check_stored,
    iter_batches,
    verify_batch,
)
from windsprite_protocol.message_frames import FRAME_HEADER
from windsprite_protocol.model.messages import Buffer
from windsprite_server.log.files import Files
from windsprite_server.log.keys import LogLimits, PartitionKey, PartitionOptions
from windsprite_server.log.partition import REMOVALS_MAX, PartitionLog
from windsprite_server.log.results import ReadResult, RecoveryReport
from windsprite_server.log.store import LogStore

KEY = PartitionKey(stream_id=1, topic_id=2, partition_id=3, incarnation=40)
DIRECTORY = "/log"
NOW = 1_700_000_000_000_000
EVERYTHING = 1 << 40
SECTOR = 512


def batch_of(payloads: Iterable[bytes], origin: int = NOW) -> tuple[memoryview, BatchInfo]:
    """A verified batch in memory of its own, as it comes from a client."""
    messages = [
        NewMessage(payload, (number + 1).to_bytes(16, "little"), origin + number)
        for number, payload in enumerate(payloads)
    ]
    batch = build_batch(messages)
    return memoryview(batch), verify_batch(batch, len(messages))


def append(log: PartitionLog, *payloads: bytes, now: int = NOW) -> int:
    batch, info = batch_of(payloads)
    return log.append(batch, info, now)


def messages_of(result: ReadResult) -> list[tuple[int, bytes]]:
    """Offset and payload of each message; all checksums and counts are verified."""
    messages: list[tuple[int, bytes]] = []
    data = b"".join(result.records)
    for header, batch in iter_batches(data):
        check_stored(batch)
        at = 256
        for _ in range(header.message_count):
            fields = FRAME_HEADER.unpack_from(batch, at)
            delta, headers_length, payload_length = fields[2], fields[4], fields[5]
            start = at + FRAME_HEADER.size
            payload = bytes(batch[start : start + payload_length])
            messages.append((header.base_offset + delta, payload))
            at = start + payload_length + headers_length
    assert len(messages) == result.messages_count
    assert len(data) == result.size_bytes
    assert result.last_offset == (messages[-1][0] if messages else -1)
    return messages


async def fetch(log: PartitionLog, start: int, count: int, room: int = EVERYTHING) -> ReadResult:
    result = log.read(start, count, room)
    return result if isinstance(result, ReadResult) else await result


async def read(
    log: PartitionLog, start: int = 0, count: int = EVERYTHING, room: int = EVERYTHING
) -> list[tuple[int, bytes]]:
    return messages_of(await fetch(log, start, count, room))


async def read_all(log: PartitionLog) -> list[tuple[int, bytes]]:
    """Every message, poll after poll, as a consumer reads on."""
    messages: list[tuple[int, bytes]] = []
    start = 0
    while True:
        result = await fetch(log, start, 1000)
        if not result.messages_count:
            assert result.damage is None
            return messages
        messages += messages_of(result)
        start = result.last_offset + 1


async def trim(log: PartitionLog, count: int) -> None:
    """Remove the oldest sealed segments, as far as consumers let it."""
    await log.request_removal(count)
    while await log.enforce_retention() == REMOVALS_MAX:
        pass


async def find_time(log: PartitionLog, timestamp: int) -> int:
    found = log.offset_at_or_after(timestamp)
    return found if isinstance(found, int) else await found


class EventLog:
    """Stands in for a logger and keeps the names of events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def _note(self, event: str, **fields: Any) -> None:
        self.events.append((event, fields))

    debug = info = warning = error = _note

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.events]


class Harness:
    """A store with one partition, which can be closed, killed and opened again."""

    def __init__(
        self,
        files: Files | None = None,
        directory: str = DIRECTORY,
        options: PartitionOptions | None = None,
        limits: LogLimits | None = None,
    ) -> None:
        self.files = files if files is not None else MemoryFiles()
        self.directory = directory
        self.options = options if options is not None else PartitionOptions()
        self.limits = limits if limits is not None else LogLimits()
        self.keys = [KEY]
        self.reply_room = EVERYTHING
        self.events = EventLog()
        self.store: LogStore
        self.log: PartitionLog
        self.report: RecoveryReport

    def open(self) -> PartitionLog:
        self.store = LogStore(
            Path(self.directory), self.limits, self.events, self.files, lambda: self.reply_room
        )
        self.report = self.store.recover(dict.fromkeys(self.keys, self.options))
        log = self.store.get(self.keys[0])
        assert log is not None
        self.log = log
        return log

    async def reopen(self) -> PartitionLog:
        await self.store.close()
        return self.open()

    async def kill(self) -> PartitionLog:
        """End without closing anything, and open again."""
        await self.stop()
        return self.open()

    async def stop(self) -> None:
        """End without closing anything."""
        for log in self.store:
            await log.drain()
        for pool in self.store._pools:
            pool.shutdown()
        if isinstance(self.files, MemoryFiles):
            self.files.forget_descriptors()

    @property
    def recovery(self):
        return self.report.partitions[0]

    def path(self, name: str) -> str:
        return f"{self.directory}/{KEY.directory_name}/{name}"

    def names(self) -> list[str]:
        return self.files.list_directory(f"{self.directory}/{KEY.directory_name}")


class SimulatedCrashError(OSError):
    """The process is dead; whatever it still tries does not happen."""


class _File:
    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = b""


class _Directory:
    def __init__(self) -> None:
        self.entries: dict[str, _File | _Directory] = {}
        self.durable: dict[str, _File | _Directory] = {}


class MemoryFiles(Files):
    """A file system in memory, with the rules of a real one about what survives.

    `crash(power=True)` keeps only what was synced: contents by `sync`, names by `sync_directory`.
    With `luck`, anything else may have reached the disk as well, in any order, sector by sector.
    `crash_before(n)` lets the process die before its n-th further change.

    Attributes:
        changes: How many changes were made.
        is_cold: Whether nothing is in the page cache.
        capacity: Bytes that fit into all files together.
        refuses: Errors by the name of an operation.
        announced: The positions that somebody is going to read.
    """

    def __init__(self) -> None:
        self.announced: list[range] = []
        self._root = _Directory()
        self._root.entries["log"] = self._root.durable["log"] = _Directory()
        self._open: dict[int, tuple[_File, bool]] = {}
        self._next_descriptor = 1000
        self._lock = threading.RLock()
        self._dies_at: int | None = None
        self.changes = 0
        self.is_cold = False
        self.capacity: int | None = None
        self.refuses: dict[str, int] = {}

    # What tests do.

    def crash_before(self, changes: int) -> None:
        self._dies_at = self.changes + changes

    @property
    def is_dead(self) -> bool:
        return self._dies_at is not None and self.changes >= self._dies_at

    def crash(self, *, power: bool, luck: Random | None = None) -> None:
        self._dies_at = None
        self.forget_descriptors()
        if power:
            self._lose(self._root, luck)

    def copy(self) -> "MemoryFiles":
        """The same files once more, none of them open."""
        other = type(self)()
        other._root = deepcopy(self._root)
        return other

    def forget_descriptors(self) -> None:
        self._open.clear()

    def settle(self) -> None:
        """Let everything reach the disk, as time does."""
        self._settle(self._root)

    def _settle(self, directory: "_Directory") -> None:
        directory.durable = dict(directory.entries)
        for node in directory.entries.values():
            if isinstance(node, _File):
                node.durable = bytes(node.data)
            else:
                self._settle(node)

    def content(self, path: str) -> bytearray:
        node = self._node(path)
        assert isinstance(node, _File)
        return node.data

    def exists(self, path: str) -> bool:
        try:
            self._node(path)
        except FileNotFoundError:
            return False
        return True

    @property
    def open_count(self) -> int:
        return len(self._open)

    def used(self) -> int:
        def bytes_in(node: _File | _Directory) -> int:
            if isinstance(node, _File):
                return len(node.data)
            return sum(map(bytes_in, node.entries.values()))

        return bytes_in(self._root)

    # What logs do.

    def open(self, path: str, flags: int) -> int:
        with self._lock:
            self._refuse("open")
            parent, name = self._parent(path)
            node = parent.entries.get(name)
            writable = flags & (os.O_RDWR | os.O_WRONLY) != 0
            if writable:
                self._refuse("open_for_writing")
            if node is None:
                if not flags & os.O_CREAT:
                    raise FileNotFoundError(errno.ENOENT, "no such file", path)
                self._change("create")
                node = parent.entries[name] = _File()
            if isinstance(node, _Directory):
                raise IsADirectoryError(errno.EISDIR, "is a directory", path)
            if flags & os.O_TRUNC and node.data:
                self._change("truncate")
                node.data = bytearray()
            self._next_descriptor += 1
            self._open[self._next_descriptor] = node, writable
            return self._next_descriptor

    def close(self, descriptor: int) -> None:
        self._open.pop(descriptor, None)

    def size(self, descriptor: int) -> int:
        return len(self._file(descriptor).data)

    def read(self, descriptor: int, length: int, position: int) -> bytes:
        with self._lock:
            self._refuse("read")
            return bytes(self._file(descriptor).data[position : position + length])

    def read_cached(self, descriptor: int, length: int, position: int) -> Buffer | None:
        if self.is_cold:
            return None
        data = self.read(descriptor, length, position)
        return data if len(data) == length else None

    def read_ahead(self, descriptor: int, length: int, position: int) -> None:
        self._file(descriptor)
        self.announced.append(range(position, position + length))

    def write(self, descriptor: int, buffer: Buffer, position: int) -> int:
        with self._lock:
            file = self._file(descriptor, writing=True)
            room = len(buffer)
            if self.capacity is not None:
                grows = max(0, position + room - len(file.data))
                room -= max(0, self.used() + grows - self.capacity)
                if room <= 0:
                    raise OSError(errno.ENOSPC, "no space left on device")
            self._change("write")
            if len(file.data) < position:
                file.data.extend(bytes(position - len(file.data)))
            file.data[position : position + room] = memoryview(buffer)[:room]
            return room

    def truncate(self, descriptor: int, size: int) -> None:
        with self._lock:
            self._change("truncate")
            file = self._file(descriptor, writing=True)
            file.data[size:] = bytes(max(0, size - len(file.data)))

    def allocate(self, descriptor: int, size: int) -> None:
        with self._lock:
            self._change("allocate")
            file = self._file(descriptor, writing=True)
            file.data.extend(bytes(max(0, size - len(file.data))))

    def free_space(self, directory: str) -> int:
        return EVERYTHING if self.capacity is None else max(0, self.capacity - self.used())

    def has_data(self, descriptor: int, position: int) -> bool:
        return any(self._file(descriptor).data[position:])

    def sync(self, descriptor: int) -> None:
        with self._lock:
            self._change("sync")
            file = self._file(descriptor)
            file.durable = bytes(file.data)

    def sync_directory(self, path: str) -> None:
        with self._lock:
            self._change("sync_directory")
            node = self._node(path)
            assert isinstance(node, _Directory)
            node.durable = dict(node.entries)

    def rename(self, source: str, target: str) -> None:
        with self._lock:
            self._change("rename")
            old_parent, old_name = self._parent(source)
            new_parent, new_name = self._parent(target)
            self._node(source)
            new_parent.entries[new_name] = old_parent.entries.pop(old_name)

    def unlink(self, path: str) -> None:
        with self._lock:
            self._node(path)
            self._change("unlink")
            parent, name = self._parent(path)
            del parent.entries[name]

    def make_directory(self, path: str) -> None:
        with self._lock:
            self._change("make_directory")
            parent, name = self._parent(path)
            if name in parent.entries:
                raise FileExistsError(errno.EEXIST, "exists", path)
            parent.entries[name] = _Directory()

    def remove_directory(self, path: str) -> None:
        with self._lock:
            self._change("remove_directory")
            node = self._node(path)
            assert isinstance(node, _Directory)
            if node.entries:
                raise OSError(errno.ENOTEMPTY, "not empty", path)
            parent, name = self._parent(path)
            del parent.entries[name]

    def list_directory(self, path: str) -> list[str]:
        node = self._node(path)
        assert isinstance(node, _Directory)
        return sorted(node.entries)

    def _change(self, operation: str) -> None:
        self._refuse(operation)
        if self.is_dead:
            raise SimulatedCrashError(errno.EIO, "the process is dead")
        self.changes += 1

    def _refuse(self, operation: str) -> None:
        if operation in self.refuses:
            code = self.refuses[operation]
            raise OSError(code, os.strerror(code))

    def _file(self, descriptor: int, *, writing: bool = False) -> _File:
        try:
            file, writable = self._open[descriptor]
        except KeyError:
            raise OSError(errno.EBADF, "not open") from None
        if writing and not writable:
            raise OSError(errno.EBADF, "not open for writing")
        return file

    def _parent(self, path: str) -> tuple[_Directory, str]:
        parent, _, name = path.rpartition("/")
        node = self._node(parent)
        assert isinstance(node, _Directory)
        return node, name

    def _node(self, path: str) -> "_File | _Directory":
        node: _File | _Directory = self._root
        for name in path.split("/")[1:]:
            if not isinstance(node, _Directory) or name not in node.entries:
                raise FileNotFoundError(errno.ENOENT, "no such file or directory", path)
            node = node.entries[name]
        return node

    def _lose(self, directory: "_Directory", luck: Random | None) -> None:
        directory.entries = _names_left(directory, luck)
        for node in directory.entries.values():
            if isinstance(node, _File):
                node.data = _content_left(node, luck)
            else:
                self._lose(node, luck)


def _names_left(directory: _Directory, luck: Random | None) -> "dict[str, _File | _Directory]":
    durable, current = directory.durable, directory.entries
    if luck is None or durable == current:
        return dict(durable)
    is_renamed = {id(node) for node in durable.values()} & {
        id(node) for name, node in current.items() if name not in durable
    }
    if is_renamed or luck.random() < 0.3:
        return dict(luck.choice([durable, current]))
    sources = {name: luck.choice([durable, current]) for name in {**durable, **current}}
    return {name: source[name] for name, source in sources.items() if name in source}


def _content_left(file: _File, luck: Random | None) -> bytearray:
    durable, current = bytearray(file.durable), file.data
    if luck is None or durable == current:
        return durable
    sizes = sorted([len(durable), len(current)])
    size = luck.choice([*sizes, luck.randint(*sizes)])
    left = bytearray(size)
    for start in range(0, size, SECTOR):
        source = luck.choice([durable, current])[start : min(start + SECTOR, size)]
        left[start : start + len(source)] = source
    return left
