"""The partitions of a consumer: which to poll next, which message to hand out next; no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from windsprite.consumer.commits import Commit, Moment
from windsprite.consumer.pace import longest_pause
from windsprite.consumer.progress import Hold, Progress, Start
from windsprite.messages import Batch, From, ReceivedMessage

MESSAGE_OVERHEAD: Final = 200
"""Bytes of memory that a message takes besides its payload and headers, about."""

FIRST_COUNT: Final = 100
"""How many messages a poll asks for as long as nobody knows how large they are."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a consumer takes at most.

    Attributes:
        batch_messages: Messages of one poll.
        prefetch_bytes: Bytes of messages that wait to be handed out, over all partitions; what a
            poll brings beyond that is kept. If none of them can be handed out for now, partitions
            that have none are polled nevertheless, for as many bytes.
        poll_interval: Seconds between two polls of a partition that has nothing new.
        max_unhandled: How far handing out may run ahead of the oldest unhandled message of a
            partition, in messages.
    """

    batch_messages: int
    prefetch_bytes: int
    poll_interval: float
    max_unhandled: int


class Ledger:
    """All partitions of a consumer.

    Args:
        limits: What to take at most.
        commit: What counts as stored, and when.
        start: Where a partition begins.
        heeds_stored: Whether it begins behind the stored offset instead, if there is one.
        is_group: Whether partitions come and go, and others may read them meanwhile.
        allow_replay: Whether messages may come again because somebody stored a lower offset.
        has_room: Called when a partition can be polled that could not before.

    Attributes:
        buffered_bytes: Bytes of messages that wait to be handed out.
        is_unsettled: Whether there may be partitions that are held otherwise than fully.
    """

    def __init__(
        self,
        limits: Limits,
        commit: Commit,
        start: Start,
        *,
        heeds_stored: bool,
        is_group: bool,
        allow_replay: bool,
        has_room: Callable[[], None],
    ) -> None:
        self.buffered_bytes = 0
        self.is_unsettled = False
        self._limits = limits
        self._commit = commit
        self._start: Start = start
        self._heeds_stored = heeds_stored
        self._is_group = is_group
        self._allow_replay = allow_replay
        self._has_room = has_room
        self._keeps_polled = commit.moment is Moment.POLLED
        self._progress: dict[int, Progress] = {}
        self._poll_turns: list[Progress] = []
        self._take_turns: list[Progress] = []
        self._taking: Progress | None = None
        self._turn_left = 0
        self._due: dict[int, Progress] = {}
        self._finishes_at_once = commit.moment is not Moment.HANDLED
        self._stores_first = commit.moment is Moment.HANDED_OUT
        # So that the next batch is under way while the second half of this one is handled. What
        # the server has stored already is not polled before it is needed.
        self._low = 0 if self._keeps_polled else limits.batch_messages // 2

    # --- Which partitions --------------------------------------------------------------------

    def __getitem__(self, partition: int) -> Progress:
        return self._progress[partition]

    def __contains__(self, partition: int) -> bool:
        return partition in self._progress

    def __iter__(self) -> Iterator[Progress]:
        return iter(self._progress.values())

    @property
    def assignment(self) -> tuple[int, ...]:
        """The partitions that are polled, in their order."""
        held = (Hold.FULL, Hold.UNSURE)
        return tuple(sorted(p.partition for p in self if p.hold in held))

    def with_hold(self, hold: Hold) -> list[Progress]:
        """The partitions that are held in one way."""
        return [progress for progress in self if progress.hold is hold]

    def assign(
        self, partitions: Iterable[int], *, is_continued: bool = False, start: Start | None = None
    ) -> None:
        """The partitions are these now.

        Those of a group that were held before are looked at again: they may have been elsewhere
        meanwhile.

        Args:
            partitions: All of them.
            is_continued: Whether those that are missing may still be ours until what was polled
                is stored. If not, they are gone.
            start: Where those begin that are new here; None: at the start of the consumer.
        """
        named = set(partitions)
        self.is_unsettled = True
        for partition in sorted(named):
            if partition not in self._progress:
                self._add(partition, self._start if start is None else start)
            progress = self._progress[partition]
            if self._is_group:
                progress.hold = Hold.UNSURE
            elif progress.hold is Hold.NONE:
                self.reset(progress)  # it was removed: this is another one of the same number
        for progress in self:
            if progress.partition in named or progress.hold is Hold.NONE:
                continue
            if progress.is_paused:
                self._account(progress, progress.put_off)
            has_work = not self.is_done(progress) or self.to_store(progress) is not None
            if not (is_continued and has_work):
                self.lose(progress)
            elif progress.hold is not Hold.LAST_WORK:
                progress.hold = Hold.DOUBTED

    def _add(self, partition: int, start: Start) -> None:
        progress = Progress(
            partition,
            start,
            heeds_stored=self._heeds_stored,
            pins_start=self._is_group and self._commit.stores_handled,
            keeps_polled=self._keeps_polled,
        )
        self._progress[partition] = progress
        self._poll_turns.append(progress)
        self._take_turns.append(progress)

    def lose(self, progress: Progress) -> None:
        """A partition is gone."""
        self._account(progress, progress.lose)
        self._due.pop(progress.partition, None)

    def open(self, progress: Progress, stored: int | None) -> None:
        """Begin to read a partition, or go on; the offset is the one that is stored now."""
        self._account(progress, lambda: progress.open(stored, allow_replay=self._allow_replay))

    def reset(self, progress: Progress) -> None:
        """A partition was emptied, or has lost its end."""
        self._account(progress, progress.reset)
        self.is_unsettled = True

    def seek(self, progress: Progress, start: Start) -> None:
        """Go somewhere else in a partition."""
        self._account(progress, lambda: progress.seek(start))

    def _account(self, progress: Progress, change: Callable[[], None]) -> None:
        """Do something that may drop messages from a buffer."""
        before = sum(map(size_of, progress.buffer))
        change()
        self.buffered_bytes -= before - sum(map(size_of, progress.buffer))

    # --- Polling -----------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Whether so much waits to be handed out that there is no need to poll."""
        return self.buffered_bytes >= self._limits.prefetch_bytes

    def next_poll(self, now: float) -> tuple[Progress | None, float | None]:
        """What to poll next: partitions take turns.

        Returns:
            The partition; and if there is none that can be polled now, when there will be, in
            seconds (None: not before something is taken).
        """
        if self.is_full and any(map(self._can_give, self)):
            return None, None
        soonest: float | None = None
        for place, progress in enumerate(self._poll_turns):
            if progress.hold is not Hold.FULL or progress.is_paused:
                continue
            if len(progress.buffer) > self._low or (self.is_full and progress.buffer):
                continue
            if progress.pace.ready_at <= now:
                self._poll_turns.append(self._poll_turns.pop(place))
                return progress, None
            if soonest is None or progress.pace.ready_at < soonest:
                soonest = progress.pace.ready_at
        return None, soonest

    def request(self, progress: Progress) -> tuple[From, int]:
        """Where a poll of a partition begins, and how many messages it asks for at most."""
        start = From.next() if progress.start is None else progress.start
        if isinstance(start, str):
            return From.last(), 1
        if start == From.last():
            return start, self._limits.batch_messages
        if progress.typical_size is None:
            return start, min(FIRST_COUNT, self._limits.batch_messages)
        limit = self._limits.prefetch_bytes
        # What cannot be handed out for now keeps no room from others.
        room = limit if self.is_full else limit - self.buffered_bytes
        fitting = max(1, room // progress.typical_size)
        return start, min(fitting, self._limits.batch_messages)

    def polled(self, progress: Progress, batch: Batch, turn: int, now: float) -> None:
        """Take what a poll brought.

        Args:
            progress: The partition.
            batch: What came.
            turn: The partition's `turn` when the poll was sent.
            now: The time, in seconds.
        """
        if turn != progress.turn:
            return
        messages: Sequence[ReceivedMessage] = batch.messages
        kept = len(progress.buffer)
        makes_sense = progress.polled(messages, batch.current_offset)
        if len(progress.buffer) > kept:
            size = sum(map(size_of, messages))
            self.buffered_bytes += size
            progress.typical_size = max(1, size // len(messages))
        elif makes_sense:
            polled = sum(other.hold is Hold.FULL for other in self)
            progress.pace.found_nothing(now, longest_pause(self._limits.poll_interval, polled))
        else:
            self.reset(progress)

    # --- Handing out -------------------------------------------------------------------------

    def next_to_give(self) -> Progress | None:
        """The partition of the next message, if there is one; they take turns of about a batch."""
        progress = self._taking
        if progress is None or not self._turn_left or not self._can_give(progress):
            progress = self._next_turn()
        return progress

    def has_to_store(self, progress: Progress) -> bool:
        """Whether the offset of its next message has to be stored before that is handed out."""
        every = self._commit.every
        if not self._stores_first or every is None or not progress.buffer:
            return False
        return progress.fresh + 1 >= every and progress.stored != progress.buffer[0].offset

    def take(self) -> ReceivedMessage | None:
        """The next message, if there is one."""
        progress = self.next_to_give()
        if progress is None:
            return None
        self._turn_left -= 1
        message = progress.take()
        before = self.buffered_bytes
        self.buffered_bytes = after = before - size_of(message)
        limit = self._limits.prefetch_bytes
        if len(progress.buffer) == self._low or after < limit <= before:
            self._has_room()
        if self._finishes_at_once:
            self.finish(message)
            if progress.stored == message.offset:
                progress.fresh = 0
        return message

    def _can_give(self, progress: Progress) -> bool:
        if not progress.buffer or not progress.is_given:
            return False
        if not progress.unhandled:
            return True
        oldest = next(iter(progress.unhandled))
        return progress.buffer[0].offset - oldest < self._limits.max_unhandled

    def _next_turn(self) -> Progress | None:
        for place, progress in enumerate(self._take_turns):
            if self._can_give(progress):
                self._take_turns.append(self._take_turns.pop(place))
                self._taking = progress
                self._turn_left = self._limits.batch_messages
                return progress
        return None

    @property
    def waiting_for_handlers(self) -> list[Progress]:
        """Partitions that hand out nothing more until their oldest message is handled."""
        return [p for p in self if p.buffer and p.is_given and not self._can_give(p)]

    def finish(self, message: ReceivedMessage) -> None:
        """A message was handled."""
        progress = self._progress.get(message.partition_id)
        if progress is None:
            return
        waiting = len(progress.buffer)
        if not progress.finish(message):
            return
        if len(progress.buffer) < waiting:
            self.buffered_bytes -= size_of(message)
        every = self._commit.every
        if every is not None and progress.fresh >= every and not self._stores_first:
            self._due[progress.partition] = progress
        if progress.hold is Hold.LAST_WORK and progress.is_idle:
            self._has_room()

    def finish_up_to(self, progress: Progress, offset: int) -> None:
        """All messages of a partition that were handed out, up to this offset, were handled."""
        self._account(progress, lambda: progress.finish_up_to(offset))

    def put_back(self, message: ReceivedMessage) -> None:
        """A message that was handed out was not handled, and is to be handed out again."""
        progress = self._progress.get(message.partition_id)
        if progress is not None and progress.put_back(message):
            self.buffered_bytes += size_of(message)

    # --- Storing -----------------------------------------------------------------------------

    def to_store(self, progress: Progress) -> int | None:
        """The offset of a partition that the consumer has to store by itself."""
        return progress.to_store() if self._commit.stores_handled else None

    def is_done(self, progress: Progress) -> bool:
        """Whether a partition can be given up: all that was polled of it is handled.

        Of programs that store offsets themselves we know that only when they have done so.
        """
        if self._commit.moment is not Moment.NEVER:
            return progress.is_idle
        stored = -1 if progress.stored is None else progress.stored
        handed_out = progress.handled
        return progress.is_idle and (handed_out is None or handed_out <= stored)

    @property
    def due(self) -> Sequence[Progress]:
        """The partitions with something that has to be stored before anything is handed out."""
        return tuple(self._due.values())

    def was_due(self, partitions: Iterable[Progress]) -> None:
        """What was due in these partitions is stored, or cannot be."""
        for progress in partitions:
            self._due.pop(progress.partition, None)


def size_of(message: ReceivedMessage) -> int:
    """Bytes of memory that a message takes, about."""
    return MESSAGE_OVERHEAD + len(message.payload) + len(message.raw_user_headers)
