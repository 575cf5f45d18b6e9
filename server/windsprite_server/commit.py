"""The one way a metadata command becomes durable and applied.

A command is admitted (may this node write?), given the next position and a time, appended to the
journal, applied to the state, and only then answered. One task does this for all commands that
wait, with one durable write for each group of them. What the state turns down is journaled as well,
as a command that changes nothing: whether it will be is known only when everything before it is
applied, and that is after the group was written.

Everything else that follows from a change is done here too: a new partition is ready before its
creation is answered; the files of one that is gone are removed later, and the state remembers them
until they are. So a crash in between neither leaks files nor deletes what metadata does not know.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.outcomes import NotNow, Rejected, Success
from windsprite_server.core.clock import Clock
from windsprite_server.core.log_setup import Logger
from windsprite_server.core.tasks import cancel_and_wait
from windsprite_server.journal import Entry, Journal, JournalError, JournalProblem, Snapshot
from windsprite_server.metadata import snapshot
from windsprite_server.metadata.apply import apply
from windsprite_server.metadata.commands import (
    Command,
    DeletePartitions,
    DeleteStream,
    DeleteTopic,
    DeleteUser,
    ForgetCondemned,
    PartitionPlace,
    PurgeStream,
    PurgeTopic,
)
from windsprite_server.metadata.effects import (
    Context,
    Effect,
    PartitionCondemned,
    PartitionOpened,
    UserDeleted,
)
from windsprite_server.metadata.encoding import EncodingError, decode, encode
from windsprite_server.metadata.state import State, Topic

_NOT_NOW: Final = NotNow(ErrorCode.TRANSIENT_NOT_ACCEPTED)
_RETRYABLE: Final = frozenset({JournalProblem.NOT_WRITTEN, JournalProblem.BUSY})
_CONDEMN: Final = (DeletePartitions, DeleteStream, DeleteTopic, PurgeStream, PurgeTopic)
# So many partitions are opened, or removed and forgotten, before others get their turn.
_OPENED_IN_ONE_GO: Final = 16
_FORGOTTEN_AT_ONCE: Final = 1000


class WriteGate(Protocol):
    """Whether this node may change metadata now; `cluster.Cluster` is one."""

    def may_write(self) -> bool:
        """Asked before each group of commands is written."""
        ...


class PartitionStore(Protocol):
    """What the logs of partitions have to do when metadata changes."""

    async def open(self, place: PartitionPlace, topic: Topic) -> None:
        """Make a new, empty partition ready for sends and polls.

        When it fails, it is called again later.
        """
        ...

    def condemn(self, place: PartitionPlace) -> None:
        """Show nothing of a partition any more: it is gone, and its files will be removed."""
        ...

    async def remove(self, place: PartitionPlace) -> None:
        """Delete the files of a partition that is gone; nothing to delete is no error.

        When it fails, it is called again later, after a restart too.
        """
        ...


@dataclass(frozen=True, slots=True)
class Committed:
    """A command was journaled and applied, or turned down by the state (and journaled, too).

    Attributes:
        position: Of the command in the journal; the `commit` of its reply.
        timestamp_us: When it was committed; grows strictly with the position.
        outcome: The reply value, or the number of the rejection.
    """

    position: int
    timestamp_us: int
    outcome: Success | Rejected


class CommitFailedError(Exception):
    """A write of the journal failed half-way: whether the command is durable is not known.

    It was not applied, and the committer takes no more commands. A restart finds out.
    """


@dataclass(frozen=True, slots=True)
class _Waiting:
    command: Command
    encoded: bytes
    user_id: int | None
    answer: asyncio.Future[Committed | NotNow]

    def tell(self, answer: Committed | NotNow) -> None:
        # Whoever waited may have been cancelled; the command is carried out all the same.
        if not self.answer.done():
            self.answer.set_result(answer)

    def fail(self, error: CommitFailedError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


async def recover(journal: Journal) -> State:
    """The state that a journal describes: its snapshot and all commands after it.

    Raises:
        JournalError: It cannot be read, or a later version wrote it; the error names the position.
    """
    stored = await journal.snapshot()
    state = State()
    if stored is not None:
        try:
            state = snapshot.restore(stored.state)
        except snapshot.SnapshotError as error:
            raise _newer(
                f"the snapshot at position {stored.position}", stored.position, error
            ) from error
        if state.position != stored.position:
            raise JournalError(
                JournalProblem.DAMAGED,
                f"the snapshot at position {stored.position} is one of {state.position}",
                stored.position,
            )
    async for entry in journal.replay(state.position):
        try:
            command = decode(entry.command)
        except EncodingError as error:
            raise _newer(
                f"the entry at position {entry.position}", entry.position, error
            ) from error
        apply(state, command, Context(entry.position, entry.timestamp_us, entry.user_id))
    if state.position != journal.last_position:
        raise JournalError(
            JournalProblem.DAMAGED,
            f"the journal ends at position {journal.last_position}, "
            f"but its entries end at {state.position}",
            state.position,
        )
    return state


class Committer:
    """Commits metadata commands, one group after the other."""

    def __init__(
        self,
        journal: Journal,
        state: State,
        clock: Clock,
        cluster: WriteGate,
        partitions: PartitionStore,
        *,
        logger: Logger,
        listener: Callable[[Effect], None] | None = None,
        max_waiting: int = 1024,
        max_group: int = 256,
        snapshot_every: int = 10_000,
        snapshot_bytes: int = 64 * 1024 * 1024,
        max_condemned: int = 100_000,
        retry_interval: float = 1.0,
        position_floor: int = 0,
    ) -> None:
        """Take over a state; nothing else may change it from here on.

        Args:
            journal: Where commands go; `state` is what it described.
            state: The metadata; read it freely between two awaits.
            clock: Gives the times of commands. It may jump; their times never fall.
            cluster: Says whether this node may write.
            partitions: The logs; those of all live partitions are open already.
            logger: Told of everything that fails in the background.
            listener: Called with each effect of a command before the command is answered, in
                order. Must not raise.
            max_waiting: How many commands may wait; more are answered `NotNow`.
            max_group: How many commands are written at once at most.
            snapshot_every: After how many commands a new snapshot replaces the journal's entries.
            snapshot_bytes: The same for bytes of commands: a few may be as large as thousands.
            max_condemned: While files of so many partitions that are gone are still to be removed,
                no more partitions are purged or deleted: that is answered `NotNow`.
            retry_interval: Seconds until a partition that could not be opened or removed is
                tried again.
            position_floor: No command gets this position or a lower one. Give the highest
                incarnation found among files of partitions that the metadata does not know
                (an older journal was put back): a new partition must not get their place.
        """
        self._journal = journal
        self._state = state
        self._clock = clock
        self._cluster = cluster
        self._partitions = partitions
        self._logger = logger
        self._listener = listener
        self._max_waiting = max_waiting
        self._max_group = max_group
        self._snapshot_every = snapshot_every
        self._snapshot_bytes = snapshot_bytes
        self._max_condemned = max_condemned
        self._retry_interval = retry_interval
        self._position_floor = position_floor
        self._waiting: deque[_Waiting] = deque()
        self._arrived = asyncio.Event()
        self._unopened: dict[PartitionPlace, Topic] = {}
        self._unremoved: set[PartitionPlace] = set()
        self._untidy = asyncio.Event()
        self._snapshot_due = journal.snapshot_position + snapshot_every
        self._snapshot_due_bytes = snapshot_bytes
        self._writer: asyncio.Task[None] | None = None
        self._tidier: asyncio.Task[None] | None = None
        self._snapshot: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._is_refused_by_disk = False
        self._failure: str | None = None

    @property
    def position(self) -> int:
        """The position up to which metadata is applied: the `commit` of replies.

        Never goes back, also not across restarts.
        """
        return self._state.position

    @property
    def failure(self) -> str | None:
        """Why no command is taken any more until a restart; `None` while all is well."""
        return self._failure

    async def start(self) -> None:
        """Begin to take commands, and to remove what earlier ones condemned."""
        self._writer = asyncio.create_task(self._write(), name="commit")
        self._tidier = asyncio.create_task(self._tidy(), name="commit tidy")
        if self._state.condemned:
            self._untidy.set()

    async def stop(self) -> None:
        """Commit what waits, refuse what comes, and end. The journal stays open."""
        self._is_stopping = True
        self._arrived.set()
        if self._writer is not None:
            await self._writer
        await cancel_and_wait(self._tidier)
        if self._snapshot is not None:
            await self._snapshot

    async def execute(self, command: Command, user_id: int | None) -> Committed | NotNow:
        """Commit a command. Commands are committed in the order of these calls.

        A caller that is cancelled no longer hears of its command, which is carried out once all
        the same.

        Args:
            command: What to change.
            user_id: The acting user, whose permissions are checked when it is applied; `None` is
                the server itself, which may do everything.

        Returns:
            How it ended; `NotNow` if it was not executed and may be tried again.

        Raises:
            CommitFailedError: Whether the command is durable is not known.
            EncodingError: The command holds a text that is no Unicode.
        """
        encoded = encode(command)
        if not self._is_taking or len(self._waiting) >= self._max_waiting:
            return _NOT_NOW
        answer: asyncio.Future[Committed | NotNow] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(command, encoded, user_id, answer))
        self._arrived.set()
        return await answer

    @property
    def _is_taking(self) -> bool:
        return self._writer is not None and not self._is_stopping and self._failure is None

    # The writer

    async def _write(self) -> None:
        while not (self._is_stopping and not self._waiting):
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                group = self._next_group()
                if group:
                    await self._handle(group)

    def _next_group(self) -> list[_Waiting]:
        """The commands to be written next; one that deletes a user is the last of its group."""
        group: list[_Waiting] = []
        may_condemn = len(self._state.condemned) < self._max_condemned
        while self._waiting and len(group) < self._max_group:
            waiting = self._waiting.popleft()
            if isinstance(waiting.command, _CONDEMN) and not may_condemn:
                waiting.tell(_NOT_NOW)
                continue
            group.append(waiting)
            if isinstance(waiting.command, DeleteUser):
                break
        return group

    async def _handle(self, group: list[_Waiting]) -> None:
        if self._failure is not None or not self._cluster.may_write():
            _tell_all(group, _NOT_NOW)
            return
        try:
            await self._commit(group)
        except JournalError as error:
            if error.problem in _RETRYABLE:
                self._note_disk(str(error))
                _tell_all(group, _NOT_NOW)
            else:
                self._fail(group, str(error))
        except Exception as error:
            # A defect of ours. State and journal may differ now: go on with neither.
            self._logger.exception("a metadata command could not be applied")
            self._fail(group, f"a metadata command could not be applied: {error!r}")

    async def _commit(self, group: list[_Waiting]) -> None:
        first = max(self._state.position, self._position_floor) + 1
        time = max(self._clock.now_us(), self._state.timestamp_us + 1)
        entries = [
            Entry(first + number, time + number, waiting.user_id, waiting.encoded)
            for number, waiting in enumerate(group)
        ]
        await self._journal.append(entries)
        self._note_disk(None)
        for waiting, entry in zip(group, entries, strict=True):
            context = Context(entry.position, entry.timestamp_us, entry.user_id)
            applied = apply(self._state, waiting.command, context)
            await self._follow_up(applied.effects)
            waiting.tell(Committed(entry.position, entry.timestamp_us, applied.outcome))
        if self._is_snapshot_due and (self._snapshot is None or self._snapshot.done()):
            # Unless this one succeeds, that is when it is tried again.
            self._snapshot_due = self._state.position + self._snapshot_every
            self._snapshot_due_bytes = self._journal.command_bytes + self._snapshot_bytes
            self._snapshot = asyncio.create_task(self._take_snapshot(), name="commit snapshot")

    async def _follow_up(self, effects: Iterable[Effect]) -> None:
        opened = 0
        for effect in effects:
            if isinstance(effect, PartitionOpened):
                if not await self._open(effect.place, effect.topic):
                    self._unopened[effect.place] = effect.topic
                    self._untidy.set()
                opened += 1
                if opened % _OPENED_IN_ONE_GO == 0:
                    await self._clock.sleep(0)
            elif isinstance(effect, PartitionCondemned):
                self._unopened.pop(effect.place, None)
                self._partitions.condemn(effect.place)
                self._untidy.set()
            elif isinstance(effect, UserDeleted):
                self._turn_away(effect.user_id)
            if self._listener is not None:
                self._listener(effect)

    def _turn_away(self, user_id: int) -> None:
        """Forget what a deleted user still wanted: its id may come again, for somebody else."""
        _tell_all([each for each in self._waiting if each.user_id == user_id], _NOT_NOW)
        self._waiting = deque(each for each in self._waiting if each.user_id != user_id)

    async def _open(self, place: PartitionPlace, topic: Topic) -> bool:
        try:
            await self._partitions.open(place, topic)
        except Exception:
            if place not in self._unopened:  # else it was told before
                self._logger.exception("a new partition could not be opened", place=place)
            return False
        return True

    def _note_disk(self, refusal: str | None) -> None:
        # Clients repeat what was refused many times a second: only changes are worth a line.
        if refusal is not None and not self._is_refused_by_disk:
            self._logger.error("metadata cannot be written; it is tried again", reason=refusal)
        elif refusal is None and self._is_refused_by_disk:
            self._logger.info("metadata can be written again")
        self._is_refused_by_disk = refusal is not None

    def _fail(self, group: list[_Waiting], reason: str) -> None:
        self._failure = reason
        self._logger.error(
            "no metadata can be changed until the server is restarted", reason=reason
        )
        error = CommitFailedError(reason)
        for waiting in group:
            waiting.fail(error)

    @property
    def _is_snapshot_due(self) -> bool:
        return (
            self._state.position >= self._snapshot_due
            or self._journal.command_bytes >= self._snapshot_due_bytes
        )

    async def _take_snapshot(self) -> None:
        frozen = snapshot.freeze(self._state)
        try:
            encoded = await asyncio.to_thread(snapshot.encode, frozen)
            await self._journal.store_snapshot(Snapshot(frozen.position, encoded))
            self._snapshot_due_bytes = self._snapshot_bytes
        except Exception:
            # All entries are still there; the next one is due as if this one had succeeded.
            self._logger.exception("no snapshot was taken", position=frozen.position)

    # Partitions in the background

    async def _tidy(self) -> None:
        while self._failure is None:
            await self._untidy.wait()
            self._untidy.clear()
            opened = await self._open_again()
            removed = await self._remove_condemned()
            if not (opened and removed):
                await self._clock.sleep(self._retry_interval)
                self._untidy.set()

    async def _open_again(self) -> bool:
        """Open what could not be opened; returns whether nothing is left."""
        for place, topic in list(self._unopened.items()):
            # What is condemned meanwhile is no longer there, and must not be opened any more.
            if place in self._unopened and await self._open(place, topic):
                self._unopened.pop(place, None)
        return not self._unopened

    async def _remove_condemned(self) -> bool:
        """Remove files of condemned partitions; returns whether it worked for all it tried."""
        removed: list[PartitionPlace] = []
        worked = True
        for place in list(self._state.condemned):
            try:
                await self._partitions.remove(place)
            except Exception:
                if place not in self._unremoved:  # else it was told before
                    self._unremoved.add(place)
                    self._logger.exception("files of a partition could not be removed", place=place)
                worked = False
                continue
            self._unremoved.discard(place)
            removed.append(place)
            if len(removed) == _FORGOTTEN_AT_ONCE:
                self._untidy.set()
                break
        if removed:
            try:
                answer = await self.execute(ForgetCondemned(tuple(removed)), None)
            except CommitFailedError:
                return False
            worked = worked and isinstance(answer, Committed)
        return worked


def _tell_all(group: list[_Waiting], answer: NotNow) -> None:
    for waiting in group:
        waiting.tell(answer)


def _newer(what: str, position: int, error: Exception) -> JournalError:
    # Its checksum is right, so this is what was written, by a version that says more than ours.
    return JournalError(
        JournalProblem.NEWER_FORMAT, f"{what} is nothing that this version knows: {error}", position
    )
