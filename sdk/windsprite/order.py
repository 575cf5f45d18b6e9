"""Which calls of a client may be under way at the same time, and which have to wait for others.

Pure bookkeeping: nothing here waits.

    barrier        alone: all calls before it have ended, none after it has begun
    send, offset   in the order in which they were made, one after the other, if they may concern
                   the same partition; else at the same time
    free           at any time that no barrier forbids

A call that is under way is one that has begun and has not ended, with all its repeats and moves to
other servers. So what is kept in order stays in order whatever happens to a call or a connection:
the next one does not leave before the outcome of the one before is told.

A partition is known by what the caller says. Two sends to different partition numbers, or to
topics or streams of different names, go to different partitions. Those with a key, and those whose
partition the server chooses, may go to any partition of their topic. One name and one number are
never taken for the same topic.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import Any, Final, TypeAlias

from windsprite_protocol.generation import Plane
from windsprite_protocol.model.identifiers import ToPartition
from windsprite_protocol.model.messages import PollMessages, SendMessages
from windsprite_protocol.model.offsets import DeleteConsumerOffset, StoreConsumerOffset
from windsprite_protocol.v0_11.table import GENERATION

LOOKAHEAD: Final = 64
"""How many calls for one topic are looked at for some that may begin."""


class Whole(Enum):
    """Orders that concern no partition."""

    FREE = "in no order"
    BARRIER = "after all before it, and before all after it"


@dataclass(frozen=True, slots=True)
class Lane:
    """In order among all of the same topic that may concern the same partition.

    Attributes:
        topic: What is done, and to which topic.
        partition: The partition; None: any of them.
    """

    topic: Hashable
    partition: int | None


Rank: TypeAlias = Whole | Lane
"""What a call has to wait for."""


def rank_of(request: Any) -> Rank:  # noqa: ANN401 - a request of `windsprite_protocol.model`
    """What a request has to wait for, unless its caller says something else.

    Reads change nothing and wait for nothing but barriers. What changes the metadata, a membership
    or the session is a barrier.
    """
    match request:
        case SendMessages(stream, topic, partitioning):
            if isinstance(partitioning, ToPartition):
                return Lane(("send", stream, topic), partitioning.partition_id)
            return Lane(("send", stream, topic), None)
        case StoreConsumerOffset() | DeleteConsumerOffset():
            return Lane(("offset", request.stream, request.topic), request.partition_id)
        case PollMessages(auto_commit=True):
            return Lane(("offset", request.stream, request.topic), request.partition_id)
    is_read = GENERATION.of(type(request)).plane is Plane.READ
    return Whole.FREE if is_read else Whole.BARRIER


@dataclass(slots=True, eq=False)
class Turn:
    """A call in the order.

    Attributes:
        rank: What it has to wait for.
        has_begun: Whether it may go on.
        waiter: Whatever shall be told that it has begun.
    """

    rank: Rank
    has_begun: bool = False
    waiter: Any = None


_Queue: TypeAlias = "OrderedDict[Turn, None]"


@dataclass(slots=True)
class Order:
    """The calls of a client that have not ended."""

    _barrier: Turn | None = None
    _under_way: int = 0
    """Calls behind which the next barrier has to wait."""
    _behind: _Queue = field(default_factory=OrderedDict)
    """Calls from the first barrier on that has not begun."""
    _topics: dict[Hashable, _Queue] = field(default_factory=dict)

    def enter(self, rank: Rank) -> Turn:
        """A call that comes after all others; it may have begun at once.

        Raises:
            TypeError: What should be a name or a number is neither; nothing is noted.
        """
        hash(rank)
        turn = Turn(rank)
        self._behind[turn] = None
        self._admit()
        return turn

    def leave(self, turn: Turn) -> list[Turn]:
        """End a call, or give up one that has not begun; returns those that begin now."""
        begun: list[Turn] = []
        if turn is self._barrier:
            self._barrier = None
        elif turn in self._behind:
            del self._behind[turn]
        else:
            self._under_way -= 1
            if isinstance(turn.rank, Lane):
                queue = self._topics[turn.rank.topic]
                del queue[turn]
                if queue:
                    begun += _begin(queue)
                else:
                    del self._topics[turn.rank.topic]
        return begun + self._admit()

    def _admit(self) -> list[Turn]:
        """Take calls up to the next barrier; returns those that begin."""
        begun: list[Turn] = []
        while self._behind and self._barrier is None:
            turn = next(iter(self._behind))
            if turn.rank is Whole.BARRIER:
                if self._under_way:
                    break
                self._barrier = turn
            else:
                self._under_way += 1
            del self._behind[turn]
            if isinstance(turn.rank, Lane):
                queue = self._topics.setdefault(turn.rank.topic, OrderedDict())
                queue[turn] = None
                begun += _begin(queue)
            else:
                turn.has_begun = True
                begun.append(turn)
        return begun


def _begin(queue: _Queue) -> list[Turn]:
    """Let those calls for a topic begin that need not wait for one before them."""
    begun: list[Turn] = []
    taken: set[int] = set()
    for turn in islice(queue, LOOKAHEAD):
        assert isinstance(turn.rank, Lane)  # noqa: S101 - only these are queued
        partition = turn.rank.partition
        is_free = not taken if partition is None else partition not in taken
        if is_free and not turn.has_begun:
            turn.has_begun = True
            begun.append(turn)
        if partition is None:
            break
        taken.add(partition)
    return begun
