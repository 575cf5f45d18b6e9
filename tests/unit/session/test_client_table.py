"""The table of clients: what is done with requests that come again (spec 01, 6.3 to 6.5)."""

import tracemalloc

import pytest

from windsprite_server.session import ClientTable, SessionConflictError, Step
from windsprite_server.session.clients import REPLY_OVERHEAD

ALICE = 7
BOB = 8
ONE = b"1" * 16
OTHER = b"2" * 16
REPLY_BYTES = 100
STORED = REPLY_BYTES + REPLY_OVERHEAD


def client(number: int) -> bytes:
    return number.to_bytes(16, "little")


class Table(ClientTable[str]):
    """A table in which requests are carried out at once."""

    def execute(
        self,
        request: int,
        reply: str = "",
        *,
        who: int = 1,
        session: int = 1,
        checksum: bytes | None = None,
    ) -> None:
        assert self.begin(client(who), session, request, checksum) is Step.EXECUTE
        self.finish(client(who), request, checksum, reply or f"reply {request}", REPLY_BYTES)

    def ask(
        self, request: int, *, who: int = 1, session: int = 1, checksum: bytes | None = None
    ) -> Step:
        return self.begin(client(who), session, request, checksum)


@pytest.fixture
def table() -> Table:
    table = Table()
    table.register(client(1), ALICE, 1)
    return table


def test_a_new_number_is_carried_out_whether_or_not_it_is_the_next(table: Table) -> None:
    for request in (1, 2, 7, 1_000_000, 2**64 - 1):
        table.execute(request)
    assert table.ask(2**64 - 1) is Step.REPLAY


def test_a_number_that_comes_again_gets_the_reply_of_the_first_time(table: Table) -> None:
    table.execute(1, "first")
    table.execute(2, "second")
    for _ in range(2):
        for request, reply in ((1, "first"), (2, "second")):
            assert table.ask(request) is Step.REPLAY
            assert table.reply(client(1), request) == reply


def test_of_five_replies_the_login_is_one(table: Table) -> None:
    for request in (1, 2, 3, 4):
        table.execute(request)
    table.execute(5)
    assert [table.ask(request) for request in (1, 5)] == [Step.REPLAY, Step.REPLAY]
    table.execute(6)
    assert table.ask(1) is Step.REPLY_FORGOTTEN
    assert [table.ask(request) for request in (2, 3, 4, 5, 6)] == [Step.REPLAY] * 5


def test_a_number_below_the_highest_that_never_came_is_not_carried_out(table: Table) -> None:
    table.execute(9)
    assert table.ask(8) is Step.REPLY_FORGOTTEN


def test_a_request_that_was_not_carried_out_may_come_again(table: Table) -> None:
    for _ in range(2):
        assert table.ask(1) is Step.EXECUTE
        table.abandon(client(1))
    table.execute(1)
    assert table.ask(1) is Step.REPLAY


def test_checksums_are_compared_where_both_are_told(table: Table) -> None:
    table.execute(1, checksum=ONE)
    table.execute(2, checksum=None)
    table.execute(3, checksum=ONE)
    assert table.ask(1, checksum=OTHER) is Step.MISMATCH
    assert table.ask(1, checksum=ONE) is Step.REPLAY
    assert table.ask(1, checksum=None) is Step.REPLAY
    assert table.ask(2, checksum=OTHER) is Step.REPLAY
    assert table.ask(3, checksum=OTHER) is Step.MISMATCH


def test_the_checksum_of_the_highest_number_outlives_its_reply() -> None:
    table = Table(max_reply_bytes=0)
    table.register(client(1), ALICE, 1)
    table.execute(1, checksum=ONE)
    table.execute(2, checksum=ONE)
    assert table.ask(1, checksum=OTHER) is Step.REPLY_FORGOTTEN
    assert table.ask(2, checksum=OTHER) is Step.MISMATCH
    assert table.ask(2, checksum=ONE) is Step.REPLY_FORGOTTEN


def test_while_one_request_is_carried_out_no_other_of_the_same_client_is(table: Table) -> None:
    table.register(client(2), ALICE, 2)
    assert table.ask(1) is Step.EXECUTE
    for request in (1, 2):
        assert table.ask(request) is Step.IN_PROGRESS
    table.execute(1, who=2, session=2)
    table.finish(client(1), 1, None, "done", REPLY_BYTES)
    assert table.ask(1) is Step.REPLAY
    table.execute(2)


# Sessions


def test_nobody_without_a_session_changes_anything(table: Table) -> None:
    assert table.ask(1, who=2) is Step.NO_SESSION
    table.end(client(1), 1)
    assert table.ask(1) is Step.NO_SESSION
    assert len(table) == 0


def test_a_session_of_another_number_is_not_served(table: Table) -> None:
    table.register(client(1), ALICE, 5)
    assert table.ask(1, session=1) is Step.OUTDATED
    assert table.ask(1, session=6) is Step.OUTDATED
    table.execute(1, session=5)


def test_a_client_id_that_moves_keeps_what_was_done_for_it(table: Table) -> None:
    table.execute(1)
    table.execute(2)
    table.register(client(1), ALICE, 5)
    assert table.ask(2, session=5) is Step.REPLAY
    assert table.reply(client(1), 2) == "reply 2"
    table.execute(3, session=5)


def test_each_login_is_one_of_the_five_replies(table: Table) -> None:
    for request in (1, 2, 3):
        table.execute(request)
    for session in (2, 3, 4):
        table.register(client(1), ALICE, session)
    # Of login, 1, 2, 3, login, login, login the last five are left.
    assert [table.ask(request, session=4) for request in (1, 2, 3)] == [
        Step.REPLY_FORGOTTEN,
        Step.REPLAY,
        Step.REPLAY,
    ]


def test_a_client_id_of_another_user_is_refused_and_nothing_changes(table: Table) -> None:
    table.execute(1)
    with pytest.raises(SessionConflictError):
        table.register(client(1), BOB, 5)
    assert table.ask(1) is Step.REPLAY


def test_the_end_of_an_older_session_changes_nothing(table: Table) -> None:
    table.execute(1)
    table.register(client(1), ALICE, 5)
    table.end(client(1), 1)
    assert table.ask(1, session=5) is Step.REPLAY
    table.end(client(2), 1)


def test_after_its_session_a_client_id_begins_anew_for_whoever_takes_it(table: Table) -> None:
    table.execute(9)
    table.end(client(1), 1)
    assert table.reply_bytes == 0
    table.register(client(1), BOB, 5)
    table.execute(1, session=5)


def test_a_request_that_outlives_its_session_is_known_to_the_next_one(table: Table) -> None:
    assert table.ask(1) is Step.EXECUTE
    table.end(client(1), 1)
    with pytest.raises(SessionConflictError):
        table.register(client(1), BOB, 5)
    table.register(client(1), ALICE, 6)
    assert table.ask(1, session=6) is Step.IN_PROGRESS
    table.finish(client(1), 1, None, "late", REPLY_BYTES)
    assert table.ask(1, session=6) is Step.REPLAY
    assert table.reply(client(1), 1) == "late"


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_a_request_that_outlives_its_session_leaves_nothing_behind(
    table: Table, *, is_carried_out: bool
) -> None:
    assert table.ask(1) is Step.EXECUTE
    table.end(client(1), 1)
    if is_carried_out:
        table.finish(client(1), 1, None, "late", REPLY_BYTES)
    else:
        table.abandon(client(1))
    assert (len(table), table.reply_bytes) == (0, 0)
    table.register(client(1), BOB, 5)
    table.execute(1, session=5)


# Bounds


def full_table() -> Table:
    table = Table(max_clients=3)
    for number in (1, 2, 3):
        table.register(client(number), ALICE, number)
    return table


def test_one_client_too_many_costs_the_one_answered_longest_ago_its_session() -> None:
    table = full_table()
    table.execute(1, who=1)
    table.register(client(4), ALICE, 4)
    assert len(table) == 3
    assert table.ask(1, who=2, session=2) is Step.NO_SESSION
    for who in (1, 3, 4):
        table.execute(5, who=who, session=who)


def test_to_ask_is_not_to_be_answered() -> None:
    table = full_table()
    table.execute(1, who=1)
    table.execute(1, who=2, session=2)
    table.execute(1, who=3, session=3)
    assert table.ask(1, who=1) is Step.REPLAY
    assert table.ask(2, who=1) is Step.EXECUTE
    table.abandon(client(1))
    table.register(client(4), ALICE, 4)
    assert table.ask(1, who=1) is Step.NO_SESSION


def test_who_lost_its_session_logs_in_again_and_no_old_number_is_carried_out() -> None:
    table = full_table()
    table.execute(7, who=1)
    for number in (2, 3):
        table.execute(1, who=number, session=number)
    table.register(client(4), ALICE, 4)
    assert table.ask(8, who=1) is Step.NO_SESSION
    assert table.reply_bytes == 2 * STORED
    table.register(client(1), ALICE, 9)
    for request in (1, 6, 7):
        assert table.ask(request, who=1, session=9) is Step.REPLY_FORGOTTEN
    table.execute(8, who=1, session=9)
    assert len(table) == 3


def test_replies_of_a_lost_session_take_no_place_among_those_of_the_next() -> None:
    table = full_table()
    for request in (1, 2, 3, 4):
        table.execute(request, who=1)
    for number in (2, 3):
        table.execute(1, who=number, session=number)
    table.register(client(4), ALICE, 4)
    table.register(client(1), ALICE, 9)
    for request in (5, 6, 7, 8):
        table.execute(request, who=1, session=9)
    assert [table.ask(request, who=1, session=9) for request in (5, 6, 7, 8)] == [Step.REPLAY] * 4


def test_the_client_id_of_a_lost_session_is_still_that_of_its_user() -> None:
    table = full_table()
    table.register(client(4), ALICE, 4)
    with pytest.raises(SessionConflictError):
        table.register(client(1), BOB, 9)
    table.end(client(1), 1)
    table.register(client(1), BOB, 9)


def test_a_request_that_is_carried_out_counts_although_its_session_is_lost() -> None:
    table = full_table()
    assert table.ask(7, who=1) is Step.EXECUTE
    table.register(client(4), ALICE, 4)
    table.finish(client(1), 7, None, "done", REPLY_BYTES)
    assert table.reply_bytes == 0
    table.register(client(1), ALICE, 9)
    assert table.ask(7, who=1, session=9) is Step.REPLY_FORGOTTEN


def test_beyond_their_memory_the_oldest_replies_are_forgotten() -> None:
    table = Table(max_reply_bytes=3 * STORED)
    for number in (1, 2):
        table.register(client(number), ALICE, number)
        for request in (1, 2):
            table.execute(request, who=number, session=number)
    assert table.reply_bytes == 3 * STORED
    assert table.ask(1, who=1) is Step.REPLY_FORGOTTEN
    assert table.ask(2, who=1) is Step.REPLAY
    for request in (1, 2):
        assert table.ask(request, who=2, session=2) is Step.REPLAY
    assert len(table) == 2


def test_one_large_reply_costs_several_small_ones() -> None:
    table = Table(max_reply_bytes=4 * STORED)
    table.register(client(1), ALICE, 1)
    for request in (1, 2, 3, 4):
        table.execute(request)
    assert table.ask(5) is Step.EXECUTE
    table.finish(client(1), 5, None, "large", REPLY_BYTES + 2 * STORED)
    assert table.reply_bytes == 4 * STORED
    assert [table.ask(request) for request in (3, 4, 5)] == [
        Step.REPLY_FORGOTTEN,
        Step.REPLAY,
        Step.REPLAY,
    ]


def test_a_reply_larger_than_the_memory_is_not_kept_and_was_given_all_the_same() -> None:
    table = Table(max_reply_bytes=STORED - 1)
    table.register(client(1), ALICE, 1)
    table.execute(1)
    assert table.reply_bytes == 0
    assert table.ask(1) is Step.REPLY_FORGOTTEN
    table.execute(2)


def test_clients_that_come_and_go_leave_nothing_behind() -> None:
    table = Table(max_clients=2)

    def crowd(count: int) -> None:
        for number in range(1, count + 1):
            table.register(client(number), ALICE, number)
        for number in range(1, count + 1):
            if table.begin(client(number), number, 1, ONE) is Step.EXECUTE:
                table.finish(client(number), 1, ONE, "reply", 5)
            table.end(client(number), number)
        assert (len(table), table.reply_bytes) == (0, 0)

    tracemalloc.start()
    try:
        crowd(3000)
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(3):
            crowd(3000)
        assert tracemalloc.get_traced_memory()[0] - before < 10_000
    finally:
        tracemalloc.stop()


def test_an_entry_takes_no_more_memory_than_is_said() -> None:
    table: ClientTable[tuple[list[bytes], int]] = ClientTable(max_clients=10_000)
    ids = [client(number) for number in range(1, 5001)]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number, each in enumerate(ids, start=1):
            table.register(each, ALICE, 2**40 + number)
        entries = tracemalloc.get_traced_memory()[0]
        for number, each in enumerate(ids, start=1):
            for request in range(1, 6):
                assert table.begin(each, 2**40 + number, request, ONE) is Step.EXECUTE
                reply = [bytes(300)], 300
                table.finish(each, request, ONE, reply, 300)
        replies = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert (entries - before) / len(ids) < 400
    assert replies - entries < table.reply_bytes
