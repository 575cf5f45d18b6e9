"""What the blocking classes have in common."""

from __future__ import annotations

from typing import Generic, TypeVar

from windsprite.sync.thread import LoopThread

T = TypeVar("T")


class Blocking(Generic[T]):
    """A blocking form of an object that lives in an event loop.

    Attributes:
        _thread: Runs the loop.
        _target: The object. It is touched in that thread only.
    """

    def __init__(self, thread: LoopThread, target: T) -> None:
        self._thread = thread
        self._target = target

    def __repr__(self) -> str:
        return f"<windsprite.sync.{type(self).__name__} {str(self._target).partition(' ')[2]}"
