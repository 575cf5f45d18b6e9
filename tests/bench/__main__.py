"""`make bench`: real servers, load from processes of their own, and a table at the end.

    make bench                              the usual rows, in less than ten minutes
    make bench ARGS='--quick'               the same rows, once each, with less data
    make bench ARGS='--only headline replay'
    make bench ARGS='--list'                names all rows, and those that run only if asked for
    make bench PROFILE=send-1000            where the server's time goes; see `bench.profiling`

Results go to the folder `bench-results`, as JSON and as text.
"""

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench import facts, profiling, report
from bench.measurements import Results
from bench.requirements import REQUIREMENTS
from bench.rows import (
    Row,
    Run,
    latency,
    memory,
    recovery,
    replay,
    round_trips,
    scaling,
    sustained,
    throughput,
)

ROWS: dict[str, Row] = {
    row.name: row
    for row in (
        throughput.HEADLINE,
        round_trips.RoundTrips(),
        *replay.ROWS,
        *scaling.ROWS,
        *throughput.ROWS[1:],
        *sustained.ROWS,
        round_trips.ClientRoundTrips(),
        *latency.ROWS,
        *recovery.ROWS,
        *memory.ROWS,
    )
}


def main() -> None:
    options = _options()
    if options.list:
        for row in ROWS.values():
            print(f"{row.name:22} {'' if row.in_default else '(only if asked) '}{row.title}")
        return
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="windsprite-bench-") as folder:
        if options.profile:
            for line in profiling.profile(options.profile, Path(folder)):
                print(line)
            return
        _measure(options, Path(folder))


def _measure(options: argparse.Namespace, folder: Path) -> None:
    began = datetime.now(UTC)
    gathered = facts.gather(folder)
    results = Results()
    run = Run(folder, results, options.quick, not options.no_peers, options.repeats)
    wanted = options.only or [row.name for row in ROWS.values() if row.in_default]
    failed: list[str] = []
    for number, name in enumerate(wanted, start=1):
        started = time.monotonic()
        print(f"[{number}/{len(wanted)}] {name}: {ROWS[name].title} ...", flush=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=f"{name}-") as data:
            try:
                ROWS[name].measure(run, Path(data))
            except (RuntimeError, AssertionError) as error:  # the other rows can still be measured
                failed.append(name)
                print(error, file=sys.stderr)
                last_line = str(error).rstrip().rpartition("\n")[2]
                results.skip(f"{name} failed: {last_line}")
        print(f"    {time.monotonic() - started:.0f} s", flush=True)
    lines = [*facts.told(gathered), *report.table(results)]
    lines += report.ratios(results, REQUIREMENTS)
    lines += ["", *(f"Skipped: {reason}" for reason in results.skipped)]
    text = "\n".join(lines)
    print(f"\n{text}")
    stem = f"{began:%Y%m%d-%H%M%S}"
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / f"{stem}.txt").write_text(text + "\n", encoding="utf-8")
    everything = {
        "began": began.isoformat(),
        "seconds": (datetime.now(UTC) - began).total_seconds(),
        "facts": gathered,
        "skipped": results.skipped,
        "series": [asdict(series) for series in results.series],
        "requirements": [
            {"text": one.text, "bound": one.bound, "values": one.measured(results)}
            for one in REQUIREMENTS
        ],
    }
    path = options.results / f"{stem}.json"
    path.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")
    print(f"Written to {path}")
    if failed:
        sys.exit(f"These rows failed: {', '.join(failed)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure real servers on this machine."
    )
    parser.add_argument("--only", nargs="+", choices=ROWS, metavar="ROW", help="these rows")
    parser.add_argument("--quick", action="store_true", help="once each, with less data")
    parser.add_argument("--repeats", type=int, default=0, help="instead of each row's own number")
    parser.add_argument("--no-peers", action="store_true", help="without JetStream and Redis")
    parser.add_argument("--folder", type=Path, help="where data goes; by default a temporary one")
    parser.add_argument("--results", type=Path, default=Path("bench-results"))
    parser.add_argument("--list", action="store_true", help="name all rows and do nothing")
    parser.add_argument("--profile", choices=profiling.CASES, help="where the server's time goes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
