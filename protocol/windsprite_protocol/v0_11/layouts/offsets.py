"""Stored offsets of consumers (spec 04, 7).

Consumers store offsets as often as they poll: that request and the reply to a read use `struct`.
"""

from __future__ import annotations

import struct
from typing import Final

from windsprite_protocol.body import StructCodec
from windsprite_protocol.errors import DecodeError
from windsprite_protocol.layout import U32, U64, Record
from windsprite_protocol.model.identifiers import AckLevel
from windsprite_protocol.model.offsets import (
    ConsumerOffset,
    DeleteConsumerOffset,
    GetConsumerOffset,
    GetConsumerOffsetRouting,
    StoreConsumerOffset,
)
from windsprite_protocol.v0_11.layouts.cursor import (
    read_consumer,
    read_identifier,
    read_optional_partition,
    write_consumer,
    write_identifier,
    write_optional_partition,
)
from windsprite_protocol.v0_11.layouts.primitives import (
    ACK_LEVEL,
    CONSUMER,
    OPTIONAL_PARTITION,
    STREAM,
    TOPIC,
)

_KEY: Final = ("consumer" / CONSUMER, STREAM, TOPIC, "partition_id" / OPTIONAL_PARTITION)

GET_OFFSET: Final = Record(GetConsumerOffset, *_KEY)
GET_OFFSET_ROUTING: Final = Record(GetConsumerOffsetRouting, *_KEY)
STORE_OFFSET: Final = Record(StoreConsumerOffset, *_KEY, "offset" / U64, "ack" / ACK_LEVEL)
DELETE_OFFSET: Final = Record(DeleteConsumerOffset, *_KEY, "ack" / ACK_LEVEL)

CONSUMER_OFFSET: Final = Record(
    ConsumerOffset,
    "partition_id" / U32,
    "current_offset" / U64,
    "stored_offset" / U64,
)

_STORE_TAIL: Final = struct.Struct("<QB")
_ACK_LEVELS: Final = {level.value: level for level in AckLevel}


class StoreOffsetCodec(StructCodec[StoreConsumerOffset]):
    """A store of an offset (spec 04, 7.1)."""

    cls = StoreConsumerOffset
    layout = STORE_OFFSET

    def _write(self, value: StoreConsumerOffset) -> tuple[bytes]:
        return (
            b"".join(
                (
                    write_consumer(value.consumer),
                    write_identifier(value.stream),
                    write_identifier(value.topic),
                    write_optional_partition(value.partition_id),
                    _STORE_TAIL.pack(value.offset, value.ack),
                )
            ),
        )

    def _read(self, body: memoryview) -> StoreConsumerOffset:
        consumer, at = read_consumer(body, 0)
        stream, at = read_identifier(body, at)
        topic, at = read_identifier(body, at)
        partition_id, at = read_optional_partition(body, at)
        offset, number = _STORE_TAIL.unpack_from(body, at)
        ack = _ACK_LEVELS.get(number)
        if ack is None:
            message = f"{number} is no level of acknowledgement"
            raise DecodeError(message)
        return StoreConsumerOffset(consumer, stream, topic, partition_id, offset, ack)
