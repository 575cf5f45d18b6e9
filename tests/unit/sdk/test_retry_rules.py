from typing import Any

import pytest

from windsprite.errors import (
    AlreadyExists,
    AuthenticationError,
    ClientClosed,
    ConnectionLost,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    PermissionDenied,
    ProtocolViolation,
    RequestTimedOut,
    Unavailable,
    WindspriteError,
)
from windsprite.retries import (
    MAX_RECONNECTS,
    RESEND,
    ROUND,
    Course,
    Fail,
    FindLeader,
    Reconnect,
    Resend,
    Safety,
)
from windsprite_protocol.errors import ErrorCode

LOST = ConnectionLost("gone")
READ, WRITE, AT_LEAST_ONCE = Safety.READ, Safety.WRITE, Safety.AT_LEAST_ONCE


def course(safety: Safety, **changes: Any) -> Course:
    return Course(safety, "doing", now=0.0, uniform=lambda _, high: high, **changes)


def failed(step: object) -> WindspriteError:
    assert isinstance(step, Fail)
    return step.error


@pytest.mark.parametrize(
    ("code", "family"),
    [
        (ErrorCode.STREAM_NAME_ALREADY_EXISTS, AlreadyExists),
        (ErrorCode.TOPIC_ID_NOT_FOUND, NotFound),
        (ErrorCode.UNAUTHORIZED, PermissionDenied),
        (ErrorCode.INVALID_COMMAND, InvalidRequest),
    ],
)
@pytest.mark.parametrize("safety", list(Safety))
@pytest.mark.parametrize("executed", [True, False])
def test_answers_are_final(
    code: ErrorCode, family: type[WindspriteError], safety: Safety, executed: bool
) -> None:
    error = failed(course(safety).refused(code, executed=executed, now=0.0))
    assert type(error) is family
    assert error.code is code


@pytest.mark.parametrize("safety", list(Safety))
def test_nothing_sent_nothing_done(safety: Safety) -> None:
    assert course(safety).broken(LOST, sent=False) == Reconnect()


def test_broken_after_sending() -> None:
    assert course(READ).broken(LOST, sent=True) == Reconnect()
    assert course(AT_LEAST_ONCE).broken(LOST, sent=True) == Reconnect()
    error = failed(course(WRITE).broken(LOST, sent=True))
    assert isinstance(error, OutcomeUnknown)
    assert error.__cause__ is LOST


def test_a_read_is_not_taken_to_new_sessions_for_ever() -> None:
    reading = course(READ)
    for _ in range(MAX_RECONNECTS):
        assert reading.broken(LOST, sent=True) == Reconnect()
    assert failed(reading.broken(LOST, sent=True)) is LOST


def test_at_least_once_is_taken_to_new_sessions_as_long_as_there_is_time() -> None:
    sending = course(AT_LEAST_ONCE)
    for _ in range(100):
        assert sending.broken(LOST, sent=True) == Reconnect()
    assert isinstance(sending.expired(waiting_for_answer=False), OutcomeUnknown)


@pytest.mark.parametrize("code", [ErrorCode.UNAUTHENTICATED, ErrorCode.NOT_CONNECTED])
@pytest.mark.parametrize("safety", list(Safety))
def test_a_session_that_is_gone_has_executed_nothing(code: ErrorCode, safety: Safety) -> None:
    calling = course(safety)
    for _ in range(MAX_RECONNECTS):
        assert calling.refused(code, executed=False, now=0.0) == Reconnect()
    if code is ErrorCode.UNAUTHENTICATED:
        error = failed(calling.refused(code, executed=False, now=0.0))
        assert isinstance(error, AuthenticationError)


def test_nobody_logs_in_without_credentials() -> None:
    calling = course(WRITE, can_log_in=False)
    error = failed(calling.refused(ErrorCode.UNAUTHENTICATED, executed=False, now=0.0))
    assert isinstance(error, AuthenticationError)


def test_a_stale_client_may_have_been_heard() -> None:
    stale = ErrorCode.STALE_CLIENT
    assert course(READ).refused(stale, executed=False, now=0.0) == Reconnect()
    assert course(AT_LEAST_ONCE).refused(stale, executed=False, now=0.0) == Reconnect()
    error = failed(course(WRITE).refused(stale, executed=False, now=0.0))
    assert isinstance(error, OutcomeUnknown)


@pytest.mark.parametrize("safety", list(Safety))
def test_not_accepted_is_repeated_and_then_the_leader_is_looked_for(safety: Safety) -> None:
    calling = course(safety)
    code = ErrorCode.TRANSIENT_NOT_ACCEPTED
    pauses = []
    for now in (0.0, 0.5, 1.0, ROUND - 0.1):
        step = calling.refused(code, executed=False, now=now)
        assert isinstance(step, Resend)
        pauses.append(step.pause)
    assert pauses == [RESEND.limit(attempt) for attempt in range(4)]
    assert calling.refused(code, executed=False, now=ROUND) == FindLeader()
    assert isinstance(calling.refused(code, executed=False, now=ROUND + 0.1), Resend)
    assert calling.refused(code, executed=False, now=2 * ROUND) == FindLeader()
    error = calling.expired(waiting_for_answer=False)
    assert type(error) is Unavailable
    assert error.code is code


def test_not_committed_stays_in_its_session_whatever_comes() -> None:
    writing = course(WRITE)
    not_committed, not_accepted = (
        ErrorCode.TRANSIENT_NOT_COMMITTED,
        ErrorCode.TRANSIENT_NOT_ACCEPTED,
    )
    assert isinstance(writing.refused(not_committed, executed=False, now=0.0), Resend)
    # The repeat was refused; what became of the first one is still unknown.
    assert isinstance(writing.refused(not_accepted, executed=False, now=ROUND * 2), Resend)
    for step in (
        writing.refused(ErrorCode.UNAUTHENTICATED, executed=False, now=0.0),
        writing.refused(ErrorCode.UNAUTHORIZED, executed=False, now=0.0),
        writing.broken(LOST, sent=False),
    ):
        assert isinstance(failed(step), OutcomeUnknown)
    assert isinstance(writing.expired(waiting_for_answer=False), OutcomeUnknown)
    assert isinstance(writing.ended(ClientClosed("closed")), OutcomeUnknown)


def test_a_rejection_under_the_same_number_ends_the_doubt() -> None:
    writing = course(WRITE)
    writing.refused(ErrorCode.TRANSIENT_NOT_COMMITTED, executed=False, now=0.0)
    step = writing.refused(ErrorCode.STREAM_NAME_ALREADY_EXISTS, executed=True, now=0.0)
    assert isinstance(failed(step), AlreadyExists)


def test_a_read_is_never_in_doubt() -> None:
    reading = course(READ)
    assert isinstance(
        reading.refused(ErrorCode.TRANSIENT_NOT_COMMITTED, executed=False, now=0.0), Resend
    )
    assert reading.broken(LOST, sent=True) == Reconnect()
    assert isinstance(reading.expired(waiting_for_answer=True), RequestTimedOut)


def test_time_is_over() -> None:
    assert isinstance(course(WRITE).expired(waiting_for_answer=True), OutcomeUnknown)
    error = course(WRITE).expired(waiting_for_answer=False)
    assert isinstance(error, RequestTimedOut)
    assert isinstance(error, TimeoutError)


def test_garbage_is_not_asked_for_again() -> None:
    garbage = ProtocolViolation("garbage")
    assert failed(course(READ).broken(garbage, sent=True)) is garbage
    assert isinstance(failed(course(WRITE).broken(garbage, sent=True)), OutcomeUnknown)
    assert isinstance(failed(course(AT_LEAST_ONCE).broken(garbage, sent=True)), OutcomeUnknown)


def test_already_applied_is_an_unknown_outcome() -> None:
    error = failed(
        course(WRITE).refused(ErrorCode.REQUEST_ALREADY_APPLIED, executed=False, now=0.0)
    )
    assert isinstance(error, OutcomeUnknown)
