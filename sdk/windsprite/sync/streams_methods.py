"""The methods of `StreamCommands`, blocking; written by docs/sync_modules.py."""

from __future__ import annotations

from windsprite.client import Client as Target
from windsprite.sync.base import Blocking
from windsprite_protocol.model.identifiers import Identifier
from windsprite_protocol.model.streams import Stream, StreamDetails


class StreamCommands(Blocking[Target]):
    """Streams."""

    def create_stream(self, name: str, *, timeout: float | None = None) -> StreamDetails:
        """Create a stream.

        Args:
            name: 1 to 255 bytes of UTF-8.
            timeout: Seconds for all of it.

        Raises:
            AlreadyExists: There is a stream with this name.
        """
        return self._thread.run(self._target.create_stream(name, timeout=timeout))

    def get_stream(
        self, stream: Identifier, *, timeout: float | None = None
    ) -> StreamDetails | None:
        """A stream and its topics; None if there is no such stream."""
        return self._thread.run(self._target.get_stream(stream, timeout=timeout))

    def get_streams(self, *, timeout: float | None = None) -> tuple[Stream, ...]:
        """All streams, by ascending id."""
        return self._thread.run(self._target.get_streams(timeout=timeout))

    def update_stream(self, stream: Identifier, name: str, *, timeout: float | None = None) -> None:
        """Rename a stream.

        Raises:
            NotFound: There is no such stream.
            AlreadyExists: Another stream has this name.
        """
        self._thread.run(self._target.update_stream(stream, name, timeout=timeout))

    def purge_stream(self, stream: Identifier, *, timeout: float | None = None) -> None:
        """Delete all messages and stored offsets of a stream's topics.

        Raises:
            NotFound: There is no such stream.
        """
        self._thread.run(self._target.purge_stream(stream, timeout=timeout))

    def delete_stream(self, stream: Identifier, *, timeout: float | None = None) -> None:
        """Delete a stream with all it holds.

        Raises:
            NotFound: There is no such stream.
        """
        self._thread.run(self._target.delete_stream(stream, timeout=timeout))
