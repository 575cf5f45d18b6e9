"""The methods of `TokenCommands`, blocking; written by docs/sync_modules.py."""

from __future__ import annotations

from windsprite.address import Token
from windsprite.client import Client as Target
from windsprite.sync.base import Blocking
from windsprite.topic_options import Duration
from windsprite_protocol.model.tokens import TokenInfo


class TokenCommands(Blocking[Target]):
    """Personal access tokens of the user who is logged in.

    A program logs in with a token instead of a name and a password: `connect(server,
    token=secret)`, `login_with_token`, or `iggy://TOKEN@host` with the token percent-encoded. It
    may then do what the user may do at that time.
    """

    def create_token(
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
        return self._thread.run(self._target.create_token(name, expiry=expiry, timeout=timeout))

    def get_tokens(self, *, timeout: float | None = None) -> tuple[TokenInfo, ...]:
        """The tokens of the user without their secrets, by name; also those just expired."""
        return self._thread.run(self._target.get_tokens(timeout=timeout))

    def delete_token(self, name: str, *, timeout: float | None = None) -> None:
        """Delete a token; sessions that were opened with it go on.

        Raises:
            NotFound: The user has no token with this name.
        """
        self._thread.run(self._target.delete_token(name, timeout=timeout))
