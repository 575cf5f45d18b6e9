"""Applying commands: the one function that changes a state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from windsprite_protocol.model.outcomes import Rejected
from windsprite_server.metadata import accounts, commands, resources
from windsprite_server.metadata.checks import RejectedError, require_server
from windsprite_server.metadata.commands import Command
from windsprite_server.metadata.effects import Applied, Context
from windsprite_server.metadata.state import State


def apply(state: State, command: Command, context: Context) -> Applied:
    """Apply a command: change the state, or turn the command down and change nothing.

    A command that is turned down still takes its position: replaying a journal means applying
    every entry, and a repeated request gets the number of the first decision.

    Raises:
        ValueError: Position or timestamp do not grow; the caller is at fault, nothing is changed.
    """
    if context.position <= state.position or context.timestamp_us <= state.timestamp_us:
        message = (
            f"position {context.position} at {context.timestamp_us} cannot follow "
            f"position {state.position} at {state.timestamp_us}"
        )
        raise ValueError(message)
    try:
        applied = _STEPS[type(command)](state, command, context)
    except RejectedError as rejection:
        applied = Applied(Rejected(rejection.code))
    state.position = context.position
    state.timestamp_us = context.timestamp_us
    return applied


def _do_nothing(state: State, command: commands.NoOperation, context: Context) -> Applied:
    del state, command
    require_server(context)
    return Applied()


_STEPS: Final[Mapping[type[Command], Callable[[State, Any, Context], Applied]]] = MappingProxyType(
    {
        commands.NoOperation: _do_nothing,
        commands.CreateStream: resources.create_stream,
        commands.UpdateStream: resources.update_stream,
        commands.DeleteStream: resources.delete_stream,
        commands.PurgeStream: resources.purge_stream,
        commands.CreateTopic: resources.create_topic,
        commands.UpdateTopic: resources.update_topic,
        commands.DeleteTopic: resources.delete_topic,
        commands.PurgeTopic: resources.purge_topic,
        commands.CreatePartitions: resources.create_partitions,
        commands.DeletePartitions: resources.delete_partitions,
        commands.CreateConsumerGroup: resources.create_consumer_group,
        commands.DeleteConsumerGroup: resources.delete_consumer_group,
        commands.CreateRoot: accounts.create_root,
        commands.CreateUser: accounts.create_user,
        commands.UpdateUser: accounts.update_user,
        commands.DeleteUser: accounts.delete_user,
        commands.UpdatePermissions: accounts.update_permissions,
        commands.ChangePassword: accounts.change_password,
        commands.CreateToken: accounts.create_token,
        commands.DeleteToken: accounts.delete_token,
        commands.DeleteExpiredTokens: accounts.delete_expired_tokens,
        commands.ForgetCondemned: resources.forget_condemned,
    }
)
