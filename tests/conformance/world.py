"""The store under test with a hand on its clock, and factories that bring a job into any state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from queue_core.model.job import Claim, Job, Outcome, Settled
from queue_core.model.operation import UNCHANGED, Changed, ChangeOptions, MemberVerb
from queue_core.ports.inspector import Inspector
from queue_core.ports.operations import OperationStore
from queue_core.ports.schedules import ScheduleStore
from queue_core.ports.store import ClaimRequest, HeartbeatReply, JobStore, LeaseRenewal, StoreHeartbeat
from tests.conformance.making import LEASE, QUEUE, TYPE, WORKER, new_job, outcome, worker_beat

STATES = ("scheduled", "queued", "running", "retrying", "completed", "cancelled", "dead", "trashed")
"""Every state that `World.job_in` can make; the trash counts as one of its own."""
FINISHED = ("completed", "cancelled", "dead", "trashed")
UNFINISHED = ("scheduled", "queued", "running", "retrying")
WAITING = ("scheduled", "queued", "retrying")


class World:
    """Knows the protocols only."""

    def __init__(
        self,
        store: JobStore,
        inspector: Inspector,
        advance: Callable[[float], Awaitable[None]],
        schedules: ScheduleStore | None = None,
        operations: OperationStore | None = None,
    ) -> None:
        self.store = store
        self.inspector = inspector
        self._schedules = schedules
        self._operations = operations
        # lets this many seconds pass for the store
        self.advance = advance
        # waits for what upkeep does beside everything else
        self.beside: Callable[[], Awaitable[None]] | None = None
        self._heart: StoreHeartbeat | None = None

    async def upkeep(self) -> None:
        """Do the leader's upkeep, to its end."""
        await self.store.upkeep()
        if self.beside is not None:
            await self.beside()

    async def close(self) -> None:
        if self._heart is not None:
            await asyncio.to_thread(self._heart.close)
        await self.inspector.close()
        if self._schedules is not None:
            await self._schedules.close()
        if self._operations is not None:
            await self._operations.close()
        await self.store.close()

    @property
    def schedules(self) -> ScheduleStore:
        assert self._schedules is not None
        return self._schedules

    @property
    def operations(self) -> OperationStore:
        assert self._operations is not None
        return self._operations

    # -- the hot path with defaults

    async def insert(self, **given: Any) -> str:
        job = new_job(**given)
        await self.store.insert([job])
        return job.id

    async def insert_many(self, count: int, **given: Any) -> list[str]:
        jobs = [new_job(**given) for _ in range(count)]
        await self.store.insert(jobs)
        return [job.id for job in jobs]

    async def claim(self, limit: int = 100, **given: Any) -> list[Claim]:
        fields = {"queue": QUEUE, "worker": WORKER, "types": (TYPE,), "lease": LEASE}
        return await self.store.claim(ClaimRequest(**fields | given, limit=limit))

    async def claim_ids(self, limit: int = 100, **given: Any) -> list[str]:
        return [claim.id for claim in await self.claim(limit, **given)]

    async def claim_job(self, job_id: str, **given: Any) -> Claim:
        (claim,) = await self.claim(ids=[job_id], **given)
        return claim

    async def settle(self, claim: Claim, kind: str, **given: Any) -> Settled:
        (settled,) = await self.store.settle([outcome(claim, kind, **given)])
        return settled

    async def settle_all(self, outcomes: Sequence[Outcome]) -> list[bool]:
        return [settled.accepted for settled in await self.store.settle(outcomes)]

    async def beat(self, *leases: LeaseRenewal, **given: Any) -> HeartbeatReply:
        heart = self._heart = self._heart or self.store.open_heartbeat()
        return await asyncio.to_thread(heart.renew, worker_beat(*leases, **given))

    async def change(self, verb: MemberVerb, ids: Sequence[str], options: ChangeOptions = UNCHANGED) -> Changed:
        return await self.operations.change(verb, ids, options)

    # -- the states

    async def running(self, worker: str = WORKER, lease: float = LEASE, **given: Any) -> Claim:
        return await self.claim_job(await self.insert(**given), worker=worker, lease=lease, **_of(given))

    async def ended(self, kind: str, fields: dict[str, Any] | None = None, **given: Any) -> Claim:
        """Return the claim of a job whose attempt has been ended like this."""
        claim = await self.running(**given)
        settled = await self.settle(claim, kind, **fields or {})
        assert settled.accepted
        return claim

    async def lost(self, times: int, **given: Any) -> str:
        """Return the id of a job whose worker was lost this often; the third time buries it."""
        job_id = await self.insert(**given)
        for number in range(times):
            await self.claim_job(job_id, worker=f"lost-{number + 1}", **_of(given))
            await self.advance(LEASE + 1)
            (reclaimed,) = await self.store.reclaim(10, 3)
            assert reclaimed.id == job_id
        return job_id

    async def trashed(self, **given: Any) -> Claim:
        claim = await self.ended("dead", given.pop("fields", None), **given)
        assert (await self.change("delete", [claim.id])).ids == (claim.id,)
        return claim

    async def job_in(self, state: str, **given: Any) -> str:
        """Return the id of a new job in this state."""
        if state == "queued":
            return await self.insert(**given)
        if state == "scheduled":
            return await self.insert(**{"delay": 3600.0} | given)
        if state == "running":
            return (await self.running(**given)).id
        if state == "trashed":
            return (await self.trashed(**given)).id
        return (await self.ended(state, **given)).id

    # -- what became of it

    async def job(self, job_id: str) -> Job:
        return await self.inspector.get(job_id)

    async def status(self, job_id: str) -> str:
        return str((await self.job(job_id)).status)

    async def now(self) -> float:
        return (await self.inspector.overview()).now.timestamp()


def _of(given: dict[str, Any]) -> dict[str, Any]:
    """Return how a job with these fields is claimed."""
    return {"queue": given.get("queue", QUEUE), "types": (given.get("type", TYPE),)}
