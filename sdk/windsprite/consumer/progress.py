"""How far a consumer is with one partition: polled, handed out, handled, stored; no I/O.

                polled                 taken                handled
    partition ---------> buffer ---------------> unhandled ---------> (nothing)
                            ^----- put back ---------'

All messages below the oldest one of `buffer` and `unhandled` are handled; the offset before it is
what may be stored. So nothing unhandled is ever stored, however handing out, handling, polling and
storing come to take turns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Final, Literal, TypeAlias

from windsprite.consumer.pace import Pace
from windsprite.messages import From, ReceivedMessage
from windsprite_protocol.model.identifiers import PollingKind

Start: TypeAlias = From | Literal["new"]
"""Where a partition begins: as `From` says, or with the messages that are appended from now on."""

NEW: Final = "new"


class Hold(Enum):
    """How a consumer holds a partition."""

    UNSURE = "it has to look what is stored before it goes on"
    FULL = "it is its own"
    DOUBTED = "the server does not name it any more; whether offsets may be stored is not known"
    LAST_WORK = "the server waits for what was polled to be stored, and gives it to another then"
    NONE = "it belongs to another member, or does not exist any more"


class Progress:
    """A consumer's progress on one partition.

    Args:
        partition: The partition.
        first_start: Where to begin.
        heeds_stored: Whether to begin behind the stored offset instead, if there is one.
        pins_start: Whether the place where we begin is to be stored, so that another member would
            begin there as well.
        keeps_polled: Whether messages count as stored when they are polled: then they are handed
            out even if the partition is not ours any more.

    Attributes:
        hold: How the consumer holds it.
        start: Where the next poll begins; None: not known yet.
        buffer: Messages to be handed out, by ascending offset.
        unhandled: Messages that were handed out and not handled yet, by their offsets.
        stored: The stored offset, as far as we know; None: nothing is stored.
        consumed: The offset of the message handed out last.
        newest: The offset of the newest message of the partition, as of the last poll; -1: there
            was none.
        fresh: How many messages were handled since the last store.
        is_paused: Whether the program does not want messages now.
        pace: When to poll next.
        typical_size: Bytes of a message, on an average of the last poll; None before it.
        turn: Grows whenever an answer to a poll that is under way becomes worthless.
    """

    def __init__(
        self,
        partition: int,
        first_start: Start,
        *,
        heeds_stored: bool = True,
        pins_start: bool = False,
        keeps_polled: bool = False,
    ) -> None:
        self.partition = partition
        self.hold = Hold.UNSURE
        self.start: Start | None = None
        self.buffer: deque[ReceivedMessage] = deque()
        self.unhandled: dict[int, ReceivedMessage] = {}
        self.stored: int | None = None
        self.consumed: int | None = None
        self.newest: int | None = None
        self.fresh = 0
        self.is_paused = False
        self.pace = Pace()
        self.typical_size: int | None = None
        self.turn = 0
        self._first_start: Start = first_start
        self._heeds_stored = heeds_stored
        self._may_pin = pins_start
        self._keeps_polled = keeps_polled
        self._highest: int | None = None
        self._was_sought = False
        self._pins_start = False
        self._was_reset = False

    # --- Where we are ------------------------------------------------------------------------

    @property
    def is_given(self) -> bool:
        """Whether its messages may be handed out."""
        if self.is_paused:
            return False
        return self._keeps_polled or self.is_held

    @property
    def is_held(self) -> bool:
        """Whether its offset may be changed."""
        return self.hold in {Hold.FULL, Hold.LAST_WORK}

    @property
    def next_offset(self) -> int | None:
        """The offset of the message to be handed out next; None: not known."""
        if self.buffer:
            return self.buffer[0].offset
        if self.start is None or isinstance(self.start, str):
            return None
        return self.start.value if self.start.kind is PollingKind.OFFSET else None

    @property
    def handled(self) -> int | None:
        """All messages up to this offset are handled or were never asked for; None: none is."""
        next_offset = self.next_offset
        if next_offset is None:
            return None
        return min(next_offset, min(self.unhandled, default=next_offset)) - 1

    @property
    def is_idle(self) -> bool:
        """Whether nothing that was polled is still to be handled."""
        return not self.buffer and not self.unhandled

    def to_store(self) -> int | None:
        """The offset that has to be stored; None: nothing has."""
        if self._keeps_polled or not (self.fresh or self._pins_start):
            return None
        handled = self.handled
        if handled is None or handled < 0 or handled == self.stored:
            return None
        return handled

    # --- What happens to it ------------------------------------------------------------------

    def open(self, stored: int | None, *, allow_replay: bool) -> None:
        """Begin, or go on after others may have had the partition.

        Args:
            stored: The stored offset as the server has it now.
            allow_replay: Whether to go back if somebody has stored a lower offset, or deleted it.
        """
        self.hold = Hold.FULL
        self.pace.hurry()
        known, self.stored = self.stored, stored
        if self.start is None:
            self._begin(stored)
        elif stored == known or self._was_sought:
            pass  # nobody has moved it
        elif stored is not None and (known is None or stored > known):
            self._skip(stored)
        elif allow_replay:
            self._forget()
            self._begin(stored)

    def _begin(self, stored: int | None) -> None:
        if stored is not None and (self._heeds_stored or self._was_reset):
            self.start = From.offset(stored + 1)
            return
        # After a reset all that there is has come since.
        self.start = From.first() if self._was_reset else self._first_start
        self._pins_start = self._may_pin and self.start in {NEW, From.last()}

    def _skip(self, stored: int) -> None:
        """Leave out what another member has handled."""
        if not self._keeps_polled:
            while self.buffer and self.buffer[0].offset <= stored:
                self.buffer.popleft()
            for offset in [offset for offset in self.unhandled if offset <= stored]:
                del self.unhandled[offset]
        behind = stored + 1
        if not (start := self.start) or isinstance(start, str):
            self.start = From.offset(behind)
        else:
            known = start.value if start.kind is PollingKind.OFFSET else 0
            self.start = From.offset(max(known, behind))

    def lose(self) -> None:
        """The partition is another member's now; should it come back, we go on where we were."""
        self.hold = Hold.NONE
        self.turn += 1
        if not self._keeps_polled:
            self.put_off()

    def put_off(self) -> None:
        """Forget what waits to be handed out; it is polled again if we go on."""
        self.turn += 1
        next_offset = self.next_offset
        if next_offset is not None:
            self.start = From.offset(next_offset)
        self.buffer.clear()

    def reset(self) -> None:
        """All that was known is void: the partition was emptied, or its group is a new one."""
        self._forget()
        self.hold = Hold.UNSURE
        self.start = None
        self.stored = None
        self.newest = None
        self._was_reset = True

    def seek(self, start: Start) -> None:
        """Go somewhere else; what was polled is forgotten, and what is being handled as well."""
        self._forget()
        self.start = start
        self._was_sought = True
        self.pace.hurry()

    def _forget(self) -> None:
        self.turn += 1
        self.buffer.clear()
        self.unhandled.clear()
        self.fresh = 0
        self._highest = None
        self._pins_start = False
        self._was_sought = False

    def polled(self, messages: Sequence[ReceivedMessage], newest: int) -> bool:
        """Take what a poll from `start` brought.

        Args:
            messages: The messages.
            newest: The offset of the newest message; 0 also while there is none.

        Returns:
            Whether this makes sense. If not, the partition was emptied or lost its end.
        """
        self.newest = newest
        if self.start == NEW:
            self.start = From.offset(messages[-1].offset + 1 if messages else 0)
            self._was_sought = False
            return True
        if not messages:
            if self.start in {From.first(), From.last()}:
                self.start = From.offset(0)
            if self.next_offset == 0 == newest:
                self.newest = -1  # there is no message, not even one with the offset 0
            return self._highest is None or self._highest <= newest
        self.buffer.extend(messages)
        self._highest = messages[-1].offset
        self.start = From.offset(self._highest + 1)
        self._was_sought = False
        self.pace.hurry()
        if self._keeps_polled:
            self.stored = max(self._highest, -1 if self.stored is None else self.stored)
        return True

    def take(self) -> ReceivedMessage:
        """Hand out a message; there has to be one."""
        message = self.buffer.popleft()
        self.consumed = message.offset
        self.unhandled[message.offset] = message
        return message

    def finish(self, message: ReceivedMessage) -> bool:
        """A message was handled; returns False if nobody waits for that (any more)."""
        if self.unhandled.get(message.offset) is message:
            del self.unhandled[message.offset]
        elif message in self.buffer:
            self.buffer.remove(message)  # it had been put back
        else:
            return False
        self.fresh += 1
        return True

    def finish_up_to(self, offset: int) -> None:
        """All messages that were handed out, up to this offset, were handled."""
        done = [number for number in self.unhandled if number <= offset]
        for number in done:
            del self.unhandled[number]
        self.fresh += len(done)
        while self.buffer and self.buffer[0].offset <= offset:
            self.buffer.popleft()  # it had been put back
            self.fresh += 1

    def put_back(self, message: ReceivedMessage) -> bool:
        """A message was not handled and is to be handed out again; returns whether it will be."""
        if self.unhandled.get(message.offset) is not message:
            return False
        del self.unhandled[message.offset]
        if self.hold is Hold.NONE and not self._keeps_polled:
            # Whoever has the partition gets it. Should we get it back, we begin there.
            if self.next_offset is None or self.next_offset > message.offset:
                self.start = From.offset(message.offset)
            return False
        place = 0
        while place < len(self.buffer) and self.buffer[place].offset < message.offset:
            place += 1
        self.buffer.insert(place, message)
        return True

    def was_stored(self, offset: int, fresh: int = 0) -> None:
        """An offset was stored.

        Args:
            offset: The offset.
            fresh: What `fresh` was when it was sent.
        """
        self.stored = offset
        self.fresh = max(0, self.fresh - fresh)
        self._pins_start = False
