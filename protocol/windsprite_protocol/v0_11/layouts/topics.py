"""Topics, partitions and segments (spec 03, 2.2, 2.3 and 4.7-4.15)."""

from __future__ import annotations

from typing import Final

from windsprite_protocol.layout import NAME8, U8, U32, U64, Counted, Enumerated, Headed, Record
from windsprite_protocol.model.topics import (
    Compression,
    CreatePartitions,
    CreateTopic,
    DeletePartitions,
    DeleteSegments,
    DeleteTopic,
    GetTopic,
    GetTopics,
    Partition,
    PurgeTopic,
    Topic,
    TopicDetails,
    UpdateTopic,
)
from windsprite_protocol.v0_11.layouts.primitives import (
    OPTION_BLOCK,
    REPORTED_OPTIONS,
    STREAM,
    TOPIC,
)

TOPIC_HEADER: Final = Record(
    Topic,
    "id" / U32,
    "created_at" / U64,
    "partitions_count" / U32,
    "message_expiry" / U64,
    "compression" / Enumerated(U8, Compression),
    "max_topic_size" / U64,
    "size_bytes" / U64,
    "messages_count" / U64,
    "name" / NAME8,
    "options" / REPORTED_OPTIONS,
    "derived_options" / REPORTED_OPTIONS,
)

PARTITION: Final = Record(
    Partition,
    "id" / U32,
    "created_at" / U64,
    "segments_count" / U32,
    "current_offset" / U64,
    "size_bytes" / U64,
    "messages_count" / U64,
)

TOPIC_DETAILS: Final = Headed(
    TopicDetails, "topic" / TOPIC_HEADER, "partitions_count", "partitions" / PARTITION
)

TOPICS: Final = Counted[Topic](U32, TOPIC_HEADER)

GET_TOPIC: Final = Record(GetTopic, STREAM, TOPIC)
GET_TOPICS: Final = Record(GetTopics, STREAM)
CREATE_TOPIC: Final = Record(
    CreateTopic,
    STREAM,
    "partitions_count" / U32,
    "name" / NAME8,
    "options" / OPTION_BLOCK,
)
DELETE_TOPIC: Final = Record(DeleteTopic, STREAM, TOPIC)
UPDATE_TOPIC: Final = Record(
    UpdateTopic,
    STREAM,
    TOPIC,
    "name" / NAME8,
    "options" / OPTION_BLOCK,
)
PURGE_TOPIC: Final = Record(PurgeTopic, STREAM, TOPIC)
CREATE_PARTITIONS: Final = Record(CreatePartitions, STREAM, TOPIC, "partitions_count" / U32)
DELETE_PARTITIONS: Final = Record(DeletePartitions, STREAM, TOPIC, "partitions_count" / U32)
DELETE_SEGMENTS: Final = Record(
    DeleteSegments,
    STREAM,
    TOPIC,
    "partition_id" / U32,
    "segments_count" / U32,
)
