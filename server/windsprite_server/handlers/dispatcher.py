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
from windsprite_server.session import Connection

Handler: TypeAlias = Callable[[Services, Connection, Any], Any]
"""Takes the request; returns the value of the reply, or a coroutine of it."""


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
    def position(self) -> int:
        """Up to where metadata is applied: the `commit` of replies."""
        return self._services.committer.position

    def dispatch(
        self,
        connection: Connection,
        request: Any,  # noqa: ANN401 - of any command
    ) -> Outcome | Coroutine[Any, Any, Outcome]:
        """Carry out a request: at once, or by a coroutine where something has to be waited for."""
        handler = self._handlers.get(type(request))
        if handler is None:
            return Refused(ErrorCode.FEATURE_UNAVAILABLE)
        try:
            value = handler(self._services, connection, request)
        except UnsuccessfulError as error:
            return error.outcome
        except DecodeError as error:
            return Refused(error.code)
        except Exception as error:
            return self._unexpected(connection, request, error)
        if isinstance(value, CoroutineType):
            return self._outcome_of(value, connection, request)
        return Success(value)

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
        return self._outcome_of(login, connection, attempt)

    async def _outcome_of(
        self, coroutine: Coroutine[Any, Any, Any], connection: Connection, request: object
    ) -> Outcome:
        try:
            return Success(await coroutine)
        except UnsuccessfulError as error:
            return error.outcome
        except DecodeError as error:
            return Refused(error.code)
        except Exception as error:
            return self._unexpected(connection, request, error)

    def _unexpected(self, connection: Connection, request: object, error: Exception) -> Outcome:
        # Only the name of the request: its values may be secrets.
        self._logger.error(
            "request failed",
            connection=connection.number,
            request=type(request).__name__,
            exc_info=error,
        )
        return Refused(ErrorCode.ERROR)
