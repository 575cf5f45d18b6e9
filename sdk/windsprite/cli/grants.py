"""Permissions as people write them: one grant, or several on the same place, in one word.

read_streams                          on everything
orders:read_stream,poll_messages      on a stream
orders/events:send_messages           on a topic of a stream
orders:all                            all there are for a stream
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Final

from windsprite import (
    Client,
    GlobalPermissions,
    Identifier,
    NotFound,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from windsprite.cli.arguments import parse_identifier

_ALL: Final = "all"


def _flags(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.type == "bool")


GLOBAL_FLAGS: Final = _flags(GlobalPermissions)
STREAM_FLAGS: Final = _flags(StreamPermissions)
TOPIC_FLAGS: Final = _flags(TopicPermissions)


@dataclass(frozen=True, slots=True)
class Grant:
    """Some flags on one place.

    Attributes:
        flags: Names of fields of the permissions of that kind of place.
        stream: The stream; None: everything.
        topic: The topic of the stream; None: the whole stream.
    """

    flags: frozenset[str]
    stream: Identifier | None = None
    topic: Identifier | None = None


def parse_grant(text: str) -> Grant:
    """One grant as it stands on the command line.

    Streams and topics are numbers or names, as elsewhere. A name with a `/` cannot be written
    here, but its number can.

    Raises:
        ValueError: It is no grant.
    """
    place, colon, words = text.rpartition(":")
    if not colon:
        return Grant(_parse_flags(words, GLOBAL_FLAGS, "everything"))
    stream, slash, topic = place.partition("/")
    if not slash:
        return Grant(_parse_flags(words, STREAM_FLAGS, "a stream"), parse_identifier(stream))
    flags = _parse_flags(words, TOPIC_FLAGS, "a topic")
    return Grant(flags, parse_identifier(stream), parse_identifier(topic))


async def permissions_of(client: Client, grants: Iterable[Grant]) -> Permissions:
    """Grants taken together; names are looked up on the server, numbers are not.

    Raises:
        NotFound: There is no stream or topic with such a name.
        PermissionDenied: Whoever asks may not look at it, and has to write its number.
    """
    everywhere: set[str] = set()
    streams: dict[int, set[str]] = {}
    topics: dict[int, dict[int, set[str]]] = {}
    for grant in grants:
        if grant.stream is None:
            everywhere |= grant.flags
            continue
        stream_id, topic_id = await _numbers(client, grant.stream, grant.topic)
        on_stream = streams.setdefault(stream_id, set())
        on_topics = topics.setdefault(stream_id, {})
        if topic_id is None:
            on_stream |= grant.flags
        else:
            on_topics.setdefault(topic_id, set()).update(grant.flags)
    return Permissions(
        GlobalPermissions(**dict.fromkeys(everywhere, True)),
        tuple(
            StreamPermissions(
                stream_id,
                **dict.fromkeys(flags, True),
                topics=tuple(
                    TopicPermissions(topic_id, **dict.fromkeys(on_topic, True))
                    for topic_id, on_topic in sorted(topics[stream_id].items())
                ),
            )
            for stream_id, flags in sorted(streams.items())
        ),
    )


def granted(
    permissions: GlobalPermissions | StreamPermissions | TopicPermissions,
) -> list[str]:
    """The names of the flags that are set, in the order of the protocol."""
    return [name for name in _flags(type(permissions)) if getattr(permissions, name)]


def _parse_flags(words: str, known: tuple[str, ...], place: str) -> frozenset[str]:
    flags = words.split(",")
    unknown = [word for word in flags if word not in (*known, _ALL)]
    if unknown:
        message = f"{unknown[0]!r} cannot be granted on {place}, but {', '.join(known)} or all"
        raise ValueError(message)
    return frozenset(known if _ALL in flags else flags)


async def _numbers(
    client: Client, stream: Identifier, topic: Identifier | None
) -> tuple[int, int | None]:
    if isinstance(stream, int) and not isinstance(topic, str):
        return stream, topic
    details = await client.get_stream(stream)
    if details is None:
        message = f"there is no stream {stream!r}"
        raise NotFound(message, hint="`windsprite stream list` shows those that there are")
    if not isinstance(topic, str):
        return details.stream.id, topic
    for each in details.topics:
        if each.name == topic:
            return details.stream.id, each.id
    message = f"there is no topic {topic!r} in the stream {stream!r}"
    raise NotFound(message, hint=f"`windsprite topic list {stream}` shows those that there are")
