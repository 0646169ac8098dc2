"""The first claimable jobs of queues, for the audit, without what ended before them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from queue_core.errors import StoreUnavailable
from queue_core.job import Ready
from queue_core.stores.postgres.lane import Lane, Rows
from queue_core.stores.postgres.ranks import EVERYWHERE, MOST, Look, Part, Passed, Ranks, parameters
from queue_core.stores.postgres.sql import plain_array, text_array

USUAL, USUAL_EACH = 0.005, 0.00003
"""Seconds of a statement about heads that is not slow, and of each queue and each job in it."""
DOUBT_SECONDS, DOUBT = 60.0, 200.0
"""How long all queues are taken for ready ones after the look which of them are took long, also as a multiple of that
time: their heads show it."""


class Heads:
    """See queue_core.store.JobStore for what each method does."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self._passed = Ranks()
        # by queue: which types its workers had announced
        self._announced: dict[str, int] = {}
        self._doubt_until = float("-inf")

    def came_back(self, queue: str, parts: Sequence[Part]) -> None:
        """Look at these ranks of a queue again."""
        self._passed.came_back(queue, parts, time.monotonic())

    async def heads(self, queues: Sequence[str], limit: int) -> list[Ready]:
        """Return the first claimable jobs of each of these queues whose type a live worker has announced."""
        began = time.monotonic()
        await self._know_edge([passed for queue in queues if (passed := self._passed.of(queue)).wants_edge(began)])
        looks = {queue: self._passed.of(queue).look(began) for queue in queues}
        parts = [(queue, part) for queue, look in looks.items() for part in look.parts]
        asked = {
            "queues": text_array(queue for queue, _ in parts),
            "above": plain_array(low for _, (low, _) in parts),
            "up_to": plain_array(high for _, (_, high) in parts),
            "limit": limit,
        }
        try:
            rows = await self.lane.run("sweep/heads", asked)
        except StoreUnavailable:
            for queue in queues:
                self._passed.of(queue).cut_off()
            raise
        usual = USUAL + USUAL_EACH * (len(rows) + len(parts))
        found = self._learn(looks, rows, limit, max(0.0, time.monotonic() - began - usual))
        return [job for jobs in found.values() for job in jobs[:limit]]

    async def after(self, queue: str, number: int | None, rank: int, limit: int, whole: bool) -> list[Ready]:
        """Return the next ready jobs of a queue; unless it is to be `whole`, without what is passed.

        A whole page reads what ended, too, once. Where that was cut off, it does without what is passed, too.
        """
        passed = self._passed.of(queue)
        if passed.wants_edge(time.monotonic()):
            await self._know_edge([passed])
        parts = [EVERYWHERE] if whole and not passed.given_up else passed.left()
        clipped = [(max(low, rank), high) for low, high in parts if high > rank]
        try:
            rows = await self.lane.run("sweep/ready_after", {"queue_id": number, "limit": limit, **parameters(clipped)})
        except StoreUnavailable:
            passed.cut_off()
            raise
        return [Ready(job_id, queue, job_rank) for job_id, job_rank in rows]

    async def _know_edge(self, doubtful: Sequence[Passed]) -> None:
        now = time.monotonic()
        for (place,) in await self.lane.run("sweep/edge") if doubtful else ():
            for passed in doubtful:
                passed.know_edge(place, now)

    def _learn(self, looks: dict[str, Look], rows: Rows, limit: int, extra: float) -> dict[str, list[Ready]]:
        """Note what the heads show of what is passed; return the jobs of each queue."""
        found: dict[str, list[Ready]] = {}
        for job_id, queue, rank, announced in rows:
            jobs = found.setdefault(queue, [])
            if job_id is not None:
                jobs.append(Ready(job_id, queue, rank))
            if self._announced.setdefault(queue, announced) != announced:
                # What is passed may have been of a type that nobody ran.
                self._announced[queue] = announced
                self._passed.forget(queue)
                looks.pop(queue, None)
        now = time.monotonic()
        for queue in found.keys() & looks.keys():
            jobs, passed = found[queue], self._passed.of(queue)
            reached = jobs[limit - 1].rank if len(jobs) >= limit > 0 else MOST
            passed.stopped(looks[queue], [job.rank for job in jobs], reached, now, extra)
        return found

    async def ready_queues(self) -> list[str]:
        """Return the queues that are not paused and have ready or running jobs."""
        began = time.monotonic()
        if began < self._doubt_until:
            return [queue for queue, _, paused in await self.lane.run("sweep/queues") if not paused]
        rows: Rows = []
        try:
            rows = await self.lane.run("sweep/ready_queues")
        finally:
            took = time.monotonic() - began
            if took > 4 * USUAL + USUAL_EACH * len(rows):
                self._doubt_until = time.monotonic() + max(DOUBT_SECONDS, DOUBT * took)
        return [queue for (queue,) in rows]
