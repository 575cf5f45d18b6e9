"""What rows hand over: series of values, one for each repeat, each measured beside the others."""

from dataclasses import dataclass, field
from statistics import median


@dataclass(slots=True)
class Series:
    """One figure of one contender.

    Attributes:
        row: The row that measured it, as `--only` names it.
        title: What was measured; series of one title stand together in the table.
        contender: Whose figure it is.
        durability: What its acknowledgements mean; empty where there are none.
        unit: Of the values.
        values: One for each repeat. Those of the same place in other series of the row were taken
            right before or after.
        is_limit: Whether it is what the machine can do, rather than a server.
        message_bytes: Of a payload, where messages are counted.
    """

    row: str
    title: str
    contender: str
    unit: str
    durability: str = ""
    values: list[float] = field(default_factory=list)
    is_limit: bool = False
    message_bytes: int = 0

    @property
    def middle(self) -> float:
        return median(self.values)


class Results:
    """All series of a run, in the order in which they were begun."""

    def __init__(self) -> None:
        self.series: list[Series] = []
        self.skipped: list[str] = []

    def add(self, value: float, /, **fields: object) -> None:
        """Add the value of one repeat to a series, beginning it if it is the first."""
        wanted = Series(**fields)  # type: ignore[arg-type]
        found = self.find(wanted.row, wanted.title, wanted.contender)
        if found is None:
            found = wanted
            self.series.append(found)
        found.values.append(value)

    def find(self, row: str, title: str, contender: str) -> Series | None:
        for one in self.series:
            if (one.row, one.title, one.contender) == (row, title, contender):
                return one
        return None

    def skip(self, reason: str) -> None:
        """Note and say, once, what could not be measured."""
        if reason not in self.skipped:
            print(f"    skipped: {reason}", flush=True)
            self.skipped.append(reason)
