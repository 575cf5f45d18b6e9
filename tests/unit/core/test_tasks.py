"""Work that goes on although nobody wants its result any more, and the end of work for ever."""

import asyncio
import io
import json
from typing import Any

import pytest

from support.clock import ManualClock
from windsprite_server.core.log_setup import make_logger
from windsprite_server.core.tasks import cancel_and_wait, repeat, uninterrupted


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_result_and_an_error() -> None:
    async def work(error: Exception | None) -> int:
        await turns()
        if error is not None:
            raise error
        return 7

    assert await uninterrupted(work(None)) == 7
    with pytest.raises(LookupError, match="no"):
        await uninterrupted(work(LookupError("no")))


@pytest.mark.parametrize("cancellations", [1, 2, 5])
@pytest.mark.parametrize("error", [None, LookupError("no")])
async def test_who_is_cancelled_waits_for_the_end(
    cancellations: int, error: Exception | None
) -> None:
    unheard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    may_end = asyncio.Event()
    ended = False

    async def work() -> None:
        nonlocal ended
        await may_end.wait()
        ended = True
        if error is not None:
            raise error

    waiting = asyncio.create_task(uninterrupted(work()))
    for _ in range(cancellations):
        await turns()
        waiting.cancel()
    await turns()
    assert not waiting.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended
    del waiting
    await turns()
    assert unheard == []


async def test_work_that_is_cancelled_itself() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await uninterrupted(work())


async def test_work_in_the_background_has_ended_when_it_was_waited_for() -> None:
    ended: list[int] = []

    async def work(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await turns()
            ended.append(number)

    tasks = [asyncio.create_task(work(number)) for number in (1, 2)]
    await turns(1)
    await cancel_and_wait(tasks[0], None, tasks[1])
    assert ended == [1, 2]
    await cancel_and_wait(*tasks)


async def test_what_work_in_the_background_has_failed_with_is_raised() -> None:
    async def fail() -> None:
        raise LookupError("no")

    failed = asyncio.create_task(fail())
    await turns()
    other = asyncio.create_task(turns(10_000))
    with pytest.raises(LookupError, match="no"):
        await cancel_and_wait(failed, other)
    with pytest.raises(asyncio.CancelledError):
        await other


async def test_what_is_repeated_goes_on_after_a_failure() -> None:
    clock, log = ManualClock(), io.StringIO()
    began: list[float] = []

    async def work() -> None:
        began.append(clock.monotonic())
        await clock.sleep(1)
        if len(began) == 2:
            raise LookupError("not now")

    task = repeat(
        work,
        10,
        name="work",
        clock=clock,
        logger=make_logger(log_format="json", level="info", stream=log, clock=clock),
        failure="it did not work",
    )
    await clock.advance(45)
    assert began == [10, 21, 32, 43]
    (told,) = map(json.loads, log.getvalue().splitlines())
    assert (told["level"], told["event"]) == ("error", "it did not work")
    assert "LookupError: not now" in told["exception"]
    await cancel_and_wait(task)
    assert task.cancelled()
