"""The stored offsets of consumers and groups of one partition (spec 04, 7).

The file `offsets` of a partition is a table of slots of 64 bytes, each a pair of records of 32:

    checksum u64 | sequence u64 | offset u64 | number u32 | kind u8 | state u8 | zero u16

A key keeps its slot and is written into the two records in turn, so that a write which is cut
short leaves the one before. The record with the higher sequence counts. So the file never grows
beyond its keys and never needs to be rewritten. Checksums are XXH3 over the rest of the record,
seeded with the incarnation: a file of another life is not taken for this one. All numbers are
little-endian.
"""

import contextlib
import os
import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from xxhash import xxh3_64_intdigest

from windsprite_protocol.topic_options import Durability
from windsprite_server.log.context import Context
from windsprite_server.log.descriptors import CLOSED, OpenFile
from windsprite_server.log.durability import GroupSync, SyncJob
from windsprite_server.log.errors import (
    DiskFullError,
    LogError,
    LogFailedError,
    LogUnavailableError,
    TooManyOffsetsError,
    unavailable,
)
from windsprite_server.log.results import ClampedOffset

FILE_NAME: Final = "offsets"

_FIELDS: Final = struct.Struct("<QQIBBH")
_CHECKSUM: Final = struct.Struct("<Q")
_RECORD_SIZE: Final = _CHECKSUM.size + _FIELDS.size
_SLOT_SIZE: Final = 2 * _RECORD_SIZE
_FREE: Final = 0
_STORED: Final = 1


class OffsetKind(IntEnum):
    """What an offset is stored for. The numbers are persisted."""

    CONSUMER = 1
    GROUP = 2
    WATERMARK = 3
    """Number 0: segments up to this offset are to be removed (spec 03, 4.15)."""


class LoadedOffsets(NamedTuple):
    """What became of a file of offsets at start.

    Attributes:
        clamped: Offsets that were beyond the end of the log and are lowered now.
        lost: How many slots are unreadable.
        failure: Why offsets that were lowered may be back after a crash; `None`: they won't be.
            Messages must not be appended then, or consumers would skip them.
    """

    clamped: tuple[ClampedOffset, ...]
    lost: int
    failure: Exception | None


class _Slot:
    """A place in the file; `half` is the record that was written last."""

    __slots__ = ("half", "number", "offset")

    def __init__(self, number: int, half: int, offset: int) -> None:
        self.number = number
        self.half = half
        self.offset = offset


class OffsetTable:
    """Offsets of one kind, by the number of their consumer or group.

    0 is an offset like any other; "nothing stored" is `None`.

    Attributes:
        kind: Of what these are the offsets.
    """

    __slots__ = ("_file", "_limit", "_slots", "kind")

    def __init__(self, file: "OffsetFile", kind: OffsetKind, limit: int) -> None:
        self._file = file
        self.kind = kind
        self._limit = limit
        self._slots: dict[int, _Slot] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[int]:
        return iter(self._slots)

    def get(self, number: int) -> int | None:
        """The stored offset."""
        slot = self._slots.get(number)
        return None if slot is None else slot.offset

    def minimum(self) -> int | None:
        """The smallest stored offset."""
        return min((slot.offset for slot in self._slots.values()), default=None)

    def store(self, number: int, offset: int) -> None:
        """Store an offset, also a smaller one than before.

        Readers see it at once; `OffsetFile.wait_durable` before it is acknowledged.

        Raises:
            TooManyOffsetsError: The key is new and there are as many as may be.
            LogUnavailableError: The disk refused; what was stored before still is.
            LogFailedError: No more writes until restart.
        """
        slot = self._slots.get(number)
        if slot is not None:
            if slot.offset != offset:
                self._file.write(slot, self.kind, number, offset)
                slot.offset = offset
                self._file.begin_sync()
            return
        if len(self._slots) >= self._limit:
            message = f"the partition holds {self._limit} offsets of this kind, no more go"
            raise TooManyOffsetsError(message)
        slot = self._file.take_slot()
        try:
            self._file.write(slot, self.kind, number, offset)
        except LogError:
            self._file.give_back(slot)
            raise
        slot.offset = offset
        self._slots[number] = slot
        self._file.begin_sync()

    def store_max(self, number: int, offset: int) -> None:
        """Store an offset unless a greater one is stored (spec 04, 5.7). Raises as `store` does."""
        slot = self._slots.get(number)
        if slot is None or slot.offset < offset:
            self.store(number, offset)

    def delete(self, number: int) -> bool:
        """Forget an offset; tell whether there was one.

        Raises:
            LogUnavailableError: The disk refused; it is still stored.
            LogFailedError: No more writes until restart.
        """
        slot = self._slots.get(number)
        if slot is None:
            return False
        self._file.write(slot, self.kind, number, None)
        del self._slots[number]
        self._file.give_back(slot)
        self._file.begin_sync()
        return True

    def adopt(self, number: int, slot: _Slot) -> None:
        """Take over what was found in the file at start; for the file."""
        self._slots[number] = slot

    def lower(self, number: int, offset: int | None) -> None:
        """Lower or forget an offset at start.

        Raises:
            LogUnavailableError: The disk refused: it is lowered here, but not in the file.
        """
        slot = self._slots[number]
        try:
            self._file.write(slot, self.kind, number, offset)
        finally:
            if offset is None:
                del self._slots[number]
                self._file.give_back(slot)
            else:
                slot.offset = offset


class OffsetFile:
    """The file behind the offsets of one partition, with a table for each kind.

    Belongs to one event loop.

    Attributes:
        consumers: Offsets of single consumers.
        groups: Offsets of consumer groups.
        watermarks: Under number 0, the offset up to which segments are to be removed.
    """

    __slots__ = (
        "_context", "_directory", "_durability", "_failure", "_file", "_free", "_incarnation",
        "_is_entry_synced", "_path", "_sequence", "_slots_count", "_sync", "_synced", "consumers",
        "groups", "watermarks",
    )  # fmt: skip

    def __init__(
        self, context: Context, directory: str, incarnation: int, durability: Durability
    ) -> None:
        self._context = context
        self._directory = directory
        self._path = f"{directory}/{FILE_NAME}"
        self._incarnation = incarnation
        self._durability = durability
        self._file: OpenFile | None = None
        self._failure: LogError | None = None
        self._free: list[_Slot] = []
        self._slots_count = 0
        self._sequence = 0
        self._synced = 0
        self._is_entry_synced = False
        self._sync = GroupSync(
            context.sync_turns, self._prepare_sync, self._on_synced, self._on_failed
        )
        limit = context.limits.consumer_offsets
        self.consumers = OffsetTable(self, OffsetKind.CONSUMER, limit)
        self.groups = OffsetTable(self, OffsetKind.GROUP, limit)
        self.watermarks = OffsetTable(self, OffsetKind.WATERMARK, 1)

    def barrier(self) -> int | None:
        """The smallest offset that any consumer or group has stored (spec 03, 6.3)."""
        smallest = [self.consumers.minimum(), self.groups.minimum()]
        return min((offset for offset in smallest if offset is not None), default=None)

    @property
    def is_durable(self) -> bool:
        """Whether all that was stored is durable under the policy."""
        return self._durability is Durability.REPLICATED or self._synced >= self._sequence

    async def wait_durable(self) -> None:
        """Wait until all that was stored so far is durable under the policy.

        Raises:
            LogFailedError: It never will be.
            LogClosedError: The partition was removed meanwhile.
        """
        if not self.is_durable:
            await self.sync()

    async def sync(self) -> None:
        """Make all that was stored so far durable, whatever the policy is.

        Raises:
            LogFailedError: It never will be.
        """
        if self._synced < self._sequence:
            self._refuse_failed()
            await self._sync.wait(self._sequence)

    async def drain(self) -> None:
        """Wait until no thread works on the file."""
        await self._sync.drain()

    def close(self, error: LogError) -> None:
        """Refuse everything from now on, for this reason."""
        self._failure = self._failure or error
        self._sync.fail(error)
        if self._file is not None:
            self._context.descriptors.close(self._file)

    def take_slot(self) -> _Slot:
        """A slot that is not used; for the tables."""
        if self._free:
            return self._free.pop()
        self._slots_count += 1
        return _Slot(self._slots_count - 1, half=1, offset=0)

    def give_back(self, slot: _Slot) -> None:
        """Take a slot that is not used any more; for the tables."""
        self._free.append(slot)

    def write(self, slot: _Slot, kind: int, number: int, offset: int | None) -> None:
        """Write a record into the older half of a slot; for the tables.

        Args:
            slot: The slot of the key.
            kind: The table.
            number: The key in it.
            offset: What is stored; `None`: the slot becomes free.

        Raises:
            LogUnavailableError: The disk refused; the record before still counts.
            LogFailedError: No more writes until restart.
        """
        self._refuse_failed()
        sequence = self._sequence + 1
        state = _FREE if offset is None else _STORED
        fields = _FIELDS.pack(sequence, offset or 0, number, kind, state, 0)
        record = _CHECKSUM.pack(xxh3_64_intdigest(fields, self._incarnation)) + fields
        position = slot.number * _SLOT_SIZE + (1 - slot.half) * _RECORD_SIZE
        try:
            written = self._context.files.write(self._open().descriptor, record, position)
        except OSError as error:
            raise unavailable("an offset can't be stored", error) from error
        if written != _RECORD_SIZE:
            raise DiskFullError("an offset can't be stored now: the disk is full")
        slot.half = 1 - slot.half
        self._sequence = sequence

    def begin_sync(self) -> None:
        """Let what was just written be synced soon, if the policy asks for it; for the tables."""
        if self._durability is Durability.PERSISTED:
            self._sync.request(self._sequence)

    def load(self, end: int) -> LoadedOffsets:
        """Read the file at start, before anything else.

        Args:
            end: The offset after the last message of the log.

        Raises:
            OSError: The file is there but can't be read.
        """
        files = self._context.files
        try:
            data = files.read_whole(self._path)
        except FileNotFoundError:
            return LoadedOffsets((), 0, None)
        lost = self._load_slots(data)
        clamped, failure = self._clamp(end)
        if clamped and failure is None:
            try:
                files.sync(self._open().descriptor)
            except OSError as error:
                failure = error
        return LoadedOffsets(clamped, lost, failure)

    def _load_slots(self, data: bytes) -> int:
        """Fills the tables from the file; how many slots are unreadable."""
        newest: dict[tuple[int, int], tuple[int, _Slot]] = {}
        stale: list[tuple[tuple[int, int], _Slot]] = []
        lost = 0
        self._slots_count = -(-len(data) // _SLOT_SIZE)
        for place in range(self._slots_count):
            pair = data[place * _SLOT_SIZE : (place + 1) * _SLOT_SIZE]
            records = _records(pair, self._incarnation)
            record = max((record for record in records if record is not None), default=None)
            if record is None:
                lost += any(pair)
                self._free.append(_Slot(place, half=1, offset=0))
                continue
            slot = _Slot(place, records.index(record), record.offset)
            self._sequence = max(self._sequence, record.sequence)
            key = record.kind, record.number
            if record.state == _FREE:
                self._free.append(slot)
                continue
            # Two slots for one key: it was deleted and stored again, and a crash kept the new slot
            # but not the end of the old one.
            other = newest.get(key, (0, slot))
            if other[0] < record.sequence:
                newest[key] = record.sequence, slot
                if other[0]:
                    stale.append((key, other[1]))
            else:
                stale.append((key, slot))
        tables = {table.kind: table for table in (self.consumers, self.groups, self.watermarks)}
        for (kind, number), (_, slot) in newest.items():
            if kind in tables:
                tables[OffsetKind(kind)].adopt(number, slot)
        for (kind, number), slot in stale:
            # If the disk refuses, the slot stays unused until the next start tries again.
            with contextlib.suppress(LogUnavailableError):
                self.write(slot, kind, number, None)
                self._free.append(slot)
        return lost

    def _clamp(self, end: int) -> tuple[tuple[ClampedOffset, ...], Exception | None]:
        """Lowers what is beyond the end; what, and why that is not in the file."""
        tables = (
            (self.consumers, "consumer"),
            (self.groups, "group"),
            (self.watermarks, "watermark"),
        )
        clamped = []
        failure = None
        for table, kind in tables:
            for number in list(table):
                stored = table.get(number)
                if stored is not None and stored >= end:
                    lowered = end - 1 if end else None
                    clamped.append(ClampedOffset(kind, number, stored, lowered))
                    try:
                        table.lower(number, lowered)
                    except LogUnavailableError as error:
                        failure = error
        return tuple(clamped), failure

    def _prepare_sync(self) -> SyncJob:
        context, directory = self._context, self._directory
        file = self._open()
        file.pins += 1
        with_entry = not self._is_entry_synced

        def run() -> None:
            context.files.sync(file.descriptor)
            if with_entry:
                context.files.sync_directory(directory)

        return SyncJob(self._sequence, run, lambda: context.descriptors.release(file))

    def _on_synced(self, point: int) -> None:
        self._synced = point
        self._is_entry_synced = True

    def _on_failed(self, error: LogFailedError) -> None:
        if self._failure is None:
            self._failure = error
            self._context.logger.error("offsets_failed", file=self._path, reason=str(error))

    def _open(self) -> OpenFile:
        file = self._file
        if file is None or file.descriptor == CLOSED:
            flags = os.O_RDWR | os.O_CREAT
            try:
                file = self._context.descriptors.open(self._path, flags)
            except FileNotFoundError:
                self._context.files.make_directory(self._directory)
                file = self._context.descriptors.open(self._path, flags)
            self._file = file
        file.used = True
        return file

    def _refuse_failed(self) -> None:
        if self._failure is not None:
            raise self._failure


def count_lost(data: bytes, incarnation: int) -> int:
    """How many slots of a file of offsets hold something, and no record that can be read."""
    pairs = (data[at : at + _SLOT_SIZE] for at in range(0, len(data), _SLOT_SIZE))
    return sum(any(pair) and not any(_records(pair, incarnation)) for pair in pairs)


class _Record(NamedTuple):
    """A record of the file, in its order."""

    sequence: int
    offset: int
    number: int
    kind: int
    state: int


def _records(pair: bytes, incarnation: int) -> list[_Record | None]:
    """The two records of a slot; `None` for one that is not sound."""
    return [
        _parse(pair[:_RECORD_SIZE], incarnation),
        _parse(pair[_RECORD_SIZE:], incarnation),
    ]


def _parse(data: bytes, incarnation: int) -> _Record | None:
    """The record, if it is sound."""
    if len(data) != _RECORD_SIZE:
        return None
    fields = data[_CHECKSUM.size :]
    if _CHECKSUM.unpack_from(data)[0] != xxh3_64_intdigest(fields, incarnation):
        return None
    *values, _ = _FIELDS.unpack(fields)
    return _Record(*values)
