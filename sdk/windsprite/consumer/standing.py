"""What a consumer can say about itself."""

from __future__ import annotations

from windsprite.consumer.ledger import Ledger
from windsprite.consumer.progress import Progress
from windsprite.consumer.source import Source
from windsprite.errors import PartitionNotOwned
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.identifiers import Identifier


class Standing:
    """What a consumer reads, and how far it is.

    Attributes:
        _source: What it reads.
        _ledger: How far it is.
    """

    _source: Source
    _ledger: Ledger

    def __repr__(self) -> str:
        return f"<windsprite.TopicConsumer {self._source}>"

    @property
    def stream(self) -> Identifier:
        """Where it reads."""
        return self._source.stream

    @property
    def topic(self) -> Identifier:
        """Where it reads."""
        return self._source.topic

    @property
    def name(self) -> Identifier | None:
        """For which single consumer it reads."""
        return self._source.name

    @property
    def group(self) -> Identifier | None:
        """For which group it reads."""
        return self._source.group

    @property
    def assignment(self) -> tuple[int, ...]:
        """The partitions it reads at the moment, in ascending order."""
        return self._ledger.assignment

    def position(self, partition: int) -> int | None:
        """The offset of the message that is handed out next; None: not known yet."""
        return self._progress(partition).next_offset

    def consumed(self, partition: int) -> int | None:
        """The offset of the message that was handed out last; None: there was none."""
        return self._progress(partition).consumed

    def committed(self, partition: int) -> int | None:
        """The stored offset, as far as the consumer knows; None: nothing is stored."""
        return self._progress(partition).stored

    def lag(self, partition: int) -> int | None:
        """How many messages there are to be handed out, as of the last poll; None: not known."""
        progress = self._progress(partition)
        if progress.next_offset is None or progress.newest is None:
            return None
        return max(0, progress.newest + 1 - progress.next_offset)

    def _progress(self, partition: int) -> Progress:
        if partition not in self._ledger:
            raise PartitionNotOwned(
                f"partition {partition} is not one of this consumer's",
                code=ErrorCode.CONSUMER_GROUP_PARTITION_NOT_OWNED,
            )
        return self._ledger[partition]
