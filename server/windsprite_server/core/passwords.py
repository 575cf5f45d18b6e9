"""Hashing and verifying passwords with Argon2id, off the event loop and never too many at once.

A hash costs tens of milliseconds and some 20 MiB of memory on purpose. A storm of logins must not
take the machine with it, so a fixed number of threads works and a bounded number of logins waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

_MEMORY_KIB: Final = 19_456
_ITERATIONS: Final = 2
_LANES: Final = 1

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class TooManyLoginsError(Exception):
    """As many passwords wait to be verified as are allowed to."""


class Passwords:
    """Verifies and hashes passwords in threads of its own.

    The cost parameters are those that OWASP names for Argon2id (19 MiB, 2 iterations, 1 lane).
    """

    def __init__(self, *, threads: int, max_waiting: int) -> None:
        """Start no thread yet.

        Args:
            threads: How many passwords are worked on at the same time.
            max_waiting: How many may wait for a thread, beyond those worked on.
        """
        self._hasher = PasswordHasher(
            time_cost=_ITERATIONS, memory_cost=_MEMORY_KIB, parallelism=_LANES
        )
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="password")
        self._places = threads + max_waiting
        self._taken = 0
        self._dummy_hash = self._hasher.hash("nobody has this password")

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Whether the password has this hash; costs the same time when there is no hash.

        Raises:
            TooManyLoginsError: Too many callers wait already.
        """
        stored = self._dummy_hash if password_hash is None else password_hash
        matches = await self._in_thread(self._verify, stored, password)
        return matches and password_hash is not None

    async def hash(self, password: str) -> str:
        """The salted hash of a password, in PHC string format.

        Raises:
            TooManyLoginsError: Too many callers wait already.
        """
        return await self._in_thread(self._hasher.hash, password)

    def close(self) -> None:
        """Let the threads end; whoever waits gets a cancellation."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _verify(self, password_hash: str, password: str) -> bool:
        try:
            return self._hasher.verify(password_hash, password)
        except (VerificationError, InvalidHashError):
            return False

    async def _in_thread(
        self,
        work: Callable[Parameters, Result],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Result:
        if self._taken >= self._places:
            raise TooManyLoginsError
        self._taken += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, partial(work, *args, **kwargs))
        finally:
            self._taken -= 1
