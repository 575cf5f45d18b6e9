"""Personal access tokens of the user who is logged in."""

# ruff: noqa: ASYNC109 - a timeout covers more than one wait, with repeats and new connections

from __future__ import annotations

from windsprite.address import Token
from windsprite.commands.base import Commands
from windsprite.errors import InvalidRequest
from windsprite.topic_options import Duration, expiry_of
from windsprite_protocol.errors import ErrorCode
from windsprite_protocol.model.tokens import (
    CreateToken,
    DeleteToken,
    GetTokens,
    RawToken,
    TokenInfo,
)
from windsprite_protocol.model.topics import NEVER_EXPIRES


class TokenCommands(Commands):
    """Personal access tokens of the user who is logged in.

    A program logs in with a token instead of a name and a password: `connect(server,
    token=secret)`, `login_with_token`, or `iggy://TOKEN@host` with the token percent-encoded. It
    may then do what the user may do at that time.
    """

    async def create_token(
        self, name: str, *, expiry: Duration | None = None, timeout: float | None = None
    ) -> Token:
        """Make a token.

        Args:
            name: 1 to 255 bytes, unique among the tokens of the user.
            expiry: How long logins with it are possible: a `timedelta` or a text such as
                `"30 days"`; None: for ever.
            timeout: Seconds for all of it.

        Returns:
            The secret in `.token`. No server can show it again.

        Raises:
            AlreadyExists: The user has a token with this name.
            LimitReached: The user has as many tokens as the server allows.
            InvalidRequest: The expiry is no positive duration.
        """
        doing = f"create_token {name!r}"
        raw: RawToken = await self._caller.call(
            CreateToken(name, _lifetime(doing, expiry)), doing, time_limit=timeout
        )
        return Token(raw.token)

    async def get_tokens(self, *, timeout: float | None = None) -> tuple[TokenInfo, ...]:
        """The tokens of the user without their secrets, by name; also those just expired."""
        tokens: tuple[TokenInfo, ...] = await self._caller.call(
            GetTokens(), "get_tokens", time_limit=timeout
        )
        return tuple(sorted(tokens, key=lambda token: token.name))

    async def delete_token(self, name: str, *, timeout: float | None = None) -> None:
        """Delete a token; sessions that were opened with it go on.

        Raises:
            NotFound: The user has no token with this name.
        """
        await self._caller.call(DeleteToken(name), f"delete_token {name!r}", time_limit=timeout)


def _lifetime(doing: str, expiry: Duration | None) -> int:
    if expiry is None:
        return NEVER_EXPIRES
    try:
        lifetime = expiry_of(expiry)
    except ValueError as error:
        reason = str(error)
    else:
        # Servers take 0 for "never", which nobody means who writes it.
        if lifetime:
            return lifetime
        reason = f"{expiry!r} is not a positive duration"
    raise InvalidRequest(f"{doing}: {reason}", code=ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN_EXPIRY)
