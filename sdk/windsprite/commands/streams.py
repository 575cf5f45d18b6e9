"""Streams."""

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

    async def create_stream(self, name: str) -> StreamDetails:
        """Create a stream.

        Args:
            name: 1 to 255 bytes of UTF-8.

        Raises:
            AlreadyExists: There is a stream with this name.
        """
        details: StreamDetails = await self._caller.call(
            CreateStream(name), f"create_stream {name!r}"
        )
        return details

    async def get_stream(self, stream: Identifier) -> StreamDetails | None:
        """A stream and its topics; None if there is no such stream."""
        details: StreamDetails | None = await self._caller.call(
            GetStream(stream), f"get_stream {stream!r}"
        )
        return details

    async def get_streams(self) -> tuple[Stream, ...]:
        """All streams, by ascending id."""
        streams: tuple[Stream, ...] = await self._caller.call(GetStreams(), "get_streams")
        return streams

    async def update_stream(self, stream: Identifier, name: str) -> None:
        """Rename a stream.

        Raises:
            NotFound: There is no such stream.
            AlreadyExists: Another stream has this name.
        """
        await self._caller.call(UpdateStream(stream, name), f"update_stream {stream!r}")

    async def purge_stream(self, stream: Identifier) -> None:
        """Delete all messages and stored offsets of a stream's topics.

        Raises:
            NotFound: There is no such stream.
        """
        await self._caller.call(PurgeStream(stream), f"purge_stream {stream!r}")

    async def delete_stream(self, stream: Identifier) -> None:
        """Delete a stream with all it holds.

        Raises:
            NotFound: There is no such stream.
        """
        await self._caller.call(DeleteStream(stream), f"delete_stream {stream!r}")
