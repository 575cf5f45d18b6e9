"""From the messages of a call to the batches they go into; everything is refused before that."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from windsprite.environment import Environment
from windsprite.errors import InvalidRequest
from windsprite.messages import Headers, key_bytes
from windsprite.producer.accumulator import (
    MESSAGE_COST,
    Accumulator,
    Batch,
    Original,
    Run,
    Target,
)
from windsprite.producer.encoding import Encoder, as_message
from windsprite.producer.options import ProducerOptions
from windsprite.producer.routing import Router, chosen
from windsprite_protocol.batches import NewMessage
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.message_frames import FRAME_HEADER


class Place(NamedTuple):
    """Where messages have to go.

    Attributes:
        partition: Their partition; None: where the key says.
        key: Their key; None: anywhere will do.
    """

    partition: int | None
    key: bytes | None


class Single(NamedTuple):
    """A message that is ready to be sent.

    Attributes:
        frame: The message as it is sent.
        size: Bytes of its payload and its headers.
        original: The message as it was given.
        place: Where it has to go.
    """

    frame: NewMessage
    size: int
    original: Original
    place: Place


class Many(NamedTuple):
    """Messages of one call that are ready to be sent.

    Attributes:
        run: All of them, if they have so much in common; they go to the same place.
        place: That place.
        singles: All of them, if they do not.
        cost: How many bytes of memory they take.
    """

    run: Run | None
    place: Place
    singles: list[Single]
    cost: int


class Taken(NamedTuple):
    """Messages that a batch took in, one behind the other.

    Attributes:
        batch: The batch.
        first: The place of the first of them, counted from 0.
        length: How many they are.
    """

    batch: Batch
    first: int
    length: int


_ANYWHERE = Place(None, None)


class Intake:
    """Prepares messages, and puts them into batches.

    Args:
        options: How the producer behaves.
        environment: Clocks and randomness.
        accumulator: Where the messages go.

    Attributes:
        router: Finds partitions; may be replaced.

    Raises:
        InvalidRequest: The key or the headers of the options cannot be sent.
    """

    def __init__(
        self, options: ProducerOptions, environment: Environment, accumulator: Accumulator
    ) -> None:
        self.router = Router(None)
        self._options = options
        self._environment = environment
        self._accumulator = accumulator
        default_key = None if options.key is None else key_bytes(options.key)
        self._default_place = Place(options.partition, default_key)
        self._encoder = Encoder(environment, options.headers, options.encryption)

    # --- Preparing: what fails here leaves no trace ----------------------------------------------

    def prepare(
        self,
        message: Original,
        key: bytes | str | None,
        partition: int | None,
        headers: Headers | None,
    ) -> Single:
        """A message as it is sent, and where it is to go.

        Raises:
            InvalidRequest: It cannot be sent.
        """
        if headers is not None:
            message = as_message(message, headers)
        frame = self._encoder.encode(message)
        size = len(frame.payload) + len(frame.user_headers)
        if MESSAGE_COST + size > self._options.buffer_bytes:
            raise InvalidRequest(
                f"send: a message of {len(frame.payload):,} bytes is too large for a producer with "
                f"buffer_bytes={self._options.buffer_bytes:,}",
                code=ErrorCode.BACKGROUND_SEND_BUFFER_OVERFLOW,
                hint="give the producer more buffer_bytes",
            )
        place = self._place(key, partition)
        if partition is None and self._options.partitioner is not None:
            place = self._chosen_place(message, place)
        return Single(frame, size, message, place)

    def prepare_many(
        self,
        messages: Iterable[Original],
        key: bytes | str | None,
        partition: int | None,
        headers: Headers | None,
    ) -> Many:
        """Messages as they are sent, and where they are to go.

        Raises:
            InvalidRequest: One of them cannot be sent.
        """
        messages = list(messages)
        if messages and (partition is not None or self._options.partitioner is None):
            run = self._encoder.encode_run(messages, headers)
            if run is not None:
                size = run.starts[-1] - FRAME_HEADER.size * len(messages)
                cost = MESSAGE_COST * len(messages) + size
                # If not all together fit, a single one may be too large, which is another error.
                if cost <= self._options.buffer_bytes:
                    return Many(run, self._place(key, partition), [], cost)
        singles = [self.prepare(message, key, partition, headers) for message in messages]
        cost = sum(MESSAGE_COST + single.size for single in singles)
        return Many(None, _ANYWHERE, singles, cost)

    def _place(self, key: bytes | str | None, partition: int | None) -> Place:
        """What the call and the options say; neither partition nor key: any partition will do."""
        if partition is not None:
            if key is not None:
                raise InvalidRequest("send: either a key or a partition, not both")
            if not 0 <= partition < 1 << 32:
                raise InvalidRequest(f"send: there is no partition {partition}")
            return Place(partition, None)
        return self._default_place if key is None else Place(None, key_bytes(key))

    def _chosen_place(self, message: Original, place: Place) -> Place:
        """What the partitioner says, or else this place."""
        partitioner, partitions = self._options.partitioner, self.router.partitions
        if partitioner is None or partitions is None:
            return place
        partition = chosen(partitioner, as_message(message, None), place.key, partitions)
        return place if partition is None else Place(partition, None)

    # --- Taking in -------------------------------------------------------------------------------

    def take(self, message: Single) -> Taken:
        """Put a message into a batch.

        Raises:
            NotFound: The topic has no partitions.
        """
        frame, size, original, place = message
        batch = self._batch_for(place, size, frame.origin_timestamp)
        return Taken(batch, self._accumulator.add(batch, frame, original, size), 1)

    def take_many(self, messages: Many) -> list[Taken]:
        """Put messages into batches.

        Raises:
            NotFound: The topic has no partitions; none was taken in.
        """
        run = messages.run
        if run is None:
            if any(single.place.partition is None for single in messages.singles):
                self.router.check()
            return [self.take(single) for single in messages.singles]
        taken: list[Taken] = []
        done = 0
        while done < len(run.payloads):
            size = len(run.payloads[done]) + len(run.user_headers)
            batch = self._batch_for(messages.place, size, run.origin_timestamp)
            first = batch.count
            count = self._accumulator.add_run(batch, run, done)
            taken.append(Taken(batch, first, count))
            done += count
        return taken

    def _batch_for(self, place: Place, size: int, time: int) -> Batch:
        """The batch that a message of this size and this origin timestamp goes into."""
        begun = self._accumulator.begun
        target: Target = place.partition
        if target is None and place.key is not None:
            target = self.router.of_key(place.key)
        elif target is None:
            batch = begun(self.router.turn, size, time)
            if batch is not None:
                return batch
            target = self.router.next_turn()
        batch = begun(target, size, time)
        if batch is None:
            batch = self._accumulator.begin(target, time, self._environment.monotonic())
        return batch
