"""The topic of a producer: found, made if it is missing, and its partitions counted."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import fields
from typing import Protocol

from windsprite.errors import AlreadyExists, NotFound, OutcomeUnknown, PermissionDenied
from windsprite.producer.options import NewTopic
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.identifiers import Identifier
from windsprite_protocol.model.streams import StreamDetails
from windsprite_protocol.model.topics import TopicDetails

logger = logging.getLogger("windsprite")


class Admin(Protocol):
    """What of a client is needed here."""

    async def get_topic(self, stream: Identifier, topic: Identifier) -> TopicDetails | None:
        """A topic, if there is one."""
        ...

    async def create_stream(self, name: str) -> StreamDetails:
        """Create a stream."""
        ...

    @property
    def create_topic(self) -> Callable[..., Awaitable[TopicDetails]]:
        """Create a topic; its options are passed on as they are."""
        ...


async def count_partitions(admin: Admin, stream: Identifier, topic: Identifier) -> int | None:
    """How many partitions a topic has; None if this user may send to it, but not look at it.

    Raises:
        NotFound: There is no such topic.
    """
    try:
        details = await admin.get_topic(stream, topic)
    except PermissionDenied:
        return None
    if details is None:
        raise NotFound(
            f"producer: there is no topic {topic!r} in a stream {stream!r}",
            code=ErrorCode.TOPIC_ID_NOT_FOUND,
        )
    return details.topic.partitions_count


async def find_or_create(
    admin: Admin, stream: Identifier, topic: Identifier, new_topic: NewTopic
) -> int | None:
    """As `count_partitions`, but what is missing is made; others may be doing the same.

    Raises:
        NotFound: It is missing, and a number of it is given, not a name.
        PermissionDenied: It is missing, and the user may not make it.
    """
    try:
        return await count_partitions(admin, stream, topic)
    except NotFound:
        if isinstance(topic, int):
            raise
    options = {field.name: getattr(new_topic, field.name) for field in fields(new_topic)}
    what = f"the topic {topic!r} in {stream!r}"
    try:
        await _unless_it_is_there(admin.create_topic(stream, topic, **options), what)
    except NotFound:
        if isinstance(stream, int):
            raise
        await _unless_it_is_there(admin.create_stream(stream), f"the stream {stream!r}")
        await _unless_it_is_there(admin.create_topic(stream, topic, **options), what)
    return await count_partitions(admin, stream, topic)


async def _unless_it_is_there(creation: Awaitable[object], what: str) -> None:
    try:
        await creation
    except AlreadyExists:
        return
    except OutcomeUnknown:
        # Whoever looks for it next will see.
        return
    logger.info("made %s, which was missing", what)
