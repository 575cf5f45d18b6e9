"""Topics, their partitions and segments."""

# ruff: noqa: ASYNC109 - a timeout covers more than one wait, with repeats and new connections

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from windsprite.commands.base import Commands
from windsprite.topic_options import (
    Durability,
    Duration,
    Size,
    options_for_create,
    options_for_update,
)
from windsprite_protocol.model.identifiers import Identifier
from windsprite_protocol.model.topics import (
    CreatePartitions,
    CreateTopic,
    DeletePartitions,
    DeleteSegments,
    DeleteTopic,
    GetTopic,
    GetTopics,
    PurgeTopic,
    Topic,
    TopicDetails,
    UpdateTopic,
)
from windsprite_protocol.model.typed_values import PythonValue

CompressionName: TypeAlias = Literal["none", "gzip"]


class TopicCommands(Commands):
    """Topics, their partitions and segments."""

    async def create_topic(
        self,
        stream: Identifier,
        name: str,
        partitions: int = 1,
        *,
        compression: CompressionName | None = None,
        message_expiry: Duration | None = None,
        max_topic_size: Size | None = None,
        segment_size: Size | None = None,
        durability: Durability | None = None,
        consumer_offset_durability: Durability | None = None,
        messages_required_to_save: int | None = None,
        size_of_messages_required_to_save: Size | None = None,
        preallocate_segments: bool | None = None,
        options: Mapping[str, PythonValue] | None = None,
        timeout: float | None = None,
    ) -> TopicDetails:
        """Create a topic. What is None is left to the server.

        Args:
            stream: Where.
            name: 1 to 255 bytes of UTF-8.
            partitions: 0 to 1000.
            compression: A note for clients; the server compresses nothing.
            message_expiry: How long messages are kept: a `timedelta`, a text such as `"7 days"`,
                or `"never_expire"`.
            max_topic_size: Where the oldest messages are removed: bytes, a text such as
                `"10 GiB"`, or `"unlimited"`.
            segment_size: 1 MiB to 1 GiB, a multiple of 512.
            durability: When a send is acknowledged: `replicated` or `persisted`.
            consumer_offset_durability: The same for stored offsets.
            messages_required_to_save: Messages after which they are written to disk.
            size_of_messages_required_to_save: Bytes after which they are written to disk.
            preallocate_segments: Reserve the disk space of segments in advance.
            options: Further options that the server may know.
            timeout: Seconds for all of it.

        Raises:
            NotFound: There is no such stream.
            AlreadyExists: There is a topic with this name.
            InvalidRequest: An option or the number of partitions is out of bounds.
        """
        doing = f"create_topic {name!r} in {stream!r}"
        block = options_for_create(
            doing,
            {
                "compression_algorithm": compression,
                "message_expiry": message_expiry,
                "max_topic_size": max_topic_size,
                "segment_size": segment_size,
                "durability": durability,
                "consumer_offset_durability": consumer_offset_durability,
                "messages_required_to_save": messages_required_to_save,
                "size_of_messages_required_to_save": size_of_messages_required_to_save,
                "preallocate_segments": preallocate_segments,
            },
            options or {},
            partitions,
        )
        details: TopicDetails = await self._caller.call(
            CreateTopic(stream, partitions, name, block), doing, time_limit=timeout
        )
        return details

    async def get_topic(
        self, stream: Identifier, topic: Identifier, *, timeout: float | None = None
    ) -> TopicDetails | None:
        """A topic and its partitions; None if there is no such topic or stream."""
        details: TopicDetails | None = await self._caller.call(
            GetTopic(stream, topic), f"get_topic {topic!r} in {stream!r}", time_limit=timeout
        )
        return details

    async def get_topics(
        self, stream: Identifier, *, timeout: float | None = None
    ) -> tuple[Topic, ...]:
        """All topics of a stream, by ascending id; none if there is no such stream."""
        topics: tuple[Topic, ...] = await self._caller.call(
            GetTopics(stream), f"get_topics {stream!r}", time_limit=timeout
        )
        return topics

    async def update_topic(
        self,
        stream: Identifier,
        topic: Identifier,
        name: str,
        *,
        compression: CompressionName | None = None,
        message_expiry: Duration | None = None,
        max_topic_size: Size | None = None,
        options: Mapping[str, PythonValue] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Rename a topic and change some of its options. What is None stays as it is.

        Args:
            stream: Where.
            topic: Which.
            name: The new name, or the old one.
            compression: As in `create_topic`.
            message_expiry: As in `create_topic`.
            max_topic_size: As in `create_topic`.
            options: Further options that the server may know.
            timeout: Seconds for all of it.

        Raises:
            NotFound: There is no such stream or topic.
            AlreadyExists: Another topic has this name.
            InvalidRequest: An option is out of bounds or cannot be changed.
        """
        doing = f"update_topic {topic!r} in {stream!r}"
        block = options_for_update(
            doing,
            {
                "compression_algorithm": compression,
                "message_expiry": message_expiry,
                "max_topic_size": max_topic_size,
            },
            options or {},
        )
        await self._caller.call(UpdateTopic(stream, topic, name, block), doing, time_limit=timeout)

    async def purge_topic(
        self, stream: Identifier, topic: Identifier, *, timeout: float | None = None
    ) -> None:
        """Delete all messages and stored offsets of a topic.

        Raises:
            NotFound: There is no such stream or topic.
        """
        await self._caller.call(
            PurgeTopic(stream, topic), f"purge_topic {topic!r} in {stream!r}", time_limit=timeout
        )

    async def delete_topic(
        self, stream: Identifier, topic: Identifier, *, timeout: float | None = None
    ) -> None:
        """Delete a topic with all it holds.

        Raises:
            NotFound: There is no such stream or topic.
        """
        await self._caller.call(
            DeleteTopic(stream, topic), f"delete_topic {topic!r} in {stream!r}", time_limit=timeout
        )

    async def create_partitions(
        self, stream: Identifier, topic: Identifier, count: int, *, timeout: float | None = None
    ) -> None:
        """Add 1 to 1000 partitions to a topic; keys go to other partitions from then on.

        Raises:
            NotFound: There is no such stream or topic.
            InvalidRequest: The count is out of bounds.
        """
        await self._caller.call(
            CreatePartitions(stream, topic, count),
            f"create_partitions {topic!r} in {stream!r}",
            time_limit=timeout,
        )

    async def delete_partitions(
        self, stream: Identifier, topic: Identifier, count: int, *, timeout: float | None = None
    ) -> None:
        """Remove the partitions with the highest ids, and their messages, from a topic.

        Raises:
            NotFound: There is no such stream or topic.
            InvalidRequest: The count is out of bounds.
        """
        await self._caller.call(
            DeletePartitions(stream, topic, count),
            f"delete_partitions {topic!r} in {stream!r}",
            time_limit=timeout,
        )

    async def delete_segments(
        self,
        stream: Identifier,
        topic: Identifier,
        partition: int,
        count: int,
        *,
        timeout: float | None = None,
    ) -> None:
        """Remove the oldest sealed segments, and their messages, from a partition.

        Raises:
            NotFound: There is no such stream, topic or partition.
        """
        await self._caller.call(
            DeleteSegments(stream, topic, partition, count),
            f"delete_segments {topic!r} in {stream!r}",
            time_limit=timeout,
        )
