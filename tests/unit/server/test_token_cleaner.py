"""Expired tokens are deleted by journaled commands of a bounded size."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from support.clock import ManualClock
from support.journal import stored
from support.metadata import RecordingPartitions
from support.waiting import until
from windsprite_server.commit import Committer
from windsprite_server.core.failure_points import FailurePoints
from windsprite_server.core.log_setup import make_logger
from windsprite_server.journal.sqlite import SqliteJournal
from windsprite_server.metadata import commands as c
from windsprite_server.metadata.encoding import decode
from windsprite_server.metadata.state import State, Token, User
from windsprite_server.token_cleaner import MAX_TOKENS_IN_PASS, TokenCleaner

INTERVAL = 60.0


class Gate:
    is_open = True

    def may_write(self) -> bool:
        return self.is_open


class Node:
    """A cleaner and what it works with, on a journal in a directory."""

    def __init__(self, path: Path, users: Iterable[User]) -> None:
        self.path = path / "journal.db"
        self.clock = ManualClock()
        self.gate = Gate()
        self.points = FailurePoints()
        self.state = State(users=users)
        self.log = io.StringIO()

    async def start(self) -> None:
        logger = make_logger(log_format="json", level="debug", stream=self.log, clock=self.clock)
        self.journal = await SqliteJournal.open(self.path, create=True, points=self.points)
        self.committer = Committer(
            self.journal,
            self.state,
            self.clock,
            self.gate,
            RecordingPartitions(),
            logger=logger,
        )
        await self.committer.start()
        self.cleaner = TokenCleaner(
            self.state, self.committer, self.clock, logger, interval=INTERVAL
        )

    async def stop(self) -> None:
        await self.cleaner.stop()
        await self.committer.stop()
        await self.journal.close()

    def names(self, user_id: int = 0) -> list[str]:
        return list(self.state.users[user_id].tokens)

    def commands(self) -> list[c.Command]:
        """What was journaled."""
        return [decode(entry.command) for entry in stored(self.path)]

    def events(self) -> list[str]:
        return [json.loads(line)["event"] for line in self.log.getvalue().splitlines()]


@asynccontextmanager
async def running(path: Path, *users: User) -> AsyncIterator[Node]:
    node = Node(path, users)
    await node.start()
    try:
        yield node
    finally:
        await node.stop()


def user(user_id: int, **expiries: int) -> User:
    tokens = {name: Token(name, f"{user_id}/{name}", expiry) for name, expiry in expiries.items()}
    return User(user_id, f"user {user_id}", 1, 1, "h", tokens=tokens)


async def test_only_what_has_expired_is_deleted(tmp_path: Path) -> None:
    now = ManualClock().now_us()
    users = [user(0, over=1, now=now, soon=now + 10**9), user(1, never=0), user(2, old=now - 1)]
    async with running(tmp_path, *users) as node:
        assert await node.cleaner.clean() == 3
        assert [node.names(user_id) for user_id in range(3)] == [["soon"], ["never"], []]
        assert await node.cleaner.clean() == 0
    owned = (c.OwnedToken(0, "over"), c.OwnedToken(0, "now"), c.OwnedToken(2, "old"))
    assert node.commands() == [c.DeleteExpiredTokens(owned)]


async def test_a_command_names_a_bounded_number(tmp_path: Path) -> None:
    expiries = {f"t{number}": 1 for number in range(250)}
    users = [user(user_id, keep=0, **expiries) for user_id in range(1, 2400, 1000)]
    quiet = [user(user_id) for user_id in range(5000, 6500)]
    async with running(tmp_path, *users, *quiet) as node:
        assert await node.cleaner.clean() == 750
        assert all(node.names(owner.id) == ["keep"] for owner in users)
    named = [len(command.tokens) for command in node.commands()]  # type: ignore[union-attr]
    assert named == [MAX_TOKENS_IN_PASS, MAX_TOKENS_IN_PASS, 750 - 2 * MAX_TOKENS_IN_PASS]


async def test_it_looks_again_after_each_interval(tmp_path: Path) -> None:
    start = ManualClock().now_us()
    expiring = user(0, first=start + 1, second=start + 90 * 10**6)
    async with running(tmp_path, expiring) as node:
        node.cleaner.start()
        await node.clock.advance(INTERVAL - 1)
        assert node.names() == ["first", "second"]
        await node.clock.advance(1)
        # It is said last, before the cleaner sleeps again.
        await until(lambda: node.events() == ["expired tokens were deleted"])
        assert node.names() == ["second"]
        await node.clock.advance(INTERVAL)
        await until(lambda: node.events() == ["expired tokens were deleted"] * 2)
        assert node.names() == []


async def test_a_node_that_may_not_write_leaves_it_for_later(tmp_path: Path) -> None:
    async with running(tmp_path, user(0, over=1)) as node:
        node.gate.is_open = False
        assert await node.cleaner.clean() == 0
        assert node.names() == ["over"]
        node.gate.is_open = True
        assert await node.cleaner.clean() == 1
        assert node.names() == []


async def test_a_failure_does_not_end_it(tmp_path: Path) -> None:
    async with running(tmp_path, user(0, over=1)) as node:

        def fail() -> None:
            raise RuntimeError("the disk is gone")

        node.points.arm("journal.append", fail)
        node.cleaner.start()
        await node.clock.advance(INTERVAL)
        await until(lambda: "expired tokens could not be deleted" in node.events())
        # The committer takes nothing more until a restart, and that was said once.
        told = len(node.events())
        await node.clock.advance(2 * INTERVAL)
        assert "token cleaner" in {task.get_name() for task in asyncio.all_tasks()}
        assert len(node.events()) == told
        assert node.names() == ["over"]
