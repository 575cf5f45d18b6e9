"""Counts what is hashed and verified, and holds it up as long as a test wants."""

import threading
from typing import Any

import pytest
from argon2 import PasswordHasher


class PasswordGate:
    """Stands in front of the real hasher.

    Attributes:
        verified: The hashes that passwords were verified against.
        hashed: How many passwords were hashed.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.verified: list[str] = []
        self.hashed = 0
        self._is_open = threading.Event()
        self._is_open.set()
        verify, hash_ = PasswordHasher.verify, PasswordHasher.hash

        def counted_verify(hasher: PasswordHasher, password_hash: str, password: str) -> Any:
            self.verified.append(password_hash)
            assert self._is_open.wait(10)
            return verify(hasher, password_hash, password)

        def counted_hash(hasher: PasswordHasher, password: str) -> str:
            self.hashed += 1
            assert self._is_open.wait(10)
            return hash_(hasher, password)

        monkeypatch.setattr(PasswordHasher, "verify", counted_verify)
        monkeypatch.setattr(PasswordHasher, "hash", counted_hash)

    @property
    def count(self) -> int:
        """How many times anything expensive was begun."""
        return len(self.verified) + self.hashed

    def close(self) -> None:
        self._is_open.clear()

    def open(self) -> None:
        self._is_open.set()
