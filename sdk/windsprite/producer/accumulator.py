"""Messages gathered into batches, and which batch is to be sent next; pure.

Messages with the same target make a lane. The batches of a lane go one after the other: the next
one is handed out after the one before it is settled. So whatever becomes of a batch, and however
often it is repeated, no later message of its lane overtakes it.

A batch is *due* once it is full, its oldest message has waited for `linger` seconds, or somebody
wants all to go now. While its lane is busy, a batch that is due and not full takes in what comes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Final, TypeAlias

from windsprite.messages import Message
from windsprite.producer.delivery import Outcome
from windsprite_protocol.batches import (
    BATCH_HEADER,
    MAX_TIMESTAMP_SPREAD,
    MESSAGE_ID_BYTES,
    NewMessage,
)
from windsprite_protocol.message_frames import FRAME_HEADER
from windsprite_protocol.model.messages import Buffer

Target: TypeAlias = int | bytes | None
"""Where messages go: a partition; or a key, or None, of which the server makes a partition."""

Original: TypeAlias = bytes | str | Message
"""A message as the caller gave it."""

MESSAGE_COST: Final = 400
"""Bytes of memory that a waiting message takes besides its payload and its headers."""

_FRAME_COST: Final = FRAME_HEADER.size


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Messages that have the same origin timestamp and the same user headers; at least one.

    Attributes:
        payloads: Their payloads.
        ids: Their ids, 16 bytes each.
        origin_timestamp: That of all.
        user_headers: Those of all.
        originals: The messages as they were given.
        starts: Where the frame of each of them starts if one follows the other from 0 on, and
            where the last one ends.
    """

    payloads: Sequence[bytes]
    ids: bytes
    origin_timestamp: int
    user_headers: bytes
    originals: Sequence[Original]
    starts: Sequence[int]


@dataclass(slots=True, eq=False)
class Batch:
    """Messages that are sent together; what they are made of stands in columns.

    Attributes:
        target: Where they go.
        opened_at: When the first of them came, in seconds.
        oldest: The smallest origin timestamp.
        newest: The largest one.
        payloads: The payloads as they are sent.
        ids: The ids, 16 bytes each.
        timestamps: The origin timestamps.
        user_headers: The user headers as they are sent.
        originals: The messages as they were given.
        size: How many bytes the batch has when it is sent.
        cost: How many bytes of memory it takes.
        is_due: Whether it is to be sent as soon as its lane is free.
        is_full: Whether it takes no more messages.
        outcome: What becomes of it.
        encoded: The batch as the server gets it, once it was made.
    """

    target: Target
    opened_at: float
    oldest: int
    newest: int
    payloads: list[Buffer] = field(default_factory=list)
    ids: bytearray = field(default_factory=bytearray)
    timestamps: list[int] = field(default_factory=list)
    user_headers: list[Buffer] = field(default_factory=list)
    originals: list[Original] = field(default_factory=list)
    size: int = BATCH_HEADER.size
    cost: int = 0
    is_due: bool = False
    is_full: bool = False
    outcome: Outcome = field(default_factory=Outcome)
    encoded: Buffer | None = None

    @property
    def count(self) -> int:
        """How many messages it has."""
        return len(self.payloads)

    @property
    def frames(self) -> list[NewMessage]:
        """The messages as they are sent; made anew each time."""
        size = MESSAGE_ID_BYTES
        ids = [bytes(self.ids[start : start + size]) for start in range(0, len(self.ids), size)]
        return list(map(NewMessage, self.payloads, ids, self.timestamps, self.user_headers))


@dataclass(slots=True, eq=False)
class _Lane:
    """The batches of a target that are not settled.

    Attributes:
        waiting: Those that were not handed out; only the last one may take in more.
        current: The one that was.
        is_queued: Whether it is in the queue of lanes with something to hand out.
    """

    waiting: deque[Batch] = field(default_factory=deque)
    current: Batch | None = None
    is_queued: bool = False


class Accumulator:
    """Gathers messages into batches.

    Args:
        max_messages: How many messages a batch holds, at least 1.
        max_bytes: How many bytes a batch has; a larger message has a batch for itself.
        linger: How many seconds a message waits for others.
    """

    def __init__(self, *, max_messages: int, max_bytes: int, linger: float) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._linger = linger
        self._lanes: dict[Target, _Lane] = {}
        self._ready: deque[_Lane] = deque()
        self._lingering: deque[Batch] = deque()
        self._messages = 0

    def __len__(self) -> int:
        """How many messages are not settled."""
        return self._messages

    def begun(self, target: Target, size: int, origin_timestamp: int) -> Batch | None:
        """The batch for this target that a message fits into.

        If there is one that it does not fit into, that one is full.

        Args:
            target: Where the message goes.
            size: Bytes of its payload and its headers.
            origin_timestamp: When it came into being; those of a batch lie within an hour or so.
        """
        lane = self._lanes.get(target)
        if lane is None or not lane.waiting:
            return None
        batch = lane.waiting[-1]
        if batch.is_full:
            return None
        fits = batch.size + _FRAME_COST + size <= self._max_bytes
        if fits and (
            origin_timestamp - batch.oldest <= MAX_TIMESTAMP_SPREAD
            and batch.newest - origin_timestamp <= MAX_TIMESTAMP_SPREAD
        ):
            return batch
        self._fill(batch)
        return None

    def begin(self, target: Target, origin_timestamp: int, now: float) -> Batch:
        """A new batch, behind all others for this target, none of which takes messages in."""
        lane = self._lanes.get(target)
        if lane is None:
            lane = self._lanes[target] = _Lane()
        batch = Batch(target, now, origin_timestamp, origin_timestamp)
        lane.waiting.append(batch)
        self._lingering.append(batch)
        return batch

    def add(self, batch: Batch, frame: NewMessage, original: Original, size: int) -> int:
        """Put a message into a batch that was begun; how many were there before."""
        index = len(batch.payloads)
        payload, id_, timestamp, user_headers = frame
        batch.payloads.append(payload)
        batch.ids += id_
        batch.timestamps.append(timestamp)
        batch.user_headers.append(user_headers)
        batch.originals.append(original)
        self._grow(batch, 1, size, timestamp)
        return index

    def add_run(self, batch: Batch, run: Run, first: int) -> int:
        """Put messages of a run into a batch that was begun for the first of them.

        Args:
            batch: The batch; if it has no message yet, the first one goes in whatever its size.
            run: The run.
            first: The first message to put in; as many as there is room for follow it.

        Returns:
            How many went in.
        """
        left = min(len(run.payloads) - first, self._max_messages - len(batch.payloads))
        limit = run.starts[first] + self._max_bytes - batch.size
        stop = bisect_right(run.starts, limit, first + 2, first + left + 1) - 1
        count = stop - first
        batch.payloads += run.payloads[first:stop]
        batch.ids += run.ids[MESSAGE_ID_BYTES * first : MESSAGE_ID_BYTES * stop]
        batch.timestamps += repeat(run.origin_timestamp, count)
        batch.user_headers += repeat(run.user_headers, count)
        batch.originals += run.originals[first:stop]
        size = run.starts[stop] - run.starts[first] - _FRAME_COST * count
        self._grow(batch, count, size, run.origin_timestamp)
        return count

    def _grow(self, batch: Batch, count: int, size: int, origin_timestamp: int) -> None:
        """Messages of these many bytes went in, with this timestamp."""
        batch.size += _FRAME_COST * count + size
        batch.cost += MESSAGE_COST * count + size
        if origin_timestamp > batch.newest:
            batch.newest = origin_timestamp
        elif origin_timestamp < batch.oldest:
            batch.oldest = origin_timestamp
        self._messages += count
        if len(batch.payloads) >= self._max_messages or batch.size >= self._max_bytes:
            self._fill(batch)

    def take(self, now: float) -> Batch | None:
        """The next batch to be sent, if there is one; nothing is added to it any more."""
        self._end_lingering(now - self._linger)
        if not self._ready:
            return None
        lane = self._ready.popleft()
        lane.is_queued = False
        batch = lane.current = lane.waiting.popleft()
        batch.is_full = True
        return batch

    def following(self, batch: Batch) -> Batch | None:
        """The batch that waits for this one to be settled, if it takes no more messages."""
        lane = self._lanes.get(batch.target)
        if lane is None or lane.current is not batch or not lane.waiting:
            return None
        return lane.waiting[0] if lane.waiting[0].is_full else None

    def settled(self, batch: Batch) -> None:
        """A batch that was handed out is settled; its lane is free for the next one."""
        lane = self._lanes[batch.target]
        lane.current = None
        self._messages -= batch.count
        if lane.waiting:
            self._queue(lane)
        else:
            del self._lanes[batch.target]

    def next_time(self) -> float | None:
        """When `take` has more to hand out without anybody doing anything, in seconds."""
        while self._lingering and self._lingering[0].is_due:
            self._lingering.popleft()
        return self._lingering[0].opened_at + self._linger if self._lingering else None

    def hurry(self) -> None:
        """Let nothing linger that is here now."""
        self._end_lingering(float("inf"))

    def last_batches(self) -> list[Batch]:
        """The last batch of each lane: when they are settled, all is that is here now."""
        lanes = self._lanes.values()
        last = [lane.waiting[-1] if lane.waiting else lane.current for lane in lanes]
        return [batch for batch in last if batch is not None]

    def give_up(self) -> Iterator[Batch]:
        """Remove what was not handed out."""
        self._ready.clear()
        self._lingering.clear()
        for target, lane in list(self._lanes.items()):
            lane.is_queued = False
            for batch in lane.waiting:
                self._messages -= batch.count
                yield batch
            lane.waiting.clear()
            if lane.current is None:
                del self._lanes[target]

    def _fill(self, batch: Batch) -> None:
        batch.is_full = True
        batch.is_due = True
        self._queue(self._lanes[batch.target])

    def _queue(self, lane: _Lane) -> None:
        """Queue a lane if it has something to hand out."""
        if lane.current is None and not lane.is_queued and lane.waiting[0].is_due:
            lane.is_queued = True
            self._ready.append(lane)

    def _end_lingering(self, opened_until: float) -> None:
        """Everything is due that was opened until then."""
        while self._lingering and (
            self._lingering[0].is_due or self._lingering[0].opened_at <= opened_until
        ):
            batch = self._lingering.popleft()
            if not batch.is_due:
                batch.is_due = True
                self._queue(self._lanes[batch.target])
