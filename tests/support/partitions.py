"""Metadata and partition logs together, without a server around them, on files in memory."""

import io
import json
from pathlib import Path
from typing import Any

from support.clock import ManualClock
from support.log import NOW, MemoryFiles, append
from support.metadata import Machine, topic_of
from windsprite_protocol.model.typed_values import Option, TypedValue, ValueKind
from windsprite_server.core.log_setup import make_logger
from windsprite_server.log.keys import LogLimits
from windsprite_server.log.partition import PartitionLog
from windsprite_server.log.store import LogStore
from windsprite_server.metadata.commands import Command, CreateStream, PartitionPlace
from windsprite_server.metadata.effects import PartitionCondemned, PartitionOpened
from windsprite_server.metadata.queries import live_partitions
from windsprite_server.partitions import Partitions
from windsprite_server.segment_cleaner import SegmentCleaner

MAX_FRAME_SIZE = 1000


class PartitionNode:
    """What commands do to metadata and to logs; there is one stream, `s`.

    Attributes:
        clock: Moves only when a test moves it.
        interval: Seconds between two looks at all partitions; `None`: no looks.
    """

    def __init__(self, interval: float | None = 60) -> None:
        self.files = MemoryFiles()
        self.clock = ManualClock(NOW)
        self.interval = interval
        self.machine = Machine()
        self.machine.do(CreateStream("s"))
        self._output = io.StringIO()
        self.open()

    def open(self) -> None:
        logger = self.logger = make_logger(
            log_format="json", level="debug", stream=self._output, clock=self.clock
        )
        limits = LogLimits(tail_bytes=0, sync_threads=1, read_threads=1)
        self.store = LogStore(Path("/log"), limits, logger, self.files)
        self.partitions = Partitions(self.store)
        state = self.machine.state
        self.partitions.recover(list(live_partitions(state)), tuple(state.condemned))
        self.cleaner = SegmentCleaner(
            state,
            self.partitions,
            self.clock,
            logger,
            interval=self.interval,
            max_frame_size=MAX_FRAME_SIZE,
        )

    async def close(self) -> None:
        await self.cleaner.stop()
        await self.store.close()

    async def do(self, command: Command) -> Any:
        value = self.machine.do(command)
        for effect in self.machine.last.effects:
            if isinstance(effect, PartitionOpened):
                await self.partitions.open(effect.place, effect.topic)
            elif isinstance(effect, PartitionCondemned):
                self.partitions.condemn(effect.place)
        return value

    async def remove_condemned(self) -> None:
        for place in list(self.machine.state.condemned):
            await self.partitions.remove(place)
        self.machine.state.condemned.clear()

    async def topic(
        self, name: str = "t", partitions: int = 1, *, segment_size: int = 1, **limits: int
    ) -> list[PartitionLog]:
        """Create a topic; every batch seals a segment unless a size is given."""
        size = TypedValue.of(segment_size, ValueKind.UINT64)
        options = (Option("segment_size", size),)
        await self.do(
            topic_of("s", name, partitions, options=options, derived_options=(), **limits)
        )
        return self.logs(name)

    def logs(self, topic: str = "t") -> list[PartitionLog]:
        return [self.log(topic, place.partition_id) for place in self.places(topic)]

    def log(self, topic: str = "t", partition_id: int = 0) -> PartitionLog:
        log = self.partitions.find(self.places(topic)[partition_id])
        assert log is not None
        return log

    def places(self, topic: str = "t") -> list[PartitionPlace]:
        return [place for place, of in live_partitions(self.machine.state) if of.name == topic]

    def fill(self, log: PartitionLog, batches: int, payload: bytes = b"x") -> None:
        """Append batches of one message, all at the present time of the clock."""
        for _ in range(batches):
            append(log, payload, now=self.clock.now_us())

    def events(self, text: str = "") -> list[dict[str, Any]]:
        lines = map(json.loads, self._output.getvalue().splitlines())
        return [event for event in lines if text in event["event"]]
