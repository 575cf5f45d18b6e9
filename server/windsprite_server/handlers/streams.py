"""Streams (spec 03, 4.1-4.6)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

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
from windsprite_server.handlers.access import require
from windsprite_server.handlers.metadata import commit, refuse_options
from windsprite_server.handlers.services import Services
from windsprite_server.metadata import commands
from windsprite_server.metadata.authorization import Rule
from windsprite_server.metadata.queries import find_stream, streams_by_id
from windsprite_server.metadata.views import stream_details, stream_summary
from windsprite_server.session import Connection


def get_stream(
    services: Services, connection: Connection, request: GetStream
) -> StreamDetails | None:
    """Tell about a stream and its topics."""
    stream = find_stream(services.state, request.stream)
    if stream is None:
        return None
    require(services, connection, Rule.READ_STREAM, stream.id)
    return stream_details(stream, services.partitions)


def get_streams(services: Services, connection: Connection, _: GetStreams) -> tuple[Stream, ...]:
    """Tell about all streams."""
    require(services, connection, Rule.READ_STREAMS)
    figures = services.partitions
    return tuple(stream_summary(stream, figures) for stream in streams_by_id(services.state))


def create_stream(
    services: Services, connection: Connection, request: CreateStream
) -> Coroutine[Any, Any, StreamDetails]:
    """Create a stream."""
    refuse_options(request.options)
    return commit(services, connection, commands.CreateStream(request.name))


def update_stream(
    services: Services, connection: Connection, request: UpdateStream
) -> Coroutine[Any, Any, None]:
    """Rename a stream."""
    refuse_options(request.options)
    return commit(services, connection, commands.UpdateStream(request.stream, request.name))


def delete_stream(
    services: Services, connection: Connection, request: DeleteStream
) -> Coroutine[Any, Any, None]:
    """Delete a stream with all it holds."""
    return commit(services, connection, commands.DeleteStream(request.stream))


def purge_stream(
    services: Services, connection: Connection, request: PurgeStream
) -> Coroutine[Any, Any, None]:
    """Delete all messages and offsets of a stream's topics."""
    return commit(services, connection, commands.PurgeStream(request.stream))
