"""The rows of the memory store and the moves between states: every change of a job's state is one of these methods.

Whoever calls holds the lock. It is there because the heartbeat calls in from its own thread.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from threading import Lock
from typing import Any

from queue_core.clock import Clock
from queue_core.job import NewJob
from queue_core.settings import RetentionSettings
from queue_core.states import FINAL, MOVES, Status
from queue_core.stores.memory.rows import JobRow, Lease, QueueRow, WorkerRow
from queue_core.stores.memory.totals import Totals


class MemoryState:
    """Everything there is to know, in plain dictionaries and sorted lists."""

    def __init__(self, clock: Clock, retention: RetentionSettings) -> None:
        self.clock = clock
        self.retention = retention
        self.lock = Lock()
        self.jobs: dict[str, JobRow] = {}
        self.queues: dict[str, QueueRow] = {}
        # (due, order of arrival, id) of scheduled and retrying jobs, sorted
        self.due: list[tuple[float, int, str]] = []
        # the running jobs
        self.running: dict[str, JobRow] = {}
        self.workers: dict[str, WorkerRow] = {}
        # duty -> its leader and the end of the leadership
        self.leaders: dict[str, tuple[str, float]] = {}
        # signature -> its title and when it was first seen
        self.signatures: dict[str, tuple[str, float]] = {}
        self.totals = Totals()
        self._sequence = 0
        self._token = 0

    def arrive(self, job: NewJob, now: float) -> JobRow:
        """Write a new job as queued or scheduled, creating its queue."""
        self.queues.setdefault(job.queue, QueueRow(job.queue))
        self._sequence += 1
        run_at = max(now, now + job.delay if job.run_at is None else job.run_at)
        status = Status.SCHEDULED if run_at > now else Status.QUEUED
        row = self.jobs[job.id] = JobRow(job, self._sequence, status, now, now, run_at)
        self._enter(row)
        self.totals.note(row, "enqueued", now)
        return row

    def start(self, row: JobRow, worker: str, seconds: float, begun: bool = True) -> Lease:
        """Move a queued job to running under a lease with a token that no job ever had."""
        self._token += 1
        self._move(row, Status.RUNNING)
        row.token = self._token
        row.lease = Lease(self._token, worker, row.updated_at, row.updated_at + seconds, begun=begun)
        return row.lease

    def ready(self, row: JobRow) -> None:
        """Move a job to queued, where its rank is what it always was."""
        self._move(row, Status.QUEUED)

    def wait(self, row: JobRow, status: Status, run_at: float) -> None:
        """Move a job to scheduled or retrying, to be promoted at a time."""
        self._move(row, status, run_at)

    def again(self, row: JobRow, status: Status, run_at: float) -> None:
        """Move a finished or rescheduled job to queued or scheduled, with the order of a job that arrives now."""
        self._sequence += 1
        row.sequence = self._sequence
        self._move(row, status, run_at)

    def finish(self, row: JobRow, status: Status) -> None:
        """Move a job to a final state, keeping what the last attempt left."""
        lease = row.lease
        self._move(row, status)
        row.finished_at = row.updated_at
        row.last = lease

    def remove(self, row: JobRow, outcome: str) -> None:
        """Forget a finished job; the totals go on counting it under this outcome."""
        self.totals.note(row, outcome, self.clock.now())
        del self.jobs[row.id]

    def announced_types(self) -> frozenset[str]:
        """Return the types that live workers have handlers for."""
        now = self.clock.now()
        return frozenset(type_ for one in self.workers.values() if not one.lost(now) for type_ in one.beat.types)

    def _move(self, row: JobRow, status: Status, run_at: float | None = None) -> None:
        if status not in MOVES[row.status]:
            raise AssertionError(f"a {row.status} job does not become {status}")
        self._leave(row)
        row.status, row.updated_at = status, self.clock.now()
        row.run_at = row.run_at if run_at is None else run_at
        self._enter(row)

    def _enter(self, row: JobRow) -> None:
        if row.status is Status.QUEUED:
            insort(self.queues[row.queue].ready, (row.rank, row.id))
        elif row.status in (Status.SCHEDULED, Status.RETRYING):
            insort(self.due, (row.run_at, row.sequence, row.id))
        elif row.status is Status.RUNNING:
            self.running[row.id] = row

    def _leave(self, row: JobRow) -> None:
        if row.status is Status.QUEUED:
            _take(self.queues[row.queue].ready, (row.rank, row.id))
        elif row.status in (Status.SCHEDULED, Status.RETRYING):
            _take(self.due, (row.run_at, row.sequence, row.id))
        elif row.status is Status.RUNNING:
            del self.running[row.id]
            row.lease = None
        elif row.status in FINAL:
            row.last = row.finished_at = row.trashed_at = row.result = None


def _take(entries: list[Any], entry: tuple[Any, ...]) -> None:
    del entries[bisect_left(entries, entry)]
