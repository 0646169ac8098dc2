"""The duties of the leader: promote, reclaim, forget, fire schedules, and the rounds of the audit."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from queue_core.client.effects import creation_events, offer
from queue_core.client.logs import OutageLog, job_ids, log_death
from queue_core.client.middleware import Hooks
from queue_core.client.operating.executor import Executor
from queue_core.delivery.audit import DeliveryAudit
from queue_core.errors import QueueCoreError, SchemaError, StoreRefused, StoreUnavailable
from queue_core.model.events import Event, EventName
from queue_core.model.job import Ready, Reclaimed, summary
from queue_core.model.outcome import failure_of_loss
from queue_core.ports.backend import Backend
from queue_core.ports.store import DueWork, NotifyingStore
from queue_core.runtime import end_tasks
from queue_core.worker.journal import EventPublisher
from queue_core.worker.neighbours import Neighbours
from queue_core.worker.scheduler import Scheduler

logger = logging.getLogger("queue_core.worker")


LEADER_TICK = 0.5
"""Seconds between two rounds; a job that is due earlier shortens them."""
MIN_TICK = 0.005
DUE_POLL = 0.05
"""Seconds between two reads by the leader of what is due next: so late a job can be that is due sooner than this."""
LEADERSHIP_SECONDS = 1.5
"""Seconds after which another worker takes over from a leader that is gone."""
RESIGN_AFTER = 4
"""Rounds that fail one after another until a leader leaves the duty to others: they may fail for its process alone."""
UPKEEP_INTERVAL = 1.0
"""Seconds between two audits and between two rounds of upkeep."""
IDLE_TICK, IDLE_UPKEEP_INTERVAL = 1.3, 20.0
"""The same between two rounds, and between two rounds of upkeep, while nothing is ready, running or under way and the
leader learns of what is due sooner."""
RECLAIM_LIMIT = 500
PROMOTE_LIMIT = 1000


class Duty(NamedTuple):
    """Who sweeps, and how."""

    # the worker's id
    worker: str
    # seconds
    lease: float
    # losses that bury a job
    max_losses: int
    # that it works on
    queues: Sequence[str] = ()


class Sweeper:
    """Every worker has one; one of them at a time leads."""

    def __init__(
        self,
        backend: Backend,
        executor: Executor,
        hooks: Hooks,
        publisher: EventPublisher,
        duty: Duty,
    ) -> None:
        self._store = store = backend.store
        self._scheduler = Scheduler(backend.schedules, hooks)
        self._executor = executor
        self._dispatcher = dispatcher = backend.dispatcher
        self._publisher = publisher
        self._duty = duty
        # A job of a lost leader waits for its lease to end and for the next leader: the shorter counts.
        self._leadership = min(LEADERSHIP_SECONDS, max(2 * LEADER_TICK, duty.lease))
        self._audit = None if dispatcher is None else DeliveryAudit(store, dispatcher, duty.queues)
        # the other workers on this machine, whose jobs this one takes back when they are gone, whichever worker leads
        self.neighbours = Neighbours(store, self.reclaim)
        # seconds of time.monotonic
        self._slow_at = self._led_at = float("-inf")
        self._leads = False
        # rounds that failed one after another, and until when (time.monotonic) it leaves the duty to others
        self._failed_rounds, self._resigned_until = 0, float("-inf")
        self._sweeps, self._audits = OutageLog(logger, "sweep waits"), OutageLog(logger, "the audit waits")
        self._notifying = store if isinstance(store, NotifyingStore) else None
        # what was to be done in the last round; None: it has to be found out duty by duty
        self._due_work: DueWork | None = None

    async def run(self) -> None:
        """Sweep for ever."""
        beside: asyncio.Task[None] | None = None
        operating = asyncio.create_task(self._executor.run(self._operates))
        try:
            while True:
                pause = LEADER_TICK
                try:
                    leads = await self._round()
                    self._sweeps.worked()
                    if leads:
                        # Beside the rounds: an audit of many queues must not make jobs late that become due meanwhile.
                        if beside is None or beside.done():
                            beside = asyncio.create_task(self._maintain())
                        pause = await self._until_due()
                except StoreUnavailable as error:
                    self._sweeps.failed(error)
                    pause = LEADER_TICK * 2
                await self._rest(pause)
        finally:
            await end_tasks(operating, beside)

    async def _rest(self, pause: float) -> None:
        """Wait for the next round, or until a job is due that was enqueued or retried meanwhile."""
        if not self._leads:
            await self._follow(pause)
            return
        if self._due_work is not None and self._notifying is not None and self._notifying.hears():
            await self._watch_commits(pause, until_notified=True)
            return
        ends = time.monotonic() + pause
        try:
            while (left := ends - time.monotonic()) > 0:
                await self._watch_commits(min(DUE_POLL, left))
                due = await self._store.next_due()
                if due is not None:
                    ends = min(ends, time.monotonic() + max(MIN_TICK, due))
        except StoreUnavailable:
            await asyncio.sleep(max(MIN_TICK, ends - time.monotonic()))

    async def _follow(self, pause: float) -> None:
        """Wait until the leader has been silent for as long as its leadership lasts, or for a pause without news."""
        spread = random.uniform(0.75, 1.25)
        await asyncio.sleep(pause * spread)
        if self._notifying is None:
            return
        silence = self._leadership * random.uniform(1.0, 1.4)
        while self._notifying.hears() and time.monotonic() - self._notifying.led_at() < silence:  # noqa: ASYNC110
            await asyncio.sleep(pause * spread)  # the end of what others do is no event

    def _operates(self) -> bool:
        """Return whether this worker carries operations out, as far as there are any."""
        return self._leads and (self._due_work is None or self._due_work.operations)

    async def _watch_commits(self, seconds: float, until_notified: bool = False) -> None:
        """Wait; jobs that a caller's own transaction committed meanwhile are offered at once."""
        if self._audit is None or self._notifying is None:
            await asyncio.sleep(seconds)
            return
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            for queue in await self._notifying.committed(left):
                await self._audit.offer_head(queue)
            if until_notified:
                return

    async def run_once(self) -> bool:
        """Do one round of everything; False when another worker leads."""
        if not await self._round():
            return False
        await self._maintain()
        return True

    async def _round(self) -> bool:
        now = time.monotonic()
        if now < self._resigned_until:
            return False
        # Where all others see the leader it renews its leadership in its middle.
        if not self._leads or self._notifying is None or now - self._led_at >= self._leadership / 2:
            self._leads = await self._store.acquire_leadership("sweep", self._duty.worker, self._leadership)
            self._led_at = now
        if not self._leads:
            return False
        try:
            await self._sweep()
        except Exception as error:
            # A lock would be held for others as well.
            self._failed_rounds += not (isinstance(error, StoreRefused) and error.passing)
            if self._failed_rounds >= RESIGN_AFTER:
                self._failed_rounds, self._leads = 0, False
                self._resigned_until = time.monotonic() + 3 * self._leadership
            raise
        self._failed_rounds = 0
        return True

    async def _sweep(self) -> None:
        """Do what is due. A duty that fails keeps none of the others from being done."""
        work = self._due_work = None if self._notifying is None else await self._notifying.next_work()
        due: list[Callable[[], Awaitable[int]]] = []
        if work is None or work.busy or (work.lease is not None and work.lease <= 0):
            due.append(self.reclaim)
        if work is None or work.keys_pending or (work.due is not None and work.due <= 0):
            due.append(self.promote)
        if work is None:
            due.append(self.schedule)
        elif work.tick is not None and work.tick <= 0:
            self._scheduler.poll_soon()
            due.append(self.schedule)
        failed: Exception | None = None
        for duty in due:
            try:
                await duty()
            except Exception as error:
                if isinstance(error, StoreUnavailable) and not isinstance(error, StoreRefused):
                    raise  # each would wait for the store in its turn
                failed = failed or error
        if failed is not None:
            raise failed

    async def _maintain(self) -> None:
        """Keep the dispatcher true and the store in order, once a second."""
        work = self._due_work
        waits = self._audit is not None and self._audit.waits
        idle = work is not None and not work.busy and not waits
        if time.monotonic() - self._slow_at < (IDLE_UPKEEP_INTERVAL if idle else UPKEEP_INTERVAL):
            return
        self._slow_at = time.monotonic()
        try:
            if self._audit is not None:
                await self._audit.run_once()
            await self._store.upkeep()
            self._audits.worked()
        except (StoreUnavailable, SchemaError) as error:
            self._audits.failed(error)
        except Exception:
            logger.exception("the audit failed and is tried again")

    async def reclaim(self) -> int:
        """Take back every job whose lease expired and return their number."""
        total = 0
        while True:
            lost = await self._store.reclaim(RECLAIM_LIMIT, self._duty.max_losses)
            total += len(lost)
            for job in lost:
                self._publish(job)
            # A worker that died may have ended jobs whose events it did not send.
            if lost:
                self._publisher.report_gap({job.queue for job in lost})
            ready = [Ready(job.id, job.queue, job.rank) for job in lost if job.rank is not None]
            await offer(self._dispatcher, ready + [unblocked for job in lost for unblocked in job.unblocked])
            if len(lost) < RECLAIM_LIMIT:
                return total

    async def promote(self) -> int:
        """Make every due job ready and return their number."""
        total = 0
        while True:
            ready = await self._store.promote(PROMOTE_LIMIT)
            total += len(ready)
            await offer(self._dispatcher, ready)
            if len(ready) < PROMOTE_LIMIT:
                return total

    async def schedule(self) -> int:
        """Let the ticks of schedules pass that are due, and return the number of jobs that came of them."""
        fired = await self._scheduler.run_once()
        inserted = [one for _, one in fired]
        await offer(self._dispatcher, [Ready(one.id, one.queue, one.rank) for one in inserted if one.rank is not None])
        for event in creation_events([job for job, _ in fired], inserted):
            self._publisher.publish(event)
        return len(fired)

    async def _until_due(self) -> float:
        work = self._due_work
        if work is not None and not work.keys_pending and (work.due is None or work.due > 0):
            times = [one for one in (work.due, work.tick, work.lease) if one is not None]
            idle = not work.busy and self._notifying is not None and self._notifying.hears()
            return max(
                MIN_TICK, min([IDLE_TICK if idle else LEADER_TICK, *(one if one > 0 else LEADER_TICK for one in times)])
            )
        due = await self._store.next_due()
        until = self._scheduler.until_poll() if work is None else LEADER_TICK
        return min(LEADER_TICK, max(MIN_TICK, until if due is None else min(due, until)))

    def _publish(self, job: Reclaimed) -> None:
        failure = failure_of_loss(job.worker, job.losses, self._duty.max_losses)
        what = "took job %s back from lost worker %s (loss %d)"
        logger.warning(what, job.id, job.worker, job.losses, extra=job_ids(job) | {"worker": job.worker})
        if job.rank is None and not job.cancelled:
            log_death(job, failure)
        extra = {
            "error": summary(failure),
            "signature": failure.signature,
            "title": failure.title,
            "kind": failure.kind,
        }
        name = EventName.RELEASED
        if job.rank is None:
            name = EventName.CANCELLED if job.cancelled else EventName.DEAD
        for event in (EventName.FAILED, name):
            self._publisher.publish(Event(event, job.queue, job.id, job.type, job.token, extra))


RESTART_SECONDS = 1.0
"""Seconds until a loop that failed starts again."""


async def keep_running(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """Keep a loop of a worker alive: whatever unexpected ends it is logged, and it starts again."""
    reason = ""
    while True:
        try:
            await run()
            return
        except QueueCoreError as error:
            if str(error) != reason:  # a schema that is gone, as a rule, which lasts for minutes
                reason = str(error)
                logger.error("the %s failed and starts again: %s", name, reason)  # noqa: TRY400
        except Exception:
            logger.exception("the %s failed and starts again", name)
        await asyncio.sleep(RESTART_SECONDS)
