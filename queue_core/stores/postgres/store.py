"""The hot path on PostgreSQL. What each statement does and locks is described in its file under sql/."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from operator import itemgetter
from typing import Any

from queue_core.errors import StoreRefused
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
from queue_core.model.rules import Rules, mention
from queue_core.model.settings import PostgresSettings, RetentionSettings
from queue_core.ports.delivery import Led
from queue_core.ports.locks import LockHeld
from queue_core.ports.store import ClaimRequest, DueWork
from queue_core.ports.streams import JobParts
from queue_core.stores.postgres import logs
from queue_core.stores.postgres.claim import PostgresClaims
from queue_core.stores.postgres.dialect import Rows, text_array
from queue_core.stores.postgres.insert import PostgresInserts, Runners
from queue_core.stores.postgres.migrate import require_schema
from queue_core.stores.postgres.ordering import promote_with_keys
from queue_core.stores.postgres.scans.blocks import BlockScan
from queue_core.stores.postgres.scans.times import READY_REST, SINCE_EVER, SLOW_READY_SCANS, DueTimes, ScanTimes
from queue_core.stores.postgres.session.epoch import LeaseEpoch
from queue_core.stores.postgres.session.heartbeat import PostgresHeartbeat
from queue_core.stores.postgres.session.listening import Notifications
from queue_core.stores.postgres.session.plans import make_days
from queue_core.stores.postgres.session.queue_ids import QUEUES, QueueIds
from queue_core.stores.postgres.session.runner import SerialRunner
from queue_core.stores.postgres.session.signals import PostgresSignals
from queue_core.stores.postgres.session.transaction import Transactions
from queue_core.stores.postgres.settle import Settles, complete, reclaim
from queue_core.stores.postgres.statistics.releases import register_release
from queue_core.stores.postgres.upkeep import PostgresUpkeep

LOCKED_SECONDS = 0.1
"""Seconds until ordering keys that another transaction has locked are tried again."""
FEW_DUE = 10
"""At most so many due jobs found by a read whose time is taken as that of the read itself."""
DUE_HORIZON = 3.0
"""Seconds within which a due time is notified to the leader: more than its longest rest."""


class PostgresStore:
    """Jobs in PostgreSQL; see queue_core.ports.store.JobStore for what each method does."""

    name = "postgres"

    def __init__(
        self,
        settings: PostgresSettings,
        retention: RetentionSettings | None = None,
        rules: Rules | None = None,
        notifications: Notifications | None = None,
    ) -> None:
        self._settings = settings
        self._notifications = notifications or Notifications(settings)
        self._sessions = self._notifications.sessions
        # A runner for each kind of work, so that none waits for all calls of another: an enqueue does not wait for
        # reads of results, nor a plain settle for one of ordering keys that another transaction has locked.
        runners = [SerialRunner(settings, self._sessions) for _ in range(9)]
        self._inserts, self._claims, settles, self._sweeps, self._reads, self._logs, self._keyed, *others = runners
        retention, rules = retention or RetentionSettings(), rules or {}
        self._upkeep = PostgresUpkeep(self._sweeps, self._keyed, settings, retention, rules)
        # Seconds; a thousand years mean never.
        self._results = 3e10 if retention.results is None else retention.results
        self._signals = PostgresSignals(self._notifications)
        # duties and the workers of this process that lead them, as far as is known
        self._leading: set[tuple[str, str]] = set()
        self._epoch = LeaseEpoch(self._sweeps)
        self._transactions = Transactions(settings, partial(self._sweeps.run_plan, make_days))
        self._queue_ids = QueueIds()
        self._settling = Settles(settles, self._keyed, rules, self._queue_ids.known)
        self.inserter = PostgresInserts(Runners(self._inserts, *others), self._reads, self._queue_ids, rules)
        self._claimer = PostgresClaims(
            self._claims, self._sweeps, rules, lambda queue: self._notifications.call_here("ready", queue), self.hears
        )
        self._notifications.on("ranks", self._claimer.reread_notified)
        self._notifications.on_gap(self._claimer.reread_all)
        self._rules = rules
        self._leases = BlockScan(self._sweeps, "leases")
        self._due = DueTimes()
        # those at whether anything is ready
        self._ready = ScanTimes(READY_REST, SLOW_READY_SCANS)
        # whether due jobs waited for ordering keys that other transactions had locked in the last round
        self._locked = False

    async def open(self) -> None:
        """Connect and check the schema.

        Raises:
            SchemaMissing, SchemaNewer, SchemaEarlier: the schema does not fit.
        """
        await require_schema(self._settings.schema, self._inserts.run)

    async def close(self) -> None:
        await self._upkeep.history.close()
        await self._signals.close()
        await self._notifications.close()
        await self._transactions.close()
        await self._sessions.close()

    def on_new_queues(self, call: Callable[[Sequence[str]], None]) -> None:
        """Call a function with the queues that this process creates."""
        self._queue_ids.created = call

    # -- producers

    async def insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Write the jobs, all or none, as queued or scheduled, creating their queues; return results in their order."""
        return self._written(jobs, await self.inserter.insert(jobs))

    async def insert_soon(self, jobs: Sequence[NewJob], patience: float, again: bool) -> list[Inserted]:
        """See queue_core.ports.locks.LockingStore."""
        return self._written(jobs, await self.inserter.insert_soon(jobs, patience, again))

    async def insert_parts(self, jobs: JobParts) -> list[Inserted]:
        """See queue_core.ports.streams.StreamingStore."""
        inserted = await self.inserter.insert_parts(jobs.parts, len(jobs))
        return self._written([job for part in jobs.parts() for job in part], inserted)

    def _written(self, jobs: Sequence[NewJob], inserted: list[Inserted]) -> list[Inserted]:
        if any(_soon(job.delay, job.run_at) for job, one in zip(jobs, inserted, strict=True) if one.due is not None):
            self._signals.soon()
        return inserted

    async def prepare(self, jobs: Sequence[NewJob]) -> Mapping[str, int]:
        return await self.inserter.prepare(jobs)

    async def insert_on(
        self, connection: Any, jobs: Sequence[NewJob], prepared: Mapping[str, int] | None = None
    ) -> list[Inserted]:
        queue_ids = await self.inserter.prepare(jobs) if prepared is None else prepared
        return await self.inserter.write_on(connection, jobs, queue_ids)

    async def committed(self, seconds: float) -> set[str]:
        """Wait until callers' transactions have committed, or an earlier due time is notified, or `seconds` pass.

        Return the queues that received jobs.
        """
        return await self._signals.wait(seconds)

    async def results(self, ids: Sequence[str]) -> list[JobResult]:
        return await self.inserter.results(ids, self._results)

    # -- workers

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        queue_id = await self._queue_ids.find(request.queue, self._claims)
        if queue_id is None or request.limit <= 0:
            return []
        await self._epoch.check()
        claims = await self._claimer.claim(queue_id, request)
        if not claims:
            await self._queue_ids.doubt(self._claims)
        return claims

    async def settle(self, outcomes: Sequence[Outcome]) -> list[Settled]:
        settled, _ = await self._settling.settle(outcomes)
        self._note_settled(outcomes, settled)
        return settled

    async def settle_and_claim(
        self, outcomes: Sequence[Outcome], requests: Sequence[ClaimRequest]
    ) -> tuple[list[Settled], list[Claim]]:
        numbered = [
            (queue_id, request)
            for request in requests
            if (queue_id := await self._queue_ids.find(request.queue, self._claims)) is not None
        ]
        # All take the locks of queues in one order: no two workers wait for each other.
        numbered.sort(key=itemgetter(0))
        behind = [await self._claimer.behind(*one) for one in numbered]
        settled, claimed = await self._settling.settle(outcomes, behind)
        self._note_settled(outcomes, settled)
        return settled, [claim for one in claimed for claim in await self._claimer.claimed_behind(*one)]

    def _note_settled(self, outcomes: Sequence[Outcome], settled: Sequence[Settled]) -> None:
        ready = [ready for one in settled for ready in one.unblocked]
        for outcome, one in zip(outcomes, settled, strict=True):
            if one.rank is not None:
                ready.append(Ready(one.id, outcome.queue, one.rank))
        if ready:
            self._claimer.reread(ready)
        later = (one for one in outcomes if one.kind == "retrying" or one.delay or one.run_at)
        if any(_soon(one.delay, one.run_at) for one in later):
            self._signals.soon()

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        return self._transactions.begin()

    async def settle_on(self, connection: Any, outcome: Outcome) -> Settled:
        awaited = outcome.ordering_key is not None
        return await self._transactions.settle(connection, complete(outcome, self._rules), awaited)

    async def log(self, lines: Sequence[LogLine]) -> list[bool]:
        """Append lines to the logs of jobs; return for each whether its token still holds."""
        return await logs.append(self._logs, lines)

    async def ask_stack(self, job_id: str) -> JobStack | None:
        return await logs.ask_stack(self._logs, job_id)

    async def stacks(self, job_id: str) -> list[JobStack]:
        return await logs.read_stacks(self._logs, job_id)

    async def register_types(self, types: Mapping[str, Mapping[str, Any]]) -> None:
        await logs.register_types(self._sweeps, types)

    async def register_release(self, name: str) -> int:
        return await register_release(self._sweeps, name)

    async def write_off(self, workers: Sequence[str], place: str) -> None:
        await self._sweeps.run("store/worker_write_off", {"workers": text_array(workers)})

    async def unregister_worker(self, worker: str, place: str = "") -> None:
        """Remove a worker's entry after its end."""
        self._signals.orders.pop(worker, None)
        await self._sweeps.run("store/worker_retire", {"worker": worker})

    def open_heartbeat(self) -> PostgresHeartbeat:
        return PostgresHeartbeat(self._settings)

    # -- the leader

    async def promote(self, limit: int) -> list[Ready]:
        """Move due scheduled and retrying jobs to queued."""
        back, began = self._due.back(), time.monotonic()
        rows = await self._sweeps.run("store/promote", {"limit": limit, "back": back})
        if len(rows) < FEW_DUE:
            self._due.note_duration(back, time.monotonic() - began)
        ready = [Ready(job_id, queue, rank) for job_id, queue, rank, key in rows if key is None]
        named = [row for row in rows if row[3] is not None]
        if named:
            ready = sorted(ready + await self._promote_with_keys(named), key=lambda one: one.rank)
        else:
            self._locked = False
        if len(rows) < limit and not self._locked:
            self._due.promoted(began)
        self._claimer.reread(ready)
        return ready

    async def _promote_with_keys(self, named: Rows) -> list[Ready]:
        try:
            unblocked, self._locked = await self._keyed.run_plan(
                lambda: promote_with_keys(named, self._rules), patient=False
            )
        except LockHeld:
            unblocked, self._locked = await self._keyed.run_plan(
                lambda: promote_with_keys(named, self._rules, make=False)
            )
        return unblocked

    async def next_due(self) -> float | None:
        """Return the seconds until the next scheduled or retrying job is due, or None."""
        back, began = self._due.back(), time.monotonic()
        seconds: float | None = (await self._sweeps.run("store/next_due", {"back": back}))[0][0]
        self._due.note_duration(back, time.monotonic() - began)
        if not self._locked:
            return seconds
        return LOCKED_SECONDS if seconds is None or seconds <= 0 else min(seconds, LOCKED_SECONDS)

    async def reclaim(self, limit: int, bound: int = MAX_LOSSES) -> list[Reclaimed]:
        taken = await reclaim(self._leases, self._keyed, limit, bound, self._rules)
        if taken:
            # A lost worker may have released others before, and stopped before the notification.
            self._claimer.heads.passed.reread_all()
        self._claimer.reread([Ready(one.id, one.queue, one.rank) for one in taken if one.rank is not None])
        self._claimer.reread([ready for one in taken for ready in one.unblocked])
        return taken

    async def list_claimable(self, queue: str, limit: int) -> list[Ready]:
        return await self._claimer.heads.list_claimable_in([queue], limit)

    async def list_claimable_in(self, queues: Sequence[str], limit: int) -> list[Ready]:
        """Return what `list_claimable` returns of each of these queues, in one statement."""
        return await self._claimer.heads.list_claimable_in(queues, limit)

    async def ready_queues(self) -> list[str]:
        """Return the queues that are not paused and have ready or running jobs."""
        return await self._claimer.heads.ready_queues()

    async def filter_claimable(self, queue: str, ids: Sequence[str]) -> list[Ready]:
        return await self._claimer.filter_claimable(queue, await self._queue_ids.find(queue, self._claims), ids)

    async def list_ready(self, queue: str, rank: int, limit: int, whole: bool = True) -> list[Ready]:
        """Return ready jobs of a queue with a higher rank than this, in order, those that are passed if `whole`."""
        queue_id = await self._queue_ids.find(queue, self._sweeps)
        return await self._claimer.heads.list_ready(queue, queue_id, rank, limit, whole)

    async def queues(self) -> dict[str, bool]:
        rows = await self._sweeps.run(QUEUES)
        self._queue_ids.remember((name, queue_id) for name, queue_id, _ in rows)
        mention(self._rules, (name for name, _, _ in rows))
        return {name: paused for name, _, paused in rows}

    async def acquire_leadership(self, duty: str, worker: str, seconds: float) -> bool:
        if duty == "sweep":
            self._notifications.start()
        if (duty, worker) not in self._leading:
            # A worker that does not lead reads before it locks: else a thousand workers wait for the row of one.
            led = (await self.leaders([duty])).get(duty)
            if led is not None and led.worker != worker and led.seconds > 0:
                return False
        rows = await self._sweeps.run("store/lead", {"duty": duty, "worker": worker, "seconds": seconds}, light=True)
        if not rows:
            self._leading.discard((duty, worker))
            return False
        self._leading.add((duty, worker))
        if not rows[0][2]:
            await self._epoch.renew()
        return True

    def hears(self) -> bool:
        """Return whether notifications arrive, so that this process need not poll."""
        return self._notifications.arriving

    def led_at(self) -> float:
        return self._signals.led_at

    def on_order(self, worker: str, place: str, call: Callable[[], None]) -> None:
        self._signals.orders[worker] = (place, call)
        self._notifications.start()

    async def next_work(self) -> DueWork:
        """Return the work that a leader has to do, in one statement.

        Where it takes long, jobs are assumed to be ready or running, and due ones looked for among the last.
        """
        back, busy = self._due.back(), self._ready.rests
        ((*work, took),) = await self._sweeps.run("store/workload", {"back": back, "busy": busy}, light=True)
        if not busy:
            self._ready.note_duration(took)
        elif back == SINCE_EVER:
            self._due.note_duration(back, took)
        return DueWork(*work)

    async def leaders(self, duties: Sequence[str]) -> dict[str, Led]:
        """Return the present or last leaders of these duties."""
        rows = await self._sweeps.run("store/leaders", {"duties": list(duties)}, light=True)
        return {duty: Led(worker, seconds) for duty, worker, seconds in rows}

    async def identity_and_leaders(self, duties: Sequence[str]) -> tuple[str, dict[str, Led]]:
        """Return which database this is, "" where the server does not report it, and the leaders of these duties."""
        try:
            rows = await self._sweeps.run("store/leaders_here", {"duties": list(duties)}, light=True)
        except StoreRefused as error:
            if error.passing:
                raise
            return "", await self.leaders(duties)
        return rows[0][0], {duty: Led(worker, seconds) for _, duty, worker, seconds in rows if duty is not None}

    async def prepare_history(self) -> None:
        """Create the history's partitions for today and the days ahead."""
        await self._upkeep.prepare_history()

    async def upkeep(self) -> None:
        """Fold counters, prepare and drop history by its retention, in bounded steps."""
        await self._upkeep.run()


def _soon(delay: float, run_at: float | None) -> bool:
    """Return whether a job is due before a leader's next read without a notification; clocks may differ by a minute."""
    return delay < DUE_HORIZON if run_at is None else run_at - time.time() < 60 + DUE_HORIZON
