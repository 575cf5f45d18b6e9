"""Deletes expired personal access tokens, again and again (spec 06, 5.6).

Nobody can log in with them before that either; they are deleted so that they don't pile up.
"""

from __future__ import annotations

import asyncio
from typing import Final

from windsprite_server.commit import Committed, Committer
from windsprite_server.core.clock import Clock
from windsprite_server.core.log_setup import Logger
from windsprite_server.core.tasks import cancel_and_wait, repeat
from windsprite_server.metadata.commands import DeleteExpiredTokens, OwnedToken
from windsprite_server.metadata.state import State

MAX_TOKENS_IN_PASS: Final = 256

_USERS_IN_ONE_GO: Final = 1000


class TokenCleaner:
    """A background task that looks at all tokens from time to time."""

    def __init__(
        self, state: State, committer: Committer, clock: Clock, logger: Logger, *, interval: float
    ) -> None:
        """Start nothing yet.

        Args:
            state: Where the tokens are.
            committer: Deletes them.
            clock: Says what has expired, and when it is time to look again.
            logger: Told of what was deleted, and of what failed.
            interval: Seconds from the end of one look to the next.
        """
        self._state = state
        self._committer = committer
        self._clock = clock
        self._logger = logger
        self._interval = interval
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; the first look comes after one interval."""
        self._task = repeat(
            self._clean_up,
            self._interval,
            name="token cleaner",
            clock=self._clock,
            logger=self._logger,
            failure="expired tokens could not be deleted",
        )

    async def stop(self) -> None:
        """End; a command that is on its way is still carried out."""
        await cancel_and_wait(self._task)

    async def clean(self) -> int:
        """Delete the tokens that have expired by now, a bounded number with one command.

        Ends early when this node cannot change metadata at the moment.

        Returns:
            How many tokens were found and not left to the next time.

        Raises:
            CommitFailedError: Metadata cannot be changed until a restart.
        """
        expired = await self._expired()
        for start in range(0, len(expired), MAX_TOKENS_IN_PASS):
            tokens = tuple(expired[start : start + MAX_TOKENS_IN_PASS])
            answer = await self._committer.execute(DeleteExpiredTokens(tokens), None)
            if not isinstance(answer, Committed):
                return start
        return len(expired)

    async def _expired(self) -> list[OwnedToken]:
        now = self._clock.now_us()
        found: list[OwnedToken] = []
        # Users are immutable, so this list stays what it is while others have their turn.
        for number, user in enumerate(list(self._state.users.values()), start=1):
            found += (
                OwnedToken(user.id, token.name)
                for token in user.tokens.values()
                if token.has_expired(now)
            )
            if number % _USERS_IN_ONE_GO == 0:
                await self._clock.sleep(0)
        return found

    async def _clean_up(self) -> None:
        if deleted := await self.clean():
            self._logger.info("expired tokens were deleted", count=deleted)
