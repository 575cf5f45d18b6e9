"""Deleting the files of segments that are no part of their log any more."""

import asyncio
import contextlib
from collections.abc import Iterable

from windsprite_server.log.context import Context
from windsprite_server.log.errors import unavailable
from windsprite_server.log.segment import Segment


class Condemned:
    """Removed segments of one log whose files are still there, oldest first.

    Belongs to one event loop.
    """

    __slots__ = ("_context", "_directory", "_lock", "_segments")

    def __init__(self, context: Context, directory: str) -> None:
        self._context = context
        self._directory = directory
        self._segments: list[Segment] = []
        self._lock = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._segments)

    def add(self, segments: Iterable[Segment]) -> None:
        """Take over segments that nobody reads or writes any more."""
        for segment in segments:
            self._context.loaded_indexes.forget(segment)
            segment.close_files()
            self._segments.append(segment)

    async def delete(self, successor: Segment) -> None:
        """Delete their files; what fails is tried by the next call.

        Args:
            successor: A segment of the log, with a file: what keeps its offsets going is made
                durable before anything goes.

        Raises:
            LogUnavailableError: The disk refused; some may have been deleted.
        """
        files, directory = self._context.files, self._directory
        async with self._lock:
            condemned = self._segments[:]
            deleted: list[Segment] = []

            def work() -> None:
                with contextlib.suppress(OSError):
                    successor.sync_index()
                files.sync_directory(directory)
                for segment in condemned:
                    for path in (segment.index_path, segment.path):
                        with contextlib.suppress(FileNotFoundError):
                            files.unlink(path)
                    # Else one that is left could stand before one that is gone, as if it were lost.
                    files.sync_directory(directory)
                    deleted.append(segment)

            loop = asyncio.get_running_loop()
            try:
                await loop.run_in_executor(self._context.sync_pool, work)
            except OSError as error:
                raise unavailable("segments can't be removed", error) from error
            finally:
                del self._segments[: len(deleted)]

    async def drain(self) -> None:
        """Wait until no thread deletes anything."""
        async with self._lock:
            pass
