"""What to do when a request was not simply answered (spec 01, 7; spec 07, 5).

One rule stands above all: a write is never executed twice unless the caller asked for it. So
everything hangs on one question, *can it have been executed?*

| what happened                        | executed? | read      | write                      |
|--------------------------------------|-----------|-----------|----------------------------|
| broke before anything was sent       | no        | reconnect | reconnect                  |
| broke after something was sent (30)  | perhaps   | reconnect | `OutcomeUnknown`           |
| not committed (57)                   | perhaps   | resend    | resend, on this session    |
| not accepted (58)                    | no        | resend    | resend; then find a leader |
| session gone (40, 61)                | no        | reconnect | reconnect                  |
| any other error                      | no        | raise     | raise                      |

"Resend" repeats the same bytes, so that the server recognises a write it has executed; it works
within one session only. "Reconnect" goes on with a new session and a new encoding. Once a write
has perhaps been executed, that stays so: it is not taken to another session any more, whatever is
answered to its repeats. A caller that asked for at-least-once takes it there nevertheless.

All of it holds for each of several requests on their way by itself: when a connection breaks, those
that were sent are in doubt, and those that were waiting are not and go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from windsprite.bootstrap import Backoff
from windsprite.errors import (
    AuthenticationError,
    OutcomeUnknown,
    ProtocolViolation,
    RequestTimedOut,
    WindspriteError,
    error_of,
)
from windsprite_protocol.errors import ErrorCode

RESEND: Final = Backoff(base=0.05, cap=0.5)
"""Pauses between repeats of the same bytes."""

ROUND: Final = 2.0
"""Seconds of refusals (58) after which the cluster is asked for its leader."""

MAX_RECONNECTS: Final = 3
"""How often one call is taken to a new session because the old one broke or ended."""


class Safety(Enum):
    """What a repeat of a request can do."""

    READ = "nothing: it may be repeated at will"
    WRITE = "do it twice: it must not be repeated once it may have been executed"
    AT_LEAST_ONCE = "do it twice, and the caller said that this is fine"


@dataclass(frozen=True, slots=True)
class Done:
    """The request was executed; this is the answer."""

    value: Any


@dataclass(frozen=True, slots=True)
class Fail:
    """The call is over."""

    error: WindspriteError


@dataclass(frozen=True, slots=True)
class Resend:
    """Send the same bytes again on the same session after a pause in seconds."""

    pause: float


@dataclass(frozen=True, slots=True)
class FindLeader:
    """Ask for the leader, move there if it is elsewhere, and encode the request anew."""


@dataclass(frozen=True, slots=True)
class Reconnect:
    """Get a new session and encode the request anew."""


Step: TypeAlias = Done | Fail | Resend | FindLeader | Reconnect

_SESSION_GONE: Final = frozenset({ErrorCode.UNAUTHENTICATED, ErrorCode.NOT_CONNECTED})
NOT_NOW: Final = frozenset({ErrorCode.TRANSIENT_NOT_COMMITTED, ErrorCode.TRANSIENT_NOT_ACCEPTED})
"""What a server answers that may do it a little later, if it has not done it already."""


class Course:
    """The course of one call, from the first attempt to its end.

    Args:
        safety: What a repeat can do.
        doing: What the caller asked for, for error messages.
        now: The time, in seconds.
        uniform: Gives a random number between two.
        can_log_in: Whether a new session can be had without the caller.
    """

    def __init__(
        self,
        safety: Safety,
        doing: str,
        *,
        now: float,
        uniform: Callable[[float, float], float],
        can_log_in: bool = True,
    ) -> None:
        self._safety = safety
        self._doing = doing
        self._uniform = uniform
        self._can_log_in = can_log_in
        self._round_started = now
        self._repeats = 0
        self._reconnects = 0
        self._refused = False
        self._in_doubt = False

    @property
    def in_doubt(self) -> bool:
        """Whether it is a write that may have been executed already."""
        return self._in_doubt

    def refused(self, code: ErrorCode, *, executed: bool, now: float, sentence: str = "") -> Step:
        """What to do after the server answered with an error.

        Args:
            code: The error; that of an eviction is what the eviction amounts to.
            executed: Whether the server executed the request and its state turned it down.
            now: The time, in seconds.
            sentence: What happened, if more is known than the number says.
        """
        if executed:
            # Under this very request number: nothing is in doubt any more.
            return Fail(error_of(code, self._doing, sentence))
        if code in NOT_NOW:
            return self._not_now(code, now)
        error = error_of(code, self._doing, sentence)
        if code is ErrorCode.STALE_CLIENT:
            return self.broken(error, sent=True)
        if code in _SESSION_GONE and self._can_log_in:
            return self._reconnect(error)
        return Fail(self._unless_in_doubt(error))

    def broken(self, cause: WindspriteError, *, sent: bool) -> Step:
        """What to do after the connection broke.

        Args:
            cause: Why it did.
            sent: Whether any byte of the request may have reached the server.
        """
        if sent and self._safety is not Safety.READ:
            self._in_doubt = True
        if isinstance(cause, ProtocolViolation):
            return Fail(self._unless_in_doubt(cause))
        return self._reconnect(cause)

    def expired(self, *, waiting_for_answer: bool) -> WindspriteError:
        """The error of a call whose time is over.

        Args:
            waiting_for_answer: Whether the request was on its way at that time.
        """
        if waiting_for_answer and self._safety is not Safety.READ:
            self._in_doubt = True
        if self._refused and not waiting_for_answer:
            error = error_of(ErrorCode.TRANSIENT_NOT_ACCEPTED, self._doing)
        else:
            error = RequestTimedOut(f"{self._doing}: no answer in time")
        return self._unless_in_doubt(error)

    def ended(self, error: WindspriteError) -> WindspriteError:
        """The error of a call that cannot go on, since there is no session to be had."""
        return self._unless_in_doubt(error)

    def _not_now(self, code: ErrorCode, now: float) -> Step:
        if code is ErrorCode.TRANSIENT_NOT_COMMITTED:
            self._in_doubt = self._in_doubt or self._safety is not Safety.READ
        else:
            self._refused = True
            stuck = self._in_doubt and self._safety is Safety.WRITE
            if not stuck and now - self._round_started >= ROUND:
                self._round_started = now
                return FindLeader()
        pause = RESEND.wait(self._repeats, self._uniform)
        self._repeats += 1
        return Resend(pause)

    def _reconnect(self, cause: WindspriteError) -> Step:
        if self._in_doubt and self._safety is Safety.WRITE:
            return Fail(self._unless_in_doubt(cause))
        if self._safety is not Safety.AT_LEAST_ONCE or isinstance(cause, AuthenticationError):
            self._reconnects += 1
        if self._reconnects > MAX_RECONNECTS:
            return Fail(self._unless_in_doubt(cause))
        return Reconnect()

    def _unless_in_doubt(self, error: WindspriteError) -> WindspriteError:
        if not self._in_doubt:
            return error
        if isinstance(error, OutcomeUnknown):
            return error
        unknown = OutcomeUnknown(
            f"{self._doing}: it may have been done or not; {error.sentence}", code=error.code
        )
        unknown.__cause__ = error
        return unknown
