"""The ledger against the store: what was lost, what came from elsewhere, what an outdated lease has changed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import islice

from jobconsole.demo.ledger import Ledger
from queue_core.filters import Filter
from queue_core.inspection import Inspector
from queue_core.job import Job
from queue_core.states import Status
from queue_core.store import JobStore

PAGE = 500
FINALS = 1000


@dataclass(slots=True)
class Findings:
    """What the comparison found."""

    # ids of the ledger, and jobs that others have enqueued meanwhile
    enqueued: int = 0
    # of these: without a tag of the demo's producer
    others: int = 0
    # ids of the ledger that the store does not know, and that nobody has purged
    lost: set[str] = field(default_factory=set)
    # jobs whose final state was not written by their last attempt
    stale_writes: set[str] = field(default_factory=set)
    # outcomes that the store refused because their lease was over
    stale_refused: int = 0


async def compare(ledger: Ledger, store: JobStore, inspector: Inspector, tag: str) -> Findings:
    """Read all jobs of a store that is at rest and compare them with the ledger.

    `tag` is what the tags of the producer's batches begin with.
    """
    findings = Findings(stale_refused=len(ledger.refusals))
    known = ledger.known()
    missing = set(known)
    # in the store and not in the ledger, and yet explained
    further = 0
    async for job in _all_jobs(inspector):
        missing.discard(job.id)
        if _is_stale(job, ledger):
            findings.stale_writes.add(job.id)
        foreign = not any(each.startswith(tag) for each in job.tags)
        findings.others += foreign
        if job.id not in known and (foreign or ledger.open_batches.intersection(job.tags)):
            further += 1
    missing = await _unknown(store, missing)
    # Purged jobs are counted, not kept: as many of the missing ids are accounted for.
    gone = sum(tally.count for tally in await inspector.tallies() if tally.outcome in {"purged", "expired"})
    findings.lost = set(islice(sorted(missing), max(0, len(missing) - gone)))
    findings.enqueued = len(known) + further
    return findings


def _is_stale(job: Job, ledger: Ledger) -> bool:
    """A final state belongs to the attempt with the highest token, and to the worker that ran it."""
    if job.status not in {Status.COMPLETED, Status.DEAD}:
        return False
    if ledger.highest(job.id) > job.token:
        return True
    worker = ledger.starts.get(job.id, {}).get(job.token)
    return job.status is Status.COMPLETED and worker is not None and job.worker not in {None, worker}


async def _all_jobs(inspector: Inspector) -> AsyncIterator[Job]:
    for where in (Filter(), Filter(trash=True)):
        cursor: str | None = None
        while True:
            page = await inspector.jobs(where, PAGE, cursor, "oldest")
            for job in page.jobs:
                yield job
            cursor = page.cursor
            if cursor is None:
                break


async def _unknown(store: JobStore, ids: set[str]) -> set[str]:
    """Ask for these ids by themselves: a list may have missed a job that changed while it was read."""
    unknown = set(ids)
    waiting = sorted(ids)
    for start in range(0, len(waiting), FINALS):
        unknown.difference_update(final.id for final in await store.finals(waiting[start : start + FINALS]))
    return unknown
