"""Reading a file or pipe ahead, in a thread of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Final

from windsprite.cli.errors import CommandError

_AHEAD: Final = 2
"""Blocks that wait to be taken at most; the thread holds one more."""


class BlockReader:
    """Reads blocks of a file while the event loop does other work.

    A terminal or pipe may have nothing to read for hours. So the thread is a daemon: a program
    that has to end does not wait for it.

    Args:
        descriptor: The open file; it stays open.
        name: What people call it.
        block_size: Bytes of a block at most; a pipe gives what it has.
    """

    def __init__(self, descriptor: int, name: str, block_size: int) -> None:
        self._descriptor = descriptor
        self._name = name
        self._block_size = block_size
        self._loop = asyncio.get_running_loop()
        self._blocks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
        self._places = threading.Semaphore(_AHEAD)
        threading.Thread(target=self._read, name="windsprite-reader", daemon=True).start()

    async def next(self, patience: float | None = None) -> bytes | None:
        """The next block; empty at the end of the file.

        Args:
            patience: Seconds to wait for it; None: as long as it takes.

        Returns:
            None if there is no block yet.

        Raises:
            CommandError: Reading failed.
        """
        try:
            async with asyncio.timeout(patience):
                block = await self._blocks.get()
        except TimeoutError:
            return None
        if isinstance(block, OSError):
            raise unreadable(self._name, block) from block
        self._places.release()
        return block

    def _read(self) -> None:
        block: bytes | OSError = b"\n"
        while isinstance(block, bytes) and block:
            self._places.acquire()
            try:
                block = os.read(self._descriptor, self._block_size)
            except OSError as error:
                block = error
            try:
                self._loop.call_soon_threadsafe(self._blocks.put_nowait, block)
            except RuntimeError:
                return  # the loop is closed: nobody wants it any more


def unreadable(name: str, error: OSError) -> CommandError:
    """The error for a file that cannot be opened or read."""
    return CommandError(f"cannot read {name}: {error.strerror or error}")
