"""What many bodies are made of: identifiers, consumers, partitions, options (spec 03, 1; 04)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import construct as c

from windsprite_protocol.errors import EncodeError, ErrorCode
from windsprite_protocol.layout import U8, U32, Enumerated, Layout, Record, struct_twin
from windsprite_protocol.model.identifiers import (
    AckLevel,
    Balanced,
    ByKey,
    Consumer,
    ConsumerKind,
    Identifier,
    Partitioning,
    ToPartition,
)
from windsprite_protocol.model.typed_values import Options
from windsprite_protocol.tlv import decode_options, decode_reported_options, encode_options

if TYPE_CHECKING:
    from construct.core import Context, PathType, StreamType

TAGGED: Final = c.Struct("kind" / U8, "value" / c.Prefixed(U8, c.GreedyBytes))
"""A kind, a length, and so many bytes."""

NUMERIC: Final = 1
NAME: Final = 2

BALANCED: Final = 1
PARTITION_ID: Final = 2
MESSAGES_KEY: Final = 3


class IdentifierLayout(Layout[Identifier]):
    """Kind 1: a number in 4 bytes; kind 2: a name of 1 to 255 bytes (spec 03, 1.2)."""

    def _parse(self, stream: StreamType, context: Context, path: PathType) -> Identifier:
        tagged = TAGGED._parsereport(stream, context, path)
        kind: int = tagged.kind
        value: bytes = tagged.value
        if kind == NUMERIC and len(value) == 4:
            return int.from_bytes(value, "little")
        if kind == NAME and value:
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise c.StringError("name is not UTF-8", path=path) from None
        message = f"no identifier has kind {kind} and {len(value)} bytes"
        raise c.MappingError(message, path=path)

    def _write(self, obj: Identifier, stream: StreamType, context: Context, path: PathType) -> None:
        if isinstance(obj, str):
            kind, value = NAME, obj.encode()
            fits = 1 <= len(value) <= 255
        else:
            fits = 0 <= obj < 2**32
            kind, value = NUMERIC, obj.to_bytes(4, "little") if fits else b""
        if not fits:
            raise EncodeError(
                "an identifier is a number of 32 bits or a name of 1 to 255 bytes",
                ErrorCode.INVALID_IDENTIFIER,
            )
        TAGGED._build({"kind": kind, "value": value}, stream, context, path)


class PartitioningLayout(Layout[Partitioning]):
    """Kind 1: balanced; kind 2: a partition id; kind 3: a key of 1 to 255 bytes (spec 04, 4.2)."""

    def _parse(self, stream: StreamType, context: Context, path: PathType) -> Partitioning:
        tagged = TAGGED._parsereport(stream, context, path)
        kind: int = tagged.kind
        value: bytes = tagged.value
        if kind == BALANCED and not value:
            return Balanced()
        if kind == PARTITION_ID and len(value) == 4:
            return ToPartition(int.from_bytes(value, "little"))
        if kind == MESSAGES_KEY and value:
            return ByKey(value)
        message = f"no partitioning has kind {kind} and {len(value)} bytes"
        raise c.MappingError(message, path=path)

    def _write(
        self, obj: Partitioning, stream: StreamType, context: Context, path: PathType
    ) -> None:
        match obj:
            case Balanced():
                kind, value = BALANCED, b""
            case ToPartition(partition_id):
                kind, value = PARTITION_ID, U32.build(partition_id)
            case ByKey(key):
                if not 1 <= len(key) <= 255:
                    message = f"a key takes 1 to 255 bytes, not {len(key)}"
                    raise EncodeError(message, ErrorCode.INVALID_KEY_VALUE_LENGTH)
                kind, value = MESSAGES_KEY, key
        TAGGED._build({"kind": kind, "value": value}, stream, context, path)


class OptionalPartition(Layout[int | None]):
    """A flag and a partition id, always 5 bytes; it is meant only if the flag is exactly 1."""

    _FIELDS = c.Struct("flag" / U8, "value" / U32)

    def _parse(self, stream: StreamType, context: Context, path: PathType) -> int | None:
        fields = self._FIELDS._parsereport(stream, context, path)
        value: int = fields.value
        return value if fields.flag == 1 else None

    def _write(self, obj: int | None, stream: StreamType, context: Context, path: PathType) -> None:
        fields = {"flag": obj is not None, "value": 0 if obj is None else obj}
        self._FIELDS._build(fields, stream, context, path)


class OptionBlock(Layout[Options]):
    """The options of a request: a block that runs to the end of the body (spec 03, 1.3)."""

    def _parse(self, stream: StreamType, context: Context, path: PathType) -> Options:
        return decode_options(c.GreedyBytes._parsereport(stream, context, path))

    def _write(self, obj: Options, stream: StreamType, context: Context, path: PathType) -> None:
        c.GreedyBytes._build(encode_options(obj), stream, context, path)


class ReportedOptions(Layout[Options]):
    """The options in a reply: a block behind its length in bytes (spec 03, 1.3)."""

    _LENGTH = struct_twin(U32)

    def _parse(self, stream: StreamType, context: Context, path: PathType) -> Options:  # noqa: ARG002
        (size,) = self._LENGTH.unpack(c.stream_read(stream, self._LENGTH.size, path))
        return decode_reported_options(c.stream_read(stream, size, path)) if size else ()

    def _write(self, obj: Options, stream: StreamType, context: Context, path: PathType) -> None:  # noqa: ARG002
        block = encode_options(obj) if obj else b""
        data = self._LENGTH.pack(len(block)) + block
        c.stream_write(stream, data, len(data), path)


IDENTIFIER: Final = IdentifierLayout()
PARTITIONING: Final = PartitioningLayout()
OPTIONAL_PARTITION: Final = OptionalPartition()
OPTION_BLOCK: Final = OptionBlock()
REPORTED_OPTIONS: Final = ReportedOptions()
ACK_LEVEL: Final = Enumerated(U8, AckLevel)
CONSUMER: Final = Record(
    Consumer,
    "kind" / Enumerated(U8, ConsumerKind),
    "id" / IDENTIFIER,
)

STREAM: Final[c.Renamed[Any, Any]] = "stream" / IDENTIFIER
TOPIC: Final[c.Renamed[Any, Any]] = "topic" / IDENTIFIER
