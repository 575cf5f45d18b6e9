import pytest

from windsprite_server.core.failure_points import FailurePoints


def test_idle_places_do_nothing() -> None:
    points = FailurePoints()
    points.reach("a")
    points.arm("b", OSError("full"))
    points.reach("a")


def test_an_armed_place_raises_until_it_is_disarmed() -> None:
    points = FailurePoints()
    points.arm("write", OSError("full"))
    for _ in range(2):
        with pytest.raises(OSError, match="full"):
            points.reach("write")
    points.disarm("write")
    points.reach("write")
    points.disarm("write")


def test_the_nth_time_only() -> None:
    points = FailurePoints()
    point = points.arm("write", OSError("full"), after=2, times=1)
    points.reach("write")
    points.reach("write")
    with pytest.raises(OSError, match="full"):
        points.reach("write")
    points.reach("write")
    assert (point.reached, point.fired) == (4, 1)


def test_an_action_is_called() -> None:
    calls: list[str] = []
    points = FailurePoints()
    points.arm("read", lambda: calls.append("read"))
    points.reach("read")
    assert calls == ["read"]


def test_two_sets_know_nothing_of_each_other() -> None:
    first, second = FailurePoints(), FailurePoints()
    first.arm("write", OSError("full"))
    second.reach("write")
