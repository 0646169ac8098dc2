"""The hot path in memory: the reference that every other store is compared with."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from math import inf, isinf
from typing import Any

from queue_core.errors import InvalidJob, QueueClosed, QueueFull
from queue_core.model.job import (
    MAX_LOSSES,
    Claim,
    Inserted,
    JobResult,
    LogLine,
    NewJob,
    Outcome,
    Ready,
    Reclaimed,
    Settled,
    Stray,
)
from queue_core.model.report import JobStack
from queue_core.model.rules import Allowance, QueueRules, Room, Rules, allowance, band, parse_priority, rules_of
from queue_core.model.settings import RetentionSettings
from queue_core.model.states import Status
from queue_core.ports.handover import restrict_to_unblocked
from queue_core.ports.store import ClaimRequest, HeartbeatReply, HeartbeatRequest, LeaseRenewal, Neighbour, StackRequest
from queue_core.runtime import Clock, SystemClock
from queue_core.stores.memory.logs import append, ask_stack, give_stack, read_stacks, stack_requests
from queue_core.stores.memory.records import JobRow, Lease, QueueRow, WorkerRow, moment, of_one_claim
from queue_core.stores.memory.session import MemoryTransaction
from queue_core.stores.memory.settle import reclaim, settle
from queue_core.stores.memory.state import MemoryState
from queue_core.stores.memory.upkeep import prune


class MemoryHeartbeat:
    """Prolongs leases and keeps the worker's entry; called from the heartbeat's thread."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    def renew(self, request: HeartbeatRequest) -> HeartbeatReply:
        with self._state.lock:
            now = self._state.clock.now()
            held = {one.id: lease for one in request.leases if (lease := self._held(one)) is not None}
            for one in [one for one in request.leases if one.id in held]:
                _renew(held[one.id], one, now + request.lease)
            return HeartbeatReply(
                lost=tuple(one.id for one in request.leases if one.id not in held),
                cancel=tuple(self._unwanted(request.worker)),
                command=self._register(request, now),
                neighbours=tuple(self._neighbours(request)) if request.with_neighbours else None,
                strays=tuple(self._strays(request)),
            )

    def hand_back(self, worker: str, started: Sequence[str], last: int) -> None:
        """End the leases of a worker's claims up to a number but for these jobs, as not started."""
        with self._state.lock:
            for lease in end_leases(
                self._state, lambda row, one: one.worker == worker and one.claim <= last and row.id not in started
            ):
                lease.started = False

    def stack_requests(self, worker: str) -> list[StackRequest]:
        """Return the requests for stacks that a worker has not answered."""
        with self._state.lock:
            return stack_requests(self._state, worker)

    def give_stack(self, request: StackRequest, text: str) -> None:
        """Answer a request for the stack of a job."""
        with self._state.lock:
            give_stack(self._state, request, text)

    def close(self) -> None:
        """Nothing has to be given back."""

    def _held(self, renewal: LeaseRenewal) -> Lease | None:
        row = self._state.running.get(renewal.id)
        return row.lease if row and row.lease and row.lease.token == renewal.token else None

    def _unwanted(self, worker: str) -> Iterator[str]:
        leases = ((row.id, row.lease) for row in self._state.running.values())
        return (job_id for job_id, lease in leases if lease and lease.worker == worker and lease.cancel)

    def _neighbours(self, request: HeartbeatRequest) -> Iterator[Neighbour]:
        for worker, row in self._state.workers.items():
            if worker != request.worker and row.request.place == request.place and row.request.process:
                yield Neighbour(worker, row.request.process)

    def _strays(self, request: HeartbeatRequest) -> Iterator[Stray]:
        numbers = {doubt.number for doubt in request.doubts} | set(range(1, request.doubt_until + 1))
        for row in self._state.running.values():
            if row.lease and row.lease.worker == request.worker and row.lease.claim in numbers:
                yield Stray(row.id, row.lease.token, row.queue, row.given.type, row.key)

    def _register(self, request: HeartbeatRequest, now: float) -> str:
        entry = self._state.workers.setdefault(request.worker, WorkerRow(request, now, now))
        entry.request, entry.heartbeat_at = request, now
        command, entry.command = entry.command, ""
        return command


def end_leases(state: MemoryState, which: Callable[[JobRow, Lease], bool]) -> list[Lease]:
    """Let leases end now, so that the next reclaim takes their jobs back; return them. For who holds the lock."""
    ended = [row.lease for row in state.running.values() if row.lease and which(row, row.lease)]
    for lease in ended:
        lease.expires_at = -inf
    return ended


def _renew(lease: Lease, renewal: LeaseRenewal, expires_at: float) -> None:
    lease.expires_at = expires_at
    lease.started = lease.started or renewal.started
    if renewal.progress is not None:
        lease.progress = max(lease.progress, min(renewal.progress, 100))
        lease.message = renewal.message


def check_limits(state: MemoryState, jobs: Sequence[NewJob], now: float) -> None:
    """Refuse jobs that would exceed a limit of their queue, or whose queue is closed; known ones do not count.

    Raises:
        QueueFull, QueueClosed: nothing was written.
    """
    coming: dict[str, Counter[str]] = {}
    seen: set[object] = set()
    for job in jobs:
        if (row := state.queues.get(job.queue)) and row.closed and not _is_there(state, job, now):
            raise QueueClosed(job.queue)
        names = {job.id} | ({(job.queue, job.unique_key)} if job.unique_key is not None else set())
        if not rules_of(state.rules, job.queue).limits or names & seen or _is_there(state, job, now):
            continue
        seen |= names
        coming.setdefault(job.queue, Counter())[band(job.priority)] += 1
    for queue, counts in coming.items():
        rules = rules_of(state.rules, queue)
        waiting = state.queues[queue].waiting if queue in state.queues else Counter[str]()
        for name, most in rules.limits.items():
            after = waiting + counts
            if (after[name] if name else after.total()) > most and (not name or counts[name]):
                raise QueueFull(queue, most, rules.retry_after, name)


def _is_there(state: MemoryState, job: NewJob, now: float) -> bool:
    if job.id in state.jobs:
        return True
    return job.unique_key is not None and state.unique.holder((job.queue, job.unique_key), state.jobs, now) is not None


def admitted(state: MemoryState, queue: QueueRow, rules: QueueRules, room: Room) -> Allowance:
    """Return what may be claimed of a queue with limited claims, refilling the tokens of its rate."""
    now = state.clock.now()
    running = sum(row.queue == queue.name for row in state.running.values())
    tokens = rules.burst() if isinf(queue.tokens) else queue.tokens
    allowed = allowance(rules, room, running, tokens, now - queue.refilled_at)
    queue.tokens, queue.refilled_at = allowed.tokens, now
    return allowed


class MemoryStore:
    """Jobs in dictionaries; see queue_core.ports.store.JobStore for what each method does."""

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

    async def prepare(self, jobs: Sequence[NewJob]) -> None:
        """Do nothing: no locks and numbers are needed."""

    async def insert_on(self, connection: Any, jobs: Sequence[NewJob], prepared: object = None) -> list[Inserted]:
        """Hold jobs back for a handler's transaction; on any other connection write them at once: it is elsewhere."""
        return connection.hold(jobs) if isinstance(connection, MemoryTransaction) else await self.insert(jobs)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[MemoryTransaction]:
        """Give what holds back a handler's jobs; `settle_on` writes them."""
        yield MemoryTransaction()

    async def settle_on(self, connection: MemoryTransaction, outcome: Outcome) -> Settled:
        with self.state.lock:
            row = self.state.jobs.get(outcome.id)
            if row is None or row.lease is None or row.lease.token != outcome.token:
                return Settled(outcome.id, accepted=False)
            self.write(connection.jobs)
            rows = [self.state.jobs[job.id] for job in connection.jobs if job.id in self.state.jobs]
            settled = settle(self.state, outcome)
            ready = tuple(one.ready() for one in rows if one.status is Status.QUEUED and not one.blocked)
            return settled._replace(unblocked=self.state.unblocked() + ready)

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
        with self.state.lock:
            queue = self.state.queues.get(request.queue)
            if queue is None or queue.paused:
                return []
            types = request.types
            wanted = (row for row in self._candidates(request) if types is None or row.given.type in types)
            rules = rules_of(self.state.rules, request.queue)
            room = Room(request.limit, request.limit if request.start_count is None else request.start_count)
            allowed = admitted(self.state, queue, rules, room) if rules.limits_claims else Allowance(*room, inf, inf)
            chosen = of_one_claim(islice(wanted, allowed.most))
            queue.tokens = allowed.left(len(chosen))
            starts = [place < allowed.starting for place in range(len(chosen))]
            return [
                row.claim(self.state.start(row, request, begins)) for row, begins in zip(chosen, starts, strict=True)
            ]

    def _candidates(self, request: ClaimRequest) -> Iterator[JobRow]:
        if request.ids is None:
            return (self.state.jobs[job_id] for _, job_id in self.state.queues[request.queue].ready)
        return iter(self._ready_among(request.queue, request.ids))

    def _ready_among(self, queue: str, ids: Sequence[str]) -> list[JobRow]:
        found = [self.state.jobs[job_id] for job_id in set(ids) if job_id in self.state.jobs]
        ready = [row for row in found if row.status is Status.QUEUED and not row.blocked and row.queue == queue]
        return sorted(ready, key=lambda row: row.rank)

    async def settle(self, outcomes: Sequence[Outcome]) -> list[Settled]:
        with self.state.lock:
            return [settle(self.state, outcome)._replace(unblocked=self.state.unblocked()) for outcome in outcomes]

    async def settle_and_claim(
        self, outcomes: Sequence[Outcome], requests: Sequence[ClaimRequest]
    ) -> tuple[list[Settled], list[Claim]]:
        settled = await self.settle(outcomes)
        return settled, [claim for one in requests for claim in await self.claim(restrict_to_unblocked(one, settled))]

    async def log(self, lines: Sequence[LogLine]) -> list[bool]:
        with self.state.lock:
            return [append(self.state, line) for line in lines]

    async def ask_stack(self, job_id: str) -> JobStack | None:
        with self.state.lock:
            return ask_stack(self.state, job_id)

    async def stacks(self, job_id: str) -> list[JobStack]:
        with self.state.lock:
            return read_stacks(self.state, job_id)

    async def register_types(self, types: Mapping[str, Mapping[str, Any]]) -> None:
        """Write the JSON Schema of the payloads that each of these types takes, where it has changed."""
        with self.state.lock:
            self.state.register_types(types)

    async def register_release(self, name: str) -> int:
        """Write a release at its place in the order of all unless it is known; return its number."""
        with self.state.lock:
            in_use = {worker.request.release for worker in self.state.workers.values()}
            return self.state.releases.register(name, moment(self.state.clock.now()), in_use)

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
        with self.state.lock:
            return max(0.0, self.state.due[0][0] - self.state.clock.now()) if self.state.due else None

    async def reclaim(self, limit: int, bound: int = MAX_LOSSES) -> list[Reclaimed]:
        with self.state.lock:
            now = self.state.clock.now()
            expired = [
                (row, row.lease) for row in self.state.running.values() if row.lease and row.lease.expires_at < now
            ]
            return [
                reclaim(self.state, row, lease, bound)._replace(unblocked=self.state.unblocked())
                for row, lease in expired[:limit]
            ]

    async def list_claimable(self, queue: str, limit: int) -> list[Ready]:
        with self.state.lock:
            found = self.state.queues.get(queue)
            if found is None or found.paused:
                return []
            announced = self.state.announced()
            rows = (self.state.jobs[job_id] for _, job_id in found.ready)
            return [row.ready() for row in islice((row for row in rows if announced.has(queue, row.given.type)), limit)]

    async def list_claimable_in(self, queues: Sequence[str], limit: int) -> list[Ready]:
        """Return what `list_claimable` returns of each of these queues."""
        return [ready for queue in queues for ready in await self.list_claimable(queue, limit)]

    async def ready_queues(self) -> list[str]:
        """Return the queues that are not paused and have ready jobs."""
        with self.state.lock:
            return [name for name, queue in self.state.queues.items() if queue.ready and not queue.paused]

    async def filter_claimable(self, queue: str, ids: Sequence[str]) -> list[Ready]:
        """Return those of these jobs that are claimable now and whose type a live worker of this queue announced."""
        with self.state.lock:
            found = self.state.queues.get(queue)
            if found is None or found.paused:
                return []
            announced = self.state.announced()
            return [row.ready() for row in self._ready_among(queue, ids) if announced.has(queue, row.given.type)]

    async def list_ready(self, queue: str, rank: int, limit: int, whole: bool = True) -> list[Ready]:
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

    async def results(self, ids: Sequence[str]) -> list[JobResult]:
        """Return what is known about these jobs."""
        with self.state.lock:
            since = self.state.clock.now() - (self.state.retention.results or inf)
            found = [self.state.jobs[job_id] for job_id in dict.fromkeys(ids) if job_id in self.state.jobs]
            return [row.job_result(since) for row in found]

    async def acquire_leadership(self, duty: str, worker: str, seconds: float) -> bool:
        """Take or renew the leadership of a duty."""
        with self.state.lock:
            now = self.state.clock.now()
            leader, until = self.state.leaders.get(duty, (worker, now))
            if leader != worker and until >= now:
                return False
            self.state.leaders[duty] = (worker, now + seconds)
            return True

    async def write_off(self, workers: Sequence[str], place: str) -> None:
        with self.state.lock:
            end_leases(self.state, lambda row, lease: lease.worker in workers)
        for worker in workers:
            await self.unregister_worker(worker)

    async def unregister_worker(self, worker: str, place: str = "") -> None:
        """Remove a worker's entry and its leaderships."""
        with self.state.lock:
            self.state.workers.pop(worker, None)
            for duty in [duty for duty, (leader, _) in self.state.leaders.items() if leader == worker]:
                del self.state.leaders[duty]

    async def prepare_history(self) -> None:
        """Do nothing: there is always room."""

    async def upkeep(self) -> None:
        """Remove what its retention no longer keeps."""
        with self.state.lock:
            prune(self.state)
            self.state.unblocked()  # left to the audit

    def open_heartbeat(self) -> MemoryHeartbeat:
        """Return a link for a heartbeat thread."""
        return MemoryHeartbeat(self.state)


def _check(job: NewJob) -> None:
    """Refuse a row that no store may hold, as the constraints of a database do."""
    parse_priority(job.priority)
    if not 0 < len(job.queue) <= 200:
        raise InvalidJob("a queue's name has 1 to 200 characters")
