"""The exceptions of the SDK, one class for each kind of trouble that is handled differently.

    WindspriteError
    |- InvalidRequest            the request makes no sense; the same request fails again
    |  `- InvalidConnectionString
    |- NotFound                  a stream, topic, partition, group, user, offset ... is missing
    |- AlreadyExists             the name is taken
    |- LimitReached              the server holds as many of these as it may
    |- AuthenticationError       who are you? wrong password, unknown token, not logged in
    |- PermissionDenied          we know who you are, and you may not
    |- PartitionNotOwned         another member of the group has the partition now
    |- Unsupported               this server cannot do that
    |- IncompatibleServer        the server speaks another generation of the protocol
    |- Unavailable               not done: nobody could serve it in time; try again later
    |  |- ConnectionFailed       no server could be reached
    |  |- ConnectionLost         the connection broke before the request was executed
    |  |- RequestTimedOut        (also a TimeoutError)
    |  `- BufferFull             a producer has no room for the message now
    |- OutcomeUnknown            perhaps done, perhaps not: nobody can tell
    |- ProtocolViolation         the other side does not follow the protocol
    |- ClientClosed              the client was closed
    |- ProducerClosed            the producer was closed
    |- DecryptionFailed          a message cannot be decrypted with this key
    `- ServerError               the server failed

Two questions decide what a program does with an error: *was it done?* and *does a repeat help?*
After `OutcomeUnknown` it may have been done, after every other one it was not. A repeat helps
after `Unavailable` only.
"""

# ruff: noqa: N818 - `except windsprite.NotFound` says what happened; a suffix would add nothing

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from windsprite_protocol.errors import ErrorCode


class WindspriteError(Exception):
    """Base of everything the SDK raises.

    Attributes:
        code: The number of the error in the protocol; None where it has none.
        sentence: What happened.
        hint: What to do about it; empty where nobody knows.
    """

    default_hint = ""

    def __init__(self, sentence: str, *, code: ErrorCode | None = None, hint: str = "") -> None:
        self.code = code
        self.sentence = sentence
        self.hint = hint or self.default_hint
        super().__init__(f"{sentence} ({self.hint})" if self.hint else sentence)


class InvalidRequest(WindspriteError, ValueError):
    """The request makes no sense as it is; a repeat fails in the same way."""


class InvalidConnectionString(InvalidRequest):
    """A connection string cannot be understood. The text never holds a part of a secret."""


class NotFound(WindspriteError, LookupError):
    """What the request is about does not exist."""


class AlreadyExists(WindspriteError):
    """The name is taken."""


class LimitReached(WindspriteError):
    """The server holds as many of these as it may."""


class AuthenticationError(WindspriteError):
    """The server does not accept who we say we are, or nobody has logged in."""


class PermissionDenied(WindspriteError):
    """The user may not do this."""

    default_hint = "ask whoever administers the server for the permission"


class PartitionNotOwned(WindspriteError):
    """The partition does not belong to this member of the group, or does not any more."""

    default_hint = "only a member of the group that has the partition can do this"


class Unsupported(WindspriteError):
    """This server cannot do that."""


class IncompatibleServer(WindspriteError):
    """The server speaks another generation of the protocol."""

    default_hint = "use a client and a server of the same generation"


class Unavailable(WindspriteError):
    """Not done, since nobody could serve it in time; it can safely be tried again."""


class ConnectionFailed(Unavailable):
    """No server could be reached.

    Attributes:
        attempts: Each server that was tried (`host:port`) and what happened there, newest last.
    """

    default_hint = "check that a server runs at one of these addresses"

    def __init__(
        self,
        sentence: str,
        *,
        attempts: Sequence[tuple[str, str]] = (),
        code: ErrorCode | None = ErrorCode.CANNOT_ESTABLISH_CONNECTION,
        hint: str = "",
    ) -> None:
        super().__init__(sentence, code=code, hint=hint)
        self.attempts = tuple(attempts)


class ConnectionLost(Unavailable):
    """The connection broke, and the request was not executed."""


class RequestTimedOut(Unavailable, TimeoutError):
    """Not done in time; it can safely be tried again."""


class BufferFull(Unavailable):
    """A producer has no room for the message, and was told not to wait, or not so long."""

    default_hint = "send more slowly, or give the producer more buffer_bytes"


class OutcomeUnknown(WindspriteError):
    """The request may have been executed, or not: the answer got lost.

    A repeat may do it twice. For sends, `retry="at-least-once"` repeats in this case.
    """

    default_hint = "find out what happened, or repeat it if doing it twice is harmless"


class ProtocolViolation(WindspriteError):
    """The other side does not follow the protocol; the connection was closed."""

    default_hint = (
        "check that the address is that of an Iggy or Windsprite server of this generation"
    )


class ClientClosed(WindspriteError):
    """The client was closed."""


class ProducerClosed(WindspriteError):
    """The producer was closed before, and the message not sent."""


class DecryptionFailed(WindspriteError):
    """A message was encrypted with another key or not at all, or has changed since."""


class ServerError(WindspriteError):
    """The server failed to do what it should."""


_FAMILIES: Final[dict[type[WindspriteError], frozenset[ErrorCode]]] = {
    NotFound: frozenset(
        {
            ErrorCode.RESOURCE_NOT_FOUND,
            ErrorCode.CLIENT_NOT_FOUND,
            ErrorCode.STREAM_ID_NOT_FOUND,
            ErrorCode.STREAM_NAME_NOT_FOUND,
            ErrorCode.TOPIC_ID_NOT_FOUND,
            ErrorCode.TOPIC_NAME_NOT_FOUND,
            ErrorCode.PARTITION_NOT_FOUND,
            ErrorCode.NO_PARTITIONS,
            ErrorCode.CONSUMER_OFFSET_NOT_FOUND,
            ErrorCode.SEGMENT_NOT_FOUND,
            ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND,
            ErrorCode.CONSUMER_GROUP_NAME_NOT_FOUND,
            ErrorCode.CONSUMER_GROUP_MEMBER_NOT_FOUND,
        }
    ),
    AlreadyExists: frozenset(
        {
            ErrorCode.USER_ALREADY_EXISTS,
            ErrorCode.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS,
            ErrorCode.STREAM_NAME_ALREADY_EXISTS,
            ErrorCode.TOPIC_NAME_ALREADY_EXISTS,
            ErrorCode.CONSUMER_GROUP_NAME_ALREADY_EXISTS,
        }
    ),
    LimitReached: frozenset(
        {
            ErrorCode.PERSONAL_ACCESS_TOKENS_LIMIT_REACHED,
            ErrorCode.USERS_LIMIT_REACHED,
            ErrorCode.TOO_MANY_STREAMS,
            ErrorCode.TOO_MANY_TOPICS,
            ErrorCode.TOPIC_FULL,
            ErrorCode.PARTITION_ID_SPACE_EXHAUSTED,
            ErrorCode.TOO_MANY_CONSUMER_OFFSETS,
        }
    ),
    AuthenticationError: frozenset(
        {
            ErrorCode.UNAUTHENTICATED,
            ErrorCode.INVALID_CREDENTIALS,
            ErrorCode.USER_INACTIVE,
            ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN,
            ErrorCode.PERSONAL_ACCESS_TOKEN_EXPIRED,
        }
    ),
    PermissionDenied: frozenset({ErrorCode.UNAUTHORIZED}),
    PartitionNotOwned: frozenset({ErrorCode.CONSUMER_GROUP_PARTITION_NOT_OWNED}),
    Unsupported: frozenset({ErrorCode.FEATURE_UNAVAILABLE}),
    IncompatibleServer: frozenset({ErrorCode.INCOMPATIBLE_PROTOCOL_VERSION}),
    Unavailable: frozenset({ErrorCode.TRANSIENT_NOT_ACCEPTED, ErrorCode.NOT_CONNECTED}),
    OutcomeUnknown: frozenset(
        {
            ErrorCode.TRANSIENT_NOT_COMMITTED,
            ErrorCode.REQUEST_ALREADY_APPLIED,
            ErrorCode.DISCONNECTED,
            ErrorCode.STALE_CLIENT,
        }
    ),
    InvalidRequest: frozenset(
        {
            ErrorCode.INVALID_COMMAND,
            ErrorCode.INVALID_FORMAT,
            ErrorCode.INVALID_IDENTIFIER,
            ErrorCode.INVALID_USERNAME,
            ErrorCode.INVALID_PASSWORD,
            ErrorCode.INVALID_USER_STATUS,
            ErrorCode.CANNOT_DELETE_USER,
            ErrorCode.CANNOT_CHANGE_PERMISSIONS,
            ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN_NAME,
            ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN_EXPIRY,
            ErrorCode.INVALID_STREAM_NAME,
            ErrorCode.INVALID_STREAM_ID,
            ErrorCode.INVALID_TOPIC_SIZE,
            ErrorCode.INVALID_TOPIC_NAME,
            ErrorCode.TOO_MANY_PARTITIONS,
            ErrorCode.INVALID_TOPIC_ID,
            ErrorCode.INVALID_PARTITIONS_COUNT,
            ErrorCode.INVALID_MESSAGES_COUNT,
            ErrorCode.TOO_BIG_USER_HEADERS,
            ErrorCode.INVALID_HEADER_KEY,
            ErrorCode.INVALID_HEADER_VALUE,
            ErrorCode.TOO_BIG_MESSAGE_PAYLOAD,
            ErrorCode.INVALID_MESSAGE_PAYLOAD_LENGTH,
            ErrorCode.INVALID_MESSAGE_CHECKSUM,
            ErrorCode.INVALID_KEY_VALUE_LENGTH,
            ErrorCode.INVALID_MESSAGE_TIMESTAMP_DELTA,
            ErrorCode.INVALID_BATCH_CHECKSUM,
            ErrorCode.INVALID_HEADER_KIND,
            ErrorCode.UNSUPPORTED_OPTION_KEY,
            ErrorCode.INVALID_OPTION_VALUE,
            ErrorCode.OPTIONS_BLOCK_TOO_LARGE,
            ErrorCode.INVALID_OFFSET,
            ErrorCode.INVALID_CONSUMER_GROUP_ID,
            ErrorCode.INVALID_CONSUMER_GROUP_NAME,
        }
    ),
}

_CLASS_OF: Final[dict[ErrorCode, type[WindspriteError]]] = {
    code: family for family, codes in _FAMILIES.items() for code in codes
}


def error_of(code: ErrorCode, doing: str, sentence: str = "") -> WindspriteError:
    """The exception for a number that a server answered.

    Args:
        code: The number.
        doing: What was asked for, in the words of the caller; stands in front of the sentence.
        sentence: What happened, if more is known than the number says.
    """
    family = _CLASS_OF.get(code, ServerError)
    return family(f"{doing}: {sentence or code.sentence}", code=code)
