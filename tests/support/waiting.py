"""Waiting for what has to come, however slow the machine is."""

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Give the event loop turns until something is so."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.001)
