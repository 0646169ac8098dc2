"""What workers that are free ask of the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from queue_core.job import Claim, Ready
from queue_core.rules import Rules, rules_of
from queue_core.store import ClaimRequest
from queue_core.stores.postgres.gating import claim_gated
from queue_core.stores.postgres.lane import Lane
from queue_core.stores.postgres.numbers import Numbers
from queue_core.stores.postgres.records import known_ids
from queue_core.stores.postgres.sql import plain_array, text_array


class Claiming:
    """See queue_core.store.JobStore for what each method does."""

    def __init__(self, lane: Lane, numbers: Numbers, rules: Rules) -> None:
        self._lane = lane
        self._numbers = numbers
        self._rules = rules

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        """Move ready jobs of a queue that is not paused to running, best rank first, each under a new lease token."""
        number = await self._numbers.find(request.queue, self._lane)
        if number is None or request.limit <= 0:
            return []
        params: dict[str, Any] = {
            "queue_id": number,
            "queue": request.queue,
            "types": None if request.types is None else text_array(request.types),
            "limit": request.limit,
            "worker": request.worker,
            "lease": request.lease,
            "claim": request.number,
            "starting": request.limit if request.begin is None else request.begin,
        }
        query = "claim/by_rank"
        if request.ids is not None:
            query, params["ids"] = "claim/by_ids", plain_array(known_ids(request.ids))
        rules = rules_of(self._rules, request.queue)
        if rules.gated:
            rows = await self._lane.carry_out(lambda: claim_gated(query, params, rules))
        else:
            rows = await self._lane.run(query, params)
        if not rows:
            await self._numbers.doubt(self._lane)
        queue = request.queue
        return [
            Claim(
                job_id,
                token,
                queue,
                type_,
                payload,
                priority,
                rank,
                retries,
                limit,
                crashes,
                at,
                tuple(tags or ()),
                key,
                losses,
            )
            for job_id, token, type_, payload, priority, rank, retries, limit, crashes, at, tags, key, losses in rows
        ]

    async def claimable(self, queue: str, ids: Sequence[str]) -> list[Ready]:
        """Return those of these jobs that are claimable now and whose type a live worker of this queue announced."""
        number = await self._numbers.find(queue, self._lane)
        rows = await self._lane.run("claim/claimable", {"queue_id": number, "ids": plain_array(known_ids(ids))})
        return [Ready(job_id, queue, rank) for job_id, rank in rows]
