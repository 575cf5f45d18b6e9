"""What the dispatcher and the wire rely on in handlers."""

import inspect
from typing import Any

import pytest

from windsprite_protocol.generation import Command, Plane
from windsprite_protocol.model.sessions import Login, LoginWithToken
from windsprite_protocol.v0_11.table import GENERATION
from windsprite_server.handlers.table import HANDLERS

CHANGES = [command for command in GENERATION if command.plane is Plane.METADATA]


@pytest.mark.parametrize("command", CHANGES, ids=lambda command: str(command.code))
def test_a_change_of_metadata_is_executed_when_it_is_awaited_and_not_before(
    command: Command[Any],
) -> None:
    """Otherwise one that comes again would be carried out before anybody could see that."""
    handler = HANDLERS[command.request_type]
    returns = inspect.signature(handler).return_annotation
    assert inspect.iscoroutinefunction(handler) or returns.startswith("Coroutine[")


def test_every_command_but_the_logins_has_a_handler() -> None:
    logins = {Login, LoginWithToken}  # carried out by the dispatcher itself
    commands = {command.request_type: command.name for command in GENERATION}
    served = HANDLERS.keys() | logins
    assert {name for request, name in commands.items() if request not in served} == {
        "message.flush_unsaved_buffer"  # refused by every server of this generation
    }
