"""A server in a program that changes its mind: nothing is left open, whenever that is."""

import asyncio
import io
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

from support.frames import frame
from support.wire_client import wire_client
from windsprite_protocol.model.system import Ping
from windsprite_server.app import Server
from windsprite_server.core.clock import SystemClock
from windsprite_server.core.ids import SystemIds
from windsprite_server.core.log_setup import make_logger
from windsprite_server.handlers.table import HANDLERS
from windsprite_server.settings import Settings


class SlowIds(SystemIds):
    """Identifiers that are given when a test says so: the thread that asks for one waits."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.may_go_on = threading.Event()

    def uuid(self) -> uuid.UUID:
        self.asked.set()
        assert self.may_go_on.wait(30)
        return super().uuid()


def a_server(data_dir: Path, *, address: str = "127.0.0.1:0", **options: Any) -> Server:
    logger = make_logger(
        log_format="json", level="debug", stream=io.StringIO(), clock=SystemClock()
    )
    return Server(Settings(data_dir=data_dir, tcp={"address": address}), logger, **options)


def open_in(folder: Path) -> list[str]:
    """The files of a folder that this process has open."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            file = descriptor.readlink()
        except OSError:
            continue
        if file.is_relative_to(folder):
            found.append(str(file))
    return found


async def starts_and_stops(data_dir: Path) -> None:
    server = a_server(data_dir)
    await server.start()
    await server.stop()


async def test_a_start_that_is_called_off_while_the_directory_is_being_opened(
    tmp_path: Path,
) -> None:
    ids = SlowIds()
    starting = asyncio.create_task(a_server(tmp_path / "data", ids=ids).start())
    assert await asyncio.to_thread(ids.asked.wait, 30)
    for _ in range(3):
        starting.cancel()
        await asyncio.sleep(0)
    assert not starting.done()
    ids.may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert open_in(tmp_path) == []
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await starts_and_stops(tmp_path / "data")


async def test_a_start_that_is_called_off_anywhere(tmp_path: Path) -> None:
    await starts_and_stops(tmp_path / "first")  # what is loaded once stays
    for milliseconds in range(0, 60, 4):
        folder = tmp_path / str(milliseconds)
        server = a_server(folder)
        starting = asyncio.create_task(server.start())
        await asyncio.sleep(milliseconds / 1000)
        if starting.done():
            await server.stop()
            break
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert open_in(folder) == []
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await starts_and_stops(folder)


async def test_a_start_that_fails_at_its_end_leaves_nothing_behind(tmp_path: Path) -> None:
    first = a_server(tmp_path / "first")
    running = await first.start()
    with pytest.raises(OSError, match="in use"):
        await a_server(tmp_path / "second", address=str(running.tcp_address)).start()
    assert open_in(tmp_path / "second") == []
    await first.stop()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_who_is_cancelled_while_a_server_stops_waits_for_requests_in_flight(
    tmp_path: Path,
) -> None:
    began, may_end = asyncio.Event(), asyncio.Event()

    async def slow_ping(*_: object) -> None:
        began.set()
        await may_end.wait()

    server = a_server(tmp_path / "data", handlers={**HANDLERS, Ping: slow_ping})
    running = await server.start()
    async with wire_client(str(running.tcp_address)) as client:
        await client.send(frame())
        await began.wait()
        stopping = asyncio.create_task(server.stop())
        for _ in range(3):
            await asyncio.sleep(0)
            stopping.cancel()
        await asyncio.sleep(0)
        assert not stopping.done()
        may_end.set()
        assert (await client.receive()).told.channel == "success"
        with pytest.raises(asyncio.CancelledError):
            await stopping
    assert open_in(tmp_path) == []
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await starts_and_stops(tmp_path / "data")
