"""How a producer behaves, and what it tells."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from windsprite.address import RETRY_MODES, RetryMode
from windsprite.commands.topics import CompressionName
from windsprite.encryption import Encryptor
from windsprite.errors import InvalidRequest
from windsprite.messages import Headers, Message
from windsprite.producer.routing import Partitioner
from windsprite.topic_options import Durability, Duration, Size
from windsprite_protocol.batches import MAX_PAYLOAD_BYTES
from windsprite_protocol.model.identifiers import Identifier
from windsprite_protocol.model.typed_values import PythonValue

ProducerMode: TypeAlias = Literal["background", "direct"]
"""Whether `send` comes back when a message is accepted, or when it is stored."""

WhenFull: TypeAlias = Literal["block", "fail"] | float
"""What `send` does while there is no room: wait, raise `BufferFull`, or wait so many seconds."""

MAX_BATCH_MESSAGES: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """What a topic is like that a producer makes because it is missing.

    The arguments are those of `Client.create_topic`; what is None is left to the server.
    """

    partitions: int = 1
    compression: CompressionName | None = None
    message_expiry: Duration | None = None
    max_topic_size: Size | None = None
    segment_size: Size | None = None
    durability: Durability | None = None
    consumer_offset_durability: Durability | None = None
    messages_required_to_save: int | None = None
    size_of_messages_required_to_save: Size | None = None
    preallocate_segments: bool | None = None
    options: Mapping[str, PythonValue] | None = None


@dataclass(frozen=True, slots=True)
class FailedBatch:
    """Messages that were not delivered, all for the same reason.

    Attributes:
        stream: Where they were to go.
        topic: Where they were to go.
        partition: Their partition; None if the server was to find it.
        messages: The messages, with the ids and times that they were sent with and with what was
            given as headers; not encrypted. They can be sent again as they are.
        error: Why; after `OutcomeUnknown` they may be stored nevertheless.
    """

    stream: Identifier
    topic: Identifier
    partition: int | None
    messages: tuple[Message, ...]
    error: BaseException


OnError: TypeAlias = Callable[[FailedBatch], None]
"""Is told of every batch that was not delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    """How a producer behaves; `Client.producer` says what each of them means.

    Raises:
        InvalidRequest: A value makes no sense.
    """

    key: bytes | str | None = None
    partition: int | None = None
    partitioner: Partitioner | None = None
    headers: Headers | None = None
    mode: ProducerMode = "background"
    batch_messages: int = 1000
    batch_bytes: int = 1 << 20
    linger: float = 0.005
    buffer_bytes: int = 32 << 20
    when_full: WhenFull = "block"
    max_in_flight: int = 8
    retry: RetryMode | None = None
    delivery_timeout: float = 120.0
    refresh_interval: float = 30.0
    create: bool | NewTopic = True
    encryption: Encryptor | None = None
    on_error: OnError | None = None

    def __post_init__(self) -> None:
        problems = {
            "either a key or a partition, not both": None not in (self.key, self.partition),
            "mode is background or direct": self.mode not in ("background", "direct"),
            f"batch_messages is from 1 to {MAX_BATCH_MESSAGES:,}": not (
                1 <= self.batch_messages <= MAX_BATCH_MESSAGES
            ),
            f"batch_bytes is from 1 to {MAX_PAYLOAD_BYTES:,}": not (
                1 <= self.batch_bytes <= MAX_PAYLOAD_BYTES
            ),
            "linger is a number of seconds, or 0": not 0 <= self.linger < math.inf,
            "buffer_bytes has to be at least 1": self.buffer_bytes < 1,
            "when_full is block, fail or a number of seconds": not (
                self.when_full in ("block", "fail")
                if isinstance(self.when_full, str)
                else 0 < self.when_full < math.inf
            ),
            "max_in_flight has to be at least 1": self.max_in_flight < 1,
            "retry is safe or at-least-once": self.retry not in (None, *RETRY_MODES),
            "delivery_timeout is a number of seconds": not 0 < self.delivery_timeout < math.inf,
            "linger has to be less than delivery_timeout": self.linger >= self.delivery_timeout,
            "refresh_interval is a number of seconds": not 0 < self.refresh_interval < math.inf,
        }
        for sentence, is_so in problems.items():
            if is_so:
                raise InvalidRequest(f"producer: {sentence}")
