"""All partition logs of a server."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from windsprite_server.core.log_setup import Logger
from windsprite_server.log.keys import LogLimits, PartitionKey, PartitionOptions
from windsprite_server.log.partition import PartitionLog
from windsprite_server.log.results import RecoveryReport


class LogStore:
    """The partition logs in one directory (`DATA_DIR/log`)."""

    def __init__(self, directory: Path, limits: LogLimits, logger: Logger) -> None: ...

    def recover(self, partitions: Mapping[PartitionKey, PartitionOptions]) -> RecoveryReport:
        """Open what metadata says exists. Once, before anything else; blocks."""

    def create(self, key: PartitionKey, options: PartitionOptions) -> PartitionLog:
        """Begin an empty log."""

    def get(self, key: PartitionKey) -> PartitionLog | None:
        """The log under a key."""

    async def remove(self, key: PartitionKey) -> None:
        """Delete a log with all its files. At return nothing of it can come back."""

    async def close(self) -> None:
        """Make everything durable, note the clean end, close all files."""
