"""The blocking producer."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from windsprite.sync.producer_methods import ProducerMethods


class Producer(ProducerMethods):  # noqa: D101 - it has that of its methods
    __doc__ = ProducerMethods.__doc__

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
