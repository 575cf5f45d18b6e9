"""The logs of the partitions that metadata knows.

Metadata and logs don't know each other: here a place in metadata becomes the key of a log, and the
options of a topic become those of its logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from windsprite_protocol.topic_options import config_of
from windsprite_server.log.keys import PartitionKey, PartitionOptions
from windsprite_server.log.partition import PartitionLog
from windsprite_server.log.results import RecoveryReport
from windsprite_server.log.store import LogStore
from windsprite_server.metadata.commands import PartitionPlace
from windsprite_server.metadata.state import Topic
from windsprite_server.metadata.views import PartitionFigures


@dataclass(slots=True)
class Totals:
    """What several partitions hold together; sizes in bytes."""

    partitions_count: int = 0
    size_bytes: int = 0
    messages_count: int = 0
    segments_count: int = 0


@dataclass(slots=True)
class _Counted:
    """What of one log is in totals already: those of everything, its stream and its topic."""

    totals: tuple[Totals, Totals, Totals]
    size_bytes: int = 0
    messages_count: int = 0
    segments_count: int = 0

    def change_to(self, size_bytes: int, messages_count: int, segments_count: int) -> None:
        for totals in self.totals:
            totals.size_bytes += size_bytes - self.size_bytes
            totals.messages_count += messages_count - self.messages_count
            totals.segments_count += segments_count - self.segments_count
        self.size_bytes = size_bytes
        self.messages_count = messages_count
        self.segments_count = segments_count


class _NotOpened:
    """The figures of a partition whose log could not be opened yet."""

    segments_count = 1
    current_offset = 0
    size_bytes = 0
    messages_count = 0


_NOT_OPENED: Final = _NotOpened()


class Partitions:
    """The logs of a node, by the places that metadata knows, and how much they hold.

    Totals are kept, not summed up anew: a server may have very many partitions. Those of a log that
    has changed are brought up to date when somebody asks.
    """

    def __init__(self, store: LogStore) -> None:
        self._store = store
        # By what places consist of, since these are hashed with every request.
        self._logs: dict[tuple[int, int, int, int], PartitionLog] = {}
        self._counted: dict[PartitionKey, _Counted] = {}
        self._everything = Totals()
        self._streams: dict[int, Totals] = {}
        self._topics: dict[tuple[int, int], Totals] = {}

    def recover(
        self,
        live: Iterable[tuple[PartitionPlace, Topic]],
        condemned: Iterable[PartitionPlace],
    ) -> RecoveryReport:
        """Open all logs that metadata says exist. Once, before anything else; blocks.

        Args:
            live: Every partition there is.
            condemned: Those whose files may go; they are not reported as unknown.

        Raises:
            OSError: The disk can't be read.
        """
        options = {place: (key_of(place), _options(topic)) for place, topic in live}
        report = self._store.recover(dict(options.values()))
        for place, (key, _) in options.items():
            log = self._store.get(key)
            if log is not None:
                self._add(place, log)
        going = {key_of(place).directory_name for place in condemned}
        unknown = tuple(path for path in report.unknown if path.name not in going)
        return replace(report, unknown=unknown)

    def find(self, place: PartitionPlace) -> PartitionLog | None:
        """The log of a partition; `None` while it could not be opened, or if it is gone."""
        return self._logs.get(_numbers(place))

    def find_by_numbers(
        self, stream_id: int, topic_id: int, partition_id: int, incarnation: int
    ) -> PartitionLog | None:
        """The same as `find`, for those who have no use for a place otherwise."""
        return self._logs.get((stream_id, topic_id, partition_id, incarnation))

    def partition(
        self, stream_id: int, topic_id: int, partition_id: int, incarnation: int
    ) -> PartitionFigures:
        """What a partition holds."""
        return self._logs.get((stream_id, topic_id, partition_id, incarnation)) or _NOT_OPENED

    def topic(self, stream_id: int, topic_id: int) -> Totals:
        """What the partitions of a topic hold; read it before others have their turn."""
        self._catch_up()
        return self._topics.get((stream_id, topic_id)) or Totals()

    def stream(self, stream_id: int) -> Totals:
        """What the partitions of a stream hold; read it before others have their turn."""
        self._catch_up()
        return self._streams.get(stream_id) or Totals()

    def everything(self) -> Totals:
        """What all partitions hold; read it before others have their turn."""
        self._catch_up()
        return self._everything

    def __iter__(self) -> Iterator[PartitionLog]:
        return iter(self._logs.values())

    def holds(self, log: PartitionLog) -> bool:
        """Whether the partition of a log is still there."""
        return log.key in self._counted

    async def open(self, place: PartitionPlace, topic: Topic) -> None:
        """Make a new, empty partition ready for sends and polls."""
        self._add(place, self._store.create(key_of(place), _options(topic)))

    def condemn(self, place: PartitionPlace) -> None:
        """Count a partition no more and give its log to nobody: it is going to be removed."""
        if self._logs.pop(_numbers(place), None) is None:
            return
        counted = self._counted.pop(key_of(place))
        counted.change_to(0, 0, 0)
        for totals in counted.totals:
            totals.partitions_count -= 1
        if not self._topics[place.stream_id, place.topic_id].partitions_count:
            del self._topics[place.stream_id, place.topic_id]
        if not self._streams[place.stream_id].partitions_count:
            del self._streams[place.stream_id]

    async def remove(self, place: PartitionPlace) -> None:
        """Delete the files of a partition that is gone; nothing to delete is no error."""
        self.condemn(place)
        await self._store.remove(key_of(place))

    def _add(self, place: PartitionPlace, log: PartitionLog) -> None:
        self._logs[_numbers(place)] = log
        counted = self._counted[log.key] = _Counted(
            (
                self._everything,
                self._streams.setdefault(place.stream_id, Totals()),
                self._topics.setdefault((place.stream_id, place.topic_id), Totals()),
            )
        )
        for totals in counted.totals:
            totals.partitions_count += 1
        counted.change_to(log.size_bytes, log.messages_count, log.segments_count)

    def _catch_up(self) -> None:
        for log in self._store.take_changed():
            counted = self._counted.get(log.key)
            if counted is not None:
                counted.change_to(log.size_bytes, log.messages_count, log.segments_count)


def _numbers(place: PartitionPlace) -> tuple[int, int, int, int]:
    return place.stream_id, place.topic_id, place.partition_id, place.incarnation


def key_of(place: PartitionPlace) -> PartitionKey:
    """What the log of a partition is called."""
    return PartitionKey(place.stream_id, place.topic_id, place.partition_id, place.incarnation)


def _options(topic: Topic) -> PartitionOptions:
    config = config_of(topic.options + topic.derived_options)
    return PartitionOptions(
        segment_size=config.segment_size,
        durability=config.durability,
        consumer_offset_durability=config.consumer_offset_durability,
        preallocate_segments=config.preallocate_segments,
    )
