"""Streams."""

# ruff: noqa: ASYNC109 - a timeout covers more than one wait, with repeats and new connections

from __future__ import annotations

from windsprite.commands.base import Commands
from windsprite_protocol.model.identifiers import Identifier
from windsprite_protocol.model.streams import (
    CreateStream,
    DeleteStream,
    GetStream,
    GetStreams,
    PurgeStream,
    Stream,
    StreamDetails,
    UpdateStream,
)


class StreamCommands(Commands):
    """Streams."""

    async def create_stream(self, name: str, *, timeout: float | None = None) -> StreamDetails:
        """Create a stream.

        Args:
            name: 1 to 255 bytes of UTF-8.
            timeout: Seconds for all of it.

        Raises:
            AlreadyExists: There is a stream with this name.
        """
        details: StreamDetails = await self._caller.call(
            CreateStream(name), f"create_stream {name!r}", time_limit=timeout
        )
        return details

    async def get_stream(
        self, stream: Identifier, *, timeout: float | None = None
    ) -> StreamDetails | None:
        """A stream and its topics; None if there is no such stream."""
        details: StreamDetails | None = await self._caller.call(
            GetStream(stream), f"get_stream {stream!r}", time_limit=timeout
        )
        return details

    async def get_streams(self, *, timeout: float | None = None) -> tuple[Stream, ...]:
        """All streams, by ascending id."""
        streams: tuple[Stream, ...] = await self._caller.call(
            GetStreams(), "get_streams", time_limit=timeout
        )
        return streams

    async def update_stream(
        self, stream: Identifier, name: str, *, timeout: float | None = None
    ) -> None:
        """Rename a stream.

        Raises:
            NotFound: There is no such stream.
            AlreadyExists: Another stream has this name.
        """
        await self._caller.call(
            UpdateStream(stream, name), f"update_stream {stream!r}", time_limit=timeout
        )

    async def purge_stream(self, stream: Identifier, *, timeout: float | None = None) -> None:
        """Delete all messages and stored offsets of a stream's topics.

        Raises:
            NotFound: There is no such stream.
        """
        await self._caller.call(PurgeStream(stream), f"purge_stream {stream!r}", time_limit=timeout)

    async def delete_stream(self, stream: Identifier, *, timeout: float | None = None) -> None:
        """Delete a stream with all it holds.

        Raises:
            NotFound: There is no such stream.
        """
        await self._caller.call(
            DeleteStream(stream), f"delete_stream {stream!r}", time_limit=timeout
        )
