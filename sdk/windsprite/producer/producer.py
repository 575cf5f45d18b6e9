"""The producer: takes messages, sends them in batches, and says what became of each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from types import TracebackType
from typing import Final, Self, cast

from windsprite.address import RetryMode
from windsprite.caller import Caller
from windsprite.environment import Environment
from windsprite.errors import (
    BufferFull,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    PermissionDenied,
    ProducerClosed,
    WindspriteError,
)
from windsprite.messages import Headers
from windsprite.producer.accumulator import MESSAGE_COST, Accumulator, Batch, Original
from windsprite.producer.delivery import Delivered, Deliveries, Delivery, Part
from windsprite.producer.encoding import as_sent
from windsprite.producer.failures import FailureLog
from windsprite.producer.intake import Intake, Taken
from windsprite.producer.options import FailedBatch, NewTopic, ProducerOptions
from windsprite.producer.places import Admin, count_partitions, find_or_create
from windsprite.producer.room import Room
from windsprite.producer.routing import Router
from windsprite.producer.sending import BatchSender, encoded
from windsprite.retries import Safety
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.identifiers import Identifier

logger = logging.getLogger("windsprite")

_REFRESH_PAUSE: Final = 1.0
"""Seconds between two looks at the topic, at least, however many sends miss their partition."""


class Producer:
    """Sends messages to a topic; made by `Client.producer`, and used in one event loop.

        async with client.producer("orders", "events") as producer:
            delivery = await producer.send(b"payload", key="customer-7")
            placed = await delivery

    Leaving the block sends what was accepted and waits until all of it is settled, whatever the
    block ends with, a cancellation included; so does `aclose`. Who is cancelled while waiting there
    stops that: what was not sent yet fails with `ProducerClosed`, and what was on its way with
    `OutcomeUnknown`.
    """

    def __init__(
        self,
        stream: Identifier,
        topic: Identifier,
        options: ProducerOptions,
        *,
        admin: Admin,
        caller: Caller,
        environment: Environment,
        client_retry: RetryMode,
    ) -> None:
        self.stream: Final = stream
        self.topic: Final = topic
        self._options = options
        self._admin = admin
        self._environment = environment
        self._accumulator = Accumulator(
            max_messages=options.batch_messages,
            max_bytes=options.batch_bytes,
            linger=0.0 if options.mode == "direct" else options.linger,
        )
        self._intake = Intake(options, environment, self._accumulator)
        self._room = Room(options.buffer_bytes)
        retry = options.retry or client_retry
        self._sender = BatchSender(
            caller,
            environment,
            stream,
            topic,
            safety=Safety.AT_LEAST_ONCE if retry == "at-least-once" else Safety.WRITE,
            time_limit=options.delivery_timeout,
        )
        self._failures = FailureLog(environment, f"{topic!r} in {stream!r}")
        self._report = self._failures.note if options.on_error is None else None
        self._tasks: dict[asyncio.Task[None], Batch] = {}
        self._timer: asyncio.Handle | None = None
        self._rings_at = 0.0
        self._is_waking = False
        self._owes_a_turn = False
        self._is_started = False
        self._is_closed = False
        self._refresher: asyncio.Task[None] | None = None
        self._look_again = asyncio.Event()

    def __repr__(self) -> str:
        return f"<windsprite.Producer {self.stream!r} {self.topic!r}>"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    @property
    def partitions(self) -> int | None:
        """How many partitions the topic had when it was last looked at.

        None: the producer was not started, or its user may send to the topic, but not look at it.
        The server finds the partitions of keys and turns then.
        """
        return self._intake.router.partitions

    @property
    def buffered_messages(self) -> int:
        """How many messages were accepted and are not settled."""
        return len(self._accumulator)

    @property
    def buffered_bytes(self) -> int:
        """How many of the `buffer_bytes` they take."""
        return self._room.used

    async def start(self) -> None:
        """Find the topic, or make it; entering the block does this. Does nothing the second time.

        Raises:
            NotFound: There is no such topic, and it was not to be made.
            PermissionDenied: The user may not make it; or may not look at it, and there is a
                partitioner, which has to be told how many partitions there are.
            ProducerClosed: The producer was closed.
        """
        self._check_open()
        if self._is_started:
            return
        create = self._options.create
        if create is False:
            partitions = await count_partitions(self._admin, self.stream, self.topic)
        else:
            new_topic = create if isinstance(create, NewTopic) else NewTopic()
            partitions = await find_or_create(self._admin, self.stream, self.topic, new_topic)
        self._check_open()
        if partitions is None and self._options.partitioner is not None:
            raise PermissionDenied(
                "producer: this user may not look at the topic, which a partitioner needs",
                code=ErrorCode.UNAUTHORIZED,
            )
        if self._is_started:
            return
        # Producers that come and go should not all begin with the same partition.
        first = int(self._environment.uniform(0, partitions or 0))
        self._intake.router = Router(partitions, first)
        self._is_started = True
        if partitions is not None:
            self._refresher = asyncio.create_task(self._refresh(), name="windsprite-producer")

    # --- Sending -----------------------------------------------------------------------------

    async def send(
        self,
        message: Original,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
    ) -> Delivery:
        """Accept a message; it is sent soon, together with others.

        Waits while there is no room for it, as `when_full` says. Cancelled meanwhile, it leaves no
        trace. In `direct` mode it waits until the message is stored; cancelled meanwhile, the
        message may be stored or not.

        Args:
            message: Text is sent as UTF-8.
            key: 1 to 255 bytes; messages with the same key go to the same partition, in their
                order, as long as the number of partitions stays.
            partition: The partition itself.
            headers: For a message that has none of its own.

        Returns:
            What becomes of the message; await it to know.

        Raises:
            InvalidRequest: The message is too large, or makes no sense.
            BufferFull: There is no room.
            NotFound: The topic has no partitions.
            ProducerClosed: The producer was closed.
            WindspriteError: In `direct` mode, what became of it.
        """
        self._check_usable()
        prepared = self._intake.prepare(message, key, partition, headers)
        cost = MESSAGE_COST + prepared.size
        if self._owes_a_turn or not self._room.take_at_once(cost):
            await self._wait_for_room(cost)
        try:
            taken = self._intake.take(prepared)
        except NotFound:  # the topic has lost its partitions
            self._room.give(cost)
            raise
        self._note(taken)
        delivery = Delivery(taken.batch.outcome, taken.first)
        if self._options.mode == "direct":
            await delivery
        return delivery

    async def send_and_wait(
        self,
        message: Original,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
    ) -> Delivered:
        """Send a message and wait until it is stored; `linger` counts, unless others fill a batch.

        Args:
            message: As in `send`.
            key: As in `send`.
            partition: As in `send`.
            headers: As in `send`.

        Returns:
            Where it is stored.

        Raises:
            WindspriteError: As `send` and the delivery do.
        """
        return await (await self.send(message, key=key, partition=partition, headers=headers))

    async def send_many(
        self,
        messages: Iterable[Original],
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
    ) -> Deliveries:
        """Accept messages, all of them or none, in their order.

        They may go in several batches, to several partitions if there is neither a key nor a
        partition. In `direct` mode it waits until all are settled; each delivery tells of its own.

        Args:
            messages: Any number; together they have to fit into `buffer_bytes`.
            key: As in `send`, for all of them.
            partition: As in `send`, for all of them.
            headers: As in `send`.

        Returns:
            One delivery for each message, as a sequence that can be waited for as a whole.

        Raises:
            WindspriteError: As `send`; none of them was accepted.
        """
        self._check_usable()
        if isinstance(messages, bytes | str):
            raise InvalidRequest(
                "send: the messages have to be a list", hint="`send` takes a single message"
            )
        prepared = self._intake.prepare_many(messages, key, partition, headers)
        cost = prepared.cost
        if not cost:
            return Deliveries(())
        if self._owes_a_turn or not self._room.take_at_once(cost):
            await self._wait_for_room(cost)
        try:
            all_taken = self._intake.take_many(prepared)
        except NotFound:
            # The topic has lost its partitions: none of the messages was taken in.
            self._room.give(cost)
            raise
        for taken in all_taken:
            self._note(taken)
        deliveries = Deliveries(
            [Part(batch.outcome, first, length) for batch, first, length in all_taken]
        )
        if self._options.mode == "direct":
            await deliveries.wait()
        return deliveries

    async def flush(self) -> None:
        """Send what was accepted before without lingering, and wait until it is settled.

        Failures are no matter of this call: deliveries and `on_error` tell of them.
        """
        self._accumulator.hurry()
        self._wake()
        for batch in self._accumulator.last_batches():
            await batch.outcome.wait()

    async def aclose(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - see below
        """Accept nothing more, send what was accepted, and wait until it is settled.

        It may be called more than once. Whoever waits in `send` for room is sent away.

        Args:
            timeout: After so many seconds the rest is given up: what was not sent fails with
                `ProducerClosed`, what is on its way with `OutcomeUnknown`. None: `delivery_timeout`
                gives up what cannot be sent.
        """
        self._is_closed = True
        self._room.close(_closed())
        try:
            async with asyncio.timeout(timeout):
                await self.flush()
        except TimeoutError:
            logger.warning("%r: closed before all was sent", self)
        finally:
            await self._end()

    # --- Inside: accepting ---------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._is_closed:
            raise _closed()

    def _check_usable(self) -> None:
        if self._is_closed:
            raise _closed()
        if not self._is_started:
            raise InvalidRequest(
                "producer: it was not started", hint="use `async with`, or await `start()`"
            )

    def _note(self, taken: Taken) -> None:
        """See to it that a batch that took messages in is sent in time."""
        if taken.batch.is_full:
            self._owes_a_turn = True
            self._wake()
        elif taken.first == 0:
            self._wake()

    async def _wait_for_room(self, cost: int) -> None:
        """Take room as soon as there is some, and not before batches that are full may go.

        A caller that never waits for anything itself would keep all others from running.
        """
        if self._owes_a_turn:
            self._owes_a_turn = False
            await self._environment.sleep(0)
            self._check_open()
            if self._room.take_at_once(cost):
                return
        when_full = self._options.when_full
        if cost > self._options.buffer_bytes:
            raise InvalidRequest(
                f"send: these messages take {cost:,} bytes together, "
                f"buffer_bytes is {self._options.buffer_bytes:,}",
                code=ErrorCode.BACKGROUND_SEND_BUFFER_OVERFLOW,
                hint="send them in parts, or give the producer more buffer_bytes",
            )
        if when_full == "fail":
            raise BufferFull(
                "send: the buffer of the producer is full",
                code=ErrorCode.BACKGROUND_SEND_BUFFER_OVERFLOW,
            )
        self._accumulator.hurry()
        self._wake()
        try:
            await self._room.take(cost, None if isinstance(when_full, str) else when_full)
        except TimeoutError:
            raise BufferFull(
                f"send: the buffer of the producer was full for {when_full:g} seconds",
                code=ErrorCode.BACKGROUND_SEND_TIMEOUT,
            ) from None
        if self._is_closed:
            self._room.give(cost)
            raise _closed()

    # --- Inside: sending -----------------------------------------------------------------------

    def _wake(self) -> None:
        """Look for batches to be sent as soon as whoever runs now is done."""
        if not self._is_waking:
            self._is_waking = True
            asyncio.get_running_loop().call_soon(self._send_batches)

    def _send_batches(self) -> None:
        self._is_waking = False
        if self._room.is_wanted:
            self._accumulator.hurry()
        now = self._environment.monotonic()
        while self._may_send and (batch := self._accumulator.take(now)):
            task = asyncio.create_task(self._send_and_go_on(batch))
            self._tasks[task] = batch
            task.add_done_callback(self._sent)
        if self._may_send:  # if not, the next answer leads back here
            self._set_timer()

    @property
    def _may_send(self) -> bool:
        return len(self._tasks) < self._options.max_in_flight

    def _set_timer(self) -> None:
        when = self._accumulator.next_time()
        if self._timer is not None:
            if when is not None and self._rings_at <= when and not self._timer.cancelled():
                return
            self._timer.cancel()
            self._timer = None
        if when is not None:
            self._timer = self._environment.call_at(when, self._timer_rang)
            self._rings_at = when

    def _timer_rang(self) -> None:
        self._timer = None
        self._send_batches()

    async def _send_and_go_on(self, batch: Batch | None) -> None:
        """Send a batch, and then others for as long as there are some.

        Whoever hears of an answer may have a lot to do; the server should have the next batch
        before that, and work meanwhile.
        """
        task = cast("asyncio.Task[None]", asyncio.current_task())
        while batch is not None:
            self._tasks[task] = batch
            asyncio.get_running_loop().call_soon(self._encode_following, batch)
            await self._send(batch)
            if self._room.is_wanted:
                self._accumulator.hurry()
            batch = self._accumulator.take(self._environment.monotonic())
            self._wake()

    def _encode_following(self, batch: Batch) -> None:
        """Encode the next batch of a lane while the server has this one."""
        following = self._accumulator.following(batch)
        if following is not None:
            encoded(following)

    async def _send(self, batch: Batch) -> None:
        try:
            confirmation = await self._sender.send(batch)
        except WindspriteError as error:
            if isinstance(error, NotFound):
                self._look_again.set()
            self._failed(batch, error)
        except asyncio.CancelledError:
            # By `aclose`; or by the event loop, whose end nobody should hold up.
            self._give_up()
            self._failed(batch, OutcomeUnknown("send: the producer was closed before the answer"))
            raise
        except Exception as error:
            logger.exception("a batch failed unexpectedly")
            self._failed(batch, error)
        else:
            self._free(batch)
            if confirmation is None:
                partition = batch.target if isinstance(batch.target, int) else None
                batch.outcome.succeed(partition, None)
            else:
                batch.outcome.succeed(confirmation.partition_id, confirmation.base_offset)

    def _sent(self, task: asyncio.Task[None]) -> None:
        batch = self._tasks.pop(task)
        if not batch.outcome.settled:  # cancelled before it ran
            self._give_up()
            self._failed(batch, _closed())
        if not task.cancelled():
            self._wake()

    def _failed(self, batch: Batch, error: Exception) -> None:
        """A batch that was handed out is not stored, or nobody knows."""
        self._free(batch)
        self._fail(batch, error)

    def _free(self, batch: Batch) -> None:
        """Make room; before anybody learns of it, who may want to send more."""
        self._accumulator.settled(batch)
        self._room.give(batch.cost)

    def _fail(self, batch: Batch, error: Exception) -> None:
        batch.outcome.fail(error, batch.count, self._report)
        if self._options.on_error is None:
            return
        partition = batch.target if isinstance(batch.target, int) else None
        messages = tuple(map(as_sent, batch.frames, batch.originals))
        try:
            self._options.on_error(FailedBatch(self.stream, self.topic, partition, messages, error))
        except Exception:
            logger.exception("on_error of %r failed", self)

    def _give_up(self) -> None:
        """Accept nothing more, and let go what was not sent yet."""
        self._is_closed = True
        self._room.close(_closed())
        for batch in self._accumulator.give_up():
            self._room.give(batch.cost)
            self._fail(batch, _closed())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _end(self) -> None:
        """Give up what is left, and leave nothing behind."""
        self._give_up()
        tasks: set[asyncio.Task[None]] = set(self._tasks)
        if self._refresher is not None:
            tasks.add(self._refresher)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._failures.tell()

    # --- Inside: partitions --------------------------------------------------------------------

    async def _refresh(self) -> None:
        """Follow the number of partitions."""
        while True:
            try:
                async with asyncio.timeout(self._options.refresh_interval):
                    await self._look_again.wait()
            except TimeoutError:
                pass
            self._look_again.clear()
            try:
                partitions = await count_partitions(self._admin, self.stream, self.topic)
            except WindspriteError as error:
                logger.info("cannot count the partitions of %r: %s", self.topic, error)
            except Exception:
                logger.exception("a look at the partitions of %r failed unexpectedly", self.topic)
            else:
                if partitions is not None:
                    self._intake.router.partitions = partitions
            await self._environment.sleep(_REFRESH_PAUSE)


def _closed() -> ProducerClosed:
    return ProducerClosed("the producer is closed", code=ErrorCode.PRODUCER_CLOSED)
