"""Commands become durable, then applied, then answered; in this order and once."""

import asyncio
import io
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.clock import ManualClock
from support.journal import entries as plain_entries
from support.metadata import RecordingPartitions, image, topic_of
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.outcomes import NotNow, Rejected, Success
from windsprite_protocol.model.permissions import Permissions, StreamPermissions
from windsprite_server.commit import CommitFailedError, Committed, Committer, recover
from windsprite_server.core.failure_points import FailurePoints
from windsprite_server.core.log_setup import make_logger
from windsprite_server.journal import Entry, JournalError, JournalProblem, Snapshot
from windsprite_server.journal.sqlite import SqliteJournal
from windsprite_server.metadata import commands as c
from windsprite_server.metadata.commands import Command, PartitionPlace
from windsprite_server.metadata.effects import Effect, PartitionOpened, UserDeleted
from windsprite_server.metadata.encoding import EncodingError, encode
from windsprite_server.metadata.queries import live_partitions
from windsprite_server.metadata.state import State

NOT_NOW = NotNow(ErrorCode.TRANSIENT_NOT_ACCEPTED)


class Leadership:
    def __init__(self) -> None:
        self.is_mine = True

    def may_write(self) -> bool:
        return self.is_mine


class Node:
    """A committer and everything around it, on a journal in a directory."""

    def __init__(self, path: Path, clock: ManualClock | None = None, **settings: Any) -> None:
        self.path = path / "journal.db"
        self.clock = clock or ManualClock()
        self.cluster = Leadership()
        self.points = FailurePoints()
        self.log = io.StringIO()
        self.effects: list[Effect] = []
        self.settings = settings

    async def start(self) -> None:
        self.journal = await SqliteJournal.open(
            self.path, create=not self.path.exists(), points=self.points
        )
        self.state = await recover(self.journal)
        self.partitions = RecordingPartitions(place for place, _ in live_partitions(self.state))
        self.committer = Committer(
            self.journal,
            self.state,
            self.clock,
            self.cluster,
            self.partitions,
            logger=make_logger(log_format="json", level="debug", stream=self.log, clock=self.clock),
            listener=self.effects.append,
            **self.settings,
        )
        await self.committer.start()

    async def stop(self) -> None:
        await self.committer.stop()
        await self.journal.close()

    async def do(self, command: Command, user: int | None = None) -> Committed:
        answer = await self.committer.execute(command, user)
        assert isinstance(answer, Committed), answer
        assert isinstance(answer.outcome, Success), answer
        return answer

    async def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(10_000):
            if condition():
                return
            await asyncio.sleep(0.001)
        raise AssertionError(self.log.getvalue())


@asynccontextmanager
async def running(path: Path, **settings: Any) -> AsyncIterator[Node]:
    node = Node(path, **settings)
    await node.start()
    try:
        yield node
    finally:
        await node.stop()


async def journaled(path: Path) -> State:
    """The state as the next start sees it."""
    journal = await SqliteJournal.open(path / "journal.db", create=False)
    state = await recover(journal)
    await journal.close()
    return state


def failure(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("injected")
    error.sqlite_errorcode = code
    return error


# What a caller sees


async def test_a_command_is_answered_when_it_is_durable_and_applied(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        answer = await node.do(c.CreateStream("s"))
        assert answer.position == node.committer.position == node.journal.last_position == 1
        assert answer.timestamp_us == node.clock.now_us()
        assert answer.outcome.value.stream.created_at == answer.timestamp_us
    assert (await journaled(tmp_path)).stream_ids == {"s": 0}


async def test_a_rejection_is_an_answer_and_takes_a_position(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await node.do(c.CreateStream("s"))
        answer = await node.committer.execute(c.CreateStream("s"), None)
        assert answer == Committed(
            2, node.clock.now_us() + 1, Rejected(ErrorCode.STREAM_NAME_ALREADY_EXISTS)
        )
    assert (await journaled(tmp_path)).position == 2


async def test_the_acting_user_counts_also_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await node.do(c.CreateRoot("iggy", "h"))
        await node.do(c.CreateStream("by root"), 0)
        answer = await node.committer.execute(c.CreateStream("by nobody"), 5)
        assert isinstance(answer, Committed)
        assert answer.outcome == Rejected(ErrorCode.UNAUTHORIZED)
        before = image(node.state)
    assert image(await journaled(tmp_path)) == before


async def test_commands_that_wait_are_written_together_in_their_order(tmp_path: Path) -> None:
    async with running(tmp_path, max_group=4) as node:
        appends = node.points.arm("journal.append", lambda: None)
        answers = await asyncio.gather(
            *(node.do(c.CreateStream(f"s{number}")) for number in range(10))
        )
        assert appends.reached < 10
        assert [answer.position for answer in answers] == list(range(1, 11))
        assert [answer.outcome.value.stream.id for answer in answers] == list(range(10))
        times = [answer.timestamp_us for answer in answers]
        assert times == sorted(set(times))


async def test_a_partition_is_open_before_its_creation_is_answered(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await node.do(c.CreateStream("s"))
        for command in (
            topic_of("s", "t", 40),
            c.CreatePartitions("s", "t", 2),
            c.PurgeTopic("s", "t"),
            c.PurgeStream("s"),
        ):
            await node.do(command)
            live = {place for place, _ in live_partitions(node.state)}
            assert live <= node.partitions.open_places


async def test_every_effect_is_told_in_order(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await node.do(c.CreateRoot("iggy", "h"))
        await node.do(c.CreateUser("alice", "h", 1))
        await node.do(c.CreateStream("s"))
        await node.do(topic_of("s", "t", 1))
        await node.do(c.DeleteUser("alice"))
        assert [type(effect) for effect in node.effects] == [PartitionOpened, UserDeleted]


async def test_a_deleted_user_acts_no_more_under_an_id_that_came_again(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await node.do(c.CreateRoot("iggy", "h"))
        await node.do(c.CreateUser("alice", "h", 1))
        await node.do(c.CreateUser("carol", "h", 1))
        # All of these wait at the same time.
        answers = await asyncio.gather(
            node.committer.execute(c.CreateToken("before", "t1"), 1),
            node.committer.execute(c.DeleteUser("alice"), 0),
            node.committer.execute(c.CreateUser("bob", "h", 1), 0),
            node.committer.execute(c.CreateToken("after", "t2"), 1),
            node.committer.execute(c.CreateToken("carol's", "t3"), 2),
        )
        assert answers[3] == NOT_NOW
        for answer in (*answers[:3], answers[4]):
            assert isinstance(answer, Committed)
            assert isinstance(answer.outcome, Success)
        assert node.state.user_ids["bob"] == 1
        assert set(node.state.token_owners) == {"t3"}
        await node.do(c.CreateToken("bob's", "t4"), 1)
        before = image(node.state)
    assert image(await journaled(tmp_path)) == before


async def test_a_text_that_is_no_unicode_is_the_callers_fault(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        with pytest.raises(EncodingError):
            await node.committer.execute(c.CreateStream("\udc00"), None)
        assert (await node.do(c.CreateStream("s"))).position == 1


# Time and position


async def test_times_grow_though_the_clock_goes_back(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock=clock) as node:
        first = await node.do(c.CreateStream("a"))
        clock.set_wall_clock(clock.now_us() - 3_600_000_000)
        second = await node.do(c.CreateStream("b"))
        assert second.timestamp_us == first.timestamp_us + 1
    async with running(tmp_path, clock=clock) as node:
        third = await node.do(c.CreateStream("c"))
        assert third.timestamp_us == first.timestamp_us + 2
        clock.set_wall_clock(clock.now_us() + 86_400_000_000)
        fourth = await node.do(c.CreateStream("d"))
        assert fourth.timestamp_us == clock.now_us()
        clock.set_wall_clock(0)
        assert (await node.do(c.CreateStream("e"))).timestamp_us == fourth.timestamp_us + 1


async def test_positions_go_on_after_a_restart(tmp_path: Path) -> None:
    for start in range(3):
        async with running(tmp_path, snapshot_every=2) as node:
            assert node.committer.position == start * 3
            for number in range(3):
                position = (await node.do(c.CreateStream(f"{start}.{number}"))).position
                assert position == start * 3 + number + 1


async def test_positions_begin_above_a_floor(tmp_path: Path) -> None:
    """Files of partition lives up to there exist that this journal knows nothing of."""
    async with running(tmp_path) as node:
        await node.do(c.CreateStream("s"))
    async with running(tmp_path, position_floor=100) as node:
        assert node.committer.position == 1
        assert (await node.do(topic_of("s", "t"))).position == 101
        assert node.partitions.open_places == {PartitionPlace(0, 0, 0, 101)}
        assert (await node.do(c.NoOperation())).position == 102
    assert (await journaled(tmp_path)).position == 102


# Restart


async def test_a_restart_gives_the_same_state_byte_for_byte(tmp_path: Path) -> None:
    images = []
    for start in range(4):
        async with running(tmp_path, snapshot_every=7) as node:
            if images:
                assert image(node.state) == images[-1]
            for number in range(10):
                await node.do(c.CreateStream(f"{start}.{number}"))
                await node.do(topic_of(f"{start}.{number}", "t", number))
            images.append(image(node.state))
            await node.until(lambda: node.journal.snapshot_position > 0)
    journal = await SqliteJournal.open(tmp_path / "journal.db", create=False)
    assert journal.last_position - journal.snapshot_position < 30
    await journal.close()


async def test_a_snapshot_is_taken_again_and_again_while_commands_go_on(tmp_path: Path) -> None:
    async with running(tmp_path, snapshot_every=5) as node:
        positions = set()
        # On a slow machine many commands come before a snapshot is stored.
        while len(positions) < 5 or node.journal.snapshot_position < 50:
            await node.do(c.CreateStream(f"s{node.committer.position}"))
            positions.add(node.journal.snapshot_position)
            assert node.committer.position < 5000


def large_command(number: int) -> Command:
    """Some 6000 bytes in the journal."""
    grants = tuple(StreamPermissions(stream_id) for stream_id in range(40))
    return c.UpdatePermissions(f"user {number}", Permissions(streams=grants))


async def test_a_few_large_commands_make_a_snapshot_due_as_many_small_ones_do(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, snapshot_bytes=50_000) as node:
        for number in range(100):
            # Rejected, since there are no users; what is rejected takes room as well.
            await node.committer.execute(large_command(number), None)
            await node.until(lambda: node.journal.command_bytes < 100_000)
        assert node.journal.snapshot_position > 50
        before = image(node.state)
    assert image(await journaled(tmp_path)) == before


async def test_bytes_of_commands_count_over_restarts(tmp_path: Path) -> None:
    for _ in range(30):
        async with running(tmp_path, snapshot_bytes=50_000) as node:
            await node.committer.execute(large_command(0), None)
            assert node.journal.command_bytes < 100_000
    assert node.journal.snapshot_position > 10


async def test_a_failed_snapshot_of_large_commands_is_tried_again_after_more_of_them(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, snapshot_bytes=20_000) as node:
        node.points.arm("journal.snapshot", failure(sqlite3.SQLITE_FULL), times=1)
        tries = 0
        while node.journal.snapshot_position == 0:
            await node.committer.execute(large_command(0), None)
            tries += 1
            assert tries < 1000
        assert node.log.getvalue().count("no snapshot was taken") == 1
        assert tries > 5


async def test_a_failed_snapshot_is_told_and_tried_again(tmp_path: Path) -> None:
    async with running(tmp_path, snapshot_every=5) as node:
        node.points.arm("journal.snapshot", failure(sqlite3.SQLITE_FULL), times=1)
        for number in range(5):
            await node.do(c.CreateStream(f"s{number}"))
        await node.until(lambda: "no snapshot was taken" in node.log.getvalue())
        assert node.journal.snapshot_position == 0
        for number in range(5, 10):
            await node.do(c.CreateStream(f"s{number}"))
        await node.until(lambda: node.journal.snapshot_position > 0)
    assert len((await journaled(tmp_path)).streams) == 10


async def test_an_entry_of_a_later_version_is_named(tmp_path: Path) -> None:
    journal = await SqliteJournal.open(tmp_path / "journal.db", create=True)
    written = [
        Entry(1, 10, None, encode(c.CreateStream("s"))),
        Entry(2, 11, None, b'["create_planet",{"name":"mars"}]'),
    ]
    await journal.append(written)
    with pytest.raises(JournalError, match=r"position 2.*create_planet") as caught:
        await recover(journal)
    assert caught.value.problem is JournalProblem.NEWER_FORMAT
    assert caught.value.position == 2
    await journal.close()


@pytest.mark.parametrize(
    ("state", "problem"),
    [(b"no snapshot", JournalProblem.NEWER_FORMAT), (image(State()), JournalProblem.DAMAGED)],
)
async def test_a_snapshot_that_is_none_is_named(
    tmp_path: Path, state: bytes, problem: JournalProblem
) -> None:
    journal = await SqliteJournal.open(tmp_path / "journal.db", create=True)
    await journal.append(plain_entries(1, 3))
    await journal.store_snapshot(Snapshot(3, state))
    with pytest.raises(JournalError, match="position 3") as caught:
        await recover(journal)
    assert (caught.value.problem, caught.value.position) == (problem, 3)
    await journal.close()


# Refusals and failures


async def test_a_node_that_may_not_write_takes_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        node.cluster.is_mine = False
        assert await node.committer.execute(c.CreateStream("s"), None) == NOT_NOW
        node.cluster.is_mine = True
        assert (await node.do(c.CreateStream("s"))).position == 1


async def test_more_than_may_wait_are_refused(tmp_path: Path) -> None:
    async with running(tmp_path, max_waiting=3) as node:
        answers = await asyncio.gather(
            *(node.committer.execute(c.CreateStream(f"s{n}"), None) for n in range(5))
        )
        assert [isinstance(answer, Committed) for answer in answers] == [True] * 3 + [False] * 2
        assert answers[3:] == [NOT_NOW] * 2
        await node.do(c.CreateStream("room again"))


async def test_a_full_disk_refuses_until_there_is_room(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await node.do(c.CreateStream("a"))
        node.points.arm("journal.append.commit", failure(sqlite3.SQLITE_FULL))
        for _ in range(3):
            assert await node.committer.execute(c.CreateStream("b"), None) == NOT_NOW
        assert set(node.state.stream_ids) == {"a"}
        assert node.committer.position == 1
        assert node.committer.failure is None
        node.points.disarm("journal.append.commit")
        assert (await node.do(c.CreateStream("b"))).position == 2
        assert node.log.getvalue().count("metadata cannot be written") == 1
        assert node.log.getvalue().count("metadata can be written again") == 1
    assert set((await journaled(tmp_path)).stream_ids) == {"a", "b"}


@pytest.mark.parametrize(
    ("point", "survives"), [("journal.append.commit", False), ("journal.append.committed", True)]
)
async def test_after_a_doubtful_write_nothing_is_taken_until_a_restart(
    tmp_path: Path, point: str, *, survives: bool
) -> None:
    async with running(tmp_path) as node:
        await node.do(c.CreateStream("a"))
        node.points.arm(point, failure(sqlite3.SQLITE_IOERR_FSYNC), times=1)
        with pytest.raises(CommitFailedError):
            await node.committer.execute(c.CreateStream("b"), None)
        # What a restart could take back is not shown.
        assert set(node.state.stream_ids) == {"a"}
        assert node.committer.position == 1
        assert await node.committer.execute(c.CreateStream("c"), None) == NOT_NOW
        assert node.committer.failure is not None
        assert "until the server is restarted" in node.log.getvalue()
    async with running(tmp_path) as node:
        assert set(node.state.stream_ids) == ({"a", "b"} if survives else {"a"})
        await node.do(c.CreateStream("c"))


async def test_commands_behind_a_doubtful_write_are_refused(tmp_path: Path) -> None:
    async with running(tmp_path, max_group=2) as node:
        node.points.arm("journal.append.commit", failure(sqlite3.SQLITE_IOERR), times=1)
        answers = await asyncio.gather(
            *(node.committer.execute(c.CreateStream(f"s{n}"), None) for n in range(5)),
            return_exceptions=True,
        )
        assert [type(answer) for answer in answers] == [CommitFailedError] * 2 + [NotNow] * 3


async def test_a_caller_that_goes_away_neither_loses_nor_repeats_its_command(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as node:
        waiting = [
            asyncio.create_task(node.committer.execute(c.CreateStream(f"s{n}"), None))
            for n in range(3)
        ]
        await asyncio.sleep(0)
        waiting[1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting[1]
        assert [isinstance(await task, Committed) for task in (waiting[0], waiting[2])] == [
            True
        ] * 2
        assert set(node.state.stream_ids) == {"s0", "s1", "s2"}
    assert set((await journaled(tmp_path)).stream_ids) == {"s0", "s1", "s2"}


async def test_stopping_commits_what_waits_and_refuses_what_comes(tmp_path: Path) -> None:
    node = Node(tmp_path, max_group=2)
    await node.start()
    waiting = [
        asyncio.create_task(node.committer.execute(c.CreateStream(f"s{n}"), None)) for n in range(7)
    ]
    await asyncio.sleep(0)
    await node.stop()
    assert [type(await task) for task in waiting] == [Committed] * 7
    assert await node.committer.execute(c.CreateStream("late"), None) == NOT_NOW
    assert len((await journaled(tmp_path)).streams) == 7
    await node.committer.stop()


async def test_before_it_is_started_nothing_is_taken(tmp_path: Path) -> None:
    journal = await SqliteJournal.open(tmp_path / "journal.db", create=True)
    committer = Committer(
        journal,
        State(),
        ManualClock(),
        Leadership(),
        RecordingPartitions(),
        logger=make_logger(
            log_format="json", level="debug", stream=io.StringIO(), clock=ManualClock()
        ),
    )
    assert await committer.execute(c.CreateStream("s"), None) == NOT_NOW
    await committer.stop()
    await journal.close()


# Partitions in the background


async def test_files_of_what_is_gone_are_removed_and_forgotten(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await node.do(c.CreateStream("s"))
        await node.do(topic_of("s", "t", 3))
        await node.do(topic_of("s", "u", 1))
        await node.do(c.PurgeTopic("s", "t"))
        await node.do(c.DeleteTopic("s", "u"))
        await node.until(lambda: not node.state.condemned)
        assert sorted(node.partitions.removed) == [
            *(PartitionPlace(0, 0, number, 2) for number in range(3)),
            PartitionPlace(0, 1, 0, 3),
        ]
        assert node.partitions.open_places == {place for place, _ in live_partitions(node.state)}
    assert (await journaled(tmp_path)).condemned == set()


async def test_what_could_not_be_removed_is_tried_again_after_a_restart_too(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as node:
        await node.do(c.CreateStream("s"))
        await node.do(topic_of("s", "t", 2))
        node.partitions.failing = True
        await node.do(c.DeleteStream("s"))
        for tries in range(1, 4):
            await node.until(lambda tries=tries: node.partitions.refused == 2 * tries)
            # It may go on like that for days.
            assert node.log.getvalue().count("could not be removed") == 2
            await node.clock.advance(1)
        condemned = set(node.state.condemned)
        assert len(condemned) == 2
    assert (await journaled(tmp_path)).condemned == condemned
    async with running(tmp_path) as node:
        await node.until(lambda: not node.state.condemned)
        assert set(node.partitions.removed) == condemned


async def test_no_more_is_condemned_than_is_removed_in_time(tmp_path: Path) -> None:
    """Else who purges again and again fills the disk with directories."""
    async with running(tmp_path, max_condemned=3) as node:
        await node.do(c.CreateStream("s"))
        await node.do(topic_of("s", "t", 2))
        node.partitions.failing = True
        for condemned in (2, 4):
            await node.do(c.PurgeTopic("s", "t"))
            assert len(node.state.condemned) == condemned
        for command in (
            c.PurgeTopic("s", "t"),
            c.PurgeStream("s"),
            c.DeletePartitions("s", "t", 1),
            c.DeleteTopic("s", "t"),
            c.DeleteStream("s"),
        ):
            assert await node.committer.execute(command, None) == NOT_NOW
        position = node.committer.position
        assert (await node.do(c.CreateStream("others go on"))).position == position + 1
        node.partitions.failing = False
        await node.clock.advance(1)
        await node.until(lambda: not node.state.condemned)
        await node.do(c.DeleteStream("s"))


async def test_a_partition_that_could_not_be_opened_is_opened_later(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await node.do(c.CreateStream("s"))
        node.partitions.failing = True
        await node.do(topic_of("s", "t", 2))
        await node.do(topic_of("s", "gone", 1))
        await node.do(c.DeleteTopic("s", "gone"))
        assert node.partitions.open_places == set()
        refused = node.partitions.refused
        for _ in range(2):
            await node.clock.advance(1)
        assert node.partitions.refused > refused
        assert node.log.getvalue().count("could not be opened") == 3
        node.partitions.failing = False
        await node.clock.advance(1)
        await node.until(lambda: len(node.partitions.open_places) == 2)
        await node.until(lambda: not node.state.condemned)
        live = {place for place, _ in live_partitions(node.state)}
        assert set(node.partitions.opened) == live


async def test_thousands_of_condemned_partitions_are_forgotten_in_pieces(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await node.do(c.CreateStream("s"))
        await node.do(topic_of("s", "t", 1000))
        for _ in range(2):
            await node.do(c.CreatePartitions("s", "t", 1000))
        position = (await node.do(c.DeleteStream("s"))).position
        await node.until(lambda: not node.state.condemned)
        assert node.committer.position == position + 3
        assert len(node.partitions.removed) == 3000


async def test_others_have_their_turn_while_many_partitions_are_opened(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await node.do(c.CreateStream("s"))
        opened_when_it_ran: list[int] = []

        async def other() -> None:
            while len(node.partitions.open_places) < 1000:
                opened_when_it_ran.append(len(node.partitions.open_places))
                await asyncio.sleep(0)

        await asyncio.gather(other(), node.do(topic_of("s", "t", 1000)))
        assert len(set(opened_when_it_ran)) > 20
