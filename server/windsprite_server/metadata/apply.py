"""Applying commands to the state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from windsprite_protocol.model.outcomes import Rejected, Success
from windsprite_server.metadata.commands import Command, PartitionPlace
from windsprite_server.metadata.state import State, Topic


@dataclass(frozen=True, slots=True)
class Context:
    """What a command is applied with.

    Attributes:
        position: In the journal; greater than that of the command before.
        timestamp_us: When it was committed; greater than that of the command before.
        user_id: The acting user; `None`: the server itself, which may do everything.
    """

    position: int
    timestamp_us: int
    user_id: int | None


@dataclass(frozen=True, slots=True)
class PartitionOpened:
    """A partition began a life: it needs an empty log."""

    place: PartitionPlace
    topic: Topic


@dataclass(frozen=True, slots=True)
class PartitionCondemned:
    """The life of a partition is over: its files may go."""

    place: PartitionPlace


Effect: TypeAlias = PartitionOpened | PartitionCondemned


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of a command."""

    outcome: Success | Rejected
    effects: tuple[Effect, ...] = ()


def apply(state: State, command: Command, context: Context) -> Applied:
    """Apply a command: change the state, or turn the command down and change nothing."""
    raise NotImplementedError
