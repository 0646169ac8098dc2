"""What the console costs, and how quick it stays, while thousands of events a second come in.

    .venv/bin/python benchmarks/flood.py                      # --rate 5000 --seconds 10 --jobs 50000 --json

A pseudo-terminal at both sizes over PostgreSQL and Redis; a process (`flooding.py`) publishes what busy workers would.
On each screen: the console's share of one core, the bytes that it sends to the terminal, the time from a key until the
line that it changes has come out, and from an event until its text has. Then a million events, and the memory before
and after. Exit code 1: a bar was missed.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from ground import missed, seed, stretch, verdict
from terminal import CURSOR, SIZES, Terminal, drawn_at, opened

from jobconsole.embedded.servers import EmbeddedServers

BARS = {"core %": 35.0, "KB/s": 10.0, "key p99 ms": 100.0, "stale max ms": 500.0, "grown %": 10.0}
ON_THE_CLOCK = ("key p99 ms", "stale max ms")
"""Figures that rise when other programs have the processors."""
SETTLING_SECONDS = 6.0
"""Until the rates, which are means of five seconds, are those of the flood."""
SETTLED, LAST = 200_000, 1_000_000
"""Events after which the memory is read."""


TITLES = ("screen", "size", "events/s", "core %", "KB/s", "key p50 ms", "key p99 ms", "stale p50 ms", "stale max ms")
Row = dict[str, object]


class Screen(NamedTuple):
    """One view, and two keys that move its cursor down and up again."""

    name: str
    key: str
    down: str = "j"
    up: str = "k"
    # what narrows it so that a probe can be seen; None: nothing has to
    narrow: str | None = None
    # whether it shows what an event holds
    shows_text: bool = True


class Flood:
    """The process that publishes."""

    def __init__(self, servers: EmbeddedServers) -> None:
        script = Path(__file__).with_name("flooding.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script), servers.postgres_url, servers.redis_url],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.published = 0
        self.counted = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, line: str) -> None:
        """Command it."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.published = int(line)
            self.counted.set()


@contextmanager
def flooded(servers: EmbeddedServers) -> Iterator[Flood]:
    """A flood that begins at no events a second, once its jobs run."""
    flood = Flood(servers)
    try:
        if not flood.counted.wait(60):
            raise TimeoutError("the flood did not begin")
        yield flood
    finally:
        flood.close()


def screens() -> list[Screen]:
    """Return the views that are measured, with their keys."""
    from jobconsole.tui.base.bindings import BY_ID

    key = {name: BY_ID[f"view_{name}"].key for name in ("triage", "live", "jobs", "events")}
    return [
        Screen("Triage", key["triage"]),
        Screen("Live", key["live"]),
        Screen("Jobs", key["jobs"], shows_text=False),
        Screen("Events", key["events"], up="g", narrow="probe"),
    ]


def places_of(terminal: Terminal, screen: Screen) -> dict[str, tuple[int, int]]:
    """Return where the cursor is drawn after each key; found while nothing else happens."""
    drawn: dict[str, set[tuple[int, int]]] = {}
    for key in (screen.down, screen.up, screen.down, screen.up):
        terminal.press(key)
        drawn[key] = set(drawn_at(terminal.listen(1.0), CURSOR))
    down, up = drawn[screen.down] - drawn[screen.up], drawn[screen.up] - drawn[screen.down]
    if not down or not up:
        raise AssertionError(f"{screen.name}: the cursor was not seen to move: {drawn}")
    return {screen.down: min(down), screen.up: min(up)}


def share(terminal: Terminal, flood: Flood, seconds: float) -> dict[str, float]:
    """Measure the processor time and the bytes of some seconds without a key."""
    began, cpu, sent, published = time.perf_counter(), terminal.cpu_seconds(), terminal.total, flood.published
    terminal.listen(seconds)
    passed = time.perf_counter() - began
    return {
        "events/s": round((flood.published - published) / passed),
        "core %": round(100 * (terminal.cpu_seconds() - cpu) / passed, 1),
        "KB/s": round((terminal.total - sent) / passed / 1000, 2),
    }


def keys(terminal: Terminal, screen: Screen, places: dict[str, tuple[int, int]], count: int) -> dict[str, float]:
    """Measure keys, at moments that have nothing to do with the console's own."""
    took: list[float] = []
    for number in range(count):
        terminal.listen(random.uniform(0.05, 0.2))
        key = screen.up if number % 2 else screen.down
        terminal.press(key)
        took.append(1000 * terminal.until_cursor(places[key]))
    return {"key p50 ms": round(statistics.median(took), 1), "key p99 ms": round(percentile(took, 99), 1)}


def staleness(terminal: Terminal, flood: Flood, screen: Screen, count: int) -> dict[str, float]:
    """Measure from the moment in which an event is published until its text has come out."""
    if not screen.shows_text:
        return {}
    if screen.narrow:
        terminal.press("/")
        terminal.listen(0.5)
        terminal.press(f"{screen.narrow}\r")
    took: list[float] = []
    for number in range(count):
        terminal.listen(random.uniform(0.3, 0.9))
        word = f"probe-{number:03}"
        terminal.press("")
        flood.send(f"probe {word}")
        took.append(1000 * terminal.until(word))
    if screen.narrow:
        terminal.press("\x1b")
    return {"stale p50 ms": round(statistics.median(took), 1), "stale max ms": round(max(took), 1)}


def percentile(values: list[float], rank: int) -> float:
    """Return the value that so many percent of the others do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * rank // 100)]


def measure(
    size: tuple[int, int], environment: dict[str, str], flood: Flood, options: argparse.Namespace
) -> Iterator[Row]:
    """Measure every screen at one size."""
    with opened(size, environment) as terminal:
        terminal.until(r"40 signatures")
        for screen in screens():
            flood.send("rate 100")
            terminal.listen(1.0)
            terminal.press(screen.key)
            terminal.listen(2.0)
            # sorts what runs: the job that is probed comes first
            terminal.press("r")
            terminal.listen(2.0)
            places = places_of(terminal, screen)
            flood.send(f"rate {options.rate}")
            terminal.listen(SETTLING_SECONDS)
            row: Row = {"screen": screen.name, "size": f"{size[0]}x{size[1]}"}
            row |= share(terminal, flood, options.seconds)
            row |= keys(terminal, screen, places, options.keys)
            row |= staleness(terminal, flood, screen, options.probes)
            yield row


def remember(environment: dict[str, str], flood: Flood, rate: float) -> Row:
    """Measure the memory of a console that receives a million events."""
    with opened(SIZES[1], environment) as terminal:
        terminal.until(r"40 signatures")
        terminal.press(screens()[-1].key)
        terminal.until(r"events? since")
        before = flood.published
        flood.send(f"rate {rate}")
        held: list[int] = []
        for target in (SETTLED, LAST):
            while flood.published - before < target:
                terminal.listen(0.5)
            held.append(terminal.memory())
        flood.send("rate 0")
    grown = 100 * (held[1] - held[0]) / held[0]
    row = {f"MB after {events:,}": round(size / 1e6, 1) for events, size in zip((SETTLED, LAST), held, strict=True)}
    return {**row, "grown %": round(grown, 1)}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=5_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--keys", type=int, default=100)
    parser.add_argument("--probes", type=int, default=15)
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--fast", type=float, default=10_000, help="events a second while the memory is watched")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    slower = stretch()
    with EmbeddedServers.start() as servers:
        environment = seed(servers, options.jobs)
        with flooded(servers) as flood:
            rows = measured(measure(size, environment, flood, options) for size in SIZES)
            memory = {} if options.no_memory else remember(environment, flood, options.fast)
    slower = max(slower, stretch())
    bars = {name: bar * (slower if name in ON_THE_CLOCK else 1.0) for name, bar in BARS.items()}
    short = [one for row in rows for one in missed(f"{row['screen']} at {row['size']}", row, bars)]
    short += missed("a million events", memory, bars)
    if options.json:
        print(json.dumps({"rows": rows, "memory": memory, "stretch": slower, "missed": short}))
    else:
        print("".join(f"{name}: {value}\n" for name, value in memory.items()), end="")
        print("bars: " + ", ".join(f"{name} {bar:.0f}" for name, bar in bars.items()))
    return verdict(short)


def measured(rounds: Iterable[Iterable[Row]]) -> list[Row]:
    """Return all rows, each written beside the result when it is there: together they take some minutes."""
    rows: list[Row] = []
    sys.stderr.write("  ".join(f"{title:>12}" for title in TITLES) + "\n")
    for row in chain.from_iterable(rounds):
        sys.stderr.write("  ".join(f"{row.get(title, '-'):>12}" for title in TITLES) + "\n")
        rows.append(row)
    return rows


if __name__ == "__main__":
    raise SystemExit(main())
