"""Error signatures, tallies and totals."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import floor
from typing import Any

from queue_core.model.filters import Filter, Term
from queue_core.model.report import HISTOGRAM_BOUNDS, Conservation, SeriesPoint, SignatureInfo, Tally, counts_by_minute
from queue_core.model.states import Status
from queue_core.stores.sql.records import tallies_of
from queue_core.stores.sqlite.dialect import SqliteConditions, conditions, moment
from queue_core.stores.sqlite.session import SqliteFile, Transaction

_DEAD = Term("status", "=", Status.DEAD.value)


@dataclass(slots=True)
class _SignatureGroup:
    """The jobs of one signature that the filter chose."""

    signature: str
    trend: list[int]
    count: int = 0
    last: float = 0.0
    types: Counter[str] = field(default_factory=Counter)
    queues: set[str] = field(default_factory=set)
    queue_ids: set[int] = field(default_factory=set)


async def signatures(file: SqliteFile, where: Filter, window: float, slices: int, limit: int) -> list[SignatureInfo]:
    """Return groups of dead jobs by error.

    A minute is the smallest time that growth is known for: it counts with the slice that it begins in.
    """
    seconds, slices = max(window, 1.0), max(slices, 1)

    def read(transaction: Transaction) -> list[SignatureInfo]:
        wanted = conditions(where.having(_DEAD), transaction.now)
        groups = _groups(transaction, wanted, slices)
        _grow(transaction, None if counts_by_minute(where) else wanted, groups, seconds, slices)
        ordered = sorted(groups.values(), key=lambda group: (-sum(group.trend), -group.count, group.signature))
        return [_info(transaction, wanted, group) for group in ordered[: max(limit, 0)]]

    return await file.inspect(read)


def _groups(transaction: Transaction, wanted: SqliteConditions, slices: int) -> dict[str, _SignatureGroup]:
    groups: dict[str, _SignatureGroup] = {}
    for state in wanted.places:
        params = wanted.params | {"state": state}
        for signature, queue_id, queue, type_, n, last in transaction.records(wanted.query("totals/groups"), params):
            group = groups.setdefault(signature, _SignatureGroup(signature, [0] * slices))
            group.count += n
            group.last = max(group.last, last)
            group.types[type_] += n
            group.queues.add(queue)
            group.queue_ids.add(queue_id)
    return groups


def _grow(
    transaction: Transaction,
    wanted: SqliteConditions | None,
    groups: dict[str, _SignatureGroup],
    seconds: float,
    slices: int,
) -> None:
    """Add the deaths of each minute; `wanted`: only of jobs that match."""
    since = transaction.now - seconds
    first = floor(since / 60)
    rows: Iterable[Sequence[Any]]
    if wanted is None:
        rows = transaction.rows("totals/deaths", (first,))
    else:
        params = wanted.params | {"state": wanted.places[0], "since": first * 60.0} if wanted.places else None
        rows = [] if params is None else map(tuple, transaction.records(wanted.query("totals/deaths_of"), params))
    deaths: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for minute, signature, queue_id, n in rows:
        if minute * 60 + 60 > since:
            deaths[signature].append((minute, queue_id, n))
    for group in groups.values():
        for minute, queue_id, n in deaths[group.signature]:
            if queue_id in group.queue_ids:
                place = int((minute * 60 - since) * slices / seconds)
                group.trend[min(max(place, 0), slices - 1)] += n


def _info(transaction: Transaction, wanted: SqliteConditions, group: _SignatureGroup) -> SignatureInfo:
    params: dict[str, Any] = wanted.params | {"state": wanted.places[0], "signature": group.signature}
    named = transaction.rows("totals/signature", (group.signature,))
    title, first_seen = named[0] if named else ("", group.last)
    return SignatureInfo(
        signature=group.signature,
        title=title,
        count=group.count,
        grown=sum(group.trend),
        trend=tuple(group.trend),
        first_seen=moment(first_seen),
        last_seen=moment(group.last),
        types=tuple(sorted(group.types.items(), key=lambda pair: (-pair[1], pair[0]))),
        queues=tuple(sorted(group.queues)),
        sample_id=transaction.records(wanted.query("totals/sample"), params)[0]["id"],
    )


_BOUNDS_US = [round(bound * 1_000_000) for bound in HISTOGRAM_BOUNDS]
_SERIES = frozenset({"enqueued", "completed", "retried", "dead"})
NOT_MEASURED = -1


class TallyWriter:
    """Counts by queue, type, outcome and buckets, by minute, and deaths by signature."""

    def __init__(self) -> None:
        # (queue, type, outcome, wait bucket, run bucket) -> [n, wait_us, run_us]
        self._sums: dict[tuple[int, str, str, int, int], list[int]] = {}
        self._deaths: Counter[tuple[str, int]] = Counter()
        # (signature, release) -> deaths, and the latest begin of an attempt that died
        self._died_on: Counter[tuple[str, int]] = Counter()
        self._started: dict[tuple[str, int], float] = {}
        # (type, release) -> [completed, dead]
        self._runs: dict[tuple[str, int], list[int]] = {}

    def note(
        self,
        queue_id: int,
        type_: str,
        outcome: str,
        *,
        wait_us: int | None = None,
        run_us: int | None = None,
        n: int = 1,
    ) -> None:
        """Count an outcome, with its times where they were measured."""
        # Buckets: the index of the first bound that is not below the time. Without calls: this runs for each job.
        wait_bucket = NOT_MEASURED if wait_us is None else bisect_left(_BOUNDS_US, wait_us)
        run_bucket = NOT_MEASURED if run_us is None else bisect_left(_BOUNDS_US, run_us)
        key = (queue_id, type_, outcome, wait_bucket, run_bucket)
        found = self._sums.get(key)
        if found is None:
            found = self._sums[key] = [0, 0, 0]
        found[0] += n
        found[1] += wait_us or 0
        found[2] += run_us or 0

    def death(self, queue_id: int, signature: str, release: int, started_at: float | None) -> None:
        """Count a death under its signature, and on the release of its attempt."""
        self._deaths[signature, queue_id] += 1
        self._died_on[signature, release] += 1
        self._started[signature, release] = max(self._started.get((signature, release), 0.0), started_at or 0.0)

    def count_run(self, type_: str, release: int, outcome: str) -> None:
        """Count the end of a job on the release of its last attempt."""
        if outcome in ("completed", "dead"):
            self._runs.setdefault((type_, release), [0, 0])[outcome == "dead"] += 1

    def write(self, transaction: Transaction) -> None:
        """Add everything to the totals."""
        minute = int(transaction.now // 60)
        series: Counter[tuple[int, str]] = Counter()
        for (queue_id, _, outcome, _, _), (n, _, _) in self._sums.items():
            if outcome in _SERIES:
                series[queue_id, outcome] += n
        transaction.run_many("totals/tally", [(*key, *sums) for key, sums in self._sums.items()])
        transaction.run_many("totals/tally_minute", [(minute, *key, n) for key, n in series.items()])
        transaction.run_many("totals/tally_death", [(minute, *key, n) for key, n in self._deaths.items()])
        now = transaction.now
        died = [(*key, n, now, self._started[key]) for key, n in self._died_on.items()]
        transaction.run_many("totals/tally_release", died)
        transaction.run_many("totals/tally_return", died)
        runs = [(*key, completed, dead, now if completed else 0.0) for key, (completed, dead) in self._runs.items()]
        transaction.run_many("totals/tally_runs", runs)


async def tallies(file: SqliteFile) -> list[Tally]:
    """Return the exact totals of every queue and type."""
    return tallies_of(await file.inspect(lambda transaction: transaction.rows("totals/tallies")))


async def series(file: SqliteFile, minutes: int, queue: str | None = None) -> list[SeriesPoint]:
    """Return the last minutes, oldest first, empty ones included."""

    def read(transaction: Transaction) -> list[SeriesPoint]:
        last = int(transaction.now // 60)
        found: dict[int, Counter[str]] = {minute: Counter() for minute in range(last - minutes + 1, last + 1)}
        params = {"first": last - minutes + 1, "last": last, "queue": queue}
        for minute, outcome, n in transaction.rows("totals/series", params):
            found[minute][outcome] += n
        return [
            SeriesPoint(moment(minute * 60), of["enqueued"], of["completed"], of["retried"], of["dead"])
            for minute, of in found.items()
        ]

    return await file.inspect(read)


async def conservation(file: SqliteFile) -> Conservation:
    """Return where all jobs are; those that were removed go on counting."""

    def read(transaction: Transaction) -> Conservation:
        at = dict.fromkeys(("completed", "cancelled", "dead", "trashed"), 0)
        at |= {state: transaction.rows("totals/in_state", (state,))[0][0] for state in at}
        waiting = ("scheduled", "queued", "retrying", "running")
        gone: Counter[str] = Counter(dict(transaction.rows("totals/removed")))
        return Conservation(
            completed=at["completed"] + gone["expired_completed"],
            dead=at["dead"] + at["trashed"] + gone["expired_dead"] + gone["purged"],
            cancelled=at["cancelled"] + gone["expired_cancelled"],
            unfinished=sum(transaction.rows("totals/in_state", (state,))[0][0] for state in waiting),
            retries=gone["retried"],
        )

    return await file.inspect(read)
