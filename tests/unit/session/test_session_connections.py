"""Who is connected, and under which session."""

import pytest

from windsprite_protocol.model.system import TransportKind
from windsprite_server.core.data_directory import MAX_GENERATION
from windsprite_server.session import Connection, Session, SessionConflictError, Sessions

ALICE = 7
BOB = 8


def client(number: int) -> bytes:
    return number.to_bytes(16, "little")


def connect(sessions: Sessions) -> Connection:
    return sessions.connect(TransportKind.TCP, "192.0.2.1:50000", "192.0.2.9", 8090)


def test_connections_are_numbered_from_one_and_found_by_number() -> None:
    sessions = Sessions(1)
    first, second = connect(sessions), connect(sessions)
    assert (first.number, second.number) == (1, 2)
    assert sessions.get(2) is second
    assert list(sessions) == [first, second]
    sessions.disconnect(first)
    assert sessions.get(1) is None
    assert len(sessions) == 1


def test_a_session_that_ends_takes_its_connection_off_the_list() -> None:
    sessions = Sessions(1)
    first, second = connect(sessions), connect(sessions)
    assert sessions.listed() == []
    first.is_listed = second.is_listed = True
    sessions.bind(first, client(1), ALICE)
    assert sessions.listed() == [first, second]
    sessions.bind(second, client(1), ALICE)  # the first one is not told of anything
    assert sessions.listed() == [first, second]
    sessions.unbind(second)
    assert sessions.listed() == [first]
    assert sessions.unbind(second) is None


def test_session_numbers_grow_with_every_login() -> None:
    sessions = Sessions(1)
    numbers = [sessions.bind(connect(sessions), client(n + 1), ALICE).number for n in range(5)]
    assert numbers == sorted(set(numbers))
    assert numbers[0] > 0


def test_session_numbers_of_a_later_start_are_above_all_earlier_ones() -> None:
    earlier, later = Sessions(1), Sessions(2)
    last = 0
    for n in range(1000):
        last = earlier.bind(connect(earlier), client(n + 1), ALICE).number
    assert later.bind(connect(later), client(1), ALICE).number > last


def test_session_numbers_stay_positive_as_signed_numbers() -> None:
    sessions = Sessions((1 << 31) - 1)
    assert 0 < sessions.bind(connect(sessions), client(1), ALICE).number < 1 << 63


def test_the_last_generation_of_a_data_directory_has_numbers_for_its_sessions() -> None:
    sessions = Sessions(MAX_GENERATION)
    session = sessions.bind(connect(sessions), client(1), ALICE)
    assert 0 < session.number < 1 << 63


@pytest.mark.parametrize("generation", [0, -1, 1 << 31])
def test_a_generation_that_does_not_fit_is_refused(generation: int) -> None:
    with pytest.raises(ValueError, match="generation"):
        Sessions(generation)


def test_logout_ends_the_session_and_the_connection_can_log_in_again() -> None:
    sessions = Sessions(1)
    connection = connect(sessions)
    first = sessions.bind(connection, client(1), ALICE)
    assert sessions.unbind(connection) is first
    assert connection.session is None
    assert sessions.unbind(connection) is None
    assert sessions.bind(connection, client(2), BOB).number > first.number


def test_the_same_client_id_moves_to_the_newer_connection_of_the_same_user() -> None:
    sessions = Sessions(1)
    old, new = connect(sessions), connect(sessions)
    sessions.bind(old, client(1), ALICE)
    session = sessions.bind(new, client(1), ALICE)
    assert old.session is None
    assert new.session is session
    assert sessions.disconnect(old) is None
    assert new.session is session


def test_a_client_id_of_another_user_is_refused_and_nothing_changes() -> None:
    sessions = Sessions(1)
    owner, intruder = connect(sessions), connect(sessions)
    session = sessions.bind(owner, client(1), ALICE)
    with pytest.raises(SessionConflictError):
        sessions.bind(intruder, client(1), BOB)
    assert owner.session is session
    assert intruder.session is None


def test_a_client_id_is_free_once_its_connection_is_gone() -> None:
    sessions = Sessions(1)
    owner = connect(sessions)
    session = sessions.bind(owner, client(1), ALICE)
    assert sessions.disconnect(owner) is session
    assert sessions.bind(connect(sessions), client(1), BOB).user_id == BOB


def test_the_end_of_a_session_is_told_once_whichever_way_it_ends() -> None:
    ended: list[Session] = []
    sessions = Sessions(1, ended.append)
    first, second = connect(sessions), connect(sessions)
    by_logout = sessions.bind(first, client(1), ALICE)
    sessions.unbind(first)
    sessions.unbind(first)
    sessions.disconnect(first)
    assert ended == [by_logout]
    by_disconnection = sessions.bind(second, client(1), BOB)
    sessions.disconnect(second)
    assert ended == [by_logout, by_disconnection]


def test_a_session_that_moves_to_another_connection_has_not_ended() -> None:
    ended: list[Session] = []
    sessions = Sessions(1, ended.append)
    old, new = connect(sessions), connect(sessions)
    sessions.bind(old, client(1), ALICE)
    session = sessions.bind(new, client(1), ALICE)
    sessions.disconnect(old)
    assert ended == []
    assert sessions.find(client(1)) is session
    sessions.disconnect(new)
    assert ended == [session]
    assert sessions.find(client(1)) is None


def test_the_table_of_clients_knows_the_sessions_there_are() -> None:
    sessions = Sessions(1)
    old, new = connect(sessions), connect(sessions)
    sessions.bind(old, client(1), ALICE)
    sessions.bind(new, client(1), ALICE)
    assert len(sessions.clients) == 1
    sessions.disconnect(old)
    assert len(sessions.clients) == 1
    sessions.unbind(new)
    assert len(sessions.clients) == 0


def test_a_refused_login_uses_up_no_number() -> None:
    sessions = Sessions(1)
    owner, intruder = connect(sessions), connect(sessions)
    first = sessions.bind(owner, client(1), ALICE)
    with pytest.raises(SessionConflictError):
        sessions.bind(intruder, client(1), BOB)
    assert sessions.bind(intruder, client(2), BOB).number == first.number + 1


@pytest.mark.parametrize("ending", ["logout", "another connection"])
def test_a_connection_acts_for_another_session_only_while_it_has_its_own(ending: str) -> None:
    sessions = Sessions(1)
    connection, coordinator, third = connect(sessions), connect(sessions), connect(sessions)
    sessions.bind(connection, client(1), ALICE)
    connection.attached = sessions.bind(coordinator, client(2), ALICE)
    if ending == "logout":
        sessions.unbind(connection)
    else:
        sessions.bind(third, client(1), ALICE)
        assert third.attached is None
    assert connection.attached is None
