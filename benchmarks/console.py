"""How fast the console is in a real terminal, over PostgreSQL and Redis with many dead jobs.

    .venv/bin/python benchmarks/console.py                    # --jobs 50000 1000000 --rounds 3 --json

A pseudo-terminal at both sizes; what is measured is the time from the start of the process, or from a key, until the
text that answers it has come out. Exit code 1: a bar was missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

from ground import missed, seed, stretch, verdict
from terminal import CURSOR, SIZES, opened

from jobconsole.embedded.servers import EmbeddedServers

EVER = {"first paint": 0.5, "breakdown": 0.5, "page key": 0.05, "next page": 0.3}
BARS = {
    50_000: EVER | {"home complete": 1.0, "filter": 0.5},
    1_000_000: EVER | {"home complete": 2.0, "filter": 2.0},
}


def once(size: tuple[int, int], environment: dict[str, str], jobs: int) -> dict[str, float]:
    """Measure one console from its start on."""
    found: dict[str, float] = {}
    with opened(size, environment) as terminal:
        found["first paint"] = terminal.until(r"Dead letters")
        found["home complete"] = terminal.until(rf"40 signatures .{{1,2}} {jobs:,} jobs")
        terminal.quiet()
        terminal.press("/")
        terminal.quiet()
        terminal.press("type:type3")
        found["filter"] = terminal.until(rf"8 signatures .{{1,2}} {jobs // 5:,} jobs")
        terminal.press("\x1b")
        terminal.until(r"40 signatures")
        terminal.quiet()
        terminal.press("f")
        found["breakdown"] = terminal.until(r"Shares are of")
        terminal.press("\x1b")
        terminal.until(r"40 signatures")
        terminal.press("3")
        terminal.until(r"\b200\+ jobs")
        terminal.quiet()
        # the cursor comes to the other end of the page: the rows themselves look alike, and would not be sent again
        terminal.press("\x1b[6~")
        found["page key"] = terminal.until(CURSOR)
        terminal.quiet()
        # the end of what is loaded: the page after it is read
        terminal.press("G")
        found["next page"] = terminal.until(r"\b400\+ jobs")
    return found


def measure(servers: EmbeddedServers, jobs: int, rounds: int) -> list[dict[str, object]]:
    """Seed a store and measure at each size; medians of the rounds."""
    environment = seed(servers, jobs)
    rows: list[dict[str, object]] = []
    for size in SIZES:
        runs = [once(size, environment, jobs) for _ in range(rounds)]
        medians = {name: round(statistics.median(run[name] for run in runs), 3) for name in runs[0]}
        rows.append({"jobs": jobs, "size": f"{size[0]}x{size[1]}", **medians})
    return rows


def imports() -> float:
    """Return the seconds that the process needs before it can draw: Python, Textual and this program."""
    took = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import jobconsole.tui.app"], check=True)
        took.append(time.perf_counter() - began)
    return min(took)


def judged(row: dict[str, object], slower: float) -> list[str]:
    """Return a sentence for each bar that a row misses on a machine that is so many times slower for others' work."""
    bars = BARS.get(int(str(row["jobs"])), {})
    return missed(f"{row['jobs']} jobs at {row['size']}", row, {name: bar * slower for name, bar in bars.items()})


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, nargs="+", default=[50_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    load, slower = round(imports(), 3), stretch()
    with EmbeddedServers.start() as servers:
        rows = [row for jobs in options.jobs for row in measure(servers, jobs, options.rounds)]
    slower = max(slower, stretch())
    short = [sentence for row in rows for sentence in judged(row, slower)]
    if options.json:
        print(json.dumps({"imports": load, "rows": rows}))
        return verdict(short)
    print(f"imports: {load} s of what follows until the first paint")
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))
    for jobs, bars in BARS.items():
        print(f"bars with {jobs:,}: " + ", ".join(f"{name} {bar} s" for name, bar in bars.items()))
    return verdict(short)


if __name__ == "__main__":
    raise SystemExit(main())
