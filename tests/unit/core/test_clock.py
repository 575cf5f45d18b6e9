import asyncio
import socket
import time
from collections.abc import Callable

import pytest
import uvloop

from support.clock import ManualClock
from windsprite_server.core.clock import Clock, SystemClock, let_sockets_be_read


async def test_system_clock_agrees_with_the_machine() -> None:
    clock: Clock = SystemClock()
    before = time.time_ns() // 1_000
    assert before <= clock.now_us() <= time.time_ns() // 1_000
    started = clock.monotonic()
    await clock.sleep(0.01)
    assert 0.009 <= clock.monotonic() - started < 5


async def test_manual_clock_wakes_sleepers_in_order_and_in_time() -> None:
    clock = ManualClock(now_us=1_000_000)
    woken: list[tuple[str, int]] = []

    async def sleeper(name: str, *naps: float) -> None:
        for nap in naps:
            await clock.sleep(nap)
            woken.append((name, clock.now_us()))

    tasks = [asyncio.create_task(sleeper("a", 3)), asyncio.create_task(sleeper("b", 1, 1, 5))]
    await clock.advance(4)
    assert woken == [("b", 2_000_000), ("b", 3_000_000), ("a", 4_000_000)]
    assert clock.monotonic() == 4
    await clock.advance(3)
    assert woken[-1] == ("b", 8_000_000)
    await asyncio.gather(*tasks)


async def test_wall_clock_may_jump_without_waking_anybody() -> None:
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep(10))
    await clock.advance(1)
    clock.set_wall_clock(0)
    await clock.advance(8)
    assert not task.done()
    assert clock.now_us() == 8_000_000
    await clock.advance(1)
    assert task.done()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_what_waits_in_sockets_is_read(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def wake_up_late() -> list[int]:
        loop, heard = asyncio.get_running_loop(), list[int]()
        pairs = [socket.socketpair() for _ in range(50)]
        for number, (_, end) in enumerate(pairs):
            loop.add_reader(end, lambda number=number, end=end: heard.append(number) or end.recv(9))
        await asyncio.sleep(0.01)
        for begin, _ in pairs:
            begin.send(b"ping")
        assert heard == []
        await let_sockets_be_read(SystemClock())
        for begin, end in pairs:
            loop.remove_reader(end)
            begin.close()
            end.close()
        return heard

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert sorted(runner.run(wake_up_late())) == list(range(50))
