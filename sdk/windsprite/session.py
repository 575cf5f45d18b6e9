"""One session on one connection: requests to frames, answers to values (spec 01, 5 and 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from windsprite.address import Credentials, Password
from windsprite.bootstrap import Location
from windsprite.connection import Broken, Connection
from windsprite.environment import Environment
from windsprite.errors import AuthenticationError, InvalidRequest, ProtocolViolation
from windsprite_protocol.errors import DecodeError, EncodeError, ErrorCode
from windsprite_protocol.generation import Command, Plane
from windsprite_protocol.model.messages import Buffer
from windsprite_protocol.model.sessions import (
    ClientVersion,
    LoggedIn,
    Login,
    LoginWithToken,
)
from windsprite_protocol.v0_11.calling import (
    RemoteError,
    command_of,
    decode_reply,
    encode_request,
)
from windsprite_protocol.v0_11.decoder import Frame
from windsprite_protocol.v0_11.frames import PROTOCOL_VERSION, unpack_reply

SDK_NAME: Final = "windsprite"
SDK_VERSION: Final = "0.1.0"

_NUMBERS_BEHIND: Final = 32

Request: TypeAlias = Any
"""A request of `windsprite_protocol.model`, or a `RawRequest`."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request as it goes over the wire in one session, ready to be sent more than once."""

    command: Command[Any]
    number: int
    parts: Sequence[Buffer]


class Session:
    """A connection and who we are on it.

    Args:
        connection: Open, and nothing was sent on it yet.
        location: Where it leads to.
        environment: Randomness for the client id.

    Attributes:
        logged_in: What the login told; None before it.
    """

    def __init__(
        self, connection: Connection, location: Location, environment: Environment
    ) -> None:
        self.connection = connection
        self.location = location
        self.logged_in: LoggedIn | None = None
        # The lowest bit is set so that the id is never 0.
        drawn = environment.random_bytes(16)
        self._client = bytes([drawn[0] | 1]) + drawn[1:]
        self._next_number = 1

    def prepare(self, request: Request) -> Prepared:
        """Encode a request for this session, under a number of its own.

        Raises:
            InvalidRequest: The protocol cannot carry it; nothing was sent.
            AuthenticationError: Only who is logged in can ask for that; nothing was sent. Not
                every server would say so.
        """
        number = 0 if isinstance(request, Login | LoginWithToken) else self._next_number
        try:
            command = command_of(request)
            takes_number = number > 0 and command.plane is not Plane.READ
            if takes_number and self.logged_in is None:
                code = ErrorCode.UNAUTHENTICATED
                raise AuthenticationError(code.sentence, code=code)
            parts = encode_request(
                command,
                request,
                client=self._client,
                session=self.logged_in.session if self.logged_in else 0,
                request=number,
                checksum=True,
            )
        except EncodeError as error:
            raise InvalidRequest(str(error), code=error.code) from error
        if takes_number:
            self._next_number += 1
        return Prepared(command, number, parts)

    async def exchange(self, prepared: Prepared, deadline: float) -> Any:  # noqa: ANN401
        """Send a prepared request, or send it again, and wait for its answer.

        Raises:
            Broken: There is no answer, or none that makes sense.
            RemoteError: The server answered with an error.
            EvictedError: The server ended the session.
        """
        frame = await self.connection.exchange(prepared.parts, deadline)
        return self._read(frame, prepared)

    async def exchange_on_place(self, prepared: Prepared, deadline: float) -> Any:  # noqa: ANN401
        """As `exchange`, on a place of the connection that was taken.

        Raises:
            As `exchange`.
        """
        frame = await self.connection.send(prepared.parts, deadline)
        return self._read(frame, prepared)

    def is_behind(self, prepared: Prepared) -> bool:
        """Whether the number of a request is far behind: servers remember no more than 128 back.

        What was surely not executed then takes a new one (spec 01, 6.6).
        """
        return prepared.number + _NUMBERS_BEHIND < self._next_number

    def _read(self, frame: Frame, prepared: Prepared) -> Any:  # noqa: ANN401
        try:
            header, value = decode_reply(frame, prepared.command)
        except RemoteError:
            self._check_number(unpack_reply(frame.header).request, prepared)
            raise
        except DecodeError as error:
            if error.code is ErrorCode.INVALID_FORMAT:
                # The frame is whole; what follows it can be trusted.
                self._check_number(unpack_reply(frame.header).request, prepared)
                violation = ProtocolViolation(f"the server does not follow the protocol: {error}")
            else:
                violation = self.connection.distrust(str(error))
            raise Broken(violation, sent=True) from error
        self._check_number(header.request, prepared)
        return value

    def _check_number(self, number: int, prepared: Prepared) -> None:
        if number != prepared.number:
            violation = self.connection.distrust("an answer to another request")
            raise Broken(violation, sent=True)

    def prepare_login(self, credentials: Credentials) -> Prepared:
        """Encode a login.

        Raises:
            InvalidRequest: The protocol cannot carry these credentials.
        """
        client = ClientVersion(PROTOCOL_VERSION, SDK_NAME, SDK_VERSION)
        if isinstance(credentials, Password):
            return self.prepare(Login(client, credentials.username, credentials.password))
        return self.prepare(LoginWithToken(client, credentials.token))

    async def log_in(self, prepared: Prepared, deadline: float) -> LoggedIn:
        """Open a session (spec 01, 5).

        Raises:
            Broken: There is no answer, or none that makes sense.
            RemoteError: The server cannot do it now (57, 58).
            EvictedError: The server refuses.
        """
        logged_in: LoggedIn = await self.exchange(prepared, deadline)
        if logged_in.session == 0:
            raise Broken(self.connection.distrust("a session with the number 0"), sent=True)
        self.logged_in = logged_in
        return logged_in
