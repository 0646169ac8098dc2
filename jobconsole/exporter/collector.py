"""Translates one reading into metric families, and does nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from jobconsole.exporter.reading import Reading
from jobconsole.exporter.table import EXECUTIONS, STATUSES, TABLE, WORKER_STATES
from queue_core.model.report import HISTOGRAM_BOUNDS, Overview, QueueInfo, Tally, WorkerInfo
from queue_core.model.rules import BANDS, band
from queue_core.model.text import safe
from queue_core.model.triage.signatures import WORDS

MAX_TYPES = 100
"""Labels of types; each costs some 25 time series, and who enqueues chooses the names."""
MAX_RELEASES = 100
"""Labels of releases: those of the most workers."""
LONGEST_LABEL = 120
"""Characters of a label."""
OTHER = "other"


class TypeNames:
    """Chooses labels and keeps to them: a type that moved to `other` later would make two counters wrong."""

    def __init__(self, allowed: Collection[str] = (), most: int = MAX_TYPES) -> None:
        self._allowed = frozenset(allowed)
        self._most = most
        self._chosen: dict[str, str] = {}

    def label(self, tallies: Iterable[Tally], workers: Iterable[WorkerInfo]) -> Mapping[str, str]:
        """Return the label of every type in the tallies or announced by a worker.

        Without an allow-list, types that workers announce come first, then those with the most jobs.
        """
        counts: Counter[str] = Counter()
        for tally in tallies:
            counts[tally.type] += tally.count
        announced = {name for worker in workers for name in worker.types or ()}
        names = sorted(counts.keys() | announced, key=lambda name: (name not in announced, -counts[name], name))
        for name in names:
            if name not in self._chosen and self._may(name):
                self._chosen[name] = safe(name, LONGEST_LABEL)
        return {name: self._chosen.get(name, OTHER) for name in names}

    def _may(self, name: str) -> bool:
        return name in self._allowed if self._allowed else len(self._chosen) < self._most


# by label values
Values = Mapping[Any, float]

_NOT_SETTLED = frozenset({"timed_out", "crashed"})
"""Executions that are counted without a run time; the others count where one was measured, so that a cancelled job
that never ran, or one buried because its worker was lost, is no attempt of its own."""


class JobsCollector(Collector):
    """Gathers once per scrape, by calling `read`."""

    def __init__(self, read: Callable[[], Reading], types: TypeNames | None = None) -> None:
        self._read = read
        self._types = types or TypeNames()

    def collect(self) -> Iterator[Metric]:
        """Yield every family of the table; those that could not be read are left out."""
        reading = self._read()
        yield from _about_reading(reading)
        if reading.overview is None:
            return
        queues = _queues(reading.overview, reading.tallies)
        yield from _about_now(reading.overview, queues)
        if reading.signatures is not None:
            yield _values("jobs_signatures", {(word,): reading.signatures.get(word, 0) for word in WORDS})
        yield from _by_queue(queues, reading.tallies)
        yield from _by_type(self._types.label(reading.tallies, reading.overview.workers), queues, reading.tallies)


def _about_reading(reading: Reading) -> Iterator[Metric]:
    backends = reading.backends
    yield _values("jobconsole_build_info", {(version("jobconsole"),): 1})
    yield _values("jobconsole_up", {(name,): int(backend.up) for name, backend in backends.items()})
    durations = {(name,): backend.seconds for name, backend in backends.items()}
    yield _values("jobconsole_scrape_duration_seconds", durations)
    yield _values("jobconsole_scrape_errors_total", {(name,): backend.errors for name, backend in backends.items()})
    yield _values("jobconsole_signatures_up", {(): int(reading.signatures is not None)})


def _about_now(overview: Overview, queues: Sequence[str]) -> Iterator[Metric]:
    def gauge(name: str, value: Callable[[QueueInfo], float]) -> Metric:
        return _values(name, _zeros(queues) | {(safe(one.name),): value(one) for one in overview.queues})

    yield gauge("queue_size", lambda queue: queue.pending)
    yield gauge("queue_processing", lambda queue: queue.started)
    yield gauge("queue_claimed_ahead", lambda queue: queue.ahead)
    yield gauge("jobs_scheduled", lambda queue: queue.scheduled + queue.retrying)
    yield gauge("job_dlq_size", lambda queue: queue.dead)
    yield gauge("job_queue_paused", lambda queue: int(queue.paused))
    yield gauge("job_queue_closed", lambda queue: int(queue.closed))
    depth: Counter[tuple[str, ...]] = Counter(_zeros(queues, BANDS))
    for queue in overview.queues:
        for priority, number in queue.depth.items():
            depth[safe(queue.name), band(priority)] += number
    yield _values("job_queue_depth", depth)
    oldest = {(safe(one.name),): one.oldest.timestamp() for one in overview.queues if one.oldest is not None}
    yield _values("job_queue_oldest_enqueued_timestamp_seconds", oldest)
    workers: Counter[tuple[str, ...]] = Counter((worker.state,) for worker in overview.workers)
    yield _values("job_workers", {(state,): workers[state,] for state in WORKER_STATES})
    releases = Counter((safe(worker.release or "", LONGEST_LABEL),) for worker in overview.workers if not worker.lost)
    yield _values("jobs_worker_info", dict(releases.most_common(MAX_RELEASES)))
    yield _values("job_handlers_stuck", {(): sum(worker.stuck for worker in overview.workers if not worker.lost)})


def _by_queue(queues: Sequence[str], tallies: Sequence[Tally]) -> Iterator[Metric]:
    def counter(name: str, outcome: str) -> Metric:
        return _values(name, _counted(_zeros(queues), tallies, lambda one: (safe(one.queue),), {outcome}))

    yield counter("queue_processed_total", "completed")
    yield counter("queue_failed_total", "dead")
    yield counter("job_leases_expired_total", "crashed")
    executions: Counter[tuple[str, ...]] = Counter(_zeros(queues, EXECUTIONS))
    for one in tallies:
        if one.outcome in EXECUTIONS:
            number = one.count if one.outcome in _NOT_SETTLED else sum(one.run_buckets.values())
            executions[safe(one.queue), one.outcome] += number
    yield _values("queue_executions_total", executions)
    yield _histograms("queue_wait_time_seconds", queues, tallies, lambda one: safe(one.queue), _waits)
    yield _histograms("queue_process_time_seconds", queues, tallies, lambda one: safe(one.queue), _runs)


def _by_type(labels: Mapping[str, str], queues: Sequence[str], tallies: Sequence[Tally]) -> Iterator[Metric]:
    types = sorted(set(labels.values()))
    processed = _counted(
        _zeros(types, STATUSES), tallies, lambda one: (labels[one.type], one.outcome), frozenset(STATUSES)
    )
    yield _values("jobs_processed_total", processed)
    yield _histograms("job_duration_seconds", types, tallies, lambda one: labels[one.type], _runs)
    enqueued = _counted({}, tallies, lambda one: (safe(one.queue), labels[one.type]), {"enqueued"})
    yield _values("jobs_enqueued_total", enqueued)


def _queues(overview: Overview, tallies: Iterable[Tally]) -> list[str]:
    return sorted({safe(queue.name) for queue in overview.queues} | {safe(one.queue) for one in tallies})


def _zeros(first: Iterable[str], second: Sequence[str] | None = None) -> dict[tuple[str, ...], float]:
    if second is None:
        return {(one,): 0 for one in first}
    return {(one, other): 0 for one in first for other in second}


def _counted(
    zeros: Mapping[tuple[str, ...], float],
    tallies: Iterable[Tally],
    labels: Callable[[Tally], tuple[str, ...]],
    outcomes: set[str] | frozenset[str],
) -> Values:
    counts: Counter[tuple[str, ...]] = Counter(zeros)
    for one in tallies:
        if one.outcome in outcomes:
            counts[labels(one)] += one.count
    return counts


def _values(name: str, values: Values) -> Metric:
    spec = TABLE[name]
    kind = CounterMetricFamily if spec.kind == "counter" else GaugeMetricFamily
    family = kind(name, spec.help, labels=spec.labels)
    for labels, value in sorted(values.items()):
        family.add_metric(labels, value)
    return family


def _waits(tally: Tally) -> tuple[Mapping[int, int], int]:
    return tally.wait_buckets, tally.wait_us


def _runs(tally: Tally) -> tuple[Mapping[int, int], int]:
    return tally.run_buckets, tally.run_us


def _histograms(
    name: str,
    labels: Iterable[str],
    tallies: Iterable[Tally],
    label: Callable[[Tally], str],
    times: Callable[[Tally], tuple[Mapping[int, int], int]],
) -> Metric:
    buckets: dict[str, Counter[int]] = {one: Counter() for one in labels}
    microseconds: Counter[str] = Counter()
    for tally in tallies:
        found, total = times(tally)
        buckets.setdefault(label(tally), Counter()).update(found)
        microseconds[label(tally)] += total
    family = HistogramMetricFamily(name, TABLE[name].help, labels=TABLE[name].labels)
    for one, counts in sorted(buckets.items()):
        family.add_metric([one], _cumulative(counts), microseconds[one] / 1_000_000)
    return family


def _cumulative(counts: Mapping[int, int]) -> list[Any]:
    """Return the buckets as Prometheus wants them: each with all that is not above its bound."""
    running, buckets = 0, []
    for index, bound in enumerate((*HISTOGRAM_BOUNDS, float("inf"))):
        running += counts.get(index, 0)
        buckets.append(("+Inf" if bound == float("inf") else str(bound), running))
    return buckets
