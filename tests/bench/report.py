"""The table at the end, the required ratios, and the file with everything."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

from bench.measurements import Results, Series


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.3g}"


def _spread(series: Series) -> str:
    if len(series.values) < 2 or not series.middle:
        return ""
    return f"{_number(min(series.values))} .. {_number(max(series.values))}"


def _rate(series: Series) -> str:
    """Megabytes of payload in a second, where the unit is messages."""
    if series.unit != "messages/s":
        return ""
    return f"{series.middle * series.message_bytes / 1e6:,.0f} MB/s"


def _of_limits(series: Series, limits: list[Series]) -> str:
    if series.is_limit:
        return ""
    return ", ".join(f"{_ratio(series, limit):.2f}" for limit in limits)


def _ratio(series: Series, other: Series) -> float:
    """The median of the ratios of neighbours in time."""
    return median(a / b for a, b in zip(series.values, other.values, strict=False))


def table(results: Results) -> Iterator[str]:
    """All series, line by line."""
    ordered = sorted(results.series, key=lambda one: _order(results, one))
    for title, group in groupby(ordered, key=lambda one: one.title):
        entries = list(group)
        limits = [one for one in entries if one.is_limit]
        head = ("", "median", "unit", "", "min .. max", "n", "of the limit", "acknowledged after")
        rows = [head] + [
            (
                one.contender,
                _number(one.middle),
                one.unit,
                _rate(one),
                _spread(one),
                str(len(one.values)),
                _of_limits(one, limits),
                one.durability,
            )
            for one in entries
        ]
        yield ""
        yield f"{title}   [{entries[0].row}]"
        yield from _aligned(rows)


def _order(results: Results, series: Series) -> tuple[int, bool]:
    titles = list(dict.fromkeys(one.title for one in results.series))
    return titles.index(series.title), not series.is_limit


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    left = {0, 2, 7}
    for row in rows:
        cells = [
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  " + "  ".join(cells).rstrip()


@dataclass(frozen=True, slots=True)
class Requirement:
    """A ratio that has to be reached.

    Attributes:
        text: What is compared.
        bound: The figure.
        is_minimum: Whether it is the least that is wanted, or the most.
        measured: Finds the values, one for each repeat; empty: not measured this time.
    """

    text: str
    bound: float
    is_minimum: bool
    measured: Callable[[Results], list[float]]


def ratios(results: Results, requirements: Sequence[Requirement]) -> Iterator[str]:
    """The requirements, line by line, for those that were measured."""
    rows = [("", "measured", "min .. max", "required", "")]
    for one in requirements:
        values = one.measured(results)
        if not values:
            rows.append((one.text, "not measured", "", _bound(one), ""))
            continue
        middle = median(values)
        is_reached = middle >= one.bound if one.is_minimum else middle <= one.bound
        spread = f"{_number(min(values))} .. {_number(max(values))}" if len(values) > 1 else ""
        rows.append(
            (one.text, _number(middle), spread, _bound(one), "" if is_reached else "missed")
        )
    yield ""
    yield "Required ratios (median of the ratios of neighbouring runs)"
    yield from _aligned([(row[0], row[1], row[2], row[3], row[4], "", "", "") for row in rows])


def _bound(requirement: Requirement) -> str:
    return f"{'>=' if requirement.is_minimum else '<='} {requirement.bound:g}"
