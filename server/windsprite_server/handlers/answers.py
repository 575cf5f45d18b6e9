"""How handlers say that a request does not succeed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.outcomes import Evicted, NotNow, Outcome, Refused, Rejected
from windsprite_protocol.model.sessions import EvictionReason


class UnsuccessfulError(Exception):
    """Ends a handler with an outcome other than success.

    Attributes:
        outcome: What the client is told.
    """

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome


def refused(code: ErrorCode) -> UnsuccessfulError:
    """To raise when a request is not executed."""
    return UnsuccessfulError(Refused(code))


def rejected(code: ErrorCode) -> UnsuccessfulError:
    """To raise when a request was executed and the state of the server turned it down."""
    return UnsuccessfulError(Rejected(code))


def not_now(code: ErrorCode = ErrorCode.TRANSIENT_NOT_ACCEPTED) -> UnsuccessfulError:
    """To raise when a request was not executed and may be repeated as it is."""
    return UnsuccessfulError(NotNow(code))


def evicted(reason: EvictionReason) -> UnsuccessfulError:
    """To raise when a session is over or a login is refused."""
    return UnsuccessfulError(Evicted(reason))


@contextmanager
def executing() -> Iterator[None]:
    """Inside, what is refused for the state of the server is rejected: the request is executed.

    For commands that change something without being journaled; the others are turned down when they
    are applied.
    """
    try:
        yield
    except UnsuccessfulError as error:
        if isinstance(error.outcome, Refused):
            raise rejected(error.outcome.code) from error
        raise
