"""What really happened, written outside the store: one append-only file for each process.

    batch TAG COUNT              the producer is about to enqueue COUNT jobs that carry TAG
    enqueued TAG ID ID …         the store has committed them
    start ID TOKEN WORKER        a handler starts
    end ID TOKEN                 it returned
    fail ID TOKEN EXCEPTION      it raised
    refused ID TOKEN             the store refused the attempt's outcome

A producer that is killed between the two lines of a batch leaves it open: whether the store has it is asked by its
tag, and neither answer is a loss, because `enqueue` never returned. Lines cut by a kill are left out the same way.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from queue_core.model.filters import Filter
from queue_core.model.job import Job
from queue_core.model.states import Status
from queue_core.ports.inspector import Inspector
from queue_core.ports.store import JobStore


class LedgerWriter:
    """Appends lines to this process's file; safe to use from several threads and after a fork."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._owner = 0
        self._file = -1

    def batch(self, tag: str, count: int) -> None:
        """Note what is about to be enqueued."""
        self._write("batch", tag, str(count))

    def enqueued(self, tag: str, ids: Iterable[str]) -> None:
        """Note what the store has committed."""
        self._write("enqueued", tag, *ids)

    def start(self, job_id: str, token: int, worker: str) -> None:
        """Note that a handler starts."""
        self._write("start", job_id, str(token), worker)

    def end(self, job_id: str, token: int) -> None:
        """Note that a handler returned."""
        self._write("end", job_id, str(token))

    def fail(self, job_id: str, token: int, exception: str) -> None:
        """Note that a handler raised."""
        self._write("fail", job_id, str(token), exception)

    def refused(self, job_id: str, token: int) -> None:
        """Note that the store refused an outcome."""
        self._write("refused", job_id, str(token))

    def _write(self, *words: str) -> None:
        if self._owner != os.getpid():
            path = self._folder / f"{os.getpid()}.ledger"
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._owner = os.getpid()
        # One write, so that lines of several threads never mix and a kill cuts at most the last one.
        os.write(self._file, (" ".join(words) + "\n").encode())


@dataclass(slots=True)
class Ledger:
    """All lines of all processes, put together."""

    # ids that the store has committed, by the producers' word
    enqueued: set[str] = field(default_factory=set)
    # tags of batches whose fate the producer never learned
    open_batches: set[str] = field(default_factory=set)
    # job id -> lease token -> worker
    starts: dict[str, dict[int, str]] = field(default_factory=dict)
    # attempts whose handler returned
    ends: set[tuple[str, int]] = field(default_factory=set)
    # attempts whose outcome the store refused
    refusals: set[tuple[str, int]] = field(default_factory=set)
    # exception -> attempts that it ended
    failures: dict[str, int] = field(default_factory=dict)
    _sizes: dict[str, int] = field(default_factory=dict)

    def known(self) -> set[str]:
        """Return every id that the store must know: a job that a handler has started was enqueued, by any process."""
        return self.enqueued | self.starts.keys()

    def highest(self, job_id: str) -> int:
        """Return the highest token that a handler of this job has started with, 0 when none has."""
        return max(self.starts.get(job_id, {}), default=0)

    def add(self, line: str) -> None:
        """Take one whole line in; others are skipped."""
        match line.split(" "):
            case ["batch", tag, count] if count.isdigit():
                self._sizes[tag] = int(count)
                self.open_batches.add(tag)
            case ["enqueued", tag, *ids]:
                self.enqueued.update(ids)
                self._close_batch(tag, len(ids))
            case ["start", job_id, token, *worker] if token.isdigit():
                self.starts.setdefault(job_id, {})[int(token)] = " ".join(worker)
            case ["end", job_id, token] if token.isdigit():
                self.ends.add((job_id, int(token)))
            case ["refused", job_id, token] if token.isdigit():
                self.refusals.add((job_id, int(token)))
            case ["fail", _, _, *exception]:
                name = " ".join(exception)
                self.failures[name] = self.failures.get(name, 0) + 1

    def _close_batch(self, tag: str, count: int) -> None:
        if count == self._sizes.get(tag):
            self.open_batches.discard(tag)


def read_ledger(folder: Path) -> Ledger:
    """Return what all processes have written into this folder."""
    ledger = Ledger()
    for path in sorted(folder.glob("*.ledger")):
        for line in _whole_lines(path):
            ledger.add(line)
    return ledger


def _whole_lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        for line in lines:
            if line.endswith("\n"):
                yield line[:-1]


PAGE = 500
FINALS = 1000


@dataclass(slots=True)
class Findings:
    """What the comparison found."""

    # ids of the ledger, and jobs that others have enqueued meanwhile
    enqueued: int = 0
    # of these: without a tag of the demo's producer
    others: int = 0
    # ids of the ledger that the store does not know, and that were not purged
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
        unknown.difference_update(final.id for final in await store.results(waiting[start : start + FINALS]))
    return unknown
