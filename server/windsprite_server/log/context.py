"""What all logs of a store share."""

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from windsprite_server.core.log_setup import Logger
from windsprite_server.log.descriptors import Descriptors
from windsprite_server.log.durability import SyncTurns
from windsprite_server.log.files import Files
from windsprite_server.log.keys import LogLimits
from windsprite_server.log.large import LargeBatches
from windsprite_server.log.results import LogFigures
from windsprite_server.log.segment import Segment
from windsprite_server.log.space import DiskSpace
from windsprite_server.log.tail import TailBudget

T = TypeVar("T")


class Recent(Generic[T]):
    """Lets go of what was not used for longest when all together is more than `limit`.

    Args:
        limit: What all together may weigh; one alone may weigh more.
        weigh: What one weighs when it is used.
        let_go: Called with each that has to go.
    """

    __slots__ = ("_let_go", "_limit", "_weigh", "_weights", "weight")

    def __init__(self, limit: int, weigh: Callable[[T], int], let_go: Callable[[T], None]) -> None:
        self._limit = limit
        self._weigh = weigh
        self._let_go = let_go
        self._weights: OrderedDict[T, int] = OrderedDict()
        self.weight = 0

    def touch(self, entry: T) -> None:
        """Note a use."""
        self.forget(entry)
        weight = self._weights[entry] = self._weigh(entry)
        self.weight += weight
        while self.weight > self._limit and len(self._weights) > 1:
            oldest, weight = self._weights.popitem(last=False)
            self.weight -= weight
            self._let_go(oldest)

    def forget(self, entry: T) -> None:
        """Let go of something that is gone."""
        self.weight -= self._weights.pop(entry, 0)


@dataclass(frozen=True, slots=True)
class Context:
    """Files, threads, memory and limits that the logs of a store share.

    Attributes:
        files: The way to the file system.
        descriptors: The open files.
        limits: Bounds for everything.
        tail_budget: The memory of all tails.
        sync_pool: Threads for fsync and other work that changes files.
        sync_turns: Says whose sync may be under way.
        read_pool: Threads for cold reads, apart from the others: a slow disk must not starve both.
        large: Batches of very many messages that were read from disk.
        loaded_indexes: Sealed segments whose index is in memory.
        space: The room on the disk.
        reply_room: Says how many bytes a read may find now; called in any thread.
        logger: For what somebody should know of and no caller is told.
        changed: The logs whose figures may have changed since somebody last looked.
    """

    files: Files
    descriptors: Descriptors
    limits: LogLimits
    tail_budget: TailBudget
    sync_pool: Executor
    sync_turns: SyncTurns
    read_pool: Executor
    large: LargeBatches
    loaded_indexes: Recent[Segment]
    space: DiskSpace
    reply_room: Callable[[], int]
    logger: Logger
    changed: set[LogFigures] = field(default_factory=set)
