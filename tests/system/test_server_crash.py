"""A whole server that dies at any single system call that changes files, or that says something.

strace kills it from outside, at the first, second, third call of a name that one of its threads
makes. Then it is started again, and everything is compared with what a client was told.
"""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import pytest

from support.preloaded_server import PreloadedServer
from support.read_back import is_unexpected, log_in
from support.server_story import Story
from support.strace import Fault, Trace, require_strace, threads_of, traced
from support.wire_client import WireClient, wire_client
from windsprite_protocol.model.tokens import CreateToken
from windsprite_server.cli import ExitCode

# Messages go out, threads wake each other, and small files are written by these.
SAYING = ["write", "writev", "sendto", "sendmsg"]
CALLS = [
    *("pwrite64", "fdatasync", "fsync", "ftruncate", "fallocate"),
    *("openat", "mkdir", "mkdirat", "rename", "renameat", "unlink", "unlinkat", "rmdir"),
    *SAYING,
]
SETTINGS = {
    "WINDSPRITE_JOURNAL__SNAPSHOT_EVERY": "5",
    "WINDSPRITE_STORAGE__INDEX_INTERVAL": "4 KiB",
    "WINDSPRITE_STORAGE__SYNC_THREADS": "1",
    "WINDSPRITE_STORAGE__READ_THREADS": "1",
    "WINDSPRITE_RETENTION__INTERVAL": "10 s",
}


@pytest.fixture(autouse=True)
def _strace() -> None:
    require_strace()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PreloadedServer]:
    with PreloadedServer(tmp_path, SETTINGS) as server:
        yield server


class Point(NamedTuple):
    """A system call of one of the threads that a server has when it is ready."""

    thread: int
    call: str
    number: int


class Reach(Enum):
    """Whose calls are counted while a server starts: each thread's its own, or only the first's."""

    ALL = "all threads"
    FIRST = "the first thread"


class Stage:
    """A server whose data are put back before each story.

    Args:
        server: Not running.
        folder: For what is put aside.
    """

    def __init__(self, server: PreloadedServer, folder: Path) -> None:
        self._server = server
        self._aside = folder / "aside"
        self._output = folder / "strace"
        self._story = Story()
        self._token = ""

    async def set_up(self, *, with_story: bool) -> None:
        """Let a server begin, and some of the story, and put aside what a kill leaves of it."""
        self._server.start()
        async with wire_client(self._server.wait_ready()["tcp"]) as root:
            await root.login()
            self._token = (await root.call(CreateToken("story", 0))).token
            if with_story:
                await self._story.begin(root)
                await self._story.live(root)
        self._server.kill()
        shutil.copytree(self._server.data, self._aside)

    # Deaths of a running server

    async def points(self) -> list[Point]:
        """All of a story that nothing goes wrong in."""
        threads, trace = await self._tell(None)
        return [
            Point(threads.index(thread), call, number)
            for (thread, call), count in sorted(trace.counts_by_thread().items())
            if thread in threads
            for number in range(1, count + 1)
        ]

    async def die_at(self, point: Point) -> bool:
        """Tell a story, die, and compare; returns whether it came to that point."""
        _, trace = await self._tell(point)
        return trace.was_reached

    async def _tell(self, point: Point | None) -> tuple[list[int], Trace]:
        server, story = self._server, Story()
        self._put_back()
        server.start()
        async with wire_client(server.wait_ready()["tcp"]) as client:
            await log_in(client, self._token)
            await story.begin(client)
            threads = threads_of(server.pid)
            thread = server.pid if point is None else threads[point.thread]
            fault = None if point is None else Fault(point.call, point.number, "SIGKILL")
            with traced(thread, CALLS, fault, self._output, follow=point is None) as trace:
                with suppress(EOFError, ConnectionError):
                    await story.live(client)
                code = server.kill(signal.SIGTERM)
        assert code == (-signal.SIGKILL if trace.was_reached else 0)
        await self._compare(story)
        return threads, trace

    # Deaths of a start

    async def points_of_start(self) -> list[tuple[Reach, str, int]]:
        """All of a start that nothing goes wrong in."""
        trace = await self.start_with(None)
        of_first = {
            call: count
            for (thread, call), count in trace.counts_by_thread().items()
            if thread == self._first_thread
        }
        return [
            (reach, call, number)
            for reach, counts in ((Reach.ALL, trace.counts()), (Reach.FIRST, of_first))
            for call, count in sorted(counts.items())
            for number in range(1, count + 1)
        ]

    async def start_with(self, fault: Fault | None, reach: Reach = Reach.ALL) -> Trace:
        """Begin to start, die or end or be of use, start again and compare."""
        server = self._server
        self._put_back()
        is_of_use = False
        server.start(is_held=True)
        self._first_thread = server.pid
        follow = reach is Reach.ALL
        with traced(server.pid, CALLS, fault, self._output, follow=follow) as trace:
            server.let_go()
            with suppress(EOFError, ConnectionError):
                async with wire_client(server.wait_ready()["tcp"]) as client:
                    await self._log_in(client)
                is_of_use = True
            code = server.kill() if is_of_use else server.wait_end()
        if code == -signal.SIGKILL:
            assert is_of_use or (fault is not None and fault.effect == "SIGKILL")
        else:
            assert code in {ExitCode.FAILED, ExitCode.DATA_DIRECTORY}
            assert not server.ready_file.exists()
        assert "\nTraceback" not in server.output, server.output
        await self._compare(deepcopy(self._story))
        return trace

    # Both

    def _put_back(self) -> None:
        shutil.rmtree(self._server.data, ignore_errors=True)
        if self._aside.exists():
            shutil.copytree(self._aside, self._server.data)

    async def _compare(self, story: Story) -> None:
        """Start again, compare, and go on as if nothing had been."""
        server, before = self._server, len(self._server.events)
        server.start()
        async with wire_client(server.wait_ready()["tcp"]) as client:
            await self._log_in(client)
            await story.check(client)
            if not story.done:
                await story.begin(client)
            await story.live(client, 1)
            await story.check(client)
        server.kill()
        assert not [event for event in server.events[before:] if is_unexpected(event)]

    async def _log_in(self, client: WireClient) -> None:
        if self._token:
            await log_in(client, self._token)
        else:
            await client.login()


async def die_at_all(stage: Stage, points: list[Point], *, told_every: int = 1 << 30) -> None:
    reached = 0
    began = time.monotonic()
    for done, point in enumerate(points, start=1):
        try:
            reached += await stage.die_at(point)
        except BaseException as error:
            error.add_note(str(point))
            raise
        if done % told_every == 0:
            print(f"{done} of {len(points)} deaths, {reached} where they were meant to be")
    milliseconds = (time.monotonic() - began) * 1000 / len(points)
    print(f"{len(points)} points, {reached} deaths there, {milliseconds:.0f} ms each")
    # Threads take turns as they like: the last calls of a life may not come every time.
    assert reached > 0.9 * len(points) - 2


async def start_with_all(
    stage: Stage,
    points: list[tuple[Reach, str, int]],
    effect: str,
    *,
    is_lasting: bool = False,
    told_every: int = 1 << 30,
) -> None:
    began = time.monotonic()
    for done, (reach, call, number) in enumerate(points, start=1):
        fault = Fault(call, number, effect, is_lasting)
        try:
            await stage.start_with(fault, reach)
        except BaseException as error:
            error.add_note(f"{fault} of {reach.value}")
            raise
        if done % told_every == 0:
            print(f"{done} of {len(points)} starts with {effect}")
    milliseconds = (time.monotonic() - began) * 1000 / len(points)
    print(f"{len(points)} starts with {effect}, {milliseconds:.0f} ms each")


async def test_a_server_keeps_its_word_wherever_it_dies(
    server: PreloadedServer, tmp_path: Path
) -> None:
    stage = Stage(server, tmp_path)
    await stage.set_up(with_story=False)
    points = await stage.points()
    assert {"pwrite64", "fdatasync", "fsync", "openat"} <= {point.call for point in points}
    await die_at_all(stage, points[len(points) // 24 :: len(points) // 12])


@pytest.mark.soak
async def test_a_server_keeps_its_word_at_every_call(
    server: PreloadedServer, tmp_path: Path
) -> None:
    stage = Stage(server, tmp_path)
    await stage.set_up(with_story=False)
    await die_at_all(stage, await stage.points(), told_every=50)


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "after a kill"])
async def test_a_start_that_dies_is_followed_by_one_that_has_all(
    server: PreloadedServer, tmp_path: Path, is_first: bool
) -> None:
    stage = Stage(server, tmp_path)
    if not is_first:
        await stage.set_up(with_story=True)
    points = await stage.points_of_start()
    await start_with_all(stage, points[3 :: len(points) // 5], "SIGKILL")


@pytest.mark.parametrize(("call", "effect"), [("pwrite64", "ENOSPC"), ("fdatasync", "EIO")])
async def test_a_first_start_that_cannot_store_its_user_says_so_and_ends(
    server: PreloadedServer, tmp_path: Path, call: str, effect: str
) -> None:
    stage = Stage(server, tmp_path)
    counts = (await stage.start_with(None)).counts()
    await stage.start_with(Fault(call, counts[call], effect))
    assert "the root user cannot be stored" in server.output


async def test_a_ready_file_that_cannot_be_kept_is_not_left_behind(
    server: PreloadedServer, tmp_path: Path
) -> None:
    stage = Stage(server, tmp_path)
    points = await stage.points_of_start()
    _, call, last = [point for point in points if point[:2] == (Reach.FIRST, "fsync")][-1]
    await stage.start_with(Fault(call, last, "EIO"), Reach.FIRST)
    assert "cannot run" in server.output


@pytest.mark.soak
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "after a kill"])
@pytest.mark.parametrize(
    ("effect", "is_lasting"),
    [("SIGKILL", False), ("ENOSPC", False), ("ENOSPC", True), ("EIO", False), ("EIO", True)],
)
async def test_a_start_is_followed_by_one_that_has_all_whatever_goes_wrong(
    server: PreloadedServer, tmp_path: Path, effect: str, is_lasting: bool, is_first: bool
) -> None:
    stage = Stage(server, tmp_path)
    if not is_first:
        await stage.set_up(with_story=True)
    points = await stage.points_of_start()
    if effect != "SIGKILL":
        points = [point for point in points if point[1] not in SAYING]
    await start_with_all(stage, points, effect, is_lasting=is_lasting, told_every=20)
