"""Tasks that are not left half-done, and tasks in the background that have to be ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from windsprite_server.core.clock import Clock
from windsprite_server.core.log_setup import Logger

Result = TypeVar("Result")


async def uninterrupted(work: Coroutine[Any, Any, Result]) -> Result:
    """Do something to its end; who is cancelled meanwhile is so after that, and not before.

    For what goes on in threads: it cannot be cut short, and has to be known to be undone.

    Raises:
        asyncio.CancelledError: The caller was cancelled; what the work came to is lost.
    """
    task = asyncio.create_task(work)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # or it would be logged as one that nobody has seen
    raise cancellation


def repeat(
    work: Callable[[], Awaitable[None]],
    interval: float,
    *,
    name: str,
    clock: Clock,
    logger: Logger,
    failure: str,
) -> asyncio.Task[None]:
    """Do something in the background again and again, for the first time after one interval.

    Args:
        work: What fails once is tried again at the next time.
        interval: Seconds from the end of one time to the next.
        name: What the task is called.
        clock: Says when it is time.
        logger: Told of what failed.
        failure: What to tell it.

    Returns:
        The task, which goes on until it is cancelled.
    """

    async def run() -> None:
        while True:
            await clock.sleep(interval)
            try:
                await work()
            except Exception:
                logger.exception(failure)

    return asyncio.create_task(run(), name=name)


async def cancel_and_wait(*tasks: asyncio.Task[None] | None) -> None:
    """End tasks that work in the background; `None` is one that was never started.

    Raises:
        Exception: What one of them had failed with before.
    """
    started = [task for task in tasks if task is not None]
    for task in started:
        task.cancel()
    for task in started:
        with suppress(asyncio.CancelledError):
            await task
