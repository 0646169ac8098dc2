"""How attempts end and jobs come back: in one statement a kind; where ordering keys are let go of, in a transaction."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from queue_core.job import MOST_LOSSES, Outcome, Ready, Reclaimed, Settled
from queue_core.rules import Rules
from queue_core.store import Look
from queue_core.stores.postgres.duetimes import EVER, DueTimes, Looks
from queue_core.stores.postgres.keyed import (
    complete,
    is_ruled,
    promote_gated,
    reclaim_gated,
    settle_late,
    settle_soon,
    with_keys,
)
from queue_core.stores.postgres.lane import Lane, LockHeld
from queue_core.stores.postgres.plan import Plan
from queue_core.stores.postgres.settling import Key, answer, by_statement, once, parameters, reclaim_parameters
from queue_core.stores.postgres.sql import plain_array, text_array
from queue_core.stores.postgres.walking import Walk

LOCKED_SECONDS = 0.1
"""How soon ordering keys are looked at again that somebody has locked."""
FEW_DUE = 10
"""Due jobs found by a look whose time tells what the look itself took."""


class Lanes(NamedTuple):
    """Connections, so that none waits for another."""

    settles: Lane
    sweeps: Lane
    # for what locks gates: a caller's open transaction may hold them
    keyed: Lane


class Ends:
    """See queue_core.store.JobStore for what each method does."""

    def __init__(self, lanes: Lanes, rules: Rules) -> None:
        self._settles, self._sweeps, self._keyed = lanes
        self._rules = rules
        self._due = DueTimes()
        # those at whether anything is ready
        self._ready = Looks()
        self._leases = Walk(self._sweeps, "leases")
        # whether due jobs came to wait for ordering keys that somebody had locked in the last round
        self._locked = False

    async def settle(self, outcomes: Sequence[Outcome]) -> list[Settled]:
        """End attempts whose token still holds; refuse the others without changing anything."""
        first = once(outcomes)
        done: dict[Key, Settled] = {}
        ruled = [outcome for outcome in first.values() if is_ruled(outcome, self._rules)]
        plain = (
            [outcome for outcome in first.values() if not is_ruled(outcome, self._rules)] if ruled else first.values()
        )
        for statement, group in by_statement(plain).items():
            rows = await self._settles.run(statement, parameters(statement, group, self._rules))
            done.update(answer(row) for row in rows)
        if ruled:
            done |= await self._settle_ruled(ruled)
        if len(done) < len(first):
            done |= await self._second_look([outcome for key, outcome in first.items() if key not in done])
        return [
            done.get(key, refused) if first[key].kind == outcome.kind else refused
            for outcome in outcomes
            for key, refused in [((outcome.id, outcome.token), Settled(outcome.id, False))]
        ]

    async def _settle_ruled(self, outcomes: Sequence[Outcome]) -> dict[Key, Settled]:
        weight = sum(len(outcome.result or "") for outcome in outcomes)
        try:
            return await self._keyed.carry_out(lambda: settle_soon(outcomes, self._rules), patient=False, weight=weight)
        except LockHeld:
            return await self._keyed.carry_out(lambda: settle_late(outcomes, self._rules), weight=weight)

    async def _second_look(self, refused: Sequence[Outcome]) -> dict[Key, Settled]:
        """Find out why outcomes were refused.

        They did not name their ordering key, are to be cancelled instead, were written before (a lost reply), or stale.
        """
        done: dict[Key, Settled] = {}
        keys = await self._settles.run("gates/of_unfinished", {"ids": plain_array([one.id for one in refused])})
        named = with_keys(refused, keys)
        if named:
            done |= await self._settle_ruled(named)
        ends = [one for one in refused if one.kind in ("retrying", "released") and (one.id, one.token) not in done]
        if ends:
            rows = await self._settles.run("settle/cancel_instead", parameters("settle/cancel_instead", ends))
            done |= {(job_id, token): Settled(job_id, True, cancelled=True) for job_id, token in rows}
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

    def completion(self, outcome: Outcome) -> Plan[Settled]:
        """Return the plan that completes one attempt in somebody else's transaction."""
        return complete(outcome, self._rules)

    async def promote(self, limit: int) -> list[Ready]:
        """Move due scheduled and retrying jobs to queued."""
        back, began = self._due.back(), time.monotonic()
        rows = await self._sweeps.run("sweep/promote", {"limit": limit, "back": back})
        if len(rows) < FEW_DUE:
            self._due.took(back, time.monotonic() - began)
        ready = [Ready(job_id, queue, rank) for job_id, queue, rank, key in rows if key is None]
        named = [row for row in rows if row[3] is not None]
        if not named:
            self._locked = False
            return ready
        try:
            opened, self._locked = await self._keyed.carry_out(lambda: promote_gated(named, self._rules), patient=False)
        except LockHeld:
            opened, self._locked = await self._keyed.carry_out(lambda: promote_gated(named, self._rules, make=False))
        return sorted(ready + opened, key=lambda one: one.rank)

    async def next_due(self) -> float | None:
        """Return the seconds until the next scheduled or retrying job is due, or None."""
        back, began = self._due.back(), time.monotonic()
        seconds: float | None = (await self._sweeps.run("sweep/next_due", {"back": back}))[0][0]
        self._due.took(back, time.monotonic() - began)
        if not self._locked:
            return seconds
        return LOCKED_SECONDS if seconds is None or seconds <= 0 else min(seconds, LOCKED_SECONDS)

    async def look(self) -> Look:
        """Return what a leader has to do, in one statement.

        Where it takes long, jobs are assumed to be ready or running, and due ones looked for among the last.
        """
        back, busy, began = self._due.back(), self._ready.rests, time.monotonic()
        (row,) = await self._sweeps.run("sweep/look", {"back": back, "busy": busy})
        took = time.monotonic() - began
        if not busy:
            self._ready.took(took)
        elif back == EVER:
            self._due.took(back, took)
        return Look(*row)

    async def reclaim(self, limit: int, bound: int = MOST_LOSSES) -> list[Reclaimed]:
        """Move jobs whose lease expired to queued with one loss more, or bury them as lost where that makes `bound`."""
        rows = await self._leases.run(
            "sweep/reclaim", reclaim_parameters(limit, self._rules, bound=bound), lambda rows: len(rows) >= limit
        )
        taken = [Reclaimed(*row[:-1]) for row in rows if row[3] is not None]
        named = [row for row in rows if row[3] is None]
        if named:
            taken += await self._keyed.carry_out(lambda: reclaim_gated(named, self._rules, bound))
        return taken

    async def write_off(self, workers: Sequence[str]) -> None:
        """Remove the entries and leaderships of workers whose processes are gone, and end their leases."""
        await self._sweeps.run("worker/write_off", {"workers": text_array(workers)})
