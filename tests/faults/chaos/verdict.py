"""What must hold once nothing moves any more: the ledger against the store, in any mode."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from queue_core.model.job import Job
from tests.faults.chaos.rules import LEASE, NARROW
from tests.faults.chaos.strikes import EVERY
from tests.faults.ledger import Ledger, Run

ENDS = ("completed", "dead", "cancelled")
FAILOVERS = frozenset({"Sentinel failover", "kill primary", "freeze primary", "kill master", "freeze master"})
EARLY = 0.05
"""Seconds that the clocks of two processes on one machine may seem to differ."""


@dataclass(frozen=True)
class Fault:
    """What was done, when, and to which parts of the fleet."""

    name: str
    # seconds of the monotonic clock
    begun: float
    ended: float
    units: frozenset[str]

    def hit(self, unit: str, begin: float, end: float) -> bool:
        """Return whether it can be the reason why a run between these moments was lost.

        A lease that was given or renewed up to its end is renewed, or over, one lease later.
        """
        concerned = self.units == EVERY or unit in self.units
        return concerned and self.begun <= end and begin <= self.ended + LEASE


@dataclass
class Verdict:
    """What was found; nothing is wrong where `problems` is empty."""

    acknowledged: int = 0
    jobs: int = 0
    lost: set[str] = field(default_factory=set)
    runs: int = 0
    # runs after the first of a job whose handler had not failed, by the fault that explains it
    extra: Counter[str] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)
    stale_refused: int = 0
    stale_writes: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)


def judge(ledger: Ledger, jobs: Sequence[Job], totals: Mapping[str, int], faults: Sequence[Fault]) -> Verdict:
    """Compare everything with everything."""
    found = Verdict(len(ledger.ids), len(jobs), runs=len(ledger.starts), stale_refused=len(ledger.refused))
    _conserved(found, ledger, jobs, totals, faults)
    _final_by_the_last(found, ledger, jobs, [fault for fault in faults if fault.name in FAILOVERS])
    _explained(found, ledger, faults)
    _in_order(found, ledger, jobs, faults)
    return found


def _conserved(
    found: Verdict, ledger: Ledger, jobs: Sequence[Job], totals: Mapping[str, int], faults: Sequence[Fault]
) -> None:
    """Every acknowledged job is there, no other is, and the totals say so."""
    places = Counter(job.id for job in jobs)
    if twice := [job_id for job_id, count in places.items() if count > 1]:
        found.problems.append(f"in more than one place: {twice}")
    found.lost = ledger.ids - places.keys()
    for tag, ids in ledger.enqueued.items():
        if gone := found.lost & set(ids):
            at = ledger.batches[tag][1]
            named = [fault.name for fault in faults if fault.begun - LEASE <= at <= fault.ended + LEASE]
            ran = sum(run.id in gone for run in ledger.starts)
            found.problems.append(f"lost: {sorted(gone)}, enqueued at {at:.1f} ({', '.join(named)}), {ran} runs")
    tags = Counter(tag for job in jobs for tag in job.tags)
    unanswered = ledger.open_batches
    for tag, count in unanswered.items():
        if tags[tag] not in {0, count}:
            found.problems.append(f"{tags[tag]} of a batch of {count} were written: {tag}")
    known = ledger.ids | {job.id for job in jobs if set(job.tags) & unanswered.keys()}
    if strangers := places.keys() - known:
        found.problems.append(f"enqueued by no producer: {sorted(strangers)[:20]}")
    _counted(found, jobs, totals)


def _counted(found: Verdict, jobs: Sequence[Job], totals: Mapping[str, int]) -> None:
    """All have ended, the totals are right, and only what always fails is dead."""
    counts = Counter(str(job.status) for job in jobs)
    for outcome in ENDS:
        if totals[outcome] != counts[outcome]:
            found.problems.append(f"{counts[outcome]} {outcome} jobs, but a total of {totals[outcome]}")
    if unfinished := sum(counts.values()) - sum(counts[name] for name in ENDS):
        found.problems.append(f"{unfinished} jobs are unfinished: {dict(counts)}")
    for job in jobs:
        if str(job.status) == "dead" and job.type != "always_fails":
            found.problems.append(f"{job.id} ({job.type}) is dead: {job.losses} losses, {job.crashes} crashes")
        if job.crashes:
            found.problems.append(f"{job.id} is blamed for {job.crashes} crashes, and no handler has ended its process")


def _final_by_the_last(found: Verdict, ledger: Ledger, jobs: Sequence[Job], failovers: Sequence[Fault]) -> None:
    """One token of each job is final, and it is the highest that was given out; the result is that attempt's.

    A claim that a primary gave which another one has replaced by then is lost with it: its outcome is refused.
    """
    ends = {(run.id, run.token) for run in ledger.ends}
    given = [run for run in ledger.starts if not any(one.hit("", run.at - LEASE, run.at) for one in failovers)]
    tokens = replace(ledger, starts=given).tokens()
    for job in jobs:
        if str(job.status) != "completed":
            continue
        last = max(*tokens.get(job.id, [0]), job.token)
        if job.result != {"token": job.token} or job.token != last or (job.id, last) not in ends:
            found.stale_writes.add(job.id)
            found.problems.append(f"{job.id} was completed by {job.token} with {job.result}, its last run was {last}")
        if ledger.back.get((job.id, job.token)):
            found.problems.append(f"{job.id} was completed by {job.token}, which had been given back")


def _explained(found: Verdict, ledger: Ledger, faults: Sequence[Fault]) -> None:
    """Each further run follows a failure of the handler, or a fault that hit the one before."""
    again = [key for key, count in Counter((run.id, run.token) for run in ledger.starts).items() if count > 1]
    found.problems += [f"started twice under one token: {key}" for key in again]
    runs: dict[str, list[Run]] = defaultdict(list)
    for run in ledger.starts:
        runs[run.id].append(run)
    for job_id, ones in runs.items():
        for run, following in pairwise(sorted(ones, key=lambda one: one.token)):
            if (job_id, run.token) in ledger.failed and ledger.back.get((job_id, run.token)) == "retrying":
                continue
            unit = ledger.units.get(run.pid, "?")
            fault = _reason(faults, unit, run.at, following.at)
            if fault is None:
                found.unexplained.append(
                    f"{job_id} ran again as {following.token} on {ledger.units.get(following.pid)} at "
                    f"{following.at:.2f}, after {run.token} on {unit} at {run.at:.2f}: "
                    f"{ledger.back.get((job_id, run.token))}"
                )
            else:
                found.extra[fault.name] += 1
    found.problems += [f"not explained: {one}" for one in found.unexplained[:20]]


@dataclass
class Spans:
    """When jobs ran, as the ledger knows it; seconds of the monotonic clock."""

    # the first start of each job
    first: dict[str, float]
    # the runs whose outcome counts: what is sure to have been under a lease
    final: dict[str, tuple[float, float]]


def _reason(faults: Sequence[Fault], unit: str, began: float, again: float) -> Fault | None:
    """Return the fault that a run was lost by: one of its worker alone before those of all, the last one first."""
    hits = [one for one in faults if one.hit(unit, began - LEASE, again)]
    return max(hits, key=lambda one: (one.units != EVERY, one.begun), default=None)


def _spans(ledger: Ledger, jobs: Sequence[Job]) -> Spans:
    first: dict[str, float] = {}
    for run in ledger.starts:
        first[run.id] = min(run.at, first.get(run.id, run.at))
    begun = {(run.id, run.token): run.at for run in ledger.starts}
    ended = {(run.id, run.token): run.at for run in ledger.ends}
    done = [(job.id, job.token) for job in jobs if str(job.status) == "completed"]
    return Spans(first, {one[0]: (begun[one], ended[one]) for one in done if one in begun and one in ended})


def _in_order(found: Verdict, ledger: Ledger, jobs: Sequence[Job], faults: Sequence[Fault]) -> None:
    """Nothing began early; no key ran out of order, no limit was exceeded, and nothing unique was there twice."""
    spans = _spans(ledger, jobs)
    # of the store, by which delayed jobs are due
    clocks = [fault for fault in faults if fault.name == "set clock" and fault.units == EVERY]
    groups: dict[str, dict[str, list[tuple[int, str]]]] = defaultdict(lambda: defaultdict(list))
    for tag, ids in ledger.enqueued.items():
        label, pid, number = tag.split("-")
        kind, _, detail = label.partition(".")
        groups[kind][f"{pid}-{detail}"] += [(int(number), job_id) for job_id in ids]
        if kind == "delayed":
            due = ledger.batches[tag][1] + int(detail) / 1000
            was_set = any(fault.hit("", due - int(detail) / 1000, due) for fault in clocks)
            early = [one for one in ids if spans.first.get(one, due) < due - EARLY and not was_set]
            found.problems += [f"{one} began {due - spans.first[one]:.3f} s early" for one in early]
    for key, ones in groups["ordered"].items():
        for (_, earlier), (_, later) in pairwise(sorted(ones)):
            if earlier in spans.final and spans.first.get(later, float("inf")) < spans.final[earlier][1]:
                found.problems.append(f"{later} of key {key} began before {earlier} had ended")
    for key, ones in groups["unique"].items():
        if _most_at_once(spans, {job_id for _, job_id in ones}) > 1:
            found.problems.append(f"two jobs of the unique key {key} ran at once")
    narrow = {job_id for ones in groups["narrow"].values() for _, job_id in ones}
    if (most := _most_at_once(spans, narrow)) > NARROW:
        found.problems.append(f"{most} jobs ran at once where {NARROW} may: {_crowd(ledger, spans, narrow, faults)}")


def _crowd(ledger: Ledger, spans: Spans, ids: Iterable[str], faults: Sequence[Fault]) -> str:
    """Describe the jobs that ran at the first moment at which too many did, with the faults of that time."""
    final = {one: spans.final[one] for one in ids if one in spans.final}
    now, at = 0, float("inf")
    for moment, step in _moments(final.values()):
        now += step
        if now > NARROW:
            at = moment
            break
    begun = {(run.id, run.at): run for run in ledger.starts}
    runs = []
    for one, (begin, end) in final.items():
        if begin <= at < end:
            run = begun[one, begin]
            runs.append(f"{one} as {run.token} on {ledger.units.get(run.pid)} from {begin:.3f} to {end:.3f}")
    near = [
        f"{fault.name} of {', '.join(sorted(fault.units)) or 'nothing'} {fault.begun:.2f}–{fault.ended:.2f}"
        for fault in faults
        if fault.begun <= at <= fault.ended + 2 * LEASE
    ]
    return "; ".join(runs + near)


def _most_at_once(spans: Spans, ids: Iterable[str]) -> int:
    return most_at_once(spans.final[one] for one in ids if one in spans.final)


def most_at_once(spans: Iterable[tuple[float, float]]) -> int:
    """Return how many of these spans overlap at most."""
    now = most = 0
    for _, step in _moments(spans):
        now += step
        most = max(most, now)
    return most


def _moments(spans: Iterable[tuple[float, float]]) -> list[tuple[float, int]]:
    return sorted([moment for begin, end in spans for moment in ((begin, 1), (end, -1))])
