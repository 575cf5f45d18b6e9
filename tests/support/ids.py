"""Identifiers that are the same in every run."""

import random
import uuid


class SeededIds:
    """Like `SystemIds`, but repeatable: the same seed gives the same values in the same order."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)

    def uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self._random.getrandbits(128), version=4)

    def token(self, size: int) -> bytes:
        return self._random.randbytes(size)
