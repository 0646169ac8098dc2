"""The hot path on PostgreSQL. What each statement does and locks stands in its file under queries/."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from queue_core.job import MOST_LOSSES, Claim, Final, Inserted, LogLine, NewJob, Outcome, Ready, Reclaimed, Settled
from queue_core.rules import Rules
from queue_core.settings import PostgresSettings, RetentionSettings
from queue_core.store import ClaimRequest, Led, Look
from queue_core.stores.postgres import logs
from queue_core.stores.postgres.claiming import Claiming, ready_again
from queue_core.stores.postgres.ends import Ends, Lanes
from queue_core.stores.postgres.heart import PostgresHeart
from queue_core.stores.postgres.lane import Lane
from queue_core.stores.postgres.listening import News, Notifications
from queue_core.stores.postgres.migrate import require
from queue_core.stores.postgres.numbers import Numbers
from queue_core.stores.postgres.producing import Producing
from queue_core.stores.postgres.transactions import Transactions
from queue_core.stores.postgres.upkeep import Upkeep

HORIZON = 3.0
"""Seconds within which what is due is told to the leader: more than it ever rests."""


class PostgresStore:
    """Jobs in PostgreSQL; see queue_core.store.JobStore for what each method does."""

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
        # A lane for each kind of work, so that none waits for all that is asked of another: an enqueue does not for
        # those who ask what became of jobs, nor a plain settle for one of ordering keys that somebody has locked.
        lanes = [Lane(settings, self._sessions) for _ in range(7)]
        self._inserts, self._claims, self._settles, self._sweeps, self._looks, self._logs, self._keyed = lanes
        retention, rules = retention or RetentionSettings(), rules or {}
        self._upkeep = Upkeep(self._sweeps, self._keyed, settings, retention, rules)
        # Seconds; a thousand years stand for never.
        self._results = 3e10 if retention.results is None else retention.results
        self._news = News(self._notifications)
        # duties and the workers of this process that lead them, as far as is known
        self._leading: set[tuple[str, str]] = set()
        self._transactions = Transactions(settings)
        self._numbers = Numbers()
        self.producing = Producing(self._inserts, self._looks, self._numbers, rules)
        self._claiming = Claiming(self._claims, self._sweeps, self._numbers, rules)
        self._notifications.on("ranks", self._claiming.heard)
        self._ends = Ends(Lanes(self._settles, self._sweeps, self._keyed), rules)

    async def open(self) -> None:
        """Connect and check the schema.

        Raises:
            SchemaMissing, SchemaNewer: the schema does not fit.
        """
        require(int((await self._inserts.run("upkeep/version"))[0][0]))

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        await self._upkeep.history.close()
        await self._news.close()
        await self._notifications.close()
        await self._transactions.close()
        await self._sessions.close()

    # -- producers

    async def insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Write the jobs, all or none, as queued or scheduled, creating their queues; answer in the same order."""
        inserted = await self.producing.insert(jobs)
        if any(_soon(job.delay, job.run_at) for job, one in zip(jobs, inserted, strict=True) if one.due is not None):
            self._news.soon()
        return inserted

    async def insert_on(self, connection: Any, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Write the jobs in the transaction of a caller's connection; nobody sees them before it commits."""
        return await self.producing.insert_on(connection, jobs)

    async def committed(self, seconds: float) -> set[str]:
        """Wait until callers' transactions have committed, or something is due soon, or the time is over.

        Return the queues that got jobs.
        """
        return await self._news.wait(seconds)

    async def finals(self, ids: Sequence[str]) -> list[Final]:
        """Return what is known about these jobs, unknown ids left out."""
        return await self.producing.finals(ids, self._results)

    # -- workers

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        """Move ready jobs of a queue that is not paused to running, best rank first, each under a new lease token."""
        return await self._claiming.claim(request)

    async def settle(self, outcomes: Sequence[Outcome]) -> list[Settled]:
        """End attempts whose token still holds; refuse the others without changing anything."""
        settled = await self._ends.settle(outcomes)
        self._claiming.came_back(ready_again(outcomes, settled))
        later = (one for one in outcomes if one.kind == "retrying" or one.delay or one.run_at)
        if any(_soon(one.delay, one.run_at) for one in later):
            self._news.soon()
        return settled

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Give a connection in a transaction, which the block's normal end commits and an exception rolls back."""
        return self._transactions.begin()

    async def settle_on(self, connection: Any, outcome: Outcome) -> Settled:
        """Complete an attempt in the transaction of such a connection, or refuse; done once that has committed."""
        awaited = outcome.ordering_key is not None
        return await self._transactions.settle(connection, self._ends.completion(outcome), awaited)

    async def log(self, lines: Sequence[LogLine]) -> list[bool]:
        """Append lines to the logs of jobs; say of each whether its token still holds."""
        return await logs.append(self._logs, lines)

    async def announce(self, types: Mapping[str, Mapping[str, Any]]) -> None:
        """Write the JSON Schema of the payloads that each of these types takes, where it has changed."""
        await logs.announce(self._sweeps, types)

    async def write_off(self, workers: Sequence[str], place: str) -> None:
        """Remove the entries and leaderships of workers whose processes are gone, and end their leases."""
        await self._ends.write_off(workers)

    async def retire(self, worker: str, place: str = "") -> None:
        """Remove a worker's entry after its end."""
        self._news.orders.pop(worker, None)
        await self._sweeps.run("worker/retire", {"worker": worker})

    def heart(self) -> PostgresHeart:
        """Return a new link for a heartbeat thread."""
        return PostgresHeart(self._settings)

    # -- the leader

    async def promote(self, limit: int) -> list[Ready]:
        """Move due scheduled and retrying jobs to queued."""
        ready = await self._ends.promote(limit)
        self._claiming.came_back(ready)
        return ready

    async def next_due(self) -> float | None:
        """Return the seconds until the next scheduled or retrying job is due, or None."""
        return await self._ends.next_due()

    async def reclaim(self, limit: int, bound: int = MOST_LOSSES) -> list[Reclaimed]:
        """Move jobs whose lease expired to queued with one loss more, or bury them as lost where that makes `bound`."""
        taken = await self._ends.reclaim(limit, bound)
        self._claiming.came_back([Ready(one.id, one.queue, one.rank) for one in taken if one.rank is not None])
        self._claiming.came_back([ready for one in taken for ready in one.opened])
        return taken

    async def head(self, queue: str, limit: int) -> list[Ready]:
        """Return the first claimable jobs of a queue by rank whose type a live worker of this queue has announced."""
        return await self._claiming.heads.heads([queue], limit)

    async def heads(self, queues: Sequence[str], limit: int) -> list[Ready]:
        """Return what `head` returns of each of these queues, in one statement."""
        return await self._claiming.heads.heads(queues, limit)

    async def ready_queues(self) -> list[str]:
        """Return the queues that are not paused and have ready or running jobs."""
        return await self._claiming.heads.ready_queues()

    async def claimable(self, queue: str, ids: Sequence[str]) -> list[Ready]:
        """Return those of these jobs that are claimable now and whose type a live worker of this queue announced."""
        return await self._claiming.claimable(queue, ids)

    async def ready_after(self, queue: str, rank: int, limit: int, whole: bool = True) -> list[Ready]:
        """Return ready jobs of a queue with a higher rank than this, in order, those that are passed if `whole`."""
        return await self._claiming.ready_after(queue, rank, limit, whole)

    async def queues(self) -> dict[str, bool]:
        """Return every queue's name and whether it is paused."""
        rows = await self._sweeps.run("sweep/queues")
        self._numbers.remember((name, number) for name, number, _ in rows)
        return {name: paused for name, _, paused in rows}

    async def lead(self, duty: str, worker: str, seconds: float) -> bool:
        """Take or renew the leadership of a duty for some seconds; False when another worker holds it."""
        if duty == "sweep":
            self._notifications.start()
        if (duty, worker) not in self._leading:
            # Whoever does not lead reads before it locks: a thousand workers wait for a row that one of them holds.
            led = (await self.leaders([duty])).get(duty)
            if led is not None and led.worker != worker and led.seconds > 0:
                return False
        rows = await self._sweeps.run("sweep/lead", {"duty": duty, "worker": worker, "seconds": seconds})
        if not rows:
            self._leading.discard((duty, worker))
            return False
        self._leading.add((duty, worker))
        if not rows[0][2]:
            await self._raise_epoch()
        return True

    def hears(self) -> bool:
        """Tell whether notifications arrive, so that what others do need not be asked for."""
        return self._notifications.arriving

    def led_at(self) -> float:
        """Return the time of time.monotonic at which a leader of the sweeps was heard last."""
        return self._news.led_at

    def on_order(self, worker: str, place: str, call: Callable[[], None]) -> None:
        """Call when an order was left for a worker, or another one has come to its place, until it retires."""
        self._news.orders[worker] = (place, call)
        self._notifications.start()

    async def look(self) -> Look:
        """Return what a leader has to do, in one statement."""
        return await self._ends.look()

    async def leaders(self, duties: Sequence[str]) -> dict[str, Led]:
        """Return who leads these duties, or has led them last."""
        rows = await self._sweeps.run("sweep/leaders", {"duties": list(duties)})
        return {duty: Led(worker, seconds) for duty, worker, seconds in rows}

    async def _raise_epoch(self) -> None:
        """Raise the lease epoch after a crash of the server, which empties its unlogged live copy."""
        await self._sweeps.transaction([("claim/epoch_lock", None), ("claim/epoch_raise", None)])

    async def make_room(self) -> None:
        """Make room for the history of today and the days ahead."""
        await self._upkeep.make_room()

    async def upkeep(self) -> None:
        """Fold counters, prepare and drop history by its retention, in bounded steps."""
        await self._upkeep.run()


def _soon(delay: float, run_at: float | None) -> bool:
    """Tell whether a job is due before a leader that does not hear of it looks again; clocks may differ by a minute."""
    return delay < HORIZON if run_at is None else run_at - time.time() < 60 + HORIZON
