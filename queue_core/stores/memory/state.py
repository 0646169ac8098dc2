"""The rows of the memory store and the moves between states: every change of a job's state is one of these methods.

Callers hold the lock. It exists because the heartbeat calls from its own thread.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from queue_core.model.filters.saved import SavedFilter
from queue_core.model.job import NewJob, Ready
from queue_core.model.operation import ChangeOptions
from queue_core.model.report import Announced, JobStack, TypeInfo
from queue_core.model.rules import Rules, aged_rank, band, key_in, rank, rules_of
from queue_core.model.settings import RetentionSettings
from queue_core.model.states import FINAL, MOVES, WAITING, Status
from queue_core.model.triage.signatures import SignatureFacts
from queue_core.ports.store import ClaimRequest
from queue_core.runtime import Clock
from queue_core.stores.memory.records import JobRow, Lease, OperationRow, QueueRow, ScheduleRow, WorkerRow, moment
from queue_core.stores.memory.statistics import MemoryReleases, MemoryTallies

Key = tuple[str, str]
"""A queue and a key."""


@dataclass(slots=True)
class OrderingLock:
    """An ordering key with unfinished jobs."""

    # jobs that were admitted and have not ended
    open: int = 0
    # (order of arrival, id) of ready jobs that wait for their turn, sorted
    waiting: list[tuple[int, str]] = field(default_factory=list)


class MemoryOrderingLocks:
    """Lets the jobs of an ordering key through, so many at a time, in the order of their arrival."""

    def __init__(self) -> None:
        self._locks: defaultdict[Key, OrderingLock] = defaultdict(OrderingLock)

    def admit(self, row: JobRow, most: int) -> None:
        """Let a job through that becomes ready, or keep it waiting."""
        if row.key is None or row.admitted:
            return
        lock = self._locks[row.queue, row.key]
        if lock.open < most:
            lock.open += 1
            row.admitted = True
        else:
            insort(lock.waiting, (row.sequence, row.id))

    def leave(self, row: JobRow) -> None:
        """Forget a job that waits for its turn, for it is cancelled."""
        if row.key is not None:
            waiting = self._locks[row.queue, row.key].waiting
            del waiting[bisect_left(waiting, (row.sequence, row.id))]
            self._tidy((row.queue, row.key))

    def release_key(self, row: JobRow, most: int) -> list[str]:
        """Release a job's key, if it holds it; return the ids of the next jobs, which hold it from now on."""
        if row.key is None or not row.admitted:
            return []
        row.admitted = False
        lock = self._locks[row.queue, row.key]
        lock.open -= 1
        admitted = lock.waiting[: max(0, most - lock.open)]
        del lock.waiting[: len(admitted)]
        lock.open += len(admitted)
        self._tidy((row.queue, row.key))
        return [job_id for _, job_id in admitted]

    def _tidy(self, key: Key) -> None:
        lock = self._locks[key]
        if not lock.open and not lock.waiting:
            del self._locks[key]


class MemoryUniqueKeys:
    """Who holds a unique key, and until when."""

    def __init__(self) -> None:
        # key -> its holder's id and the end in seconds since the epoch, or None: while the holder is unfinished
        self._held: dict[Key, tuple[str, float | None]] = {}

    def holder(self, key: Key, jobs: dict[str, JobRow], now: float) -> str | None:
        """Return the id of the job that holds a key now."""
        if key not in self._held:
            return None
        job_id, until = self._held[key]
        if until is not None:
            return job_id if until > now else None
        row = jobs.get(job_id)
        return None if row is None or row.status in FINAL else job_id

    def take(self, key: Key, job_id: str, until: float | None) -> None:
        """Give a free key to a job."""
        self._held[key] = (job_id, until)

    def drop(self, key: Key, job_id: str) -> None:
        """Take a key away from a job that holds it while it is unfinished."""
        if self._held.get(key) == (job_id, None):
            del self._held[key]

    def prune(self, jobs: dict[str, JobRow], now: float) -> None:
        """Delete the keys without a holder."""
        for key in [key for key in self._held if self.holder(key, jobs, now) is None]:
            del self._held[key]


class MemoryState:
    """Everything there is to know, in plain dictionaries and sorted lists."""

    def __init__(self, clock: Clock, retention: RetentionSettings, rules: Rules) -> None:
        self.clock = clock
        self.retention = retention
        self.rules = rules
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
        # type -> what was announced of it
        self.types: dict[str, TypeInfo] = {}
        # name -> a schedule
        self.schedules: dict[str, ScheduleRow] = {}
        # number -> an operation
        self.operations: dict[int, OperationRow] = {}
        # the highest number that one has had
        self.last_operation = 0
        # number -> a stack that was asked for
        self.stacks: dict[int, JobStack] = {}
        self.tallies = MemoryTallies()
        self.releases = MemoryReleases()
        # signature -> what operators have set of it
        self.facts: dict[str, SignatureFacts] = {}
        # name -> a saved filter
        self.filters: dict[str, SavedFilter] = {}
        self.ordering_locks = MemoryOrderingLocks()
        self.unique = MemoryUniqueKeys()
        self._unblocked: list[Ready] = []
        self._sequence = 0
        self._token = 0

    def arrive(self, job: NewJob, now: float) -> JobRow:
        """Write a new job as queued or scheduled, creating its queue."""
        self.queues.setdefault(job.queue, QueueRow(job.queue))
        run_at = max(now, now + job.delay if job.run_at is None else job.run_at)
        status = Status.SCHEDULED if run_at > now else Status.QUEUED
        row = self.jobs[job.id] = JobRow(job, 0, 0, status, now, now, run_at)
        self._place(row, run_at)
        self._enter(row)
        self.tallies.note(row, "enqueued", now)
        return row

    def start(self, row: JobRow, request: ClaimRequest, started: bool = True) -> Lease:
        """Move a queued job to running under a lease with a token that no job ever had."""
        self._move(row, Status.RUNNING)
        self.renew(row)
        until = row.updated_at + request.lease
        row.lease = Lease(row.token, request.worker, row.updated_at, until, started=started, claim=request.number)
        row.lease.release, row.lease.release_number = self.releases.name_of(request.release), request.release
        return row.lease

    def register_types(self, types: Mapping[str, Mapping[str, Any]]) -> None:
        """Write the schema of each of these types where it has changed."""
        now = moment(self.clock.now())
        for name, schema in types.items():
            known = self.types.get(name)
            if known is None or known.schema != schema:
                self.types[name] = TypeInfo(name, deepcopy(dict(schema)), now)

    def renew(self, row: JobRow) -> None:
        """Give a job a token that no job ever had."""
        self._token += 1
        row.token = self._token

    def ready(self, row: JobRow) -> None:
        """Move a job to queued, where its rank is what it always was."""
        self._move(row, Status.QUEUED)

    def wait(self, row: JobRow, status: Status, run_at: float) -> None:
        """Move a job to scheduled or retrying, to be promoted at a time."""
        self._move(row, status, run_at)

    def again(self, row: JobRow, status: Status, run_at: float) -> None:
        """Move a finished or rescheduled job to queued or scheduled, with the order of a job that arrives now."""
        _check(row, status)
        if row.status is Status.RUNNING:
            self.release_key(row)
        elif row.given.unique_seconds is None:
            self.take_unique(row.given)
        self._leave(row)
        self._place(row, run_at)
        self._become(row, status, run_at)

    def transfer(self, row: JobRow, options: ChangeOptions) -> None:
        """Move a waiting or dead job to another queue or priority; a waiting one queues at its end."""
        waits = row.status in WAITING
        if waits:
            self._leave(row)
        # Also of a dead job: if it is revived, it is in its new queue.
        self.unique.drop((row.queue, row.given.unique_key or ""), row.id)
        self.release_key(row)
        target = options.queue or row.queue
        key = key_in(self.rules, target, row.queue, row.key)
        priority = row.given.priority if options.priority is None else options.priority
        row.given = row.given._replace(queue=target, priority=priority, ordering_key=key)
        self.queues.setdefault(target, QueueRow(target))
        if waits:
            if row.given.unique_seconds is None:
                self.take_unique(row.given)
            self._place(row, row.run_at)
            self._enter(row)

    def finish(self, row: JobRow, status: Status) -> None:
        """Move a job to a final state, keeping what the last attempt left."""
        lease = row.lease
        self._move(row, status)
        if status is not Status.DEAD or not rules_of(self.rules, row.queue).dead_blocks_key:
            self.release_key(row)
        row.finished_at = row.updated_at
        row.last = lease

    def remove(self, row: JobRow, outcome: str) -> None:
        """Forget a finished job; the totals go on counting it under this outcome."""
        self.tallies.note(row, outcome, self.clock.now())
        self.release_key(row)
        del self.jobs[row.id]

    def release_key(self, row: JobRow) -> None:
        """Release a job's ordering key, so that the next jobs become ready."""
        for job_id in self.ordering_locks.release_key(row, rules_of(self.rules, row.queue).open_keys):
            next_row = self.jobs[job_id]
            next_row.admitted = True
            insort(self.queues[next_row.queue].ready, (next_row.rank, next_row.id))
            self._unblocked.append(next_row.ready())

    def unblocked(self) -> tuple[Ready, ...]:
        """Return the jobs that became ready since the last call because others released their ordering keys."""
        unblocked, self._unblocked = self._unblocked, []
        return tuple(unblocked)

    def take_unique(self, job: NewJob) -> str:
        """Give a job its unique key, where it has one; return the id of the job that holds it now."""
        if job.unique_key is None:
            return job.id
        key, now = (job.queue, job.unique_key), self.clock.now()
        holder = self.unique.holder(key, self.jobs, now)
        if holder is None:
            self.unique.take(key, job.id, None if job.unique_seconds is None else now + job.unique_seconds)
        return holder or job.id

    def announced(self) -> Announced:
        """Return the types that live workers have handlers for."""
        now = self.clock.now()
        return Announced((one.request.queues, one.request.types) for one in self.workers.values() if not one.lost(now))

    def _move(self, row: JobRow, status: Status, run_at: float | None = None) -> None:
        _check(row, status)
        self._leave(row)
        self._become(row, status, row.run_at if run_at is None else run_at)

    def _become(self, row: JobRow, status: Status, run_at: float) -> None:
        row.status, row.updated_at, row.run_at = status, self.clock.now(), run_at
        self._enter(row)

    def _place(self, row: JobRow, run_at: float) -> None:
        """Give a job the order of one that arrives now; with aging, of one that arrives when it is due."""
        self._sequence += 1
        row.sequence = self._sequence
        aging_us = rules_of(self.rules, row.queue).aging_us
        if not aging_us:
            row.rank = rank(row.given.priority, row.sequence)
            return
        arrival_us = round(run_at * 1_000_000)
        if run_at <= self.clock.now():
            queue = self.queues[row.queue]
            arrival_us = queue.arrival_us = max(arrival_us, queue.arrival_us + 1)
        row.rank = aged_rank(row.given.priority, arrival_us, aging_us)

    def _enter(self, row: JobRow) -> None:
        if row.status in WAITING:
            self.queues[row.queue].waiting[band(row.given.priority)] += 1
        if row.status is Status.QUEUED:
            self.ordering_locks.admit(row, rules_of(self.rules, row.queue).open_keys)
            if not row.blocked:
                insort(self.queues[row.queue].ready, (row.rank, row.id))
        elif row.status in (Status.SCHEDULED, Status.RETRYING):
            insort(self.due, (row.run_at, row.sequence, row.id))
        elif row.status is Status.RUNNING:
            self.running[row.id] = row

    def _leave(self, row: JobRow) -> None:
        if row.status in WAITING:
            self.queues[row.queue].waiting[band(row.given.priority)] -= 1
        if row.status is Status.QUEUED and row.blocked:
            self.ordering_locks.leave(row)
        elif row.status is Status.QUEUED:
            _take(self.queues[row.queue].ready, (row.rank, row.id))
        elif row.status in (Status.SCHEDULED, Status.RETRYING):
            _take(self.due, (row.run_at, row.sequence, row.id))
        elif row.status is Status.RUNNING:
            del self.running[row.id]
            row.lease = None
        elif row.status in FINAL:
            row.last = row.finished_at = row.trashed_at = row.result = None


def _check(row: JobRow, status: Status) -> None:
    if status not in MOVES[row.status]:
        raise AssertionError(f"a {row.status} job does not become {status}")


def _take(entries: list[Any], entry: tuple[Any, ...]) -> None:
    del entries[bisect_left(entries, entry)]
