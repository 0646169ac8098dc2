"""The goals of speed as data, and the verdict on each."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from benchmarks.compare.results import Results


class Verdict(Enum):
    """Whether a bar holds."""

    HOLDS = "holds"
    MISSED = "MISSED"
    OPEN = "not measured"


class Bar(NamedTuple):
    """What a figure of this queue has to be, in a mode; with a peer, its ratio to the same figure of the peer."""

    figure: str
    mode: str
    bound: float
    peer: str | None = None
    # the bound is the least: else it is the most
    least: bool = False


class Judged(NamedTuple):
    """A bar and what was measured."""

    verdict: Verdict
    sentence: str


POSTGRES = ("postgres", "postgres+redis")
REDIS = ("postgres+redis", "redis")
MODES = ("postgres", "postgres+redis", "redis")

BARS = (
    Bar("single", "postgres", 1.0, "pgqueuer", least=True),
    Bar("single", "postgres+redis", 0.9, "pgqueuer", least=True),
    Bar("single", "redis", 0.8, "dramatiq", least=True),
    *(Bar("bulk", mode, 1.5, "pgqueuer", least=True) for mode in POSTGRES),
    Bar("bulk", "redis", 50_000.0, least=True),
    *(Bar("drain1", mode, 1.5, "pgqueuer", least=True) for mode in POSTGRES),
    *(Bar("drain2", mode, 1.3, "pgqueuer", least=True) for mode in POSTGRES),
    Bar("p50", "postgres", 2.2),
    *(Bar("p50", mode, 1.5) for mode in REDIS),
    *(Bar("p99", mode, 5.0) for mode in MODES),
    *(Bar("cpu_us", mode, 50.0) for mode in MODES),
    *(Bar("wal", mode, 900.0) for mode in POSTGRES),
    *(Bar("concurrency", mode, 2_000.0, least=True) for mode in MODES),
    *(Bar("keys", mode, 25_000.0, least=True) for mode in MODES),
    *(Bar("key", mode, 2_000.0, least=True) for mode in MODES),
    *(Bar("rate", mode, 20.0) for mode in MODES),
)


def judge(results: Results, titles: dict[str, str]) -> Iterator[Judged]:
    """Judge each bar whose mode was measured at all; `titles` are what figures are called."""
    for bar in BARS:
        if bar.mode not in results.figures:
            continue
        found = results.ratio(bar.figure, bar.mode, bar.peer) if bar.peer else results.spread(bar.mode, bar.figure)
        goal = f"{titles[bar.figure]}, {bar.mode} {'≥' if bar.least else '≤'} {bar.bound:,g}"
        goal += f" × {bar.peer}" if bar.peer else ""
        if found is None:
            yield Judged(Verdict.OPEN, f"{goal}: {Verdict.OPEN.value}")
            continue
        holds = found.median >= bar.bound if bar.least else found.median <= bar.bound
        verdict = Verdict.HOLDS if holds else Verdict.MISSED
        digits = 2 if bar.peer or bar.bound < 10 else 0
        low, high = f"{found.least:,.{digits}f}", f"{found.most:,.{digits}f}"
        yield Judged(verdict, f"{goal}: {found.median:,.{digits}f} ({low}–{high}), {verdict.value}")
