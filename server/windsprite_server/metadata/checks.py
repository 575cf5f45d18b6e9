"""The checks that commands have in common, in the order of spec 02, 3.1.

Existence comes before permission, permission before everything else. All checks of a command come
before its first change, so that a rejected command has changed nothing.
"""

from __future__ import annotations

from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.identifiers import Identifier
from windsprite_server.metadata.authorization import Rule
from windsprite_server.metadata.effects import Context
from windsprite_server.metadata.queries import find_stream, find_topic, is_allowed
from windsprite_server.metadata.state import State, Stream, Topic


class RejectedError(Exception):
    """The state turns a command down.

    Attributes:
        code: The number of the rejection.
    """

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


def require_stream(state: State, stream: Identifier) -> Stream:
    """The addressed stream.

    Raises:
        RejectedError: It does not exist.
    """
    found = find_stream(state, stream)
    if found is None:
        raise RejectedError(ErrorCode.STREAM_ID_NOT_FOUND)
    return found


def require_topic(state: State, stream: Identifier, topic: Identifier) -> tuple[Stream, Topic]:
    """The addressed topic and its stream.

    Raises:
        RejectedError: One of them does not exist.
    """
    found_stream = require_stream(state, stream)
    found = find_topic(found_stream, topic)
    if found is None:
        raise RejectedError(ErrorCode.TOPIC_ID_NOT_FOUND)
    return found_stream, found


def authorize(
    state: State,
    context: Context,
    rule: Rule,
    stream_id: int | None = None,
    topic_id: int | None = None,
) -> None:
    """Let pass whom the rule allows, and the server itself.

    Raises:
        RejectedError: The acting user is not allowed, or does not exist.
    """
    user_id = context.user_id
    if user_id is not None and not is_allowed(state, user_id, rule, stream_id, topic_id):
        raise RejectedError(ErrorCode.UNAUTHORIZED)


def require_server(context: Context) -> None:
    """Let pass the server itself only.

    Raises:
        RejectedError: A user acts.
    """
    if context.user_id is not None:
        raise RejectedError(ErrorCode.UNAUTHORIZED)
