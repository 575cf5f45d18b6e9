"""What all handlers that change metadata have in common."""

from __future__ import annotations

from typing import Any

from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.outcomes import NotNow, Rejected
from windsprite_protocol.model.typed_values import Options
from windsprite_server.commit import CommitFailedError
from windsprite_server.handlers.access import user_of
from windsprite_server.handlers.answers import UnsuccessfulError, refused
from windsprite_server.handlers.services import Services
from windsprite_server.metadata.commands import Command
from windsprite_server.session import Connection


async def commit(services: Services, connection: Connection, command: Command) -> Any:  # noqa: ANN401 - each command has its own reply
    """Have a command journaled and applied; returns the value of its reply.

    Raises:
        UnsuccessfulError: The state turned it down, it could not be taken now, or nobody knows
            whether it will be there after a restart.
    """
    try:
        committed = await services.committer.execute(command, user_of(connection))
    except CommitFailedError as error:
        raise refused(ErrorCode.ERROR) from error
    if isinstance(committed, NotNow):
        raise UnsuccessfulError(committed)
    if isinstance(committed.outcome, Rejected):
        raise UnsuccessfulError(committed.outcome)
    return committed.outcome.value


def refuse_options(options: Options) -> None:
    """Refuse every option, for what has none: streams (spec 03, 5.1) and users (spec 06, 3.2).

    Raises:
        UnsuccessfulError: There is one.
    """
    if options:
        raise refused(ErrorCode.UNSUPPORTED_OPTION_KEY)
