"""All partition logs of a server."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from windsprite_server.core.log_setup import Logger
from windsprite_server.log.context import Context, Recent
from windsprite_server.log.descriptors import Descriptors
from windsprite_server.log.durability import SyncTurns
from windsprite_server.log.errors import LogClosedError, unavailable
from windsprite_server.log.files import Files
from windsprite_server.log.index import SegmentIndex
from windsprite_server.log.keys import LogLimits, PartitionKey, PartitionOptions
from windsprite_server.log.large import LargeBatches
from windsprite_server.log.offsets import OffsetFile
from windsprite_server.log.partition import PartitionLog
from windsprite_server.log.recovery import recover_partition
from windsprite_server.log.results import LogFigures, RecoveryReport
from windsprite_server.log.segment import Segment
from windsprite_server.log.space import DiskSpace
from windsprite_server.log.tail import TailBudget

_REMOVED_SUFFIX: Final = ".removed"
"""Ends the name of a directory that metadata condemned and that is being deleted."""
_CLOSED_AT_ONCE: Final = 64
_SYNCS_PER_THREAD: Final = 2
"""One that runs and one that is ready to, so that no thread waits for the loop."""
_OPTIONS_SHARED: Final = 64


class LogStore:
    """The partition logs in one directory (`DATA_DIR/log`).

    Begins with `recover`, ends with `close`. Deletes only what `remove` was told to: a directory
    that metadata doesn't know is reported and kept.
    Belongs to one event loop; `recover` may come before it.
    """

    __slots__ = ("_context", "_directory", "_logs", "_options", "_pools")

    def __init__(
        self,
        directory: Path,
        limits: LogLimits,
        logger: Logger,
        files: Files | None = None,
        reply_room: Callable[[], int] = lambda: sys.maxsize,
    ) -> None:
        """Set up a store; nothing is read or written yet.

        Args:
            directory: Where the logs are; its parent exists.
            limits: Bounds for everything.
            logger: For what somebody should know of and no caller is told.
            files: The way to the file system; the real one if not given.
            reply_room: Says how many bytes a read may find now, apart from one message; called in
                any thread.
        """
        files = files if files is not None else Files()
        reading = ThreadPoolExecutor(limits.read_threads, "log-read")
        syncing = ThreadPoolExecutor(limits.sync_threads, "log-sync")
        self._pools = reading, syncing
        self._directory = str(directory)
        self._logs: dict[PartitionKey, PartitionLog] = {}
        self._options: dict[PartitionOptions, PartitionOptions] = {}
        self._context = Context(
            files=files,
            descriptors=Descriptors(files, limits.descriptors),
            limits=limits,
            tail_budget=TailBudget(limits.tail_bytes),
            sync_pool=syncing,
            sync_turns=SyncTurns(syncing, _SYNCS_PER_THREAD * limits.sync_threads),
            read_pool=reading,
            large=LargeBatches(limits.large_bytes),
            loaded_indexes=Recent(limits.index_bytes, _index_bytes, _let_go),
            space=DiskSpace(files, self._directory, limits.free_bytes, logger),
            reply_room=reply_room,
            logger=logger,
        )

    def recover(self, partitions: Mapping[PartitionKey, PartitionOptions]) -> RecoveryReport:
        """Open what metadata says exists. Once, before anything else; blocks.

        Missing directories are made, unfinished writes cut off, deletions that were interrupted
        taken up again. A log that can't be read is not opened, and there is none under its key.
        Everything found is in the report, for somebody to log.

        Args:
            partitions: Every partition there is, with the options of its topic.

        Raises:
            OSError: The directory can't be read.
        """
        files = self._context.files
        try:
            names = files.list_directory(self._directory)
        except FileNotFoundError:
            files.make_directory(self._directory)
            files.sync_directory(str(Path(self._directory).parent))
            names = []
        recoveries = []
        unreadable = {}
        for key, options in partitions.items():
            try:
                log, recovery = recover_partition(
                    self._context, self._directory, key, self._shared(options)
                )
            except OSError as error:
                unreadable[key] = str(error)
                continue
            self._logs[key] = log
            recoveries.append(recovery)
        unknown = []
        for name in names:
            if is_removed(name):
                self._delete(name)
            elif PartitionKey.from_directory_name(name) not in partitions:
                unknown.append(Path(self._directory, name))
        return RecoveryReport(tuple(recoveries), tuple(unknown), unreadable)

    def create(self, key: PartitionKey, options: PartitionOptions) -> PartitionLog:
        """Begin an empty log.

        Its directory is made now if the disk lets us, else with its first batch.

        Args:
            key: A new life of a partition, never used before.
            options: What its topic asks of it.

        Raises:
            ValueError: There is a log under this key.
        """
        if key in self._logs:
            message = f"there is a log for {key}"
            raise ValueError(message)
        context = self._context
        directory = f"{self._directory}/{key.directory_name}"
        try:
            context.files.make_directory(directory)
        except OSError as error:
            context.logger.warning(
                "log_directory_not_made", directory=directory, reason=error.strerror
            )
        segment = Segment(context.files, context.descriptors, directory, 0, key.incarnation)
        segment.index = SegmentIndex(context.limits.index_interval)
        durability = options.consumer_offset_durability
        offsets = OffsetFile(context, directory, key.incarnation, durability)
        log = self._logs[key] = PartitionLog(
            context,
            self._directory,
            key,
            self._shared(options),
            segments=[segment],
            offsets=offsets,
            is_marked=True,
        )
        return log

    def get(self, key: PartitionKey) -> PartitionLog | None:
        """The log under a key."""
        return self._logs.get(key)

    def take_changed(self) -> Iterator[LogFigures]:
        """The logs whose figures may have changed since this was called before.

        New logs are not among them, before something is appended; removed ones may be.
        """
        changed = self._context.changed
        while changed:
            yield changed.pop()

    def __len__(self) -> int:
        return len(self._logs)

    def __iter__(self) -> Iterator[PartitionLog]:
        return iter(self._logs.values())

    async def remove(self, key: PartitionKey) -> None:
        """Delete a log with all its files. Metadata must have condemned it durably before.

        It refuses everything as soon as this is called. At return nothing of it can come back; a
        crash before leaves a directory that the next start reports, or finishes deleting. A log
        that is not open, since an earlier life of the server condemned it, is deleted as well;
        nothing to delete is no error.

        Raises:
            LogUnavailableError: The disk refused. The directory stays; try again later.
        """
        log = self._logs.pop(key, None)
        if log is not None:
            log.abandon(LogClosedError("the partition was removed"))
            await log.drain()
            self._context.changed.discard(log)
        files, name = self._context.files, key.directory_name
        directory = f"{self._directory}/{name}"

        def work() -> None:
            files.rename(directory, directory + _REMOVED_SUFFIX)
            files.sync_directory(self._directory)
            self._delete(name + _REMOVED_SUFFIX)

        try:
            await asyncio.get_running_loop().run_in_executor(self._context.sync_pool, work)
        except FileNotFoundError:
            # It never had a directory, or is deleted already.
            return
        except OSError as error:
            raise unavailable(f"{directory} can't be removed", error) from error

    async def close(self) -> None:
        """Make everything durable, mark the clean end and close all files."""
        error = LogClosedError("the server is stopping")
        logs = list(self._logs.values())
        for start in range(0, len(logs), _CLOSED_AT_ONCE):
            await asyncio.gather(
                *(log.close(error) for log in logs[start : start + _CLOSED_AT_ONCE])
            )
        for log in logs:
            await log.drain()
        for pool in self._pools:
            await asyncio.to_thread(pool.shutdown)
        # Lets the last reads give back their files.
        await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, no time
        self._context.descriptors.close_all()

    def _shared(self, options: PartitionOptions) -> PartitionOptions:
        """Equal options, the same for all logs: what is looked at with every append stays near."""
        if len(self._options) > _OPTIONS_SHARED:
            self._options.clear()
        return self._options.setdefault(options, options)

    def _delete(self, name: str) -> None:
        """Deletes a condemned directory; what the disk refuses is left for the next start."""
        files, directory = self._context.files, f"{self._directory}/{name}"
        try:
            for entry in files.list_directory(directory):
                files.unlink(f"{directory}/{entry}")
            files.remove_directory(directory)
        except OSError as error:
            self._context.logger.warning(
                "log_directory_not_removed", directory=directory, reason=error.strerror
            )


def is_removed(name: str) -> bool:
    """Whether a directory has this name because metadata condemned it."""
    stem = name.removesuffix(_REMOVED_SUFFIX)
    return stem != name and PartitionKey.from_directory_name(stem) is not None


def _index_bytes(segment: Segment) -> int:
    return 0 if segment.index is None else segment.index.memory


def _let_go(segment: Segment) -> None:
    segment.index = None
