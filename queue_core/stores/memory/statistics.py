"""Exact totals, counted in the same step as the change they count, and releases in their order."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from queue_core.model.report import HISTOGRAM_BOUNDS, Release, SeriesPoint, Tally
from queue_core.model.triage.release import MAX_RELEASES, place_among
from queue_core.model.triage.signatures import Resolved, SignatureDeaths
from queue_core.stores.memory.records import JobRow, Lease, moment

_BOUNDS_US = [round(bound * 1_000_000) for bound in HISTOGRAM_BOUNDS]
_SERIES = {"enqueued", "completed", "retried", "dead"}


def bucket(microseconds: int) -> int:
    """Return the index of the first bound that is not below the time."""
    return bisect_left(_BOUNDS_US, microseconds)


@dataclass(slots=True)
class _Sum:
    count: int = 0
    wait_us: int = 0
    run_us: int = 0
    wait_buckets: Counter[int] = field(default_factory=Counter)
    run_buckets: Counter[int] = field(default_factory=Counter)


class MemoryTallies:
    """Counts by queue, type and outcome, by minute, and deaths by signature."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str, str], _Sum] = {}
        # (minute, queue, outcome) and (minute, queue, signature); a minute is a number of minutes since the epoch
        self._minutes: Counter[tuple[int, str, str]] = Counter()
        self._deaths: Counter[tuple[int, str, str]] = Counter()
        # (signature, release) -> deaths, the first, the last, the latest begin of an attempt that died
        self.died_on: dict[tuple[str, int], tuple[int, float, float, float]] = {}
        # signature -> when it was last resolved
        self.resolved: dict[str, Resolved] = {}
        # (signature, when it was resolved, in us) -> release -> the first death since that brings it back
        self.back_at: dict[tuple[str, int], dict[int, float]] = {}
        # (type, release) -> completed, dead, when the last one completed
        self.runs: dict[tuple[str, int], tuple[int, int, float]] = {}

    def note(
        self, row: JobRow, outcome: str, now: float, *, wait_us: int | None = None, run_us: int | None = None
    ) -> None:
        """Count one outcome of a job, with its times when they were measured."""
        found = self._sums.setdefault((row.queue, row.given.type, outcome), _Sum())
        found.count += 1
        if wait_us is not None:
            found.wait_us += wait_us
            found.wait_buckets[bucket(wait_us)] += 1
        if run_us is not None:
            found.run_us += run_us
            found.run_buckets[bucket(run_us)] += 1
        if outcome in _SERIES:
            self._minutes[int(now // 60), row.queue, outcome] += 1

    def death(self, row: JobRow, signature: str, now: float, lease: Lease | None = None) -> None:
        """Count a death under its signature, and on the release of its lease."""
        self._deaths[int(now // 60), row.queue, signature] += 1
        release, started = (lease.release_number, lease.started_at) if lease else (0, 0.0)
        died, first, _, last_started = self.died_on.get((signature, release), (0, now, now, 0.0))
        self.died_on[signature, release] = (died + 1, first, now, max(last_started, started))
        resolved = self.resolved.get(signature)
        if resolved is not None and resolved.counts(release, now, started):
            self.back_at.setdefault((signature, resolved.us), {}).setdefault(release, now)

    def deaths(self, signatures: Collection[str]) -> list[SignatureDeaths]:
        """Return the deaths of some signatures by release."""
        found: list[SignatureDeaths] = []
        for (signature, release), died in sorted(self.died_on.items()):
            if signature in signatures:
                resolved = self.resolved.get(signature)
                back = self.back_at.get((signature, resolved.us), {}) if resolved else {}
                found.append(SignatureDeaths(signature, release, *died, back.get(release, 0.0)))
        return found

    def forget(self, signature: str) -> None:
        """Drop what is known of the deaths of a signature by release."""
        self.resolved.pop(signature, None)
        for kept in (self.died_on, self.back_at):
            for key in [key for key in kept if key[0] == signature]:
                del kept[key]

    def count_run(self, type_: str, lease: Lease, outcome: str, now: float) -> None:
        """Count the end of a job on the release of its lease."""
        if outcome in ("completed", "dead"):
            completed, dead, last = self.runs.get((type_, lease.release_number), (0, 0, 0.0))
            ended = (completed + 1, dead, now) if outcome == "completed" else (completed, dead + 1, last)
            self.runs[type_, lease.release_number] = ended

    def forget_before(self, time: float) -> None:
        """Drop the minutes before a time; the totals stay."""
        first = int(time // 60)
        for counter in (self._minutes, self._deaths):
            for key in [key for key in counter if key[0] < first]:
                del counter[key]

    def total(self, *outcomes: str) -> int:
        """Return how often these outcomes were counted, over all queues and types."""
        return sum(found.count for (_, _, outcome), found in self._sums.items() if outcome in outcomes)

    def tallies(self) -> list[Tally]:
        """Return the totals as records."""
        return [
            Tally(*key, one.count, one.wait_us, one.run_us, dict(one.wait_buckets), dict(one.run_buckets))
            for key, one in self._sums.items()
        ]

    def series(self, now: float, minutes: int, queue: str | None) -> list[SeriesPoint]:
        """Return what happened in each of the last minutes, the one that runs now included."""
        last = int(now // 60)
        wanted: dict[int, Counter[str]] = {minute: Counter() for minute in range(last - minutes + 1, last + 1)}
        for (minute, name, outcome), count in self._minutes.items():
            if minute in wanted and queue in (None, name):
                wanted[minute][outcome] += count
        return [
            SeriesPoint(moment(minute * 60), of["enqueued"], of["completed"], of["retried"], of["dead"])
            for minute, of in wanted.items()
        ]

    def trend(self, signature: str, queues: set[str], since: float, seconds: float, slices: int) -> tuple[int, ...]:
        """Return the deaths of a signature in equal slices of the `seconds` after `since`, oldest first."""
        deaths = (
            (minute, count)
            for (minute, queue, of), count in self._deaths.items()
            if of == signature and queue in queues
        )
        return sliced(deaths, since, seconds, slices)


def sliced(deaths: Iterable[tuple[int, int]], since: float, seconds: float, slices: int) -> tuple[int, ...]:
    """Return the deaths of minutes in equal slices of the `seconds` after `since`, oldest first."""
    found = [0] * slices
    for minute, count in deaths:
        place = int((minute * 60 - since) * slices / seconds)
        if minute * 60 + 60 > since:
            found[min(max(place, 0), slices - 1)] += count
    return tuple(found)


class MemoryReleases:
    """The releases that workers have announced, in their order. Callers hold the state's lock."""

    def __init__(self) -> None:
        # in their order
        self._known: list[Release] = []
        self._last = 0

    def register(self, name: str, now: datetime, in_use: Collection[int]) -> int:
        """Write a release at its place in the order of all unless it is known; return its number.

        `in_use`: the numbers of the releases that workers have.
        """
        for release in self._known:
            if release.name == name:
                return release.number
        self._forget(in_use)
        self._last += 1
        behind = place_among(name, [release.name for release in self._known])
        self._known.insert(behind, Release(name, 0, now, self._last))
        self._known = [replace(release, place=place) for place, release in enumerate(self._known, 1)]
        return self._last

    def _forget(self, in_use: Collection[int]) -> None:
        """Make room for another one by forgetting the first ones that no worker has."""
        surplus = len(self._known) - MAX_RELEASES + 1
        for release in [one for one in self._known if one.number not in in_use][: max(0, surplus)]:
            self._known.remove(release)

    def name_of(self, number: int) -> str | None:
        """Return the name of a release by its number; None: unknown."""
        return next((release.name for release in self._known if release.number == number), None)

    def in_order(self) -> list[Release]:
        """Return the releases in their order, the oldest first."""
        return list(self._known)
