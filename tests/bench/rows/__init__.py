"""The rows of the benchmark: each knows what it measures and hands over series of values."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.contenders import ALL, OURS, Contender, load, why_missing
from bench.measurements import Results
from bench.processes import System
from bench.workload import Workload

_WARM_UP_BYTES = 300_000_000  # more than the tail cache holds by default


@dataclass(slots=True)
class Run:
    """What rows need to know of the run they are part of.

    Attributes:
        folder: For data; each row gets an empty one of its own in it.
        results: Where values go.
        quick: Fewer repeats, less data.
        with_peers: Whether other servers take part.
        repeats: What `--repeats` says; 0: each row has its own number.
    """

    folder: Path
    results: Results
    quick: bool
    with_peers: bool
    repeats: int = 0

    def taking_part(self, *titles: str) -> list[Contender]:
        """Those of these contenders that can take part; the others are noted as skipped."""
        found = []
        for title in titles:
            contender = ALL[title]
            if not self.with_peers and title.startswith(("JetStream", "Redis")):
                continue
            reason = why_missing(contender)
            if reason is None:
                found.append(contender)
            else:
                self.results.skip(reason)
        return found

    def repeats_of(self, usual: int) -> int:
        """How often a row measures; it says how often it does unless told otherwise."""
        return self.repeats or (1 if self.quick else usual)


class Row(Protocol):
    """A row.

    Attributes:
        name: As `--only` calls it.
        title: One line for `--list`.
        in_default: Whether it runs unless asked for by name.
    """

    name: str
    title: str
    in_default: bool

    def measure(self, run: Run, folder: Path) -> None:
        """Measure, and add the values to the results of the run."""
        ...


def turned(contenders: list[Contender], repeat: int) -> list[Contender]:
    """The contenders in another order for each repeat, so that none always comes after another."""
    at = repeat % len(contenders)
    return contenders[at:] + contenders[:at]


def fill_tail(system: System) -> None:
    """Bring one of our servers to the state it is in after a while: all its memory is in use.

    Until then each batch takes memory that the system has to clear first, which costs more than
    all the rest.
    """
    work = Workload(batches=_WARM_UP_BYTES // 10_500_000, batch=1000, size=10_240)
    load(ALL[OURS], system, "produce", "warm-up", work, depth=4)
