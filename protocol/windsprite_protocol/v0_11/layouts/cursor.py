"""Reading and writing primitives without construct, for the bodies of the hot path.

Readers take a body and a position and return a value and the position after it. On a body that
is cut short they raise `IndexError` or `struct.error`, on a text that is none
`UnicodeDecodeError`, and writers raise what `struct` raises: `StructCodec` makes errors of the
protocol of those.
"""

from __future__ import annotations

import struct
from typing import Final

from windsprite_protocol.errors import DecodeError, EncodeError, ErrorCode
from windsprite_protocol.model.identifiers import (
    Balanced,
    ByKey,
    Consumer,
    ConsumerKind,
    Identifier,
    Partitioning,
    ToPartition,
)
from windsprite_protocol.v0_11.layouts.primitives import (
    BALANCED,
    MESSAGES_KEY,
    NAME,
    NUMERIC,
    PARTITION_ID,
)

_U32: Final = struct.Struct("<L")
_TAGGED_U32: Final = struct.Struct("<BBL")
_OPTIONAL_PARTITION: Final = struct.Struct("<BL")
_CONSUMER_KINDS: Final = (None, ConsumerKind.SINGLE, ConsumerKind.GROUP)
_BALANCED: Final = Balanced()


def read_identifier(body: bytes | memoryview, at: int) -> tuple[Identifier, int]:
    """An identifier (spec 03, 1.2)."""
    kind, size = body[at], body[at + 1]
    start = at + 2
    if kind == NUMERIC and size == 4:
        return _U32.unpack_from(body, start)[0], start + 4
    if kind == NAME and size:
        end = start + size
        body[end - 1]  # a slice would not notice that the body is shorter
        return str(body[start:end], "utf-8"), end
    message = f"no identifier has kind {kind} and {size} bytes"
    raise DecodeError(message)


def write_identifier(identifier: Identifier) -> bytes:
    """The bytes of an identifier.

    Raises:
        EncodeError: It is no number of 32 bits and no name of 1 to 255 bytes.
    """
    if isinstance(identifier, str):
        name = identifier.encode()
        if 1 <= len(name) <= 255:
            return bytes((NAME, len(name))) + name
    elif 0 <= identifier < 2**32:
        return _TAGGED_U32.pack(NUMERIC, 4, identifier)
    raise EncodeError(
        "an identifier is a number of 32 bits or a name of 1 to 255 bytes",
        ErrorCode.INVALID_IDENTIFIER,
    )


def read_consumer(body: bytes | memoryview, at: int) -> tuple[Consumer, int]:
    """A consumer (spec 04)."""
    number = body[at]
    kind = _CONSUMER_KINDS[number] if number < len(_CONSUMER_KINDS) else None
    if kind is None:
        message = f"{number} is no kind of consumer"
        raise DecodeError(message)
    identifier, at = read_identifier(body, at + 1)
    return Consumer(kind, identifier), at


def write_consumer(consumer: Consumer) -> bytes:
    """The bytes of a consumer.

    Raises:
        EncodeError: As for its identifier.
    """
    return bytes((consumer.kind,)) + write_identifier(consumer.id)


def read_optional_partition(body: bytes | memoryview, at: int) -> tuple[int | None, int]:
    """An optional partition: 5 bytes, meant only if the first is exactly 1 (spec 04)."""
    flag, value = _OPTIONAL_PARTITION.unpack_from(body, at)
    return (value if flag == 1 else None), at + _OPTIONAL_PARTITION.size


def write_optional_partition(partition_id: int | None) -> bytes:
    """The bytes of an optional partition."""
    if partition_id is None:
        return _OPTIONAL_PARTITION.pack(0, 0)
    return _OPTIONAL_PARTITION.pack(1, partition_id)


def read_partitioning(body: bytes | memoryview, at: int) -> tuple[Partitioning, int]:
    """How a send chooses its partition (spec 04, 4.2)."""
    kind, size = body[at], body[at + 1]
    start = at + 2
    if kind == PARTITION_ID and size == 4:
        return ToPartition(_U32.unpack_from(body, start)[0]), start + 4
    if kind == BALANCED and not size:
        return _BALANCED, start
    if kind == MESSAGES_KEY and size:
        end = start + size
        body[end - 1]  # a slice would not notice that the body is shorter
        return ByKey(bytes(body[start:end])), end
    message = f"no partitioning has kind {kind} and {size} bytes"
    raise DecodeError(message)


def write_partitioning(partitioning: Partitioning) -> bytes:
    """The bytes of a partitioning.

    Raises:
        EncodeError: A key is not 1 to 255 bytes.
    """
    match partitioning:
        case ToPartition(partition_id):
            return _TAGGED_U32.pack(PARTITION_ID, 4, partition_id)
        case Balanced():
            return bytes((BALANCED, 0))
        case ByKey(key):
            if not 1 <= len(key) <= 255:
                message = f"a key takes 1 to 255 bytes, not {len(key)}"
                raise EncodeError(message, ErrorCode.INVALID_KEY_VALUE_LENGTH)
            return bytes((MESSAGES_KEY, len(key))) + key
