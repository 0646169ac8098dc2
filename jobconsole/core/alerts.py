"""Thresholds: notify once when a metric crosses its limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jobconsole.core.latency import word
from jobconsole.core.snapshot import Snapshot
from jobconsole.format.humanize import elapsed, exact, plural, seconds_between


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The limits from which a notification is sent, in the unit of each metric; None: never."""

    # jobs in the DLQ
    dead: int | None = None
    # deaths within the time window of the console, at most an hour
    deaths: int | None = None
    # jobs that are ready
    queued: int | None = None
    # seconds that the oldest ready job waits
    oldest: float | None = None
    # workers whose heartbeats stopped
    lost_workers: int | None = None
    # ring the bell of the terminal, send it a notification (OSC 9)
    bell: bool = True
    notify: bool = True


@dataclass(frozen=True, slots=True)
class _Measure:
    name: str
    value: Callable[[Snapshot], float]
    # of its value, and over which time deaths are counted
    sentence: Callable[[float, str], str]


def _oldest(snapshot: Snapshot) -> float:
    return seconds_between(snapshot.totals.oldest, snapshot.now) or 0.0


def _lost(number: int) -> str:
    return f"{plural(number, 'worker')} lost"


_MEASURES = (
    _Measure("dead", lambda one: one.totals.dead, lambda value, _: plural(int(value), "dead job")),
    _Measure("deaths", lambda one: one.deaths, lambda value, span: f"{plural(int(value), 'job')} died in {span}"),
    _Measure("queued", lambda one: one.totals.queued, lambda value, _: f"{plural(int(value), 'job')} ready"),
    _Measure("oldest", _oldest, lambda value, _: f"the oldest ready job has waited {elapsed(value)}"),
    _Measure("lost_workers", lambda one: one.totals.lost_workers, lambda value, _: _lost(int(value))),
)
REARM = 0.9
"""A metric has to fall below this part of its threshold before it alerts again: one that fluctuates alerts once."""


class AlertWatcher:
    """Compares snapshots with the thresholds and remembers which ones have alerted."""

    def __init__(self, thresholds: Thresholds) -> None:
        self.thresholds = thresholds
        self._alerted: set[str] = set()

    def update(self, snapshot: Snapshot) -> list[str]:
        """Return a sentence for each threshold that was crossed since the metric was last below it."""
        sentences: list[str] = []
        for measure in _MEASURES:
            limit = getattr(self.thresholds, measure.name)
            if limit is None:
                continue
            value = measure.value(snapshot)
            if value >= limit and measure.name not in self._alerted:
                self._alerted.add(measure.name)
                sentence = measure.sentence(value, word(snapshot.span.total_seconds()))
                sentences.append(f"{sentence} (threshold {_limit(measure.name, limit)})")
            elif value < limit * REARM:
                self._alerted.discard(measure.name)
        return sentences


def _limit(name: str, limit: float) -> str:
    return elapsed(limit) if name == "oldest" else exact(int(limit))
