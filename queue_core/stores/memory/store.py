"""The hot path in memory: the reference that every other store is compared with."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import inf
from typing import Any

from queue_core.clock import Clock, SystemClock
from queue_core.errors import InvalidJob
from queue_core.job import MOST_LOSSES, Claim, Final, Inserted, LogLine, NewJob, Outcome, Ready, Reclaimed, Settled
from queue_core.priorities import parse_priority
from queue_core.rules import Rules, rules_of
from queue_core.settings import RetentionSettings
from queue_core.states import Status
from queue_core.store import ClaimRequest
from queue_core.stores.memory.heart import MemoryHeart, end_leases
from queue_core.stores.memory.limiting import admitted, check_limits
from queue_core.stores.memory.logs import announce, append
from queue_core.stores.memory.retention import prune
from queue_core.stores.memory.rows import JobRow, of_one_claim
from queue_core.stores.memory.settling import reclaim, settle
from queue_core.stores.memory.state import MemoryState


class MemoryStore:
    """Jobs in dictionaries; see queue_core.store.JobStore for what each method does."""

    name = "memory"

    def __init__(
        self, clock: Clock | None = None, retention: RetentionSettings | None = None, rules: Rules | None = None
    ) -> None:
        self.state = MemoryState(clock or SystemClock(), retention or RetentionSettings(), rules or {})

    async def open(self) -> None:
        """Nothing has to be connected."""

    async def close(self) -> None:
        """The jobs stay until the store itself goes."""

    async def insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Write the jobs, all or none; an id that is known already stays as it was."""
        for job in jobs:
            _check(job)
        with self.state.lock:
            return self.write(jobs)

    def write(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Write jobs like `insert`; for who holds the lock."""
        now = self.state.clock.now()
        check_limits(self.state, jobs, now)
        return [self._insert(job, now) for job in jobs]

    def _insert(self, job: NewJob, now: float) -> Inserted:
        holder = job.id if job.id in self.state.jobs else self.state.take_unique(job)
        if holder in self.state.jobs or holder != job.id:
            return Inserted(holder, job.queue, None, None, created=False)
        row = self.state.arrive(job, now)
        if row.status is Status.SCHEDULED:
            return Inserted(row.id, row.queue, None, row.run_at, created=True)
        return Inserted(row.id, row.queue, None if row.blocked else row.rank, None, created=True)

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        """Move ready jobs to running, best rank first."""
        with self.state.lock:
            queue = self.state.queues.get(request.queue)
            if queue is None or queue.paused:
                return []
            types = request.types
            wanted = (row for row in self._candidates(request) if types is None or row.given.type in types)
            rules = rules_of(self.state.rules, request.queue)
            most, begin = request.limit, request.limit if request.begin is None else request.begin
            if rules.gated:
                most = begin = admitted(self.state, queue, rules, min(most, begin))
            chosen = of_one_claim(islice(wanted, most))
            queue.tokens -= len(chosen)
            return [row.claim(self.state.start(row, request, place < begin)) for place, row in enumerate(chosen)]

    def _candidates(self, request: ClaimRequest) -> Iterator[JobRow]:
        if request.ids is None:
            return (self.state.jobs[job_id] for _, job_id in self.state.queues[request.queue].ready)
        return iter(self._ready_among(request.queue, request.ids))

    def _ready_among(self, queue: str, ids: Sequence[str]) -> list[JobRow]:
        found = [self.state.jobs[job_id] for job_id in set(ids) if job_id in self.state.jobs]
        ready = [row for row in found if row.status is Status.QUEUED and not row.blocked and row.queue == queue]
        return sorted(ready, key=lambda row: row.rank)

    async def settle(self, outcomes: Sequence[Outcome]) -> list[Settled]:
        """End attempts whose token still holds."""
        with self.state.lock:
            return [settle(self.state, outcome)._replace(opened=self.state.opened()) for outcome in outcomes]

    async def log(self, lines: Sequence[LogLine]) -> list[bool]:
        """Append lines to the logs of jobs; say of each whether its token still holds."""
        with self.state.lock:
            return [append(self.state, line) for line in lines]

    async def announce(self, types: Mapping[str, Mapping[str, Any]]) -> None:
        """Write the JSON Schema of the payloads that each of these types takes, where it has changed."""
        with self.state.lock:
            announce(self.state, types)

    async def promote(self, limit: int) -> list[Ready]:
        """Move due scheduled and retrying jobs to queued, those first that are due for the longest time."""
        with self.state.lock:
            end = bisect_right(self.state.due, self.state.clock.now(), key=lambda entry: entry[0])
            rows = [self.state.jobs[job_id] for _, _, job_id in self.state.due[: min(end, limit)]]
            # An ordering key lets those of them through that arrived first, whichever was due first.
            for row in sorted(rows, key=lambda row: row.sequence):
                self.state.ready(row)
            return sorted((row.ready() for row in rows if not row.blocked), key=lambda ready: ready.rank)

    async def next_due(self) -> float | None:
        """Return the seconds until the next scheduled or retrying job is due."""
        with self.state.lock:
            return max(0.0, self.state.due[0][0] - self.state.clock.now()) if self.state.due else None

    async def reclaim(self, limit: int, bound: int = MOST_LOSSES) -> list[Reclaimed]:
        """Take jobs back whose lease expired."""
        with self.state.lock:
            now = self.state.clock.now()
            expired = [
                (row, row.lease) for row in self.state.running.values() if row.lease and row.lease.expires_at < now
            ]
            return [
                reclaim(self.state, row, lease, bound)._replace(opened=self.state.opened())
                for row, lease in expired[:limit]
            ]

    async def head(self, queue: str, limit: int) -> list[Ready]:
        """Return the first claimable jobs whose type a live worker of this queue has announced."""
        with self.state.lock:
            found = self.state.queues.get(queue)
            if found is None or found.paused:
                return []
            announced = self.state.announced()
            rows = (self.state.jobs[job_id] for _, job_id in found.ready)
            return [row.ready() for row in islice((row for row in rows if announced.has(queue, row.given.type)), limit)]

    async def heads(self, queues: Sequence[str], limit: int) -> list[Ready]:
        """Return what `head` returns of each of these queues."""
        return [ready for queue in queues for ready in await self.head(queue, limit)]

    async def ready_queues(self) -> list[str]:
        """Return the queues that are not paused and have ready jobs."""
        with self.state.lock:
            return [name for name, queue in self.state.queues.items() if queue.ready and not queue.paused]

    async def claimable(self, queue: str, ids: Sequence[str]) -> list[Ready]:
        """Return those of these jobs that are claimable now and whose type a live worker of this queue announced."""
        with self.state.lock:
            found = self.state.queues.get(queue)
            if found is None or found.paused:
                return []
            announced = self.state.announced()
            return [row.ready() for row in self._ready_among(queue, ids) if announced.has(queue, row.given.type)]

    async def ready_after(self, queue: str, rank: int, limit: int, whole: bool = True) -> list[Ready]:
        """Return ready jobs with a higher rank."""
        with self.state.lock:
            found = self.state.queues.get(queue)
            if found is None:
                return []
            start = bisect_right(found.ready, rank, key=lambda entry: entry[0])
            return [self.state.jobs[job_id].ready() for _, job_id in found.ready[start : start + limit]]

    async def queues(self) -> dict[str, bool]:
        """Return every queue and whether it is paused."""
        with self.state.lock:
            return {queue.name: queue.paused for queue in self.state.queues.values()}

    async def finals(self, ids: Sequence[str]) -> list[Final]:
        """Return what is known about these jobs."""
        with self.state.lock:
            since = self.state.clock.now() - (self.state.retention.results or inf)
            found = [self.state.jobs[job_id] for job_id in dict.fromkeys(ids) if job_id in self.state.jobs]
            return [row.final(since) for row in found]

    async def lead(self, duty: str, worker: str, seconds: float) -> bool:
        """Take or renew the leadership of a duty."""
        with self.state.lock:
            now = self.state.clock.now()
            leader, until = self.state.leaders.get(duty, (worker, now))
            if leader != worker and until >= now:
                return False
            self.state.leaders[duty] = (worker, now + seconds)
            return True

    async def write_off(self, workers: Sequence[str], place: str) -> None:
        """Remove the entries and leaderships of workers whose processes are gone, and end their leases."""
        with self.state.lock:
            end_leases(self.state, lambda row, lease: lease.worker in workers)
        for worker in workers:
            await self.retire(worker)

    async def retire(self, worker: str, place: str = "") -> None:
        """Remove a worker's entry and its leaderships."""
        with self.state.lock:
            self.state.workers.pop(worker, None)
            for duty in [duty for duty, (leader, _) in self.state.leaders.items() if leader == worker]:
                del self.state.leaders[duty]

    async def make_room(self) -> None:
        """Do nothing: there is always room."""

    async def upkeep(self) -> None:
        """Remove what its retention no longer keeps."""
        with self.state.lock:
            prune(self.state)
            self.state.opened()  # left to the audit

    def heart(self) -> MemoryHeart:
        """Return a link for a heartbeat thread."""
        return MemoryHeart(self.state)


def _check(job: NewJob) -> None:
    """Refuse a row that no store may hold, as the constraints of a database do."""
    parse_priority(job.priority)
    if not 0 < len(job.queue) <= 200:
        raise InvalidJob("a queue's name has 1 to 200 characters")
