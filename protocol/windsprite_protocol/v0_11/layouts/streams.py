"""Streams (spec 03, 2.1 and 4.1-4.6)."""

from __future__ import annotations

from typing import Final

from windsprite_protocol.layout import NAME8, U32, U64, Headed, Record, UntilEnd
from windsprite_protocol.model.streams import (
    CreateStream,
    DeleteStream,
    GetStream,
    PurgeStream,
    Stream,
    StreamDetails,
    UpdateStream,
)
from windsprite_protocol.v0_11.layouts.primitives import OPTION_BLOCK, REPORTED_OPTIONS, STREAM
from windsprite_protocol.v0_11.layouts.topics import TOPIC_HEADER

STREAM_HEADER: Final = Record(
    Stream,
    "id" / U32,
    "created_at" / U64,
    "topics_count" / U32,
    "size_bytes" / U64,
    "messages_count" / U64,
    "name" / NAME8,
    "options" / REPORTED_OPTIONS,
)

STREAM_DETAILS: Final = Headed(
    StreamDetails, "stream" / STREAM_HEADER, "topics_count", "topics" / TOPIC_HEADER
)

STREAMS: Final = UntilEnd[Stream](STREAM_HEADER)

GET_STREAM: Final = Record(GetStream, STREAM)
CREATE_STREAM: Final = Record(CreateStream, "name" / NAME8, "options" / OPTION_BLOCK)
DELETE_STREAM: Final = Record(DeleteStream, STREAM)
UPDATE_STREAM: Final = Record(
    UpdateStream,
    STREAM,
    "name" / NAME8,
    "options" / OPTION_BLOCK,
)
PURGE_STREAM: Final = Record(PurgeStream, STREAM)
