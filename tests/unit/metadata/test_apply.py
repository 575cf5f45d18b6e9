"""What holds for every command."""

from typing import get_args

import pytest

from support.metadata import Machine, image, picture
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.outcomes import Rejected
from windsprite_server.metadata import commands as c
from windsprite_server.metadata.apply import apply
from windsprite_server.metadata.effects import Applied, Context
from windsprite_server.metadata.encoding import COMMAND_TAGS


def test_a_rejected_command_takes_its_position_and_time() -> None:
    machine = Machine()
    before = machine.state.position
    machine.rejection(c.DeleteStream("missing"))
    assert machine.state.position == before + 1
    assert machine.state.timestamp_us == machine.history[-1][1].timestamp_us


@pytest.mark.parametrize(("position", "later_us"), [(1, 1), (0, 1), (2, 0), (2, -1)])
def test_positions_and_times_must_grow(position: int, later_us: int) -> None:
    machine = Machine()
    assert machine.state.position == 1
    before = image(machine.state)
    context = Context(position, machine.state.timestamp_us + later_us, None)
    with pytest.raises(ValueError, match="cannot follow"):
        apply(machine.state, c.CreateStream("s"), context)
    assert image(machine.state) == before


def test_positions_may_leave_some_out() -> None:
    machine = Machine()
    apply(machine.state, c.CreateStream("s"), Context(100, machine.state.timestamp_us + 1, 0))
    assert machine.state.position == 100


def test_a_no_operation_is_for_the_server_and_changes_nothing() -> None:
    machine = Machine()
    before = picture(machine.state)
    machine.do(c.NoOperation(), user=None)
    assert picture(machine.state) == before
    assert machine.last == Applied()
    assert machine.try_(c.NoOperation(), user=0) == Rejected(ErrorCode.UNAUTHORIZED)


def test_every_command_has_a_tag_and_is_applied() -> None:
    every = set(get_args(c.Command))
    assert set(COMMAND_TAGS.values()) == every
    assert len(COMMAND_TAGS) == len(every)
