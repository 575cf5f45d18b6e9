"""One batch on its way: repeated for as long as that is safe and there is time."""

from __future__ import annotations

from typing import Final

from windsprite.bootstrap import Backoff
from windsprite.caller import Caller
from windsprite.environment import Environment
from windsprite.errors import OutcomeUnknown, RequestTimedOut, Unavailable, WindspriteError
from windsprite.producer.accumulator import Batch, Target
from windsprite.retries import Safety
from windsprite_protocol.batches import build_batch
from windsprite_protocol.model.identifiers import (
    Balanced,
    ByKey,
    Identifier,
    Partitioning,
    ToPartition,
)
from windsprite_protocol.model.messages import (
    Buffer,
    Confirmation,
    Confirmations,
    SendMessages,
)
from windsprite_protocol.payload_batches import build_payload_batch

RETRY: Final = Backoff(base=0.1, cap=2.0)
"""Pauses after the client gave up a call that was surely not carried out."""


class BatchSender:
    """Sends batches to a topic.

    The client repeats a call and finds new connections by its own rules (`windsprite.retries`);
    what it gives up although nothing was done, or although it may be done twice, is tried again
    here.

    Args:
        caller: Carries out requests.
        environment: The clock and the spread of pauses.
        stream: Where to.
        topic: Where to.
        safety: Whether a batch may be sent again that may have been stored.
        time_limit: How many seconds after its first message a batch is given up.
    """

    def __init__(
        self,
        caller: Caller,
        environment: Environment,
        stream: Identifier,
        topic: Identifier,
        *,
        safety: Safety,
        time_limit: float,
    ) -> None:
        self._caller = caller
        self._environment = environment
        self._stream = stream
        self._topic = topic
        self._safety = safety
        self._time_limit = time_limit
        self._doing = f"send to {topic!r} in {stream!r}"

    async def send(self, batch: Batch) -> Confirmation | None:
        """Store a batch; where it is, or None if the server did not say.

        Raises:
            OutcomeUnknown: It may be stored or not.
            WindspriteError: It is not stored.
        """
        deadline = batch.opened_at + self._time_limit
        request = SendMessages(
            self._stream,
            self._topic,
            _partitioning(batch.target),
            batch.count,
            encoded(batch),
        )
        error: WindspriteError = RequestTimedOut(f"{self._doing}: not sent in time")
        attempts = 0
        while (left := deadline - self._environment.monotonic()) > 0:
            try:
                confirmations: Confirmations = await self._caller.call(
                    request, self._doing, time_limit=left, safety=self._safety
                )
            except Unavailable as unavailable:
                # What one attempt left in doubt, no later one settles.
                error = error if isinstance(error, OutcomeUnknown) else unavailable
            except OutcomeUnknown as unknown:
                if not self._may_repeat(unknown):
                    raise
                error = unknown
            else:
                return confirmations.items[0] if confirmations.items else None
            pause = RETRY.wait(attempts, self._environment.uniform)
            attempts += 1
            if self._environment.monotonic() + pause >= deadline:
                break
            await self._environment.sleep(pause)
        raise error

    def _may_repeat(self, unknown: OutcomeUnknown) -> bool:
        """Whether a repeat is wanted, and was not just refused for good."""
        if self._safety is not Safety.AT_LEAST_ONCE:
            return False
        return isinstance(unknown.__cause__, Unavailable | OutcomeUnknown | None)


def encoded(batch: Batch) -> Buffer:
    """A batch that takes no more messages, as the server gets it; made once."""
    if batch.encoded is None:
        user_headers = batch.user_headers[0]
        if batch.user_headers.count(user_headers) < batch.count:
            batch.encoded = build_batch(batch.frames)
        else:
            batch.encoded = build_payload_batch(
                batch.payloads, batch.ids, batch.timestamps, user_headers
            )
    return batch.encoded


def _partitioning(target: Target) -> Partitioning:
    if target is None:
        return Balanced()
    return ByKey(target) if isinstance(target, bytes) else ToPartition(target)
