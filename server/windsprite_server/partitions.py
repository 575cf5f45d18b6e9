"""The logs of the partitions that metadata knows.

Metadata and logs don't know each other: here a place in metadata becomes the key of a log, and the
options of a topic become those of its logs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from windsprite_protocol.topic_options import config_of
from windsprite_server.log.keys import Durability, PartitionKey, PartitionOptions
from windsprite_server.log.partition import PartitionLog
from windsprite_server.log.results import RecoveryReport
from windsprite_server.log.store import LogStore
from windsprite_server.metadata.commands import PartitionPlace
from windsprite_server.metadata.state import Topic
from windsprite_server.metadata.views import PartitionFigures, no_figures


class Totals(NamedTuple):
    """What all partitions of a node hold together."""

    size_bytes: int
    messages_count: int
    segments_count: int


class Partitions:
    """The logs of a node, by the places that metadata knows."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._logs: dict[PartitionPlace, PartitionLog] = {}

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
        options = {place: (_key(place), _options(topic)) for place, topic in live}
        report = self._store.recover(dict(options.values()))
        for place, (key, _) in options.items():
            log = self._store.get(key)
            if log is not None:
                self._logs[place] = log
        going = {_key(place).directory_name for place in condemned}
        unknown = tuple(path for path in report.unknown if path.name not in going)
        return replace(report, unknown=unknown)

    def totals(self) -> Totals:
        """What all partitions hold together."""
        logs = self._logs.values()
        return Totals(
            size_bytes=sum(log.size_bytes for log in logs),
            messages_count=sum(log.messages_count for log in logs),
            segments_count=sum(log.segments_count for log in logs),
        )

    def find(self, place: PartitionPlace) -> PartitionLog | None:
        """The log of a partition; `None` while it could not be opened, or is being removed."""
        return self._logs.get(place)

    def figures(self, place: PartitionPlace) -> PartitionFigures:
        """What a partition holds; nothing while it has no log."""
        return self._logs.get(place) or no_figures(place)

    async def open(self, place: PartitionPlace, topic: Topic) -> None:
        """Make a new, empty partition ready for sends and polls."""
        self._logs[place] = self._store.create(_key(place), _options(topic))

    async def remove(self, place: PartitionPlace) -> None:
        """Delete the files of a partition that is gone; nothing to delete is no error."""
        self._logs.pop(place, None)
        await self._store.remove(_key(place))


def _key(place: PartitionPlace) -> PartitionKey:
    return PartitionKey(place.stream_id, place.topic_id, place.partition_id, place.incarnation)


def _options(topic: Topic) -> PartitionOptions:
    config = config_of(topic.options + topic.derived_options)
    return PartitionOptions(
        segment_size=config.segment_size,
        durability=Durability(config.durability.value),
        consumer_offset_durability=Durability(config.consumer_offset_durability.value),
        preallocate_segments=config.preallocate_segments,
    )
