"""Options that a request may choose for a topic, and what each of them means (spec 03, 5.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from windsprite_protocol.model.typed_values import Option, TypedValue, ValueKind

FOREVER: Final = 2**64 - 1
INVALID: Final = None


@dataclass(frozen=True)
class Effective:
    """What is in force."""

    compression_algorithm: str = "none"
    consumer_offset_durability: str = "replicated"
    durability: str = "replicated"
    max_topic_size: int = FOREVER
    message_expiry: int = FOREVER
    messages_required_to_save: int = 1024
    preallocate_segments: bool = False
    segment_size: int = 2**30
    size_of_messages_required_to_save: int = 2**20


CATALOG: Final[dict[str, Any]] = dict(vars(Effective()))
UPDATABLE: Final = {"compression_algorithm", "max_topic_size", "message_expiry"}

_U32 = ValueKind.UINT32
_U64 = ValueKind.UINT64
_TEXT = ValueKind.STRING


def option(key: str, value: Any, kind: ValueKind = _TEXT) -> Option:
    return Option(key, TypedValue.of(value, kind))


# Option, and the value that it stands for; 0 leaves the choice to the server.
_MEANINGS: Final = [
    (option("compression_algorithm", "GZip"), "gzip"),
    (option("compression_algorithm", "none"), "none"),
    (option("compression_algorithm", 2, ValueKind.UINT8), "gzip"),
    (option("compression_algorithm", 3, ValueKind.UINT8), INVALID),
    (option("compression_algorithm", "lz4"), INVALID),
    (option("message_expiry", 604_800_000_000, _U64), 604_800_000_000),
    (option("message_expiry", "1h 30m"), 5_400_000_000),
    (option("message_expiry", "never_expire"), FOREVER),
    (option("message_expiry", 0, _U64), 0),
    (option("message_expiry", "5"), INVALID),
    (option("message_expiry", True, ValueKind.BOOL), INVALID),
    (option("max_topic_size", 2**31, _U64), 2**31),
    (option("max_topic_size", "unlimited"), FOREVER),
    (option("max_topic_size", "server_default"), 0),
    (option("max_topic_size", 4563, _U64), 4563),
    (option("max_topic_size", "2 GiB"), 2**31),
    (option("max_topic_size", "huge"), INVALID),
    (option("segment_size", 2**20, _U64), 2**20),
    (option("segment_size", "1 MiB"), 2**20),
    (option("segment_size", "128 MiB"), 2**27),
    (option("segment_size", 0, _U64), 0),
    (option("segment_size", 2**20 + 1, _U64), 2**20 + 1),
    (option("segment_size", 2**30, _U32), INVALID),
    (option("durability", "persisted"), "persisted"),
    (option("durability", "Persisted"), INVALID),
    (option("consumer_offset_durability", "persisted"), "persisted"),
    (option("messages_required_to_save", "+7"), 7),
    (option("messages_required_to_save", 0, _U32), INVALID),
    (option("size_of_messages_required_to_save", 4096, _U64), 4096),
    (option("preallocate_segments", "false"), False),
    (option("preallocate_segments", "no"), INVALID),
]
_UNKNOWN: Final = [
    option("colour", "red"),
    option("partitions_count", 3, _U32),
    option("enforce_fsync", True, ValueKind.BOOL),
]

CHOICES: Final = [choice for choice, _ in _MEANINGS] + _UNKNOWN
_KINDS: Final = {
    "messages_required_to_save": _U32,
    "preallocate_segments": ValueKind.BOOL,
    "message_expiry": _U64,
    "max_topic_size": _U64,
    "segment_size": _U64,
    "size_of_messages_required_to_save": _U64,
}


def value_of(chosen: Option) -> Any:
    """What a known option stands for; `None`: it is not allowed."""
    return next(value for choice, value in _MEANINGS if choice == chosen)


def canonical(key: str, value: Any) -> TypedValue:
    """How a server reports a value."""
    return TypedValue.of(value, _KINDS.get(key, _TEXT))
