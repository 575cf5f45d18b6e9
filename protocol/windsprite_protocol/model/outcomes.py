"""How a request ends, in the terms of the server (spec 01, 3.4; spec 02, 5).

A generation of the wire turns an outcome into a frame; nobody else needs to know which of its
channels carries it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.sessions import EvictionReason


@dataclass(slots=True, unsafe_hash=True)
class Success:
    """Done; `value` is the reply of the command, `None` where it says nothing.

    Made for every request; not frozen, though nobody changes it, since that is slower to make.
    """

    value: Any = None


@dataclass(frozen=True, slots=True)
class Refused:
    """Not executed: refused before anything was decided by the state of the server."""

    code: ErrorCode


@dataclass(frozen=True, slots=True)
class Rejected:
    """Executed and turned down by the state of the server; a repeat gets the same answer."""

    code: ErrorCode


@dataclass(frozen=True, slots=True)
class NotNow:
    """Not executed by this request, as far as is known.

    The client may repeat the same request, unless the code says that it was executed before.
    """

    code: ErrorCode


@dataclass(frozen=True, slots=True)
class Evicted:
    """The session is over, or the login is refused."""

    reason: EvictionReason


Outcome: TypeAlias = Success | Refused | Rejected | NotNow | Evicted
