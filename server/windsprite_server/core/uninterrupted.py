"""Work that is left half-done by nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

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
