"""The hot path on Redis alone. What each script reads and changes is described in its file under lua/."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

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
)
from queue_core.model.report import JobStack
from queue_core.model.rules import Rules
from queue_core.model.settings import RedisSettings, RetentionSettings
from queue_core.model.states import Status
from queue_core.ports.replicas import Announce
from queue_core.ports.store import ClaimRequest, DueWork
from queue_core.runtime import Batcher
from queue_core.stores.redis import logs
from queue_core.stores.redis.claim.claim import RedisClaims, claims_of, name_of
from queue_core.stores.redis.claim.heartbeat import RedisHeartbeat
from queue_core.stores.redis.insert import RedisInserts
from queue_core.stores.redis.session import JOBS_PER_SCRIPT, RedisLink, portions
from queue_core.stores.redis.settle import (
    end_leases,
    next_due,
    promote,
    read_ahead,
    reclaim,
    settle,
    settle_and_run,
)
from queue_core.stores.redis.statistics.releases import register_release
from queue_core.stores.redis.upkeep import Leadership, RedisUpkeep

MAX_BATCH_IDS = 1000
"""Ids of different callers that one read gathers at most."""

_Write = Callable[[Sequence[NewJob]], Awaitable[list[Inserted]]]

_FINAL = ("status", "result", "error", "completed_at")
_FINAL_WEIGHED = ("status", "?result", "error", "completed_at")
"""Of a large result its length: 1,000 of 1 MB in one answer never came within a time limit."""


SPARE_CANDIDATES = 10
"""Candidates of best rank beside those that are wanted, since others claim at the same moment."""
RANKS_FRESH_SECONDS = 0.1
"""Seconds for which the best ranks that a trip has seen are asked for in the next one."""
JOBS_IN_LINE, JOBS_IN_ALL_LINES, MAX_LINES = 20, 100, 1000
"""Jobs read of an ordering key and, of many keys, of all together; and keys that are remembered."""


class Handovers:
    """Settles and claims in one trip. A script takes the keys of its candidates, so each trip reads those of the next.

    Of an ordering key these are the jobs next in line: which of them the ends unblock, the claim sees, for it passes
    over what is not ready.
    """

    def __init__(self, link: RedisLink, rules: Rules, claimer: RedisClaims) -> None:
        self._link = link
        self._rules = rules
        self._claimer = claimer
        # by queue, and when they were read, in seconds of time.monotonic
        self._best: dict[str, tuple[float, list[str]]] = {}
        # by queue and ordering key
        self._lines: dict[tuple[str, str], list[str]] = {}

    async def settle_and_claim(
        self, outcomes: Sequence[Outcome], requests: Sequence[ClaimRequest]
    ) -> tuple[list[Settled], list[Claim]]:
        now = time.monotonic()
        claiming: list[tuple[ClaimRequest, list[str]]] = []
        reading: list[tuple[ClaimRequest, list[str]]] = []
        for request in requests:
            await self._claimer.hints.leased(request.queue, request.lease)
            keys = [] if request.ids is None else _ordering_keys(outcomes, request.queue)
            ids = self._candidates(request, keys, now)
            if ids:
                claiming.append((request, ids))
            reading.append((request, [key for key in dict.fromkeys(keys) if not self._lines.get((request.queue, key))]))
        reading = [(request, keys) for request, keys in reading if keys or request.ids is None]
        calls = [self._claimer.call(request, ids, name_of(request)) for request, ids in claiming]
        calls += [read_ahead(self._link, request.queue, *_depths(request, keys), keys) for request, keys in reading]
        settled, answers = await settle_and_run(self._link, self._rules, outcomes, calls)
        claims = [
            claim
            for (request, ids), found in zip(claiming, answers, strict=False)
            for claim in claims_of(request.queue, ids, found)
        ]
        claimed = {claim.id for claim in claims}
        for request, ids in claiming:
            if request.ids is not None and not claimed.issuperset(ids):
                # They were not next in line, or are of types that others run.
                for key in _ordering_keys(outcomes, request.queue):
                    self._lines.pop((request.queue, key), None)
        for (request, keys), (best, *lines) in zip(reading, answers[len(claiming) :], strict=True):
            if request.ids is None:
                self._best[request.queue] = time.monotonic(), best
            for key, line in zip(keys, lines, strict=True):
                self._lines[request.queue, key] = line
        while len(self._lines) > MAX_LINES:
            del self._lines[next(iter(self._lines))]
        return settled, claims

    def _candidates(self, request: ClaimRequest, keys: Sequence[str], now: float) -> list[str]:
        """Return the ids to claim, as far as they are known."""
        if request.ids is None:
            at, best = self._best.pop(request.queue, (now, []))
            return best if now - at < RANKS_FRESH_SECONDS else []
        lines = [self._lines.get((request.queue, key)) for key in keys]
        return [line.pop(0) for line in lines if line][: min(request.limit, JOBS_PER_SCRIPT)]


def _depths(request: ClaimRequest, keys: Sequence[str]) -> tuple[int, int]:
    """Return how many jobs of best rank, and how many of each key, the next trip may want."""
    best = request.limit + SPARE_CANDIDATES if request.ids is None else 0
    return best, max(1, min(JOBS_IN_LINE, JOBS_IN_ALL_LINES // max(1, len(keys))))


def _ordering_keys(outcomes: Sequence[Outcome], queue: str) -> list[str]:
    return [one.ordering_key for one in outcomes if one.queue == queue and one.ordering_key is not None]


class RedisStore:
    """Jobs in Redis hashes; see queue_core.ports.store.JobStore for what each method does."""

    name = "redis"

    def __init__(
        self, settings: RedisSettings, retention: RetentionSettings | None = None, rules: Rules | None = None
    ) -> None:
        self._settings = settings
        self._rules = rules = rules or {}
        retention = retention or RetentionSettings()
        self._link = RedisLink(settings)
        self.apart = self._link.apart
        self._leading = Leadership(self._link, settings)
        self._hints, self._signals = self._leading.hints, self._leading.signals
        self._inserter = RedisInserts(self._link, rules)
        self._claimer = RedisClaims(self._link, rules, self._hints)
        self._handovers = Handovers(self._link, rules, self._claimer)
        self._upkeep = RedisUpkeep(self._link, retention, rules)
        # None: no other server can take this one's place. What is removed sooner is not written again.
        self._recent = self._link.recent_jobs(self._restore, retention.completed, retention.dead)
        # what else reads these jobs asks it before one counts as unknown
        self.restored = self._link.restored = None if self._recent is None else self._recent.wait_until_restored
        self._results = retention.results
        # Many may wait for results at once: while one read is under way, the next gathers.
        self._result_reads: Batcher[str, JobResult | None] = Batcher(self._read_results, MAX_BATCH_IDS)

    async def open(self) -> None:
        """Connect and check the version of what is stored.

        Raises:
            SchemaNewer, SchemaEarlier: it was written by another version.
        """
        await self._link.require_schema()

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        if self._recent is not None:
            await self._recent.close()
        await self._leading.close()
        await self._link.close()

    # -- producers

    async def insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Write the jobs, all or none, as queued or scheduled, creating their queues; answer in the same order.

        A list of more than 10,000 jobs is written in several transactions, unless one of its queues has a limit.

        Raises:
            QueueFull: a limit of a queue refuses them; nothing was written.
        """
        return await self._insert(jobs, self._inserter.insert)

    async def insert_new(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        return await self._insert(jobs, self._inserter.insert_new)

    async def _insert(self, jobs: Sequence[NewJob], write: _Write) -> list[Inserted]:
        inserted = await self._remembering(jobs, write)
        await self._hint(inserted)
        return inserted

    async def _hint(self, inserted: Sequence[Inserted]) -> None:
        await self._hints.due(_earliest((one.queue, one.due) for one in inserted if one.due is not None))

    async def _remembering(self, jobs: Sequence[NewJob], write: _Write) -> list[Inserted]:
        if self._recent is None:
            return await write(jobs)
        era = await self._recent.ready()
        inserted = await write(jobs)
        self._recent.add(jobs, inserted, era)
        return inserted

    async def _restore(self, jobs: Sequence[NewJob]) -> tuple[Sequence[NewJob], Sequence[Inserted]]:
        lacking, inserted = await self._inserter.restore(jobs)
        await self._hint(inserted)
        return lacking, inserted

    def remember(self, jobs: Sequence[NewJob]) -> None:
        if self._recent is not None:
            self._recent.keep(jobs)

    def on_restored(self, call: Announce) -> None:
        if self._recent is not None:
            self._recent.announce = call

    def offers(self, jobs: Sequence[NewJob]) -> bool:
        return self._inserter.offers(jobs)

    async def insert_offered(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        return await self._remembering(jobs, self._inserter.insert_offered)

    async def confirm(self, queues: Collection[str]) -> None:
        """Wait until as many replicas as the settings ask for have all that was written to these queues."""
        # A connection's own last write is what replicas are asked for; all earlier ones are before it.
        keys = [self._link.keys.of(queue, "confirming") for queue in queues]
        await self._link.confirm([("SET", key, 1, "PX", 1000) for key in keys])

    async def results(self, ids: Sequence[str]) -> list[JobResult]:
        """Return what is known about these jobs, unknown ids left out."""
        found = await self._result_reads.put(list(dict.fromkeys(ids)))
        return [result for result in found if result is not None]

    async def _read_results(self, ids: Sequence[str]) -> list[JobResult | None]:
        queues, now = await self._link.queues_and_time()
        wanted = list(dict.fromkeys(ids))
        rows = await self._link.read(dict.fromkeys(queues, wanted), _FINAL_WEIGHED)
        if missing := set(wanted).difference(job_id for _, job_id in rows):
            # Unknown, or on the way from one queue to another one.
            moved = await self._link.find(missing, _FINAL_WEIGHED)
            rows |= {(queue, job_id): row for job_id, (queue, row) in moved.items()}
        await self._read_large(rows)
        since = 0 if self._results is None else now - round(self._results * 1e6)
        found = {
            job_id: _result(job_id, Status(status), result, error, int(ended or 0) > since)
            for (_, job_id), (status, result, error, ended) in rows.items()
        }
        return [found.get(job_id) for job_id in ids]

    async def _read_large(self, rows: dict[tuple[str, str], list[Any]]) -> None:
        """Replace the lengths of large results by the results, in parts that one answer carries."""
        large = [(place, row[1]) for place, row in rows.items() if isinstance(row[1], int)]
        for part in portions(large, lambda one: one[1]):
            places: dict[str, list[str]] = {}
            for (queue, job_id), _ in part:
                del rows[queue, job_id]
                places.setdefault(queue, []).append(job_id)
            rows |= await self._link.read(places, _FINAL)

    # -- workers

    def part_of(self, queue: str) -> Hashable:
        return self._link.part_of(queue)

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        return await self._claimer.claim(request)

    async def settle(self, outcomes: Sequence[Outcome]) -> list[Settled]:
        settled = await settle(self._link, self._rules, outcomes)
        await self._note_due(outcomes, settled)
        return settled

    async def settle_and_claim(
        self, outcomes: Sequence[Outcome], requests: Sequence[ClaimRequest]
    ) -> tuple[list[Settled], list[Claim]]:
        settled, claims = await self._handovers.settle_and_claim(outcomes, requests)
        await self._note_due(outcomes, settled)
        return settled, claims

    async def _note_due(self, outcomes: Sequence[Outcome], settled: Sequence[Settled]) -> None:
        later = ((one.queue, end.due) for one, end in zip(outcomes, settled, strict=True) if end.due is not None)
        await self._hints.due(_earliest(later))

    async def log(self, lines: Sequence[LogLine]) -> list[bool]:
        """Append lines to the logs of jobs; return for each whether its token still holds."""
        return await logs.append(self._link, lines)

    async def ask_stack(self, job_id: str) -> JobStack | None:
        return await logs.ask_stack(self._link, job_id)

    async def stacks(self, job_id: str) -> list[JobStack]:
        return await logs.read_stacks(self._link, job_id)

    async def register_types(self, types: Mapping[str, Mapping[str, Any]]) -> None:
        """Write the JSON Schema of the payloads that each of these types takes, where it has changed."""
        if types:
            await logs.register_types(self._link, types)

    async def register_release(self, name: str) -> int:
        return await register_release(self._link, name)

    async def write_off(self, workers: Sequence[str], place: str) -> None:
        for worker in workers:
            await end_leases(self._link, self._hints, worker)
            await self.unregister_worker(worker, place)

    async def unregister_worker(self, worker: str, place: str = "") -> None:
        self._signals.orders.pop(worker, None)
        commands = self._link.batch()
        commands.hdel(self._link.keys.workers, worker)
        commands.hdel(self._link.keys.workers_of_place(place), worker)
        await self._link.send(commands)
        await self._leading.unregister_worker(worker, place)

    def open_heartbeat(self) -> RedisHeartbeat:
        return RedisHeartbeat(self._settings)

    # -- the leader

    async def promote(self, limit: int) -> list[Ready]:
        """Move due scheduled and retrying jobs to queued, those that are due the longest; answer by rank."""
        return await promote(self._link, self._rules, self._hints, limit)

    async def next_due(self) -> float | None:
        return await next_due(self._hints)

    async def reclaim(self, limit: int, bound: int = MAX_LOSSES) -> list[Reclaimed]:
        """Move jobs whose lease expired to queued with one loss more, or bury them as lost where that makes `bound`."""
        return await reclaim(self._link, self._rules, self._hints, limit, bound)

    async def list_claimable(self, queue: str, limit: int) -> list[Ready]:
        return await self._claimer.list_claimable(queue, limit)

    async def list_claimable_in(self, queues: Sequence[str], limit: int) -> list[Ready]:
        """Return what `list_claimable` returns of each of these queues."""
        return [ready for queue in queues for ready in await self.list_claimable(queue, limit)]

    async def ready_queues(self) -> list[str]:
        """Return the queues that are not paused and may have ready jobs."""
        return await self._leading.ready_queues()

    async def filter_claimable(self, queue: str, ids: Sequence[str]) -> list[Ready]:
        """Return those of these jobs that are claimable now and whose type a live worker of this queue announced."""
        return await self._claimer.filter_claimable(queue, ids)

    async def list_ready(self, queue: str, rank: int, limit: int, whole: bool = True) -> list[Ready]:
        """Return ready jobs of a queue with a higher rank than this, in order, always all."""
        return await self._claimer.list_ready(queue, rank, limit)

    async def queues(self) -> dict[str, bool]:
        return await self._leading.queues()

    async def acquire_leadership(self, duty: str, worker: str, seconds: float) -> bool:
        return await self._leading.acquire_leadership(duty, worker, seconds)

    def hears(self) -> bool:
        """Return whether messages of other processes arrive."""
        return self._signals.hears()

    def led_at(self) -> float:
        """Return the time.monotonic of the last message of a leader of the sweeps."""
        return self._signals.led_at

    def on_order(self, worker: str, place: str, call: Callable[[], None]) -> None:
        """Call when an order was left for a worker, or the workers at its place are others, until it retires."""
        self._signals.orders[worker] = (place, call)
        self._signals.start()

    async def committed(self, seconds: float) -> set[str]:
        """Wait until something is due before what the leader knew of, or the time is over; it names no queues."""
        await self._signals.wait(seconds)
        return set()

    async def next_work(self) -> DueWork:
        """Return what a leader has to do."""
        return await self._leading.next_work()

    async def prepare_history(self) -> None:
        """Do nothing: there is always room."""

    async def upkeep(self) -> None:
        """Repair hints, remove what is over its retention, in bounded steps. For the leader."""
        await self._leading.repair()
        await self._upkeep.run()


def _earliest(times: Iterable[tuple[str, float]]) -> dict[str, int]:
    """Return the earliest time of each queue in microseconds."""
    found: dict[str, float] = {}
    for queue, at in times:
        found[queue] = min(at, found.get(queue, at))
    return {queue: round(at * 1e6) for queue, at in found.items()}


def _result(job_id: str, status: Status, result: str | None, error: str | None, kept: bool) -> JobResult:
    return JobResult(job_id, status, result if kept else None, error, status is Status.COMPLETED and not kept)
