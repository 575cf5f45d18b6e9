"""From a request to the handler of its command, and from what becomes of it to an outcome."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from types import CoroutineType
from typing import Any, TypeAlias

from windsprite_protocol.errors import DecodeError, ErrorCode
from windsprite_protocol.model.outcomes import Outcome, Refused, Success
from windsprite_protocol.model.sessions import LoginAttempt
from windsprite_protocol.model.system import TransportKind
from windsprite_server.core.log_setup import Logger
from windsprite_server.handlers import sessions
from windsprite_server.handlers.answers import UnsuccessfulError
from windsprite_server.handlers.services import Services
from windsprite_server.session import ClientTable, Connection

Handler: TypeAlias = Callable[[Services, Connection, Any], Any]
"""Takes the request; returns the value of the reply, or a coroutine of it.

One that changes metadata returns a coroutine. Called, it refuses what can be refused without
executing anything; all else it does when the coroutine is awaited, which does not happen if the
request is one that was carried out before (spec 01, 6.5).
"""


class Dispatcher:
    """Finds the handler of a request and turns whatever happens in it into an outcome.

    An error that no handler foresaw is answered with the generic error and logged with its
    traceback; nobody else notices.
    """

    def __init__(
        self, services: Services, handlers: Mapping[type[Any], Handler], logger: Logger
    ) -> None:
        self._services = services
        self._handlers = handlers
        self._logger = logger

    def connect(
        self, transport: TransportKind, peer: str, reached_host: str, reached_port: int
    ) -> Connection:
        """Take note of a new connection."""
        return self._services.sessions.connect(transport, peer, reached_host, reached_port)

    def disconnect(self, connection: Connection) -> None:
        """Forget a connection; its session ends with it, at once (spec 01, 6.7)."""
        self._services.sessions.disconnect(connection)

    @property
    def clients(self) -> ClientTable[Any]:
        """What was done for the sessions."""
        return self._services.sessions.clients

    @property
    def position(self) -> int:
        """Up to where metadata is applied: the `commit` of replies."""
        return self._services.committer.position

    def dispatch(
        self,
        connection: Connection,
        request: Any,  # noqa: ANN401 - of any command
        request_number: int,
    ) -> Outcome | Coroutine[Any, Any, Any]:
        """Carry out a request: at once, or by a coroutine where something has to be waited for.

        Args:
            connection: Where it came from.
            request: What is asked for.
            request_number: What the client calls it; for the log.

        Returns:
            How it ended; or a coroutine, to be handed to `outcome_of`, or to be closed if the
            request is not to be carried out after all.
        """
        handler = self._handlers.get(type(request))
        if handler is None:
            return Refused(ErrorCode.FEATURE_UNAVAILABLE)
        try:
            value = handler(self._services, connection, request)
        except Exception as error:
            return self._failed(connection, request, request_number, error)
        if isinstance(value, CoroutineType):
            return value
        return Success(value)

    async def outcome_of(
        self,
        work: Coroutine[Any, Any, Any],
        connection: Connection,
        request: object,
        request_number: int,
    ) -> Outcome:
        """How the rest of a request ends.

        Args:
            work: What `dispatch` returned.
            connection: As there.
            request: As there.
            request_number: As there.
        """
        try:
            return Success(await work)
        except Exception as error:
            return self._failed(connection, request, request_number, error)

    def _failed(
        self, connection: Connection, request: object, request_number: int, error: Exception
    ) -> Outcome:
        """The outcome that the error of a handler amounts to."""
        match error:
            case UnsuccessfulError(outcome=outcome):
                return outcome
            case DecodeError(code=code):
                return Refused(code)
        return self.unexpected(connection, type(request).__name__, request_number, error)

    def login(
        self, connection: Connection, client: bytes, attempt: LoginAttempt, protocol_version: int
    ) -> Coroutine[Any, Any, Outcome]:
        """Carry out a login.

        Args:
            connection: Where it came from.
            client: The id the client chose.
            attempt: What the client sent.
            protocol_version: The packed version of the generation that is spoken.
        """
        login = sessions.login(self._services, connection, client, attempt, protocol_version)
        return self.outcome_of(login, connection, attempt, 0)

    def unexpected(
        self, connection: Connection, request: str, request_number: int, error: Exception
    ) -> Outcome:
        """What is said to an error that nobody foresaw, which is logged.

        Args:
            connection: Where the request came from.
            request: The name of the request, and no more: its values may be secrets.
            request_number: What the client calls it.
            error: What happened.
        """
        self._logger.error(
            "request failed",
            connection=connection.number,
            request=request,
            request_number=request_number,
            exc_info=error,
        )
        return Refused(ErrorCode.ERROR)
