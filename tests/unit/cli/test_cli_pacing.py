"""Which request of a benchmark is due when."""

from windsprite.cli.pacing import Pacing, Turn


def turns(pacing: Pacing, *times: float) -> list[Turn | None]:
    return [pacing.next(now) for now in times]


def test_as_fast_as_it_goes_until_all_messages_are_dealt_out() -> None:
    pacing = Pacing(10.0, messages=25, batch=10, rate=None, duration=None)
    assert turns(pacing, 10, 10, 99, 99) == [Turn(10, None), Turn(10, None), Turn(5, None), None]


def test_a_rate_says_when_whatever_happened_before() -> None:
    pacing = Pacing(10.0, messages=25, batch=10, rate=20, duration=None)
    late = 99.0
    assert turns(pacing, 10, late, late, late) == [
        Turn(10, 10.0),
        Turn(10, 10.5),
        Turn(5, 11.0),
        None,
    ]


def test_a_duration_ends_it() -> None:
    assert turns(Pacing(10.0, messages=None, batch=1, rate=None, duration=2), 11.9, 12) == [
        Turn(1, None),
        None,
    ]


def test_what_was_due_before_the_end_is_sent_even_if_late() -> None:
    pacing = Pacing(10.0, messages=None, batch=1, rate=1, duration=2)
    assert turns(pacing, 10, 50, 50) == [Turn(1, 10.0), Turn(1, 11.0), None]
