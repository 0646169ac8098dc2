"""The hot path on PostgreSQL. What each statement does and locks stands in its file under queries/."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from queue_core.errors import SchemaMissing, SchemaNewer
from queue_core.job import Claim, Final, Inserted, NewJob, Outcome, Ready, Reclaimed, Settled
from queue_core.settings import PostgresSettings, RetentionSettings
from queue_core.store import ClaimRequest
from queue_core.stores.postgres.callers import driver_connection, run_on
from queue_core.stores.postgres.heart import PostgresHeart
from queue_core.stores.postgres.inserting import insert_parameters, inserted
from queue_core.stores.postgres.lane import Lane
from queue_core.stores.postgres.listening import Commits
from queue_core.stores.postgres.migrate import KNOWN
from queue_core.stores.postgres.reclaiming import reclaim_parameters
from queue_core.stores.postgres.records import final_of, known_ids
from queue_core.stores.postgres.settling import Key, answer, by_statement, once, parameters
from queue_core.stores.postgres.sql import plain_array, text_array
from queue_core.stores.postgres.upkeep import Upkeep


class PostgresStore:
    """Jobs in PostgreSQL; see queue_core.store.JobStore for what each method does."""

    name = "postgres"

    def __init__(self, settings: PostgresSettings, retention: RetentionSettings | None = None) -> None:
        self._settings = settings
        # One reserved connection for each kind of work, so that none waits for another.
        self._inserts = Lane(settings)
        self._claims = Lane(settings)
        self._settles = Lane(settings)
        self._sweeps = Lane(settings)
        retention = retention or RetentionSettings()
        self._upkeep = Upkeep(self._sweeps, retention)
        # Seconds; a thousand years stand for never.
        self._results = 3e10 if retention.results is None else retention.results
        self._commits = Commits(settings)
        self._queue_ids: dict[str, int] = {}

    async def open(self) -> None:
        """Connect and check the schema.

        Raises:
            SchemaMissing, SchemaNewer: the schema does not fit.
        """
        found = int((await self._inserts.run("upkeep/version"))[0][0])
        if found < KNOWN:
            raise SchemaMissing(found, KNOWN)
        if found > KNOWN:
            raise SchemaNewer(found, KNOWN)

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        await self._commits.close()
        for lane in (self._inserts, self._claims, self._settles, self._sweeps):
            await lane.close()

    # -- producers

    async def insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Write the jobs, all or none, as queued or scheduled, creating their queues; answer in the same order."""
        if not jobs:
            return []
        numbers = await self._numbers({job.queue for job in jobs}, self._inserts)
        return inserted(jobs, await self._inserts.run("insert/jobs", insert_parameters(jobs, numbers)))

    async def insert_on(self, connection: Any, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Write the jobs in the transaction of a caller's connection; nobody sees them before it commits."""
        if not jobs:
            return []
        # Queues are made apart: a number remembered here must not be rolled back with the caller's work.
        numbers = await self._numbers({job.queue for job in jobs}, self._inserts)
        theirs = await driver_connection(connection)
        rows = await run_on(theirs, "insert/jobs", insert_parameters(jobs, numbers))
        await run_on(theirs, "insert/tell", {"queues": text_array(sorted({job.queue for job in jobs}))})
        return inserted(jobs, rows)

    async def committed(self, seconds: float) -> set[str]:
        """Wait until callers' transactions have committed, or the time is over; return the queues that got jobs."""
        return await self._commits.wait(seconds)

    async def _numbers(self, names: set[str], lane: Lane) -> dict[str, int]:
        missing = sorted(names - self._queue_ids.keys())
        if missing:
            for name, number in await lane.run("insert/queues", {"names": text_array(missing)}):
                self._queue_ids[name] = number
        if not names <= self._queue_ids.keys():
            return await self._numbers(names, lane)  # another producer was creating the same queue at this moment
        return self._queue_ids

    async def finals(self, ids: Sequence[str]) -> list[Final]:
        """Return what is known about these jobs, unknown ids left out."""
        rows = await self._inserts.run("worker/finals", {"ids": plain_array(known_ids(ids)), "seconds": self._results})
        return [final_of(row) for row in rows]

    # -- workers

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        """Move ready jobs of a queue that is not paused to running, best rank first, each under a new lease token."""
        number = await self._number(request.queue, self._claims)
        if number is None or request.limit <= 0:
            return []
        params: dict[str, Any] = {
            "queue_id": number,
            "types": text_array(request.types),
            "limit": request.limit,
            "worker": request.worker,
            "lease": request.lease,
            "starting": request.limit if request.begin is None else request.begin,
        }
        if request.ids is None:
            rows = await self._claims.run("claim/by_rank", params)
        else:
            rows = await self._claims.run("claim/by_ids", params | {"ids": plain_array(known_ids(request.ids))})
        queue = request.queue
        return [
            Claim(job_id, token, queue, type_, payload, priority, rank, retries, limit, crashes, at, tuple(tags or ()))
            for job_id, token, type_, payload, priority, rank, retries, limit, crashes, at, tags in rows
        ]

    async def settle(self, outcomes: Sequence[Outcome]) -> list[Settled]:
        """End attempts whose token still holds; refuse the others without changing anything."""
        first = once(outcomes)
        done: dict[Key, Settled] = {}
        for statement, group in by_statement(first.values()).items():
            rows = await self._settles.run(statement, parameters(statement, group))
            done.update(answer(row) for row in rows)
        if len(done) < len(first):
            done |= await self._second_look([outcome for key, outcome in first.items() if key not in done])
        return [
            done.get(key, refused) if first[key].kind == outcome.kind else refused
            for outcome in outcomes
            for key, refused in [((outcome.id, outcome.token), Settled(outcome.id, False))]
        ]

    async def _second_look(self, refused: Sequence[Outcome]) -> dict[Key, Settled]:
        """Find out why outcomes were refused: to be cancelled instead, written before (a lost reply), or stale."""
        done: dict[Key, Settled] = {}
        ends = [outcome for outcome in refused if outcome.kind in ("retrying", "released")]
        if ends:
            rows = await self._settles.run("settle/cancel_instead", parameters("settle/cancel_instead", ends))
            done = {(job_id, token): Settled(job_id, True, cancelled=True) for job_id, token in rows}
        left = [outcome for outcome in refused if (outcome.id, outcome.token) not in done]
        rows = await self._settles.run(
            "settle/settled_already",
            {
                "id": plain_array([outcome.id for outcome in left]),
                "token": plain_array([outcome.token for outcome in left]),
                "kind": plain_array([outcome.kind for outcome in left]),
            },
        )
        return done | {(job_id, token): Settled(job_id, True, cancelled=instead) for job_id, token, instead in rows}

    async def retire(self, worker: str) -> None:
        """Remove a worker's entry after its end."""
        await self._sweeps.run("worker/retire", {"worker": worker})

    def heart(self) -> PostgresHeart:
        """Return a new link for a heartbeat thread."""
        return PostgresHeart(self._settings)

    # -- the leader

    async def promote(self, limit: int) -> list[Ready]:
        """Move due scheduled and retrying jobs to queued."""
        return [Ready(*row) for row in await self._sweeps.run("sweep/promote", {"limit": limit})]

    async def next_due(self) -> float | None:
        """Return the seconds until the next scheduled or retrying job is due, or None."""
        seconds: float | None = (await self._sweeps.run("sweep/next_due"))[0][0]
        return seconds

    async def reclaim(self, limit: int) -> list[Reclaimed]:
        """Move jobs whose lease expired to queued with one crash more, or bury them as poison at the third."""
        rows = await self._sweeps.run("sweep/reclaim", reclaim_parameters(limit))
        return [Reclaimed(*row) for row in rows]

    async def head(self, queue: str, limit: int) -> list[Ready]:
        """Return the first claimable jobs of a queue by rank whose type a live worker has announced."""
        number = await self._number(queue, self._sweeps)
        rows = await self._sweeps.run("sweep/head", {"queue_id": number, "limit": limit})
        return [Ready(job_id, queue, rank) for job_id, rank in rows]

    async def claimable(self, queue: str, ids: Sequence[str]) -> list[Ready]:
        """Return those of these jobs that are claimable now and whose type a live worker has announced."""
        number = await self._number(queue, self._claims)
        rows = await self._claims.run("claim/claimable", {"queue_id": number, "ids": plain_array(known_ids(ids))})
        return [Ready(job_id, queue, rank) for job_id, rank in rows]

    async def ready_after(self, queue: str, rank: int, limit: int) -> list[Ready]:
        """Return ready jobs of a queue with a higher rank than this, in order, for a rebuild."""
        number = await self._number(queue, self._sweeps)
        rows = await self._sweeps.run("sweep/ready_after", {"queue_id": number, "rank": rank, "limit": limit})
        return [Ready(job_id, queue, job_rank) for job_id, job_rank in rows]

    async def queues(self) -> dict[str, bool]:
        """Return every queue's name and whether it is paused."""
        rows = await self._sweeps.run("sweep/queues")
        for name, number, _ in rows:
            self._queue_ids[name] = number
        return {name: paused for name, _, paused in rows}

    async def lead(self, duty: str, worker: str, seconds: float) -> bool:
        """Take or renew the leadership of a duty for some seconds; False when another worker holds it."""
        rows = await self._sweeps.run("sweep/lead", {"duty": duty, "worker": worker, "seconds": seconds})
        if not rows:
            return False
        await self._keep_epoch()
        return True

    async def _keep_epoch(self) -> None:
        """Raise the lease epoch after a crash of the server, which empties its unlogged live copy."""
        if (await self._sweeps.run("claim/epoch_check"))[0][0] == 0:
            await self._sweeps.transaction([("claim/epoch_lock", None), ("claim/epoch_raise", None)])

    async def upkeep(self) -> None:
        """Fold counters, prepare and drop history by its retention, in bounded steps."""
        await self._upkeep.run()

    async def _number(self, queue: str, lane: Lane) -> int | None:
        if queue not in self._queue_ids:
            for name, number, _ in await lane.run("sweep/queues"):
                self._queue_ids[name] = number
        return self._queue_ids.get(queue)
