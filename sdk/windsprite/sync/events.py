"""What happens to the connection of a blocking client."""

from __future__ import annotations

from typing import Self

from windsprite.errors import ClientClosed
from windsprite.events import ClientEvent
from windsprite.events import EventStream as Target
from windsprite.sync.base import Blocking


class EventStream(Blocking[Target]):
    """What happens from now on, in its order; ends after `Closed`.

        for event in client.events():
            print(event)

    The loop waits until something happens; give it a thread of its own.
    """

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ClientEvent:
        event = self._next()
        if event is None:
            raise StopIteration
        return event

    @property
    def dropped(self) -> int:
        """How many events were dropped because nobody took them in time."""
        return self._target.dropped

    def _next(self) -> ClientEvent | None:
        try:
            return self._thread.run(self._step())
        except ClientClosed:
            if not self._thread.is_closed:
                raise
        # When the loop is gone, `Closed` has come: what is left can be had without waiting.
        self._thread.wait_closed()
        step = self._step()
        try:
            step.send(None)
        except StopIteration as done:
            event: ClientEvent | None = done.value
            return event
        step.close()
        return None

    async def _step(self) -> ClientEvent | None:
        return await anext(self._target, None)
