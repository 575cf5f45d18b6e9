"""What Windsprite has to reach, as ratios to what was measured in the same run."""

from collections.abc import Callable
from statistics import median

from bench.contenders import (
    IGGY,
    IGGY_BACKGROUND,
    IGGY_PAYLOADS,
    IGGY_STREAMS,
    LOOPBACK,
    NATS,
    NATS_ATOMIC,
    OURS,
    REDIS,
    SDK,
    SDK_STREAMS,
)
from bench.measurements import Results
from bench.report import Requirement
from bench.rows import round_trips
from bench.rows.replay import READ, REPLAY
from bench.rows.scaling import MANY, ONE
from bench.rows.sustained import SUSTAINED
from bench.rows.throughput import CLIENTS, HEADLINE, WRITE

_PRODUCE = f"produce {HEADLINE.title}"
_CONSUME = f"consume {HEADLINE.title}"
_ROUND_TRIP = f"round trip of a {round_trips.SEND} (median)"
_COST = "cost of a message, batches of {}, by partitions: processor time of the server"


def _ratio(row: str, title: str, above: str, *below: str) -> Callable[[Results], list[float]]:
    """Ratios of neighbouring runs; of several to compare with, the fastest counts."""

    def measured(results: Results) -> list[float]:
        upper = results.find(row, title, above)
        found = [results.find(row, title, name) for name in below]
        lower = max(
            (one for one in found if one is not None), key=lambda one: one.middle, default=None
        )
        if upper is None or lower is None:
            return []
        return [a / b for a, b in zip(upper.values, lower.values, strict=False)]

    return measured


def _best_recovery(results: Results) -> list[float]:
    found = [
        one
        for one in results.series
        if one.row == "recovery-10-gb" and "10,000 MB" in one.contender
    ]
    return [max(median(one.values) for one in found)] if found else []


def _against_peers(title: str) -> list[Requirement]:
    verb = title.partition(" ")[0]
    return [
        Requirement(
            f"{verb} 1,000 x 1 KiB, {ours.partition(', ')[2]}, against {name}",
            bound,
            is_minimum=True,
            measured=_ratio(HEADLINE.name, title, ours, *peers),
        )
        for name, bound, peers in (
            ("JetStream", 3, (NATS, NATS_ATOMIC)),
            ("Redis Streams", 1.2, (REDIS,)),
        )
        for ours in (OURS, SDK, IGGY)
    ]


def _against_official_client() -> list[Requirement]:
    """The SDK against the official client: calls against calls, producer against producer.

    Both are given payloads. That the official client wants an object made of each is part of what
    it costs a program; the table shows its calls without that, too.
    """
    return [
        Requirement(
            f"{verb} 1,000 x {row.workload.size:,} B, {what}, against the official client",
            1,
            is_minimum=True,
            measured=_ratio(row.name, f"{verb} {row.title}", ours, *theirs),
        )
        for row in CLIENTS
        for verb in ("produce", "consume")
        for what, ours, theirs in (
            ("SDK calls", SDK, (IGGY_PAYLOADS,)),
            ("SDK producer and consumer", SDK_STREAMS, (IGGY_STREAMS, IGGY_BACKGROUND)),
        )
    ]


REQUIREMENTS = [
    Requirement(
        "produce 1,000 x 1 KiB against sequential write(), sustained, until on the disk",
        0.8,
        is_minimum=True,
        measured=_ratio(SUSTAINED.name, SUSTAINED.title, OURS, WRITE),
    ),
    Requirement(
        "produce 1,000 x 1 KiB against sequential write(), a burst into the page cache",
        0.8,
        is_minimum=True,
        measured=_ratio(HEADLINE.name, _PRODUCE, OURS, WRITE),
    ),
    Requirement(
        "consume 1,000 x 1 KiB from memory against a raw loopback stream",
        0.5,
        is_minimum=True,
        measured=_ratio(HEADLINE.name, _CONSUME, OURS, LOOPBACK),
    ),
    Requirement(
        "cold replay against sequential read + raw loopback",
        0.4,
        is_minimum=True,
        measured=_ratio(REPLAY.name, REPLAY.title, OURS, READ),
    ),
    *_against_peers(_PRODUCE),
    *_against_peers(_CONSUME),
    Requirement(
        "one-message round trip (send) p50 against a bare uvloop echo",
        2.5,
        is_minimum=False,
        measured=_ratio("round-trip", _ROUND_TRIP, OURS, LOOPBACK),
    ),
    Requirement(
        "recovery of 10 GB in 100 partitions after kill -9, in seconds",
        2,
        is_minimum=False,
        measured=_best_recovery,
    ),
    *(
        Requirement(
            f"cost of a message with 1,000 partitions against 1, batches of {batch}",
            1.3,
            is_minimum=False,
            measured=_ratio("scaling", _COST.format(batch), MANY, ONE),
        )
        for batch in (1, 100)
    ),
    *_against_official_client(),
]
