"""A journal replayed is the state that was, byte for byte, from any snapshot and its tail."""

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from support.metadata import acting_users, any_command, image, picture, populated, replayed
from windsprite_protocol.model.outcomes import Rejected
from windsprite_server.metadata import snapshot
from windsprite_server.metadata.apply import apply
from windsprite_server.metadata.commands import Command
from windsprite_server.metadata.effects import Context
from windsprite_server.metadata.encoding import COMMAND_TAGS, EncodingError, decode, encode

Steps = list[tuple[Command, int | None]]


@given(st.lists(st.tuples(any_command(), acting_users()), max_size=30), st.data())
@settings(max_examples=150, deadline=None)
def test_any_snapshot_and_its_tail_give_the_same_bytes(steps: Steps, data: st.DataObject) -> None:
    machine = populated()
    begun = len(machine.history)
    images = [image(machine.state)]
    for command, user in steps:
        machine.try_(command, user)
        images.append(image(machine.state))
    # As a journal has them: encoded and decoded.
    history = [(decode(encode(command)), context) for command, context in machine.history]
    assert image(replayed(history)) == images[-1]
    cut = data.draw(st.integers(0, len(steps)))
    restored = snapshot.restore(images[cut])
    assert image(restored) == images[cut]
    assert image(replayed(history[begun + cut :], onto=restored)) == images[-1]


@given(st.lists(st.tuples(any_command(), acting_users()), max_size=30))
@settings(max_examples=100, deadline=None)
def test_rejected_commands_may_as_well_not_have_been(steps: Steps) -> None:
    machine = populated()
    accepted = list(machine.history)
    for command, user in steps:
        if not isinstance(machine.try_(command, user), Rejected):
            accepted.append(machine.history[-1])
    assert picture(replayed(accepted)) == picture(machine.state)


@pytest.mark.parametrize("command_type", COMMAND_TAGS.values())
def test_random_commands_are_of_every_type(command_type: type[Command]) -> None:
    assert find(any_command(), lambda command: type(command) is command_type)


@given(any_command())
def test_a_command_comes_back_from_its_bytes(command: Command) -> None:
    encoded = encode(command)
    assert decode(encoded) == command
    assert encode(decode(encoded)) == encoded


@given(any_command(), st.data())
def test_damaged_bytes_are_refused_or_are_some_command(
    command: Command, data: st.DataObject
) -> None:
    damaged = bytearray(encode(command))
    position = data.draw(st.integers(0, len(damaged) - 1))
    if data.draw(st.booleans()):
        del damaged[position:]
    else:
        damaged[position] ^= 1 << data.draw(st.integers(0, 7))
    try:
        decoded = decode(bytes(damaged))
    except EncodingError:
        return
    # Whatever it became, it can be applied: a state is never left half-changed.
    apply(populated().state, decoded, Context(100, 2**60, 0))


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_as_a_snapshot_or_a_command(data: bytes) -> None:
    for read in (decode, snapshot.restore):
        try:
            read(data)
        except (EncodingError, snapshot.SnapshotError):
            continue
        raise AssertionError(data)
