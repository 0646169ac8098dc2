"""What workers that are free ask of the store."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from queue_core.errors import StoreUnavailable
from queue_core.job import Claim, Outcome, Ready, Settled
from queue_core.rules import Rules, rules_of
from queue_core.store import ClaimRequest
from queue_core.stores.postgres.gating import Running, claim_gated
from queue_core.stores.postgres.heads import Heads
from queue_core.stores.postgres.lane import Lane, Rows
from queue_core.stores.postgres.numbers import Numbers
from queue_core.stores.postgres.ranks import (
    BAND_BITS,
    EVERYWHERE,
    MOST,
    PAUSE_CLAIMS,
    Passed,
    Ranks,
    named,
    parameters,
    read,
)
from queue_core.stores.postgres.records import known_ids
from queue_core.stores.postgres.sql import plain_array, text_array

PAYLOAD, PRIORITY, RANK = 3, 4, 5
"""Columns of a claim's rows."""


def ready_again(outcomes: Sequence[Outcome], settled: Sequence[Settled]) -> list[Ready]:
    """Return the jobs that are ready after attempts ended."""
    back = [
        Ready(one.id, outcome.queue, one.rank)
        for outcome, one in zip(outcomes, settled, strict=True)
        if one.rank is not None
    ]
    return back + [ready for one in settled for ready in one.opened]


class Claiming:
    """See queue_core.store.JobStore for what each method does."""

    def __init__(self, lane: Lane, sweeps: Lane, numbers: Numbers, rules: Rules) -> None:
        self._lane = lane
        self._numbers = numbers
        self._rules = rules
        # what claims by rank have passed
        self.passed = Ranks(PAUSE_CLAIMS)
        # by queue
        self._running: dict[str, Running] = {}
        # what the audit asks
        self.heads = Heads(sweeps)

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
            # any payload comes with its job, which is not counted
            "inline": None,
        }
        if request.ids is None:
            rows = await self._claim_by_rank(request, params)
        else:
            rows = await self._claim(
                "claim/by_ids", request.queue, {**params, "ids": plain_array(known_ids(request.ids))}
            )
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

    async def _claim(self, query: str, queue: str, params: Mapping[str, Any]) -> Rows:
        rules = rules_of(self._rules, queue)
        if rules.gated:
            running = self._running.setdefault(queue, Running())
            claimed = await self._lane.carry_out(lambda: claim_gated(query, params, rules, running))
            return await self._with_payloads(claimed)
        return await self._lane.run(query, params)

    async def _claim_by_rank(self, request: ClaimRequest, params: Mapping[str, Any]) -> Rows:
        if rules_of(self._rules, request.queue).aging:
            # What arrives there later may stand before what was passed.
            return await self._claim("claim/by_rank", request.queue, {**params, **parameters([EVERYWHERE])})
        passed = self.passed.of(request.queue, request.types)
        await self._settle_doubts(passed, params)
        look = passed.look(time.monotonic())
        try:
            rows = await self._claim("claim/by_rank", request.queue, {**params, **parameters(look.parts)})
        except StoreUnavailable:
            passed.cut_off()
            raise
        ranks = [row[RANK] for row in rows]
        if rows and rows[-1][PRIORITY] != 127 - (ranks[-1] >> BAND_BITS):
            self.passed.forget(request.queue)  # it has aging, of which this process does not know
        else:
            passed.claimed(look, ranks, time.monotonic())
        return rows

    def heard(self, message: str) -> None:
        """Look again at ranks of a queue that others have put jobs back to, as a notification says."""
        queue, parts = read(message)
        self.passed.came_back(queue, parts, time.monotonic())
        self.heads.came_back(queue, parts)

    def came_back(self, ready: Sequence[Ready]) -> None:
        """Look again at the ranks of jobs that are ready once more, or late."""
        queues: dict[str, list[int]] = {}
        for job in ready:
            queues.setdefault(job.queue, []).append(job.rank)
        for queue, ranks in queues.items():
            parts = named(ranks)
            self.passed.came_back(queue, parts, time.monotonic())
            self.heads.came_back(queue, parts)

    async def _settle_doubts(self, passed: Passed, params: Mapping[str, Any]) -> None:
        now = time.monotonic()
        if passed.wants_edge(now):
            for (place,) in await self._lane.run("claim/edge", {name: params[name] for name in ("queue_id", "queue")}):
                passed.know_edge(place, now)
        elif passed.wants_first(now):
            look = passed.look(now)
            asked = {name: params[name] for name in ("queue_id", "types")}
            rows = await self._lane.run("claim/first", asked | parameters(look.parts))
            found = [rank for (rank,) in rows]
            passed.stopped(look, found, found[0] if found else MOST, time.monotonic())

    async def _with_payloads(self, rows: Rows) -> Rows:
        """Fetch what was too large to be sent under a lock; who has lost its lease by then is left out."""
        large = [row[0] for row in rows if row[PAYLOAD] is None]
        if not large:
            return rows
        fetched = await self._lane.run("claim/payloads", {"ids": plain_array(large)})
        found: dict[str, str] = {job_id: payload for job_id, payload in fetched}
        whole = [
            row if row[PAYLOAD] is not None else (*row[:PAYLOAD], found.get(row[0]), *row[PAYLOAD + 1 :])
            for row in rows
        ]
        return [row for row in whole if row[PAYLOAD] is not None]

    async def claimable(self, queue: str, ids: Sequence[str]) -> list[Ready]:
        """Return those of these jobs that are claimable now and whose type a live worker of this queue announced."""
        number = await self._numbers.find(queue, self._lane)
        rows = await self._lane.run("claim/claimable", {"queue_id": number, "ids": plain_array(known_ids(ids))})
        return [Ready(job_id, queue, rank) for job_id, rank in rows]

    async def ready_after(self, queue: str, rank: int, limit: int, whole: bool) -> list[Ready]:
        """Return ready jobs of a queue with a higher rank than this, in order; see `Heads.after`."""
        number = await self._numbers.find(queue, self.heads.lane)
        return await self.heads.after(queue, number, rank, limit, whole)
