"""The options of topics: which there are, what they may be, what they mean (spec 03, 5).

A topic has a value for every option of the catalog: those that its creator chose are its explicit
options, the others are derived, frozen when the topic is created.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, TypeAlias

from windsprite_protocol.errors import DecodeError, ErrorCode, ProtocolError
from windsprite_protocol.model.system import OptionSpec
from windsprite_protocol.model.topics import (
    NEVER_EXPIRES,
    UNLIMITED_SIZE,
    Compression,
)
from windsprite_protocol.model.typed_values import (
    Option,
    Options,
    PythonValue,
    TypedValue,
    ValueKind,
)
from windsprite_protocol.text_forms import parse_expiry, parse_max_topic_size, parse_optional_size

MAX_PARTITIONS_PER_REQUEST: Final = 1000
MIN_SEGMENT_SIZE: Final = 1 << 20
MAX_SEGMENT_SIZE: Final = 1 << 30
SEGMENT_SIZE_STEP: Final = 512
DEFAULT_SEGMENT_SIZE: Final = MAX_SEGMENT_SIZE
MAX_PREALLOCATED_BYTES: Final = 64 << 30
"""How many bytes the first segments of a topic may reserve together."""


class Durability(StrEnum):
    """What has to have happened before something is acknowledged (spec 03, 1.7)."""

    REPLICATED = "replicated"
    """The operating system has it: it survives the end of the process."""
    PERSISTED = "persisted"
    """It is on stable storage: it survives a loss of power."""


FieldValue: TypeAlias = int | Compression | Durability
"""What the fields of `TopicConfig` hold."""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The settings of a topic that are in force.

    Attributes:
        compression_algorithm: A note for clients; the server compresses nothing.
        message_expiry: Microseconds after which messages may be removed, or `NEVER_EXPIRES`.
        max_topic_size: Bytes above which the oldest messages may be removed, or
            `UNLIMITED_SIZE`.
        segment_size: Bytes after which a partition begins another segment.
        durability: What the acknowledgement of a send promises.
        consumer_offset_durability: What that of a stored or deleted consumer offset promises.
        messages_required_to_save: Messages that may be held in memory before they are written.
        size_of_messages_required_to_save: Bytes that may be held in memory before they are
            written.
        preallocate_segments: Whether the bytes of a segment are reserved when it begins.
    """

    compression_algorithm: Compression = Compression.NONE
    message_expiry: int = NEVER_EXPIRES
    max_topic_size: int = UNLIMITED_SIZE
    segment_size: int = DEFAULT_SEGMENT_SIZE
    durability: Durability = Durability.REPLICATED
    consumer_offset_durability: Durability = Durability.REPLICATED
    messages_required_to_save: int = 1024
    size_of_messages_required_to_save: int = 1 << 20
    preallocate_segments: bool = False


@dataclass(frozen=True, slots=True)
class ResolvedOptions:
    """All options of a new topic; both blocks by ascending key, and no key in both.

    Attributes:
        config: The settings that they make.
        explicit: Those that the request chose, in their canonical kinds.
        derived: All others, with their defaults.
    """

    config: TopicConfig
    explicit: Options
    derived: Options


@dataclass(frozen=True, slots=True)
class OptionChanges:
    """What an update changes in a topic.

    Attributes:
        explicit: The options that become explicit, with their values as the request has them, by
            ascending key.
        compression_algorithm: The new setting; `None` leaves it as it is.
        message_expiry: Likewise.
        max_topic_size: Likewise.
    """

    explicit: Options
    compression_algorithm: Compression | None = None
    message_expiry: int | None = None
    max_topic_size: int | None = None


class TopicOptionError(ProtocolError):
    """A request chooses what a topic cannot have.

    Attributes:
        code: The number under which a server refuses it.
    """

    def __init__(self, message: str, code: ErrorCode = ErrorCode.INVALID_OPTION_VALUE) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class _Entry:
    """One option of the catalog.

    Attributes:
        key: Its key, and the field of `TopicConfig`.
        kind: The canonical kind, in which its value is stored and reported.
        other_kind: Another kind in which a request may give it.
        read: Turns a plain value of either kind into that of the field; raises `ValueError`.
        write: Turns the value of the field into the plain value of the canonical kind.
        description: What it is, for people.
        updatable: Whether it may change after the creation of the topic.
        zero_is_absent: Whether 0 means that the request leaves the choice to the server.
    """

    key: str
    kind: ValueKind
    other_kind: ValueKind | None
    read: Callable[[PythonValue], FieldValue]
    description: str
    write: Callable[[Any], PythonValue] = lambda value: value
    updatable: bool = False
    zero_is_absent: bool = False

    def decode(self, value: TypedValue) -> FieldValue:
        """The value of the field; raises `TopicOptionError` (4042) for one not allowed."""
        if value.kind not in {self.kind, self.other_kind}:
            message = f"{self.key}: values of kind {value.kind} are not accepted"
            raise TopicOptionError(message)
        try:
            return self.read(value.to_python())
        except (DecodeError, ValueError) as error:
            message = f"{self.key}: {error}"
            raise TopicOptionError(message) from error

    def option(self, config: TopicConfig) -> Option:
        """The option in its canonical form."""
        value = self.write(getattr(config, self.key))
        return Option(self.key, TypedValue.of(value, self.kind))


def resolve_for_create(options: Options, partitions_count: int) -> ResolvedOptions:
    """All options of a new topic from those that a request gives (spec 03, 4.9 and 5.3).

    Raises:
        TopicOptionError: An option is unknown (4041) or has a value that is not allowed (4042),
            there are too many partitions (2015), or the topic may not even hold one segment
            (1019).
    """
    chosen = _read_values(options)
    config = replace(TopicConfig(), **chosen)
    _check_segments(config, partitions_count)
    if partitions_count > MAX_PARTITIONS_PER_REQUEST:
        message = f"{partitions_count} partitions at once, at most {MAX_PARTITIONS_PER_REQUEST} go"
        raise TopicOptionError(message, ErrorCode.TOO_MANY_PARTITIONS)
    _check_topic_size(config.max_topic_size, config.segment_size)
    return ResolvedOptions(
        config,
        explicit=tuple(entry.option(config) for key, entry in _BY_KEY if key in chosen),
        derived=tuple(entry.option(config) for key, entry in _BY_KEY if key not in chosen),
    )


def resolve_for_update(options: Options, segment_size: int = DEFAULT_SEGMENT_SIZE) -> OptionChanges:
    """What an update with these options changes in a topic (spec 03, 4.11 and 5.4).

    Options that leave the choice to the server (0) change nothing.

    Args:
        options: Those of the request.
        segment_size: That of the topic; the default if there is no such topic, to find out what
            is wrong with the request itself.

    Raises:
        TopicOptionError: An option is unknown or may not change (4041), has a value that is not
            allowed (4042), or the topic might not even hold one segment (1019).
    """
    for option in options:
        if option.key not in _UPDATABLE:
            raise _unsupported(option.key)
    chosen = _read_values(options)
    _check_topic_size(chosen.get("max_topic_size", UNLIMITED_SIZE), segment_size)
    return OptionChanges(
        tuple(sorted((option for option in options if option.key in chosen), key=_key)), **chosen
    )


def config_of(options: Options) -> TopicConfig:
    """The settings that a topic's options make, explicit and derived ones together.

    Options that are not in the catalog are left out; what no option tells is the default.

    Raises:
        TopicOptionError: A value is not allowed (4042).
    """
    known = [option for option in options if option.key in _CATALOG]
    return replace(TopicConfig(), **_read_values(known))


def describe() -> tuple[OptionSpec, ...]:
    """The catalog as a server reports it (spec 03, 5.6)."""
    defaults = TopicConfig()
    return tuple(
        OptionSpec(entry.key, entry.kind, entry.option(defaults).value.data, entry.description)
        for entry in _CATALOG.values()
    )


def _key(option: Option) -> str:
    return option.key


def _read_values(options: Iterable[Option]) -> dict[str, Any]:
    """The fields of `TopicConfig` that options choose; the first wrong option is complained of."""
    chosen: dict[str, Any] = {}
    for option in options:
        entry = _CATALOG.get(option.key)
        if entry is None:
            raise _unsupported(option.key)
        value = entry.decode(option.value)
        if value or not entry.zero_is_absent:
            chosen[option.key] = value
    return chosen


def _check_segments(config: TopicConfig, partitions_count: int) -> None:
    size = config.segment_size
    if not MIN_SEGMENT_SIZE <= size <= MAX_SEGMENT_SIZE or size % SEGMENT_SIZE_STEP:
        message = (
            f"segment_size: {size} is not a multiple of {SEGMENT_SIZE_STEP} "
            f"from {MIN_SEGMENT_SIZE} to {MAX_SEGMENT_SIZE}"
        )
        raise TopicOptionError(message)
    if config.preallocate_segments and size * partitions_count > MAX_PREALLOCATED_BYTES:
        message = (
            f"preallocate_segments: {partitions_count} segments of {size} bytes are more than "
            f"{MAX_PREALLOCATED_BYTES} bytes"
        )
        raise TopicOptionError(message)


def _check_topic_size(max_topic_size: int, segment_size: int) -> None:
    if max_topic_size < segment_size:
        message = f"max_topic_size: {max_topic_size} is less than one segment of {segment_size}"
        raise TopicOptionError(message, ErrorCode.INVALID_TOPIC_SIZE)


def _unsupported(key: str) -> TopicOptionError:
    message = f"the option {key!r} is not supported here"
    return TopicOptionError(message, ErrorCode.UNSUPPORTED_OPTION_KEY)


def _read_compression(value: PythonValue) -> Compression:
    if not isinstance(value, str):
        return Compression(int(value))
    for compression in Compression:
        if value.lower() == compression.name.lower():
            return compression
    message = f"{value!r} is neither none nor gzip"
    raise ValueError(message)


def _read_durability(value: PythonValue) -> Durability:
    return Durability(str(value))


def _read_number(
    parse: Callable[[str], int], minimum: int = 0, maximum: int = 0xFFFF_FFFF_FFFF_FFFF
) -> Callable[[PythonValue], int]:
    """A reader of numbers, or of texts that `parse` turns into one, from minimum to maximum."""

    def read(value: PythonValue) -> int:
        number = parse(value) if isinstance(value, str) else int(value)
        if not minimum <= number <= maximum:
            message = f"{number} is not from {minimum} to {maximum}"
            raise ValueError(message)
        return number

    return read


def _parse_decimal(text: str) -> int:
    if re.fullmatch(r"\+?[0-9]+", text) is None:
        message = f"{text!r} is not a decimal number"
        raise ValueError(message)
    return int(text)


def _read_bool(value: PythonValue) -> bool:
    if isinstance(value, bool):
        return value
    if value in {"true", "false"}:
        return value == "true"
    message = f"{value!r} is neither true nor false"
    raise ValueError(message)


_CATALOG: Final = {
    entry.key: entry
    for entry in (
        _Entry(
            "compression_algorithm",
            ValueKind.STRING,
            ValueKind.UINT8,
            _read_compression,
            "How producers say they compress payloads, for consumers to know: none or gzip. "
            "The server does not compress.",
            write=lambda compression: compression.name.lower(),
            updatable=True,
        ),
        _Entry(
            "message_expiry",
            ValueKind.UINT64,
            ValueKind.STRING,
            _read_number(parse_expiry),
            "Age in microseconds from which messages may be removed. As text a duration such as "
            "7d or 12h 30m, or never_expire. 0: the server's default.",
            updatable=True,
            zero_is_absent=True,
        ),
        _Entry(
            "max_topic_size",
            ValueKind.UINT64,
            ValueKind.STRING,
            _read_number(parse_max_topic_size),
            "Size in bytes above which the oldest messages may be removed, at least that of a "
            "segment. As text a size such as 10 GiB, or unlimited. 0: the server's default.",
            updatable=True,
            zero_is_absent=True,
        ),
        _Entry(
            "segment_size",
            ValueKind.UINT64,
            ValueKind.STRING,
            _read_number(parse_optional_size),
            "Size in bytes from which a partition goes on in a new file: a multiple of 512 from "
            "1 MiB to 1 GiB. As text a size such as 128 MiB. 0: the server's default.",
            zero_is_absent=True,
        ),
        _Entry(
            "durability",
            ValueKind.STRING,
            None,
            _read_durability,
            "What the acknowledgement of a send promises: replicated, or persisted, which waits "
            "for stable storage.",
        ),
        _Entry(
            "consumer_offset_durability",
            ValueKind.STRING,
            None,
            _read_durability,
            "What the acknowledgement of a stored or deleted consumer offset promises: "
            "replicated, or persisted, which waits for stable storage.",
        ),
        _Entry(
            "messages_required_to_save",
            ValueKind.UINT32,
            ValueKind.STRING,
            _read_number(_parse_decimal, 1, 1 << 24),
            "Number of messages of a partition, 1 to 16777216, that may wait in memory before "
            "they are written. As text a decimal number.",
        ),
        _Entry(
            "size_of_messages_required_to_save",
            ValueKind.UINT64,
            ValueKind.STRING,
            _read_number(parse_optional_size, maximum=1 << 30),
            "Size in bytes, at most 1 GiB, of the messages of a partition that may wait in memory "
            "before they are written. As text a size such as 1 MiB. 0: the server's default.",
            zero_is_absent=True,
        ),
        _Entry(
            "preallocate_segments",
            ValueKind.BOOL,
            ValueKind.STRING,
            _read_bool,
            "Whether the disk space of a segment is reserved when it begins, for 64 GiB over all "
            "partitions at most. As text true or false.",
        ),
    )
}
_BY_KEY: Final = sorted(_CATALOG.items())
_UPDATABLE: Final = {entry.key for entry in _CATALOG.values() if entry.updatable}
