"""Which partition a message goes to; pure (spec 04, 4.3; spec 07, 8.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from windsprite.errors import InvalidRequest, NotFound
from windsprite.messages import Message
from windsprite.producer.accumulator import Target
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.hashing import partition_index

Partitioner: TypeAlias = Callable[[Message, bytes | None, int], int | None]
"""Chooses the partition of a message, given its key and the number of partitions.

Returns 0 to that number less one; None leaves it to the key, or to the turns. What it raises, the
call of `send` raises.
"""


class Router:
    """Finds the partitions of messages.

    Messages without a key take the partitions by turns, a batch each: it is the turn of a partition
    for as long as a batch for it takes in messages.

    Args:
        partitions: How many partitions the topic has; None if nobody may tell, so that the server
            has to find the partitions.
        first: The partition whose turn comes first.

    Attributes:
        partitions: May be changed at any time; later messages follow.
    """

    def __init__(self, partitions: int | None, first: int = 0) -> None:
        self.partitions = partitions
        self._turn = first - 1  # the first message takes the next turn

    def check(self) -> None:
        """Make sure that there are partitions to be found.

        Raises:
            NotFound: The topic has no partitions.
        """
        if self.partitions is not None:
            self._positive(self.partitions)

    def of_key(self, key: bytes) -> Target:
        """The target of messages with this key; that of every official client.

        Raises:
            NotFound: The topic has no partitions.
        """
        if self.partitions is None:
            return key
        return partition_index(key, self._positive(self.partitions))

    @property
    def turn(self) -> Target:
        """The partition whose turn it is."""
        return None if self.partitions is None else self._turn

    def next_turn(self) -> Target:
        """The partition whose turn it is from now on.

        Raises:
            NotFound: The topic has no partitions.
        """
        if self.partitions is None:
            return None
        self._turn = (self._turn + 1) % self._positive(self.partitions)
        return self._turn

    @staticmethod
    def _positive(partitions: int) -> int:
        if partitions < 1:
            raise NotFound("send: the topic has no partitions", code=ErrorCode.NO_PARTITIONS)
        return partitions


def chosen(
    partitioner: Partitioner, message: Message, key: bytes | None, partitions: int
) -> int | None:
    """What a partitioner makes of a message.

    Raises:
        InvalidRequest: There is no such partition.
    """
    partition = partitioner(message, key, partitions)
    if partition is not None and not 0 <= partition < partitions:
        raise InvalidRequest(
            f"send: the partitioner chose {partition!r}, the topic has {partitions} partitions"
        )
    return partition
