"""Each answer of the table is proven by a test, or is known to be out of reach."""

from support.answer_table import OURS, TABLE, UNREACHABLE


def test_every_answer_is_proven(proven: set[tuple[int, str]]) -> None:
    assert sorted(TABLE - proven - UNREACHABLE.keys()) == []


def test_what_is_out_of_reach_was_not_reached(proven: set[tuple[int, str]]) -> None:
    assert sorted(UNREACHABLE.keys() & proven) == []
    assert sorted(UNREACHABLE.keys() - TABLE) == []


def test_nothing_else_is_proven(proven: set[tuple[int, str]]) -> None:
    assert sorted(proven - TABLE - OURS) == []
    assert sorted(OURS & TABLE) == []
