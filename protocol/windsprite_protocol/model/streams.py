"""Streams (spec 03, 4.1-4.6)."""

from __future__ import annotations

from dataclasses import dataclass

from windsprite_protocol.model.identifiers import Identifier
from windsprite_protocol.model.topics import Topic
from windsprite_protocol.model.typed_values import Options


@dataclass(frozen=True, slots=True)
class GetStream:
    """Ask for one stream and its topics."""

    stream: Identifier


@dataclass(frozen=True, slots=True)
class GetStreams:
    """Ask for all streams."""


@dataclass(frozen=True, slots=True)
class CreateStream:
    """Create a stream; no option is accepted today."""

    name: str
    options: Options = ()


@dataclass(frozen=True, slots=True)
class DeleteStream:
    """Delete a stream with all it holds."""

    stream: Identifier


@dataclass(frozen=True, slots=True)
class UpdateStream:
    """Rename a stream; no option is accepted today."""

    stream: Identifier
    name: str
    options: Options = ()


@dataclass(frozen=True, slots=True)
class PurgeStream:
    """Delete all messages and offsets of a stream's topics."""

    stream: Identifier


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream; size and count are sums over its topics."""

    id: int
    created_at: int
    topics_count: int
    size_bytes: int
    messages_count: int
    name: str
    options: Options = ()


@dataclass(frozen=True, slots=True)
class StreamDetails:
    """A stream and its topics, by ascending id."""

    stream: Stream
    topics: tuple[Topic, ...]
